"""Posteriors averaged over hyperparameters: mixtures against SciPy, functions, files, estimators."""

from __future__ import annotations

import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import kosambi as ko

X = np.linspace(0.0, 4.0, 24)[:, None]
Y = np.sin(2.0 * X[:, 0]) + 0.2 * np.random.default_rng(0).normal(size=24)
NEW = np.array([[0.3], [2.2], [6.0]])


@pytest.fixture(scope="module")
def averaged():
    kernel, gaussian = ko.kernels.Matern52(), ko.likelihoods.Gaussian()
    draws = ko.fit_hyperparameters(jax.random.key(0), kernel, gaussian, X, Y, num_draws=6)[2].draws
    return ko.average(jax.random.key(1), draws, X, Y, num_particles=30)


def exact(prior, likelihood):
    """Mean and deviation of observations with one model, by dense algebra."""
    gram = np.asarray(prior.kernel(X, X)) + float(likelihood.noise) ** 2 * np.eye(len(X))
    cross = np.asarray(prior.kernel(NEW, X))
    variance = np.diag(np.asarray(prior.kernel(NEW, NEW))) - np.sum(cross * np.linalg.solve(gram, cross.T).T, axis=1)
    return cross @ np.linalg.solve(gram, Y), np.sqrt(variance + float(likelihood.noise) ** 2)


def test_predictions_are_the_mixture_of_exact_processes(averaged):
    draws, prediction = averaged.hyperparameters, averaged.predict(NEW)
    mean, deviation = np.array([exact(*model) for model in zip(draws.priors, draws.likelihoods, strict=True)]).swapaxes(
        0, 1
    )
    np.testing.assert_allclose(prediction.observation_mean, mean.mean(axis=0), atol=1e-6)
    total = np.mean(np.square(deviation), axis=0) + np.var(mean, axis=0)
    np.testing.assert_allclose(prediction.observation_variance, total, rtol=1e-6)
    y = np.array([0.5, -1.0, 0.2])
    density = np.log(np.mean(scipy.stats.norm.pdf(y, mean, deviation), axis=0))
    np.testing.assert_allclose(prediction.log_density(y), density, rtol=1e-6)
    np.testing.assert_allclose(averaged.log_predictive_density(NEW, y), density, rtol=1e-6)
    lower, upper = prediction.interval(0.9)
    for end, level in ((lower, 0.05), (upper, 0.95)):
        np.testing.assert_allclose(np.mean(scipy.stats.norm.cdf(end, mean, deviation), axis=0), level, atol=1e-6)
    # Not that of the most probable hyperparameters.
    alone = averaged.point.predict(NEW)
    assert np.max(np.abs(alone.observation_variance / prediction.observation_variance - 1.0)) > 0.01


def test_the_score_of_a_mixture_is_its_integral(averaged):
    prediction, y = averaged.predict(NEW), np.array([0.5, -1.0, 0.2])
    grid = np.linspace(-12.0, 12.0, 40_001)
    below = np.array([prediction._cdf(grid, np.full(len(grid), n)) for n in range(3)])
    expected = np.trapezoid(np.square(below - (grid >= y[:, None])), grid, axis=1)
    np.testing.assert_allclose(ko.calibration.crps(prediction, y), expected, rtol=2e-3)
    wider = prediction.with_latent_factor(4.0)
    np.testing.assert_allclose(wider.variance, 4.0 * prediction.variance)
    np.testing.assert_allclose(wider.mean, prediction.mean)


def test_functions_come_from_all_models_and_can_be_chosen_from(averaged):
    draws = averaged.functions(jax.random.key(2))
    values = draws(NEW)
    assert values.shape == (30, 3)
    assert len(draws) == averaged.num_particles == 30
    for chosen in (slice(4, 9), [7, 3, 28], 5):
        np.testing.assert_allclose(draws[chosen](NEW), np.atleast_2d(values[chosen]), atol=1e-12)
    np.testing.assert_allclose(draws[[7, 3, 28]][1:](NEW), values[[3, 28]], atol=1e-12)
    # Draw j is one of model j mod 6, whose functions are those of its own key.
    own = averaged.components[2].functions(jax.random.split(jax.random.key(2), 6)[2])
    np.testing.assert_allclose(values[2::6], own(NEW), atol=1e-12)
    with jax.enable_x64(True):
        np.testing.assert_allclose(jax.jit(lambda x: draws(x))(NEW), values, atol=1e-10)
        slope = jax.grad(lambda t: draws[3](t.reshape(1, 1))[0, 0])(np.asarray(0.3))
    step = 1e-5
    difference = (draws[3]([[0.3 + step]]) - draws[3]([[0.3 - step]])) / (2.0 * step)
    assert float(slope) == pytest.approx(float(difference[0, 0]), rel=1e-5)


def test_functions_have_the_moments_of_predictions(averaged):
    many = ko.average(jax.random.key(5), averaged.hyperparameters, X, Y, num_particles=6000, point=averaged.point)
    values = many.functions(jax.random.key(6))(NEW)
    prediction = many.predict(NEW)
    error = prediction.standard_deviation / np.sqrt(6000)
    assert np.all(np.abs(values.mean(axis=0) - prediction.mean) < 4.0 * error)
    ratio = np.var(values, axis=0) / prediction.variance
    assert np.all(np.abs(ratio - 1.0) < 4.0 * np.sqrt(3.0 / 6000))
    # The same test sees that the most probable hyperparameters have less variance far from the data.
    alone = averaged.point.predict(NEW).variance
    assert np.any(np.abs(np.var(values, axis=0) / alone - 1.0) > 4.0 * np.sqrt(3.0 / 6000))


def test_observations_have_the_noise_of_their_own_model(averaged):
    noise = np.array([float(model.noise) for model in averaged.hyperparameters.likelihoods])
    f = np.zeros((60, 4000))
    drawn = averaged.draw_observations(jax.random.key(3), f, np.arange(60))
    np.testing.assert_allclose(drawn.std(axis=1), noise[np.arange(60) % 6], rtol=0.06)


def test_what_an_average_says_of_itself(averaged):
    assert "averaged over 6 draws" in repr(averaged)
    assert averaged.report.converged
    assert averaged.certificate().divergence >= 0.0
    assert np.isfinite(averaged.point.log_evidence.value)
    few = lambda: averaged.some([0])
    for call in (
        lambda: averaged.log_evidence,
        averaged.by_mode,
        averaged.modes,
        few,
        lambda: averaged.reweighted(jax.random.key(0)),
    ):
        with pytest.raises(ko.errors.InputError, match=r"posterior\.point"):
            call()


def test_files_and_pickles_keep_every_bit(averaged, tmp_path):
    averaged.save(tmp_path / "a.kosambi")
    again, other = ko.load(tmp_path / "a.kosambi"), pickle.loads(pickle.dumps(averaged))
    for copy in (again, other):
        assert copy.predict(NEW).mean.tobytes() == averaged.predict(NEW).mean.tobytes()
        assert copy.functions(jax.random.key(4))(NEW).tobytes() == averaged.functions(jax.random.key(4))(NEW).tobytes()
        assert copy.hyperparameters.values["likelihood.noise"].tobytes() == (
            averaged.hyperparameters.values["likelihood.noise"].tobytes()
        )
    # The data are held once.
    assert all(part.target.x is averaged.target.x for part in averaged.components)
    assert all(part.target.x is again.target.x for part in again.components)
    draws = averaged.functions(jax.random.key(4))
    ko.save(draws, tmp_path / "d.kosambi")
    assert ko.load(tmp_path / "d.kosambi")(NEW).tobytes() == draws(NEW).tobytes()


def test_arviz_has_the_hyperparameters_of_every_draw(averaged):
    pytest.importorskip("arviz")
    posterior = averaged.to_arviz()["posterior"]
    noise = np.asarray(posterior["likelihood.noise"])
    assert noise.shape == posterior["w"].shape[:2]
    np.testing.assert_array_equal(np.unique(noise), np.unique(averaged.hyperparameters.values["likelihood.noise"]))


def test_estimators_average_where_rows_are_few():
    model = ko.ProjectedLangevinRegressor(n_samples=40, kernel="matern52").fit(X, Y)
    assert isinstance(model.posterior_, ko.AveragedPosterior)
    assert len(model.fit_report_.draws) == 20
    alone = ko.ProjectedLangevinRegressor(n_samples=40, kernel="matern52", hyperparameters="evidence").fit(X, Y)
    assert not isinstance(alone.posterior_, ko.AveragedPosterior)
    # The most probable hyperparameters are the same.
    np.testing.assert_allclose(model.posterior_.point.predict(X).mean, alone.posterior_.predict(X).mean)
    assert model.predict(NEW, return_std=True)[1][2] > alone.predict(NEW, return_std=True)[1][2]
    assert model.sample_y(NEW, 25).shape == (3, 25)
    # One function after the other is of another model, and is the function that its number says.
    values, numbers = model._functions(model.transform_inputs(NEW), 6, jax.random.key(0))
    assert len(set(numbers % 20)) == 6
    every, order = model._functions(model.transform_inputs(NEW), 40, jax.random.key(0))
    assert not np.array_equal(order, np.arange(40))
    np.testing.assert_allclose(values, every[[list(order).index(number) for number in numbers]], atol=1e-12)
    covariance = model.predict(NEW, return_cov=True)[1]
    np.testing.assert_allclose(np.sqrt(np.diag(covariance)), model.predict(NEW, return_std=True)[1])
    # Off the diagonal there is no noise: the covariance is that of functions drawn.
    drawn = np.cov(model.sample_functions(NEW, 400), bias=True)
    error = np.sqrt((drawn[0, 0] * drawn[1, 1] + drawn[0, 1] ** 2) / 100)
    assert abs(drawn[0, 1] - covariance[0, 1]) < 4.0 * error
    # In the units of y, as the posterior is.
    noises = [float(part.likelihood.noise) for part in model.posterior_.components]
    np.testing.assert_allclose(model.posterior_.hyperparameters.values["likelihood.noise"], noises)
    picture = ko.plots.hyperparameters(model.posterior_.hyperparameters)
    assert picture.get_xlabel().startswith("median")
    assert len(ko.plots.hyperparameter_pairs(model.posterior_.hyperparameters).axes) == 9


@pytest.mark.slow
def test_kernels_without_a_variance_can_be_averaged_over():
    class Bell(ko.kernels.AbstractKernel):
        lengthscale: np.ndarray

        def pairwise(self, x, z):
            return jnp.exp(-0.5 * jnp.sum(jnp.square((x[:, None] - z) / self.lengthscale), axis=-1))

        def pointwise(self, x):
            return jnp.ones(len(x))

    model = ko.ProjectedLangevinRegressor(kernel=Bell(np.asarray(0.5)), n_samples=20).fit(X, Y)
    assert model.posterior_.hyperparameters.values["kernel.lengthscale"].shape == (20,)
    assert np.all(np.isfinite(model.predict(NEW)))


@pytest.mark.slow
def test_labels_are_averaged_over_by_the_classifier():
    labels = (Y > 0).astype(int)
    model = ko.ProjectedLangevinClassifier(n_samples=20, kernel="matern52", hyperparameters="average").fit(X, labels)
    parts = [part.predict(model.transform_inputs(NEW)).probability for part in model.posterior_.components]
    np.testing.assert_allclose(model.predict_proba(NEW)[:, 1], np.mean(parts, axis=0), atol=1e-12)
    low, high = model.posterior_.predict(model.transform_inputs(NEW)).latent_interval(0.9)
    assert np.all(low < high)
    assert set(np.unique(model.sample_y(NEW, 50))) <= {0, 1}


@pytest.mark.slow
def test_labels_are_averaged_over():
    labels, bernoulli = (Y > 0).astype(float), ko.likelihoods.Bernoulli()
    draws = ko.fit_hyperparameters(jax.random.key(0), ko.kernels.Matern52(), bernoulli, X, labels, num_draws=2)[2].draws
    averaged = ko.average(jax.random.key(1), draws, X, labels, num_particles=40, num_inducing=6)
    assert [part.num_particles for part in averaged.components] == [20, 20]
    np.testing.assert_array_equal(averaged.components[1].basis.inducing_points, averaged.basis.inducing_points)
    parts = [part.predict(NEW).probability for part in averaged.components]
    np.testing.assert_allclose(averaged.predict(NEW).probability, np.mean(parts, axis=0), atol=1e-12)
    low, high = averaged.predict(NEW).latent_interval(0.9)
    assert np.all(low < high)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda draws: ko.average(jax.random.key(0), None, X, Y), "fit_hyperparameters"),
        (lambda draws: ko.average(jax.random.key(0), draws, X, Y, num_points=3), "num_points"),
        (lambda draws: ko.ProjectedLangevinRegressor(hyperparameters="mean").fit(X, Y), '"average"'),
        (lambda draws: ko.plots.hyperparameters(None), "num_draws"),
    ],
)
def test_bad_input(averaged, call, match):
    with pytest.raises(ko.errors.InputError, match=match):
        call(averaged.hyperparameters)
