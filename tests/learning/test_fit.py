from __future__ import annotations

import pickle

import jax
import numpy as np
import pytest
import scipy.stats

import kosambi as ko
from kosambi.errors import HyperparameterWarning
from kosambi.learning.exact import ExactEvaluator
from kosambi.learning.layout import Model, lay_out, rebuilt
from kosambi.learning.rows import Block
from tests.learning.curves import KEY, NOISE, curve, unlearned

k, lk = ko.kernels, ko.likelihoods


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [range(3), range(3, 10)], ids=["three seeds", "seven more"])
@pytest.mark.parametrize("element", [False, True], ids=["process", "element"])
def test_parameters_are_found_again(element, seeds):
    for seed in seeds:
        rng, x, f = curve(seed, 600, 25.0, element)
        y = f + NOISE * rng.normal(size=len(x))
        prior, likelihood, report = ko.fit_hyperparameters(
            KEY, unlearned(x, element), lk.Gaussian(), x, y, num_inducing=70
        )
        assert report.converged
        assert abs(likelihood.noise / NOISE - 1.0) < 0.1
        assert abs(prior.kernel.lengthscale - 1.0) < 0.3


@pytest.mark.slow
def test_likelihood_parameters_are_found_again():
    rng, x, f = curve(1, 600)
    shape = {"num_inducing": 50, "num_restarts": 0}
    outliers = f + 0.3 * rng.standard_t(4.0, size=600)
    _, student, _ = ko.fit_hyperparameters(KEY, k.SquaredExponential(), lk.StudentT(), x, outliers, **shape)
    # The standard error of the scale is about 5 %, that of the degrees of freedom 25 %.
    assert abs(student.scale / 0.3 - 1.0) < 0.2
    assert 2.0 < student.degrees_of_freedom < 9.0
    counts = rng.negative_binomial(2.0, 2.0 / (2.0 + np.exp(f + 1.0))).astype(float)
    prior, negative, _ = ko.fit_hyperparameters(
        KEY, ko.GaussianProcess(k.SquaredExponential()), lk.NegativeBinomial(), x, counts, **shape
    )
    assert abs(negative.dispersion / 0.5 - 1.0) < 0.35
    assert abs(prior.kernel.lengthscale - 1.0) < 0.35


@pytest.mark.slow
def test_cut_points_are_found_again():
    rng, x, f = curve(2, 1000)
    classes = np.searchsorted([-1.0, 0.5, 2.0], 2.0 * f + rng.logistic(size=1000)).astype(float)
    kernel, ordinal, _ = ko.fit_hyperparameters(
        KEY, k.SquaredExponential(), lk.Ordinal([-0.1, 0.0, 0.1]), x, classes, num_inducing=50
    )
    np.testing.assert_allclose(np.diff(ordinal.cut_points), [1.5, 1.5], atol=0.5)
    assert abs(kernel.lengthscale - 1.0) < 0.35


@pytest.mark.slow
@pytest.mark.parametrize("number", [40, 4], ids=["points that carry the model", "too few points"])
def test_the_result_is_a_maximum_and_the_report_says_so(number):
    rng, x, f = curve(3, 150, 8.0)
    y = f + NOISE * rng.normal(size=150)
    kernel, likelihood, report = ko.fit_hyperparameters(KEY, k.Matern52(), lk.Gaussian(), x, y, num_inducing=number)
    assert report.converged
    assert report.gradient_norm < 0.1
    assert report.frozen == ("mean",)
    assert report.at_bound == ()
    assert report.num_rows == 150
    assert len(report.restarts) == 3
    assert report.evaluations > len(report.trace) > 20
    assert report.failures == 0
    # With a number of points that was asked for, points and hyperparameters are those of the bound together.
    assert not report.is_exact

    def evidence(kernel, likelihood, points=report.inducing_points):
        return ko.log_evidence(ko.GaussianProcess(kernel), likelihood, x, y, points)

    best = evidence(kernel, likelihood)
    np.testing.assert_allclose([report.bound, report.log_evidence], best, rtol=1e-9)
    # The weak prior is all that is between the two.
    assert 0.0 < report.log_evidence - report.objective < 3.0
    for factor in (0.8, 1.25):
        assert evidence(kernel, lk.Gaussian(factor * likelihood.noise)) < best
        assert evidence(k.Matern52(factor * kernel.lengthscale, kernel.variance), likelihood) < best
    text = str(report)
    assert "kernel.lengthscale" in text
    assert "likelihood.noise" in text
    assert "mean = 0. (frozen)" in text


@pytest.mark.slow
@pytest.mark.parametrize("sort", ["process", "element"])
def test_exact_evidence_and_its_gradient_on_the_host(sort):
    rng, x, f = curve(20, 40, 6.0)
    y, known = f + 0.3 * rng.normal(size=40), rng.uniform(0.01, 0.1, 40)
    kernel, mean = k.Matern52(0.8, 1.4), np.asarray(0.3)
    prior = ko.GaussianProcess(kernel) if sort == "process" else unlearned(x, True)
    given = Model(kernel, mean, lk.Gaussian(0.25))
    layout = lay_out(given)

    def evidence(vector):
        model = layout.model(vector, given)
        noise = jax.numpy.sqrt(jax.numpy.square(model.likelihood.noise) + known)
        return ko.target.evidence.exact(rebuilt(prior, model), lk.Gaussian(noise), x, y)

    vector = layout.vector(given)
    with jax.enable_x64(True):
        block = Block(x, y, np.ones(40), given.likelihood)
        evaluate = ExactEvaluator(layout, given, prior, [block], None, known)
        value, gradient = evaluate(vector)
        assert evaluate.value(vector) == value
        reference, slopes = jax.value_and_grad(evidence)(jax.numpy.asarray(vector))
    np.testing.assert_allclose(-value, reference, rtol=1e-12)
    np.testing.assert_allclose(-gradient, slopes, rtol=1e-9, atol=1e-9)
    covariance = (
        prior.covariance(x) if sort == "process" else ko.GaussianRandomElement(kernel, prior.measure).covariance(x)
    )
    dense = scipy.stats.multivariate_normal(np.full(40, 0.3), covariance + np.diag(0.25**2 + known))
    np.testing.assert_allclose(-value, dense.logpdf(y), rtol=1e-9)


@pytest.mark.slow
def test_inducing_points_are_moved_to_where_they_explain_more():
    rng, x, f = curve(21, 300)
    y = (f + rng.logistic(size=300) > 0).astype(float)
    prior, fitted, report = ko.fit_hyperparameters(
        KEY, ko.GaussianProcess(k.SquaredExponential()), lk.Bernoulli(), x, y, num_inducing=12, num_restarts=0
    )
    points = report.inducing_points
    assert points.shape == (12, 1)
    assert x.min() <= points.min() <= points.max() <= x.max()
    greedy = x[ko.inducing.greedy_variance(prior, x, 12)]
    assert report.bound > ko.log_evidence(prior, fitted, x, y, greedy) + 1.0


@pytest.mark.slow
def test_nothing_is_compiled_again_for_data_of_the_same_shape():
    rng, x, f = curve(4, 120, 6.0)
    first, second = (f + 0.2 * rng.normal(size=120) for _ in range(2))
    for given, other in ((lk.Gaussian(), lk.Gaussian(2.0)), (lk.StudentT(), lk.StudentT(7.0, 0.2))):
        ko.fit_hyperparameters(KEY, k.SquaredExponential(), given, x, first, num_inducing=20)
        _, _, again = ko.fit_hyperparameters(
            jax.random.key(7), k.SquaredExponential(3.0), other, x + 0.1, second, num_inducing=20
        )
        assert again.compile_seconds == 0.0


@pytest.mark.slow
def test_frozen_tied_and_given_parts_keep_what_they_are():
    rng, x, f = curve(5, 120, 6.0)
    y = f + 0.2 * rng.normal(size=120)
    kernel = k.SquaredExponential(2.0, 1.3) + k.Matern52(3.0, 0.4)
    learned, likelihood, report = ko.fit_hyperparameters(
        KEY,
        kernel,
        lk.Gaussian(0.25),
        x,
        y,
        num_inducing=20,
        num_restarts=0,
        freeze=["likelihood", "kernel.1.variance"],
        tie=[["kernel.0.lengthscale", "kernel.1.lengthscale"]],
    )
    assert likelihood.noise == 0.25
    assert learned.kernels[1].variance == 0.4
    assert learned.kernels[0].lengthscale == learned.kernels[1].lengthscale != 2.0
    assert set(report.frozen) == {"likelihood.noise", "kernel.1.variance", "mean"}
    # A kernel stays a kernel, a prior a prior with its measure.
    assert isinstance(learned, k.Sum)
    measure = ko.measures.empirical(x)
    prior, _, _ = ko.fit_hyperparameters(
        KEY, ko.GaussianRandomElement(k.Matern52(), measure), lk.Gaussian(), x, y + 3.0, num_inducing=20, num_restarts=0
    )
    assert isinstance(prior, ko.GaussianRandomElement)
    np.testing.assert_array_equal(prior.measure.points, measure.points)
    assert 1.0 < prior.mean < 5.0


@pytest.mark.slow
def test_a_column_that_does_not_matter_gets_a_long_lengthscale():
    rng = np.random.default_rng(6)
    x = rng.normal(size=(200, 2))
    y = np.sin(2.0 * x[:, 0]) + 0.1 * rng.normal(size=200)
    kernel, _, _ = ko.fit_hyperparameters(KEY, k.SquaredExponential(), lk.Gaussian(), x, y, num_inducing=50, ard=True)
    assert kernel.lengthscale.shape == (2,)
    assert kernel.lengthscale[1] > 5.0 * kernel.lengthscale[0]


@pytest.mark.slow
def test_many_rows_use_a_subset_for_the_kernel_and_all_for_the_noise():
    rng, x, f = curve(7, 1500)
    y = f + NOISE * rng.normal(size=1500)
    options = {"num_inducing": 40, "num_restarts": 0}
    prior = ko.GaussianRandomElement(k.SquaredExponential(), ko.measures.empirical(x))
    learned, likelihood, report = ko.fit_hyperparameters(KEY, prior, lk.Gaussian(), x, y, max_rows=300, **options)
    assert report.num_rows == report.num_support == 300
    assert learned.measure.points.shape == (1500, 1)
    assert abs(likelihood.noise / NOISE - 1.0) < 0.08

    # With the kernel as it is, no other noise makes all rows more probable.
    def evidence(noise):
        return ko.log_evidence(learned, lk.Gaussian(noise), x, y, report.inducing_points)

    best = evidence(likelihood.noise)
    np.testing.assert_allclose(report.log_evidence, best, rtol=1e-8)
    assert evidence(0.97 * likelihood.noise) < best > evidence(1.03 * likelihood.noise)


@pytest.mark.slow
def test_known_noise_for_each_datum_is_kept():
    rng, x, f = curve(8, 150, 8.0)
    sd = rng.uniform(0.05, 0.6, 150)
    y = f + sd * rng.normal(size=150)
    kernel, likelihood, _ = ko.fit_hyperparameters(
        KEY, k.SquaredExponential(), lk.Gaussian(sd), x, y, num_inducing=30, num_restarts=0, max_rows=100
    )
    np.testing.assert_array_equal(likelihood.noise, sd)
    assert 0.5 < kernel.lengthscale < 2.0


def test_same_key_same_numbers_with_the_switch_off_and_on_and_float64_at_rest():
    rng, x, f = curve(9, 60, 4.0)
    y, found = f + 0.2 * rng.normal(size=60), []
    for switch in (False, True):
        with jax.enable_x64(switch):
            fit = ko.fit_hyperparameters(KEY, k.Matern32(), lk.Gaussian(), x, y, num_inducing=12)
            for leaf in jax.tree.leaves(fit[:2]):
                assert isinstance(leaf, np.ndarray)
                assert leaf.dtype == np.float64
            found.append((fit, pickle.loads(pickle.dumps(fit))))
    first = jax.tree.leaves(found[0][0][:2])
    for fit in (*found[0], *found[1]):
        for ours, theirs in zip(jax.tree.leaves(fit[:2]), first, strict=True):
            np.testing.assert_array_equal(ours, theirs)
        np.testing.assert_array_equal(fit[2].trace, found[0][0][2].trace)


def test_a_model_that_predicts_worse_than_a_constant_is_warned_of():
    rng, x, f = curve(30, 60, 5.0)
    y = f + 0.1 * rng.normal(size=60)
    # A noise that is far too small, and that may not change.
    with pytest.warns(HyperparameterWarning) as caught:
        ko.fit_hyperparameters(
            KEY, k.SquaredExponential(100.0), lk.Gaussian(1e-3), x, y, freeze=["kernel.lengthscale", "likelihood"]
        )
    assert any("by a constant distribution" in str(one.message) for one in caught)


def test_rows_left_out_against_fits_without_them():
    rng, x, f = curve(31, 12, 4.0)
    y, noise = f + 0.2 * rng.normal(size=12), lk.Gaussian(0.2)
    prior, counts = ko.GaussianProcess(k.Matern52(1.0, 1.3), 0.1), np.resize([1.0, 2.0, 0.0], 12)
    given = Model(prior.kernel, prior.mean, noise)
    layout = lay_out(given)
    with jax.enable_x64(True):
        found = ExactEvaluator(layout, given, prior, [Block(x, y, counts, noise)]).leave_one_out(layout.vector(given))
    each = []
    for n in np.flatnonzero(counts):
        rest = np.setdiff1d(np.flatnonzero(counts), [n])
        gram = prior.covariance(x[rest]) + np.diag(0.04 / counts[rest])
        load = np.linalg.solve(gram, prior.covariance(x[rest], x[[n]]))[:, 0]
        mean = 0.1 + load @ (y[rest] - 0.1)
        variance = 1.3 - load @ prior.covariance(x[rest], x[[n]])[:, 0] + 0.04 / counts[n]
        each.append(scipy.stats.norm.logpdf(y[n], mean, np.sqrt(variance)))
    assert found == pytest.approx(np.average(each, weights=counts[counts > 0]), rel=1e-9)


@pytest.mark.slow
def test_the_order_of_rows_does_not_matter_to_the_last_bit():
    """Above the number from which some rows are drawn for starts."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-3.0, 3.0, (700, 2))
    y = np.sin(2.0 * x[:, 0]) + 0.3 * rng.normal(size=700)
    weights = rng.integers(0, 3, size=700).astype(float)
    found = []
    for order in (np.arange(700), rng.permutation(700)):
        kernel, likelihood, _ = ko.fit_hyperparameters(
            KEY,
            ko.kernels.Matern52([1.0, 1.0]),
            ko.likelihoods.Gaussian(0.5),
            x[order],
            y[order],
            weights=weights[order],
        )
        found.append((np.asarray(kernel.lengthscale), float(kernel.variance), float(likelihood.noise)))
    np.testing.assert_array_equal(found[0][0], found[1][0])
    assert found[0][1:] == found[1][1:]
