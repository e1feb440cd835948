r"""The data's part of a potential with its rows on several devices.

    D(w_j) = Σ_d Σ_{n on d} D_n(w_j)

with D_n the cost of row n, or with neighbours that cost with its residual integrated out. Each device evaluates its
rows for its particles as `FactorisedTerm` and `MarginalTerm` do, in blocks, and `psum` adds what the devices have
found: J numbers for values, (J, M) for gradients, M×M for curvatures. Rows are filled up with such as change nothing
until each device has as many. Sums are in another order than on one device, which changes their last digits. A
Gaussian likelihood has left M rows of a quadratic, which every device has.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jaxtyping import Float

from kosambi._core.meshes import PARTICLES, ROWS, Spec, filled, put
from kosambi._core.precision import lift, with_fields
from kosambi._core.types import Array
from kosambi.errors import InputError
from kosambi.target.data_terms import AbstractDataTerm, FactorisedTerm, QuadraticTerm
from kosambi.target.marginal_term import MarginalTerm
from kosambi.target.modes import Frame

RowSum = FactorisedTerm | MarginalTerm
"""Sums over rows; both have `rows` and `at_rows`."""


class ShardedTerm(AbstractDataTerm):
    """A sum over rows that lie on several devices; made by `spread`."""

    term: RowSum
    """All rows, each array along the axis `rows` of the mesh."""
    surplus: Float[Array, ""]
    """What the rows that fill up add to the value."""
    mesh: Mesh = eqx.field(static=True)

    def value(self, w: Array) -> Float[Array, " J"]:
        """D(w_j), traceable."""
        return self._summed(lambda part, own: part.value(own), w, Spec(PARTICLES)) - self.surplus

    def gradient(self, w: Array) -> Array:
        """∇D(w_j), shaped like w, traceable."""
        return self._summed(lambda part, own: part.gradient(own), w, Spec(PARTICLES))

    def value_and_gradient(self, w: Array) -> tuple[Float[Array, " J"], Array]:
        """Both from one list of latent values."""
        value, gradient = self._summed(lambda part, own: part.value_and_gradient(own), w, Spec(PARTICLES))
        return value - self.surplus, gradient

    def curvature(self, w: Array) -> Float[Array, "K K"]:
        """Σ_n h_n ψ(x_n)ψ(x_n)ᵀ, for one w."""
        return self._summed(lambda part, own: part.curvature(own), w, Spec())

    def compose(self, matrix: Float[Array, "M L"]) -> AbstractDataTerm:
        """ψ·matrix in place of ψ, where ψ lies."""
        along = NamedSharding(self.mesh, Spec(ROWS))
        psi = jax.lax.with_sharding_constraint(self.term.psi @ matrix, along)  # type: ignore[no-untyped-call]
        return ShardedTerm(self.term.at_rows((psi, *self.term.rows()[1:])), self.surplus, self.mesh)

    def _summed(self, function: Callable[[RowSum, Array], Any], w: Array, along: Any) -> Any:
        """The sum of `function` over the devices' rows, for particles along the axis that has them."""
        if w.shape[0] % self.mesh.shape[PARTICLES]:
            # `HMC` asks for one chain at a time: all devices have the chains then, and share the rows.
            along = Spec()

        def local(rows: tuple[Any, ...], own: Array) -> Any:
            return jax.lax.psum(function(self.term.at_rows(rows), own), ROWS)  # type: ignore[no-untyped-call]

        # A scan over blocks begins with zeros, which are the same everywhere, and goes on with sums that are not.
        mapped = jax.shard_map(local, mesh=self.mesh, in_specs=(Spec(ROWS), along), out_specs=along, check_vma=False)
        return mapped(self.term.rows(), w)


def check_term(term: AbstractDataTerm) -> RowSum | QuadraticTerm:
    """A term that devices can share, or an error that says why not."""
    if not isinstance(term, FactorisedTerm | MarginalTerm | QuadraticTerm):
        raise InputError(
            f"`mesh` is for a cost that is a sum over rows in memory. Got a `{type(term).__name__}`: joint costs are "
            "no such sum, and rows of a stream are not here. Leave out `mesh`."
        )
    if not isinstance(term, QuadraticTerm) and term.likelihood.num_rows is not None:
        raise InputError("`mesh` does not know a likelihood with a parameter for each row. Leave out `mesh`.")
    return term


def spread(term: AbstractDataTerm, mesh: Mesh) -> ShardedTerm | QuadraticTerm:
    """The same sum with its rows on the devices of a mesh.

    >>> import numpy as np, kosambi as ko
    >>> x = np.linspace(-1.0, 1.0, 50)[:, None]
    >>> basis = ko.PointBasis(ko.GaussianProcess(ko.kernels.Matern52()), x[::10])
    >>> term = ko.Target(basis, ko.likelihoods.Poisson(), x, np.arange(50.0) // 10).term
    >>> spread(term, ko.parallel.mesh(rows=1)).term.psi.shape
    (50, 5)
    """
    found = check_term(term)
    if isinstance(found, QuadraticTerm):
        return everywhere(found, mesh)
    parts = mesh.shape[ROWS]
    rows, surplus = _filled(found, parts) if isinstance(found, FactorisedTerm) else _filled_up(found, parts)
    placed = tuple(None if each is None else put(each, mesh, Spec(ROWS)) for each in rows)
    likelihood, rule = everywhere((found.likelihood, found.rule), mesh)
    whole = with_fields(found, likelihood=likelihood).at_rows(placed)
    if rule is not None:
        whole = with_fields(whole, rule=rule)
    return ShardedTerm(whole, everywhere(np.asarray(surplus), mesh), mesh)


def everywhere(tree: Any, mesh: Mesh) -> Any:
    """Every array on every device."""
    arrays, rest = eqx.partition(lift(tree), eqx.is_array)
    return eqx.combine(jax.tree.map(lambda each: jax.device_put(each, NamedSharding(mesh, Spec())), arrays), rest)


def _filled(term: FactorisedTerm, parts: int) -> tuple[tuple[Any, ...], float]:
    """With copies of the last row of weight zero, at which the cost is finite where it is at that row."""
    psi, y, offset, weights, deviation = term.rows()
    counts = np.ones(len(y)) if weights is None else np.asarray(weights)
    counts = np.concatenate([counts, np.zeros(-len(y) % parts)])
    psi, y, offset = (filled(each, parts) for each in (psi, y, offset))
    return (psi, y, offset, counts, None if deviation is None else filled(deviation, parts)), 0.0


def _filled_up(term: MarginalTerm, parts: int) -> tuple[tuple[Any, ...], float]:
    """With copies of one row that depend on no coordinate, since closed forms of integrals may know no weights.

    It is the one that its own site says most of, at the place of that site, where its cost is as low as any.
    """
    known: tuple[Any, ...] = tuple(None if each is None else np.asarray(each) for each in term.rows())
    missing = -len(term.y) % parts
    if not missing:
        return known, 0.0
    one: list[Any] = [None if each is None else each[[int(np.argmax(term.precision))]] for each in known]
    # Features, and the offset.
    one[0], one[2] = np.zeros_like(one[0]), one[-1]
    with jax.enable_x64(True):
        cost = float(np.asarray(lift(term.at_rows(tuple(one))).value(jnp.zeros((1, known[0].shape[1]))))[0])
    if not np.isfinite(cost):
        raise InputError("The cost of the row with the most precise site is not finite there. Leave out `mesh`.")
    rows = zip(known, one, strict=True)
    return tuple(None if a is None else np.concatenate([a, np.repeat(b, missing, axis=0)]) for a, b in rows), (
        missing * cost
    )


def placed_particles(particles: Float[Array, "J ..."], mesh: Mesh) -> Float[Array, "J ..."]:
    """Particles along their axis of the mesh."""
    number = mesh.shape[PARTICLES]
    if len(particles) % number:
        raise InputError(
            f"{len(particles)} chains cannot be shared out among `particles={number}` parts. Choose a number of parts "
            "that divides eight, or a number of particles that they divide."
        )
    return put(particles, mesh, Spec(PARTICLES))


def placed(frame: Frame, particles: Float[Array, "J K"], mesh: Mesh) -> tuple[Frame, Float[Array, "J K"]]:
    """A frame with its rows, and particles, on the devices of a mesh."""
    begun = placed_particles(particles, mesh)
    numbers = {name: everywhere(np.asarray(getattr(frame, name)), mesh) for name in ("mode", "root", "lowest")}
    return with_fields(frame, term=spread(frame.term, mesh), **numbers), begun
