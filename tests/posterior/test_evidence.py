"""The evidence of a posterior, of the same draws under the other potential, and of single modes, against quadrature.

One coordinate, so that everything can be integrated on a grid: counts y ~ Poisson(f²) have two modes, f and −f, which a
prior mean makes unequal.
"""

from __future__ import annotations

import functools
import pickle

import jax
import numpy as np
import pytest
import scipy.stats
from scipy.special import gammaln, logsumexp

import kosambi as ko

X = np.linspace(-0.6, 0.6, 8)[:, None]
Y = np.array([4.0, 2.0, 5.0, 3.0, 6.0, 3.0, 4.0, 2.0])
MEAN = 0.8
W = np.linspace(-6.0, 6.0, 2_001)


def target_of(potential="projected"):
    prior = ko.GaussianProcess(ko.kernels.SquaredExponential(lengthscale=1.5, variance=4.0), mean=MEAN)
    return ko.Target(ko.PointBasis(prior, [[0.0]]), ko.likelihoods.Poisson("square"), X, Y, potential)


@functools.cache
def log_masses(potential):
    """log of p(y | w) N(w; 0, 1) dw on the grid, by NumPy alone; "optimal" averages log p over the residual of f."""
    rate = np.exp(-0.5 * np.square(X[:, 0] / 1.5))
    psi, sigma = 2.0 * rate, 2.0 * np.sqrt(1.0 - rate**2)
    xi = np.linspace(-7.0, 7.0, 1_000) if potential == "optimal" else np.zeros(1)
    density = scipy.stats.norm.pdf(xi) / np.sum(scipy.stats.norm.pdf(xi))
    total = scipy.stats.norm.logpdf(W) + np.log(W[1] - W[0])
    for y, weight, deviation in zip(Y, psi, sigma, strict=True):
        f = (MEAN + weight * W)[:, None] + deviation * xi
        with np.errstate(divide="ignore"):
            total += (y * np.log(np.square(f)) - np.square(f) - gammaln(y + 1.0)) @ density
    return total


@pytest.fixture(scope="module")
def tempered():
    target = target_of()
    sampler = ko.samplers.Tempering(num_chains=128)
    return ko.Posterior(target, *ko.sample(jax.random.key(3), target, sampler, num_particles=500))


@pytest.fixture(scope="module")
def parts(tempered):
    """Each mode by itself; every particle is followed to its own."""
    return tempered.by_mode()


@pytest.mark.slow
def test_reweighted_after_tempering_has_the_evidence_of_its_own_potential(tempered):
    projected, optimal = (logsumexp(log_masses(kind)) for kind in ("projected", "optimal"))
    assert abs(projected - optimal) > 1.0
    whole = tempered.log_evidence
    assert abs(whole.value - projected) < 4.0 * whole.standard_error
    again = tempered.reweighted(jax.random.key(4))
    found = again.log_evidence
    assert found.method == "importance"
    assert abs(found.value - optimal) < 4.0 * found.standard_error + 1e-3
    # Nothing of the other potential's evidence is left in what it shows, and the posterior itself is as it was.
    assert again.report.ladder is None
    assert "log evidence" not in str(again.report)
    assert tempered.report.ladder is not None


def test_modes_share_the_evidence(tempered, parts):
    masses, above = log_masses("projected"), W > -MEAN / 2.0
    # There f(0) is zero and the density vanishes; the mode with f > 0 is the one that the prior mean prefers.
    expected = [logsumexp(masses[above]), logsumexp(masses[~above])]
    assert len(parts) == 2
    for part, value in zip(parts, expected, strict=True):
        found = part.log_evidence
        assert abs(found.value - value) < 4.0 * found.standard_error
        assert found.standard_error < 0.2
        assert part.mode_share == part.num_particles / 500
    # Each is told apart from the whole and from the other.
    assert expected[0] - expected[1] > 8.0 * parts[1].log_evidence.standard_error
    assert logsumexp([part.log_evidence.value for part in parts]) == pytest.approx(tempered.log_evidence.value)


def test_the_report_of_a_mode_counts_its_particles(tempered, parts):
    whole = tempered.report
    for part in parts:
        share = part.mode_share
        potential = part.target.potential(part.particles.coordinates)
        assert part.report.energy == pytest.approx([potential.mean()])
        assert len(part.report.acceptance_by_particle) == part.num_particles
        assert part.report.ess == pytest.approx(share * whole.ess)
        assert part.report.mcse == pytest.approx(part.report.ess**-0.5)
        assert (part.report.basins, part.report.converged) == (1, whole.converged)
        assert part.report.ladder.log_evidence == part.log_evidence
        assert f"{100 * share:.3g} % of the posterior" in repr(part)
    assert sum(part.report.ess for part in parts) == pytest.approx(whole.ess)
    # Acceptance rates go with their particles.
    first = np.isin(tempered.particles.coordinates[:, 0], parts[0].particles.coordinates[:, 0])
    np.testing.assert_array_equal(whole.acceptance_by_particle[first], parts[0].report.acceptance_by_particle)


def exact_draws(target, number, seed=0):
    """Independent draws from the posterior on the grid."""
    cdf = np.cumsum(np.exp(log_masses("projected") - logsumexp(log_masses("projected"))))
    w = np.interp(np.random.default_rng(seed).uniform(size=number), cdf, W)
    return ko.samplers.Particles.from_whitened(target, w[:, None])


@pytest.mark.slow
def test_modes_of_draws_without_a_report_share_the_evidence_too():
    target, masses = target_of(), log_masses("projected")
    posterior = ko.Posterior(target, exact_draws(target, 4000))
    parts = posterior.by_mode()
    values = [part.log_evidence for part in parts]
    assert [value.method for value in values] == ["importance"] * 2
    assert logsumexp([value.value for value in values]) == pytest.approx(logsumexp(masses), abs=0.02)
    odds = logsumexp(masses[W > -MEAN / 2.0]) - logsumexp(masses[W <= -MEAN / 2.0])
    assert abs(values[0].value - values[1].value - odds) < 4.0 * values[1].standard_error
    assert all(part.report is None for part in parts)


@pytest.mark.slow
def test_shares_of_a_run_that_does_not_pass_between_modes_have_no_error():
    target = target_of()
    with pytest.warns(ko.errors.ConvergenceWarning, match="do not pass between them"):
        posterior = ko.Posterior(target, *ko.sample(jax.random.key(0), target, ko.samplers.MALA(max_steps=200)))
    parts = posterior.by_mode()
    assert len(parts) == 2
    assert all(np.isnan(part.log_evidence.standard_error) for part in parts)


def test_one_mode_is_the_posterior_itself_and_one_mode_of_several_is_not_reweighted(parts):
    x = np.linspace(-1.0, 1.0, 20)[:, None]
    only = ko.infer(jax.random.key(0), ko.kernels.Matern52(), ko.likelihoods.Gaussian(0.3), x, x[:, 0])
    assert only.by_mode() == [only]
    with pytest.raises(ko.errors.InputError, match=r"reweighted\(key\).by_mode\(\)"):
        parts[0].reweighted(jax.random.key(0))


@pytest.mark.slow
def test_reweighted_modes_share_the_evidence_of_the_optimal_potential(tempered):
    again = tempered.reweighted(jax.random.key(4))
    parts = again.by_mode()
    assert sum(part.mode_share for part in parts) == pytest.approx(1.0)
    assert logsumexp([p.log_evidence.value for p in parts]) == pytest.approx(logsumexp(log_masses("optimal")), abs=0.05)
    assert all(part.reweighting is again.reweighting for part in parts)


def test_one_posterior_has_one_evidence():
    target = target_of()
    first, second = (ko.Posterior(target, exact_draws(target, 50, 0)) for _ in range(2))
    assert first.log_evidence == second.log_evidence
    assert pickle.loads(pickle.dumps(first)).log_evidence == first.log_evidence


@pytest.mark.slow
def test_the_evidence_has_no_seed_of_its_own():
    """Estimates from independent runs scatter around the truth as their standard errors say."""
    target, truth = target_of(), logsumexp(log_masses("projected"))
    found = [ko.Posterior(target, exact_draws(target, 50, seed)).log_evidence for seed in range(40)]
    z = np.array([(value - truth) / error for value, error, _ in found])
    assert 1e-4 < scipy.stats.chi2.cdf(np.sum(np.square(z)), len(z)) < 1.0 - 1e-4
    assert scipy.stats.kstest(z, "norm").pvalue > 1e-4


def test_a_mode_survives_a_file(parts, tmp_path):
    part = parts[1]
    part.save(tmp_path / "mode.kosambi")
    again = ko.load(tmp_path / "mode.kosambi")
    assert again.mode_share == part.mode_share
    assert again.log_evidence == part.log_evidence
    assert again.report == part.report


@pytest.mark.slow
def test_asking_changes_nothing():
    x = np.linspace(-1.0, 1.0, 40)[:, None]
    y = (x[:, 0] > 0).astype(float)
    prior = ko.GaussianRandomElement(ko.kernels.Matern52(0.2), ko.measures.empirical(x))
    posterior = ko.infer(jax.random.key(0), prior, ko.likelihoods.Bernoulli(), x, y, num_inducing=6)
    before, report = pickle.dumps(posterior), posterior.report
    with pytest.warns(ko.errors.SupportWarning, match="1 of 2 new inputs") as caught:
        prediction = posterior.predict([[0.0], [50.0]])
    assert caught[0].filename == __file__
    with pytest.warns(ko.errors.SupportWarning, match="1 of 2 new inputs") as caught:
        posterior.log_predictive_density([[0.0], [50.0]], [0.0, 1.0])
    assert caught[0].filename == __file__
    assert prediction.warnings == (str(caught[0].message),)
    assert posterior.report is report
    posterior.certificate(), posterior.modes(), posterior.functions(jax.random.key(1)), posterior.to_arviz()
    assert pickle.dumps(posterior) == before
