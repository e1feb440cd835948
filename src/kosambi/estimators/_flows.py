"""The ways of a fit: rows in memory, rows of a source that are held, and rows that are read in blocks."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from kosambi._core.checkpoints import Checkpoint, resumable
from kosambi._core.groups import ALONE
from kosambi._core.long_tables import frozen
from kosambi._core.meshes import check_mesh
from kosambi.errors import InputError
from kosambi.estimators._fit import fitted
from kosambi.estimators._inputs import standardised
from kosambi.estimators._learn import Settings
from kosambi.estimators._more import begun_from
from kosambi.estimators._resume import about, about_source, kept_key
from kosambi.estimators._rows import location_and_scale, merged
from kosambi.estimators._source import SourceModel, asked_of, refuse_in_blocks, standardised_rows, surveyed
from kosambi.estimators._units import input_units
from kosambi.learning.memory import Memory
from kosambi.likelihoods import AbstractLikelihood
from kosambi.samplers.run import check_sampler
from kosambi.sources import AbstractRowSource, ArraySource, Survey
from kosambi.streaming import chosen, read, reported, why_not, without_use

_WITHOUT_MESH = {
    "checkpoint": "particles on several devices are not written down",
    "max_memory": "what several devices hold is not planned",
    "X": "rows of a source are read for one device; give them as arrays",
}


class RowModel(NamedTuple):
    """What rows in memory are of."""

    y: Float[np.ndarray, " N"]
    """The observations as the likelihood knows them."""
    likelihood: AbstractLikelihood
    """Of standardised observations."""
    units: tuple[float, float]
    """Location and scale of the observations."""


class SourceModels(NamedTuple):
    """What the rows of a source are of, once they have been read: in blocks, or all of them."""

    of_survey: Callable[[Survey], SourceModel]
    of_rows: Callable[[Survey, Float[np.ndarray, " N"], Float[np.ndarray, " N"]], RowModel]
    """From what the first pass found, observations and weights."""


def fit_rows(
    estimator: Any,
    x: Float[np.ndarray, "N D"],
    weights: Float[np.ndarray, " N"],
    model: RowModel,
    checkpoint: Any = None,
    max_memory: Any = None,
    mesh: Any = None,
) -> None:
    """Learn from rows in memory; with a limit, from blocks of them where a fit of all would take more."""
    check_for_mesh(mesh, estimator.sampler, checkpoint=checkpoint, max_memory=max_memory)
    settings, last = estimator._checked_settings(x), getattr(estimator, "posterior_", None)
    settings = dataclasses.replace(settings, mesh=mesh)
    begins_at_last = estimator.warm_start and last is not None and last.target.x.shape[1] == x.shape[1]
    if begins_at_last and checkpoint is not None:
        raise InputError(
            "`checkpoint` cannot keep a fit that begins at an earlier one, which a new process does not have. "
            "Set `warm_start=False`, or leave `checkpoint` out."
        )
    known = {} if checkpoint is None else about(estimator, x, model.y, weights, max_memory)
    with resumable(checkpoint, known):
        memory, reason = None, ""
        if max_memory is not None:
            asked = asked_of(settings)
            reason = why_not(asked, ALONE) or ""
            if not reason:
                memory, reason = chosen(x.shape, model.likelihood, asked, max_memory)
                reason = reason or without_use(asked, x)
        if reason:
            refuse_in_blocks(settings)
            if begins_at_last:
                raise InputError(
                    f"`warm_start=True` is for rows that are held in memory, and with `max_memory` these are read in "
                    f"blocks: {reason}. Leave `max_memory` out, or set `warm_start=False`."
                )
            found = surveyed(settings, ArraySource(x, model.y, weights), max_memory, None)
            _in_blocks(estimator, settings, found, SourceModel(model.likelihood, model.units), max_memory, reason)
        else:
            begun = last if begins_at_last else None
            if left := _in_memory(estimator, settings, x, weights, model, memory, begun):
                reported(estimator.posterior_, left, num_rows=len(x))
    _finished(estimator)


def check_for_mesh(mesh: Any, sampler: Any, **others: Any) -> None:
    """Refuse a mesh that a fit has no use for, before anything is learned."""
    if mesh is None:
        return
    check_mesh(mesh)
    check_sampler(sampler)
    for name, given in others.items():
        if given is not None:
            raise InputError(f"`mesh` cannot be given with `{name}`: {_WITHOUT_MESH[name]}. Leave out one of the two.")


def fit_source(
    estimator: Any,
    source: AbstractRowSource,
    max_memory: Any,
    check: Callable[[np.ndarray], object] | None,
    models: SourceModels,
    checkpoint: Any = None,
) -> None:
    """Learn from a source: from all of its rows as arrays, if they fit, and otherwise from blocks of them."""
    settings = estimator._settings()
    if estimator.warm_start and hasattr(estimator, "posterior_"):
        raise InputError("`warm_start=True` is for rows in memory. Set it to False to read a source of rows anew.")
    settings.check()
    with contextlib.ExitStack() as stack:
        stack.enter_context(source.group.together())
        if checkpoint is not None:
            own = Checkpoint.of(checkpoint).part(source.group)
            stack.enter_context(resumable(own, about_source(estimator, source, max_memory)))
            # One that is refused ends all of them before anything is found.
            source.group.exchange("checkpoints", b"")
        asked = asked_of(settings)
        if reason := why_not(asked, source.group):
            refuse_in_blocks(settings)
        found = surveyed(settings, source, max_memory, check)
        given = models.of_survey(found)
        estimator.n_features_in_ = len(found.x_mean)
        if source.columns is not None:
            estimator.feature_names_in_ = np.array(source.columns, dtype=object)
        elif hasattr(estimator, "feature_names_in_"):
            del estimator.feature_names_in_
        memory = None
        if not reason:
            memory, reason = chosen((found.num_rows, len(found.x_mean)), given.likelihood, asked, max_memory)
        if memory is not None:
            rows = read(found)
            reason = without_use(asked, rows.x)
            if not reason:
                estimator._check_cells(rows.x)
                model = models.of_rows(found, rows.y, rows.weights)
                left = _in_memory(estimator, settings, rows.x, rows.weights, model, memory, is_own=True)
                reported(estimator.posterior_, left or memory, found)
            del rows
        if reason:
            refuse_in_blocks(settings)
            estimator._check_cells(found.sample.x, f"In a sample of {len(found.sample.y):,} rows: ")
            _in_blocks(estimator, settings, found, given, max_memory, reason)
        # Nobody removes a checkpoint before all have drawn.
        source.group.exchange("the end of the fit", b"")
    _finished(estimator)


def _in_memory(
    estimator: Any,
    settings: Settings,
    x: Float[np.ndarray, "N D"],
    weights: Float[np.ndarray, " N"],
    model: RowModel,
    memory: Memory | None,
    last: Any = None,
    is_own: bool = False,
) -> Memory | None:
    """From arrays, which are written over where they are the fit's own; `last` is where it begins, if anywhere.

    Returns what there was of memory, if that is limited.
    """
    rows, likelihood = merged(x, model.y, weights, is_own), model.likelihood
    estimator.x_mean_, estimator.x_scale_ = input_units(estimator, *location_and_scale(rows.x, rows.weights))
    settings = estimator._standard(settings, likelihood, model.units)
    names = getattr(estimator, "feature_names_in_", None)
    # In the place of the rows as they were.
    frozen(standardised(rows.x, estimator.x_mean_, estimator.x_scale_, names, out=rows.x))
    if last is not None:
        settings, likelihood = begun_from(last, settings, likelihood, *model.units)
    key = kept_key(estimator._key)
    estimator.posterior_, estimator.fit_report_, left = fitted(
        key, settings, likelihood, rows, *model.units, memory=memory
    )
    return left


def _in_blocks(
    estimator: Any, settings: Settings, found: Survey, given: SourceModel, max_memory: object, reason: str
) -> None:
    """From a sample of the rows, and sums over all of them."""
    estimator.x_mean_, estimator.x_scale_ = input_units(estimator, found.x_mean, found.x_scale)
    settings = estimator._standard(settings, given.likelihood, given.units)
    found = standardised_rows(found, given.classes, estimator.x_mean_, estimator.x_scale_)
    rows = merged(found.sample.x, found.sample.y, found.sample.weights)
    key = kept_key(estimator._key)
    estimator.posterior_, estimator.fit_report_, _ = fitted(
        key, settings, given.likelihood, rows, *given.units, found=found, max_memory=max_memory, reason=reason
    )


def _finished(estimator: Any) -> None:
    estimator.report_ = estimator.posterior_.report
    # One of an earlier fit would be wrong.
    estimator.__dict__.pop("_certificate", None)
