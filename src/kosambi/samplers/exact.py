r"""Draws without iteration, for Gaussian likelihoods.

With c(y, f) = (y − f)²/2σ² both potentials are quadratic in the whitened coordinates,

    V(w) = ½|Rw − q|² + ½|w|² + constant,   so   w ~ N(H⁻¹Rᵀq, H⁻¹),   H = I + RᵀR,

and J draws cost one factorisation of an M×M matrix. RᵀR is the normal matrix of the data, R and q come from a QR
factorisation, so that no digits are lost to squaring (`data_terms.QuadraticTerm`).
"""

from __future__ import annotations

from typing import ClassVar

import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np

from kosambi._core.precision import at_rest, compiled, host_generator
from kosambi._core.progress import Clock
from kosambi._core.types import Array, Key
from kosambi.errors import InputError
from kosambi.samplers.base import AbstractSampler
from kosambi.samplers.convergence import R_HAT_LIMIT
from kosambi.samplers.report import GaussianDistribution, Particles, Report, report_of
from kosambi.target import Target
from kosambi.target.data_terms import QuadraticTerm


class Exact(AbstractSampler):
    """Independent draws in closed form, for `Gaussian` likelihoods with one known noise or one per observation.

    >>> import jax, numpy as np, kosambi as ko
    >>> x = np.linspace(-1.0, 1.0, 50)[:, None]
    >>> basis = ko.PointBasis(ko.GaussianProcess(ko.kernels.Matern52()), x[::10])
    >>> target = ko.Target(basis, ko.likelihoods.Gaussian(0.1), x, np.sin(3 * x[:, 0]))
    >>> particles, report = ko.sample(jax.random.key(0), target, ko.samplers.Exact(), num_particles=100)
    >>> report.steps, report.r_hat, particles.distribution.mean.shape
    (0, 1.0, (5,))
    """

    name: ClassVar[str] = "exact"

    @staticmethod
    def applies_to(target: Target) -> bool:
        """Whether the potential is quadratic."""
        return isinstance(target.term, QuadraticTerm)


def run(key: Key, target: Target, num_particles: int, clock: Clock) -> tuple[Particles, Report]:
    """The posterior distribution of the coordinates, and draws from it."""
    if not isinstance(target.term, QuadraticTerm):
        raise InputError(
            f"`Exact` needs a `Gaussian` likelihood, whose posterior is normal. Got "
            f'`{type(target.likelihood).__name__}`. Use sampler="auto".'
        )
    found = at_rest(_posterior(target.term))
    noise = host_generator(key).normal(size=(num_particles, found.mean.shape[0]))
    w = found.mean + noise @ found.root.T
    energy = np.asarray(target.potential(np.asarray(target.basis.colour(w)))).mean()
    report = report_of(
        target,
        clock,
        Exact.name,
        converged=True,
        r_hat=1.0,
        r_hat_limit=R_HAT_LIMIT,
        r_hat_by_coordinate=np.ones(found.mean.shape[0]),
        ess=float(num_particles),
        ess_tail=float(num_particles),
        acceptance_by_particle=np.ones(num_particles),
        energy=np.array([energy]),
        energy_steps=np.zeros(1, dtype=np.int64),
        r_hat_trace=np.ones(1),
    )
    return Particles.from_whitened(target, w, found), report


@compiled
def _posterior(term: QuadraticTerm) -> GaussianDistribution:
    # The factor of I + RᵀR from a QR of [R; I]: its smallest eigenvalues keep all their digits.
    size = term.root.shape[1]
    stacked = jnp.concatenate([term.root, jnp.eye(size, dtype=term.root.dtype)])
    basis, upper = jnp.linalg.qr(stacked)
    aim: Array = basis[: term.root.shape[0]].T @ term.aim
    mean = jsl.solve_triangular(upper, aim, lower=False)
    return GaussianDistribution(mean, jsl.solve_triangular(upper, jnp.eye(size, dtype=term.root.dtype), lower=False))
