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
    """Running sums of draws of which each is one in `EVERY` steps."""
    moments = _moments.empty(draws[:, 0], superchains)
    add, close = compiled(_moments.add), compiled(_moments.close_window)
    for i in range(draws.shape[1]):
        moments = add(moments, draws[:, i], np.full(len(draws), float(_moments.EVERY)))
        if _moments.EVERY * (i + 1) % int(moments.window) == 0:
            moments = close(moments)
    return moments


def without_error(draws, kept, superchains):
    """Nested R̂ of the last `kept` draws by its definition, less what the error of means adds to B."""
    size = len(draws) // superchains
    groups = draws[:, -kept:].reshape(size, superchains, 2, kept // 2, -1)
    means = groups.mean(axis=(0, 3)).reshape(2 * superchains, -1)
    within = np.mean(
        [groups[:, g, h].reshape(-1, draws.shape[2]).var(axis=0, ddof=1) for g in range(superchains) for h in (0, 1)],
        axis=0,
    )
    own = draws.mean(axis=1).reshape(size, superchains, -1).var(axis=0, ddof=1).mean(axis=0)
    error = own * draws.shape[1] / (kept // 2) / size
    return np.sqrt(1.0 + np.maximum(means.var(axis=0, ddof=1) - error, 0.0) / within)


def test_running_sums_agree_with_the_draws(rng):
    """Also across a merger of windows: 48 windows of 4 steps are full after 192."""
    draws = 5.0 + autoregression(rng, 0.6, 40, 128, size=3)
    draws[:, :, 2] += 0.3 * (np.arange(40) % 8)[:, None]
    with jax.enable_x64(True):
        moments = running(draws, 8)
        assert (int(moments.window), int(moments.filled), int(moments.steps)) == (8, 32, 256)
        found = np.asarray(_moments.r_hat(moments))
        times = np.asarray(_moments.autocorrelation_times(moments))
    np.testing.assert_allclose(found, without_error(draws, 96, 8), rtol=1e-10)
    assert found[2] > 1.05
    # (1 + 0.6)/(1 − 0.6) = 4 draws of two steps each, from the spread of 40 means.
    np.testing.assert_allclose(times[0, :2], 8.0, rtol=0.6)
    spread = 256 * draws.mean(axis=1).var(axis=0, ddof=1) / draws.var(axis=(0, 1))
    np.testing.assert_allclose(times[0], spread, rtol=1e-10)


def test_the_error_of_means_is_known_from_two_particles_that_share_a_start(rng):
    draws = autoregression(rng, 0.6, 16, 128, size=3)
    with jax.enable_x64(True):
        found = np.asarray(_moments.r_hat(running(draws, 8)))
    np.testing.assert_allclose(found, without_error(draws, 96, 8), rtol=1e-10)


@pytest.mark.slow
def test_of_many_coordinates_the_start_is_judged_and_not_the_error_of_means(rng):
    """Chains that began in their distribution are near the limit of R̂ long before its definition says so.

    A start that is remembered in one coordinate of a thousand is seen all the same.
    """
    draws = autoregression(rng, 0.8, 104, 100, size=1000)
    with jax.enable_x64(True):
        found = np.asarray(_moments.r_hat(running(draws, 8)))
        draws[:, :, 7] += 0.3 * rng.normal(size=8)[np.arange(104) % 8][:, None]
        started = np.asarray(_moments.r_hat(running(draws, 8)))
    usual = d.nested_r_hat(draws[:, 25:], 8)
    assert found.max() < 1.02 < np.delete(usual, 7).max()
    assert started[7] > 1.02


def test_nothing_is_judged_too_early(rng):
    with jax.enable_x64(True):
        moments = running(rng.normal(size=(64, 6, 2)), 8)
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
