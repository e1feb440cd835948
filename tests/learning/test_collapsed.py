"""The collapsed bound on all rows in chunks: its value, its gradients, weights, memory."""

import jax
import numpy as np
import pytest

import kosambi as ko
from kosambi.learning import _collapsed
from kosambi.learning._collapsed import CollapsedEvaluator
from kosambi.learning._layout import Model, lay_out
from kosambi.learning._limits import limits
from kosambi.learning._starts import Scales, start

RNG = np.random.default_rng(8)
X = RNG.uniform(-3.0, 3.0, (50, 2))
Y = np.sin(X[:, 0]) + 0.2 * RNG.normal(size=50)
POINTS = X[::5] + 0.1
COUNTS = np.resize([1.0, 2.0, 0.0], 50)
KERNEL, NOISE = ko.kernels.Matern52([1.0, 1.5], 1.2), ko.likelihoods.Gaussian(0.3)
PRIOR = ko.GaussianProcess(KERNEL, 0.1)
GIVEN = Model(KERNEL, np.asarray(0.1), NOISE)
LAYOUT = lay_out(GIVEN)


def evaluator(noise=NOISE, counts=COUNTS):
    given = GIVEN._replace(likelihood=noise)
    layout = lay_out(given)
    scales = Scales.of(PRIOR, noise, X, Y, True)
    bounds = limits(layout, start(PRIOR, noise, X, Y, scales), given, scales, X)
    return CollapsedEvaluator(layout, given, PRIOR, X, Y, counts, bounds), layout.vector(given)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(_collapsed, "CHUNK", 16)


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
        _, slope, push = evaluate(vector, POINTS)
        for i in range(len(vector)):
            step = 1e-5 * np.eye(len(vector))[i]
            ends = [evaluate(vector + sign * step, POINTS)[0] for sign in (1, -1)]
            assert slope[i] == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-6, abs=1e-5)
        for place in ((0, 0), (3, 1), (9, 0)):
            step = np.zeros_like(POINTS)
            step[place] = 1e-5
            ends = [evaluate(vector, POINTS + sign * step)[0] for sign in (1, -1)]
            assert push[place] == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-6, abs=1e-5)


def test_features_that_do_not_fit_are_computed_again(monkeypatch):
    with jax.enable_x64(True):
        evaluate, vector = evaluator()
        first = evaluate(vector, POINTS)
        monkeypatch.setattr(_collapsed, "KEPT_BYTES", 0)
        again = evaluate(vector, POINTS)
    assert first[0] == again[0]
    for one, other in zip(first[1:], again[1:], strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_kernel_without_a_finite_factor_is_not_finite():
    with jax.enable_x64(True):
        evaluate, vector = evaluator()
        value, slope, _ = evaluate(np.full_like(vector, np.nan), POINTS)
    assert value == np.inf
    assert np.all(np.isnan(slope))
