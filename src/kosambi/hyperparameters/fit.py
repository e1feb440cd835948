"""`kosambi.fit_hyperparameters`: kernel, prior mean and likelihood parameters from data."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import Float, Int

from kosambi._types import Array, ArrayLike, Key
from kosambi.clock import Clock
from kosambi.errors import HyperparameterWarning, InputError, as_count, as_inputs, check_key, is_traced
from kosambi.evidence import JITTER, check_density
from kosambi.hyperparameters import _evidence, _paper
from kosambi.hyperparameters._layout import Layout, Model, lay_out, rebuilt, with_fields
from kosambi.hyperparameters._search import Record, projected_norm
from kosambi.hyperparameters.report import FitReport
from kosambi.kernels import AbstractCombination, AbstractKernel, AbstractStationary
from kosambi.likelihoods import AbstractLikelihood
from kosambi.measures import PointMeasure
from kosambi.precision import host_generator, public
from kosambi.priors import AbstractPrior, GaussianProcess, GaussianRandomElement
from kosambi.progress import Progress

MOST_INDUCING = 300
"""Inducing points when their number is not given."""
MAX_ROWS = 2000
"""Rows that the kernel is learned from when their number is not given."""
METHODS = ("evidence", "paper")


@public
def fit_hyperparameters(
    key: Key,
    prior: AbstractPrior | AbstractKernel,
    likelihood: AbstractLikelihood,
    x: ArrayLike,
    y: ArrayLike,
    method: str = "evidence",
    *,
    num_inducing: int | None = None,
    ard: bool = False,
    freeze: str | Sequence[str] = (),
    tie: Sequence[Sequence[str]] = (),
    max_rows: int | None = None,
    num_restarts: int | None = None,
    max_iterations: int = 200,
    progress: bool | None = None,
) -> tuple[Any, AbstractLikelihood, FitReport]:
    """Kernel parameters, prior mean, noise and other likelihood parameters that make the data probable.

    Returns what was given, with other numbers, and a report: `kernel, likelihood, report` for a kernel, which stands
    for `GaussianProcess(kernel)` with mean zero; `prior, likelihood, report` for a prior, whose mean is learned if it is a
    number.

    Arguments:
        key: a JAX random key, for starts and subsets.
        prior: a prior, or a kernel.
        likelihood: one with a density; its parameters are learned, except a noise that is given for each datum.
        x: (N, D), the inputs.
        y: (N,), the observations.
        method: "evidence", which maximises the evidence of this very model (see `kosambi.evidence`), or "paper", which
            fits the kernel as that of an exact Gaussian process (the paper's recipe, for comparison).
        num_inducing: M, for "evidence"; at most 300 when None.
        ard: give every stationary kernel with a single lengthscale one for each input column.
        freeze: parameters that keep their values, by name: "likelihood", "kernel.variance", "kernel.*.variance".
        tie: groups of parameters that have one value, [["kernel.0.lengthscale", "kernel.1.lengthscale"]].
        max_rows: rows that the kernel is learned from; a random subset when there are more, with the likelihood's
            parameters and the mean learned again on all. 2000 when None; for "paper" the size of the subsets of nearest
            neighbours, 2000 and for labels 1000.
        num_restarts: further starts from which a short search is made, 2 when None; for "paper" the number of subsets,
            10 and for labels 5.
        max_iterations: of the main search.
        progress: whether to show a progress line; None shows it on a terminal.

    >>> import jax, numpy as np, kosambi as ko
    >>> x = np.linspace(0.0, 10.0, 80)[:, None]
    >>> y = np.sin(x[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=80)
    >>> kernel, likelihood, report = ko.fit_hyperparameters(
    ...     jax.random.key(0), ko.kernels.SquaredExponential(), ko.likelihoods.Gaussian(), x, y, num_inducing=30
    ... )
    >>> report.converged, bool(0.08 < likelihood.noise < 0.12), bool(1.0 < kernel.lengthscale < 4.0)
    (True, True, True)
    """
    if is_traced((key, prior, likelihood, x, y)):
        raise InputError("`fit_hyperparameters` runs a search of its own and cannot be inside `jit`. Call it outside.")
    clock, generator = Clock(), host_generator(check_key(key))
    if method not in METHODS:
        raise InputError(f"`method` must be one of {', '.join(METHODS)}. Got {method!r}.")
    bare = isinstance(prior, AbstractKernel)
    x = as_inputs("x", x)
    given_prior = _as_prior(prior, x, ard)
    check_density(likelihood)
    y = likelihood.check(y)
    notes = _check_data(x, y, given_prior, likelihood)
    model = Model(given_prior.kernel, given_prior.mean, likelihood)
    layout = lay_out(model, [*([freeze] if isinstance(freeze, str) else freeze), *(["mean"] if bare else [])], tie)
    if layout.size == 0:
        raise InputError("Every parameter is frozen, so there is nothing to learn. Leave out `freeze`.")
    max_iterations = as_count("max_iterations", max_iterations)
    record = Record()
    with Progress(progress) as show:
        if method == "paper":
            if num_inducing is not None:
                raise InputError(
                    'method="paper" fits an exact Gaussian process, without inducing points. Leave out `num_inducing`.'
                )
            settings = _paper.settings(likelihood, max_rows, num_restarts)
            fitted, fields = _paper.fit(
                generator, given_prior, likelihood, x, y, layout, settings, max_iterations, record, show
            )
        else:
            rows = as_count("max_rows", MAX_ROWS if max_rows is None else max_rows)
            restarts = 2 if num_restarts is None else _as_restarts(num_restarts)
            fitted, fields = _by_evidence(
                generator,
                given_prior,
                likelihood,
                x,
                y,
                layout,
                num_inducing,
                rows,
                restarts,
                max_iterations,
                record,
                show,
            )
    report = _report(method, fitted, layout, record, clock, notes, fields)
    for text in report.warnings:
        warnings.warn(text, HyperparameterWarning, stacklevel=3)
    return (fitted.kernel if bare else rebuilt(given_prior, fitted)), fitted.likelihood, report


def _by_evidence(
    generator: np.random.Generator,
    prior: AbstractPrior,
    likelihood: AbstractLikelihood,
    x: Array,
    y: Array,
    layout: Layout,
    num_inducing: int | None,
    max_rows: int,
    num_restarts: int,
    max_iterations: int,
    record: Record,
    show: Progress,
) -> tuple[Model, dict[str, Any]]:
    rows = _subset(generator, len(x), max_rows)
    distinct = len(np.unique(x[rows], axis=0))
    if num_inducing is None:
        number = min(MOST_INDUCING, distinct)
    else:
        limit = "the number of rows that the kernel is learned from (see `max_rows`)"
        number = min(as_count("num_inducing", num_inducing, at_most=len(rows), limit_name=limit), distinct)
    thinned = _thinned(generator, prior, max_rows)
    part = _rows_of(likelihood, rows, len(x))
    problem = _evidence.Problem(thinned, part, x[rows], y[rows], layout, number)
    found = _evidence.search(generator, problem, num_restarts, max_iterations, record, show)
    fitted, evidence, points = found.model, found.log_evidence, found.points
    if len(rows) < len(x):
        fitted = fitted._replace(likelihood=_with_all_rows(fitted.likelihood, likelihood))
        if any(p.name.startswith("likelihood") for group in layout.groups for p in group) and not found.interrupted:
            show.update("all rows", 0, 1)
            whole = _evidence.Problem(prior, fitted.likelihood, x, y, layout, number)
            fitted, evidence, points = _evidence.on_all_rows(whole, fitted, x, y, record)
    measure = thinned.measure if isinstance(thinned, GaussianRandomElement) else None
    support = measure if isinstance(measure, PointMeasure) else None
    bounds, minimum = found.limits, found.minimum
    names = [parameter.entry(i) for parameter, i in layout.entries()]
    notes = ["The search was interrupted; the best so far is returned."] if found.interrupted else []
    if not found.converged and not notes:
        notes = [
            f"The search for hyperparameters did not converge in {found.iterations} iterations (steepest slope "
            f"{projected_norm(minimum, bounds.lower, bounds.upper):.2g}). Raise `max_iterations`."
        ]
    return fitted, {
        "objective": -minimum.value,
        "log_evidence": evidence,
        "gradient_norm": projected_norm(minimum, bounds.lower, bounds.upper),
        "converged": found.converged,
        "at_bound": tuple(name for name, there in zip(names, bounds.at_bound(minimum.vector), strict=True) if there),
        "restarts": found.restarts,
        "rounds": found.rounds,
        "iterations": found.iterations,
        "num_rows": len(rows),
        "num_support": None if support is None else len(support.points),
        "inducing_points": points,
        "jitter": JITTER,
        "warnings": notes,
    }


def _report(
    method: str, fitted: Model, layout: Layout, record: Record, clock: Clock, notes: list[str], fields: dict[str, Any]
) -> FitReport:
    leaves = jax.tree.leaves(fitted)
    everything = sorted([p for group in layout.groups for p in group] + list(layout.frozen), key=lambda p: p.leaf)
    return FitReport(
        method=method,
        parameters={p.name: np.asarray(leaves[p.leaf]) for p in everything},
        frozen=tuple(p.name for p in layout.frozen),
        evaluations=len(record.values) + record.failures,
        failures=record.failures,
        trace=-np.asarray(record.values),
        seconds=clock.seconds,
        compile_seconds=clock.compile_seconds,
        **{**fields, "warnings": tuple([*notes, *fields["warnings"]])},
    )


def _as_prior(prior: object, x: Array, ard: bool) -> AbstractPrior:
    if isinstance(prior, AbstractKernel):
        prior = GaussianProcess(prior)
    if not isinstance(prior, AbstractPrior):
        raise InputError(
            f"`fit_hyperparameters` needs a prior or a kernel second. Got {type(prior).__name__}. "
            "For example `kosambi.kernels.Matern52()`."
        )
    as_inputs("x", x, prior.num_columns)
    prior.check_columns(x.shape[1])
    return with_fields(prior, kernel=_with_ard(prior.kernel, x.shape[1])) if ard else prior


def _with_ard(kernel: AbstractKernel, num_columns: int) -> AbstractKernel:
    if isinstance(kernel, AbstractCombination):
        return with_fields(kernel, kernels=tuple(_with_ard(part, num_columns) for part in kernel.kernels))
    if isinstance(kernel, AbstractStationary) and np.size(kernel.lengthscale) == 1:
        number = num_columns if kernel.active_dims is None else len(kernel.active_dims)
        return with_fields(kernel, lengthscale=np.full(number, float(np.ravel(kernel.lengthscale)[0])))
    return kernel


def _check_data(x: Array, y: Array, prior: AbstractPrior, likelihood: AbstractLikelihood) -> list[str]:
    """Refuse data from which nothing can be learned; what is only doubtful becomes a warning."""
    if y.shape[0] != x.shape[0]:
        raise InputError(f"`y` has {y.shape[0]} entries for {x.shape[0]} rows of x. Give one for each row.")
    if len(y) < 2:
        raise InputError(f"Hyperparameters need two rows of data at least. Got {len(y)}.")
    if np.all(y == y[0]):
        raise InputError(
            f"All {len(y)} observations are {y[0]:g}, so they say nothing about variances and lengthscales. Use data "
            "that vary, or keep the hyperparameters that you have."
        )
    noise = getattr(likelihood, "noise", np.zeros(()))
    if np.ndim(noise) == 1 and len(noise) != len(y):
        raise InputError(f"`noise` has {len(noise)} entries for {len(y)} rows of x. Give one for each row.")
    notes = []
    constant = np.flatnonzero(np.ptp(x, axis=0) == 0)
    if len(constant):
        shown = ", ".join(map(str, constant[:5])) + (", ..." if len(constant) > 5 else "")
        notes.append(f"Input column {shown} does not vary, so nothing was learned about its lengthscale. Leave it out.")
    free = lay_out(Model(prior.kernel, prior.mean, likelihood)).size
    if len(y) <= free:
        notes.append(
            f"{len(y)} rows are fewer than the model has hyperparameters ({free} numbers); the weak prior around usual "
            "values decides most of them."
        )
    if len(constant) == x.shape[1]:
        raise InputError("No column of `x` varies, so all inputs are one point. Give inputs that differ.")
    return notes


def _as_restarts(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 0:
        raise InputError(f"`num_restarts` must be a whole number, 0 or more. Got {value!r}.")
    return int(value)


def _subset(generator: np.random.Generator, num_rows: int, limit: int) -> Int[np.ndarray, " n"]:
    if num_rows <= limit:
        return np.arange(num_rows)
    return np.sort(generator.choice(num_rows, size=limit, replace=False))


def _thinned(generator: np.random.Generator, prior: AbstractPrior, limit: int) -> AbstractPrior:
    """The prior with no more than `limit` support points; r is then an average over fewer of them."""
    if not isinstance(prior, GaussianRandomElement) or not isinstance(prior.measure, PointMeasure):
        return prior
    # Points of weight zero carry nothing.
    pool = np.flatnonzero(prior.measure.weights > 0)
    if len(pool) <= limit:
        return prior
    rows = np.sort(generator.choice(pool, size=limit, replace=False))
    return with_fields(prior, measure=PointMeasure(prior.measure.points[rows], prior.measure.weights[rows]))


def _rows_of(likelihood: AbstractLikelihood, rows: np.ndarray, num_rows: int) -> AbstractLikelihood:
    """The likelihood of some of the rows, where it has a noise for each."""
    noise: Float[Array, "..."] | None = getattr(likelihood, "noise", None)
    if noise is None or np.ndim(noise) == 0 or len(rows) == num_rows:
        return likelihood
    return with_fields(likelihood, noise=np.ascontiguousarray(np.asarray(noise)[rows]))


def _with_all_rows(fitted: AbstractLikelihood, given: AbstractLikelihood) -> AbstractLikelihood:
    noise = getattr(given, "noise", None)
    return fitted if noise is None or np.ndim(noise) == 0 else with_fields(fitted, noise=noise)
