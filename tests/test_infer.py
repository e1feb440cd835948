"""`infer` from end to end: defaults, overrides, far from the data, precision, and what users get wrong."""

from __future__ import annotations

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import kosambi as ko

k, lk = ko.kernels, ko.likelihoods
RNG = np.random.default_rng(5)
X = RNG.uniform(-3.0, 3.0, (120, 1))
F = np.sin(2.0 * X[:, 0])
Y = F + 0.2 * RNG.normal(size=120)
LABELS = (RNG.uniform(size=120) < 1.0 / (1.0 + np.exp(-3.0 * F))).astype(float)
GRID = np.linspace(-3.5, 3.5, 25)[:, None]


@pytest.fixture(scope="module")
def labels():
    return ko.infer(jax.random.key(0), k.Matern52(0.8, 4.0), lk.Bernoulli(), X, LABELS)


def test_defaults(labels):
    assert labels.report.converged
    assert labels.report.warnings == ()
    assert labels.num_particles == 100
    assert isinstance(labels.basis, ko.PointBasis)
    assert isinstance(labels.prior, ko.GaussianProcess)
    assert labels.explained_variance >= 0.999
    assert labels.selection.num_inducing == labels.basis.size == 64
    assert labels.report.seconds >= labels.report.compile_seconds
    assert "converged" in repr(labels)
    p = labels.predict(GRID)
    truth = 1.0 / (1.0 + np.exp(-3.0 * np.sin(2.0 * GRID[:, 0])))
    assert np.mean(np.abs(p.probability - truth)) < 0.15
    # E sigmoid(f) is not sigmoid(E f), and lies nearer to one half.
    assert np.all(np.abs(p.probability - 0.5) <= np.abs(1.0 / (1.0 + np.exp(-p.mean)) - 0.5) + 0.02)


def test_a_gaussian_likelihood_with_all_points_is_gp_regression():
    kernel, x = k.Matern52(0.7, 1.3), X[:60]
    prior = ko.GaussianProcess(kernel, mean=0.3)
    basis = ko.PointBasis(prior, x, tolerance=1e-12)
    posterior = ko.infer(jax.random.key(1), prior, lk.Gaussian(0.2), x, Y[:60], basis=basis)
    solve = np.linalg.inv(kernel(x) + 0.04 * np.eye(60))
    cross = kernel(GRID, x)
    p = posterior.predict(GRID)
    np.testing.assert_allclose(p.mean, 0.3 + cross @ solve @ (Y[:60] - 0.3), atol=1e-8)
    variance = 1.3 - np.sum(cross @ solve * cross, axis=1)
    np.testing.assert_allclose(p.variance, variance, atol=1e-8)
    np.testing.assert_allclose(p.observation_variance, variance + 0.04, atol=1e-8)
    lower, upper = p.interval(0.9)
    np.testing.assert_allclose(upper - lower, 2 * scipy.stats.norm.ppf(0.95) * np.sqrt(variance + 0.04), rtol=1e-6)
    density = posterior.log_predictive_density(GRID, np.sin(GRID[:, 0]))
    expected = scipy.stats.norm.logpdf(np.sin(GRID[:, 0]), p.mean, np.sqrt(variance + 0.04))
    np.testing.assert_allclose(density, expected, atol=1e-6)


@pytest.mark.slow
def test_far_from_the_data_a_gaussian_process_returns_to_its_prior():
    for likelihood, y in ((lk.Gaussian(0.2), Y), (lk.Bernoulli(), LABELS)):
        posterior = ko.infer(jax.random.key(2), k.SquaredExponential(0.4, 2.0), likelihood, X, y, num_particles=1000)
        far = np.array([[7.0], [30.0], [-1e4]])
        p = posterior.predict(far)
        np.testing.assert_allclose(p.standard_deviation, np.sqrt(2.0), rtol=0.01)
        np.testing.assert_allclose(p.mean, 0.0, atol=1e-6)
        np.testing.assert_array_equal(p.support, 1.0)
        draws = posterior.functions(jax.random.key(3), domain=[[-3.0], [31.0]])(far[:2])
        # 1,000 draws: the sample variance is good to 4.5 % each, five of these allowed.
        np.testing.assert_allclose(np.mean(draws**2, axis=0), 2.0, rtol=0.23)


@pytest.mark.parametrize(
    "kernel",
    [
        pytest.param(k.SquaredExponential(0.5), id="SE"),
        pytest.param(k.Matern32([0.5] * 8), id="Matern32", marks=pytest.mark.slow),
    ],
)
def test_far_from_the_data_in_eight_dimensions(kernel):
    x = np.random.default_rng(6).uniform(-1.0, 1.0, (200, 8))
    posterior = ko.infer(jax.random.key(4), kernel, lk.Gaussian(0.3), x, x[:, 0], num_inducing=50)
    direction = np.random.default_rng(7).normal(size=(5, 8))
    far = x[:5] + (2.0 * np.sqrt(8) + 10 * 0.5) * direction / np.linalg.norm(direction, axis=1, keepdims=True)
    np.testing.assert_allclose(posterior.predict(far).standard_deviation, 1.0, rtol=0.01)


def test_far_from_the_data_a_random_element_warns():
    prior = ko.GaussianRandomElement(k.SquaredExponential(0.4, 3.0), ko.measures.empirical(X))
    posterior = ko.infer(jax.random.key(5), prior, lk.Gaussian(0.2), X, Y, num_inducing=20)
    assert isinstance(posterior.basis, ko.RitzBasis)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        near = posterior.predict(X[:10])
    assert np.all((near.support > 0.05) & (near.support <= 1.0))
    assert posterior.report.warnings == ()
    with pytest.warns(ko.errors.SupportWarning, match="2 of 3 new inputs"):
        p = posterior.predict([[0.0], [7.0], [30.0]])
    assert np.all(p.support[1:] < 0.05)
    assert "false certainty" in p.warnings[0]
    expected = prior.variance([[0.0]])[0] / prior.variance(X).max()
    assert p.support[0] == pytest.approx(min(1.0, expected))
    # Said of the prediction, not of the run.
    assert posterior.report.warnings == ()
    # A linear function is certain at zero, and that is not false.
    line = ko.infer(jax.random.key(5), k.Linear(), lk.Gaussian(0.2), X, Y)
    assert line.predict([[0.0]]).variance[0] == 0.0


@pytest.mark.slow
def test_a_background_carries_a_random_element_farther():
    for kernel in (k.SquaredExponential(0.6, 3.0), k.Matern52(0.6, 3.0)):
        prior = ko.GaussianRandomElement(kernel, ko.measures.empirical(X))
        plain = ko.infer(jax.random.key(6), prior, lk.Gaussian(0.2), X, Y, num_inducing=20)
        broad = ko.infer(jax.random.key(6), prior, lk.Gaussian(0.2), X, Y, num_inducing=20, background=0.2)
        with pytest.warns(ko.errors.SupportWarning):
            lost = plain.predict([[5.5]])
        kept = broad.predict([[5.5]])
        assert kept.support[0] > 0.05 > lost.support[0]
        assert kept.variance[0] > 1e3 * lost.variance[0]
        # The background is data to nobody: where the data are, predictions agree.
        inside = X[np.abs(X[:, 0]) < 2.5]
        assert np.max(np.abs(plain.predict(inside).mean - broad.predict(inside).mean)) < 0.1


def test_what_is_said_of_one_input_does_not_depend_on_others(labels):
    p = labels.predict(GRID)
    for rows in (slice(0, 1), slice(7, 12), [24, 3]):
        part = labels.predict(GRID[rows])
        for name in ("mean", "variance", "probability", "observation_variance", "support"):
            np.testing.assert_allclose(getattr(part, name), getattr(p, name)[rows], rtol=1e-9, atol=1e-12)


def test_the_same_answer_with_the_switch_off_and_on():
    results = []
    for switch in (False, True):
        with jax.enable_x64(switch):
            posterior = ko.infer(jax.random.key(7), k.Matern52(0.8, 4.0), lk.Bernoulli(), X, LABELS)
            p = posterior.predict(GRID)
            draws = posterior.functions(jax.random.key(8))(GRID)
            density = posterior.log_predictive_density(GRID, np.ones(25))
            results.append((p.mean, p.variance, p.observation_mean, p.quantile(0.9), draws, density))
    for off, on in zip(*results, strict=True):
        assert off.dtype == np.float64
        np.testing.assert_array_equal(off, on)


@pytest.mark.parametrize("name", ["point", "ritz", "nystrom", "inducing"])
def test_every_basis_by_name_and_by_class(name):
    prior = ko.GaussianRandomElement(k.Matern32(0.8, 3.0), ko.measures.empirical(X))
    posterior = ko.infer(jax.random.key(9), prior, lk.Gaussian(0.2), X, Y, basis=name, num_inducing=30)
    kind = type(posterior.basis)
    again = ko.infer(jax.random.key(9), prior, lk.Gaussian(0.2), X, Y, basis=kind, num_inducing=30)
    finished = ko.infer(jax.random.key(9), prior, lk.Gaussian(0.2), X, Y, basis=posterior.basis)
    assert kind.__name__.lower().startswith(name)
    expected = posterior.predict(X[:20])
    for other in (again, finished):
        np.testing.assert_array_equal(other.predict(X[:20]).mean, expected.mean)
    assert np.mean(np.abs(expected.mean - F[:20])) < 0.15


@pytest.mark.slow
def test_other_parts_can_be_given(labels):
    model = (k.Matern52(0.8, 4.0), lk.Bernoulli(), X, LABELS)
    key = jax.random.key(10)
    grid = np.linspace(-3.0, 3.0, 12)[:, None]
    short = ko.samplers.EulerMaruyama(1e-4, 100)
    with pytest.warns(ko.errors.ConvergenceWarning):
        given = ko.infer(key, *model, inducing_points=grid, sampler=short, potential="optimal", num_particles=64)
    np.testing.assert_array_equal(given.basis.inducing_points, grid)
    assert given.report.sampler == "euler_maruyama"
    assert given.target.kind == "optimal"
    assert given.num_particles == 64
    gaussian = (k.Matern52(0.8, 4.0), lk.Gaussian(0.2), X, Y)
    means = ko.infer(key, *gaussian, inducing_points="kmeans", num_inducing=15)
    assert means.basis.size == 15
    uniform = ko.infer(key, *gaussian, inducing_points="uniform")
    assert uniform.basis.report.num_inducing == labels.basis.report.num_inducing
    weighted = ko.infer(key, k.Matern52(), lk.Gaussian(0.2), X, Y, weights=np.zeros(120))
    np.testing.assert_allclose(weighted.predict(GRID).standard_deviation, 1.0, rtol=1e-9)
    single = ko.infer(key, *model, precision="float32")
    np.testing.assert_allclose(single.predict(GRID).probability, labels.predict(GRID).probability, atol=0.15)


MODELS = {
    "Gaussian": (lk.Gaussian(0.2), Y),
    "Bernoulli": (lk.Bernoulli(), LABELS),
    "Categorical": (lk.Categorical(3), np.digitize(X[:, 0], [-1.0, 1.0]).astype(float)),
    "Huber": (lk.Huber(0.2), Y),
    "CustomJoint": (lk.CustomJoint(lambda y, f: jnp.sum(jnp.square(y - f))), Y),
}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] if name in ("Bernoulli", "Categorical", "Huber") else [])
        for name in MODELS
    ],
)
def test_auto_is_the_default_and_none_its_other_name_for_every_likelihood(name):
    likelihood, y = MODELS[name]
    given = (k.Matern52(0.8, 4.0), likelihood, X, y)
    first, auto, nothing = (
        ko.infer(jax.random.key(0), *given, num_particles=20, **how)
        for how in ({}, {"num_inducing": "auto"}, {"num_inducing": None})
    )
    selection = ko.select_inducing(ko.GaussianProcess(given[0]), likelihood, X, y)
    for posterior in (first, auto, nothing):
        np.testing.assert_array_equal(posterior.selection.indices, selection.indices)
        np.testing.assert_array_equal(posterior.particles.coordinates, first.particles.coordinates)
    assert first.basis.size == selection.num_inducing
    assert np.all(np.isnan(selection.score)) == (name in ("Categorical", "Huber", "CustomJoint"))


@pytest.mark.parametrize("name", ["ritz", "nystrom", "inducing", "point"])
def test_auto_for_a_random_element_and_every_basis(name):
    prior = ko.GaussianRandomElement(k.Matern32(0.8, 3.0), ko.measures.empirical(X))
    posterior = ko.infer(jax.random.key(9), prior, lk.Gaussian(0.2), X, Y, basis=name)
    assert posterior.basis.report.num_inducing == posterior.selection.num_inducing
    assert posterior.selection.reason == "prediction"
    assert np.mean(np.abs(posterior.predict(X[:20]).mean - F[:20])) < 0.15


def test_all_is_every_distinct_row():
    twice = np.concatenate([X[:40], X[:10]])
    posterior = ko.infer(
        jax.random.key(0), k.Matern32(0.3), lk.Gaussian(0.2), twice, np.tile(Y[:10], 5), num_inducing="all"
    )
    np.testing.assert_array_equal(posterior.basis.inducing_points, X[:40])
    assert posterior.selection is None


@pytest.mark.slow
def test_auto_potential_is_the_default():
    few = {"num_inducing": 3, "num_particles": 20}
    default, auto, projected = (
        ko.infer(jax.random.key(0), k.Matern52(0.5, 9.0), lk.Bernoulli(), X, LABELS, **few, **how)
        for how in ({}, {"potential": "auto"}, {"potential": "projected"})
    )
    assert default.target.kind == auto.target.kind == "optimal"
    assert projected.target.kind == "projected"
    assert ko.Target(default.basis, lk.Bernoulli(), X, LABELS).kind == "optimal"


def test_a_noise_for_each_datum():
    noise = np.where(X[:, 0] > 0, 0.1, 0.5)
    posterior = ko.infer(jax.random.key(11), k.Matern52(), lk.Gaussian(noise), X, Y)
    new = np.array([0.2, 0.9])
    with pytest.raises(ko.errors.InputError, match="Pass it"):
        # As many new inputs as data, which are others all the same.
        posterior.predict(X + 1.0).interval()
    np.testing.assert_array_equal(posterior.predict(X).observation_mean, posterior.predict(X).mean)
    p = posterior.predict([[0.5], [-0.5]], noise=new)
    np.testing.assert_allclose(p.observation_variance, p.variance + new**2)
    np.testing.assert_allclose(
        posterior.log_predictive_density([[0.5], [-0.5]], [0.1, 0.2], noise=new),
        scipy.stats.norm.logpdf([0.1, 0.2], p.mean, np.sqrt(p.observation_variance)),
    )


@pytest.mark.slow
def test_several_latent_functions():
    y = np.digitize(X[:, 0], [-1.0, 1.0]).astype(float)
    posterior = ko.infer(jax.random.key(12), k.Matern52(1.0, 4.0), lk.Categorical(3), X, y, num_inducing=15)
    p = posterior.predict([[-2.5], [0.0], [2.5], [50.0]])
    assert p.mean.shape == p.variance.shape == p.probability.shape == (4, 3)
    assert np.argmax(p.probability[:3], axis=1).tolist() == [0, 1, 2]
    np.testing.assert_allclose(p.probability.sum(axis=1), 1.0)
    np.testing.assert_allclose(p.probability[3], 1.0 / 3.0, atol=1e-6)
    np.testing.assert_allclose(p.variance[3], 4.0, rtol=1e-6)
    noisy = ko.infer(jax.random.key(13), k.Matern52(), lk.HeteroscedasticGaussian(), X, Y, num_inducing=15)
    lower, upper = noisy.predict(GRID).interval(0.9)
    assert np.all(lower < upper)


def test_a_data_frame(labels):
    pandas = pytest.importorskip("pandas", reason="pandas is an optional extra")
    table = labels.predict(GRID).to_pandas()
    assert isinstance(table, pandas.DataFrame)
    assert list(table) == ["mean", "variance", "probability_0", "probability_1", "support"]
    real = ko.infer(jax.random.key(14), k.Matern52(), lk.Gaussian(0.2), X, Y).predict(GRID)
    table = real.to_pandas(coverage=0.5)
    assert list(table) == ["mean", "variance", "observation_mean", "observation_variance", "lower", "upper", "support"]
    np.testing.assert_array_equal(table["upper"], real.interval(0.5)[1])


def test_no_new_inputs_give_empty_results(labels):
    nothing = np.empty((0, 1))
    p = labels.predict(nothing)
    for values in (p.mean, p.variance, p.probability, p.observation_mean, p.support, *p.interval(), p.quantile(0.5)):
        assert values.shape == (0,)
    assert p.highest_density_region() == []
    assert labels.log_predictive_density(nothing, np.empty(0)).shape == (0,)
    real = ko.infer(jax.random.key(14), k.Matern52(), lk.Gaussian(0.2), X, Y).predict(nothing)
    assert real.quantile([0.1, 0.9]).shape == (2, 0)
    assert real.latent_interval()[0].shape == (0,)


KEY = jax.random.key(0)
GOOD = (k.Matern52(), lk.Bernoulli(), X, LABELS)
GRE = ko.GaussianRandomElement(k.Matern52(), ko.measures.empirical(X))
BAD = {
    "no prior": (lambda: ko.infer(KEY, 3.0, *GOOD[1:]), "needs a prior or a kernel"),
    "no likelihood": (lambda: ko.infer(KEY, GOOD[0], "bernoulli", X, LABELS), "needs a likelihood"),
    "labels": (lambda: ko.infer(KEY, *GOOD[:3], LABELS + 1), r"in \{0, 1\}"),
    "lengths": (lambda: ko.infer(KEY, *GOOD[:3], LABELS[:-1]), "119 entries for 120 rows"),
    "NaN": (lambda: ko.infer(KEY, *GOOD[:2], np.full((5, 1), np.nan), LABELS[:5]), "must be finite"),
    "empty": (lambda: ko.infer(KEY, *GOOD[:2], np.empty((0, 1)), []), "is empty"),
    "too many inducing points": (lambda: ko.infer(KEY, *GOOD, num_inducing=121), "at most 120"),
    "inducing points twice": (lambda: ko.infer(KEY, *GOOD, num_inducing=3, inducing_points=X[:3]), "Leave out one"),
    "unknown inducing points": (lambda: ko.infer(KEY, *GOOD, inducing_points="random"), '"kmeans"'),
    "unknown basis": (lambda: ko.infer(KEY, *GOOD, basis="fourier"), '"nystrom"'),
    "basis that needs k": (lambda: ko.infer(KEY, *GOOD, basis="ritz"), "Use `PointBasis`"),
    "basis of another prior": (lambda: ko.infer(KEY, *GOOD, basis=ko.RitzBasis(GRE, X[:5])), "another prior"),
    "unknown number": (lambda: ko.infer(KEY, *GOOD, num_inducing="many"), '"all", "auto" or None'),
    "number of a finished basis": (
        lambda: ko.infer(KEY, GRE, *GOOD[1:], num_inducing=5, basis=ko.RitzBasis(GRE, X[:5])),
        "has its inducing",
    ),
    "unknown sampler": (lambda: ko.infer(KEY, *GOOD, sampler="gibbs"), '"euler_maruyama"'),
    "unknown potential": (lambda: ko.infer(KEY, *GOOD, potential="best"), '"optimal"'),
    "no particles": (lambda: ko.infer(KEY, *GOOD, num_particles=0), "at least 1"),
    "background of a process": (lambda: ko.infer(KEY, *GOOD, background=0.1), "full variance everywhere"),
    "background of all": (lambda: ko.infer(KEY, GRE, *GOOD[1:], background=1.5), "between 0 and 1"),
    "no key": (lambda: ko.infer(0, *GOOD), "random key"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_of_infer(name):
    call, match = BAD[name]
    with pytest.raises(ko.errors.InputError, match=match):
        call()


BAD_NEW = {
    "wrong D": (lambda p: p.predict(np.zeros((3, 2))), "2 columns, but 1 are expected"),
    "a vector": (lambda p: p.predict(np.zeros(3)), r"x_new\[:, None\]"),
    "NaN": (lambda p: p.predict([[np.nan]]), "`x_new` must be finite"),
    "label never seen": (lambda p: p.log_predictive_density([[0.0]], [2.0]), r"in \{0, 1\}"),
    "lengths": (lambda p: p.log_predictive_density([[0.0]], [1.0, 1.0]), "one observation per input"),
    "noise of a label": (lambda p: p.predict([[0.0]], noise=0.3), "for `Gaussian` likelihoods"),
    "coverage": (lambda p: p.predict([[0.0]]).interval(95), "0.95"),
    "inside a trace": (lambda p: jax.jit(lambda x: p.predict(x).mean)(np.zeros((1, 1))), "concrete inputs"),
}


@pytest.mark.parametrize("name", BAD_NEW)
def test_bad_input_of_predict(name, labels):
    call, match = BAD_NEW[name]
    with pytest.raises(ko.errors.InputError, match=match):
        call(labels)
