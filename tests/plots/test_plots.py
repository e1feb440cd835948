from __future__ import annotations

import dataclasses
import sys

import jax
import matplotlib as mpl
import numpy as np
import pytest

import kosambi as ko
from kosambi import plots

mpl.use("Agg")
import matplotlib.pyplot as plt

X = np.linspace(-2.0, 2.0, 40)[:, None]
KERNEL = ko.kernels.Matern52(lengthscale=0.8)
GRID = np.linspace(-2.4, 2.4, 25)[:, None]
# Six coordinates are enough for a picture, and one shape of arrays for what is compiled.
BASIS = ko.PointBasis(ko.GaussianProcess(KERNEL), X[::7])


@pytest.fixture(autouse=True)
def closed_figures():
    before = mpl.rcParams.copy()
    yield
    assert mpl.rcParams == before
    plt.close("all")


@pytest.fixture(scope="module")
def fitted():
    y = np.sin(2.0 * X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=40)
    noise = ko.likelihoods.Gaussian(0.1)
    return ko.infer(jax.random.key(0), BASIS.prior, noise, X, y, basis=BASIS, num_particles=20)


@pytest.fixture
def run(fitted):
    """The report of a run with steps, of which three are adaptation."""
    r_hat = np.array([np.nan, np.nan, np.nan, 1.5, 1.02, 1.005])
    return dataclasses.replace(
        fitted.report,
        sampler="mala",
        steps=24,
        energy_steps=np.arange(4, 25, 4),
        energy=90.0 / r_hat.size * np.arange(6.0, 0.0, -1.0),
        r_hat_trace=r_hat,
    )


def with_particles(likelihood, y, num_particles=20):
    """A posterior whose particles come from a random generator: pictures do not ask how they were drawn."""
    target = ko.Target(BASIS, likelihood, X, y, "projected")
    u = np.random.default_rng(0).normal(size=(num_particles, *target.shape))
    return ko.Posterior(target, ko.samplers.Particles.from_coordinates(target, u))


def line(axes, label):
    (found,) = [entry for entry in axes.lines if entry.get_label() == label]
    return np.asarray(found.get_xdata(), dtype=float), np.asarray(found.get_ydata(), dtype=float)


def band(axes, label, x):
    """The lower and upper edge of a filled band at the inputs `x`, from the corners of its polygon."""
    (found,) = [entry for entry in axes.collections if entry.get_label() == label]
    corners = found.get_paths()[0].vertices
    at = [corners[np.isclose(corners[:, 0], value), 1] for value in x]
    return np.array([a.min() for a in at]), np.array([a.max() for a in at])


def labels(axes):
    return axes.get_legend_handles_labels()[1]


def draws(axes):
    """The lines of the draws, which alone are orange."""
    return np.array([entry.get_ydata() for entry in axes.lines if entry.get_color() == plots.ORANGE])


def test_posterior_draws_data_mean_bands_and_inducing_points(fitted):
    axes = plots.posterior(fitted, x_new=GRID, coverage=0.9)
    prediction = fitted.predict(GRID)
    x, mean = line(axes, "mean of f")
    np.testing.assert_allclose(x, GRID[:, 0])
    np.testing.assert_allclose(mean, prediction.mean)
    np.testing.assert_allclose(band(axes, "90 % of f", x), prediction.latent_interval(0.9))
    np.testing.assert_allclose(band(axes, "90 % of y", x), prediction.interval(0.9))
    np.testing.assert_allclose(line(axes, "data"), (X[:, 0], fitted.target.y))
    np.testing.assert_allclose(line(axes, "inducing points")[0], fitted.basis.inducing_points[:, 0])
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("x", "y")
    assert labels(axes) == ["90 % of y", "90 % of f", "mean of f", "data", "inducing points"]
    assert axes.get_legend() is not None
    assert len(draws(axes)) == 0


def test_posterior_draws_as_many_functions_as_asked_for(fitted):
    axes = plots.posterior(fitted, jax.random.key(3), x_new=GRID, num_draws=4)
    every = fitted.functions(jax.random.key(3))(GRID)
    found = draws(axes)
    assert found.shape == (4, 25)
    assert "4 draws" in labels(axes)
    # Spread over the particles, the first and the last among them.
    np.testing.assert_allclose(found[[0, -1]], every[[0, -1]])
    assert len(draws(plots.posterior(fitted, jax.random.key(3), x_new=GRID, num_draws=999))) == 20
    assert len(draws(plots.posterior(fitted, jax.random.key(3), x_new=GRID, num_draws=0))) == 0


def test_the_default_inputs_go_a_tenth_past_the_data(fitted):
    axes = plots.posterior(fitted)
    x, _ = line(axes, "mean of f")
    assert len(x) == 300
    np.testing.assert_allclose([x[0], x[-1]], [-2.4, 2.4])
    np.testing.assert_allclose(axes.get_xlim(), (-2.4, 2.4))


def test_inputs_may_come_in_any_order(fitted):
    shuffled = np.random.default_rng(0).permutation(GRID)
    np.testing.assert_allclose(
        line(plots.posterior(fitted, x_new=shuffled), "mean of f"),
        line(plots.posterior(fitted, x_new=GRID), "mean of f"),
    )


def test_labels_are_drawn_on_the_scale_of_their_probability():
    labelled = with_particles(ko.likelihoods.Bernoulli("probit"), (X[:, 0] > 0.3).astype(float))
    axes = plots.posterior(labelled, jax.random.key(1), x_new=GRID, num_draws=4)
    prediction = labelled.predict(GRID)
    link = labelled.likelihood.observation_mean
    np.testing.assert_allclose(line(axes, "mean of P(y = 1 | f)")[1], prediction.probability)
    np.testing.assert_allclose(
        band(axes, "95 % of P(y = 1 | f)", GRID[:, 0]), [link(edge) for edge in prediction.latent_interval()]
    )
    np.testing.assert_allclose(draws(axes)[0], link(labelled.functions(jax.random.key(1))(GRID))[0])
    assert axes.get_ylabel() == "P(y = 1)"
    assert "95 % of y" not in labels(axes)
    assert set(line(axes, "data")[1]) == {0.0, 1.0}


def test_counts_are_drawn_on_their_own_scale():
    posterior = with_particles(ko.likelihoods.Poisson(), np.ones(40))
    axes = plots.posterior(posterior, x_new=GRID)
    prediction = posterior.predict(GRID)
    np.testing.assert_allclose(line(axes, "mean of E[y | f]")[1], prediction.observation_mean)
    np.testing.assert_allclose(band(axes, "95 % of E[y | f]", GRID[:, 0]), np.exp(prediction.latent_interval()))
    assert axes.get_ylabel() == "y"
    assert "95 % of y" in labels(axes)


def test_bands_are_right_where_the_link_is_not_monotone():
    """f near zero has a square near zero: the squares of the quantiles of f would be far above that."""
    posterior = with_particles(ko.likelihoods.Poisson("square"), np.ones(40))
    # Away from the inducing points, where f is known given the coordinates and its law has no density.
    grid = np.linspace(-2.37, 2.33, 25)[:, None]
    lower, upper = band(plots.posterior(posterior, x_new=grid, coverage=0.8), "80 % of E[y | f]", grid[:, 0])
    prediction = posterior.predict(grid)
    normal = np.random.default_rng(1).normal(size=(4000, 1, 1))
    squares = (prediction.component_means + prediction.component_deviation * normal) ** 2
    below = [np.mean(squares < edge, axis=(0, 1)) for edge in (lower, upper)]
    np.testing.assert_allclose(below[0], 0.1, atol=0.02)
    np.testing.assert_allclose(below[1], 0.9, atol=0.02)
    assert np.all(lower < 0.5 * np.square(prediction.latent_interval(0.8)[0]))


def test_a_loss_has_no_band_for_observations():
    axes = plots.posterior(with_particles(ko.likelihoods.Huber(0.3), X[:, 0]), x_new=GRID)
    assert labels(axes) == ["95 % of f", "mean of f", "data", "inducing points"]


def test_a_custom_density_and_a_noise_for_each_datum_are_drawn_without_the_band_of_an_observation():
    custom = ko.likelihoods.Custom(lambda y, f: 0.5 * (y - f) ** 2 + 0.919, is_density=True, is_convex=True)
    for likelihood in (custom, ko.likelihoods.Gaussian(np.full(40, 0.2))):
        axes = plots.posterior(with_particles(likelihood, X[:, 0]), x_new=GRID)
        assert labels(axes) == ["95 % of f", "mean of f", "data", "inducing points"]


def test_one_of_several_latent_functions():
    posterior = with_particles(ko.likelihoods.HeteroscedasticGaussian(), X[:, 0], num_particles=10)
    prediction = posterior.predict(GRID)
    first = plots.posterior(posterior, x_new=GRID)
    np.testing.assert_allclose(line(first, "mean of $f_{0}$")[1], prediction.mean[:, 0])
    np.testing.assert_allclose(band(first, "95 % of y", GRID[:, 0]), prediction.interval())
    second = plots.posterior(posterior, jax.random.key(0), x_new=GRID, latent=1, num_draws=2)
    np.testing.assert_allclose(line(second, "mean of $f_{1}$")[1], prediction.mean[:, 1])
    assert draws(second).shape == (2, 25)
    assert not {"data", "95 % of y"} & set(labels(second))
    assert second.get_ylabel() == "$f_{1}$(x)"


def test_given_axes_are_returned(fitted, run):
    _, axes = plt.subplots(2, 2)
    assert plots.posterior(fitted, x_new=GRID, axes=axes[0, 0]) is axes[0, 0]
    assert plots.energy(run, axes[0, 1]) is axes[0, 1]
    assert plots.r_hat(run, axes[1, 0]) is axes[1, 0]
    assert plots.spectrum(fitted, axes[1, 1]) is axes[1, 1]
    assert len(plt.get_fignums()) == 1


def test_energy_and_r_hat_over_the_steps(run):
    axes = plots.energy(run)
    np.testing.assert_allclose(line(axes, "mala"), (run.energy_steps, run.energy))
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("step", "mean potential")
    axes = plots.r_hat(run)
    np.testing.assert_allclose(line(axes, "mala"), ([16, 20, 24], [0.5, 0.02, 0.005]))
    np.testing.assert_allclose(line(axes, "limit 1.01")[1], 0.01)
    assert (axes.get_xlabel(), axes.get_ylabel(), axes.get_yscale()) == ("step", "nested R̂ − 1", "log")
    assert labels(axes) == ["mala", "limit 1.01"]


def test_runs_without_a_trace_say_so(fitted, run):
    for plot in (plots.energy, plots.r_hat):
        axes = plot(fitted.report)
        assert axes.get_title() == "exact: independent draws, no steps"
        assert len(axes.lines) == 0
    axes = plots.r_hat(dataclasses.replace(run, r_hat_trace=np.full(6, np.nan)))
    assert "at the end only" in axes.get_title()
    assert len(axes.lines) == 0


def test_spectrum(curve_prior, curve_inputs, fitted):
    ritz = ko.RitzBasis(curve_prior, curve_inputs[:10])
    axes = plots.spectrum(ritz)
    order, values = line(axes, "RitzBasis")
    np.testing.assert_allclose(order, np.arange(1, ritz.size + 1))
    np.testing.assert_allclose(values, ritz.eigenvalues)
    assert (axes.get_yscale(), axes.get_ylabel()) == ("log", "eigenvalue")
    axes = plots.spectrum(fitted)
    np.testing.assert_allclose(
        line(axes, "PointBasis")[1], np.linalg.eigvalsh(KERNEL(fitted.basis.inducing_points))[::-1], rtol=1e-8
    )
    assert axes.get_ylabel() == "eigenvalue of Cov(u)"


def test_bad_input_is_refused_with_a_remedy(fitted):
    plane = np.random.default_rng(0).normal(size=(6, 2))
    target = ko.Target(ko.PointBasis(BASIS.prior, plane), ko.likelihoods.Gaussian(0.1), plane, plane[:, 0])
    surface = ko.Posterior(target, ko.samplers.Particles.from_coordinates(target, np.zeros((2, 6))))
    with pytest.raises(ko.errors.InputError, match=r"one input column. These have 2. Vary one column"):
        plots.posterior(surface)
    with pytest.raises(ko.errors.InputError, match=r"or a fitted estimator. Got ndarray. Use `kosambi.infer`"):
        plots.posterior(X)
    with pytest.raises(ko.errors.InputError, match=r"`latent` must be one of 0. Got 1"):
        plots.posterior(fitted, latent=1)
    with pytest.raises(ko.errors.InputError, match=r"`num_draws` must be a whole number, 0 or more. Got -1"):
        plots.posterior(fitted, num_draws=-1)
    with pytest.raises(ko.errors.InputError, match=r"`coverage` must be a number between 0 and 1. Got 95"):
        plots.posterior(fitted, coverage=95)
    with pytest.raises(ko.errors.InputError, match=r"`x_new` must be a matrix"):
        plots.posterior(fitted, x_new=GRID[:, 0])
    with pytest.raises(ko.errors.InputError, match=r"one matplotlib `Axes`. Got ndarray. Pass one"):
        plots.posterior(fitted, axes=plt.subplots(2)[1])
    for name in ("energy", "r_hat"):
        with pytest.raises(
            ko.errors.InputError, match=rf"`plots.{name}` needs a report. Got Posterior. Use `posterior.report`"
        ):
            getattr(plots, name)(fitted)
    with pytest.raises(ko.errors.InputError, match=r"`plots.spectrum` needs a basis or a posterior. Got ndarray"):
        plots.spectrum(X)


def test_bad_input_without_matplotlib_names_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"pip install kosambi\[plots\]"):
        plots.spectrum(BASIS)


def test_selection():
    y = np.sin(2.0 * X[:, 0])
    found = ko.select_inducing(BASIS.prior, ko.likelihoods.Gaussian(0.1), X, y)
    axes = plots.selection(found)
    np.testing.assert_array_equal(axes.lines[0].get_xdata(), found.sizes)
    np.testing.assert_array_equal(axes.lines[0].get_ydata(), found.score)
    assert axes.lines[1].get_xdata()[0] == found.num_inducing
    labels = np.arange(40) % 3.0
    several = ko.select_inducing(BASIS.prior, ko.likelihoods.Categorical(3), X, labels)
    assert plots.selection(several).get_ylabel() == "unexplained prior variance"


def test_bad_input_selection(fitted):
    with pytest.raises(ko.errors.InputError, match="without one"):
        plots.selection(fitted)
    with pytest.raises(ko.errors.InputError, match=r"needs a selection\. Got int"):
        plots.selection(3)
