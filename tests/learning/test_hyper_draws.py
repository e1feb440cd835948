"""Draws of hyperparameters: the law of the chains, the posterior that they come from, priors, and bad input."""

from __future__ import annotations

import equinox as eqx
import jax
import numpy as np
import pytest
import scipy.stats

import kosambi as ko
from kosambi._core.progress import Progress
from kosambi.learning import hyper_chain, hyper_draws
from kosambi.learning.hyper_draws import draw_chains, effective_draws, split_r_hat
from kosambi.learning.starts import Limits
from kosambi.learning.surrogate import fitted
from tests.laws import joint_normal_p_value

X = np.linspace(0.0, 4.0, 16)[:, None]
Y = np.sin(2.0 * X[:, 0]) + 0.2 * np.random.default_rng(0).normal(size=16)


def limits(size, width=3.0):
    wide = np.full(size, 1e3)
    return Limits(np.zeros(size), np.full(size, width), -wide, wide, np.ones(size))


def bent(vector):
    """Minus the log density of a ~ N(0, 1), b ~ N(a²/2, 1/4), and its gradient."""
    a, b = vector
    away = 4.0 * (b - 0.5 * a**2)
    return 0.5 * a**2 + 0.5 * away * (b - 0.5 * a**2), np.array([a - away * a, away])


def test_step_sizes_are_averaged_by_their_definition():
    """Hoffman and Gelman's equation 6 with t₀ = 5, γ = 0.2, κ = 0.75 and μ = log 2ε₀, for an acceptance of 0.7."""
    rates = [0.9, 0.2, 0.5, 0.99, 0.0, 0.7, 0.65]
    step, error, mean = hyper_chain.StepSize(0.1), 0.0, 0.0
    for m, rate in enumerate(rates, start=1):
        error = (1.0 - 1.0 / (m + 5.0)) * error + (0.7 - rate) / (m + 5.0)
        logarithm = np.log(0.2) - np.sqrt(m) / 0.2 * error
        assert logarithm < np.log(1.5)
        mean = m**-0.75 * logarithm + (1.0 - m**-0.75) * mean
        step.adapt(rate)
        np.testing.assert_allclose([step.now, step.last], np.exp([logarithm, mean]), rtol=1e-12)
    for _ in range(50):
        step.adapt(1.0)
    assert step.now == 1.5


def ends(number, rounds):
    """The last states of many runs, as what is standard normal of them."""
    found = []
    with Progress(False) as show:
        for seed in range(number):
            chains = draw_chains(lambda: bent, np.zeros(2), limits(2), np.random.default_rng(seed), 1, show, rounds)
            found.append(chains.vectors[:, -1])
    a, b = np.concatenate(found).T
    return np.stack([a, 2.0 * (b - 0.5 * a**2)], axis=1)


def wrong(points, values, slopes):
    """A surrogate of something else: wider, and shifted."""
    away = 0.7 * points - 0.5
    return fitted(points, 0.5 * np.sum(np.square(away), axis=1), 0.7 * away)


@pytest.mark.parametrize(
    ("kind", "rounds"),
    [
        pytest.param("wrong surrogate", 12, marks=pytest.mark.slow),
        pytest.param("surrogate", 12, marks=pytest.mark.slow),
        pytest.param("none", 12, marks=pytest.mark.slow),
    ],
)
def test_chains_have_the_law_of_a_bent_density_and_steps_without_a_decision_do_not(monkeypatch, kind, rounds):
    if kind == "wrong surrogate":
        monkeypatch.setattr(hyper_draws, "fitted", wrong)
        monkeypatch.setattr(hyper_draws, "SERVES", 0.0)
    if kind == "none":
        monkeypatch.setattr(hyper_draws, "SERVES", 2.0)
    assert joint_normal_p_value(ends(25, rounds), np.eye(2)) > 1e-3
    if kind != "surrogate":
        # One that is learned well is followed to the right places without a decision, too.
        monkeypatch.setattr(hyper_chain, "decide", lambda gain, threshold: (1.0, True))
        assert joint_normal_p_value(ends(25, rounds), np.eye(2)) < 1e-3


def test_a_surrogate_knows_values_between_its_points_and_its_slope():
    generator = np.random.default_rng(5)
    points = generator.normal(size=(40, 2))
    both = [bent(point) for point in points]
    found = fitted(points, np.array([value for value, _ in both]) + 1e5, np.array([slope for _, slope in both]))
    for at in 0.7 * generator.normal(size=(10, 2)):
        assert found.value(at) - 1e5 == pytest.approx(bent(at)[0], abs=0.05)
        np.testing.assert_allclose(found.slope(at), bent(at)[1], atol=0.2)
        numeric = [(found.value(at + step) - found.value(at - step)) / 2e-4 for step in 1e-4 * np.eye(2)]
        np.testing.assert_allclose(found.slope(at), numeric, atol=1e-5)
    assert fitted(points[:3], np.full(3, np.inf), np.zeros((3, 2))) is None


def test_one_value_at_most_is_asked_for_each_draw_where_a_surrogate_serves():
    class Counted:
        slopes = values = 0

        def __call__(self, vector):
            Counted.slopes += 1
            return bent(vector)

        def value(self, vector):
            Counted.values += 1
            return bent(vector)[0]

    with Progress(False) as show:
        chains = draw_chains(Counted, np.zeros(2), limits(2), np.random.default_rng(0), 1000, show, 12)
    assert chains.vectors.shape[1] == 12 * hyper_draws.MORE
    moved = 4 + np.count_nonzero(np.diff(chains.densities, axis=1))
    assert moved <= Counted.values <= 4 * chains.vectors.shape[1]
    assert chains.evaluations == Counted.values + Counted.slopes
    assert chains.acceptance > 0.7


def test_r_hat_and_effective_draws_of_chains_with_known_correlation():
    generator = np.random.default_rng(1)
    draws = np.empty((4, 4000, 1))
    draws[:, 0] = generator.normal(size=(4, 1))
    for t in range(1, 4000):
        draws[:, t] = 0.8 * draws[:, t - 1] + 0.6 * generator.normal(size=(4, 1))
    # (1 − ρ)/(1 + ρ) = 1/9 of them.
    assert effective_draws(draws) == pytest.approx(16000 / 9, rel=0.2)
    assert split_r_hat(draws) < 1.02
    assert split_r_hat(draws + np.array([0.0, 0.0, 0.0, 2.0])[:, None, None]) > 1.2


def test_split_r_hat_by_its_definition():
    draws = np.random.default_rng(2).normal(size=(3, 9, 2)) * [1.0, 5.0] + np.arange(3.0)[:, None, None]
    # The one in the middle of nine belongs to neither half.
    halves = [chain[part] for chain in draws for part in (slice(0, 4), slice(5, 9))]
    within = sum(half.var(axis=0, ddof=1) for half in halves) / 6
    between = 4 * np.array([half.mean(axis=0) for half in halves]).var(axis=0, ddof=1)
    assert split_r_hat(draws) == pytest.approx(np.sqrt(((3 / 4 * within + between / 4) / within).max()), rel=1e-12)


@pytest.mark.parametrize(
    ("at", "inside"),
    [((1.0, 2.0), (1.0, 2.0)), ((1e3 + 1e-9, -1e3 - 1e-9), (1e3, -1e3)), ((1001.0, 1.0), None), ((-1001.0, 1.0), None)],
)
def test_beyond_the_bounds_there_is_no_density(at, inside):
    density = hyper_chain.Asked(bent)
    chain = hyper_chain.Chain(density, np.zeros(2), np.eye(2), limits(2), np.random.default_rng(0))
    found = chain._vector(np.array(at))
    assert (None if found is None else tuple(found)) == inside
    assert density.failures == (inside is None)


def log_evidence(variance, noise):
    distance = np.sqrt(5.0) * np.abs(X - X.T) / 0.8
    gram = variance * (1.0 + distance + distance**2 / 3.0) * np.exp(-distance)
    return scipy.stats.multivariate_normal(np.zeros(16), gram + noise**2 * np.eye(16)).logpdf(Y)


@pytest.fixture(scope="module")
def report():
    return learned(0, 100)


def learned(seed, number, **options):
    priors = {"kernel.variance": ko.hyperpriors.LogNormal(1.0, 1.0), "likelihood.*": ko.hyperpriors.LogNormal(0.3, 0.7)}
    return ko.fit_hyperparameters(
        jax.random.key(seed),
        ko.kernels.Matern52(0.8),
        ko.likelihoods.Gaussian(0.5),
        X,
        Y,
        freeze="kernel.lengthscale",
        priors=priors,
        num_draws=number,
        **options,
    )[2]


def test_draws_are_those_of_the_posterior_on_a_grid(report):
    logs = [np.linspace(-3.5, 3.5, 61), np.linspace(-3.5, 1.0, 61)]
    density = np.array(
        [
            [log_evidence(np.exp(a), np.exp(b)) - 0.5 * a**2 - 0.5 * ((b - np.log(0.3)) / 0.7) ** 2 for b in logs[1]]
            for a in logs[0]
        ]
    )
    weights = np.exp(density - density.max())
    weights /= weights.sum()
    for axis, name in enumerate(("kernel.variance", "likelihood.noise")):
        marginal = weights.sum(axis=1 - axis)
        mean = marginal @ logs[axis]
        deviation = np.sqrt(marginal @ np.square(logs[axis] - mean))
        drawn = np.log(report.draws.values[name])
        # The Monte Carlo error of so many effective draws; 3.3 of them are exceeded once in a thousand.
        error = deviation / np.sqrt(min(report.draws.ess, len(drawn)))
        assert abs(np.mean(drawn) - mean) < 3.3 * error
        assert abs(np.mean(drawn) - mean - 1.5 * deviation) > 3.3 * error
        assert 0.7 < np.std(drawn) / deviation < 1.4


def test_the_same_key_gives_the_same_draws_with_the_switch_off_and_on():
    found = []
    for switch in (False, True):
        with jax.enable_x64(switch):
            found.append(learned(3, 5).draws)
    for name, values in found[0].values.items():
        assert values.dtype == np.float64
        assert values.tobytes() == found[1].values[name].tobytes()


def test_priors_are_kept_shown_and_decide_where_they_are_narrow(report):
    assert repr(report.priors["kernel.variance"]) == "LogNormal(median=1, width=1)"
    assert repr(report.priors["likelihood.noise"]) == "LogNormal(median=0.3, width=0.7)"
    with pytest.warns(ko.errors.HyperparameterWarning, match=r"contradict the prior .* likelihood\.noise"):
        narrow = ko.fit_hyperparameters(
            jax.random.key(0),
            ko.kernels.Matern52(),
            ko.likelihoods.Gaussian(),
            X,
            Y,
            priors={"likelihood.noise": ko.hyperpriors.LogNormal(2.0, 0.01)},
        )
    assert float(narrow[1].noise) == pytest.approx(2.0, rel=0.02)


def test_usual_priors_do_not_depend_on_the_number_of_rows():
    generator = np.random.default_rng(2)
    x = generator.uniform(size=(40, 2))
    y = np.sin(5.0 * x[:, 0])
    fit = lambda times: (
        ko.fit_hyperparameters(
            jax.random.key(0),
            ko.kernels.Matern52([1.0, 1.0]),
            ko.likelihoods.Gaussian(),
            np.tile(x, (times, 1)),
            np.tile(y, times) + 0.1 * generator.normal(size=40 * times),
            max_iterations=3,
        )[2].priors
    )
    with pytest.warns(ko.errors.HyperparameterWarning, match="did not converge"):
        few, many = fit(1), fit(4)
    np.testing.assert_allclose(few["kernel.lengthscale"].median, many["kernel.lengthscale"].median)
    np.testing.assert_allclose(few["likelihood.noise"].width, many["likelihood.noise"].width)


@pytest.mark.parametrize("slope", [0.5, pytest.param(10.0, marks=pytest.mark.slow)])
def test_at_a_bound_chains_have_the_law_of_an_exponential(slope):
    def pushed(vector):
        """An exponential from the bound on, and a normal."""
        return slope * vector[0] + 0.5 * vector[1] ** 2, np.array([slope, vector[1]])

    wide = np.full(2, 1e3)
    walled = Limits(np.zeros(2), np.ones(2), np.array([0.0, -1e3]), wide, np.ones(2))
    found = []
    with Progress(False) as show:
        for seed in range(40):
            chains = draw_chains(lambda: pushed, np.zeros(2), walled, np.random.default_rng(seed), 1, show, 4)
            found.append(chains.vectors[:, -1, 0])
    assert scipy.stats.kstest(slope * np.concatenate(found), "expon").pvalue > 1e-3
    assert scipy.stats.kstest(2.0 * slope * np.concatenate(found), "expon").pvalue < 1e-3


def test_evaluations_that_fail_are_no_draws_and_chains_that_stand_still_are_said():
    def half(vector):
        return (0.5 * vector @ vector, vector) if vector[0] < 0.01 else (np.inf, np.full(2, np.nan))

    def nowhere(vector):
        return (0.0, np.zeros(2)) if not np.any(vector) else (np.inf, np.full(2, np.nan))

    with Progress(False) as show:
        found = draw_chains(lambda: half, np.zeros(2), limits(2), np.random.default_rng(0), 10, show, 24)
        stuck = draw_chains(lambda: nowhere, np.zeros(2), limits(2), np.random.default_rng(0), 10, show, 24)
    assert np.all(found.vectors[..., 0] < 0.01)
    assert found.failures > 0
    assert not stuck.converged
    assert (stuck.ess, stuck.r_hat) == (0.0, np.inf)


def test_data_without_noise_have_draws_too():
    x = np.linspace(0.0, 10.0, 40)[:, None]
    gaussian = ko.likelihoods.Gaussian()
    with pytest.warns(ko.errors.HyperparameterWarning, match="bound"):
        draws = ko.fit_hyperparameters(
            jax.random.key(0), ko.kernels.SquaredExponential(), gaussian, x, np.sin(x[:, 0]), num_draws=10
        )[2].draws
    assert draws.acceptance > 0.3
    assert np.all(draws.values["likelihood.noise"] < 0.01)


# Whether chains agree is not what is looked at.
@pytest.mark.filterwarnings("ignore::kosambi.errors.HyperparameterWarning")
def test_parameters_that_are_matrices_have_priors_and_draws():
    class Plane(eqx.Module):
        weight: np.ndarray

        def __call__(self, x):
            return (x @ self.weight)[:, 0]

    prior = ko.GaussianProcess(ko.kernels.Matern52(), mean=Plane(np.ones((1, 1))))
    report = ko.fit_hyperparameters(jax.random.key(0), prior, ko.likelihoods.Gaussian(), X, Y, num_draws=3)[2]
    assert report.priors["mean.weight"].mean.shape == (1,)
    assert report.draws.values["mean.weight"].shape == (3, 1, 1)


def test_where_data_say_nothing_draws_are_those_of_the_prior():
    # Two far rows and a known noise: the lengthscale is open.
    draws = ko.fit_hyperparameters(
        jax.random.key(4),
        ko.kernels.Matern52(),
        ko.likelihoods.Gaussian(1.0),
        [[0.0], [1000.0]],
        [0.5, -0.5],
        freeze=["likelihood", "kernel.variance"],
        priors={"kernel.lengthscale": ko.hyperpriors.LogNormal(1.0, 0.5)},
        num_draws=100,
    )[2].draws
    logs = np.log(draws.values["kernel.lengthscale"])
    assert scipy.stats.kstest(logs[:: max(1, int(100 / draws.ess))], "norm", args=(0.0, 0.5)).pvalue > 1e-3
    assert scipy.stats.kstest(logs, "norm", args=(0.0, 1.5)).pvalue < 1e-3


def test_chains_that_do_not_agree_are_said():
    def two(vector):
        """Two narrow modes far apart."""
        parts = -0.5 * np.square((vector[0] - np.array([-3.0, 3.0])) / 0.1)
        top = np.max(parts)
        weights = np.exp(parts - top)
        weights /= weights.sum()
        return -top, np.array([weights @ ((vector[0] - np.array([-3.0, 3.0])) / 0.01)])

    with Progress(False) as show:
        chains = draw_chains(lambda: two, np.array([0.0]), limits(1), np.random.default_rng(0), 10, show, 24)
    assert not chains.converged


@pytest.mark.slow
def test_draws_of_every_likelihood_and_of_points_are_models_of_their_own(report):
    draws = report.draws
    assert len(draws) == 100
    assert "100 draws" in str(draws)
    assert "median" in draws._repr_html_()
    assert draws.priors[3].kernel.variance == draws.values["kernel.variance"][3]
    assert draws.likelihoods[3].noise == draws.values["likelihood.noise"][3]
    labels = (Y > 0).astype(float)
    found = ko.fit_hyperparameters(
        jax.random.key(1), ko.kernels.Matern52(), ko.likelihoods.Bernoulli(), X, labels, num_draws=4, num_inducing=8
    )[2].draws
    assert found.values["kernel.lengthscale"].shape == (4,)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"num_draws": -1}, "`num_draws`"),
        ({"priors": {"kernel.length": ko.hyperpriors.LogNormal(1.0, 1.0)}}, "names no parameter"),
        ({"priors": {"kernel.variance": ko.hyperpriors.Normal(1.0, 1.0)}}, "LogNormal"),
        ({"priors": {"kernel.variance": 1.0}}, "must be an object"),
        ({"priors": {"kernel.variance": ko.hyperpriors.LogNormal([1.0, 2.0], 1.0)}}, "one entry or 1"),
        ({"method": "paper", "num_draws": 3}, "paper"),
    ],
)
def test_bad_input(options, match):
    with pytest.raises(ko.errors.InputError, match=match):
        ko.fit_hyperparameters(jax.random.key(0), ko.kernels.Matern52(), ko.likelihoods.Gaussian(), X, Y, **options)


@pytest.mark.parametrize(
    "make", [lambda: ko.hyperpriors.LogNormal(-1.0, 1.0), lambda: ko.hyperpriors.LogitNormal(1.5, 1.0)]
)
def test_bad_input_of_priors(make):
    with pytest.raises(ko.errors.InputError):
        make()
