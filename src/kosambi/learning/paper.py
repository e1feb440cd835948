r"""The paper's recipe for hyperparameters (appendix on implementation details, and its public code).

The kernel k is fitted as that of an exact Gaussian process y ~ N(c, k(x, x) + σ²I) by maximum likelihood, with a
constant c that is thrown away. With many rows several subsets of nearest neighbours are fitted, and the parameters
averaged before the softplus that makes them positive. Labels are turned into two (or C) regressions with known noise
(Dirichlet classification, Milios et al. 2018), counts are taken as they are, and for `StudentT` a Student law is fitted
to the residuals. The result is then used inside r, whose scale differs from that of k; "evidence" does not do that.

Beside the code's start (0.693 everywhere) the usual values of the data are tried: with inputs that are not scaled the
former lies where the likelihood is flat.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np
from jaxtyping import Float

from kosambi._core.checks import as_count
from kosambi._core.precision import at_rest, compiled, with_fields
from kosambi._core.types import Array
from kosambi.errors import InputError
from kosambi.learning.exact import ExactEvaluator
from kosambi.learning.layout import Layout, Model, lay_out
from kosambi.learning.rows import Block
from kosambi.learning.search import Minimum, minimise, projected_norm
from kosambi.learning.starts import Limits, Scales, limits, start
from kosambi.learning.task import AbstractStrategy, Found, Task
from kosambi.learning.without_points import EXACT
from kosambi.likelihoods import AbstractLikelihood, Gaussian, StudentT
from kosambi.priors import GaussianProcess

# Where every parameter begins: softplus(0).
_BEGIN = float(np.log(2.0))
# The smallest noise variance that the code allows.
_SMALLEST_NOISE = 1e-4
# Dirichlet classification: pseudo-counts of the labels that were not seen.
_PSEUDO_COUNT = 0.01


class Settings(NamedTuple):
    """How many rows a subset has, and how many subsets there are where one does not hold all rows."""

    rows: int
    subsets: int


def settings(likelihood: AbstractLikelihood, rows: int | None, subsets: int | None) -> Settings:
    """The paper's, unless others are given."""
    usual = Settings(2000, 10) if likelihood.num_labels is None else Settings(1000, 5)
    return Settings(
        usual.rows if rows is None else as_count("max_rows", rows),
        usual.subsets if subsets is None else as_count("num_restarts", subsets),
    )


class PaperRecipe(AbstractStrategy):
    """The kernel of the exact process, averaged over subsets, with the prior's own mean.

    Arguments:
        task: the model, the data, and what a search needs.
        chosen: rows and number of subsets.
        both_starts: search from the usual values of the data too, and not from the code's start alone.
    """

    def __init__(self, task: Task, chosen: Settings, *, both_starts: bool = True) -> None:
        self.task, self._chosen, self._both_starts = task, chosen, both_starts
        likelihood = task.likelihood
        if likelihood.num_latents > 1 and likelihood.num_labels is None:
            raise InputError(
                f"The paper has no recipe for the latent functions of `{type(likelihood).__name__}`. "
                'Use method="evidence".'
            )
        mixed = [group for group in task.layout.groups if len({p.name.split(".")[0] for p in group}) > 1]
        if mixed:
            raise InputError(
                "The paper's recipe fits the kernel by itself, so "
                f"{mixed[0][0].name} cannot be tied to {mixed[0][-1].name}. "
                'Use method="evidence".'
            )

    def doubts(self, found: Found) -> tuple[str, ...]:
        """All of them are in `found.warnings`."""
        del found
        return ()

    def start(self) -> Found:
        """Every subset from its starts to the end, and the average."""
        task, likelihood = self.task, self.task.likelihood
        targets = _targets(likelihood, task.y)
        layout, given = _exact_layout(task)
        subsets = _subsets(task.generator, task.x, self._chosen)
        ends: list[_Fit] = []
        number = len(subsets) * len(targets)
        with task.stop:
            for rows in subsets:
                for target, known in targets:
                    task.show.update(f"exact Gaussian process {len(ends) + 1} of {number}")
                    data = task.x[rows], target[rows], known[rows]
                    ends.append(_fit_one(task, given, layout, *data, self._both_starts))
        if not ends:
            raise KeyboardInterrupt
        average = _average(layout, given, [one.minimum.vector for one in ends])
        residuals = np.concatenate([one.residuals for one in ends])
        exact: Any = average.likelihood
        learned = _likelihood(likelihood, exact, residuals, task.layout)
        value = float(np.mean([-one.minimum.value for one in ends]))
        converged = all(one.minimum.converged for one in ends) and not task.stop.happened
        notes = () if converged else ("A search of an exact process did not converge. Raise `max_iterations`.",)
        if task.stop.happened:
            notes = (f"The search was interrupted after {len(ends)} of {number} exact processes; these are averaged.",)
        # Of the model that is used it is the evidence only if that is the exact process; its own mean apart.
        is_same = isinstance(task.prior, GaussianProcess) and isinstance(likelihood, Gaussian) and len(subsets) == 1
        at_bound = {name for one in ends for name in one.bounds.names_at_bound(layout, one.minimum.vector)}
        return Found(
            model=Model(average.kernel, task.prior.mean, learned),
            bounds=None,
            strategy=EXACT,
            objective=value,
            log_evidence=value if is_same else float("nan"),
            num_rows=len(subsets[0]),
            converged=converged,
            gradient_norm=max(_slope(one) for one in ends),
            at_bound=tuple(sorted(name for name in at_bound if name != "mean")),
            is_exact=is_same,
            restarts=tuple(-one.minimum.value for one in ends),
            iterations=sum(one.minimum.iterations for one in ends),
            jitter=0.0,
            frozen=_unlearned(task.layout, likelihood),
            warnings=notes,
            beside={} if isinstance(likelihood, Gaussian) else {"exact.noise": np.asarray(exact.noise)},
        )


def _slope(one: _Fit) -> float:
    return projected_norm(one.minimum, one.bounds.lower, one.bounds.upper, one.bounds.scale)


def _unlearned(layout: Layout, likelihood: AbstractLikelihood) -> tuple[str, ...]:
    """Parameters that the recipe leaves alone: the mean, and most likelihoods."""
    learned = isinstance(likelihood, Gaussian | StudentT)
    left = [p for group in layout.groups for p in group if not (p.name.startswith("kernel") or learned)]
    left += [p for group in layout.groups for p in group if p.name.startswith("mean") and learned]
    return tuple(p.name for p in sorted([*layout.frozen, *left], key=lambda p: p.leaf))


class _Fit(NamedTuple):
    minimum: Minimum
    bounds: Limits
    residuals: Float[np.ndarray, " n"]


def _targets(likelihood: AbstractLikelihood, y: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Regression targets with known noise variances: one pair, or one for each label."""
    if likelihood.num_labels is None:
        noise = np.asarray(likelihood.noise) if isinstance(likelihood, Gaussian) else np.zeros(())
        return [(y, np.array(np.broadcast_to(np.square(noise) if noise.ndim else 0.0, y.shape)))]
    alpha = np.where(y[None] == np.arange(likelihood.num_labels)[:, None], 1.0, 0.0) + _PSEUDO_COUNT
    variance = np.log1p(1.0 / alpha)
    return list(zip(np.log(alpha) - 0.5 * variance, variance, strict=True))


def _exact_layout(task: Task) -> tuple[Layout, Model]:
    """The exact process: the kernel, a constant, and a noise, with frozen parameters as they are."""
    likelihood, layout, noise = task.likelihood, task.layout, np.asarray(np.sqrt(_BEGIN))
    names = [p.name for p in layout.frozen if p.name.startswith("kernel")]
    if isinstance(likelihood, Gaussian) and any(p.name == "likelihood.noise" for p in layout.frozen):
        # A noise for each observation is known and enters with the targets; then there is no other.
        noise = np.asarray(1e-6) if likelihood.noise.ndim else np.asarray(likelihood.noise)
        names.append("likelihood.noise")
    given = Model(task.prior.kernel, np.zeros(()), Gaussian(noise))
    tied = [[p.name for p in group] for group in layout.groups if len(group) > 1]
    tied = [group for group in tied if all(name.startswith("kernel") for name in group)]
    return lay_out(given, names, tied), given


def _subsets(generator: np.random.Generator, x: np.ndarray, chosen: Settings) -> list[np.ndarray]:
    """All rows, or the nearest neighbours of rows drawn at random, in the units of x."""
    if len(x) <= chosen.rows:
        return [np.arange(len(x))]
    centres = generator.integers(len(x), size=chosen.subsets)
    return [
        np.sort(np.argpartition(np.sum(np.square(x - x[c]), axis=1), chosen.rows - 1)[: chosen.rows]) for c in centres
    ]


def _fit_one(task: Task, given: Model, layout: Layout, x: Array, y: Array, known: Array, both_starts: bool) -> _Fit:
    likelihood = given.likelihood
    process = GaussianProcess(given.kernel)
    scales = Scales.of(process, likelihood, x, y, True)
    usual = start(process, likelihood, x, y, scales)
    begin = _begin(layout, given)
    bounds = limits(layout, usual, layout.model(begin, given), scales, x)
    lower = bounds.lower.copy()
    for i, (parameter, _) in enumerate(layout.entries()):
        if parameter.name == "likelihood.noise":
            lower[i] = 0.5 * np.log(_SMALLEST_NOISE)
    bounds = dataclasses.replace(bounds, lower=lower, upper=np.maximum(bounds.upper, lower + 1.0), rounded=())

    objective = ExactEvaluator(layout, given, process, [Block(x, y, np.ones(len(y)), given.likelihood)], None, known)
    found = [
        minimise(objective, vector, bounds.lower, bounds.upper, task.max_iterations, task.record, bounds.scale)
        for vector in (begin, *([layout.vector(usual)] if both_starts else []))
    ]
    best = min(found, key=lambda one: one.value)
    return _Fit(best, bounds, np.asarray(_residuals(layout, best.vector, given, x, y, known)))


def _begin(layout: Layout, given: Model) -> np.ndarray:
    """0.693 for everything positive that is free, except what has a unit of its own in the kernel (period, alpha)."""
    vector = layout.vector(given)
    for i, (parameter, _) in enumerate(layout.entries()):
        field = parameter.name.rsplit(".", 1)[-1]
        if field in ("lengthscale", "variance"):
            vector[i] = np.log(_BEGIN)
        elif parameter.name == "likelihood.noise":
            vector[i] = 0.5 * np.log(_BEGIN)
    return vector


def _average(layout: Layout, given: Model, vectors: list[np.ndarray]) -> Model:
    """The mean of the parameters before softplus; noise enters as a variance."""
    raws = []
    for vector in vectors:
        raw = vector.copy()
        for i, (parameter, _) in enumerate(layout.entries()):
            if parameter.support == "positive":
                value = np.exp(2.0 * vector[i] if parameter.name == "likelihood.noise" else vector[i])
                raw[i] = value + np.log(-np.expm1(-value))
        raws.append(raw)
    mean = np.mean(raws, axis=0)
    for i, (parameter, _) in enumerate(layout.entries()):
        if parameter.support == "positive":
            value = np.logaddexp(0.0, mean[i])
            mean[i] = (0.5 if parameter.name == "likelihood.noise" else 1.0) * np.log(value)
    return at_rest(layout.model(mean, given))


def _likelihood(given: AbstractLikelihood, exact: Any, residuals: np.ndarray, layout: Layout) -> Any:
    frozen = {parameter.name for parameter in layout.frozen}
    if isinstance(given, Gaussian) and "likelihood.noise" not in frozen:
        return with_fields(given, noise=np.asarray(exact.noise))
    if isinstance(given, StudentT):
        from scipy.stats import t

        freedom, _, scale = t.fit(residuals, floc=0.0)
        learned = {"degrees_of_freedom": freedom, "scale": scale}
        free = {k: np.asarray(float(v)) for k, v in learned.items() if f"likelihood.{k}" not in frozen}
        return with_fields(given, **free) if free else given
    return given


@compiled
def _residuals(layout: Layout, vector: Array, given: Model, x: Array, y: Array, known: Array) -> Float[Array, " N"]:
    """Y minus the posterior mean at the data: noise · K⁻¹(y − c)."""
    model = layout.model(vector, given)
    variance = jnp.square(model.likelihood.noise) + known
    factor = jnp.linalg.cholesky(model.kernel.pairwise(x, x) + jnp.diag(variance))
    return variance * jsl.cho_solve((factor, True), y - model.mean)
