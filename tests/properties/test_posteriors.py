"""What is asked of a posterior: the same in any batch, after a file, and given more rows; functions that agree."""

from __future__ import annotations

import pathlib
import tempfile

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kosambi as ko
from tests.properties.data import EDGES, inputs, keys, seeds
from tests.properties.promises import assert_numbers, outcome, own_warnings_allowed

KERNEL = ko.kernels.Matern52(0.7, 1.3)
RNG = np.random.default_rng(2)
X = RNG.uniform(-2.0, 2.0, (12, 1))
F = np.sin(2.0 * X[:, 0])
KINDS = {
    "Gaussian": (ko.likelihoods.Gaussian(0.2), F),
    "Bernoulli": (ko.likelihoods.Bernoulli(), (F > 0).astype(float)),
}
MORE = {
    "Poisson": (ko.likelihoods.Poisson(), RNG.poisson(np.exp(F)).astype(float)),
    "StudentT": (ko.likelihoods.StudentT(3.0, 0.3), F),
    "Categorical": (ko.likelihoods.Categorical(3), np.digitize(F, [-0.5, 0.5]).astype(float)),
    "HeteroscedasticGaussian": (ko.likelihoods.HeteroscedasticGaussian(), F),
}
ALL = KINDS | MORE
cases = [*KINDS, *(pytest.param(name, marks=pytest.mark.slow) for name in MORE)]
few = settings(max_examples=max(2, settings.default.max_examples // 6))
_MADE = {}


def posterior_of(name):
    """Made once."""
    if name not in _MADE:
        likelihood, y = ALL[name]
        with own_warnings_allowed():
            _MADE[name] = ko.infer(jax.random.key(3), KERNEL, likelihood, X, y, inducing_points=X[:4], num_particles=8)
    return _MADE[name]


new = inputs(num_rows=st.sampled_from([1, 5, 8]), num_columns=st.just(1))


def summaries(posterior, x):
    p = posterior.predict(x)
    found = [p.mean, p.variance, np.asarray(p.observation_mean), np.asarray(p.observation_variance)]
    return found if p.likelihood.num_labels is not None else [*found, *p.interval(0.9)]


@pytest.mark.parametrize("name", cases)
@given(x=new, seed=seeds)
@few
def test_predictions_do_not_depend_on_the_batch(name, x, seed):
    posterior = posterior_of(name)
    order = np.random.default_rng(seed).permutation(len(x))
    whole, shuffled = summaries(posterior, x), summaries(posterior, x[order])
    single = summaries(posterior, x[:1])
    for all_rows, other, first in zip(whole, shuffled, single, strict=True):
        assert_numbers(all_rows)
        scale = 1.0 + np.abs(all_rows).max()
        np.testing.assert_allclose(other, all_rows[order], rtol=1e-7, atol=1e-9 * scale)
        np.testing.assert_allclose(first, all_rows[:1], rtol=1e-7, atol=1e-9 * scale)


@pytest.mark.parametrize("name", cases)
@given(x=new, key=keys)
@few
def test_functions_are_functions(name, x, key):
    posterior = posterior_of(name)
    draws = posterior.functions(key)
    with own_warnings_allowed():
        values = draws(x)
        assert_numbers(values, (8, len(x), *posterior.target.shape[1:]))
        scale = 1.0 + np.abs(values).max()
        np.testing.assert_array_equal(posterior.functions(key)(x), values)
        np.testing.assert_allclose(draws(x[:1]), values[:, :1], rtol=0, atol=1e-9 * scale)
        np.testing.assert_allclose(draws[2:4](x), values[2:4], rtol=0, atol=1e-9 * scale)
        matheron = posterior.functions(key, method="matheron")(x)
        assert_numbers(matheron, values.shape)


@pytest.mark.parametrize("name", cases)
@given(x=new, y_scale=st.sampled_from([1.0, 30.0]), seed=seeds)
@few
def test_predictive_densities_agree_with_predictions(name, x, y_scale, seed):
    posterior = posterior_of(name)
    y = np.random.default_rng(seed).choice(ALL[name][1], len(x))
    y = y if posterior.likelihood.is_discrete else y_scale * y
    density = posterior.log_predictive_density(x, y)
    assert_numbers(density, (len(x),))
    np.testing.assert_allclose(posterior.predict(x).log_density(y), density, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("name", cases)
@given(x=new)
@few
def test_a_file_holds_every_bit(name, x):
    posterior = posterior_of(name)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "m.kosambi"
        posterior.save(path)
        again = ko.load(path)
    for one, other in zip(summaries(posterior, x), summaries(again, x), strict=True):
        assert one.tobytes() == other.tobytes()
    with own_warnings_allowed():
        one, other = (p.functions(jax.random.key(0))(x) for p in (posterior, again))
    assert one.tobytes() == other.tobytes()
    assert str(again.report) == str(posterior.report)


@given(x=inputs(num_columns=st.just(1)), seed=seeds, key=keys)
@few
def test_conditioning_is_inference_with_all_rows(x, seed, key):
    posterior = posterior_of("Gaussian")
    y = np.random.default_rng(seed).normal(size=len(x))
    later = outcome(posterior.condition, key, x, y)
    together = ko.infer(
        key,
        posterior.prior,
        posterior.likelihood,
        np.concatenate([X, x]),
        np.concatenate([F, y]),
        basis=posterior.basis,
        num_particles=8,
    )
    one, other = later.predict(X), together.predict(X)
    np.testing.assert_allclose(one.mean, other.mean, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(one.variance, other.variance, rtol=1e-6, atol=1e-10)
    assert (one.variance <= posterior.predict(X).variance + 1e-9).all()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Bernoulli", *MORE])
@given(x=inputs(num_columns=st.just(1)), seed=seeds, key=keys)
@settings(max_examples=8)
def test_conditioning_gives_numbers(name, x, seed, key):
    posterior = posterior_of(name)
    later = outcome(posterior.condition, key, x, np.random.default_rng(seed).choice(ALL[name][1], len(x)))
    assert_numbers(later.particles.coordinates, posterior.particles.coordinates.shape)
    assert later.target.num_rows == 12 + len(x)


@pytest.mark.parametrize("name", ["Gaussian", pytest.param("Bernoulli", marks=pytest.mark.slow)])
def test_certificates_are_numbers(name):
    certificate = posterior_of(name).certificate()
    assert certificate.divergence >= 0.0
    assert np.isfinite(certificate.bound)
    assert certificate.divergence <= certificate.bound + 1e-9


@given(
    x=st.lists(st.one_of(st.sampled_from(EDGES), st.floats(allow_nan=True)), min_size=5, max_size=5),
    name=st.sampled_from([*KINDS]),
)
def test_bad_input_new_rows_anywhere_give_numbers_or_words(x, name):
    posterior, rows = posterior_of(name), np.array(x)[:, None]
    p = outcome(posterior.predict, rows)
    if p is not None:
        for values in summaries(posterior, rows):
            assert_numbers(values)
    values = outcome(posterior.functions(jax.random.key(0)), rows)
    assert values is None or np.isfinite(values).all()
    later = outcome(posterior.condition, jax.random.key(0), rows, np.ones(5)) if name == "Gaussian" else None
    assert later is None or np.isfinite(later.predict(X).mean).all()


ANY = st.sampled_from([None, "a", 0, -1, 1.5, True, np.nan, [], [[]], [np.nan], [1.0], [[1.0, 2.0]], jax.numpy])


@given(first=ANY, second=ANY)
def test_bad_input_arguments_are_used_or_refused(first, second):
    posterior, key = posterior_of("Gaussian"), jax.random.key(0)
    outcome(posterior.predict, first)
    outcome(posterior.predict, X, noise=first)
    outcome(posterior.log_predictive_density, X, first)
    outcome(posterior.log_predictive_density, first, second)
    outcome(posterior.condition, key, first, second)
    outcome(posterior.condition, first, X, F)
    outcome(posterior.functions, first)
    outcome(posterior.functions, key, method=first)
    outcome(posterior.functions, key, domain=first)
    outcome(posterior.functions, key, at=first)
    outcome(ko.Posterior, first, second)
    outcome(ko.sample, key, posterior.target, num_particles=first)
    outcome(ko.sample, key, posterior.target, initial=first)
    outcome(ko.sample, key, first)
