"""Every likelihood with its log density by SciPy, draws by NumPy, observations, and ordinary values of f.

A new likelihood has an entry here, and goes through the tests of likelihoods, targets, the evidence, predictions,
calibration and files by that alone.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import scipy.special
from scipy import stats
from scipy.special import expit

import kosambi as ko

lk = ko.likelihoods


class Case(NamedTuple):
    likelihood: object
    y: np.ndarray
    log_density: object  # of one y and one f, from SciPy
    simulate: object = None  # observations for a generator and values of f, by NumPy alone
    f: np.ndarray = np.array([-3.1, -0.8, 0.4, 2.7])
    scale: float = 1.0  # residual deviations are tried up to three times this
    overflows: bool = False  # whether the cost is infinite once e^|f| is


def classes(generator, cumulative):
    return np.sum(generator.uniform(size=len(cumulative))[:, None] > cumulative, axis=1).astype(float)


def ordinal_log_density(y, f, cuts=(-1.0, 0.5, 2.0)):
    """The difference of two probabilities, taken in the tail where they are small."""
    edges = np.concatenate([[-np.inf], cuts, [np.inf]])
    low, high = edges[int(y)] - f, edges[int(y) + 1] - f
    if low > 0:
        low, high = -high, -low
    return np.log(expit(high) - expit(low))


def negative_binomial_log_density(y, f, dispersion=0.4):
    inverse, log_odds = 1 / dispersion, f + np.log(dispersion)
    chosen = scipy.special.gammaln(y + inverse) - scipy.special.gammaln(inverse) - scipy.special.gammaln(y + 1)
    return chosen - y * np.logaddexp(0.0, -log_odds) - inverse * np.logaddexp(0.0, log_odds)


def mixture_log_density(y, f):
    plain = np.log(0.7) + stats.norm.logpdf(y, f, 0.8)
    return np.logaddexp(plain, np.log(0.3) + stats.norm.logpdf(y, f + 2.5, 0.8))


def zero_inflated_log_density(y, f):
    counted = np.log(0.7) + stats.poisson.logpmf(y, np.exp(f))
    return counted if y else np.logaddexp(np.log(0.3), counted)


REAL = np.array([-1.3, 0.2, 2.4])
COUNTS = np.array([0.0, 1.0, 7.0])

CASES = {
    "Gaussian": Case(
        lk.Gaussian(0.7), REAL, lambda y, f: stats.norm.logpdf(y, f, 0.7), lambda g, f: g.normal(f, 0.7), scale=0.7
    ),
    "StudentT": Case(
        lk.StudentT(3.5, 0.6),
        REAL,
        lambda y, f: stats.t.logpdf(y, 3.5, f, 0.6),
        lambda g, f: f + 0.6 * g.standard_t(3.5, size=f.shape),
        scale=0.6,
    ),
    "Laplace": Case(
        lk.Laplace(0.9), REAL, lambda y, f: stats.laplace.logpdf(y, f, 0.9), lambda g, f: g.laplace(f, 0.9), scale=0.9
    ),
    "Huber": Case(lk.Huber(0.8, 1.2), REAL, lambda y, f: -scipy.special.huber(1.2, (y - f) / 0.8), scale=0.8),
    "Bernoulli": Case(
        lk.Bernoulli(),
        np.array([0.0, 1.0]),
        lambda y, f: np.log(expit(f if y else -f)),
        lambda g, f: g.binomial(1, expit(f)).astype(float),
    ),
    "Bernoulli, probit": Case(
        lk.Bernoulli(link="probit"),
        np.array([0.0, 1.0]),
        lambda y, f: stats.norm.logcdf(f if y else -f),
        lambda g, f: g.binomial(1, stats.norm.cdf(f)).astype(float),
    ),
    "Poisson": Case(
        lk.Poisson(),
        COUNTS,
        lambda y, f: stats.poisson.logpmf(y, np.exp(f)),
        lambda g, f: g.poisson(np.exp(f)).astype(float),
        overflows=True,
    ),
    "Poisson, square": Case(
        lk.Poisson(link="square"),
        COUNTS,
        lambda y, f: stats.poisson.logpmf(y, f**2),
        lambda g, f: g.poisson(f**2).astype(float),
    ),
    "NegativeBinomial": Case(
        lk.NegativeBinomial(0.4),
        COUNTS,
        negative_binomial_log_density,
        lambda g, f: g.negative_binomial(2.5, 1.0 / (1.0 + 0.4 * np.exp(f))).astype(float),
    ),
    "ZeroInflatedPoisson": Case(
        lk.ZeroInflatedPoisson(0.3),
        COUNTS,
        zero_inflated_log_density,
        lambda g, f: g.poisson(np.exp(f)) * g.binomial(1, 0.7, size=f.shape).astype(float),
        overflows=True,
    ),
    "Gamma": Case(
        lk.Gamma(2.3),
        np.array([0.1, 1.7, 6.0]),
        lambda y, f: stats.gamma.logpdf(y, 2.3, scale=np.exp(f) / 2.3),
        lambda g, f: g.gamma(2.3, np.exp(f) / 2.3),
        overflows=True,
    ),
    "Exponential": Case(
        lk.Exponential(),
        np.array([0.1, 1.7, 6.0]),
        lambda y, f: stats.expon.logpdf(y, scale=np.exp(f)),
        lambda g, f: g.exponential(np.exp(f)),
        overflows=True,
    ),
    "Ordinal": Case(
        lk.Ordinal([-1.0, 0.5, 2.0]),
        np.array([0.0, 1.0, 2.0, 3.0]),
        ordinal_log_density,
        lambda g, f: classes(g, expit(np.array([-1.0, 0.5, 2.0]) - f[:, None])),
    ),
    "ShiftMixture": Case(
        lk.ShiftMixture(2.5, 0.3, 0.8),
        REAL,
        mixture_log_density,
        lambda g, f: g.normal(f + 2.5 * g.binomial(1, 0.3, size=f.shape), 0.8),
        scale=0.8,
    ),
    "Custom": Case(
        lk.Custom(lambda y, f: jnp.log(jnp.cosh(y - f)) + jnp.log(jnp.pi), is_density=True, is_convex=True),
        REAL,
        lambda y, f: stats.hypsecant.logpdf(y - f),
    ),
}

# Several latent functions: f is (C,).
SEVERAL = {
    "Categorical": Case(
        lk.Categorical(3),
        np.array([0.0, 1.0, 2.0]),
        lambda y, f: scipy.special.log_softmax(f)[int(y)],
        lambda g, f: classes(g, np.cumsum(scipy.special.softmax(f, axis=1), axis=1)[:, :-1]),
    ),
    "HeteroscedasticGaussian": Case(
        lk.HeteroscedasticGaussian(),
        REAL,
        lambda y, f: stats.norm.logpdf(y, f[0], np.exp(f[1])),
        lambda g, f: g.normal(f[:, 0], np.exp(f[:, 1])),
    ),
}
