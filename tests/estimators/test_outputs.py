"""The regressor with y of shape (n, P): shapes, units, missing cells, files, and what is refused."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy import stats
from sklearn.base import clone

import kosambi as ko
from kosambi import ProjectedLangevinRegressor

RNG = np.random.default_rng(4)
X = RNG.uniform(-2.0, 2.0, size=(40, 2)) * [1.0, 100.0]
F = np.sin(1.5 * X[:, 0])
# In units that differ by five powers of ten; the second output is known where the first is not.
FULL = np.column_stack([1000.0 + 20.0 * F, 2e-3 * F]) + RNG.normal(size=(40, 2)) * [1.0, 1e-4]
Y = FULL.copy()
Y[(X[:, 0] > 0.0) & (np.arange(40) % 4 > 0), 0] = np.nan
Y[::5, 1] = np.nan
NEW = np.column_stack([np.linspace(-1.5, 1.8, 8), np.zeros(8)])
TRUTH = np.column_stack([1000.0 + 20.0 * np.sin(1.5 * NEW[:, 0]), 2e-3 * np.sin(1.5 * NEW[:, 0])])
KERNEL = ko.kernels.Matern52([1.0, 5.0])


@pytest.fixture(scope="module")
def model():
    return ProjectedLangevinRegressor("gaussian", "matern52").fit(X, Y)


def test_predictions_have_an_axis_for_the_outputs_in_their_units(model):
    mean, sd = model.predict(NEW, return_std=True)
    assert model.n_outputs_ == 2
    assert mean.shape == sd.shape == (8, 2)
    assert np.all(np.abs(mean - TRUTH) < 4.0 * sd)
    assert np.all(sd < [8.0, 8e-4])
    same, covariance = model.predict(NEW, return_cov=True)
    np.testing.assert_array_equal(same, mean)
    np.testing.assert_allclose(np.sqrt(np.einsum("npp->np", covariance)), sd)
    lower, upper = model.predict_interval(NEW, 0.9)
    np.testing.assert_allclose(0.5 * (upper - lower), 1.6448536 * sd, rtol=1e-6)
    assert model.predict_quantile(NEW, [0.1, 0.5, 0.9]).shape == (3, 8, 2)
    assert model.predict_distribution(NEW).num_outputs == 2
    assert model.score(NEW, TRUTH) > 0.95


def test_joint_log_density_is_normal_and_leaves_missing_cells_out(model):
    mean, covariance = model.predict(NEW, return_cov=True)
    y = TRUTH.copy()
    y[0, 1] = np.nan
    density = model.predict_log_density(NEW, y)
    assert density.shape == (8,)
    np.testing.assert_allclose(density[0], stats.norm(mean[0, 0], np.sqrt(covariance[0, 0, 0])).logpdf(y[0, 0]))
    unit = np.sqrt(np.diag(covariance[3]))
    scaled = stats.multivariate_normal(np.zeros(2), covariance[3] / np.outer(unit, unit))
    np.testing.assert_allclose(density[3], scaled.logpdf((y[3] - mean[3]) / unit) - np.log(unit).sum(), rtol=1e-9)


@pytest.mark.slow
def test_draws_of_observations_are_correlated_between_outputs(model):
    drawn = model.sample_y(NEW[-2:], n_samples=1500)
    assert drawn.shape == (2, 2, 1500)
    assert model.sample_functions(NEW, 7).shape == (8, 2, 7)
    mean, covariance = model.predict(NEW[-2:], return_cov=True)
    values, unit = drawn[0].T, np.sqrt(np.diag(covariance[0]))
    together = (values - mean[0]) / unit
    expected = covariance[0] / np.outer(unit, unit)
    for direction in ([1.0, 1.0], [1.0, -1.0], [1.0, 0.0]):
        d = np.array(direction)
        # 100 particles, each of which occurs 15 times with other noise and residuals.
        ratio = np.var(together @ d) / (d @ expected @ d)
        assert 0.55 < ratio < 1.6


def test_files_and_pickle_keep_every_digit(model, tmp_path):
    ko.save(model, tmp_path / "model")
    for again in (ko.load(tmp_path / "model"), pickle.loads(pickle.dumps(model))):
        assert again.n_outputs_ == 2
        assert again.predict(NEW).tobytes() == model.predict(NEW).tobytes()
        assert again.predict_log_density(NEW, TRUTH).tobytes() == model.predict_log_density(NEW, TRUTH).tobytes()


def test_the_order_of_rows_does_not_matter_and_neither_does_a_copy_of_weight_zero():
    model = ProjectedLangevinRegressor(kernel=KERNEL, kernel_units="standardized", hyperparameters=None)
    first = clone(model).fit(X, Y).predict(NEW)
    order = RNG.permutation(40)
    np.testing.assert_allclose(clone(model).fit(X[order], Y[order]).predict(NEW), first, rtol=1e-9)
    weights = np.concatenate([np.ones(40), np.zeros(3)])
    more = clone(model).fit(np.concatenate([X, X[:3]]), np.concatenate([Y, Y[:3] + 99.0]), weights)
    np.testing.assert_allclose(more.predict(NEW), first, rtol=1e-9)
    one = clone(model).fit(X, FULL[:, 0])
    assert one.n_outputs_ == 1
    assert more.fit(X, FULL[:, 0]).predict(NEW).tobytes() == one.predict(NEW).tobytes()
    assert not hasattr(more, "y_mean_")


def test_bad_input_is_refused_with_the_remedy(model):
    cases = {
        "need `likelihood=": ProjectedLangevinRegressor("student_t"),
        "is for one output": ProjectedLangevinRegressor(hyperparameters="average"),
        "not for `y` of shape": ProjectedLangevinRegressor(
            n_neighbors=5, kernel=KERNEL, kernel_units="standardized", hyperparameters=None
        ),
        "is for 3 outputs": ProjectedLangevinRegressor(
            kernel=ko.kernels.Coregionalization(np.eye(3)) * ko.kernels.Matern52(active_dims=[0, 1]),
            kernel_units="standardized",
        ),
        "`kernel` is one of standardised columns and outputs": ProjectedLangevinRegressor(kernel=KERNEL),
        "`standardize=False` is for one output": ProjectedLangevinRegressor(standardize=False),
        "`tie` and `priors` are for one output": ProjectedLangevinRegressor(freeze="likelihood"),
    }
    for text, estimator in cases.items():
        with pytest.raises(ko.errors.InputError, match=text):
            estimator.fit(X, Y)
    with pytest.raises(ko.errors.InputError, match="no observation of output 1"):
        ProjectedLangevinRegressor().fit(X, np.column_stack([FULL[:, 0], np.full(40, np.nan)]))
    with pytest.raises(ko.errors.InputError, match="`partial_fit` is for one output"):
        model.partial_fit(X, Y)
    with pytest.raises(ko.errors.InputError, match="`checkpoint` is for one output"):
        ProjectedLangevinRegressor().fit(X, Y, checkpoint="folder")
    with pytest.raises(ko.errors.InputError, match="is of one output"):
        ko.plots.posterior(model)
    with pytest.raises(ko.errors.InputError, match="is of one output"):
        ko.plots.partial_effect(model, X, 0)
    with pytest.raises(ValueError, match="infinity"):
        ProjectedLangevinRegressor().fit(X, np.where(np.isnan(Y), np.inf, Y))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        ProjectedLangevinRegressor().fit(X[:-1], Y)


@pytest.mark.slow
# Rotated loadings say the same, so that a search ends with slopes along them.
@pytest.mark.filterwarnings("ignore::kosambi.errors.HyperparameterWarning")
def test_many_outputs_have_one_kernel_and_correlations_of_their_own():
    loadings = RNG.normal(size=(6, 2))
    g = np.column_stack([np.sin(X[:, 0]), np.cos(2.0 * X[:, 0])])
    y = g @ loadings.T + 0.1 * RNG.normal(size=(40, 6))
    model = ProjectedLangevinRegressor(hyperparameters="evidence").fit(X, y)
    (term,) = ko.kernels.coregionalizations(model.posterior_.prior.kernel)
    assert term.loadings.shape == (6, 2)
    # Less than the noise.
    assert np.sqrt(np.mean(np.square(model.predict(X) - g @ loadings.T))) < 0.09


@pytest.mark.slow
def test_an_output_that_is_known_elsewhere_is_predicted_better_than_alone():
    gappy = FULL.copy()
    gappy[X[:, 0] > 0.2, 0] = np.nan
    seen, right = ~np.isnan(gappy[:, 0]), NEW[:, 0] > 0.5
    together = ProjectedLangevinRegressor("gaussian", "matern52").fit(X, gappy).predict(NEW[right])[:, 0]
    alone = ProjectedLangevinRegressor("gaussian", "matern52", hyperparameters="evidence").fit(X[seen], FULL[seen, 0])
    errors = [np.sqrt(np.mean(np.square(found - TRUTH[right, 0]))) for found in (together, alone.predict(NEW[right]))]
    assert errors[0] < 0.5 * errors[1]
