"""The recipe with a kernel that has not converged, and the code's predictions with Student's noise."""

import jax
import numpy as np
import pytest
from scipy import stats

import kosambi as ko
from kosambi.reproduce.comparison import data, epochs, published, recipe


def rows(number=60, seed=0, columns=2):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2, 2, size=(number, columns))
    return data.Part(x, np.sin(2 * x[:, 0]) + 0.2 * rng.normal(size=number))


def log_density(vector, x, y, known):
    """Of the exact process over N, independently: lengthscales, variance, noise (all before softplus), mean."""
    raw = np.logaddexp(0.0, vector[:-1])
    scaled = x / raw[: x.shape[1]]
    distances = np.square(scaled[:, None] - scaled[None]).sum(axis=-1)
    covariance = raw[-2] * np.exp(-0.5 * distances) + np.diag(raw[-1] + 1e-4 + known)
    return stats.multivariate_normal(np.full(len(y), vector[-1]), covariance).logpdf(y) / len(y)


def test_the_slope_is_that_of_the_marginal_likelihood():
    train, known = rows(), np.random.default_rng(1).uniform(0.0, 0.3, size=60)
    vector = np.array([0.3, -0.2, 0.4, -1.0, 0.2])
    with jax.enable_x64(True):
        raw = epochs.Raw(vector[:2], *(np.asarray(v) for v in vector[2:]))
        found = jax.grad(epochs._loss)(raw, train.x, train.y, known)
        found = np.concatenate([np.ravel(part) for part in found])
    step = 1e-5
    for i, direction in enumerate(step * np.eye(5)):
        there, back = (log_density(vector + s * direction, train.x, train.y, known) for s in (1, -1))
        assert found[i] == pytest.approx(-(there - back) / (2 * step), rel=1e-6, abs=1e-9)


def test_adam_begins_at_the_start_of_the_code_and_ends_at_the_optimum():
    train = rows(columns=1)
    (_, first, _, _), (_, last, noise, residuals) = epochs._kernels(train, "gaussian", 0, [1, 4000], 1)
    # The first step of Adam is as long as its rate, whatever the slope.
    assert np.abs(np.log(np.expm1(first.lengthscale))) == pytest.approx(0.01, rel=1e-4)
    kernel, likelihood, _ = ko.fit_hyperparameters(
        jax.random.key(0),
        ko.kernels.SquaredExponential(np.ones(1), 1.0),
        ko.likelihoods.Gaussian(),
        train.x,
        train.y,
        method="published",
    )
    assert noise == pytest.approx(float(likelihood.noise), rel=1e-3)
    assert last.lengthscale[0] == pytest.approx(kernel.lengthscale[0], rel=1e-3)
    # Sound residuals are about as large as the noise.
    assert residuals.std() == pytest.approx(noise, rel=0.2)


def test_labels_become_two_regressions_and_many_rows_subsets_of_neighbours():
    targets = epochs._targets(np.array([0.0, 1.0]), "bernoulli")
    # A log-normal law with the mean and variance of a gamma law with shape 1.01 or 0.01 (Milios et al. 2018).
    for (target, known), shapes in zip(targets, ([1.01, 0.01], [0.01, 1.01]), strict=True):
        np.testing.assert_allclose(np.exp(target + known / 2), shapes)
        np.testing.assert_allclose(np.expm1(known) * np.exp(2 * target + known), shapes)
    x = np.arange(10.0)[:, None]
    for subset in epochs._subsets(x, 3, 4, seed=0):
        assert len(subset) == 3
        assert subset[-1] - subset[0] == 2
    assert [len(subset) for subset in epochs._subsets(x, 10, 4, seed=0)] == [10]


def test_conformal_predictions_of_the_code_with_heavy_tails():
    train, test = rows(80), rows(400, seed=1)
    model = recipe.learn(train, "student_t", seed=0, subsets=1)
    posterior = recipe.posterior(model, train, seed=0)
    assert posterior.report.sampler == "mala"
    found = published.variants(posterior, data.Split(train, rows(400, seed=2), test), 0, model.exact_noise)
    assert set(found) == {"published", "published_conformal"}
    # The correction on 400 rows makes up for whatever the draws lack.
    assert found["published_conformal"]["coverage"] == pytest.approx(0.95, abs=0.05)
    assert found["published_conformal"]["mae"] == pytest.approx(found["published"]["mae"], abs=0.05)
