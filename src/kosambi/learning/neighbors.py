r"""The neighbour likelihood of Gaussian noise (Vecchia 1988): a sum over rows, so that batches of them learn from all.

Rows stand in a random order, and each is predicted from m rows before it, 𝒩(n), most of them the nearest in
x/lengthscale:

    log p(y) ≈ Σ_n log p(y_n | y_𝒩(n)) = Σ_n [log N(y_{n∪𝒩}; μ, K_{n∪𝒩}) − log N(y_𝒩; μ, K_𝒩)],   K = r + σ²I

exact for m = N − 1. Each term costs m³; the mean over a random batch of rows, times N, has the right expectation, and
so has its gradient, ½(ααᵀ − K⁻¹) pulled back through K, never through a Cholesky factor.

Neighbours (`kosambi.basis.neighbors`) are found again when lengthscales have moved.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np
import optax
from jaxtyping import Float, Int

from kosambi._core.journal import Steps, recalled
from kosambi._core.precision import at_rest, lift
from kosambi.basis.neighbors import Nearest, Neighbors, nearest_before
from kosambi.kernels import column_scales
from kosambi.learning.conditionals import batch_evidence, conditionals
from kosambi.learning.layout import Model
from kosambi.learning.starts import Limits, penalty
from kosambi.learning.task import Found, Task
from kosambi.priors import AbstractPrior

NEIGHBORS = "neighbors"
NUM_NEAREST, NUM_FAR, FIRST_ROWS = 16, 4, (512, 64)
"""A row is given the nearest of all rows before it, and the nearest of the first so many, which are farther away: where
rows lie close together and are noisy, those around it do not tell a wide kernel from a high one."""
BATCH, STEPS = 512, 240
"""Rows of one step, and how many steps there are."""
MOST_TARGETS = 16384
"""Rows whose terms are in the sum; a random subset of all, the neighbours of which are looked for among all."""
KEPT_OUT = 1024
"""Rows that no step uses, which say whether the others have learned."""
# Adam: the first step in logarithms, which falls to zero along a cosine; the mean of the last part of all is kept.
_STEP, _AVERAGED = 0.08, 0.25
# Parts of the steps after which neighbours are found again, if a lengthscale has moved by this factor.
_AGAIN, _MOVED = (0.1, 0.25, 0.5, 0.75), 1.1
# The mean square of standardised errors outside of which the noise and the scale are not those of the data.
_USUAL_SQUARE = (0.6, 1.5)
# Nats per observation by which rows that were kept out may end worse than they began.
_WORSE = 0.01


def refined(task: Task, prior: AbstractPrior, found: Found) -> Found:
    """The free parameters once more, by steps along the neighbour likelihood of random batches of all rows.

    Rows that no step has used have the last word: what predicts them worse is not kept, and where the noise and the
    scale of f are not those of their errors, these are refitted.
    """
    bounds = found.bounds
    assert bounds is not None
    data = _Data(task, prior, found.model)
    begun = np.clip(task.layout.vector(found.model), bounds.lower, bounds.upper)
    before, _ = data.kept_out(begun)
    path = _descended(task, data, bounds, begun)
    data.find_again(path.vector)
    reached, _ = data.kept_out(path.vector)
    vector = path.vector
    if not reached > before - _WORSE:
        vector = begun
        data.find_again(vector)
    after, square, vector = _rescaled(task, data, bounds, vector)
    size = len(data.pool)
    return dataclasses.replace(
        found,
        model=at_rest(task.layout.model(vector, found.model)),
        strategy=NEIGHBORS,
        objective=size * after - penalty(bounds, vector)[0],
        log_evidence=size * after,
        gradient_norm=path.slope,
        converged=found.converged and bool(reached > before - _WORSE) and not task.stop.happened,
        at_bound=bounds.names_at_bound(task.layout, vector),
        iterations=found.iterations + path.steps,
        num_rows=size,
        is_exact=False,
        warnings=(*found.warnings, *_notes(before, reached, square)),
    )


class _Path(NamedTuple):
    vector: Float[np.ndarray, " P"]
    """The mean of the last steps."""
    slope: float
    """The largest slope of the objective within the bounds, as the mean of the last steps, which are noisy."""
    steps: int


def _descended(task: Task, data: _Data, bounds: Limits, vector: np.ndarray) -> _Path:
    """Adam along the mean of random batches, with steps that fall to zero."""
    begun, size, steps = vector, len(data.pool), min(STEPS, task.max_iterations)
    schedule = optax.cosine_decay_schedule(_STEP, steps)
    moments = np.zeros((2, len(vector)))
    trail, slopes, done = [], [], 0
    again = {int(part * steps) for part in _AGAIN}
    with task.stop:
        for step in range(steps):
            if step in again:
                data.find_again(vector)
            value, gradient = data.batch(vector, task.generator.choice(data.num_used, BATCH, replace=False))
            slope = (gradient / BATCH - penalty(bounds, vector)[1] / size) * bounds.scale
            if not np.all(np.isfinite(slope)):
                task.record.failures += 1
                continue
            task.record.moves += 1
            task.show.step(step, f"{value / BATCH:.3f} nats per observation")
            # Adam, on the host: there is no more to it than these lines, and compiling it would take longer.
            moments = np.stack([0.9 * moments[0] + 0.1 * slope, 0.99 * moments[1] + 0.01 * np.square(slope)])
            unbiased = moments / (1.0 - np.array([[0.9], [0.99]]) ** (step + 1))
            move = float(schedule(step)) * unbiased[0] / (np.sqrt(unbiased[1]) + 1e-12)
            vector, done = np.clip(vector + move * bounds.scale, bounds.lower, bounds.upper), step + 1
            if step >= (1.0 - _AVERAGED) * steps:
                trail.append(vector)
                slopes.append(slope)
    if not trail:
        return _Path(vector if done else begun, np.nan, done)
    mean = np.mean(trail, axis=0)
    return _Path(mean, _projected(size * np.mean(slopes, axis=0), mean, bounds), done)


def _rescaled(task: Task, data: _Data, bounds: Limits, vector: np.ndarray) -> tuple[float, float, np.ndarray]:
    """Mean log density and mean square of rows that were kept out, with noise and scale refitted if these are off."""
    score, square = data.kept_out(vector)
    if _USUAL_SQUARE[0] < square < _USUAL_SQUARE[1] or not np.isfinite(square):
        return score, square, vector
    # Both variances times the same number changes no mean, and makes the mean square one.
    moved = vector.copy()
    for i, (parameter, _) in enumerate(task.layout.entries()):
        if parameter.support == "positive" and parameter.name.rsplit(".", 1)[-1] == "variance":
            moved[i] += np.log(square)
        elif parameter.name == "likelihood.noise":
            moved[i] += 0.5 * np.log(square)
    moved = np.clip(moved, bounds.lower, bounds.upper)
    better, scaled = data.kept_out(moved)
    return (better, scaled, moved) if better > score else (score, square, vector)


def _projected(slope: np.ndarray, vector: np.ndarray, bounds: Limits) -> float:
    """The largest slope along which the objective could still rise within the bounds."""
    outward = ((vector <= bounds.lower) & (slope < 0)) | ((vector >= bounds.upper) & (slope > 0))
    return float(np.max(np.abs(np.where(outward, 0.0, slope)), initial=0.0))


def _notes(before: float, after: float, square: float) -> tuple[str, ...]:
    notes = []
    if not after > before - _WORSE:
        notes.append(
            f"Rows that were kept out are predicted worse after learning from all rows ({after:.3f} nats per "
            f"observation, {before:.3f} before), so what blocks of them had taught is kept. Look for rows that do not "
            "belong to the others."
        )
    if not _USUAL_SQUARE[0] < square < _USUAL_SQUARE[1]:
        notes.append(
            f"The squared errors of rows that were kept out are {square:.2f} times what the model expects. Look for "
            "outliers, which `StudentT` allows for, and at the units of y."
        )
    return tuple(notes)


def _near_and_far(
    points: Float[np.ndarray, "P D"], order: Int[np.ndarray, " P"], targets: Int[np.ndarray, " T"]
) -> Neighbors:
    """The nearest rows before each target, and the nearest of the first ones that are not among them.

    Arguments:
        points: the rows in their order, in units of the lengthscales.
        order: their numbers.
        targets: places in the order.
    """
    found = nearest_before(points, targets, NUM_NEAREST)
    for first in FIRST_ROWS:
        places = Nearest(points[:first]).query(points[targets], found.shape[1] + NUM_FAR)
        is_new = (places < targets[:, None]) & ~np.any(places[:, :, None] == found[:, None, :], axis=2)
        # Stable, so that the nearest come first.
        rank = np.argsort(~is_new, axis=1, kind="stable")[:, :NUM_FAR]
        present = np.take_along_axis(is_new, rank, 1)
        far = np.where(present, np.take_along_axis(places, rank, 1), -1)
        found = np.concatenate([found, far], axis=1)
    present = found >= 0
    neighbors = np.where(present, order[np.where(present, found, 0)], order[targets][:, None])
    return Neighbors(order[targets], neighbors, present.astype(np.float64))


class _Data:
    """Rows in a random order, those of them that steps use and that are kept out, and their neighbours."""

    def __init__(self, task: Task, prior: AbstractPrior, model: Model) -> None:
        self.layout, self.prior, self.given = task.layout, lift(prior), lift(model)
        self.x, self.y = np.asarray(task.x), np.asarray(task.y)
        counts = np.ones(len(self.y)) if task.counts is None else np.asarray(task.counts)
        self.counts, self.pool = counts, np.flatnonzero(counts)
        self.order = task.generator.permutation(self.pool)
        most = min(len(self.pool), MOST_TARGETS + KEPT_OUT)
        self.targets = task.generator.permutation(len(self.pool))[:most]
        self.num_used = max(BATCH, most - KEPT_OUT)
        self.scales = column_scales(model.kernel, self.x)
        self._found: Neighbors | None = None
        self._steps = Steps("batch")

    @property
    def found(self) -> Neighbors:
        """Neighbours by the scales as they are, looked for when they are first needed."""
        if self._found is None:
            points = self.x[self.order]
            points /= self.scales
            self._found = _near_and_far(points, self.order, self.targets)
        return self._found

    def find_again(self, vector: np.ndarray) -> None:
        """Neighbours for the lengthscales as they are now, unless these have hardly moved."""
        scales = column_scales(at_rest(self.layout.model(vector, self.given)).kernel, self.x)
        if np.max(np.abs(np.log(scales / self.scales))) > np.log(_MOVED):
            self.scales, self._found = scales, None

    def batch(self, vector: np.ndarray, which: Int[np.ndarray, " B"]) -> tuple[float, np.ndarray]:
        """The sum of the terms of some targets, and its gradient."""

        def compute() -> tuple[float, np.ndarray]:
            return batch_evidence(self.layout, vector, self.given, self.prior, *self._arrays(which))

        value, gradient = self._steps.next(compute, vector, which)
        return float(value), gradient

    def kept_out(self, vector: np.ndarray) -> tuple[float, float]:
        """Mean log density of rows that no step uses, and the mean square of their standardised errors."""
        score, square = recalled("kept out", lambda: self._kept_out(vector), vector, self.scales)
        return float(score), float(square)

    def _kept_out(self, vector: np.ndarray) -> tuple[float, float]:
        values, squares, number = 0.0, 0.0, 0
        for start in range(self.num_used, len(self.targets) - BATCH + 1, BATCH):
            arrays = self._arrays(np.arange(start, start + BATCH))
            terms = conditionals(self.layout, vector, self.given, self.prior, *arrays)
            values, squares, number = values + terms.value, squares + terms.square, number + BATCH
        return (values / number, squares / number) if number else (np.nan, 1.0)

    def _arrays(self, which: Int[np.ndarray, " B"]) -> tuple[np.ndarray, ...]:
        rows = np.concatenate([self.found.neighbors[which], self.found.targets[which][:, None]], axis=1)
        present = np.concatenate([self.found.present[which], np.ones((len(which), 1))], axis=1)
        return self.x[rows], self.y[rows], present, np.where(self.counts[rows] > 0, self.counts[rows], 1.0)
