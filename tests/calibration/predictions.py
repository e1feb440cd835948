"""Predictions with laws of every kind, and observations simulated from them."""

from __future__ import annotations

import jax
import numpy as np

from kosambi.posterior import Prediction

KEY = jax.random.key(7)
# One mode; two modes far apart; a residual much larger than the spread of the components.
DEVIATION = np.array([0.15, 0.3, 0.9])
MEANS = np.array([[0.2, -1.6, 1.1], [0.5, 1.8, 0.7], [-0.4, 2.1, 1.0], [0.1, -1.2, 1.2]])


def prediction_of(likelihood, means=MEANS, deviation=DEVIATION):
    if likelihood.num_latents > 1:
        means = np.stack([means + 0.3 * c * (-1) ** c for c in range(likelihood.num_latents)], axis=2)
    return Prediction(likelihood, means, deviation, np.ones(len(deviation)))


def many(likelihood, num_points=1000, seed=0, scale=1.0):
    """A prediction with three components at many inputs; with another `scale`, its f is spread more widely."""
    rng = np.random.default_rng(seed)
    centre, offsets = rng.normal(size=num_points), 0.4 * rng.normal(size=(3, num_points))
    offsets -= offsets.mean(axis=0)
    deviation, means = scale * rng.uniform(0.1, 0.8, num_points), centre + scale * offsets
    if likelihood.num_latents > 1:
        means = np.stack(
            [means, *(0.3 * c * rng.normal(size=means.shape) for c in range(1, likelihood.num_latents))], 2
        )
    return Prediction(likelihood, means, deviation, np.ones(num_points))


def simulated(prediction, size=None, seed=1):
    """Observations from a prediction's law, (N,) or (size, N), by a component, a normal f, and a draw."""
    rng = np.random.default_rng(seed)
    means = prediction.component_means
    shape = (1 if size is None else size, prediction.num_points)
    chosen = means[rng.integers(len(means), size=shape), np.arange(prediction.num_points)]
    within = prediction.component_deviation.reshape(-1, *(1 for _ in means.shape[2:]))
    y = np.asarray(prediction.likelihood.draw(KEY, chosen + within * rng.normal(size=chosen.shape)), dtype=float)
    return y[0] if size is None else y
