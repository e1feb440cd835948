"""Noise with heavy tails where the number of inducing points is chosen later."""

import jax
import numpy as np
import pytest

import kosambi as ko
from kosambi.errors import HyperparameterWarning
from kosambi.learning import _heavy_tails, _rounds
from kosambi.target.evidence import log_evidence

NOISE = 0.1


def rough_data(num_rows=400, outliers=0.0):
    """A function with more features than 300 inducing points can carry, and a few data far off."""
    rng = np.random.default_rng(3)
    x = np.sort(rng.uniform(0.0, 100.0, (num_rows, 1)), axis=0)
    prior = ko.GaussianProcess(ko.kernels.Matern32(0.3, 1.0))
    root = np.linalg.cholesky(np.asarray(prior.covariance(x)) + 1e-10 * np.eye(num_rows))
    f = root @ rng.normal(size=num_rows)
    y = f + NOISE * rng.standard_t(4.0, size=num_rows)
    far = rng.random(num_rows) < outliers
    y[far] += 20.0 * rng.standard_cauchy(far.sum())
    return x, y


def smooth_data(num_rows=350, outliers=0.1):
    rng = np.random.default_rng(4)
    x = rng.uniform(-3.0, 3.0, (num_rows, 1))
    y = np.sin(2.0 * x[:, 0]) + NOISE * rng.normal(size=num_rows)
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
def test_the_evidence_is_that_with_every_row_as_a_point(likelihood):
    x, y = rough_data(320)
    kernel, learned, report = learn(x, y, likelihood)
    prior = ko.GaussianProcess(kernel)
    # Laplace's approximation to the evidence of the full process, evaluated anew.
    assert report.log_evidence == pytest.approx(float(log_evidence(prior, learned, x, y, x)), abs=1e-3)
    assert report.converged


@pytest.mark.slow
def test_inducing_points_that_leave_much_open_do_not_make_the_noise_wide(monkeypatch):
    x, y = rough_data()
    monkeypatch.setattr(_heavy_tails, "MOST_INDUCING", 60)
    _, learned, _ = learn(x, y, ko.likelihoods.StudentT(scale=0.5))
    # The other way takes what sixty points leave open for noise.
    from kosambi.learning import _evidence

    monkeypatch.setattr(_evidence, "MOST_INDUCING", 60)
    monkeypatch.setattr(_heavy_tails, "applies", lambda task: False)
    _, wide, _ = learn(x, y, ko.likelihoods.StudentT(scale=0.5))
    assert float(wide.scale) > 3.0 * NOISE
    assert float(learned.scale) < 2.0 * NOISE


@pytest.mark.slow
def test_a_kernel_that_outliers_have_spoiled_is_learned_again_with_the_tails(monkeypatch):
    x, y = smooth_data()
    kernel, learned, report = learn(x, y, ko.likelihoods.StudentT(scale=0.5))
    monkeypatch.setattr(_heavy_tails, "HEAVY", np.inf)
    _, _, without = learn(x, y, ko.likelihoods.StudentT(scale=0.5))
    assert report.log_evidence > without.log_evidence + 10.0
    assert 0.5 * NOISE < float(learned.scale) < 2.0 * NOISE
    assert 0.1 < float(kernel.variance) < 10.0
    # What is told is told of the kernel that is returned.
    assert (report.num_rows, without.num_rows) == (300, 350)
    assert report.gradient_norm < 1.0


@pytest.mark.slow
def test_a_kernel_for_tails_that_is_not_better_is_not_taken(monkeypatch):
    x, y = rough_data(320)
    _, _, report = learn(x, y, ko.likelihoods.StudentT(scale=0.5))
    monkeypatch.setattr(_heavy_tails, "HEAVY", -np.inf)
    _, _, tried = learn(x, y, ko.likelihoods.StudentT(scale=0.5))
    assert tried.log_evidence >= report.log_evidence
    assert tried.evaluations > report.evaluations


@pytest.mark.slow
def test_rows_without_weight_and_frozen_noise():
    x, y = smooth_data(320, outliers=0.0)
    likelihood = ko.likelihoods.StudentT(scale=0.5)
    counts = np.concatenate([np.ones(305), np.zeros(15)])
    spoiled = np.where(counts > 0, y, 1e3)
    first, second = (learn(x, some, likelihood, weights=counts)[1] for some in (y, spoiled))
    assert float(first.scale) == pytest.approx(float(second.scale), rel=1e-3)
    _, frozen, _ = learn(x, y, likelihood, freeze="likelihood.scale")
    assert float(frozen.scale) == 0.5


def test_an_interruption_leaves_the_kernel_of_gaussian_noise(monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(_heavy_tails, "refine", interrupt)
    x, y = smooth_data(320, outliers=0.0)
    with pytest.warns(HyperparameterWarning, match="interrupted"):
        kernel, learned, report = learn(x, y, ko.likelihoods.StudentT(scale=0.5), on_interrupt="return")
    gaussian, noise, _ = learn(x, y, ko.likelihoods.Gaussian(0.5))
    assert not report.converged
    assert float(kernel.lengthscale) == pytest.approx(float(gaussian.lengthscale), rel=0.05)
    assert float(learned.scale) == pytest.approx(0.7 * float(noise.noise), rel=0.05)


def test_an_interruption_of_the_main_search_returns_what_the_short_ones_found(monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(_rounds, "_main_search", interrupt)
    x, y = smooth_data(320, outliers=0.0)
    with pytest.warns(HyperparameterWarning, match="interrupted"):
        _, learned, report = learn(x, y, ko.likelihoods.StudentT(scale=0.5), on_interrupt="return")
    assert np.isfinite(float(learned.scale))
    assert not report.converged
    assert np.isnan(report.log_evidence)


@pytest.mark.slow
def test_the_evidence_is_of_the_rows_that_the_kernel_was_learned_from(monkeypatch):
    monkeypatch.setattr(_heavy_tails, "FULL_ROWS", 310)
    x, y = rough_data(350)
    kernel, learned, report = learn(x, y, ko.likelihoods.StudentT(scale=0.5))
    assert report.num_rows == 350
    assert report.inducing_points.shape == (310, 1)
    expected = log_evidence(ko.GaussianProcess(kernel), learned, x, y, report.inducing_points)
    assert report.log_evidence == pytest.approx(float(expected), abs=1e-6)
    assert len(report.trace) > 10


@pytest.mark.slow
def test_one_thinned_measure_for_all_evidences_and_few_rows(monkeypatch):
    seen = []

    def spy(few, twin, found):
        seen.append((few.prior, twin.problem.prior))
        return True

    monkeypatch.setattr(_heavy_tails, "_tails_matter", spy)
    x, y = smooth_data(320, outliers=0.0)
    prior = ko.GaussianRandomElement(ko.kernels.Matern32(1.0, 1.0), ko.measures.empirical(x))
    likelihood = ko.likelihoods.StudentT(scale=0.5)
    _, learned, report = ko.fit_hyperparameters(
        jax.random.key(0), prior, likelihood, x, y, num_inducing="auto", max_rows=60, num_restarts=0, max_iterations=60
    )
    first, second = seen[0]
    np.testing.assert_array_equal(first.measure.points, second.measure.points)
    assert report.num_support == len(first.measure.points) <= 60
    assert report.num_rows <= 60
    assert 0.5 * NOISE < float(learned.scale) < 2.0 * NOISE
