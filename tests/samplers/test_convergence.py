from __future__ import annotations

import jax
import numpy as np
import pytest

import kosambi as ko
from kosambi._core.precision import compiled
from kosambi.samplers import convergence as _moments
from tests.cases import cases

d = ko.samplers


def autoregression(rng, correlation, chains, steps, size=1):
    noise = rng.normal(size=(chains, steps, size)) * np.sqrt(1 - correlation**2)
    draws = np.empty_like(noise)
    draws[:, 0] = rng.normal(size=(chains, size))
    for i in range(1, steps):
        draws[:, i] = correlation * draws[:, i - 1] + noise[:, i]
    return draws


def test_nested_r_hat_by_its_definition(rng):
    draws = rng.normal(size=(12, 10, 2)) + rng.normal(size=(12, 1, 2))
    halves = [draws[g::4, part] for g in range(4) for part in (slice(0, 5), slice(5, 10))]
    means = np.array([half.mean(axis=(0, 1)) for half in halves])
    within = np.mean([half.reshape(-1, 2).var(axis=0, ddof=1) for half in halves], axis=0)
    expected = np.sqrt(1 + means.var(axis=0, ddof=1) / within)
    np.testing.assert_allclose(d.nested_r_hat(draws, 4), expected, rtol=1e-12)


def test_nested_r_hat_sees_a_common_drift_and_a_remembered_start(rng):
    draws = rng.normal(size=(64, 60, 1))
    assert d.nested_r_hat(draws, 8) < 1.01
    assert d.nested_r_hat(draws + np.linspace(-1, 1, 60)[None, :, None], 8) > 1.05
    assert d.nested_r_hat(draws + (np.arange(64) % 8)[:, None, None] * 0.2, 8) > 1.05
    frozen = np.repeat((np.arange(16) % 8)[:, None].astype(float), 10, axis=1)
    assert np.isinf(d.nested_r_hat(frozen, 8))
    assert d.nested_r_hat(np.ones((16, 10)), 8) == 1.0


@pytest.mark.parametrize("correlation", cases([0.0, 0.5, 0.9], slow=["0.0"]))
def test_effective_sample_size_of_an_autoregression(rng, correlation):
    draws = autoregression(rng, correlation, 20, 2000)
    expected = draws.shape[0] * draws.shape[1] * (1 - correlation) / (1 + correlation)
    for kind in ("bulk", "mean"):
        assert d.effective_sample_size(draws, kind)[0] == pytest.approx(expected, rel=0.15)
    assert d.effective_sample_size(draws, "tail")[0] > expected * 0.8
    assert d.mcse(draws)[0] == pytest.approx(draws.std() / np.sqrt(expected), rel=0.1)


def running(draws, superchains):
    moments = _moments.empty(draws[:, 0], superchains)
    add, close = compiled(_moments.add), compiled(_moments.close_window)
    for i in range(draws.shape[1]):
        moments = add(moments, draws[:, i], np.ones(len(draws)))
        if (i + 1) % int(moments.window) == 0:
            moments = close(moments)
    return moments


def test_running_sums_agree_with_the_draws(rng):
    """Also across a merger of windows: 48 windows of 4 steps are full after 192."""
    draws = 5.0 + autoregression(rng, 0.6, 40, 256, size=3)
    with jax.enable_x64(True):
        moments = running(draws, 8)
        assert (int(moments.window), int(moments.filled)) == (8, 32)
        np.testing.assert_allclose(_moments.r_hat(moments), d.nested_r_hat(draws[:, 64:], 8), rtol=1e-10)
        times = np.asarray(_moments.autocorrelation_times(moments))
    # (1 + 0.6)/(1 − 0.6) = 4, from the spread of 40 means.
    np.testing.assert_allclose(times[0], 4.0, rtol=0.6)
    spread = 256 * draws.mean(axis=1).var(axis=0, ddof=1) / draws.var(axis=(0, 1))
    np.testing.assert_allclose(times[0], spread, rtol=1e-10)


def test_nothing_is_judged_too_early(rng):
    with jax.enable_x64(True):
        moments = running(rng.normal(size=(64, 12, 2)), 8)
        assert np.isinf(_moments.r_hat(moments)).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: d.nested_r_hat(np.zeros(5), 2), r"shape \(chains, steps"),
        (lambda: d.nested_r_hat(np.zeros((6, 5)), 4), "must divide the 6 chains"),
        (lambda: d.nested_r_hat(np.full((4, 5), np.nan), 2), "`draws` must be finite"),
        (lambda: d.effective_sample_size(np.zeros((4, 3))), "at least 4 steps"),
        (lambda: d.effective_sample_size(np.zeros((4, 9)), "all"), "`kind` must be"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ko.errors.InputError, match=message):
        call()
