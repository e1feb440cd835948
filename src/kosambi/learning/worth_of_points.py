r"""What inducing points would add to the neighbours of an input, before anything is drawn.

Of very many rows near ones often say all that there is to say: lengthscales are short, noise is small. Points beside
them then only cost time, for w is drawn in steps that look at every row. With sites of one precision W for all rows,
the variance of f at a row that is left out is D₀ given its m neighbours alone and, with w known, D₁ given points too.
For an observation with variance 1/W the points are worth about

    ½ log((D₀ + 1/W) / (D₁ + 1/W))   nats,

a little more than they are, since w is known to within the data only. W is the mean curvature of the cost for an f that
is as uncertain as its neighbours and its own observation leave it, found in a few rounds.
"""

from __future__ import annotations

import jax
import numpy as np
from jaxtyping import Float

from kosambi.basis import PointBasis
from kosambi.basis.local import Rows, local_conditionals
from kosambi.kernels import column_scales
from kosambi.likelihoods import AbstractLikelihood
from kosambi.priors import AbstractPrior
from kosambi.target.neighborhood import other_rows
from kosambi.target.sites import expected_slopes

LITTLE = 0.01
"""Nats per observation below which points are left out."""
NUM_ROWS = 256
"""Rows that are looked at."""
_ROUNDS = 4
# The variance of f, as a part of the prior's, that the first round begins with.
_FIRST = 0.25


def worth_of_points(
    prior: AbstractPrior,
    likelihood: AbstractLikelihood,
    x: Float[np.ndarray, "N D"],
    y: Float[np.ndarray, " N"],
    points: Float[np.ndarray, "M D"],
    num_neighbors: int,
) -> float:
    """Nats per observation that points add to `num_neighbors` near rows, about.

    >>> import numpy as np, kosambi as ko
    >>> x = np.random.default_rng(0).uniform(-1.0, 1.0, (5000, 1))
    >>> y = (np.sin(3.0 * x[:, 0]) + np.random.default_rng(1).normal(size=5000) > 0).astype(float)
    >>> far, near = (ko.GaussianProcess(ko.kernels.Matern32(length, variance=4.0)) for length in (1.0, 0.001))
    >>> points = np.linspace(-1.0, 1.0, 8)[:, None]
    >>> [bool(worth_of_points(each, ko.likelihoods.Bernoulli(), x, y, points, 10) > LITTLE) for each in (far, near)]
    [True, False]
    """
    some = np.unique(np.linspace(0, len(x) - 1, NUM_ROWS).round().astype(int))
    index = other_rows(x, None, np.asarray(column_scales(prior.kernel, x)), num_neighbors, some)
    # Only these rows have to be known.
    used, place = np.unique(np.append(index.ravel(), some), return_inverse=True)
    near, here = place[: index.size].reshape(index.shape), place[index.size :]
    near = np.where(index >= 0, near, -1)
    inputs, nothing = x[used], np.empty((len(used), 0))
    psi = np.asarray(PointBasis(prior, points).whitened_mean(inputs))

    def variances(features: np.ndarray, precision: float) -> np.ndarray:
        rows = Rows(inputs, features, np.full(len(used), precision))
        return local_conditionals(prior, rows, inputs[here], features[here], near).variance

    variance = _FIRST * np.asarray(prior.variance(x[some]))
    with jax.enable_x64(True):
        centre = np.asarray(likelihood.raw_rough_latent(y[some]), dtype=np.float64)
        centre = np.broadcast_to(centre, variance.shape)
    for _ in range(_ROUNDS):
        with jax.enable_x64(True):
            curvature = np.asarray(expected_slopes(likelihood, y[some], centre, np.sqrt(variance))[1])
        precision = float(np.mean(curvature))
        if not precision > 0.0:
            return np.inf
        left = variances(nothing, precision)
        variance = np.maximum(left / (1.0 + precision * left), 1e-10 * variance)
    return 0.5 * float(np.mean(np.log((left + 1.0 / precision) / (variances(psi, precision) + 1.0 / precision))))
