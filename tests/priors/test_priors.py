from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate

import kosambi as ko
from kosambi.errors import InputError
from kosambi.kernels import AbstractKernel

k = ko.kernels


class Brownian(AbstractKernel):
    """min(x, z): not stationary, and without random features."""

    def pairwise(self, x, z):
        return jnp.minimum(x[:, :1], z[:, 0][None, :])

    def pointwise(self, x):
        return x[:, 0]


def test_covariance_on_the_papers_example():
    support = [[1.1, 3.5, 3.5], [1.3, 7.5, 1.5], [2.5, 2.5, 0.5]]
    prior = ko.GaussianRandomElement(k.Linear(), ko.measures.empirical(support))
    value = prior.covariance([[1.0, 2.0, 3.0]], [[1.5, 2.5, 3.5]])
    np.testing.assert_allclose(value, [[355.6]], rtol=1e-15)


def test_random_element_covariance_is_the_sum_over_points(rng):
    s, weights = rng.normal(size=(30, 2)), rng.uniform(size=30)
    x, z = rng.normal(size=(7, 2)), rng.normal(size=(5, 2))
    kernel = k.Matern32([0.5, 1.5], 2.0)
    prior = ko.GaussianRandomElement(kernel, ko.measures.points(s, weights))
    p = weights / weights.sum()
    expected = np.einsum("s,ns,ms->nm", p, kernel(x, s), kernel(z, s))
    np.testing.assert_allclose(prior.covariance(x, z), expected, rtol=1e-13)
    np.testing.assert_allclose(prior.variance(x), np.diag(prior.covariance(x)), rtol=1e-13)


@pytest.mark.slow
def test_blocks_of_rows_change_nothing(rng, monkeypatch):
    s, x = rng.normal(size=(40, 2)), rng.normal(size=(33, 2))
    prior = ko.GaussianRandomElement(k.Matern52(), ko.measures.empirical(s))
    basis = ko.RitzBasis(prior, s[:6])
    draws = prior.draw(jax.random.key(0), 3)
    fourier = ko.GaussianProcess(k.Matern52()).draw(jax.random.key(0), 3, num_columns=2)
    calls = [prior.covariance, prior.variance, basis.conditional_mean, basis.residual_variance, draws, fourier]
    whole = [call(x) for call in calls]
    # Another number of columns of zeros would be another shape; clearing the caches makes the limit count.
    jax.clear_caches()
    monkeypatch.setattr("kosambi._core.linalg.MAX_ELEMENTS", 200)
    for call, expected in zip(calls, whole, strict=True):
        np.testing.assert_allclose(call(x), expected, rtol=1e-12, atol=1e-14)
    jax.clear_caches()


@pytest.mark.parametrize("active", [None, [0]])
def test_normal_measure_against_quadrature(active):
    kernel = 1.4 * k.SquaredExponential(0.6, 1.2, active_dims=active)
    mean, variance = 0.3, 0.8
    prior = ko.GaussianRandomElement(kernel, ko.measures.gaussian([mean], [[variance]]))
    for a, b in [(0.0, 0.0), (-0.7, 0.4), (2.0, 1.5)]:
        density = lambda s: np.exp(-0.5 * (s - mean) ** 2 / variance) / np.sqrt(2 * np.pi * variance)
        scale = (1.4 * 1.2) ** 2
        value = lambda s, a=a, b=b: scale * np.exp(-0.5 * ((a - s) ** 2 + (b - s) ** 2) / 0.36) * density(s)
        expected = scipy.integrate.quad(value, -12, 12, epsabs=1e-14, epsrel=1e-13)[0]
        np.testing.assert_allclose(prior.covariance([[a]], [[b]]), [[expected]], rtol=1e-11)


def test_normal_measure_in_several_columns_against_points(rng):
    mean, covariance = np.array([0.1, -0.4, 0.7]), np.array([[1.0, 0.3, 0.0], [0.3, 0.7, 0.1], [0.0, 0.1, 1.5]])
    kernel = k.SquaredExponential([0.9, 1.4], active_dims=[2, 0])
    exact = ko.GaussianRandomElement(kernel, ko.measures.gaussian(mean, covariance))
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    grid = np.stack(np.meshgrid(nodes, nodes, nodes, indexing="ij"), -1).reshape(-1, 3)
    points = mean + grid @ np.linalg.cholesky(covariance).T
    product = np.einsum("i,j,k->ijk", weights, weights, weights).ravel()
    quadrature = ko.GaussianRandomElement(kernel, ko.measures.points(points, product))
    x = rng.normal(size=(4, 3))
    np.testing.assert_allclose(exact.covariance(x), quadrature.covariance(x), rtol=1e-8)
    np.testing.assert_allclose(exact.variance(x), np.diag(exact.covariance(x)), rtol=1e-13)


def test_the_covariance_operator_is_its_sum(rng):
    s, x = rng.normal(size=(20, 2)), rng.normal(size=(6, 2))
    prior = ko.GaussianRandomElement(k.Matern32(), ko.measures.points(s, np.arange(1.0, 21.0)))
    image = prior.apply_covariance(lambda v: np.sin(v[:, 0]) * v[:, 1])
    weights = np.arange(1.0, 21.0) / 210
    np.testing.assert_allclose(image(x), prior.kernel(x, s) @ (weights * np.sin(s[:, 0]) * s[:, 1]), rtol=1e-13)
    # C k(z, ·) = r(z, ·)
    np.testing.assert_allclose(
        prior.apply_covariance(lambda v: prior.kernel(v, x[:1])[:, 0])(x), prior.covariance(x, x[:1])[:, 0], rtol=1e-13
    )


def test_means_are_added_once(rng):
    x = rng.normal(size=(5, 2))
    for mean, expected in [(2.5, np.full(5, 2.5)), (lambda v: v[:, 0] ** 2, x[:, 0] ** 2)]:
        for prior in (
            ko.GaussianProcess(k.Matern52(), mean=mean),
            ko.GaussianRandomElement(k.Matern52(), ko.measures.empirical(x), mean=mean),
        ):
            np.testing.assert_allclose(prior.mean_at(x), expected)
            columns = {"num_columns": 2} if isinstance(prior, ko.GaussianProcess) else {}
            draws = prior.draw(jax.random.key(0), 3, **columns)
            np.testing.assert_allclose(draws(x) - draws.centred(x), np.tile(expected, (3, 1)), atol=1e-13)


def test_draws_are_functions(rng):
    x = rng.normal(size=(30, 2))
    for draws in (
        ko.GaussianProcess(k.Matern52() * k.Linear()).draw(jax.random.key(1), 4, num_columns=2),
        ko.GaussianProcess(k.Matern52()).draw(jax.random.key(1), 4, num_columns=2, shared_features=True),
        ko.GaussianRandomElement(k.Matern52(), ko.measures.empirical(x)).draw(jax.random.key(1), 4),
    ):
        values = draws(x)
        np.testing.assert_array_equal(values, draws(x))
        np.testing.assert_allclose(values[:, 3:9], draws(x[3:9]), rtol=0, atol=1e-12)
        assert draws(np.empty((0, 2))).shape == (4, 0)
        with jax.enable_x64(True):
            slope = jax.jit(jax.jacfwd(lambda v: draws(v[None])[:, 0]))(x[0])
            step = 1e-6
            for i in range(2):
                shift = step * np.eye(2)[i]
                numeric = (draws((x[0] + shift)[None]) - draws((x[0] - shift)[None]))[:, 0] / (2 * step)
                np.testing.assert_allclose(slope[:, i], numeric, rtol=1e-6, atol=1e-7)


def test_keys_of_both_sorts_and_different_seeds():
    prior = ko.GaussianProcess(k.Matern52())
    x = [[0.0], [1.0]]
    typed, raw = prior.draw(jax.random.key(5))(x), prior.draw(jax.random.PRNGKey(5))(x)
    np.testing.assert_array_equal(typed, raw)
    assert not np.allclose(typed, prior.draw(jax.random.key(6))(x))


def test_dense_draws_for_a_kernel_without_features():
    prior = ko.GaussianProcess(Brownian())
    x = np.linspace(0.1, 1.0, 10)[:, None]
    with pytest.raises(InputError, match="at=x"):
        prior.draw(jax.random.key(0))
    draws = prior.draw(jax.random.key(0), 20_000, at=x)
    np.testing.assert_allclose(np.cov(draws(x).T), np.minimum(x, x.T), atol=5 * np.sqrt(2 / 20_000))
    halfway = draws([[0.25]])[:, 0]
    np.testing.assert_allclose(halfway, 0.5 * (draws([[0.2]]) + draws([[0.3]]))[:, 0], atol=1e-10)


def test_draws_default_to_the_smallest_number_of_columns_that_fits():
    assert ko.GaussianProcess(k.Matern52()).draw(jax.random.key(0)).num_columns == 1
    assert ko.GaussianProcess(k.Matern52([1.0, 2.0]) + k.Linear()).draw(jax.random.key(0)).num_columns == 2
    assert ko.GaussianProcess(k.Matern52(active_dims=[4])).draw(jax.random.key(0)).num_columns == 5
    with pytest.raises(InputError, match=r"drawn for 1.*num_columns=3"):
        ko.GaussianProcess(k.Matern52()).draw(jax.random.key(0))(np.ones((2, 3)))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ko.GaussianProcess(3.0), "needs a kernel"),
        (lambda: ko.GaussianRandomElement(k.Matern52(), np.ones((3, 1))), r"empirical\(x\)"),
        (lambda: ko.GaussianProcess(k.Matern52(), mean=[1.0, 2.0]), "finite number or a callable"),
        (lambda: ko.GaussianProcess(k.Matern52(), mean=np.nan), "finite number"),
        (lambda: ko.GaussianProcess(k.Matern52(), mean=lambda x: x).mean_at([[1.0, 2.0]]), r"returned shape \(1, 2\)"),
        (
            lambda: ko.GaussianRandomElement(k.Matern52(), ko.measures.gaussian([0.0], [[1.0]])),
            "SquaredExponential.*sample",
        ),
        (
            lambda: ko.GaussianRandomElement(
                k.SquaredExponential(), ko.measures.gaussian([0.0], [[1.0]])
            ).apply_covariance(lambda x: x[:, 0]),
            "finite sum for points only",
        ),
        (
            lambda: ko.GaussianRandomElement(k.Matern52(), ko.measures.empirical([[0.0]])).apply_covariance(
                lambda x: x
            ),
            "to N numbers",
        ),
        (
            lambda: ko.GaussianRandomElement(k.Matern52([1.0, 2.0]), ko.measures.empirical([[0.0]])),
            "2 entries in `lengthscale` for 1",
        ),
        (
            lambda: ko.GaussianRandomElement(k.Matern52(), ko.measures.empirical([[0.0]])).covariance([[0.0, 1.0]]),
            "2 columns, but 1 are expected",
        ),
        (lambda: ko.GaussianProcess(k.Matern52()).draw(1), r"jax.random.key\(0\)"),
        (lambda: ko.GaussianProcess(k.Matern52()).draw(jax.random.split(jax.random.key(0))), "single random key"),
        (lambda: ko.GaussianProcess(k.Matern52()).draw(jax.random.key(0), 0), "num_draws.*at least 1"),
        (lambda: ko.GaussianProcess(k.Matern52()).draw(jax.random.key(0), num_features=0), "num_features"),
        (lambda: ko.GaussianProcess(Brownian()).shared_feature_error([[0.0]], [[0.0]], 5), "no random features"),
        (lambda: ko.GaussianProcess(k.Matern52()).variance([0.0, 1.0]), r"x\[:, None\]"),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(InputError, match=message):
        make()
