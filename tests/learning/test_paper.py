from __future__ import annotations

import numpy as np
import scipy.optimize
import scipy.stats

import kosambi as ko
from tests.learning.curves import KEY, curve

k, lk = ko.kernels, ko.likelihoods


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
    from kosambi._core.precision import host_generator
    from kosambi.learning import paper

    subsets = paper._subsets(host_generator(KEY), x, paper.Settings(40, 3))
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
    _, student, report = ko.fit_hyperparameters(KEY, k.SquaredExponential(), lk.StudentT(), x, y, method="paper")
    assert 0.05 < student.scale < 0.4
    _, gaussian, _ = ko.fit_hyperparameters(KEY, k.SquaredExponential(), lk.Gaussian(), x, y, method="paper")
    np.testing.assert_allclose(report.parameters["exact.noise"], gaussian.noise, rtol=1e-6)
