"""What a likelihood of one's own must say, and what follows from it."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate
import scipy.stats

import kosambi as ko
from kosambi.errors import InputError
from kosambi.likelihoods.quadrature import numbered_rule, trapezoidal
from kosambi.posterior import Prediction

lk = ko.likelihoods


class Logistic(lk.AbstractLikelihood):
    """y = f + logistic noise, with the two members that must be written."""

    is_convex = True

    def raw_cost(self, y, f):
        return y - f + 2.0 * jax.nn.softplus(f - y)


class Cumulative(lk.AbstractLikelihood):
    """`Ordinal` without its formulas."""

    is_convex = True
    num_labels = 3

    def raw_cost(self, y, f):
        return lk.Ordinal([-1.0, 1.0]).raw_cost(y, f)


class Softmax(lk.AbstractLikelihood):
    """`Categorical` without its formulas."""

    is_convex = True
    num_labels = 3
    num_latents = 3

    def raw_cost(self, y, f):
        return lk.Categorical(3).raw_cost(y, f)


def test_two_members_must_be_written():
    assert lk.AbstractLikelihood.__abstractmethods__ == {"raw_cost", "is_convex"}


def test_a_cost_alone_gives_derivatives_expectations_and_densities(rng):
    logistic, y, f = Logistic(), rng.normal(size=6), rng.normal(size=6)
    np.testing.assert_allclose(logistic.log_density(y, f), scipy.stats.logistic.logpdf(y, f), rtol=1e-12)
    step = 1e-5
    slope = (logistic.cost(y, f + step) - logistic.cost(y, f - step)) / (2 * step)
    np.testing.assert_allclose(logistic.derivative(y, f), slope, rtol=1e-6, atol=1e-8)
    second = (logistic.derivative(y, f + step) - logistic.derivative(y, f - step)) / (2 * step)
    np.testing.assert_allclose(logistic.second_derivative(y, f), second, rtol=1e-6, atol=1e-8)
    np.testing.assert_array_equal(logistic.curvature(y, f), logistic.second_derivative(y, f))
    density = lambda g: scipy.stats.logistic.pdf(0.7, g) * scipy.stats.norm.pdf(g, 0.2, 0.9)
    expected = np.log(scipy.integrate.quad(density, -12.0, 12.0, epsabs=1e-13)[0])
    np.testing.assert_allclose(logistic.log_predictive_density([0.7], [0.2], [0.9]), [expected], rtol=1e-8)
    with pytest.raises(InputError, match="`y` must be finite"):
        logistic.check([0.0, np.nan])
    assert not logistic.has_cdf
    assert not logistic.has_moments


@pytest.mark.parametrize("call", ["observation_mean", "observation_variance"])
def test_what_a_cost_alone_cannot_give_is_said(call):
    with pytest.raises(InputError, match="`Logistic` knows the density of one observation, and cannot give an obs"):
        getattr(Logistic(), call)([0.0])
    with pytest.raises(InputError, match="Write `cdf`"):
        Logistic().cdf(np.zeros(1), np.zeros(1))


def test_labels_need_no_probabilities_of_their_own():
    means, deviation = np.array([[-1.5, 0.2], [0.7, 0.9]]), np.array([0.3, 0.8])
    own, known = (Prediction(m, means, deviation, np.ones(2)) for m in (Cumulative(), lk.Ordinal([-1.0, 1.0])))
    assert Cumulative().is_discrete
    np.testing.assert_allclose(own.probability, known.probability, atol=1e-8)


def test_several_latent_functions_by_autodiff(rng):
    own, known = Softmax(), lk.Categorical(3)
    y, f = rng.integers(0, 3, 5).astype(float), rng.normal(size=(5, 3))
    np.testing.assert_allclose(own.derivative(y, f), known.derivative(y, f), atol=1e-12)
    np.testing.assert_allclose(own.second_derivative(y, f), known.second_derivative(y, f), atol=1e-12)
    np.testing.assert_allclose(own.curvature(y, f), known.curvature(y, f), atol=1e-12)
    with jax.enable_x64(True):
        rule, deviation = own.evidence_rule, np.full(5, 0.4)
        for name in ("raw_expected_cost", "raw_expected_derivative", "raw_expected_second_derivative"):
            found, expected = (getattr(m, name)(y, jnp.asarray(f), deviation, rule) for m in (own, known))
            np.testing.assert_allclose(found, expected, atol=1e-12)


def test_no_rule_for_one_latent_function_is_used_for_several():
    with pytest.raises(InputError, match=r'`Softmax` has 3 latent functions.*potential="projected"'):
        Softmax().expected_cost([0.0], [[0.0, 0.0, 0.0]], [1.0])
    with pytest.raises(InputError, match="`Softmax` has 3 latent functions"):
        Softmax().log_predictive_density([0.0], [[0.0, 0.0, 0.0]], [1.0])


def test_the_old_name_of_the_cdf_still_works():
    with pytest.warns(DeprecationWarning, match="is now called `cdf`"):

        class Old(Logistic):
            def distribution(self, y, f):
                return scipy.stats.logistic.cdf(y, f)

            def raw_mean(self, f):
                return f

            def raw_variance(self, f):
                return jnp.full_like(f, jnp.pi**2 / 3.0)

            @property
            def strip(self):
                return float(np.pi)

    old = Old()
    assert old.has_cdf
    np.testing.assert_array_equal(old.cdf(np.ones(1), np.zeros(1)), scipy.stats.logistic.cdf([1.0]))
    prediction = Prediction(old, np.zeros((1, 1)), np.array([1e-9]), np.ones(1))
    np.testing.assert_allclose(prediction.quantile(0.9), scipy.stats.logistic.ppf(0.9), rtol=1e-6)
    with pytest.warns(DeprecationWarning, match="is now called `cdf`"):
        value = lk.Gaussian(2.0).distribution(np.ones(1), np.zeros(1))
    np.testing.assert_array_equal(value, lk.Gaussian(2.0).cdf(np.ones(1), np.zeros(1)))


def test_a_mixture_has_the_average_cdf_of_its_components():
    gaussian, means = lk.Gaussian([0.3, 0.5]), np.array([[0.0, 1.0], [2.0, -1.0]])
    found = gaussian.mixture_cdf(np.array([0.4, 0.6]), means, np.array([0.2, 0.7]))
    parts = scipy.stats.norm.cdf([0.4, 0.6], means, np.hypot([0.3, 0.5], [0.2, 0.7]))
    np.testing.assert_allclose(found, parts.mean(axis=0), rtol=1e-12)
    # By quadrature over f, and where that is wide over the noise.
    poisson, y, deviation = lk.Poisson(), np.array([3.0, 3.0]), np.array([0.05, 2.0])
    found = poisson.mixture_cdf(y, np.ones((1, 2)), deviation)
    for value, sd in zip(found, deviation, strict=True):
        nodes = trapezoidal(4001)
        expected = np.sum(nodes.weights * scipy.stats.poisson.cdf(3, np.exp(1.0 + sd * nodes.nodes)))
        np.testing.assert_allclose(value, expected, atol=1e-7)
    assert poisson.predictive_cdf(y, np.ones(2), deviation, numbered_rule(2)).shape == (2,)
