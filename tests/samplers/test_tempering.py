"""Tempering against quadrature on a grid, closed forms, and symmetry."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import kosambi as ko
from kosambi._core.precision import lift
from kosambi.samplers.ladder import better_ladder, enough_temperatures, first_ladder
from kosambi.samplers.replicas import Ladder, advance, empty_tally, start
from kosambi.samplers.run import _is_affordable
from kosambi.samplers.tempering import _axes
from tests.cases import cases

X = np.array([[-1.0], [-0.8], [1.0], [1.2]] * 3)
PRIOR = ko.GaussianProcess(ko.kernels.SquaredExponential(0.7, variance=3.0))
TWO_POINTS = ko.PointBasis(PRIOR, np.array([[-1.0], [1.0]]))
# Four modes of two different weights, and four of very different ones.
PROBLEMS = {
    "squared link": ko.Target(TWO_POINTS, ko.likelihoods.Poisson("square"), X, np.array([3.0, 2.0, 5.0, 4.0] * 3)),
    "shift": ko.Target(
        TWO_POINTS, ko.likelihoods.ShiftMixture(3.0, 0.4, 0.3), X, np.array([3.1, 2.9, 0.1, -0.1] * 3), "projected"
    ),
}
GRID = np.linspace(-8.0, 8.0, 400)


def on_grid(target):
    """The density on the grid, summing to one, and the log evidence."""
    first, second = np.meshgrid(GRID, GRID, indexing="ij")
    points = np.stack([first.ravel(), second.ravel()], axis=1)
    with jax.enable_x64(True):
        value = jax.jit(lambda w: target.term.value(w))
        parts = [np.asarray(value(part)) for part in np.array_split(points, 10)]
    potential = np.concatenate(parts) + 0.5 * np.sum(points**2, axis=1)
    potential = np.where(np.isfinite(potential), potential, np.inf)
    density = np.exp(potential.min() - potential)
    cell = (GRID[1] - GRID[0]) ** 2
    evidence = np.log(density.sum() * cell) - potential.min() - np.log(2.0 * np.pi)
    return (density / density.sum()).reshape(first.shape), evidence


def p_values(density, w):
    """Kolmogorov-Smirnov for both coordinates."""
    middle = GRID + 0.5 * (GRID[1] - GRID[0])
    found = []
    for axis in (0, 1):
        below = np.cumsum(density.sum(axis=1 - axis))
        found.append(stats.kstest(w[:, axis], lambda v, below=below: np.interp(v, middle, below)).pvalue)
    return found


@pytest.fixture(scope="module", params=cases(PROBLEMS, slow=["shift"]))
def drawn(request):
    target = PROBLEMS[request.param]
    particles, report = ko.sample(
        jax.random.key(7), target, ko.samplers.Tempering(symmetry=False), num_particles=1000, progress=False
    )
    return target, np.asarray(particles.whitened), report, *on_grid(target)


def test_marginals_and_shares_of_modes_against_quadrature(drawn):
    _, w, report, density, _ = drawn
    assert report.converged
    assert min(p_values(density, w)) > 1e-3
    signs = np.sign(GRID)
    for one in (-1, 1):
        for other in (-1, 1):
            expected = density[np.ix_(signs == one, signs == other)].sum()
            share = np.mean((np.sign(w[:, 0]) == one) & (np.sign(w[:, 1]) == other))
            assert abs(share - expected) < 4.0 * 0.5 / np.sqrt(len(w))
    # The same test rejects particles that stay where they begin, half of them in one mode.
    stuck = np.where(np.arange(len(w))[:, None] % 2 == 0, np.abs(w), w)
    assert min(p_values(density, stuck)) < 1e-3


def test_evidence_against_quadrature(drawn):
    _, _, report, _, evidence = drawn
    found = report.ladder.log_evidence
    assert found.standard_error < 0.05
    assert abs(found.value - evidence) < 4.0 * found.standard_error + 1e-3


@pytest.mark.slow
def test_evidence_of_labels_against_quadrature():
    labels = np.array([1.0, 1.0, 0.0, 1.0] * 3)
    target = ko.Target(TWO_POINTS, ko.likelihoods.Bernoulli(), X, labels, "projected")
    _, evidence = on_grid(target)
    _, report = ko.sample(jax.random.key(1), target, "tempering", num_particles=256, progress=False)
    assert abs(report.ladder.log_evidence.value - evidence) < 4.0 * report.ladder.log_evidence.standard_error
    posterior = ko.Posterior(target, *ko.sample(jax.random.key(2), target, progress=False))
    assert posterior.log_evidence.method == "importance"
    assert abs(posterior.log_evidence.value - evidence) < 4.0 * posterior.log_evidence.standard_error + 1e-6


@pytest.mark.slow
def test_evidence_of_a_normal_law_in_closed_form():
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(-3.0, 3.0, (500, 1)), axis=0)
    y = np.sin(2.0 * x[:, 0]) + 0.3 * rng.normal(size=500)
    prior = ko.GaussianProcess(ko.kernels.SquaredExponential(0.6))
    basis = ko.PointBasis(prior, x[ko.inducing.greedy_variance(prior, x, 20)])
    target = ko.Target(basis, ko.likelihoods.Gaussian(0.3), x, y)
    psi = np.asarray(basis.whitened_mean(x))
    closed = stats.multivariate_normal.logpdf(y, np.zeros(500), psi @ psi.T + 0.09 * np.eye(500))
    posterior = ko.Posterior(target, *ko.sample(jax.random.key(0), target))
    assert posterior.log_evidence.method == "exact"
    assert posterior.log_evidence.value == pytest.approx(closed, abs=1e-6)
    _, report = ko.sample(jax.random.key(0), target, "tempering", num_particles=128, progress=False)
    assert abs(report.ladder.log_evidence.value - closed) < 0.1


@pytest.mark.slow
def test_signs_moves_and_modes():
    target = PROBLEMS["squared link"]
    flip = ko.samplers.Tempering(symmetry=False, moves=[lambda u: -u])
    particles, report = ko.sample(jax.random.key(3), target, flip, num_particles=256, progress=False)
    assert report.ladder.involutions == pytest.approx(1.0)
    plain = ko.samplers.Tempering(symmetry=False)
    signed, _ = ko.sample(jax.random.key(3), target, "tempering", num_particles=256, progress=False)
    unsigned, _ = ko.sample(jax.random.key(3), target, plain, num_particles=256, progress=False)
    np.testing.assert_allclose(np.abs(signed.whitened), np.abs(unsigned.whitened))
    posterior = ko.Posterior(target, particles, report)
    modes = posterior.modes()
    assert modes.num_modes == 4
    assert modes.shares.sum() == pytest.approx(1.0)
    assert np.ptp(modes.potentials) < 15.0
    parts = posterior.by_mode()
    assert [part.num_particles for part in parts] == (modes.shares * 256).round().astype(int).tolist()
    f = parts[0].predict(X).component_means
    assert np.all(np.sign(f[:, 0]) == np.sign(f[0, 0]))
    assert "4 modes" in str(modes)


@pytest.mark.slow
def test_the_same_key_gives_the_same_draws_with_the_switch_off_and_on(x64):
    target = PROBLEMS["shift"]
    first, report = ko.sample(jax.random.key(4), target, "tempering", num_particles=64, progress=False)
    with jax.enable_x64(not x64):
        second, again = ko.sample(jax.random.key(4), target, "tempering", num_particles=64, progress=False)
    np.testing.assert_array_equal(first.whitened, second.whitened)
    assert again.ladder.log_evidence == report.ladder.log_evidence


@pytest.mark.slow
def test_auto_takes_it_where_it_must_and_only_there(tmp_path):
    counts = PROBLEMS["squared link"]
    square = ko.Posterior(counts, *ko.sample(jax.random.key(0), counts, num_particles=256))
    assert square.report.sampler == "tempering"
    assert "f and -f" in str(square.report)
    square.save(tmp_path / "m.kosambi")
    assert ko.load(tmp_path / "m.kosambi").report == square.report
    y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=12)
    heavy = ko.Target(TWO_POINTS, ko.likelihoods.StudentT(4.0, 0.1), X, y, "projected")
    robust = ko.Posterior(heavy, *ko.sample(jax.random.key(0), heavy, num_particles=256))
    assert robust.report.sampler == "mala"
    assert robust.report.ladder is None
    comparison = ko.compare({"student": robust, "again": robust})
    assert comparison.probability == pytest.approx([0.5, 0.5])
    assert "log evidence" in str(comparison)
    with pytest.raises(ko.errors.InputError, match="other observations"):
        ko.compare({"student": robust, "square": square})


@pytest.mark.slow
def test_auto_switches_when_particles_sit_in_separate_modes():
    posterior = ko.Posterior(PROBLEMS["shift"], *ko.sample(jax.random.key(5), PROBLEMS["shift"], num_particles=512))
    assert posterior.report.sampler == "tempering"
    assert "did not pass between them" in posterior.report.ladder.reason
    density, _ = on_grid(PROBLEMS["shift"])
    w = np.asarray(posterior.particles.whitened)
    assert abs(np.mean(w[:, 0] > 0) - density[GRID > 0].sum()) < 4.0 * 0.5 / np.sqrt(512)


def test_ladders():
    assert first_ladder(5)[[0, -1]].tolist() == [0.0, 1.0]
    better = better_ladder(np.array([0.0, 0.01, 0.1, 1.0]), np.array([0.9, 0.1, 0.1]), 6)
    assert np.all(np.diff(better) > 0)
    assert np.sum(better < 0.01) >= 4
    assert enough_temperatures(np.full(15, 0.1)) == 16
    # 1 + 13.5 / 0.42 = 33.1 are wanted.
    assert enough_temperatures(np.full(15, 0.9)) == 40


def test_bad_input():
    with pytest.raises(ko.errors.InputError, match="multiple of 8"):
        ko.samplers.Tempering(num_chains=20)
    with pytest.raises(ko.errors.InputError, match="`symmetry` must be"):
        ko.samplers.Tempering(symmetry="yes")
    with pytest.raises(ko.errors.InputError, match="`moves` must be functions"):
        ko.samplers.Tempering(moves=[1])
    with pytest.raises(ko.errors.InputError, match="`initial` has no meaning"):
        ko.sample(jax.random.key(0), PROBLEMS["shift"], "tempering", initial="prior")
    with pytest.raises(ko.errors.InputError, match="works in float64"):
        ko.sample(jax.random.key(0), PROBLEMS["shift"], "tempering", precision="float32")
    with pytest.raises(ko.errors.InputError, match="needs a dictionary"):
        ko.compare([])


def test_too_few_iterations_are_said():
    with pytest.warns(ko.errors.ConvergenceWarning, match="Raise `max_iterations`"):
        _, report = ko.sample(
            jax.random.key(0),
            PROBLEMS["squared link"],
            ko.samplers.Tempering(max_iterations=700, symmetry=False),
            num_particles=10_000,
        )
    assert not report.converged


def test_replicas_beside_a_pole_walk_away():
    x = np.linspace(-3.0, 3.0, 300)[:, None]
    f = 2.0 * np.sin(1.2 * x[:, 0])
    counts = np.where(np.abs(f) < 0.3, 1.0, np.round(f**2))
    basis = ko.PointBasis(ko.GaussianProcess(ko.kernels.SquaredExponential(0.4, variance=6.0)), x[::10])
    target = ko.Target(basis, ko.likelihoods.Poisson("square"), x, counts)
    psi = np.asarray(basis.whitened_mean(x))
    modes = ko.target.find_modes(jax.random.key(0), target)
    axes, curvature = _axes(modes)
    # A usual start, but for the row where it is closest to zero, made zero there: a pole, with a slope of 1e5.
    root = np.asarray(modes.roots[0])
    w = np.asarray(modes.positions[0]) + 1.5 * root @ np.random.default_rng(0).normal(size=basis.size)
    row, covariance = psi[np.argmin(np.abs(psi @ w))], root @ root.T
    w = w - covariance @ row * (row @ w - 1e-5) / (row @ covariance @ row)
    with jax.enable_x64(True):
        ladder = lift(Ladder(target, axes, curvature, np.array([0.0, 1.0])))
        at = start(ladder, lift(np.tile(w, (64, 1))), lift(np.full(2, np.log(1.2))))
        at = at._replace(iteration=jnp.asarray(7))
        moved, tally = advance(
            (), jax.random.key(0), ladder, at, empty_tally(ladder, 64), np.asarray(1), np.asarray(0.0)
        )
    # Each eighth step is a short walk, which the slope, whatever it is, has no part in.
    step = (np.asarray(moved.w) - np.asarray(at.w))[-1] * np.sqrt(1.0 + curvature)
    step = step[np.any(step != 0.0, axis=1)]
    assert len(step) > 16
    assert np.mean(np.asarray(tally.accepted)[-1]) > 0.3
    assert np.mean(step**2) == pytest.approx(1.0 / basis.size, rel=0.2)
    assert np.abs(np.mean(step)) < 4.0 * np.std(step) / np.sqrt(step.size)


def test_many_nodes_of_a_quadrature_are_too_dear_to_be_tempered_unasked():
    rng = np.random.default_rng(0)
    x = rng.uniform(-3.0, 3.0, (640, 2))
    basis = ko.PointBasis(ko.GaussianProcess(ko.kernels.Matern52(0.5)), x[:24])
    target = ko.Target(basis, ko.likelihoods.StudentT(1.0, 0.04), x, rng.normal(size=640), "projected")
    assert target.num_nodes == 1
    assert _is_affordable(target)
    optimal = target.with_potential("optimal", num_nodes=34)
    assert optimal.num_nodes == 34
    assert not _is_affordable(optimal)
