"""Posterior draws as functions: their joint law, their consistency, and what JAX can do with them."""

from __future__ import annotations

import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kosambi as ko
from kosambi._core.precision import host_generator
from kosambi.posterior import _functions
from kosambi.samplers import Particles
from tests.cases import cases
from tests.laws import joint_normal_p_value

LEVEL = 1e-3
NUM_DRAWS = 20_000
k = ko.kernels
RNG = np.random.default_rng(3)
X = RNG.uniform(-3.0, 3.0, (40, 1))
Y = np.sin(2.0 * X[:, 0]) + 0.3 * RNG.normal(size=40)
X8 = RNG.uniform(-1.0, 1.0, (60, 8))
Y8 = X8[:, 0] ** 2 + X8[:, 1]
LINE = np.linspace(-3.3, 3.6, 15)[:, None]


def element(kernel, x, **keywords):
    return ko.GaussianRandomElement(kernel, ko.measures.empirical(x), **keywords)


NORMAL = ko.measures.gaussian([0.2], [[4.0]])
MODELS = {
    "GP Matern52": (ko.PointBasis(ko.GaussianProcess(k.Matern52(0.8, 1.5), mean=0.4), X[:8]), X, Y, LINE),
    "GP Matern12": (ko.PointBasis(ko.GaussianProcess(k.Matern12(0.8, 1.5)), X[:8]), X, Y, LINE),
    "GP squared exponential": (ko.PointBasis(ko.GaussianProcess(k.SquaredExponential(0.5)), X[:8]), X, Y, LINE),
    "GP sum": (ko.PointBasis(ko.GaussianProcess(k.Matern32(0.8) + k.Linear(0.3) + 0.5), X[:8]), X, Y, LINE),
    "GP periodic": (ko.PointBasis(ko.GaussianProcess(k.Periodic(0.6, period=9.0) * 2.0), X[:6]), X, Y, LINE),
    "GP 8-D": (ko.PointBasis(ko.GaussianProcess(k.Matern52(1.5)), X8[:20]), X8, Y8, 1.2 * X8[40:55] + 0.1),
    "GRE Ritz": (ko.RitzBasis(element(k.Matern32(0.8, 1.5), X, mean=0.4), X[:8]), X, Y, LINE),
    "GRE Point": (ko.PointBasis(element(k.Matern32(0.8, 1.5), X), X[:8]), X, Y, LINE),
    "GRE Nystrom": (ko.NystromBasis(element(k.Matern32(0.8, 1.5), X), X[:8]), X, Y, LINE),
    "GRE Inducing": (ko.InducingBasis(element(k.Matern32(0.8, 1.5), X), X[:8]), X, Y, LINE),
    "GRE normal": (ko.RitzBasis(ko.GaussianRandomElement(k.SquaredExponential(0.8), NORMAL), X[:8]), X, Y, LINE),
    "GRE background": (ko.RitzBasis(element(k.SquaredExponential(0.7), X).with_background(), X[:8]), X, Y, LINE),
}


def dense_law(posterior, points):
    """Mean m + φE[u] and covariance φCov(u)φᵀ + Cov(G − φu(G)), with NumPy from φ, r and the law of w alone."""
    basis, law = posterior.basis, posterior.particles.distribution
    psi, prior = basis.whitened_mean(points), basis.prior
    mean = prior.mean_at(points) + psi @ law.mean
    # u(G) is linear in G(Z): the matrix comes out of unit vectors, and w(G) = G(Z) B.
    both = np.concatenate([points, basis.inducing_points])
    joint = prior.covariance(both)
    loading = basis.whiten(np.asarray(basis.from_values(np.eye(len(basis.inducing_points)))))
    left = np.concatenate([np.eye(len(points)), -psi @ loading.T], axis=1)
    return mean, psi @ law.root @ law.root.T @ psi.T + left @ joint @ left.T


def exact_posterior(name, num_particles, seed=0):
    basis, x, y, points = MODELS[name]
    target = ko.Target(basis, ko.likelihoods.Gaussian(0.3), x, y)
    return ko.Posterior(target, *ko.sample(jax.random.key(seed), target, "exact", num_particles)), points


@pytest.mark.parametrize("name", cases(MODELS, quick=["GP Matern52", "GRE Ritz"]))
def test_joint_law_of_the_draws(name):
    posterior, points = exact_posterior(name, NUM_DRAWS)
    mean, covariance = dense_law(posterior, points)
    draws = posterior.functions(jax.random.key(1))(points)
    assert joint_normal_p_value(draws, covariance, mean) > LEVEL
    assert joint_normal_p_value(draws, 1.05 * covariance, mean) < LEVEL
    # Right at each point by itself, with a residual that is independent between points.
    psi, law = posterior.basis.whitened_mean(points), posterior.particles.distribution
    explained = psi @ law.root @ law.root.T @ psi.T
    assert joint_normal_p_value(draws, explained + np.diag(np.diag(covariance - explained)), mean) < LEVEL


def test_one_key_for_particles_and_residual_is_rejected():
    """Particles made of the very noise that the residual will use: marginal laws look right, the joint one does not."""
    for name in ("GP squared exponential", "GRE Ritz"):
        posterior, points = exact_posterior(name, NUM_DRAWS)
        law, key = posterior.particles.distribution, jax.random.key(5)
        if name.startswith("GP"):
            waves = posterior.functions(key).parts[0].cosine[:, 0, : len(law.mean)]
            noise = waves / waves.std(axis=0)
        else:
            generator = host_generator(jax.random.fold_in(key, _functions._PURPOSE))
            noise = generator.normal(size=(NUM_DRAWS, len(X)))[:, : len(law.mean)]
        reused = Particles.from_whitened(posterior.target, law.mean + noise @ law.root.T)
        mean, covariance = dense_law(posterior, points)
        draws = ko.Posterior(posterior.target, reused).functions(key)(points)
        assert joint_normal_p_value(draws, covariance, mean) < 1e-6
        other = ko.Posterior(posterior.target, reused).functions(jax.random.key(6))(points)
        assert joint_normal_p_value(other, covariance, mean) > LEVEL


def test_the_key_of_infer_may_be_used_again():
    """`functions` with the key that drew the particles is still independent of them."""
    key = jax.random.key(0)
    for name in ("GP Matern52", "GRE Ritz"):
        posterior, points = exact_posterior(name, NUM_DRAWS)
        mean, covariance = dense_law(posterior, points)
        assert joint_normal_p_value(posterior.functions(key)(points), covariance, mean) > LEVEL


LATENTS = {
    "one": ko.likelihoods.StudentT(4.0, 0.3),
    "three": ko.likelihoods.Categorical(3),
}


@pytest.fixture(scope="module", params=LATENTS)
def small(request):
    likelihood = LATENTS[request.param]
    y = Y if request.param == "one" else (np.arange(40) % 3).astype(float)
    kernel = k.Matern52(0.8) + k.RationalQuadratic(1.0, alpha=0.5)
    return ko.infer(jax.random.key(2), kernel, likelihood, X, y, num_particles=32, num_inducing=10)


def test_the_same_function_at_every_call_and_on_any_subset(small, monkeypatch, x64):
    draws = small.functions(jax.random.key(3))
    grid = np.linspace(-4.0, 4.0, 200)[:, None]
    values = draws(grid)
    assert values.shape[:2] == (32, 200)
    assert values.dtype == np.float64
    largest = 1e-10 * np.abs(values).max()
    np.testing.assert_array_equal(draws(grid), values)
    subset = np.array([3, 17, 150, 3])
    np.testing.assert_allclose(draws(grid[subset]), values[:, subset], rtol=0, atol=largest)
    np.testing.assert_allclose(np.stack([draws(row[None])[:, 0] for row in grid[:5]], 1), values[:, :5], atol=largest)
    # In blocks, the last of which overlaps.
    monkeypatch.setattr("kosambi.priors.functions.draws._VALUES_AT_ONCE", 32 * values[0, 0].size * 30)
    np.testing.assert_allclose(draws(grid), values, rtol=0, atol=largest)
    assert np.abs(small.functions(jax.random.key(4))(grid) - values).max() > 0.01


def test_parts_of_the_draws_are_draws(small):
    draws, grid = small.functions(jax.random.key(3)), np.linspace(-4.0, 4.0, 7)[:, None]
    values = draws(grid)
    assert len(draws) == draws.num_draws == 32
    np.testing.assert_allclose(draws[5](grid), values[5:6], atol=1e-12)
    np.testing.assert_allclose(draws[[4, 2, 31]](grid), values[[4, 2, 31]], atol=1e-12)
    np.testing.assert_allclose(draws[-3:](grid), values[-3:], atol=1e-12)
    assert sum(1 for _ in draws) == 32
    with pytest.raises(IndexError):
        draws[32]


@pytest.mark.parametrize("small", cases(LATENTS, slow=["three"]), indirect=True)
def test_draws_are_differentiable_and_traceable(small):
    draws = small.functions(jax.random.key(3))
    x = np.array([[0.3], [-1.2], [2.9]])
    with jax.enable_x64(True):
        values = draws(x)
        np.testing.assert_allclose(jax.jit(draws)(jnp.asarray(x)), values, atol=1e-11)
        np.testing.assert_allclose(jax.jit(lambda d, x: d(x))(draws, jnp.asarray(x)), values, atol=1e-11)
        each = jax.jit(jax.vmap(lambda row: draws(row[None])[:, 0]))(jnp.asarray(x))
        np.testing.assert_allclose(np.moveaxis(np.asarray(each), 0, 1), values, atol=1e-11)
        slopes = jax.jit(jax.jacfwd(lambda t: draws(x + t)))(jnp.zeros(()))
        step = 1e-5
        np.testing.assert_allclose(slopes, (draws(x + step) - draws(x - step)) / (2 * step), rtol=1e-6, atol=1e-6)
        backwards = jax.jit(jax.grad(lambda t: jnp.sum(draws(x + t))))(jnp.zeros(()))
        np.testing.assert_allclose(backwards, np.sum(slopes), rtol=1e-9)


def test_a_posterior_survives_pickle_with_the_switch_off(small):
    with jax.enable_x64(False):
        again = pickle.loads(pickle.dumps(small))
        for a, b in zip(jax.tree.leaves(small.target), jax.tree.leaves(again.target), strict=True):
            assert np.asarray(a).dtype == np.asarray(b).dtype
            np.testing.assert_array_equal(a, b)
        assert again.report == small.report
        key, grid = jax.random.key(7), np.linspace(-4.0, 4.0, 9)[:, None]
        draws = small.functions(key)
        np.testing.assert_array_equal(again.functions(key)(grid), draws(grid))
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(draws))(grid), draws(grid))
        paper = small.functions(key, method="matheron")
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(paper))(grid), paper(grid))
        p = small.predict(grid)
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(p)).observation_mean, p.observation_mean)


def test_matheron_of_a_gaussian_process_is_the_joint_law():
    posterior, points = exact_posterior("GP Matern52", NUM_DRAWS)
    mean, covariance = dense_law(posterior, points)
    draws = posterior.functions(jax.random.key(1), method="matheron")
    values, clipping = draws.evaluate(points)
    assert clipping.share < 1e-12
    assert joint_normal_p_value(values, covariance, mean) > LEVEL
    assert joint_normal_p_value(values, 1.05 * covariance, mean) < LEVEL


@pytest.mark.parametrize("name", ["GRE Nystrom", "GRE Inducing"])
def test_matheron_of_the_paper(name):
    """The paper's matrix R with X* joined to the support, its negative spectrum clipped, and reported."""
    posterior, points = exact_posterior(name, NUM_DRAWS)
    basis, law = posterior.basis, posterior.particles.distribution
    union = np.concatenate([points, basis.inducing_points])
    gram = basis.prior.kernel(points, union)
    phi = basis.conditional_mean(points)
    joint = np.block(
        [[gram @ gram.T / len(union), phi @ basis.covariance], [(phi @ basis.covariance).T, basis.covariance]]
    )
    values, vectors = np.linalg.eigh(joint)
    draws = posterior.functions(jax.random.key(1), method="matheron")
    drawn, clipping = draws.evaluate(points)
    assert clipping.negative == np.sum(values < 0)
    np.testing.assert_allclose(clipping.share, -values[values < 0].sum() / np.trace(joint), rtol=1e-6)
    assert clipping.share > 1e-4
    clipped = (vectors * np.maximum(values, 0.0)) @ vectors.T
    left = np.concatenate([np.eye(len(points)), -phi], axis=1)
    psi = basis.whitened_mean(points)
    covariance = psi @ law.root @ law.root.T @ psi.T + left @ clipped @ left.T
    assert joint_normal_p_value(drawn, covariance, psi @ law.mean) > LEVEL
    with pytest.warns(ko.errors.RoundingWarning, match="not a covariance"):
        draws(points)
    # What a draw is at one input depends on the others.
    alone = draws.evaluate(points[:1])[0][:, 0]
    assert abs(np.var(alone) / np.var(drawn[:, 0]) - 1.0) > 0.05


RNG3 = np.random.default_rng(8)
X3, NEW3 = RNG3.uniform(0.0, 1.0, (300, 3)), RNG3.uniform(0.0, 1.0, (40, 3))
LINE1, BETWEEN = np.linspace(-3.0, 3.0, 61)[:, None], np.linspace(-2.95, 2.95, 30)[:, None]
SMALL_RESIDUALS = {
    "three columns": (k.Matern52(1.0), X3, NEW3, 59),
    "three columns, smooth": (k.SquaredExponential(0.5), X3, NEW3, 46),
    "product of columns": (k.Matern32(1.0, active_dims=[0]) * k.SquaredExponential(1.0, active_dims=[1]), X3, NEW3, 60),
    "product": (k.SquaredExponential(3.0) * k.Matern32(0.8), LINE1, BETWEEN, 50),
    "periodic times smooth": (k.Periodic(period=2.0) * k.SquaredExponential(2.0), LINE1, BETWEEN, 40),
    "rational quadratic": (k.RationalQuadratic(1.0, alpha=0.5), LINE1, BETWEEN, 30),
    "rough": (k.Matern12(0.8), LINE1, BETWEEN, 60),
}


@pytest.mark.parametrize("name", cases(SMALL_RESIDUALS, quick=["rough"]))
def test_variance_of_the_draws_where_little_is_left_open(name):
    """A thousandth and less of the prior variance is left: random frequencies must reach where that comes from."""
    kernel, x, points, size = SMALL_RESIDUALS[name]
    num_draws = 4000
    posterior = ko.infer(
        jax.random.key(0), kernel, ko.likelihoods.Gaussian(0.01), x, x[:, 0], num_inducing=size, num_particles=num_draws
    )
    ratio = posterior.functions(jax.random.key(1))(points).var(axis=0) / posterior.predict(points).variance
    # The mean square of the errors, a few of which random frequencies may add to those of the sample.
    assert np.sqrt(np.mean((ratio - 1.0) ** 2)) < 2.0 * np.sqrt(2.0 / num_draws)
    assert np.max(np.abs(ratio - 1.0)) < 0.15


def test_plain_frequencies_fail_the_test_of_the_variance(monkeypatch):
    plain = lambda generator, count: (generator.uniform(size=count), np.ones(count))
    monkeypatch.setattr("kosambi.kernels.stationary.spread_probabilities", plain)
    with pytest.raises(AssertionError):
        test_variance_of_the_draws_where_little_is_left_open("three columns")


def test_inputs_too_far_apart_are_warned_of():
    x = np.linspace(0.0, 1.0, 30)[:, None]
    posterior = ko.infer(
        jax.random.key(0), k.Matern32(0.02), ko.likelihoods.Gaussian(0.1), x, x[:, 0], num_particles=2000
    )
    far = np.array([[1.3], [3.7]])
    with pytest.warns(ko.errors.DomainWarning, match="domain="):
        values = posterior.functions(jax.random.key(1))(far)
    assert abs(np.corrcoef(values.T)[0, 1]) > 0.9
    wide = posterior.functions(jax.random.key(1), domain=[[0.0], [4.0]])(far)
    assert abs(np.corrcoef(wide.T)[0, 1]) < 4.0 / np.sqrt(2000)


class Own(k.AbstractKernel):
    """A kernel that is not made of stationary or finite ones."""

    def pairwise(self, x, z):
        return jnp.exp(-jnp.sum(jnp.abs(x[:, None] ** 3 - z[None] ** 3), axis=2) / 9.0)

    def pointwise(self, x):
        return jnp.ones(x.shape[0])


def test_a_kernel_without_features_is_exact_where_it_is_told():
    basis = ko.PointBasis(ko.GaussianProcess(Own()), X[:8])
    target = ko.Target(basis, ko.likelihoods.Gaussian(0.3), X, Y)
    posterior = ko.Posterior(target, *ko.sample(jax.random.key(0), target, "exact", NUM_DRAWS))
    mean, covariance = dense_law(posterior, LINE)
    assert joint_normal_p_value(posterior.functions(jax.random.key(1), at=LINE)(LINE), covariance, mean) > LEVEL
    with pytest.raises(ko.errors.InputError, match="Pass `at=x_new`"):
        posterior.functions(jax.random.key(1))


BAD = {
    "unknown method": (lambda p: p.functions(jax.random.key(0), method="paper"), '"pathwise" or "matheron"'),
    "no key": (lambda p: p.functions(0), "random key"),
    "wrong D": (lambda p: p.functions(jax.random.key(0))(np.zeros((3, 2))), "columns"),
    "NaN": (lambda p: p.functions(jax.random.key(0))([[np.nan]]), "must be finite"),
    "wrong D, matheron": (lambda p: p.functions(jax.random.key(0), method="matheron")(np.zeros((3, 2))), "columns"),
    "at with matheron": (lambda p: p.functions(jax.random.key(0), method="matheron", at=[[0.0]]), "Leave them out"),
    "domain of one row": (lambda p: p.functions(jax.random.key(0), domain=[[0.0]]), "two rows"),
    "particles of another target": (
        lambda p: ko.Posterior(p.target, Particles(np.zeros((2, 3)), np.zeros((2, 3)))),
        "this target",
    ),
    "no target": (lambda p: ko.Posterior(p.basis, p.particles), "kosambi.Target"),
    "no particles": (lambda p: ko.Posterior(p.target, np.zeros((3, 10))), "needs particles"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_of_functions(name, small):
    call, match = BAD[name]
    with pytest.raises(ko.errors.InputError, match=match):
        call(small)


def test_no_points_give_empty_draws(small):
    draws = small.functions(jax.random.key(3))
    assert draws(np.empty((0, 1))).shape[:2] == (32, 0)
    assert small.functions(jax.random.key(3), method="matheron")(np.empty((0, 1))).shape[:2] == (32, 0)
