"""KL(Π_∞, Π*_M), the divergence of the paper's posterior from the best with the same coordinates, and its bounds."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jaxtyping import Float

import kosambi as ko
from reproduction._small_problems import Problem, small_problem


def divergence(likelihood: str, prior: str, num_rows: int, sizes: list[int], num_particles: int) -> dict[str, Any]:
    """The certificate for each number of greedy inducing points.

    Arguments:
        likelihood: a name known to `small_problem`; with "gaussian" Π_∞ = Π*_M, and the distance from the full
            posterior, which is then known in closed form, takes its place.
        prior: another such name.
        num_rows: N.
        sizes: M.
        num_particles: J, draws that the divergence is estimated on.
    """
    problem = small_problem(likelihood, prior, num_rows)
    rows = []
    for size, key in zip(sizes, jax.random.split(jax.random.key(11), len(sizes)), strict=True):
        posterior = ko.infer(
            key,
            problem.prior,
            problem.likelihood,
            problem.x,
            problem.y,
            num_inducing=size,
            num_particles=num_particles,
            progress=False,
        )
        certificate = posterior.certificate()
        row = {
            "M": size,
            "kept": posterior.basis.size,
            "divergence": certificate.divergence,
            "standard_error": certificate.standard_error,
            "theorem": certificate.bounds.theorem,
            "lipschitz": certificate.bounds.lipschitz,
            "curvature": certificate.bounds.curvature,
            "remainder": certificate.remainder,
            "full_bound": certificate.full_bound,
            "pareto_k": certificate.pareto_k,
            "quadrature_error": certificate.quadrature_error,
            "converged": posterior.report.converged if posterior.report else None,
        }
        if likelihood == "gaussian":
            row["full_gap"] = full_gap(problem, np.asarray(posterior.basis.whitened_mean(problem.x)))
        rows.append(row)
    return {"likelihood": likelihood, "prior": prior, "num_rows": num_rows, "rows": rows}


def full_gap(problem: Problem, psi: Float[np.ndarray, "N M"]) -> float:
    """KL(Π*_M, full posterior) = log p(y) − ELBO of a Gaussian likelihood, with dense matrices."""
    noise = float(problem.likelihood.noise) ** 2
    r, q = np.asarray(problem.prior.covariance(problem.x)), psi @ psi.T

    def log_normal(covariance: Float[np.ndarray, "N N"]) -> float:
        noisy = covariance + noise * np.eye(len(covariance))
        return -0.5 * float(np.linalg.slogdet(2.0 * np.pi * noisy)[1] + problem.y @ np.linalg.solve(noisy, problem.y))

    return log_normal(r) - log_normal(q) + 0.5 * float(np.trace(r - q)) / noise
