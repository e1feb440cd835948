"""`infer`: a posterior of finite numbers or words, for any rows, weights, points, bases and potentials."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kosambi as ko
from tests.properties.data import EDGES, FORMS, forms, inputs, keys, observations, scales, seeds, weights
from tests.properties.promises import assert_numbers, outcome, own_warnings_allowed

KERNEL = ko.kernels.Matern32(0.8, 1.5)
NEW = np.array([[-0.5], [0.0], [2.0]])
KINDS = {
    "Gaussian": ("real", ko.likelihoods.Gaussian(0.3)),
    "StudentT": ("real", ko.likelihoods.StudentT(4.0, 0.5)),
    "Laplace": ("real", ko.likelihoods.Laplace(0.5)),
    "HeteroscedasticGaussian": ("real", ko.likelihoods.HeteroscedasticGaussian()),
    "Bernoulli": ("2", ko.likelihoods.Bernoulli()),
    "Categorical": ("3", ko.likelihoods.Categorical(3)),
    "Ordinal": ("3", ko.likelihoods.Ordinal([-0.5, 0.5])),
    "Poisson": ("counts", ko.likelihoods.Poisson()),
    "NegativeBinomial": ("counts", ko.likelihoods.NegativeBinomial(0.5)),
    "ZeroInflatedPoisson": ("counts", ko.likelihoods.ZeroInflatedPoisson(0.3)),
    "Gamma": ("positive", ko.likelihoods.Gamma(2.0)),
    "Exponential": ("positive", ko.likelihoods.Exponential()),
}
GAUSSIAN = KINDS["Gaussian"][1]
half = settings(max_examples=max(3, settings.default.max_examples // 4))


def assert_posterior(posterior, number, new=NEW):
    """Draws, predictions and functions are numbers with the promised shapes, and intervals are in order."""
    target = posterior.target
    assert_numbers(posterior.particles.coordinates, (number, *target.shape))
    with own_warnings_allowed():
        p = posterior.predict(new)
        last = () if target.likelihood.num_latents == 1 else (target.likelihood.num_latents,)
        assert_numbers(p.mean, (len(new), *last))
        assert_numbers(p.variance, (len(new), *last))
        assert (p.variance >= 0).all()
        assert_numbers(p.support, (len(new),))
        if target.likelihood.num_labels is not None:
            table = p._label_probabilities
            np.testing.assert_allclose(np.sum(table, axis=1), 1.0, rtol=1e-9)
        else:
            lower, middle, upper = p.quantile([0.05, 0.5, 0.95])
            assert_numbers(np.stack([lower, middle, upper]))
            assert (lower <= middle).all()
            assert (middle <= upper).all()


@given(
    x=inputs(num_columns=st.just(1)),
    seed=seeds,
    key=keys,
    points=st.sampled_from([1, 2, "all", "auto"]),
    number=st.sampled_from([1, 3]),
    constant=st.booleans(),
)
@half
def test_gaussian_posteriors_of_few_rows(x, seed, key, points, number, constant):
    y = np.random.default_rng(seed).normal(size=len(x))
    y = np.full(len(x), y[0]) if constant else y
    posterior = outcome(ko.infer, key, KERNEL, GAUSSIAN, x, y, num_inducing=points, num_particles=number)
    if posterior is None:
        assert points == 2
        assert len(x) == 1
        return
    assert_posterior(posterior, number)
    again = outcome(ko.infer, key, KERNEL, GAUSSIAN, x, y, num_inducing=points, num_particles=number)
    np.testing.assert_array_equal(again.particles.coordinates, posterior.particles.coordinates)
    assert np.isfinite(float(posterior.log_evidence))


@given(x=inputs(num_columns=st.just(1)), data=st.data(), key=keys)
@half
def test_a_row_of_weight_two_is_the_row_twice_and_of_weight_zero_none(x, data, key):
    counts = np.array(data.draw(st.lists(st.integers(0, 2), min_size=len(x), max_size=len(x))))
    if not counts.any():
        counts[0] = 1
    y = data.draw(observations(len(x)))
    twice = np.repeat(np.arange(len(x)), counts)
    options = {"inducing_points": NEW, "num_particles": 2}
    weighted = ko.infer(key, KERNEL, GAUSSIAN, x, y, weights=counts, **options)
    repeated = ko.infer(key, KERNEL, GAUSSIAN, x[twice], y[twice], **options)
    for field in ("mean", "variance"):
        one, other = (getattr(posterior.predict(NEW), field) for posterior in (weighted, repeated))
        np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-9)
    order = np.random.default_rng(0).permutation(len(x))
    other = ko.infer(key, KERNEL, GAUSSIAN, x[order], y[order], weights=counts[order], **options)
    np.testing.assert_allclose(other.predict(NEW).mean, weighted.predict(NEW).mean, rtol=1e-7, atol=1e-9)


@given(
    x=inputs(num_columns=st.just(1), scale=scales),
    y_scale=scales,
    form=forms,
    length=scales,
    variance=scales,
    noise=scales,
    seed=seeds,
)
@half
def test_bad_input_any_scale_gives_numbers_or_words(x, y_scale, form, length, variance, noise, seed):
    y = y_scale * np.random.default_rng(seed).normal(size=len(x))
    kernel, gaussian = ko.kernels.Matern52(length, variance), ko.likelihoods.Gaussian(noise)
    key, options = jax.random.key(seed), {"inducing_points": x[:1], "num_particles": 2}
    posterior = outcome(ko.infer, key, kernel, gaussian, FORMS[form](x), FORMS[form](y), **options)
    if posterior is None:
        return
    assert_numbers(posterior.particles.coordinates)
    p = outcome(posterior.predict, x)
    if p is not None:
        assert_numbers(p.mean, (len(x),))
        assert_numbers(p.variance, (len(x),))
        interval = outcome(p.interval)
        if interval is not None:
            assert_numbers(np.stack(interval))
            assert (interval[0] <= interval[1]).all()


@given(
    y=st.lists(st.one_of(st.sampled_from(EDGES), st.floats(allow_nan=True)), min_size=0, max_size=6),
    counts=st.one_of(st.none(), st.lists(st.sampled_from([0.0, 1.0, 1e300, 1e-300, np.nan, -1.0]), max_size=6)),
    name=st.sampled_from(["Gaussian", "StudentT", "Bernoulli", "Poisson"]),
)
def test_bad_input_observations_and_weights(y, counts, name):
    x = np.linspace(-1.0, 1.0, 5)[:, None]
    options = {"inducing_points": x[::2], "num_particles": 2, "weights": counts}
    posterior = outcome(ko.infer, jax.random.key(0), KERNEL, KINDS[name][1], x, y, **options)
    if posterior is not None:
        assert_numbers(posterior.particles.coordinates)
        p = outcome(posterior.predict, x)
        assert p is None or (np.isfinite(p.mean).all() and np.isfinite(p.variance).all())


ANYTHING = st.sampled_from(
    [None, "auto", "all", "a", 0, 1, 2, 5, 6, -1, 1.5, True, np.int64(2), np.nan, [], [[1.0], [1.0, 2.0]], jax.numpy]
)


@given(
    name=st.sampled_from(
        [
            "num_inducing",
            "inducing_points",
            "basis",
            "potential",
            "num_neighbors",
            "weights",
            "sampler",
            "num_particles",
            "initial",
            "background",
            "precision",
            "max_memory",
            "on_interrupt",
            "mesh",
            "key",
            "prior",
            "likelihood",
            "x",
            "y",
        ]
    ),
    value=ANYTHING,
)
def test_bad_input_arguments_of_any_type_are_used_or_refused(name, value):
    x = np.linspace(-1.0, 1.0, 5)[:, None]
    given = {"key": jax.random.key(0), "prior": KERNEL, "likelihood": GAUSSIAN, "x": x, "y": x[:, 0]}
    posterior = outcome(ko.infer, **(given | {"num_particles": 2} | {name: value}))
    if posterior is not None:
        assert_numbers(posterior.particles.coordinates)


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
@given(x=inputs(num_columns=st.just(1)), data=st.data(), key=keys, number=st.sampled_from([1, 8]))
@settings(max_examples=12)
def test_every_likelihood_of_few_rows(name, x, data, key, number):
    kind, likelihood = KINDS[name]
    y = data.draw(observations(len(x), kind))
    counts = data.draw(st.none() | weights(len(x)))
    options = {"inducing_points": x[:1], "num_particles": number, "weights": counts}
    posterior = outcome(ko.infer, key, KERNEL, likelihood, x, y, **options)
    assert_posterior(posterior, number)
    again = outcome(ko.infer, key, KERNEL, likelihood, x, y, **options)
    np.testing.assert_array_equal(again.particles.coordinates, posterior.particles.coordinates)


@pytest.mark.slow
@given(
    x=inputs(num_columns=st.just(1)),
    seed=seeds,
    key=keys,
    basis=st.sampled_from(["auto", "point", "ritz", "nystrom", "inducing"]),
    element=st.booleans(),
    potential=st.sampled_from(["auto", "projected", "optimal", "neighbors"]),
    how=st.sampled_from(["greedy", "kmeans", "uniform"]),
    near=st.sampled_from(["auto", 0, 1, 5, 100]),
    points=st.sampled_from([0, 1, 2, "auto", "all"]),
    name=st.sampled_from(["Gaussian", "Bernoulli"]),
)
@settings(max_examples=60)
def test_bad_input_choices_that_go_together_and_others(
    x, seed, key, basis, element, potential, how, near, points, name
):
    prior = ko.GaussianRandomElement(KERNEL, ko.measures.empirical(x)) if element else KERNEL
    kind, likelihood = KINDS[name]
    rng = np.random.default_rng(seed)
    y = rng.normal(size=len(x)) if kind == "real" else rng.integers(0, 2, len(x)).astype(float)
    options = {
        "num_inducing": points,
        "inducing_points": how,
        "basis": basis,
        "potential": potential,
        "num_neighbors": near,
        "num_particles": 4,
    }
    posterior = outcome(ko.infer, key, prior, likelihood, x, y, **options)
    if posterior is not None:
        assert_posterior(posterior, 4)
