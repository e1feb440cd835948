"""`kosambi.fit_hyperparameters`: kernel, prior mean and likelihood parameters from data."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from kosambi._core.checks import as_count, as_few, as_inputs, check_key, is_traced
from kosambi._core.linalg import one_blas_thread
from kosambi._core.precision import host_generator, public
from kosambi._core.progress import Clock, Interruption, Progress
from kosambi._core.types import ArrayLike, Key
from kosambi.errors import HyperparameterWarning, InputError
from kosambi.kernels import AbstractKernel
from kosambi.learning import _dense, _paper, _points
from kosambi.learning._checks import as_prior, as_rows, check_data
from kosambi.learning._layout import Layout, Model, lay_out, rebuilt
from kosambi.learning._search import Record
from kosambi.learning._task import Outcome, Task
from kosambi.learning.report import FitReport
from kosambi.learning.sizes import as_num_inducing
from kosambi.likelihoods import AbstractLikelihood
from kosambi.priors import AbstractPrior
from kosambi.target.evidence import check_density
from kosambi.target.target import as_weights, check_length

METHODS = ("evidence", "paper")
NUM_RESTARTS = 2
"""Further starts when their number is not given."""


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
    freeze: str | Sequence[str] = (),
    tie: Sequence[Sequence[str]] = (),
    max_rows: int | None = None,
    num_restarts: int | None = None,
    max_iterations: int = 400,
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
        y: (N,), the observations.
        method: "evidence", which maximises the evidence (log marginal likelihood) of this very model (see
            `kosambi.target.evidence`), or "paper", which fits the kernel as that of an exact Gaussian process (the
            paper's recipe, for comparison).
        num_inducing: M, for "evidence": a number, for which points and hyperparameters are learned together; "auto", or
            None, which is the same, to leave it to `infer(num_inducing="auto")`, or "all": then the evidence is that of
            the process itself, without inducing points: exact for `Gaussian` and up to 2000 rows, a variational bound
            through Gaussian sites for other likelihoods and up to 640. More rows are taken in blocks, and with Gaussian
            noise the neighbour likelihood of all rows has the last word.
        weights: (N,), how often each observation counts, for "evidence"; starts of the search do not look at them.
        ard: give every stationary kernel with a single lengthscale one for each input column.
        freeze: parameters that keep their values, by name: "likelihood", "kernel.variance", "kernel.*.variance".
        tie: groups of parameters that have one value, [["kernel.0.lengthscale", "kernel.1.lengthscale"]].
        max_rows: rows that are learned from, at most. None, with "auto" or "all", takes all rows with one Gaussian
            noise and a `GaussianProcess`, otherwise up to 4096 in blocks; with a number of inducing points 2000 for the
            kernel, with the likelihood's parameters and the mean learned again on all. For "paper" the size of the
            subsets of nearest neighbours, 2000 and for labels 1000.
        num_restarts: further starts from which a short search is made, 2 when None; for "paper" the number of subsets,
            10 and for labels 5.
        max_iterations: of the main search.
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
    number = as_num_inducing("num_inducing", num_inducing)
    x = as_inputs("x", x)
    given = as_prior(prior, x, ard)
    check_density(likelihood)
    y = likelihood.check(y)
    # What is returned for a kernel has no mean, so none can be learned.
    bare = isinstance(prior, AbstractKernel)
    frozen = [*([freeze] if isinstance(freeze, str) else freeze), *(["mean"] if bare else [])]
    layout = lay_out(Model(given.kernel, given.mean, likelihood), frozen, tie)
    if layout.size == 0:
        raise InputError(
            "Every parameter is frozen or none is an array, so there is nothing to learn. Leave out `freeze`; in a "
            "kernel of your own hold numbers as `np.asarray(value, dtype=float)`."
        )
    check_length("y", y, x)
    counts = None if weights is None else np.asarray(as_weights(weights, x))
    used = slice(None) if counts is None else np.asarray(counts > 0)
    notes = check_data(x[used], y[used], likelihood, layout.size, len(y))
    stop = Interruption(on_interrupt)
    with Progress(progress) as show:
        record = Record(show=show)
        limit = as_count("max_iterations", max_iterations)
        task = Task(generator, given, likelihood, x, y, counts, layout, limit, record, show, stop)
        if method == "paper":
            if number != "auto":
                raise InputError(
                    'method="paper" fits an exact Gaussian process, without inducing points. Leave out `num_inducing`.'
                )
            if counts is not None:
                raise InputError('method="paper" does not know weights. Leave them out, or use method="evidence".')
            found = _paper.fit(task, _paper.settings(likelihood, max_rows, num_restarts))
        else:
            rows = None if max_rows is None else as_rows(max_rows)
            restarts = NUM_RESTARTS if num_restarts is None else as_few("num_restarts", num_restarts)
            if isinstance(number, int):
                found = _points.fit(task, number, rows, restarts)
            else:
                found = _dense.fit(task, rows, restarts)
    report = _report(method, found, layout, record, clock, notes)
    for text in report.warnings:
        # Past the decorators.
        warnings.warn(text, HyperparameterWarning, stacklevel=4)
    return (found.model.kernel if bare else rebuilt(given, found.model)), found.model.likelihood, report


def _report(method: str, found: Outcome, layout: Layout, record: Record, clock: Clock, notes: list[str]) -> FitReport:
    leaves = jax.tree.leaves(found.model)
    everything = sorted([p for group in layout.groups for p in group] + list(layout.frozen), key=lambda p: p.leaf)
    fields = {field.name: getattr(found, field.name) for field in dataclasses.fields(found)}
    del fields["model"], fields["beside"]
    fields["warnings"] = (*notes, *found.warnings)
    return FitReport(
        method=method,
        parameters={p.name: np.asarray(leaves[p.leaf]) for p in everything} | found.beside,
        evaluations=len(record.values) + record.failures + record.moves,
        failures=record.failures,
        trace=-np.asarray(record.values),
        seconds=clock.seconds,
        compile_seconds=clock.compile_seconds,
        **fields,
    )
