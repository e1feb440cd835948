"""Data drawn from a model whose hyperparameters are known."""

from __future__ import annotations

import jax
import numpy as np

import kosambi as ko

k, lk = ko.kernels, ko.likelihoods
KEY = jax.random.key(0)
NOISE = 0.4


def curve(seed, num_rows=500, extent=20.0, element=False):
    """Inputs, and a function drawn from the model with lengthscale one."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(0.0, extent, (num_rows, 1))
    kernel = k.SquaredExponential(1.0, 8.0 if element else 2.0)
    prior = ko.GaussianRandomElement(kernel, ko.measures.empirical(x)) if element else ko.GaussianProcess(kernel)
    return rng, x, prior.draw(jax.random.key(seed))(x)[0]


def unlearned(x, element):
    kernel = k.SquaredExponential()
    return ko.GaussianRandomElement(kernel, ko.measures.empirical(x)) if element else ko.GaussianProcess(kernel)
