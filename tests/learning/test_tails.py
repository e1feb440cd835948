"""Noise with heavy tails: the kernel of Gaussian noise, or one learned with the tails if it predicts better."""

import dataclasses

import jax
import numpy as np
import pytest

import kosambi as ko
from kosambi.errors import HyperparameterWarning
from kosambi.learning import tails, without_points
from kosambi.learning.layout import Model, lay_out
from kosambi.learning.starts import Scales, limits, start

NOISE = 0.1


def smooth_data(num_rows=200, outliers=0.0, freedom=30.0):
    rng = np.random.default_rng(4)
    x = rng.uniform(-3.0, 3.0, (num_rows, 1))
    y = np.sin(2.0 * x[:, 0]) + NOISE * rng.standard_t(freedom, size=num_rows)
    far = rng.random(num_rows) < outliers
    y[far] += 20.0 * rng.standard_cauchy(far.sum())
    return x, y


def learn(x, y, likelihood, **how):
    kernel = ko.kernels.Matern32(1.0, 1.0)
    return ko.fit_hyperparameters(jax.random.key(0), kernel, likelihood, x, y, num_inducing="auto", **how)


@pytest.mark.parametrize(
    "likelihood",
    [
        pytest.param(ko.likelihoods.StudentT(scale=0.5), id="t"),
        pytest.param(ko.likelihoods.Laplace(0.5), id="L", marks=pytest.mark.slow),
    ],
)
def test_without_outliers_the_kernel_is_that_of_gaussian_noise(likelihood):
    x, y = smooth_data()
    kernel, learned, report = learn(x, y, likelihood)
    gaussian, noise, _ = learn(x, y, ko.likelihoods.Gaussian(0.5))
    assert float(kernel.lengthscale) == float(gaussian.lengthscale)
    assert float(kernel.variance) == float(gaussian.variance)
    assert report.strategy == "sites"
    assert report.converged
    assert 0.5 * float(noise.noise) < float(learned.scale) < 1.1 * float(noise.noise)
    # It was learned, and is not where the search began.
    assert float(learned.scale) != pytest.approx(0.7 * float(noise.noise), rel=1e-3)


@pytest.mark.slow
def test_a_kernel_that_outliers_have_spoiled_is_learned_again_with_the_tails(monkeypatch):
    x, y = smooth_data(outliers=0.1)
    kernel, learned, report = learn(x, y, ko.likelihoods.StudentT(scale=0.5))
    monkeypatch.setattr(tails, "TAILS", np.inf)
    spoiled, _, without = learn(x, y, ko.likelihoods.StudentT(scale=0.5))
    assert float(spoiled.variance) > 10.0
    # A Bayes factor of twenty.
    assert report.log_evidence > without.log_evidence + 3.0
    assert 0.5 * NOISE < float(learned.scale) < 2.0 * NOISE
    assert 0.1 < float(kernel.variance) < 10.0
    assert report.gradient_norm < 1.0


@pytest.mark.slow
def test_rows_without_weight_and_frozen_noise():
    x, y = smooth_data(120)
    likelihood = ko.likelihoods.StudentT(scale=0.5)
    counts = np.concatenate([np.ones(105), np.zeros(15)])
    spoiled = np.where(counts > 0, y, 1e3)
    first, second = (learn(x, some, likelihood, weights=counts)[1] for some in (y, spoiled))
    assert float(first.scale) == pytest.approx(float(second.scale), rel=1e-3)
    _, frozen, _ = learn(x, y, likelihood, freeze="likelihood.scale")
    assert float(frozen.scale) == 0.5


@pytest.mark.slow
def test_an_interruption_before_the_noise_is_one_and_after_it_leaves_that(monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    x, y = smooth_data(outliers=0.1)
    likelihood = ko.likelihoods.StudentT(scale=0.5)
    with monkeypatch.context() as patch:
        patch.setattr(tails.HeavyTails, "search", interrupt)
        with pytest.raises(KeyboardInterrupt):
            learn(x, y, likelihood)
        with pytest.warns(HyperparameterWarning, match="interrupted"):
            _, learned, report = learn(x, y, likelihood, on_interrupt="return")
        assert not report.converged
        # That of the spoiled kernel, with which tails had to matter for more to be tried.
        assert 0.0 < float(learned.scale) < np.inf
    monkeypatch.setattr(without_points.WithoutPoints, "search", interrupt)
    with pytest.raises(KeyboardInterrupt):
        learn(x, y, likelihood, on_interrupt="return")


def test_lengthscales_of_columns_are_held_together():
    rng = np.random.default_rng(5)
    x = rng.uniform(-3.0, 3.0, (120, 2))
    y = np.sin(2.0 * x[:, 0])
    for own, width in ((ko.kernels.Matern52(np.ones(2)), 1.0), (ko.kernels.Matern52(1.0), 3.0)):
        prior, noise = ko.GaussianProcess(own), ko.likelihoods.Gaussian(0.5)
        given = Model(own, prior.mean, noise)
        layout = lay_out(given)
        scales = Scales.of(prior, noise, x, y, True)
        found = limits(layout, start(prior, noise, x, y, scales), given, scales, x)
        names = [parameter.name for parameter, _ in layout.entries()]
        widths = [w for name, w in zip(names, found.width, strict=True) if name == "kernel.lengthscale"]
        assert widths == [width] * len(widths)
        assert widths
        assert dataclasses.asdict(found)["scale"][names.index("kernel.lengthscale")] == 1.0


def test_a_point_for_every_row_learns_the_kernel_with_the_tails():
    rng = np.random.default_rng(0)
    x = rng.uniform(-3.0, 3.0, (60, 1))
    y = np.sin(2.0 * x[:, 0]) + 0.1 * rng.normal(size=60)
    y[::8] += rng.normal(0.0, 8.0, size=8)
    prior = ko.GaussianProcess(ko.kernels.Matern52())
    found = {}
    for number in ("all", 60):
        _, _, report = ko.fit_hyperparameters(
            jax.random.key(0), prior, ko.likelihoods.StudentT(scale=0.3), x, y, num_inducing=number
        )
        found[number] = report.log_evidence
    assert abs(found[60] - found["all"]) < 1.0
