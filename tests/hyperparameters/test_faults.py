from __future__ import annotations

import warnings

import jax
import numpy as np
import pytest
from tests.hyperparameters.curves import KEY, NOISE, curve

import kosambi as ko
from kosambi.errors import HyperparameterWarning, InputError, NumericalError

k, lk = ko.kernels, ko.likelihoods


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
