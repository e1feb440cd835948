"""Calibration on real data: conformal coverage, and tempering, on halves of what was held out."""

from __future__ import annotations

import functools
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
import scipy.stats

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
import problems

import kosambi as ko
from kosambi import calibration

pytestmark = pytest.mark.slow
NAMES = ("concrete", "kin8nm", "wine_quality")
LEVEL = 1e-3
TRAINING_ROWS = 500


@functools.cache
def halves(name):
    """Predictions and targets of two halves of the held-out rows, after a fit to the others."""
    if not problems.is_available(name):
        pytest.skip(problems.where_to_get(name))
    x, y = problems.read(name)
    order = np.random.default_rng(0).permutation(len(x))
    x, y = x[order], y[order]
    train = slice(0, TRAINING_ROWS)
    x = (x - x[train].mean(axis=0)) / x[train].std(axis=0)
    y = (y - y[train].mean()) / y[train].std()
    kernel, gaussian = ko.kernels.Matern52(lengthscale=np.sqrt(x.shape[1])), ko.likelihoods.Gaussian(0.3)
    kernel, gaussian, _ = ko.fit_hyperparameters(
        jax.random.key(0), kernel, gaussian, x[train], y[train], ard=True, num_inducing=100, num_restarts=0
    )
    posterior = ko.infer(jax.random.key(1), kernel, gaussian, x[train], y[train], num_inducing=200)
    middle = TRAINING_ROWS + (len(x) - TRAINING_ROWS) // 2
    parts = slice(TRAINING_ROWS, middle), slice(middle, len(x))
    return tuple((posterior.predict(x[part]), y[part]) for part in parts)


def share_inside(interval, y):
    lower, upper = interval
    return float(np.mean((lower <= y) & (y <= upper)))


@pytest.mark.parametrize("name", NAMES)
def test_conformal_coverage(name):
    (known, y_known), (new, y_new) = halves(name)
    found = calibration.conformal(known, y_known)
    error = found.standard_error(len(y_new))
    np.testing.assert_allclose(error, np.sqrt(0.95 * 0.05 * (1 / len(y_known) + 1 / len(y_new))))
    inside, plain = share_inside(found.interval(new), y_new), share_inside(new.interval(), y_new)
    print(f"\n{name}: {len(y_known)} + {len(y_new)} rows, conformal {inside:.4f} ± {error:.4f}, plain {plain:.4f}")
    print(calibration.calibration_report(new, y_new))
    limit = scipy.stats.norm.isf(LEVEL / (2 * len(NAMES))) * error
    assert abs(inside - 0.95) < limit
    # Intervals of half the width would be seen.
    lower, upper = found.interval(new)
    half = 0.25 * (upper - lower)
    assert abs(share_inside((lower + half, upper - half), y_new) - 0.95) > limit


class Known:
    """Intervals of a prediction that were computed before, at some of its rows."""

    quantile, log_density = None, None

    def __init__(self, likelihood, ends, rows):
        self.likelihood, self.ends, self.num_points = likelihood, ends[:, rows], len(rows)

    def interval(self, _):
        return self.ends


@pytest.mark.parametrize("name", NAMES)
def test_conformal_coverage_over_many_halvings(name):
    """Over halvings of the same rows the mean coverage is that of the rank, and its spread the formula's."""
    parts = halves(name)
    ends = np.concatenate([np.array(prediction.interval()) for prediction, _ in parts], axis=1)
    # Ratings of wine have ties; a little noise makes every score another.
    rng = np.random.default_rng(1)
    y = np.concatenate([y for _, y in parts]) + 1e-6 * rng.normal(size=ends.shape[1])
    likelihood, num_known, shares = parts[0][0].likelihood, len(y) // 2, []
    for _ in range(400):
        rows = rng.permutation(len(y))
        known, new = rows[:num_known], rows[num_known:]
        found = calibration.conformal(Known(likelihood, ends, known), y[known])
        shares.append(share_inside(found.interval(Known(likelihood, ends, new)), y[new]))
    error = found.standard_error(len(new))
    expected = np.ceil((num_known + 1) * 0.95) / (num_known + 1)
    print(f"\n{name}: mean {np.mean(shares):.4f} (expected {expected:.4f}), sd {np.std(shares):.4f} ({error:.4f})")
    limit = scipy.stats.norm.isf(LEVEL / (4 * len(NAMES)))
    assert abs(np.mean(shares) - expected) < limit * error / np.sqrt(400)
    assert abs(np.std(shares) / error - 1.0) < limit / np.sqrt(2 * 400)


@pytest.mark.parametrize("name", NAMES)
def test_temper_is_the_minimiser(name):
    (known, y_known), (new, y_new) = halves(name)
    found = calibration.temper(known, y_known)
    # A posterior with a `Gaussian` likelihood is one normal law, for which the minimiser is known.
    ratio = np.mean((y_known - known.observation_mean) ** 2 / known.observation_variance)
    np.testing.assert_allclose(found.factor, ratio, rtol=1e-6)
    before, after = (-np.mean(law.log_density(y_new)) for law in (new, found.apply(new)))
    published = -np.mean(calibration.StretchedPrediction(new, 2.0 * found.factor).log_density(y_new))
    print(f"\n{name}: {found}\n  other half: {before:.4f} before, {after:.4f} after, published factor {published:.4f}")
    assert found.nll_after <= found.nll_before
    # On data that did not choose it, too, it is better than twice the factor.
    assert after < published
