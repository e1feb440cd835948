"""What the sums over a tempering run say: R̂, effective draws, and the evidence with its standard error."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp

from kosambi.diagnostics.report import LogEvidence


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
    r_hats = np.sqrt(1.0 + between / np.maximum(variance - between, 1e-300))
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
