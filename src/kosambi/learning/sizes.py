"""Numbers of inducing points: which sizes are tried, the rule where nothing can be scored, and what is affordable."""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float, Int

from kosambi.basis.inducing import greedy_path
from kosambi.likelihoods import AbstractLikelihood, Gaussian
from kosambi.priors import AbstractPrior

SMALLEST = 8
"""The smallest number of points that is tried."""
EXPLAINED = 0.999
"""The share of the prior variance at the data that points must explain where predictions cannot be compared."""
MANY_ROWS, WORK = 10_000, 1.6e11
"""Rows above which no number of points is enough, and rows times squared points that are affordable then."""
DRAWN = 512
"""Points for so many rows where draws need steps, each of which takes time for every row and point; at least, else."""
SUBSET = 2000
"""Rows that a kernel for so many is learned from: about as many as there are points, which suits these best."""
ALWAYS, NEVER = 64, 1024
"""Points that the rule without a score may always take, and never exceeds; in between it takes 4√N at most."""
# A size is not tried where another one is larger by less than this factor.
_NEARLY = 1.15
CHEAP = 2**18
"""Points times values of latent functions at the data up to which more points cost less than to compile for them."""


def affordable(num_rows: int, likelihood: AbstractLikelihood) -> int | None:
    """How many points to take where more would always predict better; None for fewer rows.

    As many as take a minute on two cores, for Gaussian noise, but no fewer than there are where draws need steps, which
    take some minutes.

    >>> import kosambi as ko
    >>> [affordable(number, ko.likelihoods.Gaussian()) for number in (5_000, 20_000, 40_000, 500_000)]
    [None, 2048, 1920, 512]
    >>> affordable(500_000, ko.likelihoods.Bernoulli())
    512
    """
    if num_rows <= MANY_ROWS:
        return None
    if not isinstance(likelihood, Gaussian):
        return int(DRAWN / math.sqrt(likelihood.num_latents) // 64 * 64)
    return int(np.clip(math.sqrt(WORK / num_rows) // 128 * 128, DRAWN, 2048))


def ladder(most: int) -> list[int]:
    """8, 11, 16, 23, 32, … up to and including `most`, without one between powers of two that is nearly as large.

    >>> ladder(40), ladder(24), ladder(35)
    ([8, 11, 16, 23, 32, 40], [8, 11, 16, 24], [8, 11, 16, 23, 32, 35])
    """
    powers = SMALLEST * 2.0 ** np.arange(32)
    between = np.sqrt(2.0) * powers
    steps = [*powers[powers < most], *between[between < most / _NEARLY]]
    return [*sorted(round(float(step)) for step in steps), most]


def rounded_up(size: int, most: int, num_values: int) -> int:
    """The next power of two, from 64 on, where that is cheap: data of about the same size then compile nothing again.

    All points where more than half of them are needed, if that is cheap: then f has no residual at the rows either.

    Arguments:
        size: points that are enough.
        most: points that there are; never exceeded.
        num_values: of all latent functions at the data.

    >>> [rounded_up(size, 100, 100) for size in (11, 45, 91)], rounded_up(91, 256, 1000), rounded_up(91, 256, 5000)
    ([64, 64, 100], 128, 91)
    """
    if 2 * size > most and most * num_values <= CHEAP:
        return most
    least = min(ALWAYS, 2 ** int(math.log2(most)))
    wanted = max(least, 2 ** math.ceil(math.log2(size)))
    return wanted if wanted <= most and wanted * num_values <= CHEAP else size


def by_variance(
    prior: AbstractPrior, x: Float[np.ndarray, "N D"], num_distinct: int
) -> tuple[Int[np.ndarray, " P"], int, str, Int[np.ndarray, " T"], Float[np.ndarray, " T"]]:
    """How many greedy points explain 99.9 % of the prior variance at the data, or as many as are allowed.

    Returns rows in greedy order, the number of them that is enough, the reason ("variance", "rows", or "limit" where
    more would be needed), the sizes that were looked at, and the share of the prior variance that each leaves
    unexplained. Of a random element the variance is that of its kernel, which greedy points go by.
    """
    most = min(len(x), max(ALWAYS, math.ceil(4 * math.sqrt(len(x)))), NEVER)
    path = greedy_path(prior, x, most)
    sizes = np.array(ladder(len(path.indices)))
    share = path.residual_trace[sizes - 1] / path.prior_trace
    enough = np.flatnonzero(share <= 1.0 - EXPLAINED)
    if enough.size or path.stopped_early:
        at, reason = int(enough[0]) if enough.size else len(sizes) - 1, "variance"
    else:
        at, reason = len(sizes) - 1, "rows" if len(path.indices) >= num_distinct else "limit"
    return path.indices, int(sizes[at]), reason, sizes, np.maximum(share, 0.0)
