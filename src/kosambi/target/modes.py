r"""Modes of a potential and the normal law that touches it there.

    ŵ = argmin V(w),   H = I + curvature of the data term at ŵ,   N(ŵ, H⁻¹)

in whitened coordinates. `find_modes` is Newton's method with a line search, O(NM²) an iteration. H is the Hessian where
that is safely positive, and a positive curvature (Fisher or clipped) elsewhere, so each direction goes down. A cost
that is not convex can have several modes: then the search starts from several prior draws and keeps what differs.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np
from jaxtyping import Bool, Float, Int

from kosambi._core.errors import NumericalError
from kosambi._core.precision import Module, compiled, host_generator, public
from kosambi._core.types import Array, Key
from kosambi.target.data_terms import AbstractDataTerm
from kosambi.target.target import Target

NUM_STARTS = 8
"""Prior draws from which the search starts, beside zero, when the cost is not convex."""
MAX_ITERATIONS = 100
"""Newton iterations from one start."""
TOLERANCE = 1e-10
"""The search ends when a Newton step promises to lower V by less than this."""
FLATTEST = 0.05
"""The Hessian of a cost that is not convex is used while it is above this part of the positive curvature."""
SAME_MODE = 0.1
"""Modes closer than this many standard deviations of the Laplace law are one."""


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
    """A with A Aᵀ = H⁻¹: the Laplace law is ŵ + A v with v standard normal."""
    log_masses: Float[Array, " B"]
    """−V − ½ log|H|: the logarithm of each mode's mass under its Laplace law, up to a constant that they share."""
    iterations: Int[Array, " B"]
    """Newton iterations taken."""
    decrements: Float[Array, " B"]
    """How much a further Newton step would promise to lower V."""
    converged: Bool[Array, " B"]
    """Whether that is below 1e-6; a cost with a kink, such as `Laplace`, may stop earlier."""

    @property
    def weights(self) -> Float[Array, " B"]:
        """Shares of the modes in the posterior as the Laplace laws see them, summing to one."""
        mass = np.exp(self.log_masses - np.max(self.log_masses))
        return mass / mass.sum()


@public
def find_modes(key: Key, target: Target) -> Modes:
    """Distinct local minima of V, searched for from zero and, when the cost is not convex, from prior draws."""
    size = int(np.prod(target.shape))
    starts = np.zeros((1, size))
    if not target.likelihood.is_convex:
        starts = np.concatenate([starts, host_generator(key).normal(size=(NUM_STARTS, size))])
    return _distinct(target, starts)


def _distinct(target: Target, starts: Float[Array, "S K"]) -> Modes:
    """The different modes that searches from `starts` end in, the heaviest first."""
    found = jax.tree.map(np.asarray, _search(target, jnp.asarray(starts)))
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
        # Distances in the metric of the mode kept; a triangular solve, since the root is the inverse of a factor.
        apart = [np.linalg.norm(np.linalg.solve(found.roots[j], found.positions[i] - found.positions[j])) for j in kept]
        near = [place for place, distance in enumerate(apart) if distance <= SAME_MODE]
        labels[i] = near[0] if near else len(kept)
        if not near:
            kept.append(int(i))
    return kept, labels


def minima(target: Target, starts: Float[Array, "S K"]) -> tuple[Modes, Int[np.ndarray, " S"]]:
    """The minima below each of `starts`, whitened, and which of them each start belongs to."""
    found = jax.tree.map(np.asarray, _search(target, jnp.asarray(starts)))
    order = [int(i) for i in np.argsort(-found.log_masses, kind="stable")]
    kept, labels = _merged(found, order)
    return jax.tree.map(lambda leaf: leaf[np.array(kept)], found), labels


@public
def count_basins(target: Target, particles: Float[Array, "J *K"]) -> int:
    """How many modes are reached downhill from nine of the particles, (J, M) whitened; 1 when the cost is convex."""
    if target.likelihood.is_convex:
        return 1
    # One of each superchain and one more: as many as the search has starts, so that nothing is compiled again.
    each = np.arange(NUM_STARTS + 1)
    chosen = (each * (len(particles) // NUM_STARTS) // NUM_STARTS * NUM_STARTS + each) % len(particles)
    starts = np.asarray(particles, dtype=np.float64).reshape(len(particles), -1)[chosen]
    return len(_distinct(target, starts).potentials)


@compiled
def _search(target: Target, starts: Float[Array, "S K"]) -> Modes:
    """Newton's method from each start, one after the other, so that memory is that of one."""

    def fields(start: Array) -> tuple[Array, ...]:
        found = newton(target.term, target.shape, target.likelihood.is_convex, start)
        root = jsl.solve_triangular(found.factor, jnp.eye(start.shape[0], dtype=start.dtype), lower=True).T
        log_mass = -found.value - jnp.sum(jnp.log(jnp.diagonal(found.factor)))
        return found.w, found.value, root, log_mass, found.iterations - 1, found.decrement, found.decrement < 1e-6

    return Modes(*jax.lax.map(fields, starts))


class Search(NamedTuple):
    """A point, what is known there, and the step being tried from it."""

    w: Float[Array, " K"]
    value: Float[Array, ""]
    factor: Float[Array, "K K"]
    """The Cholesky factor of H."""
    direction: Float[Array, " K"]
    decrement: Float[Array, ""]
    length: Float[Array, ""]
    iterations: Int[Array, ""]


def newton(term: AbstractDataTerm, shape: tuple[int, ...], is_convex: bool, start: Float[Array, " K"]) -> Search:
    """Where the search for a minimum of D(w) + ½|w|² from one start ends; w has `shape`. Traceable."""

    # One place evaluates V and one the curvature, whether a step is the first, taken or halved: compile time is part
    # of the wait.
    def going_on(search: Search) -> Array:
        return (search.iterations <= MAX_ITERATIONS) & (search.decrement > TOLERANCE) & (search.length > 1e-10)

    def advance(search: Search) -> Search:
        trial = search.w + search.length * search.direction
        values, slopes = term.value_and_gradient(trial.reshape(1, *shape))
        value, slope = values[0] + 0.5 * jnp.sum(jnp.square(trial)), trial + slopes.reshape(trial.shape)

        def take(_: None) -> Search:
            factor = curvature_factor(term, shape, is_convex, trial)
            direction = -jsl.cho_solve((factor, True), slope)
            decrement = -0.5 * jnp.dot(slope, direction)
            return Search(trial, value, factor, direction, decrement, jnp.ones_like(value), search.iterations + 1)

        def halve(_: None) -> Search:
            return search._replace(length=0.5 * search.length)

        enough = value <= search.value - 2e-4 * search.length * search.decrement
        return jax.lax.cond(enough, take, halve, None)

    zero, infinite = jnp.zeros_like(start), jnp.asarray(jnp.inf, dtype=start.dtype)
    identity = jnp.eye(start.shape[0], dtype=start.dtype)
    one = jnp.ones((), dtype=start.dtype)
    # Any finite value is below infinity, so the start itself is the first step taken.
    first = Search(start, infinite, identity, zero, one, one, jnp.asarray(0))
    return jax.lax.while_loop(going_on, advance, first)


def curvature_factor(
    term: AbstractDataTerm, shape: tuple[int, ...], is_convex: bool, w: Float[Array, " K"]
) -> Float[Array, "K K"]:
    """The Cholesky factor of the curvature at w; of the Hessian, unless that is too flat, where the two differ.

    For a Student-t cost the Fisher information takes outliers for ordinary data. With the Hessian a search takes a few
    iterations, and a sampler two to four times fewer steps.
    """
    identity = jnp.eye(w.shape[0], dtype=w.dtype)
    if is_convex:
        return jnp.linalg.cholesky(term.curvature(w.reshape(shape)) + identity)
    curvature = term.search_curvature(w.reshape(shape)) + identity
    hessian = term.hessian(w.reshape(shape)) + identity
    steep = jnp.linalg.cholesky(hessian - FLATTEST * curvature)
    return jnp.linalg.cholesky(jnp.where(jnp.all(jnp.isfinite(steep)), hessian, curvature))


class Frame(Module):
    """V in coordinates v with w = ŵ + A v, in which the Laplace law is standard normal; all J particles at once."""

    target: Target
    mode: Float[Array, " K"]
    root: Float[Array, "K K"]
    lowest: Float[Array, ""]
    """V at the mode."""

    def whitened(self, v: Float[Array, "J K"]) -> Float[Array, "J K"]:
        """W = ŵ + A v, traceable."""
        return self.mode + v @ self.root.T

    def inverse(self, w: Float[Array, "J K"]) -> Float[Array, "J K"]:
        """V = A⁻¹(w − ŵ), traceable."""
        # A is upper triangular, being the inverse of the transposed Cholesky factor of H.
        return jsl.solve_triangular(self.root, (w - self.mode).T, lower=False).T

    def potential(self, v: Float[Array, "J K"]) -> Float[Array, " J"]:
        """V, traceable."""
        return self.target.whitened_potential(self._shaped(self.whitened(v)))

    def value_and_gradient(self, v: Float[Array, "J K"]) -> tuple[Array, Array, Array]:
        """Whitened coordinates, V, and its gradient in v; traceable."""
        w = self.whitened(v)
        value, gradient = self.target.whitened_value_and_gradient(self._shaped(w))
        return w, value, gradient.reshape(w.shape) @ self.root

    def _shaped(self, w: Array) -> Array:
        return w.reshape(w.shape[0], *self.target.shape)
