r"""Modes of a potential and the normal distribution that touches it there.

    ŵ = argmin V(w),   H = I + curvature of the data term at ŵ,   N(ŵ, H⁻¹)

in whitened coordinates. `find_modes` is Newton's method with a line search, O(NM²) an iteration. H is the Hessian where
that is safely positive, and a positive curvature (Fisher or clipped) elsewhere, so each direction goes down. A cost
that is not convex can have several modes: then the search starts from several prior draws and keeps what differs.
"""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np
from jaxtyping import Bool, Float, Int

from kosambi._core.journal import recalled
from kosambi._core.linalg import is_for_host, one_blas_thread
from kosambi._core.precision import Module, compiled, host_generator, public
from kosambi._core.threads import in_threads
from kosambi._core.types import Array, Key
from kosambi.errors import NumericalError
from kosambi.target.corrected_term import CorrectedTerm
from kosambi.target.data_terms import AbstractDataTerm, FactorisedTerm, data_value
from kosambi.target.host_newton import HostPotential, downhill, inverse_root, search_on_host
from kosambi.target.marginal_term import MarginalTerm
from kosambi.target.newton import newton
from kosambi.target.target import Target

NUM_STARTS, FEW_STARTS = 8, 4
"""Prior draws from which the search starts, beside zero, when the cost is not convex; the second where there are many
coordinates, and modes differ in whether single observations are followed."""
SAME_MODE = 0.1
"""Modes closer than this many standard deviations of Laplace's approximation are one."""
MANY_COORDINATES, VERY_MANY = 64, 256
"""From which a curvature takes longer than many gradients; and from which there are fewer starts."""


class Modes(Module):
    """Local minima of V in whitened coordinates, flattened to K = M·C numbers, the most probable first.

    >>> import jax, numpy as np, kosambi as ko
    >>> x = np.linspace(-1.0, 1.0, 50)[:, None]
    >>> basis = ko.PointBasis(ko.GaussianProcess(ko.kernels.Matern52()), x[::10])
    >>> target = ko.Target(basis, ko.likelihoods.Bernoulli(), x, (x[:, 0] > 0).astype(float))
    >>> modes = ko.target.find_modes(jax.random.key(0), target)
    >>> modes.positions.shape, bool(modes.converged[0])
    ((1, 5), True)
    """

    positions: Float[Array, "B K"]
    """The modes ŵ."""
    potentials: Float[Array, " B"]
    """V at the modes."""
    roots: Float[Array, "B K K"]
    """A with A Aᵀ = H⁻¹: Laplace's approximation is ŵ + A v with v standard normal."""
    log_masses: Float[Array, " B"]
    """−V − ½ log|H|: the logarithm of each mode's mass by Laplace's approximation, up to a constant that they share."""
    iterations: Int[Array, " B"]
    """Newton iterations taken."""
    decrements: Float[Array, " B"]
    """How much a further Newton step would promise to lower V."""
    converged: Bool[Array, " B"]
    """Whether that is below 1e-6; a cost with a kink, such as `Laplace`, may stop earlier."""

    @property
    def weights(self) -> Float[Array, " B"]:
        """Shares of the modes in the posterior by Laplace's approximation, summing to one."""
        mass = np.exp(self.log_masses - np.max(self.log_masses))
        return mass / mass.sum()


@public
def find_modes(key: Key, target: Target, starts: Float[Array, "S K"] | None = None) -> Modes:
    """Distinct local minima of V, searched for from zero and, when the cost is not convex, from prior draws.

    With neighbours it begins where their sites say. `starts` are further whitened coordinates to begin at when the cost
    is not convex, such as posterior draws.
    """
    if isinstance(target.term, CorrectedTerm):
        return _of_stream(target.term)
    size = int(np.prod(target.shape))
    every = [np.zeros((1, size))]
    if not target.likelihood.is_convex:
        # Sites of neighbours are those of one mode, which they leave as the only one.
        number = 0 if isinstance(target.term, MarginalTerm) else NUM_STARTS if size < VERY_MANY else FEW_STARTS
        every += [host_generator(key).normal(size=(number, size))] + ([] if starts is None else [starts])
    begun = np.concatenate(every)
    return Modes(*recalled("modes", lambda: _leaves(_distinct(target, begun)), begun))


def _of_stream(term: CorrectedTerm) -> Modes:
    """The mode around which the term of a stream was made, which was searched for with all rows."""
    factor = np.asarray(term.factor)
    log_mass = -float(term.lowest) - float(np.sum(np.log(np.diagonal(factor))))
    fields = (term.centre, term.lowest, inverse_root(factor), log_mass, 0, 0.0, True)
    return Modes(*(np.asarray(field)[None] for field in fields))


def _distinct(target: Target, starts: Float[Array, "S K"], known: Modes | None = None) -> Modes:
    """The different modes that searches from `starts` end in, the heaviest first."""
    found = _searched(target, starts, known)
    finite = np.isfinite(found.log_masses)
    if not finite.any():
        raise NumericalError(
            f"No mode was found: the potential is not finite around any of {len(starts)} starts. "
            "Look for values of y that the likelihood gives no probability, and at the scale of the kernel."
        )
    # The heaviest first.
    order = [int(i) for i in np.argsort(-found.log_masses, kind="stable") if finite[i]]
    if found.converged[order].any():
        # A search that was given up is no mode. With a kink in the cost none may converge; then the best is taken.
        order = [i for i in order if found.converged[i]]
    kept, _ = _merged(found, order)
    return jax.tree.map(lambda leaf: leaf[np.array(kept)], found)


def _merged(found: Modes, order: list[int]) -> tuple[list[int], Int[np.ndarray, " S"]]:
    """Searches that ended in different modes, and for every search the place of its mode among them."""
    kept: list[int] = []
    labels = np.full(len(found.potentials), -1)
    for i in order:
        apart = [_distance(found.positions[j], found.roots[j], found.positions[i]) for j in kept]
        near = [place for place, distance in enumerate(apart) if distance <= SAME_MODE]
        labels[i] = near[0] if near else len(kept)
        if not near:
            kept.append(int(i))
    return kept, labels


def _distance(mode: Float[np.ndarray, " K"], root: Float[np.ndarray, "K K"], w: Float[np.ndarray, " K"]) -> float:
    """How far w is from a mode, in standard deviations; the root is upper triangular, the inverse of a factor."""
    from scipy.linalg import solve_triangular  # here, because it doubles what `import kosambi` adds to `import jax`

    return float(np.linalg.norm(solve_triangular(root, w - mode, lower=False, check_finite=False)))


def minima(target: Target, starts: Float[Array, "S K"]) -> tuple[Modes, Int[np.ndarray, " S"]]:
    """The minima below each of `starts`, whitened, and which of them each start belongs to."""
    found = _searched(target, starts)
    order = [int(i) for i in np.argsort(-found.log_masses, kind="stable")]
    kept, labels = _merged(found, order)
    return jax.tree.map(lambda leaf: leaf[np.array(kept)], found), labels


@public
def count_basins(target: Target, particles: Float[Array, " J *K"], known: Modes | None = None) -> int:
    """How many modes are reached downhill from nine of the particles, (J, M) whitened; 1 when the cost is convex.

    `known` are modes that most of them may lead to.
    """
    if target.likelihood.is_convex:
        return 1
    # One of each superchain and one more.
    each = np.arange(NUM_STARTS + 1)
    chosen = (each * (len(particles) // NUM_STARTS) // NUM_STARTS * NUM_STARTS + each) % len(particles)
    starts = np.asarray(particles, dtype=np.float64).reshape(len(particles), -1)[chosen]
    potential = _host_potential(target)
    if known is None or potential is None or starts.shape[1] < MANY_COORDINATES:
        return len(_distinct(target, starts, known).potentials)
    # Where ways end is enough to tell modes apart; the curvature of each is not asked for.
    mode, root = np.asarray(known.positions[0]), np.asarray(known.roots[0])
    with one_blas_thread():
        ends = in_threads(lambda start: downhill(potential, start, mode, root), list(starts))
    different: list[Float[np.ndarray, " K"]] = []
    for end in ends:
        if all(_distance(other, root, end) > SAME_MODE for other in different):
            different.append(end)
    return len(different)


class _End(NamedTuple):
    """Where one search ended: what `Modes` has of it."""

    position: Float[np.ndarray, " K"]
    potential: float
    root: Float[np.ndarray, "K K"]
    log_mass: float
    iterations: int
    decrement: float
    converged: bool


def _searched(target: Target, starts: Float[Array, "S K"], known: Modes | None = None) -> Modes:
    """Newton's method from each start: on the host for a sum over rows, and on an accelerator where there is much."""
    potential = _host_potential(target)
    if potential is None:
        return jax.tree.map(np.asarray, _search(target, jnp.asarray(starts)))
    different = [] if known is None else [_End(*fields) for fields in zip(*_leaves(known), strict=True)]
    different = [end for end in different if end.converged]

    every: list[_End] = []
    starts = np.asarray(starts, dtype=np.float64)
    if not different:
        first = starts[0] if np.any(starts[0]) else potential.likely_start()
        every, starts = [_searched_from(potential, first)], starts[1:]
        different = [end for end in every if end.converged]

    def search(start: Float[np.ndarray, " K"]) -> _End:
        if not different or len(start) < MANY_COORDINATES:
            return _searched_from(potential, start)
        # Most lead to modes that are known, which takes much less to see than to search for them again.
        below = downhill(potential, start, different[0].position, different[0].root)
        known = [end for end in different if _distance(end.position, end.root, below) <= SAME_MODE]
        return known[0] if known else _searched_from(potential, below)

    with one_blas_thread():
        # Side by side; what is known does not depend on which search ends first.
        every += in_threads(search, list(starts)) if len(starts) else []
    return Modes(*(np.stack([np.asarray(each) for each in field]) for field in zip(*every, strict=True)))


def _host_potential(target: Target) -> HostPotential | None:
    """The potential on the host, where it is a sum over rows and there is no more for an accelerator to do."""
    term = target.term
    is_there = isinstance(term, FactorisedTerm | MarginalTerm) and is_for_host(term.psi.size)
    return HostPotential(term) if is_there else None  # type: ignore[arg-type]


def _searched_from(potential: HostPotential, start: Float[np.ndarray, " K"]) -> _End:
    end = search_on_host(potential, start)
    log_mass = -end.value - float(np.sum(np.log(np.diagonal(end.factor))))
    root = inverse_root(end.factor)
    return _End(end.w, end.value, root, log_mass, end.iterations, end.decrement, end.decrement < 1e-6)


def _leaves(modes: Modes) -> list[np.ndarray]:
    names = ("positions", "potentials", "roots", "log_masses", "iterations", "decrements", "converged")
    return [np.asarray(getattr(modes, name)) for name in names]


@compiled
def _search(target: Target, starts: Float[Array, "S K"]) -> Modes:
    """Newton's method from each start, one after the other, so that memory is that of one."""

    def fields(start: Array) -> tuple[Array, ...]:
        found = newton(target.term, target.shape, target.likelihood.is_convex, start)
        root = jsl.solve_triangular(found.factor, jnp.eye(start.shape[0], dtype=start.dtype), lower=True).T
        log_mass = -found.value - jnp.sum(jnp.log(jnp.diagonal(found.factor)))
        return found.w, found.value, root, log_mass, found.iterations - 1, found.decrement, found.decrement < 1e-6

    return Modes(*jax.lax.map(fields, starts))


class Frame(Module):
    """V in coordinates v with w = ŵ + A v, where Laplace's approximation is N(0, I); all J particles at once.

    It holds the data's part of V and no more, so that a loop compiled for it serves every kernel and number of columns.
    """

    term: AbstractDataTerm
    shape: tuple[int, ...] = eqx.field(static=True)
    """Of one w: (M,), or (M, C) with C latent functions."""
    mode: Float[Array, " K"]
    root: Float[Array, "K K"]
    lowest: Float[Array, ""]
    """V at the mode."""

    def whitened(self, v: Float[Array, "J K"]) -> Float[Array, "J K"]:
        """w = ŵ + A v, traceable."""
        return self.mode + v @ self.root.T

    watched = whitened
    """What a run looks at, the same here."""

    def inverse(self, w: Float[Array, "J K"]) -> Float[Array, "J K"]:
        """v = A⁻¹(w − ŵ), traceable."""
        # A is upper triangular, being the inverse of the transposed Cholesky factor of H.
        return jsl.solve_triangular(self.root, (w - self.mode).T, lower=False).T

    def potential(self, v: Float[Array, "J K"]) -> Float[Array, " J"]:
        """The potential V at w = ŵ + A v, traceable."""
        w = self.whitened(v)
        return data_value(self.term, self._shaped(w)) + 0.5 * jnp.sum(jnp.square(w), axis=1)

    def value_and_gradient(self, v: Float[Array, "J K"]) -> tuple[Array, Array, Array]:
        """Whitened coordinates, V, and its gradient in v; traceable."""
        w = self.whitened(v)
        value, gradient = self.term.value_and_gradient(self._shaped(w))
        value = value + 0.5 * jnp.sum(jnp.square(w), axis=1)
        return w, value, (w + gradient.reshape(w.shape)) @ self.root

    def _shaped(self, w: Array) -> Array:
        return w.reshape(w.shape[0], *self.shape)
