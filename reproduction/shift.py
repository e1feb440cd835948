"""`python -m reproduction shift`: observations with an unknown shift, y = f + s·b + σε, b ~ Bernoulli(α).

The paper's figure has two groups of draws, s apart. They come from where its particles begin: its data are not shifted,
and the shifted mode is over a hundred nats up. Beside it are data half-way between both modes, for which the log-odds
have a closed form: where s is 15σ or more, inputs have no gaps and y is centred near s/2, all observations are shifted
together or none is, and with ψ the whitened functions at the data and C = ψψᵀ + σ²I

    log-odds = N log(α/(1 − α)) + log N(y − s; 0, C) − log N(y; 0, C).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

import kosambi as ko
from reproduction import curves
from reproduction.experiment import Cell, Experiment, Found, Scale

CURVE, SIZE, NUM_TEST = 2, 1000, 400
SHIFT, NOISE, PROBABILITY = 20.0, 1.0, 0.5
NUM_PARTICLES, NUM_INDUCING = 50, 12
CUT = -2.35
DURATION = 0.1
STEP_SIZES = (1e-1, 1e-2, 1e-3)
HALFWAY_ROWS = 60
LOG_ODDS = (-2.0, 0.0, 1.0)
KEPT_INPUTS = 80
KEPT_DRAWS = 50


def cells(scale: Scale) -> list[Cell]:
    """The paper's data by both samplers, and data with known log-odds."""
    many = 512 if scale.quick else 4096
    found = [
        Cell("paper", paper),
        Cell("paper-tempering", paper_tempered, {"num_chains": 8 if scale.quick else 64, "num_particles": 64}),
    ]
    wanted = LOG_ODDS[-1:] if scale.quick else LOG_ODDS
    found += [Cell(f"odds-{odds:g}", halfway, {"log_odds": odds, "num_particles": many}) for odds in wanted]
    return found


def paper_problem() -> ko.Target:
    """Curve 2 without a shift in the data, as published, and the paper's kernel and basis."""
    rows = curves.random_split(SIZE, NUM_TEST).train
    x, y = curves.grid(SIZE)[rows], curves.unshifted(CURVE, SIZE)[rows]
    likelihood = ko.likelihoods.ShiftMixture(SHIFT, PROBABILITY, NOISE)
    prior = ko.GaussianRandomElement(
        ko.kernels.SquaredExponential(0.693, 0.693, active_dims=None), ko.measures.empirical(x)
    )
    prior, _, _ = ko.fit_hyperparameters(jax.random.key(0), prior, likelihood, x, y, "paper", progress=False)
    points = x[ko.inducing.greedy_variance(prior.kernel, x, NUM_INDUCING)]
    return ko.Target(ko.NystromBasis(prior, points), likelihood, x, y)


def halfway_problem(log_odds: float, num_rows: int = HALFWAY_ROWS) -> ko.Target:
    """Data centred at s/2, with the probability of a shift that gives these log-odds."""
    x = np.linspace(-3.0, 3.0, num_rows)[:, None]
    y = 0.5 * SHIFT + 2.0 * np.sin(x[:, 0]) + NOISE * np.random.default_rng(0).normal(size=num_rows)
    prior = ko.GaussianProcess(ko.kernels.SquaredExponential(1.0, 100.0, active_dims=None))
    basis = ko.PointBasis(prior, np.linspace(-3.0, 3.0, NUM_INDUCING)[:, None])
    of_data = log_odds_of_data(np.asarray(basis.whitened_mean(x)), y, SHIFT, NOISE)
    alpha = 1.0 / (1.0 + np.exp(-(log_odds - of_data) / num_rows))
    return ko.Target(basis, ko.likelihoods.ShiftMixture(SHIFT, alpha, NOISE), x, y)


def log_odds_of_data(psi: Float[np.ndarray, "N M"], y: Float[np.ndarray, " N"], shift: float, noise: float) -> float:
    """Log N(y − s; 0, C) − log N(y; 0, C) with C = ψψᵀ + σ²I, at the cost of an M×M matrix.

    >>> round(log_odds_of_data(np.zeros((2, 1)), np.array([1.0, 0.0]), 1.0, 1.0), 12)
    0.0
    """
    inner = noise**2 * np.eye(psi.shape[1]) + psi.T @ psi

    def squares(error: np.ndarray) -> float:
        part = psi.T @ error
        return float(error @ error - part @ np.linalg.solve(inner, part)) / noise**2

    return 0.5 * (squares(y) - squares(y - shift))


def closed_log_odds(target: ko.Target) -> float:
    """Log-odds that every observation is shifted, against none, where no other state has weight."""
    likelihood: Any = target.likelihood
    alpha, y = float(likelihood.probability), np.asarray(target.y)
    psi = np.asarray(target.basis.whitened_mean(target.x))
    of_data = log_odds_of_data(psi, y, float(likelihood.shift), float(likelihood.noise))
    return len(y) * float(np.log(alpha) - np.log1p(-alpha)) + of_data


def paper_start(target: ko.Target, num_particles: int = NUM_PARTICLES) -> Float[np.ndarray, "J M"]:
    """The paper's start: u = √M Λ^{-1/2}Vᵀa, with all of a near one number from −1 to 3, which differs by particle.

    Since e(Z) = √M VΛ^{1/2}, that makes f(Z) = M·a. The published code has the sign of the shift reversed; here it is
    that of the paper, and a is reversed instead.
    """
    levels = -np.linspace(-1.0, 3.0, num_particles)[:, None]
    values = levels + 1e-4 * np.random.default_rng(0).normal(size=(num_particles, NUM_INDUCING))
    at_points = np.asarray(target.basis.conditional_mean(target.basis.inducing_points))
    return np.linalg.lstsq(at_points, NUM_INDUCING * values.T, rcond=None)[0].T


def is_shifted(target: ko.Target, at_data: Float[np.ndarray, "J N"]) -> np.ndarray:
    """Whether a draw takes most observations for shifted."""
    likelihood: Any = target.likelihood
    shifted: np.ndarray = np.mean(np.asarray(target.y) - at_data, axis=1) > 0.5 * float(likelihood.shift)
    return shifted


def is_mixed(target: ko.Target, at_data: Float[np.ndarray, "J N"]) -> np.ndarray:
    """Whether a draw takes some observations for shifted and others not, a tenth at least of either."""
    likelihood: Any = target.likelihood
    share = np.mean(np.asarray(target.y) - at_data > 0.5 * float(likelihood.shift), axis=1)
    mixed: np.ndarray = np.abs(share - 0.5) < 0.4
    return mixed


def paper() -> dict[str, Any]:
    """The paper's figure: the step size with the lowest energy at the end, from the paper's start."""
    target = paper_problem()
    start = paper_start(target)
    search = curves.search_step_size(target, list(STEP_SIZES), DURATION, start)
    found = {"tried": search.tried, "closed": closed_log_odds(target), "alpha": PROBABILITY, **_minima(target)}
    if search.particles is not None:
        found |= describe(target, search.particles, search.report)
    return found


def paper_tempered(num_chains: int, num_particles: int) -> dict[str, Any]:
    """The same posterior by tempering."""
    target = paper_problem()
    sampler = ko.samplers.Tempering(num_chains)
    particles, report = ko.sample(jax.random.key(1), target, sampler, num_particles, progress=False)
    return {"closed": closed_log_odds(target), "alpha": PROBABILITY, **describe(target, particles, report)}


def halfway(log_odds: float, num_particles: int) -> dict[str, Any]:
    """Tempering, and `MALA` from the start of the paper's figure, on data with these log-odds."""
    target = halfway_problem(log_odds)
    particles, report = ko.sample(jax.random.key(2), target, "tempering", num_particles, progress=False)
    found = describe(target, particles, report, keep_draws=log_odds == LOG_ODDS[-1])
    levels = -NUM_INDUCING * np.linspace(-1.0, 3.0, NUM_PARTICLES)
    start = np.broadcast_to(levels[:, None], (NUM_PARTICLES, *target.shape))
    stuck, _ = ko.sample(jax.random.key(3), target, ko.samplers.MALA(), NUM_PARTICLES, initial=start, progress=False)
    at_data = np.asarray(stuck.whitened) @ np.asarray(target.basis.whitened_mean(target.x)).T
    alpha = float(target.likelihood.probability)  # type: ignore[attr-defined]
    local = {
        "num_particles": NUM_PARTICLES,
        "shifted": int(np.sum(is_shifted(target, at_data))),
        "mixed": int(np.sum(is_mixed(target, at_data))),
        "begun": int(np.sum(levels < 0.0)),
    }
    return {"closed": closed_log_odds(target), "alpha": alpha, "local": local, **found}


def _minima(target: ko.Target) -> dict[str, Any]:
    """Lowest potential of either mode, each found from its own regression."""
    psi, y = np.asarray(target.basis.whitened_mean(target.x)), np.asarray(target.y)
    inner = NOISE**2 * np.eye(psi.shape[1]) + psi.T @ psi
    w = np.stack([np.linalg.solve(inner, psi.T @ (y - by)) for by in (0.0, SHIFT)])
    begin = ko.samplers.Particles.from_coordinates(target, target.basis.colour(w))
    modes = ko.Posterior(target, begin).modes()
    values = np.asarray(modes.potentials)[modes.labels]
    return {"energies": {"unshifted": float(values[0]), "shifted": float(values[1])}}


def describe(target: ko.Target, particles: Any, report: Any, keep_draws: bool = True) -> dict[str, Any]:
    """Shares, and with `keep_draws` what the figure needs."""
    draws = ko.Posterior(target, particles, report).functions(jax.random.key(4))
    at_data = draws(target.x)
    shifted = is_shifted(target, at_data)
    kernel: Any = target.basis.prior.kernel
    found = {
        "num_particles": len(shifted),
        "shifted": int(np.sum(shifted)),
        "mixed": int(np.sum(is_mixed(target, at_data))),
        "kernel": {"lengthscale": float(kernel.lengthscale), "variance": float(kernel.variance)},
        "converged": report.converged,
        "r_hat": report.r_hat,
        "seconds": report.seconds,
        "compile_seconds": report.compile_seconds,
        "step_size": report.step_size,
        "steps": report.steps,
    }
    if not keep_draws:
        return found
    grid = np.linspace(-3.0, 3.0, KEPT_INPUTS)[:, None]
    rows = np.linspace(0, len(target.y) - 1, min(120, len(target.y))).astype(int)
    return found | {
        "grid": np.round(grid[:, 0], 3),
        "draws": np.round(draws(grid)[:KEPT_DRAWS], 2),
        "draw_shifted": shifted[:KEPT_DRAWS].astype(int),
        "at_cut": np.round(draws(np.array([[CUT]]))[:400, 0], 2),
        "x": np.round(np.asarray(target.x)[rows, 0], 3),
        "y": np.round(np.asarray(target.y)[rows], 2),
    }


def _table(found: Found) -> str:
    from reproduction._shift_page import table

    return table(found)


def _draw(found: Found, folder: Path) -> list[Path]:
    from reproduction._shift_page import draw

    return draw(found, folder)


EXPERIMENT = Experiment("shift", "An unknown shift: two groups of functions", cells, _table, _draw)
