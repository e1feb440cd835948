"""The potential with neighbours: all rows are the dense posterior, V by brute force, gradients, sites, refusals."""

import jax
import numpy as np
import pytest
import scipy.stats

import kosambi as ko
from kosambi._core import room
from kosambi.target import device_rounds, least_squares, neighborhood, neighbors, sites
from kosambi.target.host_newton import HostPotential
from kosambi.target.marginal_term import MarginalTerm
from tests.cases import cases

lk = ko.likelihoods
RNG = np.random.default_rng(0)
N = 60
X = RNG.uniform(-1.0, 1.0, (N, 2))
F = np.sin(3.0 * X[:, 0]) + X[:, 1]
Y = F + 0.2 * RNG.normal(size=N)
NEW = RNG.uniform(-1.2, 1.2, (9, 2))
PRIORS = {
    "process": ko.GaussianProcess(ko.kernels.Matern32([0.5, 0.8], 1.5), 0.3),
    "element": ko.GaussianRandomElement(ko.kernels.SquaredExponential(0.4), ko.measures.empirical(X), 0.3),
}
LIKELIHOODS = {
    "logit": (lk.Bernoulli(), (F > 0).astype(float)),
    "probit": (lk.Bernoulli("probit"), (F > 0).astype(float)),
    "counts": (lk.Poisson("exp"), RNG.poisson(np.exp(F)).astype(float)),
    "heavy": (lk.StudentT(4.0, 0.2), np.where(np.arange(N) % 10, Y, 6.0)),
    "dispersed": (lk.NegativeBinomial(0.5), RNG.poisson(np.exp(F)).astype(float)),
    "absolute": (lk.Laplace(0.3), Y),
    "zeros": (lk.ZeroInflatedPoisson(0.2), RNG.poisson(np.exp(F)).astype(float)),
}


def basis_of(prior, size=6):
    kind = ko.RitzBasis if isinstance(prior, ko.GaussianRandomElement) else ko.PointBasis
    return kind(prior, X[:size])


def exact(target, number=50):
    return ko.Posterior(target, *ko.sample(jax.random.key(0), target, "exact", num_particles=number))


@pytest.mark.parametrize("name", PRIORS)
@pytest.mark.parametrize(
    "weights", [None, np.where(np.arange(N) % 7, 1.0 + np.arange(N) % 3, 0.0)], ids=["", "weights"]
)
def test_with_all_rows_it_is_the_dense_posterior(name, weights):
    prior = PRIORS[name]
    target = ko.Target(basis_of(prior), lk.Gaussian(0.2), X, Y, "neighbors", weights=weights, num_neighbors=N)
    posterior = exact(target)
    counts = np.ones(N) if weights is None else weights
    kept = counts > 0
    noise = 0.04 / counts[kept]
    gram = prior.covariance(X[kept]) + np.diag(noise)
    cross = prior.covariance(NEW, X[kept])
    mean = 0.3 + cross @ np.linalg.solve(gram, Y[kept] - 0.3)
    variance = prior.variance(NEW) - np.sum(cross * np.linalg.solve(gram, cross.T).T, axis=1)
    p = posterior.predict(NEW)
    np.testing.assert_allclose(p.mean, mean, atol=1e-8)
    np.testing.assert_allclose(p.variance, variance, atol=1e-8)
    evidence = scipy.stats.multivariate_normal(np.full(kept.sum(), 0.3), gram).logpdf(Y[kept])
    # Copies of one observation are one with less noise, and a factor.
    evidence += np.sum(-0.5 * (counts[kept] - 1.0) * np.log(2 * np.pi * 0.04) - 0.5 * np.log(counts[kept]))
    assert posterior.log_evidence.value == pytest.approx(evidence, abs=1e-8)


def test_few_neighbors_are_near_the_dense_posterior_and_none_are_not():
    prior, errors = PRIORS["process"], []
    wanted = exact(ko.Target(basis_of(prior), lk.Gaussian(0.2), X, Y, "neighbors", num_neighbors=N)).predict(NEW)
    for number in (0, 5, 20):
        p = exact(ko.Target(basis_of(prior), lk.Gaussian(0.2), X, Y, "neighbors", num_neighbors=number)).predict(NEW)
        errors.append(float(np.max(np.abs(p.mean - wanted.mean))))
    assert errors[0] > 2.0 * errors[1] > 4.0 * errors[2], errors


def test_noise_of_each_observation():
    noise = RNG.uniform(0.1, 0.5, N)
    prior = PRIORS["process"]
    target = ko.Target(basis_of(prior), lk.Gaussian(noise), X, Y, "neighbors", num_neighbors=N)
    gram = prior.covariance(X) + np.diag(noise**2)
    mean = 0.3 + prior.covariance(NEW, X) @ np.linalg.solve(gram, Y - 0.3)
    np.testing.assert_allclose(exact(target).predict(NEW).mean, mean, atol=1e-8)


@pytest.mark.parametrize(
    ("weighting", "name"),
    cases(["", "weights"], LIKELIHOODS, quick=["-logit", "-counts", "-heavy", "-absolute", "weights-heavy"]),
)
def test_potential_by_brute_force_and_its_derivatives(weighting, name):
    likelihood, y = LIKELIHOODS[name]
    weights = np.where(np.arange(N) % 7, 1.0 + np.arange(N) % 2, 0.0) if weighting else None
    basis = basis_of(PRIORS["process"])
    target = ko.Target(basis, likelihood, X, y, "neighbors", num_neighbors=8, weights=weights)
    term, report = target.term, target.neighborhood.report
    assert isinstance(term, MarginalTerm)
    assert (report.num_unsettled, report.num_clipped) == (0, 0)
    w = 0.5 * np.random.default_rng(1).normal(size=(3, 6))
    u = basis.colour(w)
    grid = np.linspace(-12.0, 12.0, 3001)
    count = np.ones(N) if weights is None else weights
    for one, value in zip(w, target.potential(u), strict=True):
        f = (term.offset + term.psi @ one)[:, None] + term.deviation[:, None] * grid
        cost = np.where(count[:, None] > 0, count[:, None] * likelihood.cost(y[:, None], f), 0.0)
        logs = -cost - 0.5 * grid**2 - 0.5 * np.log(2 * np.pi) + np.log(grid[1] - grid[0])
        wanted = 0.5 * one @ one - np.sum(scipy.special.logsumexp(logs, axis=1))
        assert value == pytest.approx(wanted, rel=1e-5, abs=1e-3)
    assert np.all(target.quadrature_error(u) < 1e-2)
    slope, h = target.gradient(u[0]), 1e-4
    for i in range(3):
        move = h * np.eye(6)[i]
        numeric = (target.potential(u[0] + move) - target.potential(u[0] - move)) / (2 * h)
        assert slope[i] == pytest.approx(numeric, rel=2e-3, abs=2e-3)


@pytest.mark.parametrize("name", ["logit", pytest.param("heavy", marks=pytest.mark.slow)])
def test_draws_with_mala_and_predictions(name):
    likelihood, y = LIKELIHOODS[name]
    posterior = ko.infer(
        jax.random.key(0), PRIORS["process"], likelihood, X, y, num_inducing=6, potential="neighbors", num_neighbors=15
    )
    assert posterior.report.converged
    p = posterior.predict(NEW)
    assert np.all(p.variance > 0)
    truth = np.sin(3.0 * NEW[:, 0]) + NEW[:, 1]
    assert np.corrcoef(p.mean, truth)[0, 1] > 0.8
    assert np.all(np.isfinite(posterior.log_predictive_density(NEW, y[:9])))


def test_sites_of_heavy_tails_have_the_moments_of_their_factors_and_outliers_say_nothing():
    likelihood, y = LIKELIHOODS["heavy"]
    target = ko.Target(basis_of(PRIORS["process"]), likelihood, X, y, "neighbors", num_neighbors=N)
    site, rows = target.neighborhood.precision, target.neighborhood
    is_outlier = np.arange(N) % 10 == 0
    # An observation of this noise says (ν + 1)/(ν + 3)/scale² on average.
    usual = 5.0 / 7.0 / 0.04
    assert 0.5 * usual < np.median(site[~is_outlier]) < 1.3 * usual
    assert np.max(site[is_outlier]) < 0.02 * usual
    # All others as neighbours: a grid knows the moments of each factor times what they say.
    everything, given = np.arange(N), rows.left_out(target.basis, np.arange(N))
    particles, _ = ko.sample(jax.random.key(0), target, num_particles=256)
    w = np.asarray(particles.whitened)
    mean = given.offset + given.psi @ w.mean(axis=0)
    variance = given.variance + np.var(w @ given.psi.T, axis=0)
    grid = np.linspace(-8.0, 8.0, 4001)
    for n in everything[~is_outlier][::6]:
        z = mean[n] + np.sqrt(variance[n]) * grid
        logs = -likelihood.cost(y[n], z) - 0.5 * grid**2
        density = np.exp(logs - np.max(logs))
        density /= density.sum()
        centre = density @ z
        spread = density @ np.square(z - centre)
        together = 1.0 / (1.0 / variance[n] + site[n])
        assert together == pytest.approx(spread, rel=0.25)
        matched = together * (mean[n] / variance[n] + site[n] * rows.location[n])
        assert abs(matched - centre) < 0.3 * np.sqrt(spread)


def test_neighbors_need_one_factor_for_each_observation():
    basis, y = basis_of(PRIORS["process"]), np.ones(N)
    joint = lk.CustomJoint(lambda y, f: jax.numpy.sum((y - f) ** 2))
    for likelihood, text in (
        (joint, "all of them together"),
        (lk.Poisson("square"), "erase the others"),
        (lk.ShiftMixture(1.0, 0.5, 1.0), "erase the others"),
        (lk.Categorical(3), "one latent function"),
    ):
        with pytest.raises(ValueError, match=text):
            ko.Target(basis, likelihood, X, y, "neighbors")
    with pytest.raises(ValueError, match="follows the paper's projection"):
        ko.Target(ko.NystromBasis(PRIORS["element"], X[:5]), lk.Gaussian(), X, Y, "neighbors")


@pytest.mark.parametrize("number", [-1, True])
def test_bad_numbers_of_neighbors(number):
    with pytest.raises(ValueError, match="zero or more"):
        ko.Target(basis_of(PRIORS["process"]), lk.Gaussian(), X, Y, "neighbors", num_neighbors=number)


def test_a_number_without_the_potential():
    with pytest.raises(ValueError, match="Leave out one"):
        ko.Target(basis_of(PRIORS["process"]), lk.Gaussian(), X, Y, "projected", num_neighbors=5)


@pytest.mark.parametrize("likelihood", [lk.Gaussian(0.2), lk.Bernoulli()], ids=["gaussian", "labels"])
def test_equal_rows_and_ties(likelihood):
    x = np.repeat(X[:6], 5, axis=0)
    y = (np.arange(30) % 2).astype(float)
    target = ko.Target(basis_of(PRIORS["process"], 3), likelihood, x, y, "neighbors", num_neighbors=12)
    assert np.all(np.isfinite(target.potential(np.zeros(3))))
    same = ko.PointBasis(PRIORS["process"], X[10:11])
    target = ko.Target(same, likelihood, np.zeros((30, 2)), y, "neighbors", num_neighbors=40)
    posterior = ko.Posterior(target, *ko.sample(jax.random.key(0), target, num_particles=20))
    assert np.all(posterior.predict(np.zeros((1, 2))).variance < 0.5)


def test_rows_of_weight_zero_are_as_if_absent():
    weights = np.r_[np.ones(40), np.zeros(20)]
    basis = basis_of(PRIORS["process"])
    with_zero = exact(ko.Target(basis, lk.Gaussian(0.2), X, Y, "neighbors", weights=weights, num_neighbors=5))
    without = exact(ko.Target(basis, lk.Gaussian(0.2), X[:40], Y[:40], "neighbors", num_neighbors=5))
    np.testing.assert_allclose(with_zero.predict(NEW).mean, without.predict(NEW).mean, atol=1e-10)
    assert with_zero.log_evidence.value == pytest.approx(without.log_evidence.value, abs=1e-9)
    nothing = exact(ko.Target(basis, lk.Gaussian(0.2), X, Y, "neighbors", weights=np.zeros(N), num_neighbors=5))
    np.testing.assert_allclose(nothing.predict(NEW).mean, 0.3, atol=1e-12)


def test_another_potential_keeps_the_number_of_neighbours():
    target = ko.Target(basis_of(PRIORS["process"]), lk.Gaussian(0.2), X, Y, "neighbors", num_neighbors=8)
    assert target.with_potential("neighbors").num_neighbors == 8
    assert target.with_potential("neighbors", num_neighbors=4).num_neighbors == 4
    assert target.with_potential("projected").num_neighbors is None


def test_features_in_single_precision(monkeypatch):
    smooth = ko.GaussianProcess(ko.kernels.SquaredExponential(0.6))
    found = {}
    for most in (2**27, 0):
        monkeypatch.setattr(neighborhood, "SINGLE_ABOVE", most)
        target = ko.Target(ko.PointBasis(smooth, X[:20]), lk.Gaussian(0.01), X, Y, "neighbors", num_neighbors=15)
        # What rounding leaves is no doubt about the model.
        assert target.neighborhood.report.num_clipped == 0
        found[most] = exact(target).predict(NEW)
    assert target.neighborhood.psi.dtype == np.float32
    # By a small part of what is uncertain anyway.
    deviation = np.sqrt(found[2**27].variance)
    assert np.max(np.abs(found[0].mean - found[2**27].mean) / deviation) < 0.1
    assert np.max(np.abs(np.sqrt(found[0].variance) / deviation - 1.0)) < 0.05


@pytest.mark.parametrize("name", ["gaussian", "logit", pytest.param("heavy", marks=pytest.mark.slow)])
def test_how_much_memory_there_is_changes_no_digit_that_matters(name, monkeypatch):
    """Blocks of 16 rows, systems one by one, of which eight, or none, are kept, and sums over blocks."""
    likelihood, y = (lk.Gaussian(0.2), Y) if name == "gaussian" else LIKELIHOODS[name]
    basis, weights = basis_of(PRIORS["process"]), np.where(np.arange(N) % 11 == 0, 0.0, 1.5)
    options = {"weights": weights, "num_neighbors": 7}
    right = ko.Target(basis, likelihood, X, y, "neighbors", **options)
    w = RNG.normal(size=(4, basis.size))
    monkeypatch.setattr(room, "FEWEST_ROWS", 16)
    monkeypatch.setattr(neighbors, "IN_BLOCKS", 0)
    for kept in (0, 2 * 8 * 7 * 8 * 8):
        limited = ko.Target(basis, likelihood, X, y, "neighbors", room=room.Room(0, kept), **options)
        for one, other in zip(limited.value_and_gradient(w), right.value_and_gradient(w), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-10)
        assert limited.neighborhood.report == right.neighborhood.report
        for field in ("psi", "precision", "location"):
            one, other = (getattr(target.neighborhood, field) for target in (limited, right))
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
    narrow = ko.Target(basis, likelihood, X, y, "neighbors", room=room.Room(features=0), **options)
    assert narrow.neighborhood.psi.dtype == np.float32
    difference = np.abs(narrow.potential(w) - right.potential(w))
    assert np.all((difference > 0) & (difference < 1e-2))


def test_least_squares_in_blocks_of_rows(monkeypatch):
    rng = np.random.default_rng(2)
    psi, error, precision = rng.normal(size=(90, 7)), rng.normal(size=90), rng.uniform(size=90)
    precision[::9] = 0.0
    whole = least_squares.least_squares(psi, error, precision, 1.5)
    monkeypatch.setattr(least_squares, "IN_BLOCKS", 1)
    for rows in (16, 40, 200):
        monkeypatch.setattr(least_squares, "_ROWS_OF_A_BLOCK", rows)
        part = least_squares.least_squares(psi, error, precision, 1.5)
        np.testing.assert_allclose(part.root.T @ part.root, whole.root.T @ whole.root, atol=1e-12)
        np.testing.assert_allclose(part.root.T @ part.aim, whole.root.T @ whole.aim, atol=1e-12)
        assert float(part.constant) == pytest.approx(float(whole.constant), rel=1e-12)


def test_sites_settle_when_all_rows_do_or_all_but_a_few_of_very_many():
    still, one = np.zeros(200), np.zeros(200)
    one[7] = 1.0
    usual = sites.SETTLED, sites.MANY
    assert sites._has_settled(still, *usual)
    assert not sites._has_settled(one, *usual)
    assert sites._has_settled(one, 1.0, sites.MANY)
    many = np.zeros(3 * sites.MANY)
    many[:3] = 1.0
    assert sites._has_settled(many, *usual)
    many[3] = 1.0
    assert not sites._has_settled(many, *usual)
    assert sites._has_settled(many, sites.SETTLED, sites.FEW)
    assert sites._has_settled(np.zeros(0), *usual)


def test_moments_that_lead_nowhere_leave_the_variational_sites(monkeypatch):
    likelihood, y = LIKELIHOODS["heavy"]
    monkeypatch.setattr(sites, "_matched", lambda *_: None)
    target = ko.Target(basis_of(PRIORS["process"]), likelihood, X, y, "neighbors", num_neighbors=8)
    report = target.neighborhood.report
    assert report.num_unsettled == 0
    # Parabolas above the cost, which are steeper than an ordinary observation is informative.
    assert np.max(target.neighborhood.precision) > 5.0 / 7.0 / 0.04


def test_the_search_begins_at_the_mean_given_sites():
    likelihood, y = LIKELIHOODS["heavy"]
    target = ko.Target(basis_of(PRIORS["process"]), likelihood, X, y, "neighbors", num_neighbors=8)
    term = target.term
    strength = term.precision / (1.0 + term.precision * term.deviation**2)
    normal = np.eye(6) + term.psi.T @ (strength[:, None] * term.psi)
    wanted = np.linalg.solve(normal, term.psi.T @ (strength * (term.location - term.offset)))
    np.testing.assert_allclose(HostPotential(term).likely_start(), wanted, atol=1e-10)
    assert len(ko.target.find_modes(jax.random.key(0), target).potentials) == 1


@pytest.mark.parametrize("single", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["double", "single"])
def test_rounds_on_an_accelerator_are_those_of_the_host(single, monkeypatch):
    """In blocks that do not divide the rows, with rows that do not count and places that are empty."""
    x = np.random.default_rng(3).uniform(-1.0, 1.0, (90, 2))
    y = (np.sin(4.0 * x[:, 0]) > 0).astype(float)
    weights = np.where(np.arange(90) % 11 == 0, 0.0, 1.5)
    basis = basis_of(ko.GaussianProcess(ko.kernels.Matern32(0.4, 2.0), 0.3))
    if single:
        monkeypatch.setattr(neighborhood, "SINGLE_ABOVE", 1)
    options = {"weights": weights, "num_neighbors": 7}
    right = ko.Target(basis, ko.likelihoods.Bernoulli(), x, y, "neighbors", **options)
    monkeypatch.setattr(sites, "has_room", lambda *_: True)
    monkeypatch.setattr(device_rounds, "_BLOCK", 7 * (6 + 7) * 40)
    # What is not finite would be found on the host once more.
    on_host = []
    monkeypatch.setattr(sites, "marginals_on_host", lambda *_: on_host.append(True))
    found = ko.Target(basis, ko.likelihoods.Bernoulli(), x, y, "neighbors", **options)
    assert not on_host
    assert found.neighborhood.report.rounds == right.neighborhood.report.rounds > 1
    for name in ("precision", "location"):
        one, other = (np.asarray(getattr(target.neighborhood, name)) for target in (found, right))
        np.testing.assert_allclose(one, other, rtol=1e-4 if single else 1e-9, atol=1e-9)


def test_other_rows_are_the_nearest_by_all_distances():
    rng = np.random.default_rng(4)
    x, scales = rng.normal(size=(50, 2)), np.array([1.0, 3.0])
    weights = np.where(np.arange(50) % 7 == 0, 0.0, 1.0)
    distance = np.linalg.norm((x[:, None] - x) / scales, axis=2)
    # Never the row itself, nor one that does not count.
    distance[:, weights == 0] = np.inf
    np.fill_diagonal(distance, np.inf)
    found = neighborhood.other_rows(x, weights, scales, 6)
    np.testing.assert_array_equal(np.sort(found, axis=1), np.sort(np.argsort(distance, axis=1)[:, :6], axis=1))


def test_the_host_goes_on_where_an_accelerator_cannot_solve(monkeypatch):
    x = np.random.default_rng(3).uniform(-1.0, 1.0, (60, 2))
    y = (np.sin(4.0 * x[:, 0]) > 0).astype(float)
    basis = basis_of(ko.GaussianProcess(ko.kernels.Matern32(0.4, 2.0)))
    right = ko.Target(basis, ko.likelihoods.Bernoulli(), x, y, "neighbors", num_neighbors=5)
    nothing = np.full(60, np.nan)
    monkeypatch.setattr(sites, "_marginals_on_device", lambda *_: lambda _: (nothing, nothing))
    found = ko.Target(basis, ko.likelihoods.Bernoulli(), x, y, "neighbors", num_neighbors=5)
    np.testing.assert_array_equal(found.neighborhood.precision, right.neighborhood.precision)
    assert found.neighborhood.report.num_unsettled == 0
