"""The evidence of any likelihood through Gaussian sites: the bound, the best sites, the gradient, weights."""

import jax
import numpy as np
import pytest
import scipy.optimize
import scipy.special
import scipy.stats

import kosambi as ko
from kosambi.learning import dense, site_evaluator, sites
from kosambi.learning.layout import Model, lay_out
from kosambi.learning.rows import Block, choose_blocks
from kosambi.learning.site_evaluator import SiteEvaluator, settled
from tests.cases import cases
from tests.likelihoods.table import CASES, SEVERAL

k, lk = ko.kernels, ko.likelihoods
RNG = np.random.default_rng(11)
X = RNG.uniform(-3.0, 3.0, (24, 2))
KERNEL = k.Matern52([1.0, 1.5], 1.2)
PRIOR = ko.GaussianProcess(KERNEL, 0.1)
DENSITIES = [name for name in (*CASES, *SEVERAL) if name != "Huber"]


def evaluator(likelihood, y, x=X, counts=None, **how):
    given = Model(KERNEL, np.asarray(0.1), likelihood)
    counts = np.ones(len(y)) if counts is None else counts
    return SiteEvaluator(lay_out(given), given, PRIOR, [Block(x, y, counts, likelihood)], **how)


def at_given(likelihood):
    given = Model(KERNEL, np.asarray(0.1), likelihood)
    return lay_out(given).vector(given)


def test_gaussian_noise_has_its_exact_evidence_and_no_update_is_needed():
    y = np.sin(X[:, 0]) + 0.3 * RNG.normal(size=24)
    with jax.enable_x64(True):
        value, _ = evaluator(lk.Gaussian(0.3), y)(at_given(lk.Gaussian(0.3)))
    dense = scipy.stats.multivariate_normal(np.full(24, 0.1), PRIOR.covariance(X) + 0.09 * np.eye(24))
    assert -value == pytest.approx(dense.logpdf(y), rel=1e-10)


def test_observations_left_out_are_those_of_gaussian_noise_in_closed_form():
    y = np.sin(X[:, 0]) + 0.3 * RNG.normal(size=24)
    with jax.enable_x64(True):
        found = evaluator(lk.Gaussian(0.3), y).leave_one_out(at_given(lk.Gaussian(0.3)))
    precision = np.linalg.inv(PRIOR.covariance(X) + 0.09 * np.eye(24))
    miss = (precision @ (y - 0.1)) / np.diag(precision)
    expected = scipy.stats.norm.logpdf(miss, 0.0, np.diag(precision) ** -0.5)
    assert found == pytest.approx(np.mean(expected), rel=1e-9)


def test_observations_left_out_agree_with_fits_to_all_others():
    y = np.sin(X[:, 0]) + 0.3 * RNG.standard_t(3, size=24)
    likelihood, gram = lk.StudentT(3.0, 0.3), PRIOR.covariance(X)
    expected = []
    with jax.enable_x64(True):
        found = evaluator(likelihood, y).leave_one_out(at_given(likelihood))
        for n in range(24):
            others = np.delete(np.arange(24), n)
            rest = np.array(gram[np.ix_(others, others)], order="F")
            q, _ = settled(likelihood, rest, np.full(23, 0.1), y[others], np.ones(23))
            cross = np.linalg.solve(rest, gram[others, n])
            # V = K − K W^½B⁻¹W^½ K at the others, so that f_n given them has their mean and variance carried over.
            mean = 0.1 + cross @ (q.mean[:, 0] - 0.1)
            width = np.diag(1.0 / np.maximum(q.sites.precision[:, 0], 1e-300))
            inner = rest - rest @ np.linalg.solve(rest + width, rest)
            variance = gram[n, n] - cross @ gram[others, n] + cross @ inner @ cross
            expected.append(float(likelihood.log_predictive_density(y[n : n + 1], [mean], [variance**0.5])[0]))
    assert found == pytest.approx(np.mean(expected), abs=0.02)
    # Observations that are not left out look far more probable.
    with jax.enable_x64(True):
        q, _ = settled(likelihood, np.array(gram, order="F"), np.full(24, 0.1), y, np.ones(24))
        seen = likelihood.log_predictive_density(y, q.mean[:, 0], np.sqrt(q.variance[:, 0]))
    assert np.mean(seen) > np.mean(expected) + 0.1


@pytest.mark.parametrize("name", cases(["Bernoulli", "StudentT", "Poisson", "Gamma"], quick=["Bernoulli", "StudentT"]))
def test_below_the_evidence_by_quadrature_and_close_to_it(name):
    case = CASES[name]
    y, x = np.asarray(case.y[:2], dtype=float), np.array([[0.0], [0.4]])
    prior = ko.GaussianProcess(k.SquaredExponential(1.0, 0.8), 0.2)
    gram, mean = np.array(prior.covariance(x), order="F"), np.full(2, 0.2)
    axis = np.linspace(-8.0, 8.0, 801)
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), -1)
    likelihood = np.asarray(case.likelihood.log_density(y, grid)).sum(-1)
    density = scipy.stats.multivariate_normal(mean, gram).logpdf(grid)
    exact = scipy.special.logsumexp(likelihood + density) + 2 * np.log(axis[1] - axis[0])
    with jax.enable_x64(True):
        found, is_settled = settled(case.likelihood, gram, mean, y, np.ones(2))
    assert is_settled
    assert found.bound < exact + 1e-6
    assert exact - found.bound < 0.05
    # A bound with a worse q is lower by more than that.
    assert exact - found.bound < 0.5 * (exact - bound_of(case.likelihood, y, mean, np.diag(np.diag(gram)), mean, gram))


def bound_of(likelihood, y, centre, covariance, mean, gram):
    """The bound of q = N(centre, covariance), by Gauss-Hermite and dense linear algebra."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    f = centre + np.sqrt(np.diag(covariance)) * nodes[:, None]
    expected = (weights / weights.sum()) @ np.asarray(likelihood.log_density(np.broadcast_to(y, f.shape), f))
    solved = np.linalg.solve(gram, covariance)
    away = centre - mean
    divergence = np.trace(solved) + away @ np.linalg.solve(gram, away) - len(y) - np.linalg.slogdet(solved)[1]
    return float(np.sum(expected) - 0.5 * divergence)


@pytest.mark.parametrize("name", cases(["Bernoulli", "StudentT", "Poisson"], quick=["Bernoulli"]))
def test_no_other_normal_distribution_has_a_higher_bound(name):
    case = CASES[name]
    y, x = np.resize(case.y, 3).astype(float), np.array([[0.0], [0.5], [1.5]])
    prior = ko.GaussianProcess(k.SquaredExponential(1.0, 1.3), 0.1)
    gram, mean = np.array(prior.covariance(x), order="F"), np.full(3, 0.1)
    with jax.enable_x64(True):
        found, _ = settled(case.likelihood, gram, mean, y, np.ones(3))
    lower = np.tril_indices(3)

    def objective(flat):
        root = np.zeros((3, 3))
        root[lower] = flat[3:]
        return -bound_of(case.likelihood, y, flat[:3], root @ root.T + 1e-12 * np.eye(3), mean, gram)

    begun = np.concatenate([mean, np.linalg.cholesky(gram)[lower]])
    best = scipy.optimize.minimize(objective, begun, method="BFGS", options={"gtol": 1e-5})
    assert found.bound == pytest.approx(-best.fun, abs=2e-4)


@pytest.mark.parametrize("name", cases(DENSITIES, quick=["Bernoulli", "StudentT", "Categorical", "Poisson"]))
def test_gradient_against_finite_differences(name):
    case = {**CASES, **SEVERAL}[name]
    y, vector = np.resize(case.y, 24).astype(float), at_given(case.likelihood)
    with jax.enable_x64(True):
        evaluate = evaluator(case.likelihood, y)
        alone = evaluate.value(vector)
        value, slope = evaluate(vector)
        assert alone == value
        for i in range(len(vector)):
            step = 1e-3 * np.eye(len(vector))[i]
            difference = (evaluate(vector + step)[0] - evaluate(vector - step)[0]) / 2e-3
            # Sites that cannot be negative leave the best q just missed where a cost is not convex.
            assert slope[i] == pytest.approx(difference, rel=0.01 if case.likelihood.is_convex else 0.05, abs=0.02)


def test_a_density_that_is_drawn_from_is_rough_by_less_than_a_hundredth():
    y, vector = np.resize(CASES["Bernoulli"].y, 24).astype(float), at_given(CASES["Bernoulli"].likelihood)
    with jax.enable_x64(True):
        right, held = (evaluator(CASES["Bernoulli"].likelihood, y) for _ in range(2))
        held.hold(vector, None)
        for seed in range(5):
            other = vector + 0.5 * np.random.default_rng(seed).normal(size=len(vector))
            found = held.value(other)
            assert found != right(other)[0]
            assert found == pytest.approx(right(other)[0], abs=0.01)
            # Whatever was asked before.
            assert held.value(other) == found


def test_an_outlier_has_a_site_that_says_nothing_and_the_gradient_knows():
    y = np.sin(X[:, 0])
    y[3] = 30.0
    likelihood = lk.StudentT(3.0, 0.1)
    with jax.enable_x64(True):
        gram, mean = np.array(PRIOR.covariance(X), order="F"), np.full(24, 0.1)
        found, is_settled = settled(likelihood, gram, mean, y, np.ones(24))
        assert is_settled
        assert found.sites.precision[3, 0] < 0.1
        assert abs(found.mean[3, 0]) < 2.0
        evaluate = evaluator(likelihood, y)
        value, slope = evaluate(at_given(likelihood))
        assert np.isfinite(value)
        for i in range(len(slope)):
            step = 1e-3 * np.eye(len(slope))[i]
            vector = at_given(likelihood)
            difference = (evaluate(vector + step)[0] - evaluate(vector - step)[0]) / 2e-3
            assert slope[i] == pytest.approx(difference, rel=0.01, abs=0.02)


def test_a_row_that_counts_twice_is_two_rows_and_one_that_counts_for_nothing_is_none():
    y = (np.sin(X[:, 0]) + RNG.logistic(size=24) > 0).astype(float)
    counts = np.resize([1.0, 2.0, 0.0], 24)
    number, spoiled = counts.astype(int), np.where(counts > 0, y, 1.0 - y)
    vector = at_given(lk.Bernoulli())
    with jax.enable_x64(True):
        long = evaluator(lk.Bernoulli(), np.repeat(y, number), np.repeat(X, number, axis=0))(vector)
        for some in (y, spoiled):
            short = evaluator(lk.Bernoulli(), some, counts=counts)(vector)
            assert short[0] == pytest.approx(long[0], abs=1e-5)
            np.testing.assert_allclose(short[1], long[1], atol=1e-3)


def test_blocks_are_disjoint_local_and_random_and_cover_what_there_is():
    rng, x = np.random.default_rng(0), np.random.default_rng(1).uniform(size=(1000, 2))
    first, pool = np.arange(0, 1000, 4), np.arange(990)
    blocks = choose_blocks(rng, x, first[first < 990], pool, 8)
    rows = np.concatenate(blocks)
    assert len(rows) == len(np.unique(rows)) == 990
    spreads = [np.mean(np.std(x[block], axis=0)) for block in blocks]
    assert min(spreads) < 0.8 * max(spreads)
    assert len(choose_blocks(rng, x, first, pool, 2)) == 2
    assert choose_blocks(rng, x, pool, pool, 8) == (pool,)


def test_two_blocks_are_two_data_sets():
    y = (np.sin(X[:, 0]) > 0).astype(float)
    given = Model(KERNEL, np.asarray(0.1), lk.Bernoulli())
    ones = np.ones(12)
    halves = [Block(X[part], y[part], ones, lk.Bernoulli()) for part in (slice(0, 12), slice(12, 24))]
    vector = at_given(lk.Bernoulli())
    with jax.enable_x64(True):
        evaluate = SiteEvaluator(lay_out(given), given, PRIOR, halves)
        both = evaluate(vector)
        assert evaluate.value(vector) == pytest.approx(both[0], rel=1e-9)
        one = [evaluator(lk.Bernoulli(), half.y, half.x)(vector) for half in halves]
    assert both[0] == pytest.approx(one[0][0] + one[1][0], rel=1e-9)
    np.testing.assert_allclose(both[1], one[0][1] + one[1][1], rtol=1e-6, atol=1e-8)


def test_rows_without_prior_variance_are_no_obstacle():
    x = np.linspace(-2.0, 2.0, 41)[:, None]
    y = (x[:, 0] + 0.3 * np.random.default_rng(2).normal(size=41) > 0).astype(float)
    _, _, report = ko.fit_hyperparameters(jax.random.key(0), k.Linear(), lk.Bernoulli(), x, y, num_restarts=0)
    assert report.strategy == "sites"
    assert np.isfinite(report.log_evidence)


def test_three_classes_settle_in_few_updates_with_a_wide_prior(monkeypatch):
    """Their sum is seen by no observation, and plain updates take it to its end in hundreds."""
    generator = np.random.default_rng(5)
    x = generator.normal(size=(40, 2))
    y = np.argmax(x @ np.array([[1.0, -1.0, 0.0], [0.0, 0.5, -0.5]]) + generator.gumbel(size=(40, 3)), axis=1)
    gram = np.asfortranarray(PRIOR.covariance(x) * 30.0)
    fits = []
    plain = dense._fitted
    monkeypatch.setattr(dense, "_fitted", lambda *args: fits.append(plain(*args)) or fits[-1])
    with jax.enable_x64(True):
        found, has_settled = settled(lk.Categorical(3), gram, np.zeros(40), y.astype(float), np.ones(40))
        quick = len(fits)
        monkeypatch.setattr(sites, "_MEMORY", 1)
        slow, _ = settled(lk.Categorical(3), gram, np.zeros(40), y.astype(float), np.ones(40))
    assert has_settled
    assert quick < len(fits) - quick
    assert found.bound >= slow.bound - 1e-6


@pytest.mark.parametrize("name", ["labels", "outliers", "several"])
def test_the_bound_on_an_accelerator_is_that_of_the_host(name, monkeypatch):
    """With sites of precision zero, an outlier whose curvature is negative, and rows that do not count."""
    f = np.sin(X[:, 0])
    likelihood, y = {
        "labels": (lk.Bernoulli(), (f > 0).astype(float)),
        "outliers": (lk.StudentT(3.0, 0.1), np.where(np.arange(24) == 6, 6.0, f)),
        "several": (lk.HeteroscedasticGaussian(), f + 0.2 * RNG.normal(size=24)),
    }[name]
    counts = np.where(np.arange(24) % 5 == 0, 0.0, 1.0)
    vector = at_given(likelihood)
    with jax.enable_x64(True):
        host = evaluator(likelihood, y, counts=counts)
        right, right_slope = host(vector)
        gram, mean = np.array(PRIOR.covariance(X), order="F"), np.full(24, 0.1)
        curvature = settled(likelihood, gram, mean, y, counts)[0].curvature
        assert np.any(curvature < -0.01) == (name == "outliers")
        monkeypatch.setattr(site_evaluator, "is_for_device", lambda _: True)
        found, slope = evaluator(likelihood, y, counts=counts)(vector)
    assert found == pytest.approx(right, abs=1e-7)
    np.testing.assert_allclose(slope, right_slope, atol=1e-5)


def test_sites_of_another_kernel_that_are_far_off_are_begun_again():
    """Noise of e⁻³⁰ at some rows: no part of an update helps, and the search is to see neither that nor its slope."""
    likelihood = lk.HeteroscedasticGaussian()
    y = np.sin(X[:, 0]) + 0.2 * RNG.normal(size=24)
    gram, mean = np.array(PRIOR.covariance(X), order="F"), np.full(24, 0.1)
    with jax.enable_x64(True):
        right, has_settled = settled(likelihood, gram, mean, y, np.ones(24))
        assert has_settled
        off = sites.Sites(np.full((24, 2), 50.0), np.stack([50.0 * y, np.full(24, -1500.0)], axis=1))
        found, has_settled = settled(likelihood, gram, mean, y, np.ones(24), off)
    assert has_settled
    assert found.bound == pytest.approx(right.bound, abs=1e-3)
    stuck = right._replace(bound=-1e30, pull=1e40)
    assert sites.settle(lambda _: stuck, lambda: off, off)[0].bound == -np.inf


def test_counts_far_from_their_sites_settle_in_few_updates(monkeypatch):
    """Under an exponential plain updates overshoot: halving them until the bound rises took ninety fits."""
    rng = np.random.default_rng(5)
    y = rng.negative_binomial(2.0, 0.02, size=24).astype(float)
    likelihood, fits = lk.NegativeBinomial(2.0), []
    real = dense._fitted
    monkeypatch.setattr(dense, "_fitted", lambda *args: fits.append(1) or real(*args))
    with jax.enable_x64(True):
        gram, mean = np.array(4.0 * PRIOR.covariance(X), order="F"), np.full(24, -6.0)
        far = sites.Sites(np.full((24, 1), 1e-3), np.full((24, 1), -1e-2))
        found, has_settled = settled(likelihood, gram, mean, y, np.ones(24), far)
        number = len(fits)
        right, _ = settled(likelihood, gram, mean, y, np.ones(24))
    assert has_settled
    assert found.bound == pytest.approx(right.bound, abs=1e-4)
    assert number < 40
