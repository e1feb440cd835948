"""Leave-one-out scores against models that are fitted N times, and the number of inducing points chosen by them."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import kosambi as ko
from kosambi.basis.inducing import as_num_inducing
from kosambi.errors import InputError, TruncationWarning
from kosambi.learning import selection as selection_module
from kosambi.learning.leave_one_out import scores
from kosambi.learning.sizes import ladder, rounded_up

lk = ko.likelihoods
RNG = np.random.default_rng(3)
X = RNG.uniform(-2.0, 2.0, (30, 1))
Y = np.sin(2.0 * X[:, 0]) + 0.3 * RNG.normal(size=30)
PRIOR = ko.GaussianProcess(ko.kernels.Matern52(0.6, 1.2), 0.1)
Z = X[ko.inducing.greedy_variance(PRIOR, X, 8)]


def weights_and_residual(size):
    root = np.linalg.cholesky(PRIOR.covariance(Z[:size]))
    psi = np.linalg.solve(root, PRIOR.covariance(Z[:size], X)).T
    return psi, PRIOR.variance(X) - np.sum(psi**2, axis=1)


def score(likelihood, y, counts=None, sizes=(4, 8)):
    psi, _ = weights_and_residual(8)
    counts = np.ones(30) if counts is None else counts
    return scores(likelihood, psi, PRIOR.variance(X), PRIOR.mean_at(X), y, counts, list(sizes))


@pytest.mark.parametrize("noise", [0.3, np.linspace(0.2, 0.5, 30)], ids=["one noise", "a noise for each"])
def test_gaussian_scores_are_those_of_thirty_fits(noise):
    found = score(lk.Gaussian(noise), Y)
    sd = np.broadcast_to(noise, 30)
    for size, one in zip((4, 8), found, strict=True):
        psi, residual = weights_and_residual(size)
        densities = []
        for n in range(30):
            rest = np.arange(30) != n
            scaled = psi[rest] / sd[rest, None]
            covariance = np.linalg.inv(np.eye(size) + scaled.T @ scaled)
            mean = covariance @ scaled.T @ ((Y - 0.1)[rest] / sd[rest])
            spread = psi[n] @ covariance @ psi[n] + residual[n] + sd[n] ** 2
            densities.append(scipy.stats.norm.logpdf(Y[n], 0.1 + psi[n] @ mean, np.sqrt(spread)))
        np.testing.assert_allclose(one.score, -np.mean(densities), rtol=1e-9)
        np.testing.assert_allclose(one.residual_share, residual.sum() / PRIOR.variance(X).sum(), rtol=1e-9)


def test_gap_is_that_of_the_certificate():
    found = score(lk.Gaussian(0.3), Y)
    for size, one in zip((4, 8), found, strict=True):
        posterior = ko.infer(jax.random.key(0), PRIOR, lk.Gaussian(0.3), X, Y, inducing_points=Z[:size])
        np.testing.assert_allclose(one.gap, posterior.certificate().full_bound / 30, rtol=1e-6)


def test_laplace_scores_are_exact_for_a_normal_cost():
    def cost(y, f):
        return 0.5 * jnp.square((y - f) / 0.3) + jnp.log(0.3) + 0.5 * jnp.log(2.0 * jnp.pi)

    counts = np.where(np.arange(30) % 3 == 0, 2.0, 1.0)
    custom = lk.Custom(cost, is_density=True, is_convex=True)
    for weights in (None, counts):
        exact, found = score(lk.Gaussian(0.3), Y, weights), score(custom, Y, weights)
        np.testing.assert_allclose([one.score for one in found], [one.score for one in exact], rtol=1e-6)


def test_weights_are_copies_that_are_left_out_together():
    counts = np.where(np.arange(30) % 3 == 0, 2.0, 1.0)
    counts[4] = 0.0
    (found,) = score(lk.Gaussian(0.3), Y, counts, [8])
    psi, residual = weights_and_residual(8)
    total = 0.0
    for n in np.flatnonzero(counts):
        rows = np.repeat(np.arange(30), counts.astype(int))
        rows = rows[rows != n]
        covariance = np.linalg.inv(np.eye(8) + psi[rows].T @ psi[rows] / 0.09)
        mean = 0.1 + psi[n] @ covariance @ psi[rows].T @ (Y[rows] - 0.1) / 0.09
        spread = psi[n] @ covariance @ psi[n] + residual[n] + 0.09
        total += counts[n] * scipy.stats.norm.logpdf(Y[n], mean, np.sqrt(spread))
    np.testing.assert_allclose(found.score, -total / counts.sum(), rtol=1e-9)


@pytest.mark.slow
def test_laplace_scores_are_near_those_of_thirty_runs():
    labels = (Y > 0.1).astype(float)
    (found,) = score(lk.Bernoulli(), labels, None, [8])
    basis = ko.PointBasis(PRIOR, Z)
    densities = []
    # Weights keep the shapes, so that one compilation serves all.
    for n in range(30):
        weights = (np.arange(30) != n).astype(float)
        target = ko.Target(basis, lk.Bernoulli(), X, labels, potential="projected", weights=weights)
        particles, report = ko.sample(jax.random.key(n), target, num_particles=400)
        densities.append(
            ko.Posterior(target, particles, report).log_predictive_density(X[n : n + 1], labels[n : n + 1])[0]
        )
    assert abs(found.score + np.mean(densities)) < 0.02
    # Predicting data that were seen is told apart by more than that.
    how = {"inducing_points": Z, "num_particles": 400, "potential": "projected"}
    fitted = ko.infer(jax.random.key(0), PRIOR, lk.Bernoulli(), X, labels, **how)
    assert abs(found.score + np.mean(fitted.log_predictive_density(X, labels))) > 0.04


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Poisson", "StudentT"])
def test_rough_divergence_is_that_of_the_certificate(name):
    counts = np.random.default_rng(4).poisson(np.exp(1.0 + np.sin(2.0 * X[:, 0]))).astype(float)
    likelihood, y = (lk.Poisson(), counts) if name == "Poisson" else (lk.StudentT(4.0, 0.25), Y)
    (found,) = score(likelihood, y, None, [8])
    how = {"inducing_points": Z, "num_particles": 2000, "potential": "projected"}
    posterior = ko.infer(jax.random.key(0), PRIOR, likelihood, X, y, **how)
    certificate = posterior.certificate()
    assert certificate.divergence > 5.0 * certificate.standard_error
    assert 0.4 < found.divergence / certificate.divergence < 2.5


WIDE = np.linspace(-5.0, 5.0, 600)[:, None]
WAVES = np.sin(3.0 * WIDE[:, 0]) + 0.2 * np.random.default_rng(1).normal(size=600)
SMOOTH = ko.GaussianProcess(ko.kernels.SquaredExponential(0.5))


@pytest.mark.slow
def test_doubling_the_choice_does_not_help():
    selection = ko.select_inducing(SMOOTH, lk.Gaussian(0.2), WIDE, WAVES)
    assert selection.reason == "prediction"
    assert selection.is_enough
    sizes = (selection.sufficient // 2, selection.sufficient, 2 * selection.sufficient)
    test = np.sin(3.0 * WIDE[:, 0]) + 0.2 * np.random.default_rng(2).normal(size=600)
    nll = [
        -np.mean(
            ko.infer(
                jax.random.key(0), SMOOTH, lk.Gaussian(0.2), WIDE, WAVES, num_inducing=size
            ).log_predictive_density(WIDE, test)
        )
        for size in sizes
    ]
    assert nll[1] - nll[2] < 0.02
    # Half as many would have been too few.
    assert nll[0] - nll[1] > 0.1
    assert "more points would not predict better" in str(selection)
    at = list(selection.sizes).index(selection.num_inducing)
    for other in selection.alternatives:
        place = list(selection.sizes).index(other.num_inducing)
        assert abs(place - at) == 1
        assert other.num_neighbors is None
        assert other.gain == pytest.approx(selection.score[at] - selection.score[place])
    np.testing.assert_array_equal(selection.indices, ko.inducing.greedy_variance(SMOOTH, WIDE, selection.num_inducing))


@pytest.mark.parametrize("name", ["StudentT", "Poisson", "element"])
def test_other_models(name):
    prior, likelihood, y = SMOOTH, lk.StudentT(4.0, 0.2), WAVES
    if name == "Poisson":
        likelihood, y = (
            lk.Poisson(),
            np.random.default_rng(1).poisson(np.exp(1.0 + np.sin(3.0 * WIDE[:, 0]))).astype(float),
        )
    if name == "element":
        prior = ko.GaussianRandomElement(ko.kernels.SquaredExponential(0.5, 3.0), ko.measures.empirical(WIDE))
        likelihood = lk.Gaussian(0.2)
    selection = ko.select_inducing(prior, likelihood, WIDE, y)
    assert selection.reason == "prediction"
    assert 16 <= selection.sufficient <= selection.num_inducing <= 64


def test_the_key_does_not_matter():
    found = [
        ko.infer(jax.random.key(seed), SMOOTH, lk.Gaussian(0.2), WIDE, WAVES, num_inducing="auto") for seed in (0, 1)
    ]
    np.testing.assert_array_equal(found[0].selection.indices, found[1].selection.indices)
    assert found[0].basis.size == found[0].selection.num_inducing
    assert not found[0].report.warnings


def test_budgets_end_the_growth_and_say_so():
    with pytest.warns(TruncationWarning, match="memory"):
        selection = ko.select_inducing(SMOOTH, lk.Gaussian(0.2), WIDE, WAVES, max_bytes=12 * 8 * 5 * 600)
    assert (selection.num_inducing, selection.reason) == (12, "memory")
    rough = ko.GaussianProcess(ko.kernels.Matern12(0.05))
    with pytest.warns(TruncationWarning, match="time"):
        selection = ko.select_inducing(rough, lk.Gaussian(0.01), WIDE, WAVES, max_seconds=1e-6)
    assert (selection.num_inducing, selection.reason) == (256, "time")


@pytest.mark.slow
def test_all_rows_are_taken_where_looking_for_fewer_would_cost_more(monkeypatch):
    monkeypatch.setattr(selection_module, "_FIRST", 8)
    monkeypatch.setattr(selection_module, "FULL_FROM", 8)
    x = np.concatenate([X, X[:3]])
    y = np.concatenate([Y, Y[:3]])
    rough = ko.GaussianProcess(ko.kernels.Matern32(0.05))
    found = ko.select_inducing(rough, lk.Gaussian(0.1), x, y)
    assert (found.reason, found.num_inducing, found.is_enough) == ("full", 30, True)
    np.testing.assert_array_equal(found.indices, np.arange(30))
    assert "all rows together cost less" in str(found)
    assert "30 (taken)" in found._repr_html_()
    # A likelihood that needs steps is drawn from with fewer, and so is what has no time for all.
    assert ko.select_inducing(rough, lk.Laplace(0.1), x, y).reason != "full"
    assert ko.select_inducing(rough, lk.Gaussian(0.1), x, y, max_seconds=10.0).reason != "full"
    posterior = ko.infer(jax.random.key(0), rough, lk.Gaussian(0.1), x, y)
    gram = rough.covariance(x) + 0.01 * np.eye(33)
    np.testing.assert_allclose(posterior.predict(x).mean, rough.covariance(x) @ np.linalg.solve(gram, y), atol=1e-8)


@pytest.mark.slow
def test_what_cannot_be_drawn_from_in_time_is_not_chosen(monkeypatch):
    rough = ko.GaussianProcess(ko.kernels.Matern12(0.05))
    monkeypatch.setattr(selection_module, "_FIRST", 32)
    monkeypatch.setattr(selection_module, "PER_SECOND", 40 * 600 / 120.0)
    with pytest.warns(TruncationWarning, match="draws with more"):
        selection = ko.select_inducing(rough, lk.StudentT(4.0, 0.01), WIDE, WAVES)
    assert (selection.num_inducing, selection.reason) == (40, "drawing")
    assert not selection.is_enough
    # Never fewer than the first pass tries, however many rows there are.
    monkeypatch.setattr(selection_module, "PER_SECOND", 1.0)
    with pytest.warns(TruncationWarning, match="draws with more"):
        assert ko.select_inducing(rough, lk.StudentT(4.0, 0.01), WIDE, WAVES).num_inducing == 32
    # Nothing is stepped for a Gaussian likelihood.
    assert ko.select_inducing(rough, lk.Gaussian(0.01), WIDE, WAVES).num_inducing > 100


def test_other_reasons():
    few = ko.select_inducing(ko.GaussianProcess(ko.kernels.Matern12(0.5)), lk.Gaussian(0.01), X, Y)
    assert (few.num_inducing, few.reason) == (30, "rows")
    linear = ko.GaussianProcess(ko.kernels.Linear())
    assert ko.select_inducing(linear, lk.Gaussian(0.2), WIDE, WAVES).reason == "variance"
    labels = np.random.default_rng(0).integers(0, 3, 600).astype(float)
    several = ko.select_inducing(SMOOTH, lk.Categorical(3), WIDE, labels)
    assert several.reason == "variance"
    assert np.all(np.isnan(several.score))
    twice = np.repeat(X[:5], 4, axis=0)
    assert ko.select_inducing(PRIOR, lk.Gaussian(0.3), twice, np.repeat(Y[:5], 4)).num_inducing <= 5


def test_little_noise_needs_more_than_the_prior_variance():
    # A millionth of the prior variance is much beside the noise.
    x = np.random.default_rng(0).uniform(-1.0, 1.0, (300, 2))
    y = np.sin(5.0 * x[:, 0]) * np.cos(4.0 * x[:, 1]) + 1e-4 * np.random.default_rng(1).normal(size=300)
    found = ko.select_inducing(ko.GaussianProcess(ko.kernels.SquaredExponential(0.7)), lk.Gaussian(1e-4), x, y)
    at = int(np.flatnonzero(found.sizes == found.num_inducing)[0])
    assert found.score[at] - np.min(found.score) < 0.015


@pytest.mark.parametrize("name", ["several", "loss", "joint", "weights"])
def test_without_a_score_the_prior_variance_decides(name):
    likelihood, y, weights = {
        "several": (lk.Categorical(3), np.random.default_rng(0).integers(0, 3, 600).astype(float), None),
        "loss": (lk.Huber(0.2), WAVES, None),
        "joint": (lk.CustomJoint(lambda y, f: jnp.max(jnp.abs(y - f))), WAVES, None),
        "weights": (lk.Bernoulli(), (WAVES > 0).astype(float), np.zeros(600)),
    }[name]
    for prior in (SMOOTH, ko.GaussianRandomElement(SMOOTH.kernel, ko.measures.empirical(WIDE))):
        found = ko.select_inducing(prior, likelihood, WIDE, y, weights=weights)
        path = ko.inducing.greedy_path(prior, WIDE, 98)
        share = path.residual_trace / path.prior_trace
        assert found.reason == "variance"
        assert found.is_enough
        assert np.all(np.isnan(found.score))
        assert share[found.sufficient - 1] <= 1e-3 < share[ladder(98)[ladder(98).index(found.sufficient) - 1] - 1]
        np.testing.assert_array_equal(found.indices, path.indices[: found.num_inducing])
    rough = ko.select_inducing(ko.GaussianProcess(ko.kernels.Matern12(0.02)), likelihood, WIDE, y, weights=weights)
    assert (rough.num_inducing, rough.reason) == (98, "limit")
    assert "at most 4√N points" in str(rough)


def test_more_points_are_taken_where_they_cost_nothing():
    # Halves of the same data find different numbers enough, and compile for one.
    found = [ko.select_inducing(PRIOR, lk.Bernoulli(), WIDE[i::2], (WAVES[i::2] > 0).astype(float)) for i in (0, 1)]
    assert {one.num_inducing for one in found} == {64}
    assert all(one.sufficient < 64 for one in found)
    assert f"{found[0].sufficient} were enough" in str(found[0])
    assert rounded_up(16, 256, 4000) == 64
    assert rounded_up(16, 256, 5000) == 16
    assert rounded_up(300, 1000, 400) == 512
    # All of them, where more than half are needed.
    assert rounded_up(300, 511, 400) == 511
    assert rounded_up(300, 511, 1000) == 300
    assert [rounded_up(size, 48, 48) for size in (8, 32, 45, 48)] == [32, 48, 48, 48]
    assert rounded_up(1, 1, 9) == 1


def test_what_a_selection_shows():
    found = ko.select_inducing(PRIOR, lk.Gaussian(0.2), WIDE, WAVES)
    assert repr(found).startswith("Selection(num_inducing=64, reason='prediction', tolerance=0.015, sufficient=")
    shown = found._repr_html_()
    assert shown.count("<tr>") == len(found.sizes) + 1
    assert "64 (taken)" in shown
    for number in (*found.score, *found.divergence, *found.residual_share):
        assert f">{number:.4g}<" in shown if np.isfinite(number) else "–" in shown
    assert "more points would not predict better" in shown


def test_ladder():
    assert ladder(8) == [8]
    assert ladder(3) == [3]


def test_words_for_a_number():
    assert as_num_inducing("n", None) == as_num_inducing("n", "auto") == "auto"
    assert as_num_inducing("n", "all") == "all"
    assert as_num_inducing("n", np.int64(7)) == 7
    for wrong in ("many", 0, 2.5, True):
        with pytest.raises(InputError, match="`n` must be"):
            as_num_inducing("n", wrong)


def test_bad_input():
    with pytest.raises(InputError, match="GaussianProcess"):
        ko.select_inducing(ko.kernels.Matern52(), lk.Gaussian(), X, Y)
    with pytest.raises(InputError, match="needs a likelihood"):
        ko.select_inducing(PRIOR, "gaussian", X, Y)
    with pytest.raises(InputError, match="`tolerance` must be positive"):
        ko.select_inducing(PRIOR, lk.Gaussian(), X, Y, tolerance=0.0)
    with pytest.raises(InputError, match="29 entries for 30 rows"):
        ko.infer(jax.random.key(0), PRIOR, lk.Gaussian(), X, Y[:-1])
    with pytest.raises(InputError, match="`weights` must have shape"):
        ko.infer(jax.random.key(0), PRIOR, lk.Gaussian(), X, Y, weights=np.ones(5))
    with pytest.raises(InputError, match="finite and not negative"):
        ko.select_inducing(PRIOR, lk.Gaussian(), X, Y, weights=-np.ones(30))
    with pytest.raises(InputError, match=r"noise.*7 entries"):
        ko.select_inducing(PRIOR, lk.Gaussian(np.full(7, 0.1)), X, Y)
