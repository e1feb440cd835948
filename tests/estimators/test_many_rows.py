"""Rows that are too many for enough points, rows that are copies, and the last word of the rows themselves."""

import jax
import numpy as np
import pytest
import scipy.stats

import kosambi as ko
from kosambi import ProjectedLangevinRegressor
from kosambi.errors import DataWarning
from kosambi.estimators._doubt import _left_out_score, worse_than_constant
from kosambi.learning import sizes


def waves(num_rows, seed=0, noise=0.3):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-3.0, 3.0, (num_rows, 2))
    return x, np.sin(2.0 * x[:, 0]) + 0.5 * x[:, 1] + noise * rng.normal(size=num_rows)


@pytest.mark.slow
def test_points_are_spread_evenly_where_no_number_is_enough(monkeypatch):
    monkeypatch.setattr(sizes, "MANY_ROWS", 500)
    monkeypatch.setattr(sizes, "WORK", 1e6)
    rng = np.random.default_rng(1)
    # In eight columns no number of points explains all.
    x = rng.uniform(-2.0, 2.0, (900, 8))
    y = np.sin(2.0 * x[:, 0]) + 0.5 * x[:, 1] + 0.3 * rng.normal(size=900)
    rough = ko.kernels.Matern12(np.full(8, 2.0))
    model = ProjectedLangevinRegressor(kernel=rough, hyperparameters=None, n_samples=20).fit(x[:600], y[:600])
    assert model.posterior_.selection is None
    assert model.posterior_.basis.report.num_inducing == sizes.affordable(600, ko.likelihoods.Gaussian()) == 512
    residual = y[600:] - model.predict(x[600:])
    assert np.sqrt(np.mean(residual**2)) < 0.9 * np.std(y)
    # In one column few are enough, however many rows there are.
    x, y = waves(600)
    model = ProjectedLangevinRegressor(n_samples=20, hyperparameters="evidence").fit(
        x[:, :1], np.sin(2.0 * x[:, 0]) + 0.1 * y
    )
    assert model.posterior_.selection is not None


@pytest.mark.slow
def test_copies_do_not_say_that_there_is_no_noise():
    x, y = waves(120)
    once = ProjectedLangevinRegressor(n_samples=20, hyperparameters="evidence").fit(x, y)
    twice = ProjectedLangevinRegressor(n_samples=20, hyperparameters="evidence").fit(
        np.concatenate([x, x]), np.concatenate([y, y])
    )
    noise = [float(model.posterior_.likelihood.noise) for model in (once, twice)]
    assert noise[1] == pytest.approx(noise[0], rel=1e-6)
    # Copies still count twice for f.
    assert np.mean(twice.predict_distribution(x).variance) < np.mean(once.predict_distribution(x).variance)


def test_a_fit_that_is_worse_than_a_constant_is_told():
    x, y = waves(400)
    prior, few = ko.GaussianProcess(ko.kernels.Matern52(2.0)), x[::20]
    good, bad = (
        ko.infer(jax.random.key(0), prior, ko.likelihoods.Gaussian(noise), x, y, inducing_points=few)
        for noise in (0.3, 1e-3)
    )
    assert worse_than_constant(good) is None
    text = worse_than_constant(bad)
    assert text is not None
    assert "by a constant distribution" in text
    # With a point for each row there is nothing that they could tell.
    every = ko.infer(jax.random.key(0), prior, ko.likelihoods.Gaussian(1e-3), x, y, inducing_points=x[:200])
    assert worse_than_constant(every) is None
    labels = (y > 0).astype(float)
    calm = ko.infer(jax.random.key(0), prior, ko.likelihoods.Bernoulli(), x, labels, inducing_points=few)
    assert worse_than_constant(calm) is None


def test_all_rows_are_scored_as_they_are_and_not_as_fewer_points():
    """With next to no noise the points that were tried before predict far worse than all rows do."""
    rng = np.random.default_rng(0)
    x = rng.uniform(0.0, 1.0, (600, 3))
    prior, noise = ko.GaussianProcess(ko.kernels.Matern52(0.5)), 1e-3
    gram = prior.covariance(x) + noise**2 * np.eye(600)
    y = np.linalg.cholesky(gram) @ rng.normal(size=600)
    posterior = ko.infer(jax.random.key(0), prior, ko.likelihoods.Gaussian(noise), x, y, num_particles=8)
    assert posterior.selection is not None
    assert posterior.selection.reason == "full"
    inverse = np.linalg.inv(gram)
    level = np.diag(inverse)
    exact = np.mean(scipy.stats.norm.logpdf(inverse @ y / level, 0.0, 1.0 / np.sqrt(level)))
    assert _left_out_score(posterior) == pytest.approx(exact, abs=0.02)
    assert worse_than_constant(posterior) is None


def test_one_bad_cell_does_not_ruin_a_fit_and_is_named():
    rng = np.random.default_rng(0)
    x, new = rng.normal(size=(200, 2)), rng.normal(size=(300, 2))
    y = np.sin(2.0 * x[:, 0]) + 0.05 * rng.normal(size=200)
    x[17, 0] = -999.0
    with pytest.warns(DataWarning, match="Column 0 has -999 in row 17"):
        model = ProjectedLangevinRegressor(n_samples=20, hyperparameters="evidence").fit(x, y)
    truth = np.sin(2.0 * new[:, 0])
    assert 1.0 - np.mean((model.predict(new) - truth) ** 2) / np.var(truth) > 0.98
