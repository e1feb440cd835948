r"""The ladder of a tempering run: which temperatures it has, and what the sums over a run say.

Neighbours are to exchange equally often. With r(β, β') the share of swaps refused between neighbours, Λ(β) = Σ r up to
β is the communication barrier, and Λ(1) hardly depends on the ladder (Syed, Bouchard-Côté, Deligiannidis and Doucet
2022). A ladder with equal steps in Λ has equal shares, and its number of temperatures follows from the share that is
wanted.

The sums give R̂, the effective sample size, and the log marginal likelihood (evidence) with its standard error.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.interpolate
from jaxtyping import Float
from scipy.special import logsumexp

from kosambi.samplers.convergence import from_variances
from kosambi.samplers.report import LogEvidence

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


class ChainStatistics(NamedTuple):
    """How well independent chains agree."""

    r_hat: float
    by_coordinate: Float[np.ndarray, " K"]
    ess: float
    energy: float
    """The mean potential."""


def chain_statistics(
    first: Float[np.ndarray, "C L"], second: Float[np.ndarray, "C L"], steps: float, num_superchains: int
) -> ChainStatistics:
    """From the sums and the sums of squares of coordinates and potential over the steps of each chain.

    Chain c belongs to superchain c mod G, whose chains share a start. The effective number of draws is what the means
    of independent chains vary by, compared with the variance of a draw.
    """
    means, squares = first / steps, second / steps
    variance = np.maximum(np.mean(squares, axis=0) - np.square(np.mean(means, axis=0)), 1e-300)
    number = first.shape[0]
    groups = means.reshape(-1, num_superchains, means.shape[1]).mean(axis=0)
    between = np.var(groups, axis=0, ddof=1)
    r_hats = from_variances(between, np.maximum(variance - between, 1e-300))
    of_a_mean = np.maximum(np.var(means, axis=0, ddof=1) / number, 1e-300)
    ess = float(np.min(np.minimum(variance / of_a_mean, number * steps)))
    return ChainStatistics(float(np.max(r_hats)), r_hats[:-1], ess, float(np.mean(means[:, -1])))


def bridge_evidence(down: Float[np.ndarray, "S C"], up: Float[np.ndarray, "S C"], steps: float) -> LogEvidence:
    r"""log Z from the ladder: for each step δ of β, log E_k e^{−δD/2} − log E_{k+1} e^{+δD/2}.

    The bridge with a geometric mean between neighbours (Meng and Wong 1996). The standard error is that of a jackknife
    over the chains, which are independent.
    """
    number = down.shape[1]

    def estimate(chains: np.ndarray) -> float:
        size = np.log(len(chains) * steps)
        forward, backward = logsumexp(down[:, chains], axis=1) - size, logsumexp(up[:, chains], axis=1) - size
        return float(np.sum(forward - backward))

    every = np.arange(number)
    without = np.array([estimate(np.delete(every, c)) for c in every])
    error = float(np.sqrt((number - 1) / number * np.sum(np.square(without - without.mean()))))
    return LogEvidence(estimate(every), error, "tempering")
