r"""A posterior given more data: the same coordinates and hyperparameters, and the draws anew.

p(w | y, y') ∝ p(y' | w) p(w | y). With Gaussian noise that is a normal distribution again, and its mean and covariance
follow from those of before and from the new rows (`kosambi.target.more_rows`). With other likelihoods the particles of
before are where the sampler begins on the potential of all rows.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import numpy as np

from kosambi._core.checks import check_key
from kosambi._core.precision import host_generator
from kosambi._core.programs import split
from kosambi._core.progress import Clock
from kosambi._core.types import Array, ArrayLike, Key
from kosambi.errors import InputError, TruncationWarning
from kosambi.samplers import AbstractSampler, Particles, Report, sample
from kosambi.samplers.base import warn_user
from kosambi.target import Target
from kosambi.target.more_rows import MoreRows, checked_rows, with_more_rows

UNEXPLAINED = 0.05
"""The part of the prior variance at new rows that coordinates may leave open before the user is warned."""
# And how many times as much as at the rows before.
_MORE = 2.0
# Folded into the key for the new rows that join the sample of a stream; far from small numbers.
_SAMPLE = 2**28


class Conditioned(NamedTuple):
    """The parts of a posterior."""

    target: Target
    particles: Particles
    report: Report


def condition(
    warns: bool,
    key: Key,
    target: Target,
    particles: Particles,
    report: Report | None,
    x: ArrayLike,
    y: ArrayLike,
    weights: ArrayLike | None,
    noise: ArrayLike | None,
    sampler: str | AbstractSampler,
    num_particles: int | None,
    options: dict[str, Any],
) -> Conditioned:
    """`Posterior.condition`, with its arguments."""
    clock, key = Clock(), check_key(key)
    rows = checked_rows(target, x, y, weights, noise)
    # As `infer` does, so that the same key gives the same random numbers.
    _, key_sample = split(key, 2)
    note = _unexplained(target, rows)
    if note is not None and warns:
        warn_user(note, TruncationWarning)
    found = with_more_rows(target, rows, _kept(key, target, rows))
    number = particles.num_particles if num_particles is None else num_particles
    drawn, run = sample(key_sample, found, sampler, number, initial=particles, **options)
    stream = None if report is None else report.stream
    if stream is not None:
        stream = dataclasses.replace(stream, num_rows=found.num_rows, sample_rows=len(found.x))
    run = dataclasses.replace(
        run,
        seconds=clock.seconds,
        compile_seconds=clock.compile_seconds,
        warnings=run.warnings if note is None else (note, *run.warnings),
        stream=stream,
    )
    return Conditioned(found, drawn, run)


def _kept(key: Key, target: Target, rows: MoreRows) -> np.ndarray | None:
    """New rows that join the sample of a stream, each with the chance that rows of the stream had."""
    if target.stream is None:
        return None
    chance = host_generator(jax.random.fold_in(key, _SAMPLE)).uniform(size=len(rows.y))
    return np.flatnonzero(chance * float(target.stream.factor) < 1.0)


def _unexplained(target: Target, rows: MoreRows) -> str | None:
    """What to say of new rows that the coordinates know little of; with neighbours nothing is lost."""
    if target.neighborhood is not None:
        return None
    share = _open_share(target, rows.x)
    known = target.stream
    # As few points as were enough for the rows before are not a surprise.
    if share <= UNEXPLAINED or share <= _MORE * (
        _open_share(target, target.x) if known is None else float(known.residual_trace / known.prior_trace)
    ):
        return None
    return (
        f"The {target.basis.size} coordinates leave {100 * share:.2g} % of the prior variance at the {len(rows.y)} new "
        "rows open, so that part of what these say is lost, or is taken for more than it is. Call `infer` with all "
        "rows, which chooses inducing points among them."
    )


def _open_share(target: Target, x: Array) -> float:
    residual, variance = np.asarray(target.basis.residual_variance(x)), np.asarray(target.basis.prior.variance(x))
    return float(np.sum(residual) / np.sum(variance)) if np.sum(variance) > 0 else 0.0


def check_whole(mode_share: float) -> None:
    """Refuse the particles of one mode of several."""
    if mode_share < 1.0:
        raise InputError(
            "New data change how probable the modes are, and these draws are of one mode. Use "
            "`condition(key, x, y)` of the whole posterior, and then `by_mode()`."
        )


def log_density_of_more(old: Any, new: Any) -> float | None:
    """log p(y' | y) of the new rows given the old, both posteriors being of the same model; None where not known.

    In closed form, or the mean of exp(V − V') over the draws given the old rows.
    """
    if old.particles.distribution is not None and new.particles.distribution is not None:
        return float(new.log_evidence) - float(old.log_evidence)
    if old.target.neighborhood is not None:
        return None
    u = old.particles.coordinates
    gain = np.asarray(old.target.potential(u)) - np.asarray(new.target.potential(u))
    return float(np.logaddexp.reduce(gain) - np.log(len(gain)))
