from __future__ import annotations

import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import kosambi as ko
from kosambi.errors import InputError
from kosambi.target.data_terms import FactorisedTerm
from tests.cases import cases
from tests.likelihoods.table import CASES, SEVERAL
from tests.likelihoods.test_likelihoods import quad

k, lk = ko.kernels, ko.likelihoods
X = np.random.default_rng(3).uniform(-2.0, 2.0, (24, 1))
Z = np.array([[-1.8], [-0.6], [0.5], [1.7]])
ELEMENT = ko.GaussianRandomElement(k.Matern32(0.8, 1.5), ko.measures.empirical(X), mean=0.2)
PROCESS = ko.GaussianProcess(k.Matern52(0.9, 1.2), mean=0.2)
BASES = {
    "Nystrom": ko.NystromBasis(ELEMENT, Z),
    "Ritz": ko.RitzBasis(ELEMENT, Z),
    "Inducing": ko.InducingBasis(ELEMENT, Z),
    "Point": ko.PointBasis(PROCESS, Z),
}


def observations(case):
    return np.resize(case.y, len(X))


def particles(shape, basis, seed=0):
    w = np.random.default_rng(seed).normal(size=(5, *shape))
    coloured = basis.colour(w) if len(shape) == 1 else np.moveaxis(basis.colour(np.moveaxis(w, 2, 1)), 1, 2)
    return 1.3 * coloured


def plain_potential(case, basis, y, u, weights=None):
    """Σ c + ½ uᵀΛ⁻¹u in NumPy, one datum at a time."""
    weights = np.ones(len(y)) if weights is None else weights
    f = 0.2 + basis.conditional_mean(X) @ u
    data = sum(-w * case.log_density(a, b) for w, a, b in zip(weights, y, f, strict=True))
    return data + 0.5 * np.sum(u * np.linalg.solve(basis.covariance, u))


# The sum over the data knows nothing of the basis: every likelihood with one of them, and some with all.
WITH_ALL = ("Gaussian", "Bernoulli", "Categorical")


@pytest.mark.parametrize(
    ("name", "basis"),
    cases(
        [*CASES, *SEVERAL],
        BASES,
        quick=[
            f"{name}-{basis}" for name in [*CASES, *SEVERAL] for basis in BASES if basis == "Point" or name in WITH_ALL
        ],
    ),
)
def test_projected_is_the_papers_potential_for_every_basis(name, basis):
    case, basis = {**CASES, **SEVERAL}[name], BASES[basis]
    y = observations(case)
    target = ko.Target(basis, case.likelihood, X, y, "projected")
    u = particles(target.shape, basis)
    expected = [plain_potential(case, basis, y, one) for one in u]
    np.testing.assert_allclose(target.potential(u), expected, rtol=1e-10)
    np.testing.assert_allclose(target.potential(u[0]), expected[0], rtol=1e-10)


# Derivatives of each cost are those of tests/likelihoods; here some stand for all.
QUICK = ("Gaussian", "StudentT", "Laplace", "Bernoulli", "Poisson, square", "Custom", "Categorical")


@pytest.mark.parametrize("name", cases([*CASES, *SEVERAL], quick=QUICK))
def test_gradient_against_finite_differences(name):
    case = {**CASES, **SEVERAL}[name]
    target = ko.Target(BASES["Point"], case.likelihood, X, observations(case), "projected")
    u = particles(target.shape, BASES["Point"])
    step, value = 1e-5, target.potential
    gradient = target.gradient(u)
    for index in np.ndindex(*target.shape):
        shift = np.zeros(target.shape)
        shift[index] = step
        numeric = (value(u + shift) - value(u - shift)) / (2 * step)
        np.testing.assert_allclose(gradient[(slice(None), *index)], numeric, rtol=1e-5, atol=1e-5)
    both = target.value_and_gradient(u)
    np.testing.assert_allclose(both[0], value(u), rtol=1e-12)
    np.testing.assert_allclose(both[1], gradient, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", cases([*CASES, *SEVERAL], quick=QUICK))
def test_curvature_is_positive_and_the_hessian_of_convex_costs(name):
    case = {**CASES, **SEVERAL}[name]
    target = ko.Target(BASES["Point"], case.likelihood, X, observations(case), "projected")
    u = particles(target.shape, BASES["Point"])[0]
    curvature = target.curvature(u)
    assert np.linalg.eigvalsh(curvature)[0] > 0
    if case.likelihood.is_convex and name not in ("Laplace", "Huber"):
        with jax.enable_x64(True):
            hessian = jax.jit(jax.hessian(target.potential))(u).reshape(curvature.shape)
        np.testing.assert_allclose(curvature, hessian, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(
    ("name", "basis"),
    cases(CASES, ["Ritz", "Point"], quick=[f"{name}-Point" for name in QUICK if name in CASES]),
)
def test_optimal_is_the_expectation_over_the_residual(name, basis):
    case, basis, x = CASES[name], BASES[basis], X[:4]
    y = observations(case)[:4]
    target = ko.Target(basis, case.likelihood, x, y, potential="optimal")
    u = particles(target.shape, basis)[:2]
    deviation = np.sqrt(basis.residual_variance(x))
    for one in u[:1]:
        mean = 0.2 + basis.conditional_mean(x) @ one
        cost = 0.0
        for a, b, s in zip(y, mean, deviation, strict=True):
            breaks = [0.0, a, a - 1.2 * 0.8, a + 1.2 * 0.8]
            cost += quad(lambda f: -case.log_density(a, f), b, s, breaks)
        expected = cost + 0.5 * one @ np.linalg.solve(basis.covariance, one)
        np.testing.assert_allclose(target.potential(one), expected, rtol=1e-7)
    step = 1e-5
    direction = np.random.default_rng(1).normal(size=target.shape)
    numeric = (target.potential(u + step * direction) - target.potential(u - step * direction)) / (2 * step)
    np.testing.assert_allclose(target.gradient(u) @ direction, numeric, rtol=1e-5, atol=1e-5)
    assert np.linalg.eigvalsh(target.curvature(u[0]))[0] > 0
    if name not in ("Huber", "Laplace", "Custom"):
        assert np.all(target.quadrature_error(u) < 1e-7)


def test_optimal_with_several_latent_functions(rng):
    """Against a plain Monte Carlo average, to its standard error."""
    basis = BASES["Ritz"]
    for case in SEVERAL.values():
        y = observations(case)
        target = ko.Target(basis, case.likelihood, X, y, potential="optimal")
        u = particles(target.shape, basis)[0]
        mean, deviation = 0.2 + basis.conditional_mean(X) @ u, np.sqrt(basis.residual_variance(X))
        noise = rng.normal(size=(20_000, *mean.shape))
        costs = case.likelihood.cost(y, mean + deviation[:, None] * noise).sum(axis=1)
        expected = costs.mean() + 0.5 * np.sum(u * np.linalg.solve(basis.covariance, u))
        assert abs(target.potential(u) - expected) < 4 * costs.std() / np.sqrt(len(costs))


def test_gaussian_potentials_differ_by_the_trace_term(rng):
    noise = rng.uniform(0.3, 1.0, len(X))
    for basis in (BASES["Ritz"], BASES["Point"]):
        for likelihood in (lk.Gaussian(0.4), lk.Gaussian(noise)):
            pair = [ko.Target(basis, likelihood, X, X[:, 0], potential=kind) for kind in ("projected", "optimal")]
            u = particles(pair[0].shape, basis)
            trace = 0.5 * np.sum(basis.residual_variance(X) / np.broadcast_to(likelihood.noise, len(X)) ** 2)
            values = [target.potential(u) for target in pair]
            assert np.all(np.abs(values[1] - values[0] - trace) < 1e-12 * np.abs(values[1]))


def test_the_gaussian_potential_keeps_its_digits_when_the_noise_is_small(rng):
    basis = BASES["Point"]
    u = particles((4,), basis)[0]
    mean = 0.2 + basis.conditional_mean(X) @ u
    for noise in (1e-1, 1e-3, 1e-5):
        y = mean + noise * rng.normal(size=len(X))
        expected = -scipy.stats.norm.logpdf(y, mean, noise).sum() + 0.5 * u @ np.linalg.solve(basis.covariance, u)
        value = ko.Target(basis, lk.Gaussian(noise), X, y).potential(u)
        # y itself carries a rounding error of 1e-16, which the noise turns into 1e-16/noise.
        np.testing.assert_allclose(value, expected, rtol=1e-10 + 1e-15 / noise)


def test_optimal_gradients_are_finite_in_single_precision_far_out():
    prior = ko.GaussianProcess(k.Matern52(variance=169.0))
    basis = ko.PointBasis(prior, [[0.0], [0.5]])
    target = ko.Target(basis, lk.Bernoulli(), [[1.5]], [1.0], "optimal")
    assert np.all(np.isfinite(jax.jit(target.gradient)(np.array([-300.0, -300.0], dtype=np.float32))))


def test_no_particles_give_no_values():
    target = ko.Target(BASES["Point"], lk.Bernoulli(), X, np.ones(len(X)), "projected")
    assert target.potential(np.zeros((0, 4))).shape == (0,)


def test_the_gaussian_shortcut_holds_no_data():
    target = ko.Target(BASES["Point"], lk.Gaussian(0.4), X, X[:, 0])
    assert all(len(X) not in np.shape(leaf) for leaf in jax.tree.leaves(target.term))


@pytest.mark.parametrize(
    "name",
    cases(
        [name for name, case in CASES.items() if case.likelihood.is_convex], quick=["Gaussian", "Bernoulli", "Laplace"]
    ),
)
def test_jensen(name):
    case, basis = CASES[name], BASES["Ritz"]
    pair = [ko.Target(basis, case.likelihood, X, observations(case), kind) for kind in ("projected", "optimal")]
    u = basis.colour(2.0 * np.random.default_rng(2).normal(size=(1000, basis.size)))
    projected, optimal = (target.potential(u) for target in pair)
    assert np.all(optimal >= projected - 1e-12 * (1 + np.abs(projected)))


def test_weights_count_data(rng):
    case, basis = CASES["StudentT"], BASES["Point"]
    y, weights = observations(case), rng.integers(0, 3, len(X)).astype(float)
    u = particles((4,), basis)
    for likelihood_name in ("StudentT", "Gaussian"):
        case = CASES[likelihood_name]
        weighted = ko.Target(basis, case.likelihood, X, y, "projected", weights=weights)
        repeated = np.repeat(np.arange(len(X)), weights.astype(int))
        expected = ko.Target(basis, case.likelihood, X[repeated], y[repeated], "projected")
        np.testing.assert_allclose(weighted.potential(u), expected.potential(u), rtol=1e-11)
        np.testing.assert_allclose(weighted.gradient(u), expected.gradient(u), rtol=1e-9, atol=1e-10)
        np.testing.assert_allclose(weighted.curvature(u[0]), expected.curvature(u[0]), rtol=1e-9)


def test_a_datum_of_weight_zero_is_absent_even_where_its_cost_is_infinite():
    weights = np.ones(len(X))
    weights[3] = 0.0
    y = np.ones(len(X))
    target = ko.Target(BASES["Point"], lk.Poisson(), X, y, "projected", weights=weights)
    u = np.zeros((2, 4))
    u[1] = 1e4
    assert np.isfinite(target.potential(u[0]))
    assert target.potential(u[1]) == np.inf
    assert np.all(np.isfinite(target.gradient(u)))


def test_square_link_gradients_are_never_nan():
    prior = ko.GaussianProcess(k.Matern52())
    target = ko.Target(ko.PointBasis(prior, Z), lk.Poisson(link="square"), X, np.arange(len(X)) % 3)
    assert target.potential(np.zeros(4)) == np.inf
    assert not np.any(np.isnan(target.gradient(np.zeros((1, 4)))))


@pytest.mark.parametrize("name", ["Bernoulli", "Gaussian", "Categorical"])
def test_transformations_of_the_potential(name, x64):
    case, tolerance = {**CASES, **SEVERAL}[name], 1e-9 if x64 else 2e-4
    target = ko.Target(BASES["Ritz"], case.likelihood, X, observations(case), "projected")
    u = particles(target.shape, BASES["Ritz"])
    value, gradient = target.potential(u), target.gradient(u)
    scale = np.abs(gradient).max()
    np.testing.assert_allclose(jax.jit(target.potential)(u[0]), value[0], rtol=tolerance)
    np.testing.assert_allclose(jax.jit(target.potential)(u), value, rtol=tolerance)
    np.testing.assert_allclose(jax.jit(jax.vmap(target.potential))(u), value, rtol=tolerance)
    np.testing.assert_allclose(jax.jit(jax.grad(target.potential))(u[0]), gradient[0], atol=tolerance * scale)
    summed = jax.jit(jax.grad(lambda v: jnp.sum(target.potential(v))))(u)
    np.testing.assert_allclose(summed, gradient, atol=tolerance * scale)
    along = jax.jit(lambda v: jax.jvp(target.potential, (v,), (jnp.ones(target.shape),))[1])
    slope = along(jnp.asarray(u[0]))
    np.testing.assert_allclose(slope, gradient[0].sum(), atol=4 * tolerance * scale)
    # Direct calls afterwards are still in double precision.
    assert target.potential(u).tobytes() == value.tobytes()


def test_one_compilation_for_all_u_of_a_shape():
    traces = []

    def cost(y, f):
        traces.append(1)
        return jnp.log(jnp.cosh(y - f))

    target = ko.Target(BASES["Ritz"], lk.Custom(cost), X, X[:, 0], "projected")
    u = particles(target.shape, BASES["Ritz"])
    target.gradient(u)
    count = len(traces)
    for scale in (0.5, 2.0, 3.0):
        target.gradient(scale * u)
    assert len(traces) == count


@pytest.mark.parametrize("kind", ["projected", "optimal"])
def test_blocks_of_rows_change_nothing(kind, monkeypatch):
    for name in ("Bernoulli", "Categorical"):
        case = {**CASES, **SEVERAL}[name]
        weights = np.linspace(0, 1, len(X))
        target = ko.Target(BASES["Ritz"], case.likelihood, X, observations(case), kind, weights=weights)
        u = particles(target.shape, BASES["Ritz"])
        whole = target.value_and_gradient(u)
        traced, over_blocks = [], FactorisedTerm._over_blocks
        record = lambda self, *given: (traced.append(self.psi.shape), over_blocks(self, *given))[1]
        monkeypatch.setattr(FactorisedTerm, "_over_blocks", record)
        monkeypatch.setattr("kosambi.target.data_terms.MAX_LATENT_VALUES", 37)
        monkeypatch.setattr("kosambi.target.data_terms.MAX_LATENT_VALUES_QUADRATURE", 37)
        # Seven particles are a shape that nothing has been compiled for, so that the limit counts.
        seven = np.concatenate([u, u[:2]])
        for a, b in zip(whole, target.value_and_gradient(seven), strict=True):
            np.testing.assert_allclose(a, b[:5], rtol=1e-12, atol=1e-12)
        assert traced
        traced.clear()
        np.testing.assert_allclose(target.potential(seven)[:5], whole[0], rtol=1e-12)
        assert traced
        monkeypatch.undo()


def test_a_joint_loss():
    basis = BASES["Ritz"]
    for loss in (lambda y, f: jnp.logaddexp(0.0, jnp.sum((y - f) ** 2)), lambda f: jnp.max(f) ** 2):
        target = ko.Target(basis, lk.CustomJoint(loss), X, X[:, 0])
        u = particles(target.shape, basis)
        f = 0.2 + u @ basis.conditional_mean(X).T
        with jax.enable_x64(True):
            data = [loss(X[:, 0], row) if target.likelihood.takes_observations else loss(row) for row in f]
        prior = 0.5 * np.sum(u * np.linalg.solve(basis.covariance, u.T).T, axis=1)
        np.testing.assert_allclose(target.potential(u), np.array(data) + prior, rtol=1e-10)
        step, direction = 1e-6, np.ones(4)
        numeric = (target.potential(u + step * direction) - target.potential(u - step * direction)) / (2 * step)
        np.testing.assert_allclose(target.gradient(u) @ direction, numeric, rtol=1e-6, atol=1e-6)
        assert np.linalg.eigvalsh(target.curvature(u[0]))[0] > 0


def test_pickle_is_bit_identical():
    case = CASES["StudentT"]
    target = ko.Target(BASES["Ritz"], case.likelihood, X, observations(case), "optimal")
    copy = pickle.loads(pickle.dumps(target))
    u = particles(target.shape, BASES["Ritz"])
    assert copy.potential(u).tobytes() == target.potential(u).tobytes()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ko.Target(PROCESS, lk.Gaussian(), X, X[:, 0]), "needs a basis first"),
        (lambda: ko.Target(BASES["Point"], "gaussian", X, X[:, 0]), "needs a likelihood"),
        (lambda: ko.Target(BASES["Point"], lk.Gaussian(), X, X[:5, 0]), "5 entries for 24 rows"),
        (lambda: ko.Target(BASES["Point"], lk.Gaussian([1.0, 2.0]), X, X[:, 0]), "noise.*2 entries for 24 rows"),
        (lambda: ko.Target(BASES["Point"], lk.Gaussian(), np.hstack([X, X]), X[:, 0]), "2 columns, but 1"),
        (lambda: ko.Target(BASES["Point"], lk.Gaussian(), X, np.full(24, np.nan)), "finite"),
        (lambda: ko.Target(BASES["Point"], lk.Bernoulli(), X, X[:, 0]), r"in \{0, 1\}"),
        (lambda: ko.Target(BASES["Point"], lk.Poisson(), X, np.full(24, 2.4)), "counts"),
        (lambda: ko.Target(BASES["Point"], lk.Gaussian(), X, X[:, 0], "best"), r'"optimal", "neighbors" or "auto"'),
        (lambda: ko.Target(BASES["Nystrom"], lk.Gaussian(), X, X[:, 0], "optimal"), "Use `RitzBasis` or `PointBasis`"),
        (
            lambda: ko.Target(BASES["Ritz"], lk.CustomJoint(lambda y, f: jnp.sum(f)), X, X[:, 0], "optimal"),
            "N-dimensional integral",
        ),
        (lambda: ko.Target(BASES["Point"], lk.Gaussian(), X, X[:, 0], weights=[1.0]), r"weights.*\(24,\)"),
        (lambda: ko.Target(BASES["Point"], lk.Gaussian(), X, X[:, 0], weights=-np.ones(24)), "not negative"),
        (lambda: ko.Target(BASES["Point"], lk.Gaussian(), X, X[:, 0]).potential(np.ones(3)), r"\(4,\) or \(J, 4\)"),
        (lambda: ko.Target(BASES["Point"], lk.Gaussian(), X, X[:, 0]).curvature(np.ones((2, 4))), "one u"),
        (lambda: ko.Target(BASES["Point"], lk.Gaussian(), X, X[:, 0]).potential(["a"] * 4), "must hold numbers"),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_auto_takes_the_optimal_potential_where_the_points_leave_much_open():
    labels = (X[:, 0] > 0).astype(float)
    wide = ko.GaussianProcess(k.Matern52(0.5, 4.0))
    for basis, kind in ((ko.PointBasis(wide, Z), "optimal"), (ko.PointBasis(wide, X), "projected")):
        target = ko.Target(basis, lk.Bernoulli(), X, labels, potential="auto")
        rough = np.asarray(lk.Bernoulli().raw_rough_latent(labels))
        slope = scipy.stats.logistic.pdf(rough)
        left_open = 0.5 * np.mean(slope * np.asarray(basis.residual_variance(X)))
        assert (left_open > 0.02) == (kind == "optimal")
        assert target.kind == kind
        named = ko.Target(basis, lk.Bernoulli(), X, labels, potential=kind)
        u = particles(target.shape, basis)
        np.testing.assert_allclose(target.potential(u), named.potential(u), rtol=1e-5)
    few = ko.PointBasis(wide, Z)
    assert ko.Target(few, lk.Gaussian(0.1), X, X[:, 0], potential="auto").kind == "projected"
    assert ko.Target(BASES["Nystrom"], lk.Bernoulli(), X, labels, potential="auto").kind == "projected"
    # Here thousands of nodes would be needed.
    assert ko.Target(few, lk.StudentT(3.0, 1e-3), X, X[:, 0], potential="auto").kind == "projected"
    # Rows that count nothing say nothing.
    counts = np.where(np.abs(X - Z.T).min(axis=1) < 0.1, 1.0, 1e-12)
    assert ko.Target(few, lk.Bernoulli(), X, labels, potential="auto", weights=counts).kind == "projected"


@pytest.mark.slow
def test_a_search_finds_the_mode_of_the_optimal_potential_with_heavy_tails(rng):
    x = np.linspace(-3.0, 3.0, 120)[:, None]
    y = 2.0 * np.sin(2.0 * x[:, 0]) + 0.03 * rng.standard_t(1.5, size=120)
    basis = ko.PointBasis(ko.GaussianProcess(k.SquaredExponential(0.7, 4.0)), x[::10])
    projected = ko.Target(basis, lk.StudentT(1.5, 0.02), x, y, "projected")
    optimal = projected.with_potential("optimal")
    near = ko.target.find_modes(jax.random.key(0), projected)
    found = ko.target.find_modes(jax.random.key(0), optimal)
    assert found.converged[0]
    # Data that are far from a flat function at first must pull it; a search that lets them go ends hundreds higher.
    assert float(np.min(found.potentials)) <= float(optimal.potential(basis.colour(near.positions[0])))
