"""The neighbour likelihood: its terms and gradient, weights, the search for neighbours, and what all rows can see."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
import scipy.stats
from scipy.spatial.distance import cdist

import kosambi as ko
from kosambi.basis.neighbors import nearest_before
from kosambi.learning import neighbors as neighbors_module
from kosambi.learning import without_points
from kosambi.learning.conditionals import batch_evidence
from kosambi.learning.layout import Model, lay_out

k, lk = ko.kernels, ko.likelihoods
RNG = np.random.default_rng(3)
X = RNG.uniform(-2.0, 2.0, (40, 2))
Y = np.sin(2.0 * X[:, 0]) + 0.2 * RNG.normal(size=40)
PRIOR = ko.GaussianProcess(k.Matern32([0.8, 1.4], 1.3), 0.2)
MODEL = Model(PRIOR.kernel, PRIOR.mean, lk.Gaussian(0.3))
LAYOUT = lay_out(MODEL)


def everything(number, counts=None, x=X, y=Y):
    order = np.random.default_rng(0).permutation(len(x))
    found = nearest_before(x[order], np.arange(len(x)), number)
    rows = order[np.column_stack([np.maximum(found, 0), np.arange(len(x))])]
    present = np.column_stack([found >= 0, np.ones(len(x))])
    return x[rows], y[rows], present, (np.ones(len(x)) if counts is None else counts)[rows]


@pytest.mark.parametrize("columns", [2, 20], ids=["tree", "exhaustive"])
def test_neighbors_against_all_distances(columns):
    x = np.random.default_rng(1).normal(size=(300, columns))
    order = np.random.default_rng(2).permutation(300)
    targets = np.array([0, 1, 5, 100, 250, 299])
    found = nearest_before(x[order], targets, 6)
    for place, near in zip(targets, found, strict=True):
        before = order[:place]
        nearest = before[np.argsort(cdist(x[order[place]][None], x[before])[0])[:6]]
        assert sorted(order[near[near >= 0]]) == sorted(nearest)
        assert np.sum(near >= 0) == min(6, place)


def test_with_all_earlier_rows_the_sum_is_the_evidence():
    vector = LAYOUT.vector(MODEL)
    dense = scipy.stats.multivariate_normal(np.full(40, 0.2), PRIOR.covariance(X) + 0.09 * np.eye(40)).logpdf(Y)
    with jax.enable_x64(True):
        value, _ = batch_evidence(LAYOUT, vector, MODEL, PRIOR, *everything(39))
        few, _ = batch_evidence(LAYOUT, vector, MODEL, PRIOR, *everything(3))
    assert value == pytest.approx(dense, rel=1e-9)
    assert abs(few - dense) > 1e-3


def test_gradient_against_finite_differences():
    vector, data = LAYOUT.vector(MODEL), everything(8)
    with jax.enable_x64(True):
        _, slope = batch_evidence(LAYOUT, vector, MODEL, PRIOR, *data)
        for i in range(len(vector)):
            step = 1e-5 * np.eye(len(vector))[i]
            ends = [batch_evidence(LAYOUT, vector + sign * step, MODEL, PRIOR, *data)[0] for sign in (1, -1)]
            assert slope[i] == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-5, abs=1e-6)


def test_a_row_that_counts_twice_is_two_rows():
    counts = np.resize([1.0, 2.0, 3.0], 40)
    number = counts.astype(int)
    x, y = np.repeat(X, number, axis=0), np.repeat(Y, number)
    mean, noise = np.full(len(y), 0.2), 0.09 * np.eye(len(y))
    dense = scipy.stats.multivariate_normal(mean, PRIOR.covariance(x) + noise).logpdf(y)
    with jax.enable_x64(True):
        value, _ = batch_evidence(LAYOUT, LAYOUT.vector(MODEL), MODEL, PRIOR, *everything(39, counts))
    assert value == pytest.approx(dense, rel=1e-9)


def short_lengthscale(num_rows, seed, lengthscale=0.05, noise=0.1):
    """A draw of Matérn-3/2 on the unit interval, exactly: an autoregression of f and its slope."""
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(0.0, 1.0, num_rows))
    rate, f = np.sqrt(3.0) / lengthscale, np.empty(num_rows)
    stationary = np.diag([1.0, rate**2])
    state = np.sqrt(np.diag(stationary)) * rng.normal(size=2)
    for n, gap in enumerate(np.diff(x, prepend=x[0])):
        step = np.exp(-rate * gap) * np.array([[1.0 + rate * gap, gap], [-(rate**2) * gap, 1.0 - rate * gap]])
        cover = stationary - step @ stationary @ step.T
        values, vectors = np.linalg.eigh(0.5 * (cover + cover.T))
        state = step @ state + vectors @ (np.sqrt(np.maximum(values, 0.0)) * rng.normal(size=2))
        f[n] = state[0]
    return x[:, None], f + noise * rng.normal(size=num_rows)


@jax.jit
def exact_cost(logarithms, gaps, y):
    """Minus the log marginal likelihood of Matérn-3/2 and Gaussian noise in one column, by a Kalman filter."""
    lengthscale, variance, noise = jnp.exp(logarithms)
    rate = jnp.sqrt(3.0) / lengthscale
    stationary = variance * jnp.diag(jnp.array([1.0, rate**2]))

    def update(state, row):
        (mean, cover), (gap, value) = state, row
        step = jnp.exp(-rate * gap) * jnp.array([[1.0 + rate * gap, gap], [-(rate**2) * gap, 1.0 - rate * gap]])
        mean, cover = step @ mean, step @ (cover - stationary) @ step.T + stationary
        spread, error = cover[0, 0] + noise**2, value - mean[0]
        gain = cover[:, 0] / spread
        cost = 0.5 * (jnp.log(2.0 * jnp.pi * spread) + error**2 / spread)
        return (mean + gain * error, cover - jnp.outer(gain, gain) * spread), cost

    return jnp.sum(jax.lax.scan(update, (jnp.zeros(2), stationary), (gaps, y))[1])


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 7])
def test_all_rows_find_a_lengthscale_that_a_subset_cannot_see(seed):
    """Against the maximum of the exact likelihood, which is itself an eighth (one standard error) from the truth."""
    x, y = short_lengthscale(20_000, seed)
    kernel, likelihood, report = ko.fit_hyperparameters(
        jax.random.key(0), k.Matern32(1.0), lk.Gaussian(), x, y, num_inducing="auto"
    )
    assert (report.strategy, report.num_rows, report.converged) == ("neighbors", 20_000, True)
    with jax.enable_x64(True):
        gaps, slope = np.diff(x[:, 0], prepend=x[0, 0]), jax.jit(jax.value_and_grad(exact_cost))
        best = scipy.optimize.minimize(
            lambda vector: [np.asarray(part, dtype=float) for part in slope(vector, gaps, y)],
            np.log([0.05, 1.0, 0.1]),
            jac=True,
            method="BFGS",
        )
        found = np.log([float(kernel.lengthscale), float(kernel.variance), float(likelihood.noise)])
        lost = float(exact_cost(found, gaps, y)) - best.fun
        curvature = np.asarray(jax.hessian(exact_cost)(best.x, gaps, y))
    error = np.sqrt(np.diag(np.linalg.inv(curvature)))
    assert abs(found[0] - best.x[0]) < np.log(1.15)
    assert abs(found[2] - best.x[2]) < np.log(1.05)
    assert lost < 8.0
    # What the data themselves say of the truth.
    assert np.all(np.abs(best.x - np.log([0.05, 1.0, 0.1])) < 3.0 * error)
    assert abs(found[0] - np.log(0.05)) < 3.0 * error[0]


@pytest.mark.slow
def test_rows_above_the_limit_of_the_exact_evidence(monkeypatch):
    for name, value in (("EXACT_ROWS", 300), ("EXACT_BLOCK", 150), ("EXACT_BLOCKS", 2)):
        monkeypatch.setattr(without_points, name, value)
    monkeypatch.setattr(neighbors_module, "BATCH", 64)
    monkeypatch.setattr(neighbors_module, "STEPS", 60)
    monkeypatch.setattr(neighbors_module, "KEPT_OUT", 128)
    rng = np.random.default_rng(5)
    x = rng.uniform(-3.0, 3.0, (500, 1))
    y = np.sin(2.0 * x[:, 0]) + 0.2 * rng.normal(size=500)
    found = [
        ko.fit_hyperparameters(jax.random.key(0), k.SquaredExponential(), lk.Gaussian(), x, y, num_restarts=0)
        for _ in range(2)
    ]
    (kernel, noise, report), (again, _, _) = found
    assert float(kernel.lengthscale) == float(again.lengthscale)
    assert report.strategy == "neighbors"
    assert (report.num_rows, report.is_exact, report.inducing_points) == (500, False, None)
    assert abs(float(noise.noise) / 0.2 - 1.0) < 0.15
    exact = float(ko.log_evidence(ko.GaussianProcess(kernel), noise, x, y))
    # Estimated from 128 rows that were kept out.
    assert report.log_evidence == pytest.approx(exact, abs=60.0)
    _, _, limited = ko.fit_hyperparameters(
        jax.random.key(0), k.SquaredExponential(), lk.Gaussian(), x, y, num_restarts=0, max_rows=200
    )
    assert (limited.strategy, limited.num_rows) == ("exact", 200)


def test_near_and_far_rows_against_all_distances():
    rng = np.random.default_rng(3)
    x, order = rng.normal(size=(900, 2)), rng.permutation(900)
    targets = np.array([5, 70, 400, 899])
    found = neighbors_module._near_and_far(x[order], order, targets)
    assert found.neighbors.shape == (4, 24)
    for row, place in enumerate(targets):
        own = found.neighbors[row][found.present[row] > 0]
        # Of the first 512, those nearest to an early row may all come after it.
        assert min(16, place) <= len(own) == len(set(own)) <= min(24, place)
        distance = np.linalg.norm(x[order] - x[order[place]], axis=1)
        near = order[np.argsort(distance[:place])[:16]]
        assert set(near) <= set(own)
        if place == 899:
            assert len(own) == 24
            for first, where in ((512, slice(16, 20)), (64, slice(20, 24))):
                others = [one for one in order[np.argsort(distance[:first])] if one not in own[: where.start]]
                assert others[:4] == list(own[where])
