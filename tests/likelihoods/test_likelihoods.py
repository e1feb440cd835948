from __future__ import annotations

import itertools
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate
import scipy.stats

import kosambi as ko
from kosambi.errors import InputError
from kosambi.likelihoods.quadrature import finer
from tests.cases import cases
from tests.likelihoods.table import CASES, SEVERAL

lk = ko.likelihoods
EXTREME = np.array([-1e3, -700.0, -50.0, 50.0, 700.0, 1e3])


def grid(case):
    """Every y with every f, as two vectors."""
    y, f = np.meshgrid(case.y, case.f, indexing="ij")
    return y.ravel(), f.ravel()


def test_the_table_holds_every_likelihood():
    assert set(lk.TABLE) == {name.split(",")[0] for name in [*CASES, *SEVERAL]} | {"CustomJoint"}


@pytest.mark.parametrize("name", CASES)
def test_cost_and_derivatives_against_scipy_and_finite_differences(name, x64):
    case = CASES[name]
    y, f = grid(case)
    expected = np.array([-case.log_density(a, b) for a, b in zip(y, f, strict=True)])
    np.testing.assert_allclose(case.likelihood.cost(y, f), expected, rtol=1e-10, atol=1e-12)
    step = 1e-5
    cost = case.likelihood.cost
    np.testing.assert_allclose(
        case.likelihood.derivative(y, f), (cost(y, f + step) - cost(y, f - step)) / (2 * step), rtol=1e-6, atol=1e-7
    )
    slope = case.likelihood.derivative
    second = (slope(y, f + step) - slope(y, f - step)) / (2 * step)
    np.testing.assert_allclose(case.likelihood.second_derivative(y, f), second, rtol=1e-5, atol=1e-6)
    assert np.all(case.likelihood.curvature(y, f) >= 0)
    if case.likelihood.is_convex:
        assert np.all(second >= -1e-6)
        if name != "Laplace":
            np.testing.assert_allclose(case.likelihood.curvature(y, f), second, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", SEVERAL)
def test_several_latent_functions_against_scipy_and_finite_differences(name, rng):
    case = SEVERAL[name]
    likelihood, size = case.likelihood, case.likelihood.num_latents
    y, f = np.repeat(case.y, 4), rng.normal(size=(4 * len(case.y), size))
    expected = [-case.log_density(a, b) for a, b in zip(y, f, strict=True)]
    np.testing.assert_allclose(likelihood.cost(y, f), expected, rtol=1e-12)
    step = 1e-5
    for c in range(size):
        shift = step * np.eye(size)[c]
        numeric = (likelihood.cost(y, f + shift) - likelihood.cost(y, f - shift)) / (2 * step)
        np.testing.assert_allclose(likelihood.derivative(y, f)[:, c], numeric, rtol=1e-6, atol=1e-8)
        numeric = (likelihood.derivative(y, f + shift) - likelihood.derivative(y, f - shift)) / (2 * step)
        np.testing.assert_allclose(likelihood.second_derivative(y, f)[:, c], numeric, rtol=1e-5, atol=1e-7)
    assert np.all(np.linalg.eigvalsh(likelihood.curvature(y, f)) > -1e-12)


def test_the_negative_binomial_of_the_table_is_scipys():
    for y, f in [(0.0, -1.0), (3.0, 0.5), (7.0, 2.0)]:
        expected = scipy.stats.nbinom.logpmf(y, 2.5, 1 / (1 + 0.4 * np.exp(f)))
        np.testing.assert_allclose(CASES["NegativeBinomial"].log_density(y, f), expected, rtol=1e-12)


@pytest.mark.parametrize("name", [name for name in CASES if name != "Custom"])
def test_extreme_values_give_no_nan(name):
    case = CASES[name]
    for y in case.y:
        for f in EXTREME:
            values = [getattr(case.likelihood, call)([y], [f])[0] for call in ("cost", "derivative", "curvature")]
            assert not np.any(np.isnan(values)), (y, f, values)
            if not (case.overflows and abs(f) > 700):
                assert np.all(np.isfinite(values)), (y, f, values)
            assert values[2] >= 0


@pytest.mark.parametrize("name", SEVERAL)
def test_extreme_values_of_several_latent_functions_give_no_nan(name):
    case = SEVERAL[name]
    size = case.likelihood.num_latents
    for y in [*case.y, 0.0]:
        for f in np.stack(np.meshgrid(*[[-1e3, -350.0, 0.0, 700.0, 1e3]] * size), -1).reshape(-1, size):
            for call in ("cost", "derivative", "curvature"):
                assert not np.any(np.isnan(getattr(case.likelihood, call)([y], [f]))), (call, y, f)


def test_square_link_at_zero():
    square = lk.Poisson(link="square")
    assert square.cost([3.0], [0.0])[0] == np.inf
    assert square.cost([0.0], [0.0])[0] == 0.0
    assert np.all(np.isfinite(square.derivative([0.0, 3.0, 3.0], [0.0, 0.0, 1e-200])))
    assert square.derivative([3.0], [1e-3])[0] < 0 < square.derivative([3.0], [-1e-3])[0]


def test_figures_of_the_papers_costs():
    f = np.array([4.1, -9.3])
    gaussian = lk.Gaussian(1.0)
    quadratic = gaussian.cost([2.4, -2.3], f).sum() - gaussian.cost([0.0, 0.0], [0.0, 0.0]).sum()
    np.testing.assert_allclose(quadratic, 25.945, rtol=1e-12)
    np.testing.assert_allclose(gaussian.derivative([2.4, -2.3], f), [1.7, -7.0], rtol=1e-12)
    square, y = lk.Poisson(link="square"), np.array([2.4, 2.3])
    factorial = scipy.special.gammaln(y + 1).sum()
    np.testing.assert_allclose(square.cost(y, f).sum() - factorial, 86.26919629, rtol=1e-9)
    np.testing.assert_allclose(square.derivative(y, f), [7.029268293, -18.10537634], rtol=1e-9)
    np.testing.assert_allclose(lk.StudentT(3.0, 1.0).derivative(y, f), [1.154499151, -0.3373073568], rtol=1e-9)
    bernoulli, f = lk.Bernoulli(), np.array([0.1, 0.9])
    np.testing.assert_allclose(bernoulli.cost([0.0, 1.0], f).sum(), 1.085550535, rtol=1e-9)
    np.testing.assert_allclose(bernoulli.derivative([0.0, 1.0], f), [0.5249791875, -0.2890504974], rtol=1e-9)


def quad(function, mean, deviation, breaks):
    """E function(mean + deviation ξ) by adaptive quadrature, split at the given values of f."""
    edges = sorted({-12.0, 12.0, *(float(np.clip((b - mean) / deviation, -12, 12)) for b in breaks)})
    value = lambda z: function(mean + deviation * z) * scipy.stats.norm.pdf(z)
    pieces = [
        scipy.integrate.quad(value, a, b, epsabs=1e-13, epsrel=1e-12, limit=400)[0]
        for a, b in itertools.pairwise(edges)
    ]
    return sum(pieces)


@pytest.mark.parametrize(
    ("name", "factor"),
    cases(CASES, [0.1, 1.0, 3.0], quick=["Bernoulli-0.1", "Laplace-0.1", *(f"{name}-3.0" for name in CASES)]),
)
def test_expected_cost_against_adaptive_quadrature(name, factor):
    case, deviation = CASES[name], factor * CASES[name].scale
    for y in case.y:
        for mean in (-2.3, 0.05, 1.4):
            breaks = [0.0, y, y - 1.2 * 0.8, y + 1.2 * 0.8]
            cost = lambda f: -case.log_density(y, f)
            expected = quad(cost, mean, deviation, breaks)
            value = case.likelihood.expected_cost([y], [mean], [deviation])[0]
            np.testing.assert_allclose(value, expected, rtol=1e-7, atol=1e-7)


def test_expected_cost_of_the_squared_link_in_both_regimes():
    square = lk.Poisson(link="square")
    for mean, deviation in [(0.0, 1.0), (10.9, 1.0), (11.0, 1.0), (50.0, 0.3), (-8.0, 0.7), (1e-3, 1e-6)]:
        breaks = [0.0]
        expected = quad(lambda f: f**2 - 4.0 * np.log(abs(f)), mean, deviation, breaks) + np.log(2.0)
        np.testing.assert_allclose(square.expected_cost([2.0], [mean], [deviation]), [expected], rtol=1e-9)


@pytest.mark.parametrize("name", CASES)
def test_expected_derivative_is_the_derivative_of_the_expected_cost(name):
    case, step = CASES[name], 1e-5
    likelihood = case.likelihood
    y, mean = grid(case)
    deviation = np.full_like(y, 1.3 * case.scale)
    rule = likelihood.rule(deviation)
    with jax.enable_x64(True):
        slope = jax.jit(likelihood.raw_expected_derivative)(y, mean, deviation, rule)
    expected = likelihood.expected_cost
    numeric = (expected(y, mean + step, deviation) - expected(y, mean - step, deviation)) / (2 * step)
    np.testing.assert_allclose(slope, numeric, rtol=1e-6, atol=1e-6)


def test_expected_cost_of_several_latent_functions(rng):
    """Against tensor-product Gauss-Hermite quadrature."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    weights = weights / weights.sum()
    for name, case in SEVERAL.items():
        size, likelihood = case.likelihood.num_latents, case.likelihood
        points = np.stack(np.meshgrid(*[nodes] * size, indexing="ij"), -1).reshape(-1, size)
        product = np.prod(np.stack(np.meshgrid(*[weights] * size, indexing="ij"), -1).reshape(-1, size), axis=1)
        for deviation in (0.2, 1.0):
            mean = rng.normal(size=size)
            y = np.full(len(points), case.y[-1])
            expected = product @ likelihood.cost(y, mean + deviation * points)
            value = likelihood.expected_cost(case.y[-1:], mean[None], [deviation])
            np.testing.assert_allclose(value, [expected], rtol=1e-8, err_msg=name)
            slope = product @ likelihood.derivative(y, mean + deviation * points)
            with jax.enable_x64(True):
                arguments = (case.y[-1:], mean[None], np.array([deviation]), likelihood.rule(np.array([deviation])))
                found = jax.jit(likelihood.raw_expected_derivative)(*arguments)
            np.testing.assert_allclose(found[0], slope, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.likelihood.is_density])
def test_log_predictive_density_against_adaptive_quadrature(name):
    case, deviation = CASES[name], 0.9 * CASES[name].scale
    for y in case.y:
        density = lambda f: np.exp(case.log_density(y, f))
        expected = np.log(quad(density, 0.6, deviation, [0.0, y]))
        value = case.likelihood.log_predictive_density([y], [0.6], [deviation])[0]
        np.testing.assert_allclose(value, expected, rtol=1e-8)


def test_the_error_estimate_of_the_quadrature_holds():
    """For a cost with a kink, of which the rule knows nothing, half the step tells how far off it is."""
    kinked = lk.Custom(lambda y, f: jnp.abs(y - f))
    y, mean, deviation = np.full(50, 0.3), np.linspace(-1.0, 1.0, 50), np.full(50, 1.7)
    rule = kinked.rule(deviation)
    with jax.enable_x64(True):
        value, *better = (np.asarray(kinked.raw_expected_cost(y, mean, deviation, r)) for r in (rule, *finer(rule)))
    exact = lk.Laplace(1.0).expected_cost(y, mean, deviation) - np.log(2.0)
    error, estimate = np.abs(value - exact), 2 * np.max(np.abs(value - np.array(better)), axis=0)
    assert error.max() > 1e-5
    assert np.all(error < estimate)


@pytest.mark.parametrize(
    "name",
    cases(
        [*CASES, *SEVERAL],
        quick=[
            "Gaussian",
            "Bernoulli",
            "Poisson",
            "Huber",
            "Custom",
            "Ordinal",
            "Categorical",
            "HeteroscedasticGaussian",
        ],
    ),
)
def test_draws_have_the_stated_mean_and_variance(name):
    likelihood = {**CASES, **SEVERAL}[name].likelihood
    if name in ("Huber", "Custom"):
        reason = "loss without a density" if name == "Huber" else "cannot give draws of observations"
        with pytest.raises(InputError, match=reason):
            likelihood.draw(jax.random.key(0), [0.0])
        return
    size, count = likelihood.num_latents, 40_000
    f = np.array([0.7]) if size == 1 else np.array([[0.7, -0.2, 0.1][:size]])
    draws = likelihood.draw(jax.random.key(5), np.repeat(f, count, axis=0))
    mean, variance = likelihood.observation_mean(f), likelihood.observation_variance(f)
    if name == "Categorical":
        draws, mean, variance = np.eye(3)[draws.astype(int)], mean[0], variance[0]
    assert np.all(likelihood.check(likelihood.draw(jax.random.key(6), f)) == likelihood.draw(jax.random.key(6), f))
    # Five standard errors; Student t with 3.5 degrees of freedom has no fourth moment, so only its mean is tested.
    np.testing.assert_allclose(draws.mean(axis=0), mean, atol=5 * np.sqrt(np.max(variance) / count))
    if name != "StudentT":
        spread = np.std((draws - draws.mean(axis=0)) ** 2)
        np.testing.assert_allclose(draws.var(axis=0), variance, atol=5 * np.max(spread) / np.sqrt(count))


@pytest.mark.parametrize("name", CASES)
def test_lipschitz_constants_and_curvature_bounds(name):
    likelihood = CASES[name].likelihood
    y, f = np.meshgrid(CASES[name].y, np.linspace(-30.0, 30.0, 4001), indexing="ij")
    slope = np.abs(likelihood.derivative(y.ravel(), f.ravel())).max()
    if likelihood.lipschitz is not None:
        assert 0.98 * likelihood.lipschitz < slope <= likelihood.lipschitz * (1 + 1e-12)
    second = likelihood.second_derivative(y.ravel(), f.ravel())
    if likelihood.curvature_bound is not None:
        assert likelihood.is_convex
        assert second.max() <= likelihood.curvature_bound * (1 + 1e-9)
        if name != "Ordinal":  # it gets there when two cut points meet
            assert second.max() > 0.9 * likelihood.curvature_bound


@pytest.mark.parametrize("name", [*CASES, *SEVERAL])
def test_at_rest_and_pickle(name):
    likelihood = {**CASES, **SEVERAL}[name].likelihood
    for leaf in jax.tree.leaves(likelihood):
        assert isinstance(leaf, np.ndarray)
        assert leaf.dtype == np.float64
    if name != "Custom":  # its function is a lambda
        copy = pickle.loads(pickle.dumps(likelihood))
        assert all(a.tobytes() == b.tobytes() for a, b in zip(*map(jax.tree.leaves, (likelihood, copy)), strict=True))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: lk.Bernoulli().check([1.0, 2.0]), r"`Bernoulli` needs y in \{0, 1\}. Got values 2. Map the labels"),
        (lambda: lk.Poisson().check([1.0, -1.0]), "counts.*-1"),
        (lambda: lk.Poisson().check([1.5]), "counts.*1.5"),
        (lambda: lk.NegativeBinomial().check([0.5]), "NegativeBinomial.*counts"),
        (lambda: lk.Gamma().check([1.0, 0.0]), "Gamma.*positive.*0"),
        (lambda: lk.Exponential().check([-1.0]), "Exponential.*positive"),
        (lambda: lk.Ordinal([0.0]).check([2.0]), r"Ordinal.*\{0, ..., 1\}"),
        (lambda: lk.Categorical(3).check([3.0]), r"Categorical.*\{0, ..., 2\}"),
        (lambda: lk.Categorical(3).check([0.5]), "return_inverse"),
        (lambda: lk.Gaussian().check([np.nan]), "finite"),
        (lambda: lk.StudentT().check([[1.0]]), r"shape \(N,\)"),
        (lambda: lk.Laplace().check([]), "at least one observation"),
        (lambda: lk.Gaussian().check(["a"]), "must hold numbers"),
        (lambda: lk.Gaussian(noise=0.0), "noise.*positive"),
        (lambda: lk.Gaussian(noise=[1.0, -1.0]), "noise.*positive"),
        (lambda: lk.StudentT(degrees_of_freedom=-1.0), "degrees_of_freedom"),
        (lambda: lk.Bernoulli(link="cauchit"), '"logit" or "probit"'),
        (lambda: lk.Poisson(link="identity"), '"exp" or "square"'),
        (lambda: lk.Ordinal([1.0, 0.0]), "increasing"),
        (lambda: lk.Ordinal([]), "list of numbers"),
        (lambda: lk.ShiftMixture(1.0, probability=1.0), "between 0 and 1"),
        (lambda: lk.ShiftMixture(np.inf), "finite number"),
        (lambda: lk.Categorical(1), "at least 2"),
        (lambda: lk.Custom(3.0), r"function cost\(y, f\)"),
        (lambda: lk.Custom(lambda y, f: jnp.array([y, f])).check([1.0]), "one number.*CustomJoint"),
        (lambda: lk.Custom(lambda y, f: jnp.floor(f)).check([1.0]), "not differentiable.*zero everywhere"),
        (lambda: lk.Custom(lambda y, f: f > y).check([1.0]), "real number"),
        (lambda: lk.Custom(lambda y, f: np.sin(f)).check([1.0]), "jax.numpy"),
        (lambda: lk.Custom(lambda y, f: float(f)).check([1.0]), "could not be traced"),
        (lambda: lk.Custom(lambda y, f: jnp.sqrt(jnp.abs(f - f))).check([1.0]), "not differentiable.*NaN"),
        (lambda: lk.CustomJoint(lambda y, f: y - f).check([1.0, 2.0]), "must return one number"),
        (lambda: lk.CustomJoint(None), r"function loss\(y, f\)"),
        (lambda: lk.CustomJoint(lambda y, f: jnp.sum(f)).cost([1.0], [1.0]), "no cost of one observation"),
        (lambda: lk.Bernoulli().expected_cost([0.0], [0.0], [1.0], num_nodes=1), "at least 13"),
        (lambda: lk.Huber().log_density([0.0], [0.0]), "loss without a density"),
        (lambda: lk.Huber().log_predictive_density([0.0], [0.0], [1.0]), "loss without a density"),
        (lambda: lk.Huber().observation_mean([0.0]), "loss without a density"),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(InputError, match=message):
        make()
