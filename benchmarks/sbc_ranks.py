r"""Simulation-based calibration (Talts, Betancourt, Simpson, Vehtari and Gelman 2018): one study, and its test.

f is drawn from the prior, y given f, and L functions from the posterior given y. If all of it is right, the rank of a
number that is computed from f among those computed from the L draws is uniform on 0, …, L, whatever the number is. It
may depend on y as well: the log likelihood and the log posterior density at f see errors that no value of f shows
(Modrák et al. 2023).

Truths come from `benchmarks.sbc_models`, without kosambi; draws come from `kosambi.infer`. With all rows as inducing
points the posterior of the coordinates is the posterior of f, so that nothing but the sampler is approximate.
"""

from __future__ import annotations

import dataclasses
import warnings
import zlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np
import scipy.stats

import kosambi as ko
from benchmarks.sbc_models import APART, LENGTHSCALE, ROWS, Model, prior_root

NUM_DRAWS, NUM_BINS = 99, 20
QUANTITIES = ("f at a row", "f at a new input", "their difference", "log likelihood", "log density")
NUM_SUPERCHAINS = 8


@dataclasses.dataclass(frozen=True)
class Cell:
    """A model and how its posterior is drawn from.

    Arguments:
        model: makes f and y.
        sampler: a name or an object.
        likelihood: that draws are made with; the model's own when None.
        variance: of the prior that draws are made with; the model's own when None.
        basis: "point" for a Gaussian process; "ritz", "nystrom" and "inducing" for a random element.
        options: further arguments of `infer`; with points or neighbours among them there is no basis of all rows.
        inputs: the number of the row and the new input at which f is looked at.
        first: so many rows come first, the others by `condition`; all at once when None.
        method: of `posterior.functions`.
        change: what a wrong method does with a posterior.
        values: what a wrong method has for functions at the rows and the new input, (L, N + 1, C).
    """

    model: Model
    sampler: Any = "mala"
    likelihood: Any = None
    variance: float | None = None
    basis: str = "point"
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    inputs: tuple[int, float] = APART
    first: int | None = None
    method: str = "pathwise"
    change: Callable[[Any, ko.Posterior], ko.Posterior] | None = None
    values: Callable[[Any, ko.Posterior, np.ndarray], np.ndarray] | None = None


class Ranks(NamedTuple):
    """What a study found."""

    ranks: np.ndarray
    """(R, Q), from 0 to L; −1 for a quantity that there is not."""
    converged: np.ndarray
    """(R,), what the reports say."""
    between: np.ndarray
    """(R,), variance between groups of particles with a common start over that of independent ones: one on average."""


class Study:
    """Replications of one cell; all have the same shapes, so that programs are compiled once."""

    def __init__(self, name: str, cell: Cell) -> None:
        self.name, self.cell, model = name, cell, cell.model
        is_element = cell.basis != "point"
        self.root = prior_root(model.variance, cell.inputs[1], is_element)
        self.x = np.append(ROWS, cell.inputs[1])[:, None]
        variance = model.variance if cell.variance is None else cell.variance
        kinds = {"point": ko.PointBasis, "ritz": ko.RitzBasis, "nystrom": ko.NystromBasis, "inducing": ko.InducingBasis}
        self.prior: Any = ko.GaussianProcess(ko.kernels.Matern52(LENGTHSCALE, variance), mean=model.mean)
        if is_element:
            kernel = ko.kernels.Matern32(LENGTHSCALE, variance)
            self.prior = ko.GaussianRandomElement(kernel, ko.measures.empirical(ROWS), mean=model.mean)
        self.likelihood = model.likelihood if cell.likelihood is None else cell.likelihood
        self.options: dict[str, Any] = dict(cell.options)
        if not {"num_inducing", "inducing_points"} & set(cell.options):
            self.options = {"basis": kinds[cell.basis](self.prior, ROWS), "potential": "projected", **cell.options}

    def truth(self, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """f at all rows and the new input, (N + 1, C), and observations at the rows."""
        model = self.cell.model
        f = model.mean + self.root @ generator.normal(size=(self.root.shape[1], model.num_latents))
        at_rows = f[: len(ROWS)]
        return f, model.simulate(generator, at_rows[:, 0] if model.num_latents == 1 else at_rows)

    def posterior(self, key: Any, y: np.ndarray) -> ko.Posterior:
        """Given observations at the rows, all at once or some after the others."""
        key, later = jax.random.split(key)
        how: dict[str, Any] = {"sampler": self.cell.sampler, "num_particles": NUM_DRAWS}
        number = self.cell.first or len(ROWS)
        found = ko.infer(key, self.prior, self.likelihood, ROWS[:number], y[:number], **how, **self.options)
        if number == len(ROWS):
            return found
        return found.condition(later, ROWS[number:], y[number:], sampler=self.cell.sampler)

    def replicate(self, number: int) -> tuple[np.ndarray, bool, float]:
        """Ranks, whether the run converged, and the variance between groups with a common start."""
        generator = np.random.default_rng([zlib.crc32(self.name.encode()), number])
        f, y = self.truth(generator)
        key, other, third = jax.random.split(jax.random.key(int(generator.integers(2**31))), 3)
        posterior = self.posterior(key, y)
        if self.cell.change is not None:
            posterior = self.cell.change(third, posterior)
        if self.cell.values is None:
            draws = posterior.functions(other, method=self.cell.method)
            values = np.asarray(draws(self.x)).reshape(NUM_DRAWS, len(f), -1)
        else:
            values = self.cell.values(other, posterior, self.x)
        found = np.concatenate([self.quantities(y, f[None]), self.quantities(y, values)])
        found[0, -1], found[1:, -1] = self.densities(posterior, f)
        ranks = np.where(np.isnan(found[0]), -1, np.sum(found[1:] < found[0], axis=0))
        report = posterior.report
        return ranks, report is None or bool(report.converged), _between(found[1:, 0])

    def quantities(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        """The five of each function, (L, Q); the last one is left open."""
        row, new = f[:, self.cell.inputs[0], 0], f[:, len(ROWS), -1]
        return np.stack([row, new, row - new, -self.cost(y, f[:, : len(ROWS)]), np.full(len(f), np.nan)], axis=1)

    def cost(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        """That of all observations, for each of some functions, (L, N, C)."""
        f = f[..., 0] if self.cell.model.num_latents == 1 else f
        if isinstance(self.likelihood, ko.likelihoods.CustomJoint):
            # What the loss is an increasing function of.
            return np.sum(np.square(y - f), axis=1)
        return np.sum(np.asarray(self.likelihood.cost(y, f)), axis=1)

    def densities(self, posterior: ko.Posterior, f: np.ndarray) -> tuple[float, Any]:
        """−V of the coordinates of the truth and of the particles; NaN where there are no coordinates."""
        target = posterior.target
        if not target.basis.size:
            return np.nan, np.nan
        points = np.asarray(target.basis.inducing_points)
        here = [int(np.argmin(np.abs(ROWS[:, 0] - point))) for point in points[:, 0]]
        u = np.asarray(target.basis.from_values((f[here] - self.cell.model.mean).T)).T
        u = u[:, 0] if target.likelihood.num_latents == 1 else u
        return -float(target.potential(u)), -np.asarray(target.potential(posterior.particles.coordinates))


def _between(values: np.ndarray) -> float:
    """The F statistic of a one-way analysis of variance over superchains."""
    size = len(values) // NUM_SUPERCHAINS
    groups = values[: size * NUM_SUPERCHAINS].reshape(size, NUM_SUPERCHAINS)
    return float(size * np.var(groups.mean(axis=0), ddof=1) / np.mean(np.var(groups, axis=0, ddof=1)))


def run(name: str, cell: Cell, num_replications: int) -> Ranks:
    """All replications of a cell. Warnings are not shown: what did not converge is counted, and not left out."""
    study = Study(name, cell)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ranks, converged, between = zip(*(study.replicate(number) for number in range(num_replications)), strict=True)
    return Ranks(np.array(ranks), np.array(converged), np.array(between))


def p_values(name: str, ranks: np.ndarray) -> np.ndarray:
    """χ² over `NUM_BINS` bins and Kolmogorov-Smirnov of each quantity, (Q, 2); NaN for one that there is not.

    Ranks are spread over the cells of 1/(L + 1) that they stand for, by random numbers that follow from the name: then
    they are uniform on (0, 1) if they are uniform, and the second test is exact.
    """
    generator = np.random.default_rng([zlib.crc32(name.encode()), 2**31])
    spread = (ranks + generator.uniform(size=ranks.shape)) / (NUM_DRAWS + 1)
    found = np.full((ranks.shape[1], 2), np.nan)
    for number in range(ranks.shape[1]):
        known = spread[ranks[:, number] >= 0, number]
        if len(known):
            counts = np.histogram(known, NUM_BINS, (0.0, 1.0))[0]
            found[number] = scipy.stats.chisquare(counts).pvalue, scipy.stats.kstest(known, "uniform").pvalue
    return found


def holm(p: np.ndarray) -> np.ndarray:
    """p-values corrected for how many there are (Holm 1979); NaN stays.

    >>> holm(np.array([0.01, 0.04, np.nan, 0.02]))
    array([0.03, 0.04,  nan, 0.04])
    """
    flat = p.ravel()
    known = np.flatnonzero(~np.isnan(flat))
    order = known[np.argsort(flat[known])]
    found = np.full(flat.shape, np.nan)
    factors = np.arange(len(order), 0, -1)
    found[order] = np.minimum(np.maximum.accumulate(factors * flat[order]), 1.0)
    return found.reshape(p.shape)
