"""Which rows a model learns from, and which are kept back to judge it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kosambi._core.errors import InputError


class Split(NamedTuple):
    """Numbers of rows, in increasing order."""

    training: np.ndarray
    held_out: np.ndarray


def split(num_rows: int, labels: np.ndarray | None, *, holdout: float, max_rows: int, seed: int) -> Split:
    """Draw the rows: at most `max_rows` for training, and held-out ones so that they are a share `holdout` of all used.

    Arguments:
        num_rows: N.
        labels: (N,), of a classification; each keeps its share in both parts, and is in the training rows.
        holdout: in [0, 1).
        max_rows: of the training rows.
        seed: same seed, same rows.

    >>> rows = split(10, None, holdout=0.2, max_rows=100, seed=0)
    >>> len(rows.training), len(rows.held_out)
    (8, 2)
    >>> rows = split(1000, None, holdout=0.2, max_rows=40, seed=0)
    >>> len(rows.training), len(rows.held_out)
    (40, 10)
    """
    used = min(num_rows, round(max_rows / (1.0 - holdout)))
    num_held_out = max(1, round(holdout * used)) if holdout > 0 else 0
    if used - num_held_out < 2:
        raise InputError(
            f"There are {num_rows} rows, and {max(used - num_held_out, 0)} of them to learn from. Two at least are "
            "needed: give more rows, or a smaller `--holdout`."
        )
    generator = np.random.default_rng(seed)
    if labels is None:
        order = generator.permutation(num_rows)[:used]
        return Split(np.sort(order[num_held_out:]), np.sort(order[:num_held_out]))
    training, held_out = [], []
    total = 0.0
    for label in np.unique(labels):
        rows = generator.permutation(np.nonzero(labels == label)[0])
        rows = rows[: max(2, round(len(rows) * used / num_rows))]
        # Rounded in the running total, so that many rare labels together have their share of held-out rows.
        before, total = total, total + holdout * len(rows)
        number = min(int(np.floor(total + 0.5)) - int(np.floor(before + 0.5)), len(rows) - 1)
        held_out.append(rows[:number])
        training.append(rows[number:])
    return Split(np.sort(np.concatenate(training)), np.sort(np.concatenate(held_out)))
