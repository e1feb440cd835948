"""From rows to a posterior: hyperparameters, inducing points, draws."""

from __future__ import annotations

import time
import warnings
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float, Int

from kosambi._core.long_tables import num_distinct
from kosambi._core.precision import host_generator
from kosambi._core.process_memory import give_back
from kosambi._core.programs import split
from kosambi._core.types import Key
from kosambi.averaging import average
from kosambi.basis import PointBasis, inducing
from kosambi.errors import HyperparameterWarning, TruncationWarning
from kosambi.estimators._doubt import worse_than_constant
from kosambi.estimators._learn import Model, Settings, learned, leaves_much, with_last_word
from kosambi.estimators._models import in_units, prior_in_units
from kosambi.estimators._rows import Rows, padded
from kosambi.inference import walked
from kosambi.kernels import column_scales
from kosambi.learning import FitReport
from kosambi.learning.chosen_points import beside_neighbors_of
from kosambi.learning.held_out import kept_out, last_word
from kosambi.learning.held_out_near import KEPT_OUT, last_word_near
from kosambi.learning.held_out_tails import KEPT_OUT as KEPT_OUT_TAILS
from kosambi.learning.held_out_tails import has_last_word, last_word_tails
from kosambi.learning.memory import Memory
from kosambi.learning.num_neighbors import (
    MOST,
    are_replicated,
    as_neighbors,
    beside_neighbors,
    enough_neighbors,
    of_all_rows,
)
from kosambi.learning.sizes import DRAWN, SUBSET, affordable
from kosambi.likelihoods import AbstractLikelihood, Gaussian
from kosambi.posterior import AveragedPosterior, Posterior
from kosambi.posterior.doubled import scores_beside
from kosambi.priors import AbstractPrior
from kosambi.samplers.run import is_for_closed_form
from kosambi.sources import Survey
from kosambi.streaming import infer_source
from kosambi.target import Target
from kosambi.target.neighbors import DEFAULT, NEIGHBORS

# What is folded into a fit's key for the models of an average; far from the numbers of its other keys.
_FOR_AVERAGES = 2**29
MANY_ROWS = 2000
"""Rows above which closed forms are not filled up, which would be for nothing and is not cheap."""


class Fitted(NamedTuple):
    """What a fit has found."""

    posterior: Posterior
    report: FitReport | None
    memory: Memory | None = None
    """What there was of it after learning, if it is limited."""


def fitted(
    key: Key,
    settings: Settings,
    likelihood: AbstractLikelihood,
    rows: Rows,
    location: float,
    scale: float,
    found: Survey | None = None,
    max_memory: object = None,
    reason: str = "",
    memory: Memory | None = None,
) -> Fitted:
    """The posterior given `rows`, whose inputs are standardised, and how the hyperparameters were found.

    `likelihood` is that of standardised observations; (location, scale) is (0, 1) where there are no such. With
    `found`, hyperparameters and points come from `rows`, a sample, and the posterior is of all rows of that stream,
    which are read in blocks for a `reason`; `memory` is what a fit of rows in memory may take, if that is limited.
    """
    key_learn, key_points, key_held, key_draw = split(key, 4)
    key_average = jax.random.fold_in(key, _FOR_AVERAGES)
    began, filled = time.perf_counter(), padded(rows)
    number = settings.num_points
    number = _at_most(number, rows) if isinstance(number, int) else number
    near, is_asked = (0, False) if found is not None else _num_neighbors(settings, likelihood, rows, number == "auto")
    # Points, or all rows, as `infer` finds.
    is_left_open = not near and not settings.asks_for_neighbors and settings.n_neighbors != 0
    count = len(rows.y) if found is None else found.num_rows
    few = affordable(count, likelihood) if number == "auto" and not near else None
    is_learned, num_draws = settings.is_learned, settings.num_draws(likelihood, count, near > 0)
    num_draws = num_draws if found is None else 0
    if few is not None and (found is not None or not isinstance(likelihood, Gaussian)):
        # So many rows are learned from with the points that then carry the draws; and of a stream, where passes take
        # minutes, learning may take some, too: fewer points that are learned say more than twice as many that are not.
        few = min(few, DRAWN)
        number, few = (_at_most(few, rows) if is_learned else number), None
    z = (filled.y - location) / scale
    limit = SUBSET if few is not None else None
    model = learned(key_learn, settings, likelihood, rows, filled, z, number or "auto", limit, num_draws)
    if memory is not None:
        give_back()
        memory = memory.again(*rows.x.shape)
    points, chosen = model.points if isinstance(number, int) else None, None
    if number == 0:
        points = rows.x[:0]
    if (few is not None or (near and number == "auto")) and (
        is_asked or leaves_much(model.prior, model.likelihood, rows)
    ):
        # Evenly spread points predict far better than greedy ones where no number of them is enough.
        if few is None:
            given = (model.prior, model.likelihood, rows.x, z[: len(rows.y)])
            chosen = beside_neighbors_of(key_points, *given, near, is_for_closed_form(settings.sampler), memory)
        else:
            scaled = rows.x / column_scales(model.prior.kernel, rows.x)
            chosen = inducing.kmeans(key_points, scaled, min(few, num_distinct(rows.x)))
        points = rows.x[chosen]
        if is_learned and not settings.is_restricted:
            spare = np.setdiff1d(np.arange(len(rows.y)), chosen)
            model = _after_last_word(key_held, model, rows, z[: len(rows.y)], points, near, spare)
    elif number == "auto" and not is_asked:
        near = 0
    prior, final = _in_units(model.prior, model.likelihood, location, scale)
    if found is not None:
        posterior = infer_source(
            key_draw,
            prior,
            final,
            found,
            PointBasis,
            num_inducing=number if points is None else "auto",
            inducing_points="greedy" if points is None else points,
            potential=settings.potential,
            sampler=settings.sampler,
            num_particles=settings.n_samples,
            max_memory=max_memory,
            reason=reason,
            progress=settings.progress,
        )
        if (note := worse_than_constant(posterior)) is not None:
            warnings.warn(note, HyperparameterWarning, stacklevel=6)
        return Fitted(posterior, model.report)
    # Neighbours are found once, among the rows as they are, and nothing is compiled for the closed form of all rows.
    is_near = near > 0 or settings.potential == NEIGHBORS
    is_plain = is_near or (isinstance(likelihood, Gaussian) and len(rows.y) > MANY_ROWS)
    data = rows if is_plain else filled
    options: dict[str, Any] = {
        "weights": data.weights if not is_plain or rows.has_weights else None,
        "sampler": settings.sampler,
        "potential": settings.potential,
        "num_neighbors": "auto" if is_left_open else near,
        "num_particles": settings.n_samples,
        "progress": settings.progress,
        "mesh": settings.mesh,
    }
    place = {"num_inducing": number} if points is None else {"inducing_points": points}
    start = settings.initial
    posterior = walked(key_draw, prior, final, data.x, data.y, initial=start, memory=memory, **options, **place)
    if is_near and chosen is not None:
        seconds = time.perf_counter() - began
        posterior.selection = (
            beside_neighbors(
                chosen,
                near,
                1.0 - posterior.explained_variance,
                seconds,
                scores_beside(posterior.target, np.asarray(posterior.particles.whitened)),
            )
            if near < len(rows.y)
            else of_all_rows(near, seconds)
        )
    whole, posterior = posterior, posterior if is_plain else _without_padding(posterior, rows, settings.mesh)
    if (note := worse_than_constant(posterior)) is not None:
        warnings.warn(note, HyperparameterWarning, stacklevel=6)
    if model.report is not None and (draws := model.report.draws) is not None:
        models = [_in_units(*each, location, scale) for each in zip(draws.priors, draws.likelihoods, strict=True)]
        draws = draws.with_models(models, (prior, final))
        if isinstance(likelihood, Gaussian):
            # Without coordinates nothing is compiled for the number of rows.
            data, whole, is_plain = rows, posterior, True
            options["weights"] = rows.weights if rows.has_weights else None
        asked: dict[str, Any] = {"num_inducing": number} if isinstance(number, int) else {}
        parts = average(key_average, draws, data.x, data.y, point=whole, **options, **asked).components
        parts = parts if is_plain else tuple(_without_padding(part, rows, settings.mesh) for part in parts)
        posterior = AveragedPosterior(posterior, parts, draws)
    return Fitted(posterior, model.report, memory)


def _after_last_word(
    key: Key,
    model: Model,
    rows: Rows,
    z: Float[np.ndarray, " N"],
    points: Float[np.ndarray, "M D"],
    near: int,
    spare: Int[np.ndarray, " S"],
) -> Model:
    """The model with scale and noise that suit some of the `spare` rows; as it is where nothing is known of that."""
    prior, likelihood = model.prior, model.likelihood
    seen = rows.x, z, rows.weights
    if not isinstance(likelihood, Gaussian):
        if not near or not has_last_word(likelihood):
            return model
        held = kept_out(host_generator(key), spare, KEPT_OUT_TAILS)
        return with_last_word(model, last_word_tails(prior, likelihood, *seen, min(near, MOST), held), len(held))
    held = kept_out(host_generator(key), spare, *([KEPT_OUT] if near else []))
    if near:
        found = last_word_near(prior, float(likelihood.noise), *seen, points, min(near, MOST), held)
    else:
        found = last_word(prior, float(likelihood.noise), *seen, points, held)
    return with_last_word(model, found, len(held))


def _in_units(
    prior: AbstractPrior, likelihood: AbstractLikelihood, location: float, scale: float
) -> tuple[AbstractPrior, AbstractLikelihood]:
    """A model of standardised observations in the units of y."""
    given = in_units(likelihood, location, scale)
    final = likelihood if given is None else given
    return prior_in_units(prior.kernel, np.asarray(prior.mean), final, location, scale), final


def _num_neighbors(settings: Settings, likelihood: AbstractLikelihood, rows: Rows, is_open: bool) -> tuple[int, bool]:
    """m, zero for none, and whether it was asked for; `is_open` says that the number of points was not given."""
    asked = as_neighbors("n_neighbors", settings.n_neighbors)
    if isinstance(asked, int):
        return asked, asked > 0
    if settings.potential not in ("auto", NEIGHBORS):
        return 0, False
    enough = enough_neighbors(len(rows.y), likelihood)
    if enough >= len(rows.y) and (settings.mesh is not None or not is_for_closed_form(settings.sampler)):
        # All rows leave nothing to draw with the sampler that was asked for, and nothing to share out.
        enough = 0
    if settings.potential == NEIGHBORS:
        return enough or DEFAULT, True
    return (enough if enough and is_open and not are_replicated(rows.x) else 0), False


def _at_most(asked: int, rows: Rows) -> int:
    distinct = num_distinct(rows.x)
    if asked > distinct:
        warnings.warn(
            f"`n_inducing={asked}` is more than there are distinct rows; {distinct} are used.",
            TruncationWarning,
            stacklevel=6,
        )
    return min(asked, distinct)


def _without_padding(posterior: Posterior, rows: Rows, mesh: Any) -> Posterior:
    """The same draws with the data as they are."""
    old = posterior.target
    target = Target(
        old.basis,
        old.likelihood,
        rows.x,
        rows.y,
        old.kind,
        weights=rows.weights if rows.has_weights else None,
        num_neighbors=None if old.num_neighbors is None else min(old.num_neighbors, len(rows.y)),
        mesh=mesh,
    )
    stripped = Posterior(target, posterior.particles, posterior.report)
    stripped.selection = posterior.selection
    return stripped
