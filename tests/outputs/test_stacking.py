"""Cells as rows, a noise for each output, and what is refused."""

from __future__ import annotations

import pickle

import jax
import numpy as np
import pytest
from scipy import stats

import kosambi as ko

k = ko.kernels
RNG = np.random.default_rng(2)
X = RNG.uniform(-2.0, 2.0, size=(30, 1))
F = np.sin(2.0 * X[:, 0])
Y = np.column_stack([F, -2.0 * F]) + RNG.normal(size=(30, 2)) * [0.05, 0.5]
KERNEL = k.Coregionalization([[1.0], [-1.0]], [0.1, 0.1]) * k.Matern52(active_dims=[0])


def test_noise_of_each_output_and_the_sign_between_outputs_are_learned():
    gappy = Y.copy()
    gappy[::3, 1] = np.nan
    options = {"freeze": "kernel.1.variance", "num_restarts": 0}
    kernel, gaussian, report = ko.fit_hyperparameters(
        jax.random.key(0), KERNEL, ko.likelihoods.Gaussian(0.2), X, gappy, **options
    )
    assert report.converged
    assert report.num_rows == 50
    assert report.parameters["likelihood.noise"].shape == (2,)
    assert 0.02 < gaussian.noise[0] < 0.1 < 0.3 < gaussian.noise[1] < 0.8
    covariance = kernel.kernels[0].output_covariance
    assert covariance[0, 1] / np.sqrt(covariance[0, 0] * covariance[1, 1]) < -0.8


def test_draws_of_the_prior_have_the_joint_law_of_the_outputs():
    kernel = k.Coregionalization([[1.0, 0.2], [-0.8, 0.5]], [0.3, 0.6]) * k.Matern52(0.7, active_dims=[0])
    cells = ko.outputs.every_cell([[0.1], [0.5]], 2)
    values = np.asarray(
        ko.GaussianProcess(kernel).draw(jax.random.key(3), 1500, num_columns=2, num_features=128)(cells)
    )
    exact = np.asarray(kernel(cells))
    white = np.linalg.solve(np.linalg.cholesky(exact), values.T)
    assert min(stats.kstest(row, stats.norm.cdf).pvalue for row in white) > 1e-4
    products = values.T @ values / 1500
    # Standard errors of a covariance of normal numbers.
    error = np.sqrt((exact**2 + np.outer(np.diag(exact), np.diag(exact))) / 1500)
    assert np.max(np.abs(products - exact) / error) < 4.5
    independent = exact * (cells[:, None, 1] == cells[None, :, 1])
    assert np.max(np.abs(products - independent) / error) > 12.0


def test_a_likelihood_with_groups_is_that_of_its_rows():
    grouped = ko.likelihoods.Gaussian([0.1, 0.4], groups=[1, 0, 1])
    plain = ko.likelihoods.Gaussian([0.4, 0.1, 0.4])
    y, f = np.array([0.1, 0.2, 0.3]), np.array([0.0, 0.1, 0.5])
    np.testing.assert_array_equal(grouped.log_density(y, f), plain.log_density(y, f))
    np.testing.assert_array_equal(
        grouped.log_predictive_density(y, f, [0.1, 0.2, 0.3]), plain.log_predictive_density(y, f, [0.1, 0.2, 0.3])
    )
    np.testing.assert_array_equal(grouped.at_rows([0, 1]).row_noise, [0.4, 0.1])
    assert grouped.supports == {}
    assert plain.supports == {"noise": "fixed"}
    copy = pickle.loads(pickle.dumps(grouped))
    assert copy.groups.dtype == np.int64
    assert copy.row_noise.tobytes() == grouped.row_noise.tobytes()


def test_files_hold_the_model_and_its_predictions(tmp_path):
    posterior = ko.infer(jax.random.key(0), KERNEL, ko.likelihoods.Gaussian([0.1, 0.5]), X, Y, num_inducing=12)
    ko.save(posterior, tmp_path / "posterior")
    again = ko.load(tmp_path / "posterior")
    assert again.likelihood.groups.tolist() == posterior.likelihood.groups.tolist()
    one, other = (ko.outputs.predict(each, X[:3]).covariance for each in (posterior, again))
    assert one.tobytes() == other.tobytes()


def test_points_and_weights_of_stacked_rows():
    """Inducing points among cells, and rows that count twice, as copies do."""
    gaussian, few = ko.likelihoods.Gaussian([0.1, 0.5]), slice(0, 10)
    twice = ko.infer(jax.random.key(0), KERNEL, gaussian, X[few], Y[few], num_inducing="all", weights=np.full(10, 2.0))
    copied = np.concatenate([X[few], X[few]]), np.concatenate([Y[few], Y[few]])
    copies = ko.infer(jax.random.key(0), KERNEL, gaussian, *copied, num_inducing="all")
    one, other = (ko.outputs.predict(each, X[:4]) for each in (twice, copies))
    np.testing.assert_allclose(one.mean, other.mean, rtol=1e-7)
    np.testing.assert_allclose(one.covariance, other.covariance, rtol=1e-7)


def test_bad_input_is_refused_with_the_remedy():
    gaussian, key = ko.likelihoods.Gaussian([0.1, 0.5]), jax.random.key(0)
    with pytest.raises(ko.errors.InputError, match="holds the number of the output"):
        ko.infer(key, KERNEL, ko.likelihoods.Gaussian(0.1), np.column_stack([X, np.full(30, 2.0)]), Y[:, 0])
    with pytest.raises(ko.errors.InputError, match="not for `y` of shape"):
        ko.infer(key, KERNEL, gaussian, X, Y, num_neighbors=5)
    with pytest.raises(ko.errors.InputError, match="2 outputs, and `Gaussian"):
        ko.infer(key, KERNEL, ko.likelihoods.Gaussian([0.1, 0.2, 0.3]), X, Y)
    with pytest.raises(ko.errors.InputError, match="one latent function"):
        ko.infer(key, KERNEL, ko.likelihoods.HeteroscedasticGaussian(), X, Y)
    with pytest.raises(ko.errors.InputError, match="NaN in every cell"):
        ko.outputs.stack(X, np.full((30, 2), np.nan))
    with pytest.raises(ko.errors.InputError, match="infinite value in row 0"):
        ko.outputs.stack([[0.0]], [[np.inf, 1.0]])
    with pytest.raises(ko.errors.InputError, match="place of its noise"):
        ko.likelihoods.Gaussian([0.1, 0.2], groups=[0, 2])
    with pytest.raises(ko.errors.InputError, match="shape \\(P, R\\)"):
        k.Coregionalization([1.0, 2.0])
    with pytest.raises(ko.errors.InputError, match="has one noise, and no groups"):
        ko.fit_hyperparameters(key, KERNEL, gaussian, X, Y, "paper")
    posterior = ko.infer(key, k.Matern52(), ko.likelihoods.Gaussian(0.1), X[:5], Y[:5, 0], num_inducing=3)
    with pytest.raises(ko.errors.InputError, match="Coregionalization` on the last column"):
        ko.outputs.predict(posterior, X)


@pytest.mark.slow
# Loadings and their opposites say the same, and chains do not pass between them.
@pytest.mark.filterwarnings("ignore::kosambi.errors.HyperparameterWarning")
def test_averages_over_hyperparameters_are_mixtures_of_joint_distributions():
    gaussian = ko.likelihoods.Gaussian([0.1, 0.5])
    options = {"freeze": "kernel.1.variance", "num_restarts": 0, "num_draws": 4}
    report = ko.fit_hyperparameters(jax.random.key(0), KERNEL, gaussian, X, Y, **options)[2]
    averaged = ko.average(jax.random.key(1), report.draws, X, Y, num_particles=8)
    joint, new = ko.outputs.predict(averaged, X[:3]), Y[:3]
    parts = [ko.outputs.predict(part, X[:3]) for part in averaged.components]
    np.testing.assert_allclose(joint.mean, np.mean([part.mean for part in parts], axis=0), rtol=1e-10)
    every = np.stack([part.log_density(new) for part in parts])
    np.testing.assert_allclose(joint.log_density(new), np.logaddexp.reduce(every, axis=0) - np.log(4), rtol=1e-9)
    within = np.mean([part.covariance for part in parts], axis=0)
    away = np.stack([part.mean for part in parts]) - joint.mean
    np.testing.assert_allclose(joint.covariance, within + np.einsum("knp,knq->npq", away, away) / 4, rtol=1e-9)
    np.testing.assert_allclose(joint.in_units(0.0, 1.0).interval()[0], joint.interval()[0], rtol=1e-6)
