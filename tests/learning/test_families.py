"""The family of a kernel by evidence: one kernel for all three, the choice, and what is returned."""

import jax
import numpy as np
import pytest
import scipy.linalg

import kosambi as ko
from kosambi.errors import InputError
from kosambi.learning.families import FAMILIES, AnyFamily
from tests.cases import cases

KEY = jax.random.key(0)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_kernel_of_any_family_is_each_of_them(family):
    kernel = family([0.7, 1.9], 1.3)
    x = np.random.default_rng(0).normal(size=(6, 2))
    open_ended = AnyFamily.of(kernel)
    np.testing.assert_allclose(open_ended(x, x), kernel(x, x), rtol=1e-14)
    concrete = open_ended.concrete()
    assert type(concrete) is family
    np.testing.assert_array_equal(concrete.lengthscale, kernel.lengthscale)
    assert concrete.active_dims == kernel.active_dims


def drawn(family, num_rows=400, noise=0.03):
    rng = np.random.default_rng(5)
    x = rng.uniform(0.0, 8.0, (num_rows, 1))
    gram = np.asarray(family(1.0)(x, x)) + 1e-10 * np.eye(num_rows)
    return x, scipy.linalg.cholesky(gram, lower=True) @ rng.normal(size=num_rows) + noise * rng.normal(size=num_rows)


@pytest.mark.parametrize("family", cases(["Matern32", "SquaredExponential"], quick=["Matern32"]))
def test_the_family_that_made_the_data_is_found(family):
    family = getattr(ko.kernels, family)
    x, y = drawn(family)
    kernel, likelihood, report = ko.fit_hyperparameters(
        KEY, ko.kernels.Matern52(), ko.likelihoods.Gaussian(), x, y, choose_family=True, num_restarts=0
    )
    assert type(kernel) is family
    assert abs(float(likelihood.noise) / 0.03 - 1.0) < 0.3
    assert set(report.parameters) == {"kernel.lengthscale", "kernel.variance", "mean", "likelihood.noise"}
    # What was learned is what the report says.
    assert float(report.parameters["kernel.lengthscale"]) == float(kernel.lengthscale)
    exact = float(ko.log_evidence(ko.GaussianProcess(kernel), likelihood, x, y))
    assert report.log_evidence == pytest.approx(exact, abs=1e-6)


@pytest.mark.slow
def test_a_smooth_function_of_many_columns_is_not_taken_for_a_rough_one():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(250, 6))
    gram = np.asarray(ko.kernels.SquaredExponential(2.0)(x)) + 1e-9 * np.eye(250)
    y = scipy.linalg.cholesky(gram, lower=True) @ rng.normal(size=250) + 0.02 * rng.normal(size=250)
    given = ko.kernels.Matern52(np.full(6, 3.0)), ko.likelihoods.Gaussian(0.3)
    kernel, _, right = ko.fit_hyperparameters(KEY, *given, x, y, choose_family=True, num_restarts=0)
    assert isinstance(kernel, ko.kernels.SquaredExponential)
    _, _, rough = ko.fit_hyperparameters(KEY, *given, x, y, num_restarts=0)
    assert rough.log_evidence < right.log_evidence - 10.0


def test_a_kernel_that_is_given_stays_and_only_families_can_be_chosen_from():
    x, y = drawn(ko.kernels.Matern32, 60)
    learned, _, _ = ko.fit_hyperparameters(
        KEY, ko.kernels.SquaredExponential(), ko.likelihoods.Gaussian(), x, y, num_restarts=0
    )
    assert type(learned) is ko.kernels.SquaredExponential
    with pytest.raises(InputError, match=r"the kernel must be one of them\. Got `Periodic`"):
        ko.fit_hyperparameters(KEY, ko.kernels.Periodic(), ko.likelihoods.Gaussian(), x, y, choose_family=True)


@pytest.mark.slow
def test_estimators_choose_unless_they_are_told():
    x, y = drawn(ko.kernels.Matern32, 200)
    chosen = ko.ProjectedLangevinRegressor(n_samples=10, hyperparameters="evidence").fit(x, y)
    told = ko.ProjectedLangevinRegressor(kernel="rbf", n_samples=10, hyperparameters="evidence").fit(x, y)
    assert isinstance(chosen.posterior_.prior.kernel, ko.kernels.Matern32)
    assert isinstance(told.posterior_.prior.kernel, ko.kernels.SquaredExponential)
    with pytest.raises(InputError, match='one of "matern32", "matern52"'):
        ko.ProjectedLangevinRegressor(kernel="cubic").fit(x, y)
