from __future__ import annotations

import pickle
import warnings

import jax
import numpy as np
import pytest
import scipy.optimize
import scipy.stats

import kosambi as ko
from kosambi.errors import HyperparameterWarning, InputError, NumericalError
from kosambi.hyperparameters._exact import ExactEvaluator
from kosambi.hyperparameters._layout import Model, lay_out, rebuilt

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


@pytest.mark.parametrize("element", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["process", "element"])
def test_parameters_are_found_again(element):
    for seed in range(10):
        rng, x, f = curve(seed, 600, 25.0, element)
        y = f + NOISE * rng.normal(size=len(x))
        prior, likelihood, report = ko.fit_hyperparameters(
            KEY, unlearned(x, element), lk.Gaussian(), x, y, num_inducing=70
        )
        assert report.converged
        assert abs(likelihood.noise / NOISE - 1.0) < 0.1
        assert abs(prior.kernel.lengthscale - 1.0) < 0.3


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
    # Enough points, and the hyperparameters are those without any; too few, and they are those of the bound.
    assert report.is_exact == (number == 40)
    points = None if report.is_exact else report.inducing_points

    def evidence(kernel, likelihood, points=points):
        return ko.evidence.log_evidence(ko.GaussianProcess(kernel), likelihood, x, y, points)

    best = evidence(kernel, likelihood)
    np.testing.assert_allclose(report.bound, evidence(kernel, likelihood, report.inducing_points), rtol=1e-9)
    if report.is_exact:
        assert report.trace.max() == report.objective
        np.testing.assert_allclose(report.log_evidence, best, rtol=1e-9)
    else:
        # Moved after the search, which can only help.
        assert report.bound > report.log_evidence
    # The weak prior is all that is between the two.
    assert 0.0 < report.log_evidence - report.objective < 3.0
    for factor in (0.8, 1.25):
        assert evidence(kernel, lk.Gaussian(factor * likelihood.noise)) < best
        assert evidence(k.Matern52(factor * kernel.lengthscale, kernel.variance), likelihood) < best
    text = str(report)
    assert "kernel.lengthscale" in text
    assert "likelihood.noise" in text
    assert "mean = 0. (frozen)" in text


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
        return ko.evidence.exact(rebuilt(prior, model), lk.Gaussian(noise), x, y)

    vector = layout.vector(given)
    with jax.enable_x64(True):
        value, gradient = ExactEvaluator(layout, given, prior, x, y, None, known)(vector)
        reference, slopes = jax.value_and_grad(evidence)(jax.numpy.asarray(vector))
    np.testing.assert_allclose(-value, reference, rtol=1e-12)
    np.testing.assert_allclose(-gradient, slopes, rtol=1e-9, atol=1e-9)
    covariance = (
        prior.covariance(x) if sort == "process" else ko.GaussianRandomElement(kernel, prior.measure).covariance(x)
    )
    dense = scipy.stats.multivariate_normal(np.full(40, 0.3), covariance + np.diag(0.25**2 + known))
    np.testing.assert_allclose(-value, dense.logpdf(y), rtol=1e-9)


def test_inducing_points_are_moved_to_where_they_explain_more():
    rng, x, f = curve(21, 300)
    for likelihood, y in (
        (lk.Gaussian(), f + NOISE * rng.normal(size=300)),
        (lk.Bernoulli(), (f + rng.logistic(size=300) > 0).astype(float)),
    ):
        prior, fitted, report = ko.fit_hyperparameters(
            KEY, ko.GaussianProcess(k.SquaredExponential()), likelihood, x, y, num_inducing=12, num_restarts=0
        )
        points = report.inducing_points
        assert points.shape == (12, 1)
        assert x.min() <= points.min() <= points.max() <= x.max()
        greedy = x[ko.inducing.greedy_variance(prior, x, 12)]
        assert report.bound > ko.evidence.log_evidence(prior, fitted, x, y, greedy) + 1.0


def test_nothing_is_compiled_again_for_data_of_the_same_shape():
    rng, x, f = curve(4, 120, 6.0)
    first, second = (f + 0.2 * rng.normal(size=120) for _ in range(2))
    for likelihood in (lk.Gaussian(), lk.StudentT()):
        ko.fit_hyperparameters(KEY, k.SquaredExponential(), likelihood, x, first, num_inducing=20)
        _, _, again = ko.fit_hyperparameters(
            jax.random.key(7), k.SquaredExponential(3.0), likelihood, x + 0.1, second, num_inducing=20
        )
        assert again.compile_seconds == 0.0


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
    assert prior.measure is measure or np.array_equal(prior.measure.points, measure.points)
    assert 1.0 < prior.mean < 5.0


def test_a_column_that_does_not_matter_gets_a_long_lengthscale():
    rng = np.random.default_rng(6)
    x = rng.normal(size=(200, 2))
    y = np.sin(2.0 * x[:, 0]) + 0.1 * rng.normal(size=200)
    kernel, _, _ = ko.fit_hyperparameters(KEY, k.SquaredExponential(), lk.Gaussian(), x, y, num_inducing=50, ard=True)
    assert kernel.lengthscale.shape == (2,)
    assert kernel.lengthscale[1] > 5.0 * kernel.lengthscale[0]


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
        return ko.evidence.log_evidence(learned, lk.Gaussian(noise), x, y, report.inducing_points)

    best = evidence(likelihood.noise)
    np.testing.assert_allclose(report.log_evidence, best, rtol=1e-8)
    assert evidence(0.97 * likelihood.noise) < best > evidence(1.03 * likelihood.noise)


def test_known_noise_for_each_datum_is_kept():
    rng, x, f = curve(8, 150, 8.0)
    sd = rng.uniform(0.05, 0.6, 150)
    y = f + sd * rng.normal(size=150)
    kernel, likelihood, _ = ko.fit_hyperparameters(
        KEY, k.SquaredExponential(), lk.Gaussian(sd), x, y, num_inducing=30, num_restarts=0, max_rows=100
    )
    np.testing.assert_array_equal(likelihood.noise, sd)
    assert 0.5 < kernel.lengthscale < 2.0


def test_same_key_same_numbers_and_float64_at_rest(x64):
    rng, x, f = curve(9, 60, 4.0)
    y = f + 0.2 * rng.normal(size=60)
    kernel, likelihood, report = ko.fit_hyperparameters(KEY, k.Matern32(), lk.Gaussian(), x, y, num_inducing=12)
    for leaf in jax.tree.leaves((kernel, likelihood)):
        assert isinstance(leaf, np.ndarray)
        assert leaf.dtype == np.float64
    stored = test_same_key_same_numbers_and_float64_at_rest.__dict__.setdefault("stored", {})
    stored[x64] = (float(kernel.lengthscale), float(likelihood.noise))
    assert len(set(stored.values())) == 1
    again = pickle.loads(pickle.dumps((kernel, likelihood, report)))
    assert float(again[0].lengthscale) == float(kernel.lengthscale)
    np.testing.assert_array_equal(again[2].trace, report.trace)


# The paper's method.


def exact_marginal(kernel, noise, constant, x, y, known=0.0):
    covariance = kernel(x) + np.diag(noise**2 + np.broadcast_to(known, len(y)))
    return scipy.stats.multivariate_normal(np.full(len(y), constant), covariance, allow_singular=True).logpdf(y)


def test_paper_maximises_the_marginal_likelihood_of_an_exact_process():
    rng, x, f = curve(10, 80, 6.0)
    y = f + 0.3 * rng.normal(size=80) + 1.5
    kernel, likelihood, report = ko.fit_hyperparameters(
        KEY, k.SquaredExponential(), lk.Gaussian(), x, y, method="paper"
    )

    def minus(v):
        return -exact_marginal(k.SquaredExponential(np.exp(v[0]), np.exp(v[1])), np.exp(v[2]), v[3], x, y)

    start = [np.log(kernel.lengthscale), np.log(kernel.variance), np.log(likelihood.noise), y.mean()]
    best = scipy.optimize.minimize(minus, start, method="Nelder-Mead", options={"xatol": 1e-4, "fatol": 1e-6})
    assert report.converged
    np.testing.assert_allclose(report.objective, -best.fun, atol=1e-3)
    np.testing.assert_allclose([kernel.lengthscale, kernel.variance, likelihood.noise], np.exp(best.x[:3]), rtol=0.02)
    # The constant is thrown away: a prior keeps the mean that it had.
    prior, _, _ = ko.fit_hyperparameters(
        KEY, ko.GaussianProcess(k.SquaredExponential(), 0.7), lk.Gaussian(), x, y, method="paper"
    )
    assert prior.mean == 0.7


def test_paper_averages_subsets_before_the_softplus():
    rng, x, f = curve(11, 90, 9.0)
    y = f + 0.3 * rng.normal(size=90)
    options = {"method": "paper", "max_rows": 40, "num_restarts": 3}
    kernel, likelihood, report = ko.fit_hyperparameters(KEY, k.SquaredExponential(), lk.Gaussian(), x, y, **options)
    assert len(report.restarts) == 3
    assert report.num_rows == 40
    from kosambi.hyperparameters import _paper
    from kosambi.precision import host_generator

    subsets = _paper._subsets(host_generator(KEY), x, _paper.Settings(40, 3))
    for rows in subsets:
        outside = np.setdiff1d(np.arange(90), rows)
        centre = min(rows, key=lambda c: np.abs(x[rows] - x[c]).max())
        assert np.abs(x[rows] - x[centre]).max() <= np.abs(x[outside] - x[centre]).min() + 1e-12
    each = [
        ko.fit_hyperparameters(KEY, k.SquaredExponential(), lk.Gaussian(), x[rows], y[rows], method="paper")
        for rows in subsets
    ]

    def average(values):
        return np.logaddexp(0.0, np.mean(np.log(np.expm1(values))))

    np.testing.assert_allclose(kernel.lengthscale, average([fit[0].lengthscale for fit in each]), rtol=1e-4)
    np.testing.assert_allclose(likelihood.noise**2, average([fit[1].noise ** 2 for fit in each]), rtol=1e-4)


def test_paper_on_labels_and_heavy_tails():
    rng, x, f = curve(12, 80, 6.0)
    labels = (f + 0.3 * rng.normal(size=80) > 0).astype(float)
    kernel, likelihood, report = ko.fit_hyperparameters(
        KEY, k.SquaredExponential(), lk.Bernoulli(), x, labels, method="paper"
    )
    assert len(report.restarts) == 2
    # Dirichlet classification (Milios et al. 2018): log-normal pseudo-observations with known variances.
    alpha = np.where(labels == 0, 1.01, 0.01)
    variance = np.log(1.0 / alpha + 1.0)
    value = max(
        exact_marginal(k.SquaredExponential(s, v), n, -3.0, x, np.log(alpha) - variance / 2, variance)
        for s in (0.3, 1.0, 2.0)
        for v in (1.0, 4.0, 10.0)
        for n in (0.1, 1.0)
    )
    assert report.restarts[0] > value
    assert likelihood.link == "logit"
    assert 0.1 < kernel.lengthscale < 5.0
    y = f + 0.2 * rng.standard_t(3.0, size=80)
    _, student, _ = ko.fit_hyperparameters(KEY, k.SquaredExponential(), lk.StudentT(), x, y, method="paper")
    assert 0.05 < student.scale < 0.4


# What can be wrong with the data.


def quick(x, y, likelihood=None, **options):
    likelihood = lk.Gaussian() if likelihood is None else likelihood
    return ko.fit_hyperparameters(KEY, k.SquaredExponential(), likelihood, x, y, num_restarts=0, **options)


def test_duplicated_rows_do_no_harm():
    rng, x, f = curve(13, 40, 5.0)
    x, f = np.repeat(x, 4, axis=0), np.repeat(f, 4)
    kernel, likelihood, report = quick(x, f + NOISE * rng.normal(size=160), num_inducing=100)
    assert len(report.inducing_points) == 40
    assert abs(likelihood.noise / NOISE - 1.0) < 0.25
    assert 0.5 < kernel.lengthscale < 2.0


def test_two_rows_and_a_constant_column_are_warned_of():
    with pytest.warns(HyperparameterWarning, match="2 rows are no more than the numbers to be learned"):
        kernel, likelihood, report = quick([[0.0], [1.0]], [0.0, 1.0])
    assert np.isfinite([kernel.lengthscale, kernel.variance, likelihood.noise]).all()
    assert report.warnings
    rng, x, f = curve(14, 60, 5.0)
    x = np.concatenate([x, np.full((60, 1), 3.0)], axis=1)
    with pytest.warns(HyperparameterWarning, match="Column 1 of x does not vary"):
        kernel, _, _ = quick(x, f + 0.1 * rng.normal(size=60), ard=True)
    assert np.isfinite(kernel.lengthscale).all()


def test_a_search_that_is_cut_short_says_so():
    rng, x, f = curve(15, 60, 5.0)
    with pytest.warns(HyperparameterWarning, match="did not converge in 1 iterations"):
        _, _, report = quick(x, f + 0.1 * rng.normal(size=60), max_iterations=1)
    assert not report.converged


def test_an_interrupted_search_returns_the_best_so_far(monkeypatch):
    from kosambi.hyperparameters import _evidence

    rng, x, f = curve(16, 60, 5.0)

    def interrupt(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(_evidence, "_main_search", interrupt)
    with pytest.warns(HyperparameterWarning, match="interrupted"):
        kernel, _, report = quick(x, f + 0.1 * rng.normal(size=60))
    assert not report.converged
    assert np.isfinite(kernel.lengthscale)


def test_evaluations_that_are_not_finite_are_counted_and_survived():
    from kosambi.hyperparameters._search import Record, minimise

    def objective(v):
        # Not defined beyond 2, where a first step of the search leads.
        return (np.nan, np.full(1, np.nan)) if v[0] > 2 else (float((v[0] - 1.5) ** 2), 2 * (v - 1.5))

    record = Record()
    found = minimise(objective, np.array([-50.0]), np.array([-100.0]), np.array([100.0]), 50, record)
    np.testing.assert_allclose(found.vector, 1.5, atol=1e-2)
    assert record.failures + len(record.values) >= found.iterations


def test_bad_input():
    x = np.linspace(0.0, 1.0, 8)[:, None]
    y = np.sin(6.0 * x[:, 0])
    with pytest.raises(InputError, match="All 8 observations are 2"):
        quick(x, np.full(8, 2.0))
    with pytest.raises(InputError, match=r"loss without a density.*StudentT"):
        quick(x, y, lk.Huber())
    with pytest.raises(InputError, match="loss without a density"):
        quick(x, y, lk.Custom(lambda y, f: (y - f) ** 2))
    with pytest.raises(InputError, match="one of evidence, paper"):
        quick(x, y, method="map")
    with pytest.raises(InputError, match="two rows of data"):
        quick(x[:1], y[:1])
    with pytest.raises(InputError, match="No column of `x` varies"):
        quick(np.ones((8, 2)), y)
    with pytest.raises(InputError, match="at most 8"):
        quick(x, y, num_inducing=9)
    with pytest.raises(InputError, match="without inducing points"):
        quick(x, y, method="paper", num_inducing=3)
    with pytest.raises(InputError, match="nothing to learn"):
        quick(x, y, freeze=["kernel", "likelihood"])
    with pytest.raises(InputError, match="num_restarts"):
        ko.fit_hyperparameters(KEY, k.Matern52(), lk.Gaussian(), x, y, num_restarts=-1)
    with pytest.raises(InputError, match="prior or a kernel"):
        ko.fit_hyperparameters(KEY, 3.0, lk.Gaussian(), x, y)
    with pytest.raises(InputError, match="likelihood"):
        ko.fit_hyperparameters(KEY, k.Matern52(), 0.1, x, y)
    with pytest.raises(InputError, match="8 rows"):
        quick(x, y[:5])
    with pytest.raises(InputError, match="no recipe"):
        ko.fit_hyperparameters(KEY, k.Matern52(), lk.HeteroscedasticGaussian(), x, y, method="paper")
    with pytest.raises(InputError, match="`num_restarts` must be at least 1"):
        quick(x, y, method="paper")
    with pytest.raises(NumericalError, match="not finite at any of"):
        quick(x, y, lk.Custom(lambda y, f: jax.numpy.log(y - 5.0) * f, is_density=True))


def test_data_without_faults_give_no_warning():
    rng, x, f = curve(17, 60, 5.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        quick(x, f + 0.1 * rng.normal(size=60))
