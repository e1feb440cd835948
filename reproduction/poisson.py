"""`python -m reproduction poisson`: counts with rate f², whose posterior has both signs of f.

The paper starts particles at standard normal coordinates and lets them diffuse: they stay in the basin where they
began. `Tempering` draws the same posterior with the right shares. A draw is in one of three kinds of states, judged on
arcs, the stretches of training inputs where the true rate (2c)² is at least 1 and c keeps its sign:

* "truth": on every arc it has the sign of c, or on every arc that of −c;
* "other": it keeps its sign on every arc, but the arcs' signs are neither;
* "changing": it changes sign inside an arc, where the counts speak against it.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

import kosambi as ko
from kosambi.samplers.report import Report
from reproduction import curves
from reproduction.experiment import Cell, Experiment, Found, Scale

SIZE = 1000
FIGURE_CURVE = 4
"""The paper cuts its figure at x = −0.55 and does not name the curve; (2c)² of the fourth is largest at −0.56."""
NUM_PARTICLES = 100
NUM_INDUCING = 24
DURATION = 0.1
STEP_SIZES = (1e-3, 10**-4.5, 1e-6)
SMALLEST_RATE = 1.0
STATES = ("truth", "other", "changing")
KEPT_DRAWS, KEPT_INPUTS = 30, 100


def cells(scale: Scale) -> list[Cell]:
    """Tempering first, since it takes longest."""
    numbers = [FIGURE_CURVE] if scale.quick else [FIGURE_CURVE, *(n for n in range(1, 11) if n != FIGURE_CURVE)]
    sizes = list(STEP_SIZES[:2] if scale.quick else STEP_SIZES)
    found = []
    for number in numbers:
        chains = 8 if scale.quick else (64 if number == FIGURE_CURVE else 16)
        particles = 48 if scale.quick else (256 if number == FIGURE_CURVE else 128)
        settings = {"number": number, "num_chains": chains, "num_particles": particles, "max_iterations": 30_000}
        found.append(Cell(f"tempering-{number}", tempered, settings))
        found.append(Cell(f"local-{number}", local, {"number": number, "sizes": sizes}))
    return found


def problem(number: int, num_inducing: int = NUM_INDUCING) -> ko.Target:
    """The paper's posterior: its kernel, learned by regression on the raw counts, and its basis."""
    split, x, y = curves.interval_split(number, SIZE), curves.grid(SIZE), curves.counts(number, SIZE)
    x, y = x[split.train], y[split.train]
    # Numbers that GPyTorch begins with.
    begin = ko.kernels.SquaredExponential(0.693, 0.693, active_dims=None)
    likelihood: Any = ko.likelihoods.Poisson("square")
    prior = ko.GaussianRandomElement(begin, ko.measures.empirical(x))
    prior, likelihood, _ = ko.fit_hyperparameters(jax.random.key(0), prior, likelihood, x, y, "paper", progress=False)
    points = x[ko.inducing.greedy_variance(prior.kernel, x, num_inducing)]
    return ko.Target(ko.NystromBasis(prior, points), likelihood, x, y)


def local(number: int, sizes: list[float], num_particles: int = NUM_PARTICLES) -> dict[str, Any]:
    """The paper's recipe, and `MALA` from the same start: neither passes between basins."""
    target = problem(number)
    start = np.random.default_rng(0).normal(size=(num_particles, *target.shape))
    search = curves.search_step_size(target, sizes, DURATION, start)
    found: dict[str, Any] = {"number": number, "tried": search.tried, "samplers": {}}
    if search.particles is not None and search.report is not None:
        found["samplers"]["Euler-Maruyama"] = describe(target, number, search.particles, search.report)
    particles, report = ko.sample(
        jax.random.key(1), target, ko.samplers.MALA(), num_particles, initial=start, progress=False
    )
    found["samplers"]["MALA"] = describe(target, number, particles, report)
    return found


def tempered(number: int, num_chains: int, num_particles: int, max_iterations: int) -> dict[str, Any]:
    """`Tempering` without its exact change of signs, which would make the shares a half by construction."""
    target = problem(number)
    sampler = ko.samplers.Tempering(num_chains, max_iterations=max_iterations, symmetry=False)
    particles, report = ko.sample(jax.random.key(2), target, sampler, num_particles, progress=False)
    return {"number": number, "samplers": {"tempering": describe(target, number, particles, report)}}


def describe(target: ko.Target, number: int, particles: Any, report: Report) -> dict[str, Any]:
    """Signs, states, energies, and what a figure needs."""
    posterior = ko.Posterior(target, particles, report)
    draws = posterior.functions(jax.random.key(3))
    x, y = np.asarray(target.x), np.asarray(target.y)
    cut = x[np.argmax(y)]
    at_cut, at_data = draws(cut[None])[:, 0], draws(x)
    split = curves.interval_split(number, SIZE)
    names = states(at_data, curves.curve(number, SIZE)[split.train], split.train)
    modes = posterior.modes()
    lowest = float(np.min(modes.potentials))
    above = np.asarray(modes.potentials)[modes.labels] - lowest
    found = {
        "num_particles": len(at_cut),
        "cut": float(cut[0]),
        "positive": int(np.sum(at_cut > 0)),
        "states": {name: int(np.sum(names == name)) for name in STATES},
        "coordinates": int(np.prod(target.shape)),
        "lowest": lowest,
        "above": [float(np.median(above)), float(np.max(above))],
        "energy": float(np.mean(np.asarray(target.potential(particles.coordinates)))),
        "num_modes": modes.num_modes,
        "converged": report.converged,
        "r_hat": report.r_hat,
        "steps": report.steps,
        "step_size": report.step_size,
        "seconds": report.seconds,
        "compile_seconds": report.compile_seconds,
    }
    if report.ladder is not None:
        evidence = report.ladder.log_evidence
        found["ladder"] = {
            "swap_rates": np.round(report.ladder.swap_rates, 3),
            "barrier": report.ladder.barrier,
            "arrivals": report.ladder.arrivals,
            "chains": report.ladder.num_chains,
            "log_evidence": [evidence.value, evidence.standard_error],
        }
    if number == FIGURE_CURVE and report.sampler != "mala":
        places = np.linspace(0, SIZE - 1, KEPT_INPUTS).astype(int)
        grid = curves.grid(SIZE)[places]
        found["at_cut"] = np.round(at_cut, 3)
        found["grid"] = np.round(grid[:, 0], 3)
        found["truth"] = np.round(2.0 * curves.curve(number, SIZE)[places], 3)
        found["draws"] = np.round(draws(grid)[:KEPT_DRAWS], 2)
        found["draw_states"] = list(names[:KEPT_DRAWS])
    return found


def arcs(c: Float[np.ndarray, " N"], places: np.ndarray) -> list[np.ndarray]:
    """Stretches of neighbouring training inputs with a rate (2c)² of at least 1 and one sign of c.

    >>> [arc.tolist() for arc in arcs(np.array([1.0, 1.0, 0.1, -1.0, -1.0, -1.0]), np.array([0, 1, 2, 3, 4, 9]))]
    [[0, 1], [3, 4], [5]]
    """
    loud = np.flatnonzero((2.0 * c) ** 2 >= SMALLEST_RATE)
    breaks = np.flatnonzero((np.diff(places[loud]) > 1) | (np.diff(np.sign(c[loud])) != 0)) + 1
    return [arc for arc in np.split(loud, breaks) if len(arc)]


def states(f: Float[np.ndarray, "J N"], c: Float[np.ndarray, " N"], places: np.ndarray) -> np.ndarray:
    """The state of each draw: "truth", "other" or "changing".

    >>> c, f = np.array([1.0, 1.0, -1.0]), np.array([[-2.0, -2.0, 2.0], [2.0, 2.0, 2.0], [2.0, -2.0, 2.0]])
    >>> states(f, c, np.arange(3)).tolist()
    ['truth', 'other', 'changing']
    """
    signs = np.sign(f) * np.sign(c)
    stretches = arcs(c, places)
    changing = np.zeros(len(f), dtype=bool)
    ends = []
    for arc in stretches:
        changing |= np.any(signs[:, arc] != signs[:, arc[:1]], axis=1)
        ends.append(signs[:, arc[np.argmax(np.abs(c[arc]))]])
    same = np.all(np.stack(ends) == ends[0], axis=0) if ends else np.ones(len(f), dtype=bool)
    return np.where(changing, "changing", np.where(same, "truth", "other"))


def rows(found: Found) -> Iterable[tuple[int, str, dict[str, Any]]]:
    """Curve, sampler and what it found; the figure's curve first."""
    numbers = sorted({cell["number"] for cell in found.values()}, key=lambda n: (n != FIGURE_CURVE, n))
    for number in numbers:
        for kind in ("local", "tempering"):
            for name, entry in found.get(f"{kind}-{number}", {"samplers": {}})["samplers"].items():
                yield number, name, entry


def _table(found: Found) -> str:
    from reproduction._poisson_page import table

    return table(found)


def _draw(found: Found, folder: Path) -> list[Path]:
    from reproduction._poisson_page import draw

    return draw(found, folder)


EXPERIMENT = Experiment("poisson", "Counts with rate f²: both signs of f", cells, _table, _draw)
