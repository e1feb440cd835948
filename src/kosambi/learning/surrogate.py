r"""A log density that costs next to nothing, from values and slopes of the one that costs much.

Of minus a log density U in whitened coordinates z a normal approximation leaves the remainder ρ(z) = U(z) − ½|z|². With
a Gaussian process prior on ρ, a constant and the covariance function e^{−|z − z'|²/2ℓ²}, its values and slopes at n
points give the posterior mean

    ρ(z) ≈ c + Σ_i k(z, z_i) [a_i + b_i·(z − z_i)/ℓ²],

whose weights a_i and b_i solve one linear system of n(P + 1) equations. ℓ is the one of a few that makes values and
slopes most probable. Trajectories along ½|z|² + ρ(z) are free; a decision by U itself at their ends makes the draws
those of U (Rasmussen 2003).
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from kosambi._core.lapack import factorise

MANY_NUMBERS = 24
"""Free numbers above which a surrogate knows too little of the directions to be tried."""
MOST_EQUATIONS = 1200
"""Equations of the system, at most; of more points the last ones are taken."""
# Lengthscales that are tried, over √P, and what is added to the diagonal: slopes of a bound are not exact.
_LENGTHSCALES, _JITTERS = (0.8, 1.2, 1.8, 2.7), (1e-8, 1e-5)
# The prior variance of the constant, over that of the rest.
_CONSTANT = 1e4


class Surrogate:
    """½|z|² + ρ(z) and its slope.

    Arguments:
        points: (n, P), z_i.
        values: (n,), U there.
        slopes: (n, P), its gradient.
        lengthscale: ℓ.
        jitter: a part of the prior variances that is added to them.
    """

    def __init__(
        self,
        points: Float[np.ndarray, "n P"],
        values: Float[np.ndarray, " n"],
        slopes: Float[np.ndarray, "n P"],
        lengthscale: float,
        jitter: float,
    ) -> None:
        from scipy.linalg import lapack

        (number, size), square = points.shape, lengthscale**2
        self._points, self._square = points, square
        away = points[:, None, :] - points[None, :, :]
        covariance = np.exp(-0.5 * np.einsum("ijp,ijp->ij", away, away) / square)
        system = np.empty((number * (1 + size),) * 2, order="F")
        system[:number, :number] = covariance + _CONSTANT
        # Cov(ρ(z_i), ∂ρ(z_j)), and Cov(∂ρ(z_i), ∂ρ(z_j)).
        crossed = (covariance[:, :, None] * away / square).reshape(number, -1)
        system[:number, number:], system[number:, :number] = crossed, crossed.T
        turned = np.eye(size) / square - away[..., :, None] * away[..., None, :] / square**2
        both = covariance[:, :, None, None] * turned
        system[number:, number:] = both.transpose(0, 2, 1, 3).reshape(number * size, -1)
        system[np.diag_indices_from(system)] += jitter * np.repeat([1.0, 1.0 / square], [number, number * size])
        # From the lowest on, so that the constant has few digits to lose.
        lowest = float(np.min(values))
        left = values - lowest - 0.5 * np.einsum("ip,ip->i", points, points)
        known = np.concatenate([left, (slopes - points).ravel()])
        self.log_likelihood = -np.inf
        """Of values and slopes, with the variance that suits them best, up to a constant."""
        if not factorise(system):
            return
        solved, _ = lapack.dpotrs(system, known, lower=1)
        variance = max(float(known @ solved) / len(known), np.finfo(np.float64).tiny)
        self.log_likelihood = -0.5 * len(known) * np.log(variance) - float(np.sum(np.log(np.diagonal(system))))
        self._heights, self._tilts = solved[:number], solved[number:].reshape(number, size)
        self._level = lowest + _CONSTANT * float(np.sum(self._heights))

    def slope(self, at: Float[np.ndarray, " P"]) -> Float[np.ndarray, " P"]:
        """z + ∇ρ(z)."""
        away, near, weights = self._parts(at)
        return at + near @ self._tilts / self._square - (near * weights) @ away / self._square

    def value(self, at: Float[np.ndarray, " P"]) -> float:
        """½|z|² + ρ(z)."""
        _, near, weights = self._parts(at)
        return self._level + float(near @ weights) + 0.5 * float(at @ at)

    def _parts(self, at: Float[np.ndarray, " P"]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """z − z_i, k(z, z_i), and a_i + b_i·(z − z_i)/ℓ²."""
        away = at - self._points
        near = np.exp(-0.5 / self._square * np.einsum("ip,ip->i", away, away))
        return away, near, self._heights + np.einsum("ip,ip->i", away, self._tilts) / self._square


def fitted(
    points: Float[np.ndarray, "n P"], values: Float[np.ndarray, " n"], slopes: Float[np.ndarray, "n P"]
) -> Surrogate | None:
    """The surrogate with the best of a few lengthscales, from the lower ones of the points; None if none can be had.

    What is known far up says little of where draws lie, and asks for a shorter lengthscale.

    >>> import numpy as np
    >>> z = np.linspace(-3.0, 3.0, 9)[:, None]
    >>> found = fitted(z, np.log(np.cosh(2.0 * z[:, 0])), 2.0 * np.tanh(2.0 * z))
    >>> bool(abs(found.value(np.array([0.6])) - found.value(np.zeros(1)) - np.log(np.cosh(1.2))) < 0.01)
    True
    """
    size = points.shape[1]
    # U − min U of a normal distribution is half of χ² with P degrees of freedom.
    usual = np.isfinite(values) & np.all(np.isfinite(slopes), axis=1)
    kept = usual & (values <= np.min(values, where=usual, initial=np.inf) + 0.5 * size + 3.0 * np.sqrt(size) + 10.0)
    every = np.flatnonzero(kept)[-max(2, MOST_EQUATIONS // (size + 1)) :]
    if not len(every):
        return None
    tried = [
        Surrogate(points[every], values[every], slopes[every], scale * np.sqrt(size), jitter)
        for scale in _LENGTHSCALES
        for jitter in _JITTERS
    ]
    best = max(tried, key=lambda one: one.log_likelihood)
    return best if np.isfinite(best.log_likelihood) else None
