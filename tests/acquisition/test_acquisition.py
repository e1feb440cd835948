"""Acquisition functions against quadrature, Monte Carlo and dense algebra; the climb in a box against a grid."""

from __future__ import annotations

import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate
import scipy.optimize
import scipy.stats

import kosambi as ko
from kosambi import acquisition as acq
from kosambi._core.progress import Clock
from kosambi.acquisition import optimise
from kosambi.acquisition.improvement import log_h
from tests.cases import cases

KEY = jax.random.key(0)
RNG = np.random.default_rng(5)
X = RNG.uniform(0.0, 1.0, (12, 2))
Y = np.sin(5.0 * X[:, 0]) - (X[:, 1] - 0.3) ** 2
NEW = RNG.uniform(0.0, 1.0, (6, 2))
BOX = np.array([[0.0, 0.0], [1.0, 1.0]])
GAUSSIAN = ko.likelihoods.Gaussian(0.1)
PRIOR = ko.GaussianProcess(ko.kernels.Matern52(lengthscale=0.4), mean=0.2)


@pytest.fixture(scope="module")
def posteriors():
    """Coordinates, all rows, an average of two models, and labels with draws."""
    other = ko.GaussianProcess(ko.kernels.Matern52(lengthscale=0.7, variance=2.0), mean=0.2)
    rows = [ko.infer(KEY, prior, GAUSSIAN, X, Y, num_inducing=0, num_neighbors=12) for prior in (PRIOR, other)]
    points = ko.infer(KEY, PRIOR, GAUSSIAN, X, Y, num_inducing=8)
    basis = ko.PointBasis(PRIOR, X[:6])
    target = ko.Target(basis, ko.likelihoods.Bernoulli(), X, (Y > 0).astype(float), "projected")
    u = np.random.default_rng(1).normal(size=(30, 6))
    drawn = ko.Posterior(target, ko.samplers.Particles.from_coordinates(target, u))
    return {"points": points, "rows": rows[0], "average": ko.AveragedPosterior(rows[0], tuple(rows)), "draws": drawn}


def components(prediction):
    """Means and deviations of the normal components of f, (L, n) each."""
    parts = prediction.parts if isinstance(prediction, ko.posterior.AveragedPrediction) else (prediction,)
    means = np.concatenate([np.asarray(part.component_means) for part in parts])
    widths = [np.broadcast_to(part.component_deviation, np.shape(part.component_means)) for part in parts]
    return means, np.concatenate(widths)


@pytest.mark.parametrize("kind", cases(["points", "rows", "average", "draws"], quick=["points", "average"]))
def test_improvement_and_bound_against_quadrature(posteriors, kind, x64):
    posterior = posteriors[kind]
    means, deviations = components(posterior.predict(NEW))
    improvement = acq.ExpectedImprovement(posterior, best=0.5)
    right = [
        np.mean(
            [
                scipy.integrate.quad(
                    lambda f, m=m, s=s: (f - 0.5) * scipy.stats.norm.pdf(f, m, s), 0.5, m + 12 * s + 12
                )[0]
                if m + 40 * s > 0.5
                else 0.0
                for m, s in zip(means[:, n], deviations[:, n], strict=True)
            ]
        )
        for n in range(len(NEW))
    ]
    np.testing.assert_allclose(improvement(NEW), right, rtol=1e-6, atol=1e-9)
    prediction = posterior.predict(NEW)
    bound = acq.UpperConfidenceBound(posterior, deviations=1.5)
    np.testing.assert_allclose(bound(NEW), prediction.mean + 1.5 * np.sqrt(prediction.variance), rtol=1e-8)
    assert float(acq.ExpectedImprovement(posterior).best) == pytest.approx(posterior.predict(X).mean.max())
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(improvement))(NEW), improvement(NEW))


def test_the_logarithm_of_an_improvement_has_all_its_digits():
    """h(z) = φ(z) ∫ t exp(zt − t²/2) dt over t > 0, whose integrand is positive, down to h = e^−1000000."""
    places, right = np.array([3.0, 0.5, -0.999, -1.001, -4.0, -9.99, -10.01, -37.0, -40.0, -1500.0]), []
    for z in places:
        unit = max(abs(z), 1.0)
        end = 60.0 if z < 0 else unit * (z + 12.0)

        def integrand(s, z=z, unit=unit):
            return s * np.exp(z / unit * s - 0.5 * np.square(s / unit))

        area = scipy.integrate.quad(integrand, 0.0, end, epsrel=1e-13, limit=500)[0]
        right.append(scipy.stats.norm.logpdf(z) + np.log(area) - 2.0 * np.log(unit))
    np.testing.assert_allclose(acq.log_expected_improvement(places, 1.0, 0.0), right, rtol=1e-10, atol=1e-10)
    with jax.enable_x64(True):
        slopes = jax.vmap(jax.grad(log_h))(jnp.array([5.0, -1.0, -10.0, -1e4]))
    # Φ/h, which is −z far out.
    h = np.exp(np.asarray(acq.log_expected_improvement([5.0, -1.0, -10.0], 1.0, 0.0)))
    np.testing.assert_allclose(slopes[:3], scipy.stats.norm.cdf([5.0, -1.0, -10.0]) / h, rtol=1e-6)
    assert float(slopes[3]) == pytest.approx(1e4, rel=1e-6)
    np.testing.assert_allclose(
        acq.expected_improvement(0.3, 2.0, 1.0), np.exp(acq.log_expected_improvement(0.3, 2.0, 1.0))
    )


def test_expected_maximum_of_lines_against_quadrature():
    for size in (1, 2, 7):
        a, b = RNG.normal(size=size), RNG.normal(size=size)
        z = np.linspace(-10.0, 10.0, 40_001)
        right = np.trapezoid(scipy.stats.norm.pdf(z) * np.max(a + z[:, None] * b, axis=1), z)
        assert float(acq.expected_maximum(a, b)) == pytest.approx(right, abs=1e-6)
    # Parallel and equal lines, of which the highest counts once.
    assert float(acq.expected_maximum([0.0, 1.0, 1.0], [0.5, 0.5, 0.5])) == pytest.approx(1.0, abs=1e-14)
    assert float(acq.expected_maximum([0.0, 0.0, 0.0], [-1.0, 1.0, 1.0])) == pytest.approx(
        np.sqrt(2 / np.pi), abs=1e-14
    )


@pytest.mark.slow
def test_knowledge_gradient_is_the_rise_of_the_best_mean_after_conditioning(posteriors):
    """By quadrature over the observation, and with `condition` for what it does to the means, which is linear in it."""
    x = X[[np.argmax(Y)]] + [[0.06, -0.05]]
    places, rises = np.concatenate([X, x]), []
    for model in posteriors["average"].components:
        now = model.predict(places)
        deviation = float(np.sqrt(now.variance[-1] + 0.1**2))
        moved = model.condition(KEY, x, [float(now.mean[-1]) + deviation]).predict(places).mean - now.mean
        z = np.linspace(-10.0, 10.0, 20_001)
        best = np.max(now.mean + z[:, None] * moved, axis=1) - np.max(now.mean)
        rises.append(np.trapezoid(scipy.stats.norm.pdf(z) * best, z))
    assert min(rises) > 3e-3
    np.testing.assert_allclose(acq.KnowledgeGradient(posteriors["rows"])(x), rises[0], atol=1e-6)
    np.testing.assert_allclose(acq.KnowledgeGradient(posteriors["average"])(x), np.mean(rises), atol=1e-6)
    # A point for each row is the same process by other algebra.
    every = ko.infer(KEY, PRIOR, GAUSSIAN, X, Y, num_inducing="all")
    np.testing.assert_allclose(acq.KnowledgeGradient(every, X)(x), rises[0], atol=1e-6)


@pytest.mark.slow
def test_improvement_on_draws_agrees_with_the_closed_form(posteriors):
    posterior = posteriors["rows"].condition(KEY, X[:1], Y[:1], num_particles=4000)
    draws = posterior.functions(jax.random.key(3))
    drawn, exact = acq.DrawnImprovement(draws, X, best=0.8), acq.ExpectedImprovement(posterior, best=0.8)
    values = np.maximum(np.asarray(draws(NEW)) - 0.8, 0.0)
    error = values.std(axis=0) / np.sqrt(4000)
    # Where improvements are so rare that 4000 draws need not have one, the error of their mean is not known.
    common = exact(NEW) > 1e-3
    assert common.sum() >= 3
    assert np.all(np.abs(drawn(NEW) - exact(NEW))[common] < 4.5 * error[common])
    # The test tells a best value that is 0.1 off.
    wrong = acq.ExpectedImprovement(posterior, best=0.9)(NEW)
    assert np.any(np.abs(drawn(NEW) - wrong) > 10.0 * error)
    each = acq.DrawnImprovement(draws, X)
    np.testing.assert_allclose(each.best, np.asarray(draws(X)).max(axis=1))
    np.testing.assert_allclose(each(NEW), np.maximum(np.asarray(draws(NEW)) - each.best[:, None], 0.0).mean(axis=0))


@pytest.mark.slow
def test_the_climb_finds_what_a_grid_finds(posteriors, x64):
    grid = np.stack(np.meshgrid(*[np.linspace(0.0, 1.0, 81)] * 2), axis=-1).reshape(-1, 2)
    for acquisition in (acq.ExpectedImprovement(posteriors["average"]), acq.UpperConfidenceBound(posteriors["points"])):
        top = acq.maximize(KEY, acquisition, BOX)
        assert top.value >= np.max(acquisition(grid)) * (1.0 - 1e-9)
        assert np.all((top.x >= 0.0) & (top.x <= 1.0))
        # A stationary point, or one at a wall that the slope pushes against.
        with jax.enable_x64(True):
            slope = np.asarray(jax.grad(lambda x, a=acquisition: a.score(x[None])[0])(jnp.asarray(top.x)))
        inside = (top.x > 0.0) & (top.x < 1.0)
        assert np.all(np.abs(slope[inside]) < 1e-3)
        assert np.all(slope[top.x >= 1.0] >= 0.0)


@pytest.mark.slow
def test_the_climb_holds_variables_at_walls():
    """A quadratic whose maximum lies outside of the box: the answer is that of a bounded solver."""

    class Bowl(acq.AbstractAcquisition):
        matrix: np.ndarray
        centre: np.ndarray
        incumbent: np.ndarray

        def value(self, x):
            return -jnp.einsum("nd,de,ne->n", x - self.centre, self.matrix, x - self.centre)

    root = RNG.normal(size=(5, 5))
    centre = np.array([1.5, -0.5, 0.3, 0.6, 2.0])
    bowl = Bowl(matrix=root @ root.T + 0.1 * np.eye(5), centre=centre, incumbent=np.full((1, 5), 0.5))
    right = scipy.optimize.minimize(
        lambda x: (x - bowl.centre) @ bowl.matrix @ (x - bowl.centre),
        np.full(5, 0.5),
        jac=lambda x: 2.0 * bowl.matrix @ (x - bowl.centre),
        bounds=[(-1.0, 1.0)] * 5,
        tol=1e-14,
    )
    top = acq.maximize(KEY, bowl, [[-1.0] * 5, [1.0] * 5])
    assert -top.value == pytest.approx(right.fun, rel=1e-9)
    np.testing.assert_allclose(top.x, right.x, atol=1e-4)


@pytest.mark.slow
def test_more_rows_of_the_same_size_class_compile_nothing(posteriors):
    """Rows are filled up, so that a loop of fits and climbs has one program."""
    acq.maximize(KEY, acq.ExpectedImprovement(posteriors["rows"]), BOX)
    more = posteriors["rows"].condition(KEY, NEW, NEW[:, 0])
    improvement = acq.ExpectedImprovement(more)
    clock = Clock()
    acq.maximize(KEY, improvement, BOX)
    assert clock.compile_seconds == 0.0


@pytest.mark.slow
def test_thompson_goes_where_drawn_functions_are_largest(posteriors):
    posterior = posteriors["points"]
    inputs = acq.thompson(KEY, posterior, BOX, 2)
    assert inputs.shape == (2, 2)
    key_draw = jax.random.split(KEY, 3)[0]
    draws = posterior.functions(key_draw, domain=BOX)
    grid = np.stack(np.meshgrid(*[np.linspace(0.0, 1.0, 41)] * 2), axis=-1).reshape(-1, 2)
    for x, j in zip(inputs, (0, posterior.num_particles - 1), strict=True):
        assert draws[j](x[None])[0, 0] >= draws[j](grid)[0].max() - 1e-9


def test_bad_input(posteriors):
    near = ko.infer(KEY, PRIOR, GAUSSIAN, X, Y, num_inducing=4, num_neighbors=3)
    classes = ko.Target(ko.PointBasis(PRIOR, X[:3]), ko.likelihoods.Categorical(3), X, np.arange(12.0) % 3)
    three = ko.Posterior(classes, ko.samplers.Particles.from_coordinates(classes, np.zeros((2, 3, 3))))
    improvement = acq.ExpectedImprovement(posteriors["points"])
    for call, message in (
        (lambda: acq.ExpectedImprovement(near), "3 neighbours inform it"),
        (lambda: acq.ExpectedImprovement(three), "3 latent functions"),
        (lambda: acq.ExpectedImprovement(KEY), "needs a `Posterior`"),
        (lambda: acq.ExpectedImprovement(posteriors["points"], best=np.nan), "one finite number"),
        (lambda: acq.UpperConfidenceBound(posteriors["points"], deviations=-1.0), "deviations"),
        (lambda: acq.KnowledgeGradient(posteriors["draws"]), "needs `Gaussian` noise"),
        (lambda: acq.maximize(KEY, improvement, [[0.0, 1.0], [1.0, 0.0]]), "the first below the second"),
        (lambda: acq.maximize(KEY, improvement, BOX, num_starts=9, num_candidates=8), "more than there are candidates"),
        (lambda: acq.maximize(KEY, len, BOX), "needs an acquisition function"),
        (lambda: acq.expected_maximum([1.0], [1.0, 2.0]), "both"),
        (lambda: acq.DrawnFunction(X, X), "must be functions"),
    ):
        with pytest.raises(ko.errors.InputError, match=message):
            call()
    assert optimise.as_box(BOX, 2).shape == (2, 2)
