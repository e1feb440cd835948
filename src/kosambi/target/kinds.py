"""Which potential a target has: the one that was asked for, if basis and likelihood have it, or the better one."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from kosambi._core.precision import compiled
from kosambi._core.types import Array
from kosambi.basis import AbstractBasis
from kosambi.errors import InputError
from kosambi.likelihoods import AbstractLikelihood, CustomJoint, Gaussian
from kosambi.target.neighbors import DEFAULT, NEIGHBORS, as_num_neighbors, check_neighbors

WORTH_IT = 0.02
"""Nats per observation by which the potentials must differ for "auto" to take the optimal one."""
MOST_NODES = 136
"""Nodes of its quadrature beyond which "auto" finds it too dear."""
MOST_VALUES = 4_000_000
"""Rows times nodes above which "auto" stays with the projected potential: each particle takes them at every step."""
# Where digits of the potential beyond the sixth do not matter, as in sampling, half the nodes do.
_FEWER, _FEWEST = 0.5, 21


def as_kind(potential: object, basis: AbstractBasis, likelihood: AbstractLikelihood) -> str:
    """Refuse a potential that the basis or the likelihood does not have."""
    if potential not in ("projected", "optimal", NEIGHBORS, "auto"):
        raise InputError(f'`potential` must be "projected", "optimal", "neighbors" or "auto". Got {potential!r}.')
    if potential == NEIGHBORS:
        check_neighbors(basis, likelihood)
    if potential == "optimal" and isinstance(likelihood, CustomJoint):
        raise InputError(
            "The optimal potential of `CustomJoint` is an N-dimensional integral, because the loss does not split over "
            'data. Use potential="projected".'
        )
    if potential == "optimal" and not basis.is_conditional:
        raise InputError(
            "The optimal potential needs the conditional distribution of F given u. "
            f"`{type(basis).__name__}` follows the paper's projection, which is not it. "
            'Use `RitzBasis` or `PointBasis`, or potential="projected".'
        )
    return str(potential)


def as_number(kind: str, number: int | None) -> int | None:
    """m with neighbours, None without."""
    if kind == NEIGHBORS:
        return DEFAULT if number is None else as_num_neighbors("num_neighbors", number)
    if number is not None:
        raise InputError(f'`num_neighbors` is for potential="neighbors". Got "{kind}". Leave out one of the two.')
    return None


def better_kind(
    basis: AbstractBasis, likelihood: AbstractLikelihood, x: Array, y: Array, weights: Array | None, asked: int | None
) -> tuple[str, int | None]:
    """The potential that "auto" stands for, and the nodes of its quadrature.

    Both have the same distribution for a Gaussian likelihood. With several latent functions the integrals have as many
    dimensions, and a cost with two equal signs has poles: there the projected potential stays.
    """
    is_usual = likelihood.num_latents == 1 and not likelihood.is_even
    if isinstance(likelihood, Gaussian | CustomJoint) or not basis.is_conditional or not is_usual:
        return "projected", asked
    variance = np.asarray(basis.residual_variance(x))
    # Rows that all weigh nothing have no mean, and the two potentials are then one.
    is_open = np.any(variance > 0) and (weights is None or np.any(weights > 0))
    if not is_open or not np.average(_difference(likelihood, y, variance), weights=weights) > WORTH_IT:
        return "projected", asked
    needed = len(likelihood.rule(np.sqrt(variance)).nodes)
    number = asked if asked is not None else max(_FEWEST, int(_FEWER * needed))
    is_affordable = number <= MOST_NODES and number * len(y) <= MOST_VALUES
    return ("optimal", number) if is_affordable else ("projected", asked)


@compiled
def _difference(likelihood: AbstractLikelihood, y: Array, variance: Array) -> Float[Array, " N"]:
    """½ c''_n σ_n², where the data say that f lies."""
    return 0.5 * likelihood.raw_curvature(y, likelihood.raw_rough_latent(y)) * variance
