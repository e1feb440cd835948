r"""The data's part of a potential with its rows on several devices.

    D(w_j) = Σ_d Σ_{n on d} weight_n c(y_n, m(x_n) + ψ(x_n)ᵀw_j)

Each device evaluates its rows for its particles as `FactorisedTerm` does, in blocks, and `psum` adds what the devices
have found: J numbers for values, (J, M) for gradients, M×M for curvatures. Rows are filled up with such as weigh
nothing until each device has as many. Sums are in another order than on one device, which changes their last digits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Float

from kosambi._core.precision import lift, with_fields
from kosambi._core.types import Array
from kosambi.errors import InputError
from kosambi.parallel.meshes import PARTICLES, ROWS
from kosambi.target.data_terms import AbstractDataTerm, FactorisedTerm
from kosambi.target.modes import Frame

Spec: Any = PartitionSpec


class ShardedTerm(AbstractDataTerm):
    """A sum over rows that lie on several devices; made by `spread`."""

    term: FactorisedTerm
    """All rows, each array along the axis `rows` of the mesh."""
    mesh: Mesh = eqx.field(static=True)

    def value(self, w: Array) -> Float[Array, " J"]:
        """D(w_j), traceable."""
        return self._summed(lambda part, own: part.value(own), w, Spec(PARTICLES))

    def gradient(self, w: Array) -> Array:
        """∇D(w_j), shaped like w, traceable."""
        return self._summed(lambda part, own: part.gradient(own), w, Spec(PARTICLES))

    def value_and_gradient(self, w: Array) -> tuple[Float[Array, " J"], Array]:
        """Both from one list of latent values."""
        return self._summed(lambda part, own: part.value_and_gradient(own), w, Spec(PARTICLES))

    def curvature(self, w: Array) -> Float[Array, "K K"]:
        """Σ_n h_n ψ(x_n)ψ(x_n)ᵀ, for one w."""
        return self._summed(lambda part, own: part.curvature(own), w, Spec())

    def compose(self, matrix: Float[Array, "M L"]) -> AbstractDataTerm:
        """ψ·matrix in place of ψ."""
        return ShardedTerm(self.term.compose(matrix), self.mesh)  # type: ignore[arg-type]

    def _summed(self, function: Callable[[FactorisedTerm, Array], Any], w: Array, along: Spec) -> Any:
        """The sum of `function` over the devices' rows, for particles along the axis that has them."""
        likelihood, rule = self.term.likelihood, self.term.rule

        def local(rows: tuple[Any, ...], own: Array) -> Any:
            psi, y, offset, weights, deviation = rows
            part = FactorisedTerm(likelihood, psi, y, offset, weights, deviation, rule)
            return jax.lax.psum(function(part, own), ROWS)  # type: ignore[no-untyped-call]

        rows = self.term.psi, self.term.y, self.term.offset, self.term.weights, self.term.deviation
        # A scan over blocks begins with zeros, which are the same everywhere, and goes on with sums that are not.
        mapped = jax.shard_map(local, mesh=self.mesh, in_specs=(Spec(ROWS), along), out_specs=along, check_vma=False)
        return mapped(rows, w)


def check_term(term: AbstractDataTerm) -> FactorisedTerm:
    """A sum over rows that devices can share, or an error that says why not."""
    if not isinstance(term, FactorisedTerm):
        raise InputError(
            f"`mesh` is for a cost that is a sum over rows in coordinates, with steps of a Markov chain. Got a "
            f"`{type(term).__name__}`: a Gaussian likelihood has closed forms, neighbours and joint costs are no such "
            "sum. Leave out `mesh`."
        )
    if term.likelihood.num_rows is not None:
        raise InputError("`mesh` does not know a likelihood with a parameter for each row. Leave out `mesh`.")
    return term


def spread(term: AbstractDataTerm, mesh: Mesh) -> ShardedTerm:
    """The same sum with its rows on the devices of a mesh.

    >>> import numpy as np, kosambi as ko
    >>> x = np.linspace(-1.0, 1.0, 50)[:, None]
    >>> basis = ko.PointBasis(ko.GaussianProcess(ko.kernels.Matern52()), x[::10])
    >>> term = ko.Target(basis, ko.likelihoods.Poisson(), x, np.arange(50.0) // 10).term
    >>> spread(term, ko.parallel.mesh(rows=1)).term.psi.shape
    (50, 5)
    """
    term = check_term(term)
    size, parts = len(term.y), mesh.shape[ROWS]
    missing = -size % parts
    weights = np.ones(size) if term.weights is None else np.asarray(term.weights)

    def filled(array: Any) -> np.ndarray:
        """With copies of the last row, at which the cost is finite where it is at that row."""
        whole = np.asarray(array)
        return np.concatenate([whole, np.repeat(whole[-1:], missing, axis=0)])

    names = ("psi", "y", "offset") + (("deviation",) if term.deviation is not None else ())
    rows: dict[str, Any] = {name: filled(getattr(term, name)) for name in names}
    rows["weights"] = np.concatenate([weights, np.zeros(missing)])
    along = NamedSharding(mesh, Spec(ROWS))
    own = {name: jax.device_put(lift(array), along) for name, array in rows.items()}
    deviation = own.get("deviation")
    likelihood, rule = jax.device_put(lift((term.likelihood, term.rule)), NamedSharding(mesh, Spec()))
    whole = FactorisedTerm(likelihood, own["psi"], own["y"], own["offset"], own["weights"], deviation, rule)
    return ShardedTerm(whole, mesh)


def placed(frame: Frame, particles: Float[Array, "J K"], mesh: Mesh) -> tuple[Frame, Float[Array, "J K"]]:
    """A frame with its rows, and particles, on the devices of a mesh."""
    number = mesh.shape[PARTICLES]
    if len(particles) % number:
        raise InputError(
            f"{len(particles)} chains cannot be shared out among `particles={number}` parts. Choose a number of parts "
            "that divides eight, or a number of particles that they divide."
        )
    everywhere, along = NamedSharding(mesh, Spec()), NamedSharding(mesh, Spec(PARTICLES))
    numbers = {name: jax.device_put(lift(getattr(frame, name)), everywhere) for name in ("mode", "root", "lowest")}
    whole = with_fields(frame, term=spread(frame.term, mesh), **numbers)
    return whole, jax.device_put(lift(particles), along)
