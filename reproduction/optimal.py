"""Does potential="optimal" beat "projected", the paper's? How both predict, and how far they are from the posterior.

For any distribution Q of the coordinates KL(Q, full) = KL(Q, Π*_M) + a constant, so potential="optimal" is nearer to
the full posterior in this divergence, always, and by exactly KL(Π_∞, Π*_M), which the certificate estimates. Whether
that shows in predictions or in other distances is what is measured here.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np
import scipy.special
from jaxtyping import Float

import kosambi as ko
from kosambi._core.types import Key
from reproduction._distances import Yardstick
from reproduction._long_run import long_run
from reproduction._optimal_pages import draw, table
from reproduction._small_problems import Problem, small_problem
from reproduction.comparison.data import read
from reproduction.experiment import Cell, Experiment, Scale

NUM_JUDGED = 25
SYNTHETIC = {"bernoulli": 150, "student_t": 150, "poisson": 150}
"""N of the one-dimensional problems."""
REAL = {"coal_yearly": 84, "breast": 300, "boston": 300}
"""Training rows of the public data sets; all others are held out."""
SIZES = {
    "bernoulli": [3, 5, 8, 14],
    "student_t": [3, 5, 8, 14],
    "poisson": [3, 5, 8, 14],
    "coal_yearly": [1, 2, 4],
    "breast": [3, 10, 40],
    "boston": [5, 20, 80],
}
"""From far too few inducing points, where the two potentials differ most, to about enough."""
SPLITS = {"coal_yearly": 3, "breast": 2, "boston": 2}
"""At most so many; the synthetic problems hold out 400 data and need one."""
DRAWS = {"boston": 200}
"""Instead of 1,000: each gradient there is of 300 expected costs by quadrature for every draw."""
# Of real data those only that are in the repository.
QUICK_SIZES = {"bernoulli": [4], "student_t": [4], "poisson": [4, 8], "breast": [5]}
QUICK_ROWS = {"breast": 120}


class Scores(NamedTuple):
    """Log densities of held-out data under a mixture over draws."""

    log_density: Float[np.ndarray, " T"]
    monte_carlo: float
    """Standard error of their mean that comes from the number of draws."""


def cells(scale: Scale) -> list[Cell]:
    """One cell for each data set and split.

    >>> len(cells(Scale(quick=True)))
    4
    """
    found = []
    for problem, num_rows in {**SYNTHETIC, **REAL}.items():
        sizes = (QUICK_SIZES if scale.quick else SIZES).get(problem, [])
        for seed in range(1 if scale.quick else min(scale.splits, SPLITS.get(problem, 1))):
            arguments = {
                "problem": problem,
                "seed": seed,
                "sizes": sizes,
                "num_rows": QUICK_ROWS.get(problem, num_rows) if scale.quick else num_rows,
                "num_particles": 400 if scale.quick else DRAWS.get(problem, 1000),
            }
            if sizes:
                data = (problem,) if problem in REAL else ()
                found.append(Cell(f"{problem}-{seed}", both_potentials, arguments, data=data))
    return found


def both_potentials(problem: str, seed: int, sizes: list[int], num_rows: int, num_particles: int) -> dict[str, Any]:
    """Everything for one data set and one split of it.

    Arguments:
        problem: a name in `SYNTHETIC` or `REAL`.
        seed: of the data or the split.
        sizes: numbers of greedy inducing points.
        num_rows: N, at most 300 so that the full posterior can be had.
        num_particles: J.
    """
    # Keys of one purpose each, so that other sizes leave the reference as it is.
    learn_key, reference_key, value_key, run_key = jax.random.split(jax.random.key(31 + seed), 4)
    model = _model(learn_key, problem, seed, num_rows)
    run = long_run(reference_key, model.prior, model.likelihood, model.x, model.y)
    judged = np.random.default_rng(seed).permutation(len(model.x_test))[:NUM_JUDGED]
    yardstick = Yardstick(run.values(value_key, model.x_test[judged]))
    full = scores(model, *run.latent(model.x_test))
    rows = []
    for size, size_key in zip(sizes, jax.random.split(run_key, len(sizes)), strict=True):
        points = model.x[ko.inducing.greedy_variance(model.prior, model.x, size)]
        row: dict[str, Any] = {"M": size}
        found: dict[str, Scores] = {}
        values: dict[str, Float[np.ndarray, "J T"]] = {}
        for kind, keys in zip(("projected", "optimal"), jax.random.split(size_key, (2, 2)), strict=True):
            key, function_key = keys
            posterior = ko.infer(
                key,
                model.prior,
                model.likelihood,
                model.x,
                model.y,
                inducing_points=points,
                potential=kind,
                num_particles=num_particles,
                progress=False,
            )
            prediction = posterior.predict(model.x_test)
            found[kind] = scores(
                model, np.asarray(prediction.component_means), np.asarray(prediction.component_deviation)
            )
            values[kind] = np.asarray(posterior.functions(function_key)(model.x_test[judged]))
            mean_error, deviation_error = yardstick.moments(values[kind])
            row[kind] = {
                "log_density": float(found[kind].log_density.mean()),
                "mean_error": mean_error,
                "deviation_error": deviation_error,
                "converged": posterior.report.converged if posterior.report else None,
                "seconds": posterior.report.seconds if posterior.report else None,
            }
            if kind == "projected":
                certificate = posterior.certificate()
                row["nats"] = certificate.divergence
                row["nats_error"] = certificate.standard_error
                row["pareto_k"] = certificate.pareto_k
                row["residual_share"] = certificate.residual_share
        gain = found["optimal"].log_density - found["projected"].log_density
        compared = yardstick.compare(values["projected"], values["optimal"])
        row["projected"]["distance"], row["optimal"]["distance"] = compared.first, compared.second
        row["distance_error"] = compared.standard_error
        row["gain"] = float(gain.mean())
        row["gain_error"] = float(gain.std(ddof=1) / np.sqrt(len(gain)))
        row["monte_carlo"] = float(np.hypot(found["optimal"].monte_carlo, found["projected"].monte_carlo))
        rows.append(row)
    return {
        "problem": problem,
        "seed": seed,
        "num_rows": len(model.y),
        "num_test": len(model.y_test),
        "reference": {"r_hat": run.r_hat, "ess": run.ess, "divergences": run.divergences},
        "full_log_density": float(full.log_density.mean()),
        "noise_floor": yardstick.noise(num_particles).mean,
        "rows": rows,
    }


def scores(model: Problem, means: Float[np.ndarray, "J T"], deviation: Float[np.ndarray, " T"]) -> Scores:
    """log (1/J) Σ_j ∫ p(y | f) N(f; mean_j, deviation²) df for each held-out y, and what J costs in accuracy."""
    each = np.asarray(model.likelihood.log_predictive_density(model.y_test, means, deviation))
    whole = scipy.special.logsumexp(each, axis=0) - np.log(len(each))
    # How much each draw moves the mean log density, to first order.
    influence = np.mean(np.exp(each - whole), axis=1)
    return Scores(whole, float(np.std(influence, ddof=1) / np.sqrt(len(each))))


def _model(key: Key, problem: str, seed: int, num_rows: int) -> Problem:
    if problem in SYNTHETIC:
        return small_problem(problem, "process", num_rows, num_test=400, seed=seed)
    x, y = read(problem)
    order = np.random.default_rng(seed).permutation(len(y))
    train, test = order[:num_rows], order[num_rows:]
    x = (x - x[train].mean(axis=0)) / x[train].std(axis=0)
    likelihood: Any = ko.likelihoods.Bernoulli()
    mean = 0.0
    if problem == "boston":
        y = (y - y[train].mean()) / y[train].std()
        likelihood = ko.likelihoods.StudentT(degrees_of_freedom=4.0, scale=0.3)
    if problem == "coal_yearly":
        likelihood, mean = ko.likelihoods.Poisson(link="exp"), float(np.log(y[train].mean()))
    start = ko.GaussianProcess(ko.kernels.Matern52(np.sqrt(x.shape[1]), 1.0, active_dims=None), mean)
    prior, likelihood, _ = ko.fit_hyperparameters(
        key, start, likelihood, x[train], y[train], num_restarts=1, progress=False
    )
    return Problem(prior, likelihood, x[train], y[train], x[test], y[test])


EXPERIMENT = Experiment(
    "optimal", 'The best distribution with M coordinates: potential="optimal"', cells=cells, table=table, draw=draw
)
