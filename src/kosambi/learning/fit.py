"""`kosambi.fit_hyperparameters`: kernel, prior mean and likelihood parameters from data.

The pipeline, from top to bottom: *prepare* (arguments, rows, and which strategy suits them), *start* (short searches
from several starts on few rows, and the family of the kernel if that is open), *search* (to a maximum), *refine* (with
all rows), *check* (rows left out, against a constant), *report*. What runs in a stage is the matter of one strategy:

| strategy        | for                                                      | evidence                            |
|-----------------|----------------------------------------------------------|-------------------------------------|
| `WithoutPoints` | a number of points that is chosen later, or all rows     | exact, sites, blocks, neighbours    |
| `HeavyTails`    | the same, for `StudentT` and `Laplace` with a free scale | that of Gaussian noise, then sites  |
| `WithPoints`    | a number of inducing points                              | with points, then batches of rows   |
| `PaperRecipe`   | `method="paper"`                                         | that of an exact Gaussian process   |
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kosambi._core import long_tables
from kosambi._core.checks import as_count, as_few, as_inputs, check_key, is_traced
from kosambi._core.linalg import one_blas_thread
from kosambi._core.parameters import parameters
from kosambi._core.precision import host_generator, public, with_fields
from kosambi._core.progress import Clock, Interruption, Progress
from kosambi._core.types import Array, ArrayLike, Key
from kosambi.basis import inducing
from kosambi.basis.neighbors import row_order
from kosambi.errors import HyperparameterWarning, InputError
from kosambi.kernels import AbstractCombination, AbstractKernel, AbstractStationary
from kosambi.learning import paper
from kosambi.learning.drawn import drawn
from kosambi.learning.families import AnyFamily, without_choice
from kosambi.learning.hyperpriors import AbstractHyperprior, check_priors, described
from kosambi.learning.layout import Layout, Model, as_patterns, lay_out, rebuilt
from kosambi.learning.points import POINTS
from kosambi.learning.report import FitReport
from kosambi.learning.search import Record
from kosambi.learning.tails import HeavyTails, is_heavy_tailed
from kosambi.learning.task import AbstractStrategy, Found, Task
from kosambi.learning.with_points import WithPoints
from kosambi.learning.without_points import WithoutPoints
from kosambi.likelihoods import AbstractLikelihood
from kosambi.outputs.stacking import as_rows, is_matrix
from kosambi.priors import AbstractPrior, GaussianProcess
from kosambi.target.checks import as_weights, check_length
from kosambi.target.evidence import check_density

METHODS = ("evidence", "paper")
NUM_RESTARTS = 2
"""Further starts when their number is not given."""
ORDERED = 256
"""Rows above which some of them may be drawn by their numbers, so that they are first put in an order of their own."""


@public
@one_blas_thread()
def fit_hyperparameters(
    key: Key,
    prior: AbstractPrior | AbstractKernel,
    likelihood: AbstractLikelihood,
    x: ArrayLike,
    y: ArrayLike,
    method: str = "evidence",
    *,
    num_inducing: int | str | None = "auto",
    weights: ArrayLike | None = None,
    ard: bool = False,
    choose_family: bool = False,
    freeze: str | Sequence[str] = (),
    tie: Sequence[Sequence[str]] = (),
    max_rows: int | None = None,
    num_restarts: int | None = None,
    max_iterations: int = 400,
    priors: Mapping[str, AbstractHyperprior] | None = None,
    num_draws: int = 0,
    progress: bool | None = None,
    on_interrupt: str = "raise",
) -> tuple[Any, AbstractLikelihood, FitReport]:
    """Kernel parameters, prior mean, noise and other likelihood parameters that make the data probable.

    Returns what was given, with other numbers, and a report: `kernel, likelihood, report` for a kernel, which stands
    for `GaussianProcess(kernel)` with mean zero; `prior, likelihood, report` for a prior, whose mean is learned if it
    is a number, or in the arrays of a mean that is an Equinox module. method="paper" leaves the mean alone.

    Arguments:
        key: a JAX random key, for starts and subsets.
        prior: a prior, or a kernel.
        likelihood: one with a density; its parameters are learned, except a noise that is given for each observation.
        x: (N, D), the inputs.
        y: (N,), the observations; (N, P) for P outputs, each with a noise, NaN where one was not observed; see
            `kosambi.outputs`.
        method: "evidence", which maximises the evidence (log marginal likelihood) of this very model (see
            `kosambi.target.evidence`), or "paper", which fits the kernel as that of an exact Gaussian process (the
            paper's recipe, for comparison).
        num_inducing: M, for "evidence": a number, for which points and hyperparameters are learned together; "auto", or
            None, which is the same, to leave it to `infer(num_inducing="auto")`, or "all": then the evidence is that of
            the process itself, without inducing points: exact for `Gaussian` and up to 2000 rows, a variational bound
            through Gaussian sites for other likelihoods and up to 1024 (640 where their cost is not convex). More rows
            are taken in blocks, and with Gaussian noise the neighbour likelihood of all rows has the last word.
        weights: (N,), how often each observation counts, for "evidence"; sizes that the search begins with are taken
            from all rows that count at all.
        ard: give every stationary kernel with a single lengthscale one for each input column.
        choose_family: whether the family of the kernel, which must be `Matern32`, `Matern52` or `SquaredExponential`,
            is left to the evidence: the one of these three that makes at most 512 rows most probable goes on.
        freeze: parameters that keep their values, by name: "likelihood", "kernel.variance", "kernel.*.variance".
        tie: groups of parameters that have one value, [["kernel.0.lengthscale", "kernel.1.lengthscale"]].
        max_rows: rows that are learned from, at most. None, with "auto" or "all", takes all rows with one Gaussian
            noise and a `GaussianProcess`, otherwise up to 4096 in blocks; with a number of inducing points as many as
            take some seconds together, and after that all rows in random batches; with Gaussian noise, or a number
            here, the likelihood's parameters and the mean alone on all rows. For "paper" the size of the subsets of
            nearest neighbours, 2000 and for labels 1000.
        num_restarts: further starts from which a short search is made, 2 when None; for "paper" the number of subsets,
            10 and for labels 5.
        max_iterations: of the main search.
        priors: what is known of hyperparameters before the data, by name (or pattern): `{"likelihood.noise":
            kosambi.hyperpriors.LogNormal(0.1, 0.5)}`, in the units of the parameter. Others have the usual weak prior;
            `report.priors` says which.
        num_draws: K, draws of all hyperparameters from their posterior given the data, for `report.draws`; none when 0.
            Hand them to `average`. They know the rows that are learned from together (see `num_inducing`).
        progress: whether to show a progress line; None shows it on a terminal.
        on_interrupt: "raise" lets the `KeyboardInterrupt` of Ctrl-C pass. "return" returns the best that was found by
            then, with a report that says so; an interruption before anything was found is raised in either case.

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
    if method == "indicators":
        warnings.warn(
            'method="indicators" is now part of "evidence", which is as fast.', DeprecationWarning, stacklevel=4
        )
        method = "evidence"
    if method not in METHODS:
        raise InputError(f"`method` must be one of {', '.join(METHODS)}. Got {method!r}.")
    number = inducing.as_num_inducing("num_inducing", num_inducing)
    if is_matrix(y):
        likelihood, x, y, weights = as_rows(likelihood, x, y, weights)
    x = long_tables.frozen(as_inputs("x", x))
    if choose_family and method == "paper":
        raise InputError('method="paper" keeps the family of the kernel. Leave out `choose_family`.')
    given = as_prior(prior, x, ard, choose_family)
    check_density(likelihood)
    y = likelihood.check(y)
    # What is returned for a kernel has no mean, so none can be learned.
    bare = isinstance(prior, AbstractKernel)
    frozen = [*as_patterns("freeze", freeze), *(["mean"] if bare else [])]
    layout = lay_out(Model(given.kernel, given.mean, likelihood), frozen, tie)
    number_drawn = as_few("num_draws", num_draws)
    if method == "paper" and (priors or number_drawn):
        raise InputError('method="paper" has neither priors over hyperparameters nor draws of them. Leave them out.')
    check_length("y", y, x)
    counts = None if weights is None else np.asarray(as_weights(weights, x))
    used = slice(None) if counts is None else np.asarray(counts > 0)
    notes = check_data(x[used], y[used], likelihood, layout, len(y))
    is_drawn_from = method == "evidence" and (len(y) > ORDERED or max_rows is not None)
    if is_drawn_from and likelihood.num_rows is None:
        # Subsets, blocks and batches are then the same, whatever order the rows were given in.
        order = row_order(x, y, counts)
        x, y, counts = long_tables.frozen(x[order]), y[order], None if counts is None else counts[order]
    with Progress(progress) as show:
        task = Task(
            generator=generator,
            prior=given,
            likelihood=likelihood,
            x=x,
            y=y,
            counts=counts,
            layout=layout,
            max_iterations=as_count("max_iterations", max_iterations),
            num_restarts=NUM_RESTARTS if num_restarts is None else as_few("num_restarts", num_restarts),
            record=Record(show=show),
            show=show,
            stop=Interruption(on_interrupt),
            priors=check_priors(priors, layout),
        )
        strategy = _strategy(task, method, number, max_rows, num_restarts)
        found = strategy.start()
        together = found.num_rows
        for stage in (strategy.search, strategy.refine, strategy.check):
            if not task.stop.happened:
                with task.stop:
                    found = stage(found)
            if stage == strategy.search:
                together = found.num_rows
        draws = None
        if number_drawn and not task.stop.happened:
            show.update("draws of hyperparameters")
            with task.stop:
                draws = drawn(strategy, found, number_drawn, together)
    report = dataclasses.replace(_report(method, strategy, found, clock, notes), draws=draws)
    for text in (*report.warnings, *(() if draws is None else draws.warnings)):
        # Past the decorators.
        warnings.warn(text, HyperparameterWarning, stacklevel=4)
    model = found.model._replace(kernel=without_choice(found.model.kernel))
    return (model.kernel if bare else rebuilt(_concrete(given), model)), model.likelihood, report


def _strategy(
    task: Task, method: str, number: int | str, max_rows: int | None, num_restarts: int | None
) -> AbstractStrategy:
    """Which way suits the task."""
    if method == "paper":
        if number != "auto":
            raise InputError(
                'method="paper" fits an exact Gaussian process, without inducing points. Leave out `num_inducing`.'
            )
        if task.counts is not None:
            raise InputError('method="paper" does not know weights. Leave them out, or use method="evidence".')
        if getattr(task.likelihood, "groups", None) is not None:
            raise InputError('method="paper" has one noise, and no groups of them. Use method="evidence".')
        return paper.PaperRecipe(task, paper.settings(task.likelihood, max_rows, num_restarts))
    rows = None if max_rows is None else _as_rows(max_rows)
    if isinstance(number, int):
        return WithPoints(task, number, rows)
    return (HeavyTails if is_heavy_tailed(task) else WithoutPoints)(task, rows)


def _report(method: str, strategy: AbstractStrategy, found: Found, clock: Clock, notes: list[str]) -> FitReport:
    task, record = strategy.task, strategy.task.record
    frozen = tuple(p.name for p in task.layout.frozen) if found.frozen is None else found.frozen
    learned = parameters(**found.model._asdict())
    return FitReport(
        method=method,
        objective=found.objective,
        log_evidence=found.log_evidence,
        is_exact=found.is_exact,
        bound=found.log_evidence if found.strategy == POINTS else np.nan,
        gradient_norm=found.gradient_norm,
        converged=found.converged and not task.stop.happened,
        parameters={p.name: np.asarray(p.value) for p in learned} | found.beside,
        frozen=frozen,
        at_bound=found.at_bound,
        restarts=found.restarts,
        rounds=found.rounds,
        iterations=found.iterations,
        evaluations=len(record.values) + record.failures + record.moves,
        failures=record.failures,
        trace=-np.asarray(record.values),
        num_rows=found.num_rows,
        num_support=found.num_support,
        inducing_points=found.inducing_points,
        jitter=found.jitter,
        seconds=clock.seconds,
        compile_seconds=clock.compile_seconds,
        warnings=(*notes, *strategy.doubts(found), *found.warnings),
        strategy=found.strategy,
        priors=described(found.bounds, task.layout),
    )


def as_prior(prior: object, x: Array, ard: bool, choose_family: bool = False) -> AbstractPrior:
    """The prior that a kernel stands for, with a lengthscale for each column, and with an open family, if asked for."""
    if isinstance(prior, AbstractKernel):
        prior = GaussianProcess(prior)
    if not isinstance(prior, AbstractPrior):
        raise InputError(
            f"`fit_hyperparameters` needs a prior or a kernel second. Got {type(prior).__name__}. "
            "For example `kosambi.kernels.Matern52()`."
        )
    as_inputs("x", x, prior.num_columns)
    prior.check_columns(x.shape[1])
    prior.kernel.check_inputs(np.asarray(x))
    kernel = _with_ard(prior.kernel, x.shape[1]) if ard else prior.kernel
    return with_fields(prior, kernel=AnyFamily.of(kernel) if choose_family else kernel)


def _concrete(prior: AbstractPrior) -> AbstractPrior:
    return with_fields(prior, kernel=without_choice(prior.kernel))


def _with_ard(kernel: AbstractKernel, num_columns: int) -> AbstractKernel:
    if isinstance(kernel, AbstractCombination):
        return with_fields(kernel, kernels=tuple(_with_ard(part, num_columns) for part in kernel.kernels))
    if isinstance(kernel, AbstractStationary) and np.size(kernel.lengthscale) == 1:
        number = num_columns if kernel.active_dims is None else len(kernel.active_dims)
        return with_fields(kernel, lengthscale=np.full(number, float(np.ravel(kernel.lengthscale)[0])))
    return kernel


def check_data(x: Array, y: Array, likelihood: AbstractLikelihood, layout: Layout, num_rows: int) -> list[str]:
    """Refuse data that say nothing; texts of warnings for data that say little.

    x and y are the rows that count, of `num_rows`.
    """
    if layout.size == 0:
        raise InputError(
            "Every parameter is frozen or none is an array, so there is nothing to learn. Leave out `freeze`; in a "
            "kernel of your own hold numbers as `np.asarray(value, dtype=float)`."
        )
    if len(y) < 2:
        raise InputError(f"Hyperparameters need two rows of data at least. Got {len(y)}.")
    if np.all(y == y[0]):
        raise InputError(
            f"All {len(y)} observations are {y[0]:g}, so they say nothing about variances and lengthscales. Use data "
            "that vary, or keep the hyperparameters that you have."
        )
    if likelihood.num_rows not in (None, num_rows):
        raise InputError(f"`noise` has {likelihood.num_rows} entries for {num_rows} rows of x. Give one for each row.")
    constant = np.flatnonzero(np.ptp(x, axis=0) == 0)
    if len(constant) == x.shape[1]:
        raise InputError("No column of `x` varies, so all inputs are one point. Give inputs that differ.")
    notes = []
    if len(constant):
        shown = ", ".join(map(str, constant[:5])) + (", ..." if len(constant) > 5 else "")
        notes.append(f"Column {shown} of x does not vary, so the data say nothing of its lengthscale. Leave it out.")
    if len(y) <= layout.size:
        notes.append(
            f"{len(y)} rows are no more than the numbers to be learned ({layout.size}); the weak prior around usual "
            "values decides most of them."
        )
    return notes


def _as_rows(value: object) -> int:
    """A whole number of rows, two or more."""
    rows = as_count("max_rows", value)
    if rows < 2:
        raise InputError("`max_rows` must be at least 2. Got 1. Hyperparameters need rows that differ.")
    return rows
