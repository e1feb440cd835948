"""The bound with inducing points on all rows in chunks: its value, its gradients, weights, memory."""

import jax
import numpy as np
import pytest

import kosambi as ko
from kosambi.learning import at_points as at_points_module
from kosambi.learning import points as points_module
from kosambi.learning.layout import Model, lay_out
from kosambi.learning.points import PointEvaluator
from kosambi.learning.rows import Block
from kosambi.learning.site_evaluator import SiteEvaluator
from kosambi.learning.starts import usual_limits
from tests.cases import cases
from tests.likelihoods.table import CASES, SEVERAL

RNG = np.random.default_rng(8)
X = RNG.uniform(-3.0, 3.0, (50, 2))
Y = np.sin(X[:, 0]) + 0.2 * RNG.normal(size=50)
POINTS = X[::5] + 0.1
COUNTS = np.resize([1.0, 2.0, 0.0], 50)
KERNEL, NOISE = ko.kernels.Matern52([1.0, 1.5], 1.2), ko.likelihoods.Gaussian(0.3)
PRIOR = ko.GaussianProcess(KERNEL, 0.1)
GIVEN = Model(KERNEL, np.asarray(0.1), NOISE)
LAYOUT = lay_out(GIVEN)


def evaluator(noise=NOISE, counts=COUNTS, y=Y):
    given = GIVEN._replace(likelihood=noise)
    layout = lay_out(given)
    bounds = usual_limits(layout, PRIOR, given, X, y)
    return PointEvaluator(layout, given, PRIOR, X, y, counts, bounds), layout.vector(given)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(points_module, "CHUNK", 16)


@pytest.mark.parametrize("noise", [NOISE, ko.likelihoods.Gaussian(np.linspace(0.2, 0.5, 50))], ids=["one", "each"])
@pytest.mark.parametrize("counts", [None, COUNTS], ids=["once", "weights"])
def test_the_bound_is_that_of_log_evidence(noise, counts):
    with jax.enable_x64(True):
        evaluate, vector = evaluator(noise, counts)
        evaluate(vector, POINTS)
    expected = ko.log_evidence(PRIOR, noise, X, Y, POINTS, weights=counts)
    assert evaluate.evidence == pytest.approx(float(expected), rel=1e-10)


def test_gradients_against_finite_differences():
    with jax.enable_x64(True):
        evaluate, vector = evaluator()
        value, slope, push = evaluate(vector, POINTS)
        assert evaluate.value(vector, POINTS) == value
        for i in range(len(vector)):
            step = 1e-5 * np.eye(len(vector))[i]
            ends = [evaluate(vector + sign * step, POINTS)[0] for sign in (1, -1)]
            assert slope[i] == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-6, abs=1e-5)
        for place in ((0, 0), (3, 1), (9, 0)):
            step = np.zeros_like(POINTS)
            step[place] = 1e-5
            ends = [evaluate(vector, POINTS + sign * step)[0] for sign in (1, -1)]
            assert push[place] == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-6, abs=1e-5)


@pytest.mark.parametrize("name", cases(["Bernoulli", "StudentT", "Poisson", "Categorical"], quick=["Bernoulli"]))
def test_gradients_of_other_likelihoods_against_finite_differences(name):
    case = {**CASES, **SEVERAL}[name]
    with jax.enable_x64(True):
        evaluate, vector = evaluator(case.likelihood, y=np.resize(case.y, 50).astype(float))
        _, slope, push = evaluate(vector, POINTS)
        assert evaluate.is_settled
        for i in range(len(vector)):
            step = 1e-3 * np.eye(len(vector))[i]
            ends = [evaluate(vector + sign * step, POINTS)[0] for sign in (1, -1)]
            assert slope[i] == pytest.approx((ends[0] - ends[1]) / 2e-3, rel=0.01, abs=0.02)
        step = np.zeros_like(POINTS)
        step[3, 1] = 1e-3
        ends = [evaluate(vector, POINTS + sign * step)[0] for sign in (1, -1)]
        assert push[3, 1] == pytest.approx((ends[0] - ends[1]) / 2e-3, rel=0.01, abs=0.02)


@pytest.mark.parametrize("name", cases(["Bernoulli", "StudentT", "Poisson", "Categorical"], quick=["Bernoulli"]))
def test_with_every_row_a_point_the_bound_is_that_without_points(name):
    case = {**CASES, **SEVERAL}[name]
    y = np.resize(case.y, 50).astype(float)
    given = GIVEN._replace(likelihood=case.likelihood)
    with jax.enable_x64(True):
        evaluate, vector = evaluator(case.likelihood, None, y)
        evaluate(vector, X)
        dense = SiteEvaluator(lay_out(given), given, PRIOR, [Block(X, y, np.ones(50), case.likelihood)])
        dense(vector)
        few, _ = evaluator(case.likelihood, None, y)
        few(vector, POINTS)
    assert evaluate.evidence == pytest.approx(dense.evidence, abs=1e-4)
    assert few.evidence < dense.evidence - 0.1


def test_features_that_do_not_fit_are_computed_again(monkeypatch):
    with jax.enable_x64(True):
        evaluate, vector = evaluator()
        first = evaluate(vector, POINTS)
        monkeypatch.setattr(at_points_module, "KEPT_BYTES", 0)
        again = evaluate(vector, POINTS)
    assert first[0] == again[0]
    for one, other in zip(first[1:], again[1:], strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_kernel_without_a_finite_factor_is_not_finite():
    with jax.enable_x64(True):
        evaluate, vector = evaluator()
        value, slope, _ = evaluate(np.full_like(vector, np.nan), POINTS)
        assert evaluate.value(np.full_like(vector, np.nan), POINTS) == np.inf
    assert value == np.inf
    assert np.all(np.isnan(slope))
