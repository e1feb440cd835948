"""Figures of held-out data, against numbers that are worked out by hand here."""

from __future__ import annotations

import jax
import matplotlib as mpl
import numpy as np
import pytest
from scipy.stats import binom, binomtest

import kosambi as ko
from kosambi import plots
from kosambi.calibration import calibration_report
from kosambi.errors import InputError

mpl.use("Agg")
import matplotlib.pyplot as plt

X = np.linspace(-2.0, 2.0, 60)[:, None]
BASIS = ko.PointBasis(ko.GaussianProcess(ko.kernels.Matern52(lengthscale=0.8)), X[::10])


@pytest.fixture(autouse=True)
def closed_figures():
    before = mpl.rcParams.copy()
    yield
    assert mpl.rcParams == before
    plt.close("all")


def prediction_of(likelihood, y):
    """A prediction from particles of a random generator: pictures do not ask how they were drawn."""
    target = ko.Target(BASIS, likelihood, X, y, "projected")
    u = 0.7 * np.random.default_rng(0).normal(size=(20, *target.shape))
    return ko.Posterior(target, ko.samplers.Particles.from_coordinates(target, u)).predict(X)


@pytest.fixture(scope="module")
def numbers():
    y = np.sin(2.0 * X[:, 0]) + 1.5 * np.random.default_rng(1).normal(size=60)
    return prediction_of(ko.likelihoods.Gaussian(0.5), y), y


@pytest.fixture(scope="module")
def labels():
    y = (np.random.default_rng(2).uniform(size=60) < 0.4).astype(float)
    return prediction_of(ko.likelihoods.Bernoulli(), y), y


@pytest.fixture(scope="module")
def classes():
    y = np.arange(60) % 3.0
    return prediction_of(ko.likelihoods.Categorical(3), y), y


def points(axes, start):
    (found,) = [entry for entry in axes.lines if entry.get_label().startswith(start)]
    return found


def test_intervals_that_miss_the_truth_have_another_colour(numbers):
    prediction, y = numbers
    axes = plots.predictions(prediction, y, coverage=0.9)
    lower, upper = prediction.interval(0.9)
    inside = (lower <= y) & (y <= upper)
    assert 5 < inside.sum() < 55
    share = f"in its 90 % interval: {100 * inside.mean():.1f} %"
    for part, start, colour in ((inside, share, plots.BLUE), (~inside, "outside", plots.ORANGE)):
        found = points(axes, start)
        np.testing.assert_array_equal(found.get_xdata(), y[part])
        np.testing.assert_array_equal(found.get_ydata(), prediction.mean[part])
        assert found.get_color() == colour
    bars = np.concatenate([collection.get_segments() for collection in axes.collections])
    order = np.concatenate([np.flatnonzero(inside), np.flatnonzero(~inside)])
    np.testing.assert_allclose(bars[:, 0], np.column_stack([y, lower])[order])
    np.testing.assert_allclose(bars[:, 1], np.column_stack([y, upper])[order])
    assert axes.get_title() == ""


def test_many_observations_are_thinned_out_evenly_and_it_is_said(numbers):
    prediction, y = numbers
    axes = plots.predictions(prediction, y, max_points=20)
    again = plots.predictions(prediction, y, max_points=20)
    shown = np.concatenate([points(axes, start).get_xdata() for start in ("in its", "outside")])
    assert len(shown) == 20
    assert {y[0], y[-1]} <= set(shown)
    assert axes.get_title() == "20 of 60 observations"
    for start in ("in its", "outside"):
        np.testing.assert_array_equal(points(axes, start).get_xdata(), points(again, start).get_xdata())
    # The share is that of all observations.
    whole = plots.predictions(prediction, y)
    assert points(axes, "in its").get_label() == points(whole, "in its").get_label()


def test_counts_and_losses_are_drawn_too():
    y = np.random.default_rng(3).poisson(2.0, size=60).astype(float)
    prediction = prediction_of(ko.likelihoods.Poisson(), y)
    axes = plots.predictions(prediction, y)
    drawn = np.concatenate([line.get_ydata() for line in axes.lines[:-1]])
    np.testing.assert_allclose(np.sort(drawn), np.sort(prediction.observation_mean))
    loss = prediction_of(ko.likelihoods.Huber(0.5), y)
    axes = plots.predictions(loss, y)
    np.testing.assert_array_equal(points(axes, "mean of f").get_ydata(), loss.mean)
    assert len(axes.collections) == 0


def test_bars_of_the_pit_and_their_band(numbers):
    prediction, y = numbers
    report = calibration_report(prediction, y)
    axes = plots.pit(report)
    heights = [bar.get_height() for bar in axes.containers[0]]
    np.testing.assert_array_equal(heights, np.histogram(report.pit, 6, (0.0, 1.0))[0])
    (band,) = [patch for patch in axes.patches if patch.get_label() == "95 % if calibrated"]
    edges = band.get_bbox().intervaly
    assert list(edges) == [binom.ppf(0.025, 60, 1 / 6), binom.ppf(0.975, 60, 1 / 6)]


def test_roc_curve_and_area(labels):
    prediction, y = labels
    axes = plots.roc(prediction, y, classes=["no", "$yes"])
    p = prediction.probability
    # The area is the probability that a one has the larger probability.
    area = np.mean(np.sign(p[y == 1][:, None] - p[y == 0]) * 0.5 + 0.5)
    curve = points(axes, r"\$yes")
    assert curve.get_label() == rf"\$yes: AUC {area:.3f}"
    wrong, right = curve.get_xdata(), curve.get_ydata()
    assert np.trapezoid(right, wrong) == pytest.approx(area, abs=1e-12)
    above = p >= np.sort(p)[30]
    assert np.min(np.hypot(wrong - above[y == 0].mean(), right - above[y == 1].mean())) < 0.06


def test_one_roc_curve_a_class(classes):
    prediction, y = classes
    assert len(plots.roc(prediction, y).lines) == 4
    # The third class never occurs, so it has no curve.
    assert len(plots.roc(prediction, np.arange(60) % 2.0).lines) == 3
    axes = plots.roc(prediction, np.zeros(60))
    assert axes.get_title() == "one class only: no ROC curve"


def test_reliability_of_two_classes(labels):
    prediction, y = labels
    axes = plots.reliability(prediction, y, num_bins=4)
    p = prediction.probability
    bins = [(p >= low) & (p < low + 0.25) for low in (0.0, 0.25, 0.5, 0.75)]
    bins = [b for b in bins if b.any()]
    dots = axes.containers[0][0]
    np.testing.assert_allclose(dots.get_xdata(), [p[b].mean() for b in bins])
    np.testing.assert_allclose(dots.get_ydata(), [y[b].mean() for b in bins])
    assert [text.get_text() for text in axes.texts] == [str(b.sum()) for b in bins]
    bars = axes.containers[0][2][0].get_segments()
    for bar, b in zip(bars, bins, strict=True):
        interval = binomtest(int(y[b].sum()), int(b.sum())).proportion_ci(method="wilson")
        np.testing.assert_allclose(bar[:, 1], interval, atol=1e-6)


def test_reliability_of_the_likeliest_class(classes):
    prediction, y = classes
    axes = plots.reliability(prediction, y, num_bins=1)
    table = prediction.probability
    dots = axes.containers[0][0]
    assert dots.get_xdata()[0] == pytest.approx(table.max(axis=1).mean())
    assert dots.get_ydata()[0] == pytest.approx(np.mean(table.argmax(axis=1) == y))


def test_confusion_counts():
    truth, guess = ["b", "a", "b", "b"], ["b", "b", "b", "a"]
    axes = plots.confusion(truth, guess)
    assert [text.get_text() for text in axes.texts] == ["0", "1", "1", "2"]
    np.testing.assert_allclose(axes.collections[0].get_array().ravel(), [0.0, 1.0, 1 / 3, 2 / 3])
    axes = plots.confusion(truth, guess, ["b", "_c", "a"])
    assert [text.get_text() for text in axes.texts] == ["2", "0", "1", "0", "0", "0", "1", "0", "0"]
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["b", " _c", "a"]


def test_the_size_of_a_basis_is_marked():
    y = np.sin(2.0 * X[:, 0])
    posterior = ko.infer(jax.random.key(0), BASIS.prior, ko.likelihoods.Gaussian(0.1), X, y, num_inducing="auto")
    axes = plots.spectrum(posterior, mark_size=True)
    found, size = posterior.selection, posterior.basis.size
    share = found.residual_share[list(found.sizes).index(size)]
    (line,) = [entry for entry in axes.lines if entry.get_label().startswith("M =")]
    assert line.get_label() == f"M = {size}: {100 * share:.2g} % of the prior variance unexplained"
    assert line.get_xdata()[0] == size
    assert len(plots.spectrum(posterior).lines) == 1


def test_inputs_can_be_shown_in_the_units_of_the_data():
    y = np.sin(2.0 * X[:, 0])
    posterior = ko.infer(jax.random.key(0), BASIS.prior, ko.likelihoods.Gaussian(0.1), X, y, basis=BASIS)
    grid = np.linspace(-1.0, 1.0, 7)[:, None]
    axes = plots.posterior(posterior, x_new=grid, x_mean=100.0, x_scale=20.0)
    lines = {line.get_label(): line for line in axes.lines}
    np.testing.assert_allclose(lines["mean of f"].get_xdata(), 100.0 + 20.0 * grid[:, 0])
    np.testing.assert_allclose(lines["mean of f"].get_ydata(), posterior.predict(grid).mean)
    np.testing.assert_allclose(lines["data"].get_xdata(), 100.0 + 20.0 * X[:, 0])
    np.testing.assert_allclose(lines["inducing points"].get_xdata(), 100.0 + 20.0 * BASIS.inducing_points[:, 0])


def test_data_of_weight_zero_are_not_drawn():
    y, weights = np.sin(2.0 * X[:, 0]), np.arange(60) % 2.0
    gaussian = ko.likelihoods.Gaussian(0.1)
    posterior = ko.infer(jax.random.key(0), BASIS.prior, gaussian, X, y, basis=BASIS, weights=weights)
    axes = plots.posterior(posterior)
    np.testing.assert_array_equal(points(axes, "data").get_xdata(), X[1::2, 0])


def test_a_mean_with_units_of_its_own_is_drawn_in_those_of_the_data():
    likelihood = ko.likelihoods.HeteroscedasticGaussian(location=50.0, scale=10.0)
    target = ko.Target(BASIS, likelihood, X, 50.0 + 10.0 * X[:, 0])
    u = np.random.default_rng(0).normal(size=(5, *target.shape))
    posterior = ko.Posterior(target, ko.samplers.Particles.from_coordinates(target, u))
    axes = plots.posterior(posterior, jax.random.key(0), num_draws=2)
    (line,) = [line for line in axes.lines if line.get_label() == "mean of E[y | f]"]
    f = posterior.predict(line.get_xdata()[:, None]).mean[:, 0]
    np.testing.assert_allclose(line.get_ydata(), 50.0 + 10.0 * f)
    (draw,) = [line for line in axes.lines if line.get_label() == "2 draws"]
    first = posterior.functions(jax.random.key(0))(line.get_xdata()[:, None])[0, :, 0]
    np.testing.assert_allclose(draw.get_ydata(), 50.0 + 10.0 * first)


def test_bad_input_is_refused_with_a_remedy(numbers, labels):
    prediction, y = numbers
    with pytest.raises(InputError, match=r"draws numbers.*Bernoulli.*labels. Use `plots.reliability`"):
        plots.predictions(*labels)
    for name in ("roc", "reliability"):
        with pytest.raises(InputError, match=rf"`plots.{name}` draws labels, and `Gaussian` has none. Use"):
            getattr(plots, name)(prediction, y)
    with pytest.raises(InputError, match="`y` has 3 observations for the 60 inputs"):
        plots.predictions(prediction, [1.0, 2.0, 3.0])
    with pytest.raises(InputError, match="`max_points` must be at least 1"):
        plots.predictions(prediction, y, max_points=0)
    with pytest.raises(InputError, match="`classes` has 3 names for 2 labels"):
        plots.roc(*labels, classes="abc")
    with pytest.raises(InputError, match=r"`plots.pit` needs a `Calibration`. Got ndarray"):
        plots.pit(y)
    with pytest.raises(InputError, match=r"has no PIT.*jax.random.key\(0\)"):
        plots.pit(calibration_report(*labels))
    with pytest.raises(InputError, match=r"vectors of the same length, not empty. Got shapes \(2,\) and \(1,\)"):
        plots.confusion([1, 2], [1])
    with pytest.raises(InputError, match="`classes` lacks dog"):
        plots.confusion(["dog"], ["cat"], ["cat"])
    posterior = ko.infer(jax.random.key(0), BASIS.prior, ko.likelihoods.Gaussian(0.1), X, y, basis=BASIS)
    with pytest.raises(InputError, match="`x_scale` must be positive"):
        plots.posterior(posterior, x_scale=0.0)
