"""Predictive moments, probabilities, quantiles and densities of every likelihood against a million simulated draws."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import scipy.integrate
import scipy.stats

import kosambi as ko
from kosambi.posterior import Prediction
from tests.cases import cases
from tests.likelihoods.table import CASES, SEVERAL

LEVEL = 1e-3
NUM_DRAWS = 1_000_000
LEVELS = np.array([0.03, 0.25, 0.5, 0.8, 0.975])
# Three inputs: one mode, two far modes, and a residual much larger than the spread of the particles.
DEVIATION = np.array([0.15, 0.3, 0.9])
MEANS = np.array([[0.2, -1.6, 1.1], [0.5, 1.8, 0.7], [-0.4, 2.1, 1.0], [0.1, -1.2, 1.2]])
DENSITIES = {name: case.likelihood for name, case in (CASES | SEVERAL).items() if case.likelihood.is_density}
SIMULATED = {name: likelihood for name, likelihood in DENSITIES.items() if name != "Custom"}


def components(likelihood):
    if likelihood.num_latents == 1:
        return MEANS
    return np.stack([MEANS + 0.3 * c * (-1) ** c for c in range(likelihood.num_latents)], axis=2)


def predicted(likelihood):
    return Prediction(likelihood, components(likelihood), DEVIATION, np.ones(3))


# Observations for given f, by NumPy alone.
SIMULATORS = {name: case.simulate for name, case in (CASES | SEVERAL).items()}


@functools.cache
def simulated(name, point):
    """A million observations at one input: a component, a residual, and the noise."""
    generator, likelihood = np.random.default_rng((7, point)), DENSITIES[name]
    means = components(likelihood)[:, point]
    f = means[generator.integers(len(means), size=NUM_DRAWS)]
    f = f + DEVIATION[point] * generator.normal(size=f.shape)
    return SIMULATORS[name](generator, f)


def p_value(z):
    return 2.0 * scipy.stats.norm.sf(abs(z))


def moment_p_values(y, mean, variance):
    """p-values of a sample having this mean and variance, by the central limit theorem."""
    centred = y - mean
    of_mean = p_value(centred.mean() / (y.std() / np.sqrt(len(y))))
    square = centred**2
    return of_mean, p_value((square.mean() - variance) / (square.std() / np.sqrt(len(y))))


@pytest.mark.parametrize(
    "name",
    cases(SIMULATED, quick=["Gaussian", "Bernoulli", "Poisson", "Categorical", "HeteroscedasticGaussian"]),
)
def test_summaries_against_simulation(name):
    likelihood = SIMULATED[name]
    p, wrong = predicted(likelihood), Prediction(likelihood, components(likelihood), 0.0 * DEVIATION, np.ones(3))
    found, of_wrong = [], []
    for point in range(3):
        y = simulated(name, point)
        if likelihood.num_latents > 1 and likelihood.num_labels is not None:
            for label in range(likelihood.num_labels):
                is_label = (y == label).astype(float)
                for prediction, into in ((p, found), (wrong, of_wrong)):
                    share = prediction.observation_mean[point, label]
                    into.append(moment_p_values(is_label, share, share * (1.0 - share))[0])
                    assert prediction.probability[point, label] == pytest.approx(share)
            continue
        for prediction, into in ((p, found), (wrong, of_wrong)):
            mean, variance = prediction.observation_mean[point], prediction.observation_variance[point]
            of_mean, of_variance = moment_p_values(y, mean, variance)
            into.append(of_mean)
            # A Student t with 3.5 degrees of freedom has no fourth moment; its variance is checked below.
            if name != "StudentT":
                into.append(of_variance)
            for q, quantile in zip(LEVELS, prediction.quantile(LEVELS)[:, point], strict=True):
                into.append(quantile_p_value(likelihood, y, q, quantile))
    number = len(found)
    assert min(found) > LEVEL / number
    # The residual left out: rejected, for the quantiles of counts and labels where they move at all.
    assert min(of_wrong) < LEVEL / number


def quantile_p_value(likelihood, y, q, quantile):
    if not likelihood.is_discrete:
        return scipy.stats.binomtest(int(np.sum(y <= quantile)), len(y), q).pvalue
    # P(y ≤ quantile) ≥ q and P(y < quantile) < q, each within its error.
    at_least = scipy.stats.binomtest(int(np.sum(y <= quantile)), len(y), q, alternative="less").pvalue
    below = scipy.stats.binomtest(int(np.sum(y < quantile)), len(y), q, alternative="greater").pvalue
    return min(at_least, below)


@pytest.mark.slow
@pytest.mark.parametrize("name", SIMULATED)
def test_densities_against_simulation(name):
    """The mass of cells, from the density, against the counts of a million draws in them."""
    level = LEVEL / (3 * len(SIMULATED))
    assert min(density_p_values(name, DEVIATION)) > level
    # The residual left out.
    assert min(density_p_values(name, 0.0 * DEVIATION)) < level


def density_p_values(name, deviations):
    likelihood, found = SIMULATED[name], []
    for point in range(3):
        y = simulated(name, point)
        one = Prediction(
            likelihood, components(likelihood)[:, point : point + 1], deviations[point : point + 1], np.ones(1)
        )
        if likelihood.is_discrete:
            values = np.arange(np.quantile(y, 0.999) + 1.0)
            masses = np.exp([one.log_density([value])[0] for value in values])
            counts = np.array([np.sum(y == value) for value in values])
        else:
            edges = np.quantile(y, np.linspace(0.02, 0.98, 9))
            fine = np.linspace(edges[:-1], edges[1:], 201)
            many = Prediction(
                likelihood,
                np.repeat(components(likelihood)[:, point : point + 1], fine.size, axis=1),
                np.repeat(deviations[point], fine.size),
                np.ones(fine.size),
            )
            density = np.exp(many.log_density(fine.ravel())).reshape(fine.shape)
            masses = scipy.integrate.simpson(density, x=fine, axis=0)
            counts = np.histogram(y, edges)[0]
        expected = NUM_DRAWS * np.append(masses, 1.0 - masses.sum())
        observed = np.append(counts, NUM_DRAWS - counts.sum())
        keep = expected > 5
        statistic = np.sum((observed[keep] - expected[keep]) ** 2 / expected[keep])
        found.append(scipy.stats.chi2.sf(statistic, keep.sum() - 1))
    return found


@pytest.mark.parametrize(
    "name", cases([name for name in DENSITIES if name in CASES], quick=["Gaussian", "StudentT", "Bernoulli", "Poisson"])
)
def test_densities_against_adaptive_quadrature(name):
    case = CASES[name]
    p = predicted(case.likelihood)
    y = np.array([case.y[0], case.y[1], case.y[-1]])
    found = p.log_density(y)
    for point in range(3):
        sd = DEVIATION[point]

        def integrand(f, centre, point=point, sd=sd):
            return np.exp(case.log_density(y[point], f)) * scipy.stats.norm.pdf(f, centre, sd)

        parts = [
            scipy.integrate.quad(
                integrand,
                m - 9 * sd,
                m + 9 * sd,
                args=(m,),
                limit=400,
                epsabs=1e-13,
                points=[min(max(0.0, m - 9 * sd), m)],
            )[0]
            for m in MEANS[:, point]
        ]
        assert found[point] == pytest.approx(np.log(np.mean(parts)), abs=2e-7)


def test_a_narrow_likelihood_far_from_the_latent_law():
    """Large counts and a residual of one: the fixed nodes of a quadrature would step over the peak."""
    poisson = ko.likelihoods.Poisson()
    p = Prediction(poisson, np.zeros((1, 2)), np.array([1.0, 0.1]), np.ones(2))
    y = np.array([100_000.0, 1000.0])
    for point in range(2):
        sd = p.component_deviation[point]
        log_integrand = lambda f, point=point, sd=sd: -np.exp(f) + y[point] * f - 0.5 * (f / sd) ** 2
        # Laplace's approximation around the mode, good to 1/y.
        from scipy.optimize import brentq

        mode = brentq(lambda f, point=point, sd=sd: y[point] - np.exp(f) - f / sd**2, 0.0, 20.0, xtol=1e-14)
        curvature = np.exp(mode) + sd**-2
        expected = (
            log_integrand(mode) + 0.5 * np.log(1.0 / curvature) - np.log(sd) - scipy.special.gammaln(y[point] + 1)
        )
        assert p.log_density(y)[point] == pytest.approx(expected, abs=1e-2 if point else 1e-4)


def reference(log_density, mean, sd, low=-40.0, high=40.0):
    """log ∫ p(y | f) N(f; mean, sd²) df by brute force on a grid of a million points."""
    f = np.linspace(mean + low * sd, mean + high * sd, 1_000_001)
    values = log_density(f) + scipy.stats.norm.logpdf(f, mean, sd)
    return scipy.special.logsumexp(values) + np.log(f[1] - f[0])


def test_densities_where_the_likelihood_is_narrow_or_far_off():
    one = lambda likelihood, mean, sd: Prediction(likelihood, np.full((1, 1), mean), np.array([sd]), np.ones(1))
    for nu, scale, sd, y in (
        (4.0, 0.01, 1.0, 0.3),
        (0.5, 0.3, 0.1, 50.0),
        (3.0, 2.0, 0.1, -40.0),
        (200.0, 0.5, 0.4, 3.0),
    ):
        expected = reference(lambda f: scipy.stats.t.logpdf(y, nu, f, scale), 0.0, sd)
        assert one(ko.likelihoods.StudentT(nu, scale), 0.0, sd).log_density([y])[0] == pytest.approx(expected, abs=1e-6)
    for mean, sd, y in ((0.2, 0.5, 300.0), (-6.0, 0.5, 2.0), (1.0, 2.0, 0.0), (0.0, 0.1, 1.0)):
        expected = reference(lambda f: scipy.stats.poisson.logpmf(y, f**2), mean, sd)
        assert one(ko.likelihoods.Poisson("square"), mean, sd).log_density([y])[0] == pytest.approx(expected, abs=1e-6)
    for scale, y in ((1e-3, 0.5), (1e-6, 2.0), (5.0, -30.0)):
        expected = (
            scipy.stats.norm.logpdf(y)
            if scale < 0.1
            else reference(lambda f: scipy.stats.laplace.logpdf(y, f, scale), 0.0, 1.0)
        )
        assert one(ko.likelihoods.Laplace(scale), 0.0, 1.0).log_density([y])[0] == pytest.approx(expected, abs=1e-5)
    for sd, y in ((1.0, 10.0), (2.0, 10.0), (0.3, 200.0)):
        law = lambda t: scipy.stats.norm.logpdf(y, 0.0, np.hypot(np.exp(t), sd))
        noisy = Prediction(
            ko.likelihoods.HeteroscedasticGaussian(), np.array([[[0.0, -1.0]]]), np.array([sd]), np.ones(1)
        )
        assert noisy.log_density([y])[0] == pytest.approx(reference(law, -1.0, sd), abs=1e-6)


@pytest.mark.parametrize("name", ["Poisson", "Poisson, square", "NegativeBinomial", "Gamma", "Exponential", "StudentT"])
def test_distributions_where_the_deviation_is_wide(name):
    """Integrated over the noise instead of f, against brute force on a grid."""
    likelihood = CASES[name].likelihood
    f = np.linspace(-12.0, 12.0, 200_001)
    for sd in (0.6, 1.5):
        p = Prediction(likelihood, np.full((1, 1), 0.5), np.array([sd]), np.ones(1))
        weights = scipy.stats.norm.pdf(f, 0.5, sd) * (f[1] - f[0])
        for y in (0.0, 1.0, 7.0, 40.0, 300.0):
            expected = np.sum(weights * likelihood.cdf(np.array(y), f))
            assert p._cdf(np.array([y]), np.array([0]))[0] == pytest.approx(expected, abs=1e-6)


def test_quantiles_of_huge_counts_end():
    wild = Prediction(ko.likelihoods.Poisson(), np.array([[0.0, 45.0]]), np.array([20.0, 0.0]), np.ones(2))
    assert np.all(np.isfinite(wild.quantile(0.975)))
    assert wild.observation_variance[0] == np.inf


def test_student_t_moments_are_those_of_the_law():
    p = predicted(ko.likelihoods.StudentT(3.5, 0.6))
    spread = np.var(MEANS, axis=0) + DEVIATION**2
    np.testing.assert_allclose(p.observation_variance, spread + 0.36 * 3.5 / 1.5, rtol=1e-12)
    heavy = predicted(ko.likelihoods.StudentT(0.9, 0.6))
    assert np.all(np.isnan(heavy.observation_mean))
    assert not np.any(np.isfinite(heavy.observation_variance))
    # Quantiles exist without moments, and halves lie on either side of the median.
    assert np.all(np.diff(heavy.quantile([1e-4, 0.5, 1.0 - 1e-4]), axis=0) > 0)


def test_two_modes_give_two_intervals():
    mixture = ko.likelihoods.ShiftMixture(shift=6.0, probability=0.4, noise=0.3)
    p = Prediction(mixture, np.array([[0.0], [0.1]]), np.array([0.2]), np.ones(1))
    (region,) = p.highest_density_region(0.9)
    assert region.shape == (2, 2)
    sd = np.hypot(0.3, 0.2)

    def distribution(y):
        return np.mean(
            [0.6 * scipy.stats.norm.cdf(y, m, sd) + 0.4 * scipy.stats.norm.cdf(y, m + 6, sd) for m in (0, 0.1)]
        )

    assert sum(distribution(b) - distribution(a) for a, b in region) == pytest.approx(0.9, abs=0.02)
    lower, upper = p.interval(0.9)
    assert upper[0] - lower[0] > 2.0 * np.sum(region[:, 1] - region[:, 0])
    # One mode: one interval, the central one of a symmetric law.
    single = Prediction(ko.likelihoods.Gaussian(0.3), np.zeros((1, 1)), np.array([0.2]), np.ones(1))
    np.testing.assert_allclose(single.highest_density_region(0.9)[0][0], np.ravel(single.interval(0.9)), atol=0.02)


def test_regions_of_labels_and_counts():
    categorical = Prediction(ko.likelihoods.Categorical(3), np.array([[[5.0, 0.0, 4.5]]]), np.array([0.1]), np.ones(1))
    assert categorical.highest_density_region(0.9)[0].tolist() == [0, 2]
    assert categorical.highest_density_region(0.5)[0].tolist() == [0]
    counts = Prediction(ko.likelihoods.Poisson(), np.full((1, 1), np.log(3.0)), np.array([1e-6]), np.ones(1))
    chosen = counts.highest_density_region(0.8)[0]
    masses = scipy.stats.poisson.pmf(np.arange(30), 3.0)
    best = np.sort(np.argsort(-masses, kind="stable")[: len(chosen)])
    assert chosen.tolist() == best.tolist()
    assert masses[best].sum() >= 0.8 > masses[best].sum() - masses[best].min()


def test_quantiles_of_f_itself():
    p = predicted(ko.likelihoods.Bernoulli())
    for q, row in zip(LEVELS, p.latent_quantile(LEVELS), strict=True):
        np.testing.assert_allclose(scipy.stats.norm.cdf(row, MEANS, DEVIATION).mean(axis=0), q, atol=1e-8)
    lower, upper = p.latent_interval(0.9)
    assert np.all(lower < p.mean)
    assert np.all(p.mean < upper)
    np.testing.assert_allclose(p.variance, np.var(MEANS, axis=0) + DEVIATION**2)


def test_no_residual_and_one_component():
    p = Prediction(ko.likelihoods.StudentT(4.0, 0.5), np.zeros((1, 2)), np.zeros(2), np.ones(2))
    np.testing.assert_allclose(p.quantile(0.9), 0.5 * scipy.stats.t.ppf(0.9, 4.0), rtol=1e-8)
    np.testing.assert_allclose(p.log_density([0.3, 0.3]), scipy.stats.t.logpdf(0.3, 4.0, scale=0.5), rtol=1e-9)
    poisson = Prediction(ko.likelihoods.Poisson(), np.full((1, 1), 2.0), np.zeros(1), np.ones(1))
    assert poisson.quantile(0.7)[0] == scipy.stats.poisson.ppf(0.7, np.exp(2.0))
    assert poisson.log_density([5.0])[0] == pytest.approx(scipy.stats.poisson.logpmf(5, np.exp(2.0)))


def test_blocks_of_inputs_change_nothing(monkeypatch):
    likelihood = ko.likelihoods.Poisson()
    means = np.random.default_rng(0).normal(size=(6, 50))
    deviation = np.linspace(0.0, 1.0, 50)
    y = np.arange(50.0) % 4
    whole = Prediction(likelihood, means, deviation, np.ones(50))
    expected = (whole.observation_variance, whole.log_density(y), whole.quantile(0.9))
    monkeypatch.setattr("kosambi.posterior.summaries._VALUES_AT_ONCE", 6 * 7)
    monkeypatch.setattr("kosambi.posterior.prediction._BLOCK_VALUES", 6 * 7)
    parts = Prediction(likelihood, means, deviation, np.ones(50))
    for a, b in zip(expected, (parts.observation_variance, parts.log_density(y), parts.quantile(0.9)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10)


BAD = {
    "coverage 0": (lambda p: p.interval(0.0), "`coverage` must be a number between 0 and 1"),
    "coverage 95": (lambda p: p.interval(95), "For 95 % write 0.95"),
    "coverage 1": (lambda p: p.highest_density_region(1.0), "`coverage`"),
    "quantile 1": (lambda p: p.quantile([0.5, 1.0]), "`q` must be"),
    "quantile NaN": (lambda p: p.quantile(np.nan), "`q` must be"),
    "labels never seen": (lambda p: p.log_density([0.0, 1.0, 2.0]), r"needs y in \{0, 1\}"),
    "one observation too few": (lambda p: p.log_density([0.0, 1.0]), "one observation per input"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_of_a_prediction(name):
    call, match = BAD[name]
    with pytest.raises(ko.errors.InputError, match=match):
        call(predicted(ko.likelihoods.Bernoulli()))


OTHERS = {
    "probability of a real number": (ko.likelihoods.Gaussian(0.3), lambda p: p.probability, "has no labels"),
    "quantile of classes": (ko.likelihoods.Categorical(3), lambda p: p.quantile(0.5), "have no order"),
    "mean of a loss": (ko.likelihoods.Huber(), lambda p: p.observation_mean, "loss without a density"),
    "quantile of a loss": (ko.likelihoods.Huber(), lambda p: p.quantile(0.5), "loss without a density"),
    "density of a loss": (ko.likelihoods.Huber(), lambda p: p.log_density(np.zeros(3)), "loss without a density"),
    "quantile of a custom density": (DENSITIES["Custom"], lambda p: p.quantile(0.5), "cannot give a quantile"),
    "mean of a custom density": (DENSITIES["Custom"], lambda p: p.observation_mean, "cannot give an observation mean"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_bad_input_what_a_likelihood_cannot_give(name):
    likelihood, call, match = OTHERS[name]
    with pytest.raises(ko.errors.InputError, match=match):
        call(predicted(likelihood))
