"""The paper's recipe: what its experiment would give if its code had no defects.

k is fitted as the kernel of an exact Gaussian process (`method="paper"`), the prior is the random element of the
empirical measure of the training rows, coordinates are Nyström's on int(√N) greedy points of k, x is not scaled, and
the potential is the projected one. Draws are exact for Gaussian noise and by MALA otherwise, which has no error of
the step size, but need not weigh several modes rightly.

`method="paper"` searches from the start of the paper's code (0.693 for everything) and from the usual values of the
data. The code has its own start alone, which with inputs that are not scaled may lie where the likelihood is flat:
columns in hundreds then keep their lengthscale. `learn(both_starts=False)` does the same, to show what follows from it.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import jax
import numpy as np

import kosambi as ko
from kosambi._core.precision import host_generator, public
from kosambi._core.progress import Progress
from kosambi._core.types import Key
from kosambi.learning import paper
from kosambi.learning.fit import as_prior, check_data
from kosambi.learning.layout import Model, lay_out
from kosambi.learning.search import Record
from kosambi.learning.task import Task
from kosambi.likelihoods import AbstractLikelihood, Gaussian
from reproduction.comparison.data import Part

PARTICLES = 100
# At most, of one search: the default of `fit_hyperparameters`.
_ITERATIONS = 400


class Recipe(NamedTuple):
    """The model of the paper, before it is sampled."""

    kernel: ko.kernels.SquaredExponential
    likelihood: AbstractLikelihood
    basis: ko.NystromBasis
    converged: bool
    exact_noise: float
    """Standard deviation of the noise of the exact Gaussian process that k comes from."""


def start_likelihood(name: str) -> AbstractLikelihood:
    """The likelihood whose parameters are learned."""
    if name == "gaussian":
        return ko.likelihoods.Gaussian()
    return ko.likelihoods.StudentT() if name == "student_t" else ko.likelihoods.Bernoulli()


def learn(
    train: Part, likelihood: str, seed: int, subsets: int, *, both_starts: bool = True, rows: int | None = None
) -> Recipe:
    """Hyperparameters, points and basis.

    Arguments:
        train: the rows.
        likelihood: "gaussian", "student_t" or "bernoulli".
        seed: of the split.
        subsets: how many subsets of nearest neighbours the kernel is averaged over where the rows are too many for one
            exact process (2000, for labels 1000).
        both_starts: search from the usual values of the data too, not from the start of the paper's code alone.
        rows: of a subset, instead of those numbers.
    """
    kernel = ko.kernels.SquaredExponential(np.ones(train.x.shape[1]), 1.0, active_dims=None)
    given, key = start_likelihood(likelihood), jax.random.key(seed)
    if not both_starts:
        return assemble(train, *from_start_of_code(key, kernel, given, train, subsets, rows))
    kernel, learned, report = ko.fit_hyperparameters(
        key, kernel, given, train.x, train.y, method="paper", num_restarts=subsets, max_rows=rows
    )
    noise = report.parameters["likelihood.noise" if likelihood == "gaussian" else "exact.noise"]
    return assemble(train, kernel, learned, float(noise), bool(report.converged))


class Learned(NamedTuple):
    """What a search from the start of the paper's code found."""

    kernel: Any
    likelihood: Any
    exact_noise: float
    converged: bool


@public
def from_start_of_code(
    key: Key,
    kernel: ko.kernels.AbstractKernel,
    likelihood: AbstractLikelihood,
    train: Part,
    subsets: int | None = None,
    rows: int | None = None,
) -> Learned:
    """`fit_hyperparameters(method="paper")` with one search for each exact process, from 0.693 for everything."""
    prior, y = as_prior(kernel, train.x, False), likelihood.check(train.y)
    layout = lay_out(Model(prior.kernel, prior.mean, likelihood), ["mean"], ())
    notes = check_data(train.x, y, likelihood, layout, len(y))
    with Progress(None) as show:
        task = Task(
            host_generator(key), prior, likelihood, train.x, y, None, layout, _ITERATIONS, 0, Record(show=show), show
        )
        found = paper.PaperRecipe(task, paper.settings(likelihood, rows, subsets), both_starts=False).start()
    for text in (*notes, *found.warnings):
        warnings.warn(text, ko.errors.HyperparameterWarning, stacklevel=3)
    learned = found.model.likelihood
    noise = learned.noise if isinstance(learned, Gaussian) else found.beside["exact.noise"]
    return Learned(found.model.kernel, learned, float(noise), bool(found.converged))


def assemble(
    train: Part,
    kernel: ko.kernels.SquaredExponential,
    likelihood: AbstractLikelihood,
    exact_noise: float,
    converged: bool,
) -> Recipe:
    """Points and basis for hyperparameters that are known."""
    prior = ko.GaussianRandomElement(kernel, ko.measures.empirical(train.x))
    points = train.x[ko.inducing.greedy_variance(kernel, train.x, int(np.sqrt(len(train.y))))]
    return Recipe(kernel, likelihood, ko.NystromBasis(prior, points), converged, exact_noise)


def posterior(recipe: Recipe, train: Part, seed: int) -> ko.Posterior:
    """The draws."""
    target = ko.Target(recipe.basis, recipe.likelihood, train.x, train.y)
    key = jax.random.fold_in(jax.random.key(seed), 2**30)
    return ko.Posterior(target, *ko.sample(key, target, sampler(recipe), PARTICLES))


def sampler(recipe: Recipe) -> str:
    """Exact for Gaussian noise, MALA for the others.

    Not "auto", which would temper where it suspects several modes: the paper's sampler does not leave them.
    """
    return "exact" if isinstance(recipe.likelihood, Gaussian) else "mala"


def parameters(recipe: Recipe) -> dict[str, Any]:
    """What was learned, rounded."""
    found: dict[str, Any] = {
        "lengthscale": [float(f"{value:.4g}") for value in np.atleast_1d(recipe.kernel.lengthscale)],
        "variance": float(f"{float(recipe.kernel.variance):.4g}"),
    }
    for name in ("noise", "degrees_of_freedom", "scale"):
        if hasattr(recipe.likelihood, name):
            found[name] = float(f"{float(getattr(recipe.likelihood, name)):.4g}")
    return found
