"""Models whose posteriors are checked by simulation: every likelihood with observations drawn by NumPy alone.

Functions and observations are drawn here without kosambi, so that an error of a kernel, of a cost or of a draw shows.
Inputs lie in two groups with a gap between them; the new input is in the gap, where the residual has its say.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import scipy.special
import scipy.stats

import kosambi as ko

lk = ko.likelihoods
ROWS = np.concatenate([np.linspace(0.0, 1.5, 6), np.linspace(3.0, 4.5, 6)])[:, None]
LENGTHSCALE = 0.7
APART, NEAR = (3, 2.2), (5, 1.8)
"""A row and a new input at which f is looked at: in the gap, and near the row, where both go together."""
NOISES = np.linspace(0.2, 0.9, len(ROWS))
CUTS = np.array([-1.0, 0.5, 2.0])
FREEDOM, SCALE = 4.0, 0.5


class Model(NamedTuple):
    """A likelihood and the prior of its latent functions."""

    likelihood: Any
    simulate: Callable[[np.random.Generator, np.ndarray], np.ndarray]
    """Observations given values of f, (N,) or (N, C), at the rows."""
    variance: float = 1.0
    mean: float = 0.4

    @property
    def num_latents(self) -> int:
        return int(self.likelihood.num_latents)


def prior_root(variance: float, new: float, is_element: bool = False) -> np.ndarray:
    """R with f = mean + R ω, ω ~ N(0, I), at all rows and the new input: of a process with a Matérn-5/2 kernel.

    With `is_element` of a random element with a Matérn-3/2 kernel and the empirical measure, f = Σ ω_i k(·, x_i)/√N.
    Written out once more, since the library's own would hide its errors.
    """
    x = np.append(ROWS, new)[:, None]
    t = np.abs(x - x.T) / LENGTHSCALE
    if is_element:
        kernel = variance * (1.0 + np.sqrt(3.0) * t) * np.exp(-np.sqrt(3.0) * t)
        return kernel[:, : len(ROWS)] / np.sqrt(len(ROWS))
    return np.linalg.cholesky(variance * (1.0 + np.sqrt(5.0) * t + 5.0 * t**2 / 3.0) * np.exp(-np.sqrt(5.0) * t))


def huber_noise(generator: np.random.Generator, size: int, threshold: float) -> np.ndarray:
    """Draws whose density is exp(−Huber's loss), normalised: normal in the middle with exponential tails."""
    inside = np.sqrt(2.0 * np.pi) * (1.0 - 2.0 * scipy.stats.norm.sf(threshold))
    outside = 2.0 / threshold * np.exp(-0.5 * threshold**2)
    middle = scipy.stats.truncnorm.rvs(-threshold, threshold, size=size, random_state=generator)
    tail = generator.choice([-1.0, 1.0], size) * (threshold + generator.exponential(1.0 / threshold, size))
    return np.where(generator.uniform(size=size) * (inside + outside) < inside, middle, tail)


def gumbel_cost(y: Any, f: Any) -> Any:
    """y = f + Gumbel noise of scale 0.5, which is askew."""
    z = (y - f) / SCALE
    return z + jnp.exp(-z) + float(np.log(SCALE))


def joint_loss(y: Any, f: Any) -> Any:
    """All errors together from a multivariate t distribution: one scale, unknown, that all observations share."""
    return 0.5 * (FREEDOM + len(ROWS)) * jnp.log1p(jnp.sum(jnp.square((y - f) / SCALE)) / FREEDOM)


def joint_errors(generator: np.random.Generator, f: np.ndarray) -> np.ndarray:
    return f + SCALE * generator.normal(size=f.shape) / np.sqrt(generator.chisquare(FREEDOM) / FREEDOM)


def _labels(generator: np.random.Generator, cumulative: np.ndarray) -> np.ndarray:
    return np.sum(generator.uniform(size=len(cumulative))[:, None] > cumulative, axis=1).astype(float)


def _counts(draw: Callable[..., np.ndarray]) -> Callable[[np.random.Generator, np.ndarray], np.ndarray]:
    return lambda g, f: draw(g, f).astype(float)


MODELS: dict[str, Model] = {
    "Gaussian": Model(lk.Gaussian(0.5), lambda g, f: g.normal(f, 0.5)),
    "Gaussian, a noise for each row": Model(lk.Gaussian(NOISES), lambda g, f: g.normal(f, NOISES)),
    "StudentT": Model(lk.StudentT(3.0, 0.4), lambda g, f: f + 0.4 * g.standard_t(3.0, f.shape)),
    "Laplace": Model(lk.Laplace(0.5), lambda g, f: g.laplace(f, 0.5)),
    "Huber": Model(lk.Huber(0.5, 1.0), lambda g, f: f + 0.5 * huber_noise(g, len(f), 1.0)),
    "Bernoulli": Model(lk.Bernoulli(), _counts(lambda g, f: g.binomial(1, scipy.special.expit(f))), variance=4.0),
    "Bernoulli, probit": Model(
        lk.Bernoulli(link="probit"), _counts(lambda g, f: g.binomial(1, scipy.stats.norm.cdf(f))), variance=2.0
    ),
    "Ordinal": Model(lk.Ordinal(CUTS), lambda g, f: _labels(g, scipy.special.expit(CUTS - f[:, None])), variance=3.0),
    "Categorical": Model(
        lk.Categorical(3),
        lambda g, f: _labels(g, np.cumsum(scipy.special.softmax(f, axis=1), axis=1)[:, :-1]),
        variance=2.0,
    ),
    "Poisson": Model(lk.Poisson(), _counts(lambda g, f: g.poisson(np.exp(f)))),
    "Poisson, square": Model(lk.Poisson(link="square"), _counts(lambda g, f: g.poisson(f**2)), variance=3.0, mean=0.0),
    "NegativeBinomial": Model(
        lk.NegativeBinomial(0.5), _counts(lambda g, f: g.negative_binomial(2.0, 1.0 / (1.0 + 0.5 * np.exp(f))))
    ),
    "ZeroInflatedPoisson": Model(
        lk.ZeroInflatedPoisson(0.3), _counts(lambda g, f: g.poisson(np.exp(f)) * g.binomial(1, 0.7, f.shape))
    ),
    "Gamma": Model(lk.Gamma(2.0), lambda g, f: g.gamma(2.0, np.exp(f) / 2.0)),
    "Exponential": Model(lk.Exponential(), lambda g, f: g.exponential(np.exp(f))),
    "HeteroscedasticGaussian": Model(
        lk.HeteroscedasticGaussian(0.3, 1.5),
        lambda g, f: 0.3 + 1.5 * g.normal(f[:, 0], np.exp(f[:, 1])),
        variance=0.5,
        mean=-0.4,
    ),
    "ShiftMixture": Model(
        lk.ShiftMixture(3.0, 0.4, 0.6), lambda g, f: g.normal(f + 3.0 * g.binomial(1, 0.4, f.shape), 0.6)
    ),
    "Custom": Model(
        lk.Custom(gumbel_cost, is_density=True, is_convex=True), lambda g, f: f + SCALE * g.gumbel(size=f.shape)
    ),
    "CustomJoint": Model(lk.CustomJoint(joint_loss), joint_errors),
}
