from __future__ import annotations

import warnings

import equinox as eqx
import jax
import numpy as np
import pytest

import kosambi as ko
from kosambi.errors import HyperparameterWarning, InputError, NumericalError
from kosambi.learning import paper, with_points, without_points
from kosambi.learning.rows import subset, thinned
from kosambi.learning.search import Record, minimise
from tests.learning.curves import KEY, NOISE, curve

k, lk = ko.kernels, ko.likelihoods


def quick(x, y, likelihood=None, **options):
    likelihood = lk.Gaussian() if likelihood is None else likelihood
    return ko.fit_hyperparameters(KEY, k.SquaredExponential(), likelihood, x, y, num_restarts=0, **options)


@pytest.mark.slow
def test_duplicated_rows_do_no_harm():
    rng, x, f = curve(13, 40, 5.0)
    x, f = np.repeat(x, 4, axis=0), np.repeat(f, 4)
    with pytest.warns(HyperparameterWarning, match="40 inducing points instead of 100"):
        kernel, likelihood, report = quick(x, f + NOISE * rng.normal(size=160), num_inducing=100)
    assert len(report.inducing_points) == 40
    assert abs(likelihood.noise / NOISE - 1.0) < 0.25
    assert 0.5 < kernel.lengthscale < 2.0


def test_two_rows_and_a_constant_column_are_warned_of():
    with pytest.warns(HyperparameterWarning, match="2 rows are no more than the numbers to be learned"):
        kernel, likelihood, report = quick([[0.0], [1.0]], [0.0, 1.0])
    assert np.isfinite([kernel.lengthscale, kernel.variance, likelihood.noise]).all()
    assert report.warnings
    rng, x, f = curve(14, 60, 5.0)
    x = np.concatenate([x, np.full((60, 1), 3.0)], axis=1)
    with pytest.warns(HyperparameterWarning, match="Column 1 of x does not vary"):
        kernel, _, _ = quick(x, f + 0.1 * rng.normal(size=60), ard=True)
    assert np.isfinite(kernel.lengthscale).all()


def test_a_search_that_is_cut_short_says_so():
    rng, x, f = curve(15, 60, 5.0)
    with pytest.warns(HyperparameterWarning, match="did not converge in 1 iterations"):
        _, _, report = quick(x, f + 0.1 * rng.normal(size=60), max_iterations=1)
    assert not report.converged


def test_an_interrupted_search_returns_the_best_so_far(monkeypatch):
    rng, x, f = curve(16, 60, 5.0)

    def interrupt(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(without_points.WithoutPoints, "search", interrupt)
    with pytest.warns(HyperparameterWarning, match="interrupted"):
        kernel, _, report = quick(x, f + 0.1 * rng.normal(size=60), on_interrupt="return")
    assert not report.converged
    assert np.isfinite(kernel.lengthscale)
    with pytest.raises(KeyboardInterrupt):
        quick(x, f)


def test_an_interrupted_average_is_over_what_was_found(monkeypatch):
    rng, x, f = curve(16, 60, 5.0)
    y, fit_one, calls = f + 0.1 * rng.normal(size=60), paper._fit_one, []

    def interrupted(*arguments):
        calls.append(arguments)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return fit_one(*arguments)

    monkeypatch.setattr(paper, "_fit_one", interrupted)

    def learn(**how):
        given = (k.SquaredExponential(), lk.Gaussian(), x, y, "paper")
        return ko.fit_hyperparameters(KEY, *given, max_rows=40, num_restarts=4, **how)

    with pytest.warns(HyperparameterWarning, match="interrupted after 2 of 4"):
        _, _, report = learn(on_interrupt="return")
    assert len(report.restarts) == 2
    assert not report.converged
    for how in ("raise", "return"):
        # Before the first is done there is nothing to return.
        calls[:] = [None] if how == "raise" else [None, None]
        with pytest.raises(KeyboardInterrupt):
            learn(on_interrupt=how)


def test_evaluations_that_are_not_finite_are_counted_and_survived():
    def objective(v):
        # Nearly a line far out, so that a second step overshoots, to where nothing is defined.
        root = np.sqrt(1.0 + (v[0] - 1.5) ** 2)
        return (np.nan, np.full(1, np.nan)) if v[0] > 2 else (float(root), (v - 1.5) / root)

    record = Record()
    found = minimise(objective, np.array([-50.0]), np.array([-100.0]), np.array([100.0]), 50, record)
    np.testing.assert_allclose(found.vector, 1.5, atol=2e-2)
    assert record.failures > 0


def test_bad_input():
    x = np.linspace(0.0, 1.0, 8)[:, None]
    y = np.sin(6.0 * x[:, 0])
    with pytest.raises(InputError, match="All 8 observations are 2"):
        quick(x, np.full(8, 2.0))
    with pytest.raises(InputError, match=r"loss without a density.*StudentT"):
        quick(x, y, lk.Huber())
    with pytest.raises(InputError, match="loss without a density"):
        quick(x, y, lk.Custom(lambda y, f: (y - f) ** 2))
    with pytest.raises(InputError, match="one of evidence, paper"):
        quick(x, y, method="map")
    with pytest.raises(InputError, match="two rows of data"):
        quick(x[:1], y[:1])
    with pytest.raises(InputError, match="No column of `x` varies"):
        quick(np.ones((8, 2)), y)
    with pytest.raises(InputError, match="at most 8"):
        quick(x, y, num_inducing=9)
    with pytest.raises(InputError, match="without inducing points"):
        quick(x, y, method="paper", num_inducing=3)
    with pytest.raises(InputError, match="nothing to learn"):
        quick(x, y, freeze=["kernel", "likelihood"])
    with pytest.raises(InputError, match="num_restarts"):
        ko.fit_hyperparameters(KEY, k.Matern52(), lk.Gaussian(), x, y, num_restarts=-1)
    with pytest.raises(InputError, match="prior or a kernel"):
        ko.fit_hyperparameters(KEY, 3.0, lk.Gaussian(), x, y)
    with pytest.raises(InputError, match="likelihood"):
        ko.fit_hyperparameters(KEY, k.Matern52(), 0.1, x, y)
    with pytest.raises(InputError, match="8 rows"):
        quick(x, y[:5])
    with pytest.raises(InputError, match="no recipe"):
        ko.fit_hyperparameters(KEY, k.Matern52(), lk.HeteroscedasticGaussian(), x, y, method="paper")
    with pytest.raises(InputError, match="`max_rows` must be at least 2"):
        quick(x, y, max_rows=1)
    with pytest.raises(InputError, match=r"cannot be tied to likelihood\.noise"):
        ko.fit_hyperparameters(
            KEY, k.Matern52(), lk.Gaussian(), x, y, method="paper", tie=[["kernel.variance", "likelihood.noise"]]
        )
    with pytest.raises(InputError, match="`num_restarts` must be at least 1"):
        quick(x, y, method="paper")
    with pytest.raises(NumericalError, match="not finite at any of"):
        quick(x, y, lk.Custom(lambda y, f: jax.numpy.log(y - 5.0) * f, is_density=True))


def test_data_without_faults_give_no_warning():
    rng, x, f = curve(17, 60, 5.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        quick(x, f + 0.1 * rng.normal(size=60))


@pytest.mark.slow
@pytest.mark.parametrize("unit", [1e6, 1e-6])
def test_units_of_the_data_do_not_matter(unit):
    rng, x, f = curve(18, 60, 5.0)
    y = f + 0.1 * rng.normal(size=60) + 0.7
    options = {"num_inducing": 15, "num_restarts": 0}
    prior = ko.GaussianProcess(k.SquaredExponential())
    one, noise_one, _ = ko.fit_hyperparameters(KEY, prior, lk.Gaussian(), x, y, **options)
    for other, scale in (((x, unit * y), unit), ((unit * x, y), 1.0)):
        two, noise_two, report = ko.fit_hyperparameters(KEY, prior, lk.Gaussian(), *other, **options)
        assert report.converged
        np.testing.assert_allclose(two.mean / scale, one.mean, atol=0.1)
        np.testing.assert_allclose(noise_two.noise / scale, noise_one.noise, rtol=0.02)
        stretch = unit if scale == 1.0 else 1.0
        np.testing.assert_allclose(two.kernel.lengthscale / stretch, one.kernel.lengthscale, rtol=0.05)


class Line(eqx.Module):
    slope: np.ndarray
    level: np.ndarray

    def __call__(self, x):
        return self.slope * x[:, 0] + self.level


@pytest.mark.slow
@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_numbers_of_a_mean_are_learned_in_any_unit(unit):
    rng, x, f = curve(19, 80, 5.0)
    y = 3.0 * x[:, 0] + 0.3 * f + 0.1 * rng.normal(size=80)
    prior = ko.GaussianProcess(k.SquaredExponential(unit), Line(np.asarray(0.0), np.asarray(0.0)))
    learned, _, report = ko.fit_hyperparameters(KEY, prior, lk.Gaussian(), unit * x, y, num_inducing=20)
    assert report.converged
    assert abs(learned.mean.slope * unit - 3.0) < 0.3


def test_a_kernel_alone_and_data_far_from_zero():
    rng, x, f = curve(18, 60, 5.0)
    y = f + 0.1 * rng.normal(size=60) + 1000.0
    kernel, likelihood, _ = quick(x, y)
    assert kernel.variance > 1e4
    assert 0.05 < likelihood.noise < 0.2


@pytest.mark.slow
def test_a_cost_of_ones_own_in_any_unit():
    rng, x, f = curve(22, 80, 6.0)
    y = 1000.0 * f + 100.0 * rng.normal(size=80)

    def cost(y, f):
        return 0.5 * jax.numpy.square((y - f) / 100.0) + jax.numpy.log(100.0) + 0.5 * jax.numpy.log(2.0 * jax.numpy.pi)

    custom = lk.Custom(cost, is_density=True, is_convex=True)
    kernel, _, report = quick(x, y, custom, num_inducing=30)
    assert report.at_bound == ()
    assert 1e5 < kernel.variance < 1e8


@pytest.mark.slow
def test_a_period_is_found():
    rng = np.random.default_rng(23)
    x = rng.uniform(0.0, 10.0, (120, 1))
    y = np.sin(2.0 * np.pi * x[:, 0] / 2.3) + 0.1 * rng.normal(size=120)
    kernel, likelihood, _ = ko.fit_hyperparameters(KEY, k.Periodic(), lk.Gaussian(), x, y, num_inducing=20)
    assert abs(kernel.period / 2.3 - 1.0) < 0.02
    assert likelihood.noise < 0.15


class Distance(k.AbstractKernel):
    """No derivative at zero distance, in the lengthscale or only in the inputs."""

    lengthscale: np.ndarray
    outside: bool = eqx.field(static=True)

    def pairwise(self, x, z):
        scaled = (x if self.outside else x / self.lengthscale), (z if self.outside else z / self.lengthscale)
        distance = jax.numpy.sqrt(jax.numpy.sum(jax.numpy.square(scaled[0][:, None] - scaled[1][None]), axis=-1))
        return jax.numpy.exp(-distance / self.lengthscale if self.outside else -distance)

    def pointwise(self, x):
        return jax.numpy.ones(x.shape[0])


@pytest.mark.slow
def test_kernels_without_a_derivative_at_zero_distance():
    rng, x, f = curve(24, 50, 5.0)
    y = f + 0.1 * rng.normal(size=50)
    arguments = (lk.Gaussian(), x, y)
    with pytest.raises(NumericalError, match="finite, but not its derivative"):
        ko.fit_hyperparameters(KEY, Distance(np.asarray(1.0), False), *arguments, num_inducing=10)
    _, _, report = ko.fit_hyperparameters(KEY, Distance(np.asarray(1.0), True), *arguments, num_inducing=25)
    # Its points stay where greedy selection put them.
    assert np.isfinite(report.bound)
    assert all(np.any(np.all(point == x, axis=1)) for point in report.inducing_points)


def test_a_subset_has_every_label_and_values_that_differ():
    labels = np.zeros(100)
    labels[42] = 1.0
    for y, number in ((labels, 2), (labels, None)):
        rows = subset(np.random.default_rng(1), y, None, 30, number)
        assert len(rows) <= 30
        assert 42 in rows


def test_a_measure_is_thinned_by_weight():
    far, near = np.full((500, 1), 50.0) + np.arange(500)[:, None], np.linspace(0.0, 1.0, 60)[:, None]
    weights = np.concatenate([np.full(500, 1e-9), np.ones(60)])
    measure = ko.measures.points(np.concatenate([far, near]), weights)
    prior = ko.GaussianRandomElement(k.Matern52(0.3), measure)
    thin = thinned(np.random.default_rng(0), prior, 60)
    assert len(thin.measure.points) == 60
    assert thin.measure.points.max() <= 1.0
    np.testing.assert_allclose(thin.variance(near), prior.variance(near), rtol=0.05)


def test_interrupting_the_last_steps_keeps_what_was_found(monkeypatch):
    rng, x, f = curve(26, 60, 5.0)

    def interrupt(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(with_points.WithPoints, "_together", interrupt)
    with pytest.warns(HyperparameterWarning, match="interrupted"):
        kernel, _, report = quick(x, f + 0.1 * rng.normal(size=60), num_inducing=12, on_interrupt="return")
    assert not report.converged
    assert np.isfinite(kernel.lengthscale)
    assert report.inducing_points.shape == (12, 1)


def test_values_that_the_model_does_not_suit_are_warned_of():
    rng = np.random.default_rng(27)
    x = np.linspace(0.0, 1.0, 60)[:, None]
    # No noise at all: it ends at its lower bound.
    with pytest.warns(HyperparameterWarning, match="likelihood.noise ended at a bound"):
        quick(x, np.sin(3.0 * x[:, 0]))
    with pytest.warns(HyperparameterWarning, match="9 inducing points instead of 40"):
        quick(np.tile(np.arange(9.0), 6)[:, None], rng.normal(size=54), num_inducing=40)


def test_an_interruption_leaves_a_noise_for_each_row():
    rng, x, f = curve(29, 60, 5.0)
    noise = rng.uniform(0.05, 0.2, 60)

    class Interrupting(with_points.PointEvaluator):
        def __call__(self, vector, points):
            found = super().__call__(vector, points)
            if len(calls) == 3:
                calls.append(None)
                raise KeyboardInterrupt
            calls.append(None)
            return found

    calls = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(with_points, "PointEvaluator", Interrupting)
        with pytest.warns(HyperparameterWarning, match="interrupted"):
            _, likelihood, report = quick(
                x,
                f + noise * rng.normal(size=60),
                lk.Gaussian(noise),
                num_inducing=12,
                max_rows=40,
                on_interrupt="return",
            )
    np.testing.assert_array_equal(likelihood.noise, noise)
    assert not report.converged
    assert np.isfinite(report.log_evidence)
