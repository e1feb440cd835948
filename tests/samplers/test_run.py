from __future__ import annotations

import io
import pickle
import sys

import jax
import numpy as np
import pytest

import kosambi as ko
from kosambi.samplers import chains as _segment
from kosambi.samplers import phases, tempering, unadjusted
from tests.cases import cases

InputError = ko.errors.InputError
X = np.random.default_rng(0).uniform(-3.0, 3.0, (200, 1))
Y = (np.random.default_rng(1).uniform(size=200) < 1 / (1 + np.exp(-2 * np.sin(X[:, 0])))).astype(float)
PRIOR = ko.GaussianProcess(ko.kernels.SquaredExponential(lengthscale=1.0, variance=2.0))
TARGET = ko.Target(ko.PointBasis(PRIOR, np.linspace(-3, 3, 8)[:, None]), ko.likelihoods.Bernoulli(), X, Y, "projected")
KEY = jax.random.key(0)


def test_a_second_run_compiles_nothing():
    first = ko.sample(KEY, TARGET, num_particles=100)[1]
    again = ko.samplers.MALA(0.75, step_size=0.8, max_steps=900)
    other_y = ko.Target(TARGET.basis, ko.likelihoods.Bernoulli(), X, 1.0 - Y, "projected")
    for target, sampler in ((TARGET, "auto"), (TARGET, again), (other_y, "auto")):
        report = ko.sample(jax.random.key(7), target, sampler, 100)[1]
        assert report.compile_seconds == 0.0
        assert report.converged
    assert first.seconds >= first.compile_seconds


def test_a_second_euler_maruyama_run_compiles_nothing():
    def run(seed, step, num_steps):
        sampler = ko.samplers.EulerMaruyama(step, num_steps)
        with pytest.warns(ko.errors.ConvergenceWarning):
            return ko.sample(jax.random.key(seed), TARGET, sampler, 64)[1]

    run(0, 1e-4, 200)
    assert run(1, 2e-4, 500).compile_seconds == 0.0


def test_the_same_key_gives_the_same_numbers_with_the_switch_off_and_on():
    results = []
    for switch in (False, True):
        with jax.enable_x64(switch):
            results.append(ko.sample(KEY, TARGET, num_particles=20)[0].coordinates)
    assert results[0].dtype == np.float64
    np.testing.assert_array_equal(*results)
    assert not np.array_equal(results[0], ko.sample(jax.random.key(1), TARGET, num_particles=20)[0].coordinates)


def test_particles_are_what_they_say():
    particles, report = ko.sample(KEY, TARGET, num_particles=37)
    assert particles.coordinates.shape == (37, 8)
    assert particles.num_particles == 37
    np.testing.assert_allclose(TARGET.basis.colour(particles.whitened), particles.coordinates, rtol=1e-12)
    again = ko.samplers.Particles.from_coordinates(TARGET, particles.coordinates)
    np.testing.assert_allclose(again.whitened, particles.whitened, atol=1e-7)
    assert len(np.unique(particles.coordinates[:, 0])) == 37
    assert report.acceptance_by_particle.shape == (37,)
    assert report.r_hat_by_coordinate.shape == (8,)
    assert report.r_hat >= report.r_hat_by_coordinate.max()
    assert 0 < report.ess_tail <= 64 * report.steps
    assert report.energy.shape == report.energy_steps.shape == report.r_hat_trace.shape
    assert report.energy_steps[-1] == report.steps
    assert report.r_hat_trace[-1] == report.r_hat


def test_a_single_particle_is_possible():
    particles, report = ko.sample(KEY, TARGET, num_particles=1)
    assert particles.coordinates.shape == (1, 8)
    assert report.converged


def test_results_survive_pickle():
    result = ko.sample(KEY, TARGET, num_particles=10)
    particles, report = pickle.loads(pickle.dumps(result))
    np.testing.assert_array_equal(particles.coordinates, result[0].coordinates)
    assert report == result[1]
    assert "converged" in str(report)
    assert "R-hat" in str(report)


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["mala", "hmc"])
def test_float32_draws_the_same_law(sampler):
    particles, report = ko.sample(KEY, TARGET, sampler, 2000, precision="float32")
    double, _ = ko.sample(jax.random.key(5), TARGET, sampler, 2000)
    assert report.converged
    assert particles.coordinates.dtype == np.float64
    deviation = double.whitened.std(axis=0)
    assert np.abs(particles.whitened.mean(axis=0) - double.whitened.mean(axis=0)).max() < 0.15 * deviation.max()
    np.testing.assert_allclose(particles.whitened.std(axis=0), deviation, rtol=0.1)


def test_float32_says_when_it_is_too_coarse():
    heavy = ko.Target(TARGET.basis, ko.likelihoods.Bernoulli(), X, Y, "projected", weights=np.full(200, 1e6))
    with pytest.warns(ko.errors.PrecisionWarning, match="float32 the potential is known to"):
        _, report = ko.sample(KEY, heavy, num_particles=10, precision="float32")
    assert "float64" in report.warnings[-1]


@pytest.mark.parametrize("initial", cases(["prior", "given"], slow=["prior"]))
def test_other_starts_reach_the_same_law(initial):
    start = "prior" if initial == "prior" else np.random.default_rng(0).normal(size=(1000, 8))
    particles, report = ko.sample(KEY, TARGET, "mala", 1000, initial=start)
    reference, _ = ko.sample(jax.random.key(3), TARGET, num_particles=1000)
    assert report.converged
    difference = particles.whitened.mean(axis=0) - reference.whitened.mean(axis=0)
    assert np.abs(difference).max() < 0.2


def test_given_starts_keep_their_order():
    """Particle j begins at row j, however chains are grouped inside."""
    start = TARGET.basis.colour(np.arange(8.0 * 30).reshape(30, 8)[::-1] * 1e-3)
    modes = ko.target.find_modes(KEY, TARGET)
    from kosambi.samplers.starts import starting_points

    begun = starting_points(KEY, TARGET, modes, start, 30)
    np.testing.assert_allclose(begun.w[begun.returned], TARGET.basis.whiten(start), atol=1e-6)


@pytest.mark.slow
def test_several_latent_functions():
    labels = np.digitize(X[:, 0], [-1.0, 1.0]).astype(float)
    target = ko.Target(ko.PointBasis(PRIOR, X[:4]), ko.likelihoods.Categorical(3), X, labels)
    particles, report = ko.sample(KEY, target, num_particles=50)
    assert particles.coordinates.shape == particles.whitened.shape == (50, 4, 3)
    assert report.converged
    assert report.r_hat_by_coordinate.shape == (12,)
    again = ko.samplers.Particles.from_coordinates(target, particles.coordinates)
    np.testing.assert_allclose(again.whitened, particles.whitened, atol=1e-8)
    limit = ko.samplers.EulerMaruyama(1.0, 1).stable_limit(target, np.zeros((4, 3)))
    sampler = ko.samplers.EulerMaruyama(0.2 * limit, 2000, initial="laplace")
    with pytest.warns(ko.errors.ConvergenceWarning):
        diffused, _ = ko.sample(KEY, target, sampler, 2000)
    assert diffused.coordinates.shape == (2000, 4, 3)
    reference, _ = ko.sample(jax.random.key(1), target, num_particles=2000)
    assert np.abs(diffused.whitened.mean(axis=0) - reference.whitened.mean(axis=0)).max() < 0.2


def test_a_run_that_is_too_short_says_so():
    with pytest.warns(ko.errors.ConvergenceWarning, match="Raise `max_steps` of `MALA`"):
        _, report = ko.sample(KEY, TARGET, ko.samplers.MALA(max_steps=28), 100)
    assert not report.converged
    assert report.warnings


def test_a_run_that_never_samples_says_so():
    with pytest.warns(ko.errors.ConvergenceWarning, match="none into sampling") as caught:
        _, report = ko.sample(KEY, TARGET, ko.samplers.MALA(max_steps=10), 100)
    assert caught[0].filename == __file__
    assert not report.converged
    assert report.r_hat == np.inf


class Short(ko.samplers.MALA):
    num_adaptation_steps = 2


def test_any_length_of_adaptation_and_any_start_compile_once():
    assert ko.sample(KEY, TARGET, Short(), 100)[1].converged
    assert ko.sample(KEY, TARGET, Short(), 100, initial="prior")[1].compile_seconds == 0.0


def test_a_distant_start_is_tuned_again():
    distant = 3.0 * np.random.default_rng(0).normal(size=(100, 8))
    _, report = ko.sample(KEY, TARGET, "mala", 100, initial=TARGET.basis.colour(distant))
    assert report.converged
    assert report.steps < 500
    assert report.step_size > 1.0


def test_ctrl_c_returns_what_there_is_if_that_is_asked_for(monkeypatch):
    calls = []

    def interrupted(*arguments):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return advance(*arguments)

    advance = _segment.advance
    monkeypatch.setattr(_segment, "advance", interrupted)
    with pytest.warns(ko.errors.ConvergenceWarning, match="Interrupted after 24 steps"):
        particles, report = ko.sample(KEY, TARGET, num_particles=20, on_interrupt="return")
    assert not report.converged
    assert np.isfinite(particles.coordinates).all()
    calls.clear()
    with pytest.raises(KeyboardInterrupt):
        ko.sample(KEY, TARGET, num_particles=20)


@pytest.mark.parametrize("on_interrupt", ["return", "raise"])
def test_ctrl_c_in_other_samplers(monkeypatch, on_interrupt):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(unadjusted, "advance", interrupted)
    monkeypatch.setattr(tempering, "advance", interrupted)
    for sampler in ("euler_maruyama", "tempering"):
        if on_interrupt == "raise":
            with pytest.raises(KeyboardInterrupt):
                ko.sample(KEY, TARGET, sampler, num_particles=64)
            continue
        with pytest.warns(ko.errors.ConvergenceWarning, match="Interrupted after 0 "):
            particles, report = ko.sample(KEY, TARGET, sampler, num_particles=64, on_interrupt="return")
        assert not report.converged
        assert any("Interrupted" in text for text in report.warnings)
        # Nothing that R̂ could be computed from.
        assert np.isinf(report.r_hat)
        assert particles.coordinates.shape == (64, 8)


def test_bad_input_on_interrupt():
    with pytest.raises(ko.errors.InputError, match="`on_interrupt` must be"):
        ko.sample(KEY, TARGET, num_particles=20, on_interrupt="stop")


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_is_shown_on_a_terminal_only(monkeypatch, capfd):
    ko.sample(KEY, TARGET, num_particles=20)
    assert capfd.readouterr() == ("", "")
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    ko.sample(KEY, TARGET, num_particles=20)
    assert "acceptance" in screen.getvalue()
    assert "at most" in screen.getvalue()
    quiet = Terminal()
    monkeypatch.setattr(sys, "stderr", quiet)
    ko.sample(KEY, TARGET, num_particles=20, progress=False)
    assert not quiet.getvalue()


def test_segments_are_sized_by_the_clock(monkeypatch):
    """A slow target is looked at often, a fast one seldom."""
    checks = []
    monkeypatch.setattr(phases, "SEGMENT_SECONDS", 1e-9)
    advance = _segment.advance
    monkeypatch.setattr(_segment, "advance", lambda *a: checks.append(int(a[4])) or advance(*a))
    ko.sample(KEY, TARGET, num_particles=20)
    assert set(checks[2:]) == {1}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ko.samplers.EulerMaruyama(0.0, 10), "`step_size` must be positive"),
        (lambda: ko.samplers.EulerMaruyama(-1.0, 10), "`step_size` must be positive"),
        (lambda: ko.samplers.EulerMaruyama(1e-3, 10, 1.0), "not both"),
        (lambda: ko.samplers.EulerMaruyama(1e-3, 0), "`num_steps` must be at least 1"),
        (lambda: ko.samplers.EulerMaruyama(1e-3, duration=1e-4), "shorter than one step"),
        (lambda: ko.samplers.EulerMaruyama(1e-3, 10, preconditioned="yes"), "`preconditioned` must be"),
        (lambda: ko.samplers.MALA(step_size=2.0), "angle"),
        (lambda: ko.samplers.MALA(1.0), "below 1"),
        (lambda: ko.samplers.HMC(1.2), "below 1"),
        (lambda: ko.samplers.MALA(initial="posterior"), r'"laplace", "prior"'),
        (lambda: ko.sample(KEY, TARGET, num_particles=0), "`num_particles` must be at least 1"),
        (lambda: ko.sample(KEY, TARGET, num_particles=2.5), "whole number"),
        (lambda: ko.sample(KEY, TARGET, "nuts"), r'"auto", "mala", "hmc", "exact", "euler_maruyama".*Got \'nuts\''),
        (lambda: ko.sample(KEY, TARGET, 3), "`sampler` must be one of"),
        (lambda: ko.sample(KEY, TARGET, precision="double"), "`precision` must be"),
        (lambda: ko.sample(0, TARGET), "`key` must be a random key"),
        (lambda: ko.sample(KEY, PRIOR), "needs a `kosambi.Target`"),
        (lambda: ko.sample(KEY, TARGET, initial=np.zeros((99, 8))), r"shape \(100, 8\).*Got shape \(99, 8\)"),
        (lambda: ko.sample(KEY, TARGET, initial=np.full((100, 8), np.nan)), "`initial` must be finite"),
        (lambda: ko.samplers.EulerMaruyama(1e-3, 5, initial=[[np.inf]]), "`initial` must be finite"),
        (
            lambda: ko.sample(KEY, TARGET, ko.samplers.EulerMaruyama(1e-3, 5, initial=np.zeros((3, 8)))),
            r"shape \(100, 8\)",
        ),
        (lambda: ko.samplers.EulerMaruyama(1e-3, 5).step(TARGET, np.zeros(8), np.zeros((1, 8))), "`noise` must have"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(InputError, match=message):
        call()
