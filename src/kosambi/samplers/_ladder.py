r"""Which temperatures a ladder has: such that neighbours exchange equally often.

With r(β, β') the share of swaps refused between neighbours, Λ(β) = Σ r up to β is the communication barrier, and Λ(1)
hardly depends on the ladder (Syed, Bouchard-Côté, Deligiannidis and Doucet 2022). A ladder with equal steps in Λ
has equal shares, and its number of temperatures follows from the share that is wanted.
"""

from __future__ import annotations

import numpy as np
import scipy.interpolate
from jaxtyping import Float

REFUSED = 0.42
"""The share of refused swaps between neighbours that a ladder aims at."""
# Numbers of temperatures, so that few shapes are compiled.
SIZES = (16, 20, 24, 28, 32, 40, 48, 64, 96, 128)
# How steep the first ladder is towards the prior, where the cost of the data varies most.
_POWER = 5.0


def first_ladder(number: int) -> Float[np.ndarray, " T"]:
    """Inverse temperatures from 0, the prior, to 1, the posterior, before anything is known."""
    return (np.arange(number) / (number - 1)) ** _POWER


def barrier(refused: Float[np.ndarray, " P"]) -> Float[np.ndarray, " T"]:
    """Λ at each temperature."""
    return np.concatenate([[0.0], np.cumsum(np.clip(refused, 1e-6, 1.0))])


def better_ladder(
    betas: Float[np.ndarray, " T"], refused: Float[np.ndarray, " P"], number: int
) -> Float[np.ndarray, " S"]:
    """`number` inverse temperatures with equal steps of the barrier.

    >>> import numpy as np
    >>> better_ladder(np.array([0.0, 0.1, 1.0]), np.array([0.5, 0.5]), 5).round(3)
    array([0.   , 0.005, 0.1  , 0.428, 1.   ])
    """
    heights = barrier(refused)
    # In a power of β, in which neighbours are about as far apart everywhere; monotone, so that β stays in order.
    curve = scipy.interpolate.PchipInterpolator(heights, betas ** (1.0 / _POWER))
    steps = np.linspace(0.0, heights[-1], number)
    ladder = np.clip(curve(steps), 0.0, 1.0) ** _POWER
    ladder[0], ladder[-1] = 0.0, 1.0
    # Equal temperatures would be one; a part in 10^9 keeps them apart.
    return np.maximum.accumulate(ladder + 1e-9 * np.arange(number) / number * (ladder < 1.0))


def enough_temperatures(refused: Float[np.ndarray, " P"]) -> int:
    """How many temperatures refuse no more than the share that is wanted; the largest known number at most."""
    wanted = 1 + barrier(refused)[-1] / REFUSED
    return next((size for size in SIZES if size >= wanted), SIZES[-1])
