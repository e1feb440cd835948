"""Points and hyperparameters in one search, noise that is at least rounding, and derivatives where a mode is not."""

import jax
import numpy as np
import pytest

import kosambi as ko
from kosambi.errors import HyperparameterWarning
from kosambi.learning import points, with_points
from kosambi.learning.layout import Model, lay_out
from kosambi.learning.points import PointEvaluator


def wiggly(num_rows=150):
    rng = np.random.default_rng(3)
    x = rng.uniform(-3.0, 3.0, (num_rows, 2))
    y = np.sin(2.5 * x[:, 0]) + 0.3 * x[:, 1] + 0.1 * rng.normal(size=num_rows)
    return x, y


def fitted(x, y, likelihood, **how):
    prior = ko.GaussianProcess(ko.kernels.Matern52(np.ones(2), 1.0, active_dims=None))
    return ko.fit_hyperparameters(jax.random.key(0), prior, likelihood, x, y, **how)


@pytest.mark.parametrize(
    "likelihood",
    [
        pytest.param(ko.likelihoods.Gaussian(), id="normal"),
        pytest.param(ko.likelihoods.StudentT(), id="t", marks=pytest.mark.slow),
    ],
)
def test_the_bound_is_that_of_what_is_returned_and_no_small_change_raises_it(likelihood):
    x, y = wiggly()
    prior, noise, report = fitted(x, y, likelihood, num_inducing=20, freeze="mean")
    given = Model(prior.kernel, prior.mean, noise)

    def bound_at(at):
        """Through sites; for Gaussian noise that is the evidence itself."""
        with jax.enable_x64(True):
            evaluate = PointEvaluator(lay_out(given), given, prior, x, y, None, None)
            evaluate(lay_out(given).vector(given), at)
        return evaluate.evidence

    bound = bound_at(report.inducing_points)
    is_gaussian = isinstance(noise, ko.likelihoods.Gaussian)
    if is_gaussian:
        assert bound == pytest.approx(float(ko.log_evidence(prior, noise, x, y, report.inducing_points)), abs=1e-6)
    # Sites that begin elsewhere settle to the same bound up to what an update may still promise.
    assert report.log_evidence == pytest.approx(bound, abs=1e-6 if is_gaussian else 1e-4)
    assert report.bound == report.log_evidence
    rng = np.random.default_rng(0)
    for step, fall in ((0.01, 0.0), (0.1, 1.0)):
        moved = report.inducing_points + step * rng.normal(size=report.inducing_points.shape)
        # Points that stand somewhere on a slope would have as many steps up as down.
        assert bound_at(moved) < bound - fall


@pytest.mark.slow
def test_it_finds_more_than_hyperparameters_alone(monkeypatch):
    x, y = wiggly()
    _, _, together = fitted(x, y, ko.likelihoods.Gaussian(), num_inducing=20)
    monkeypatch.setattr(with_points, "MOST_ITERATIONS", 1)
    monkeypatch.setattr(with_points, "FEWEST_ITERATIONS", 1)
    _, _, apart = fitted(x, y, ko.likelihoods.Gaussian(), num_inducing=20)
    assert together.log_evidence > apart.log_evidence + 1.0


@pytest.mark.parametrize(
    "likelihood",
    [
        pytest.param(ko.likelihoods.Gaussian(), id="normal"),
        pytest.param(ko.likelihoods.Gaussian(np.full(600, 0.1)), id="each", marks=pytest.mark.slow),
        pytest.param(ko.likelihoods.StudentT(), id="t", marks=pytest.mark.slow),
    ],
)
@pytest.mark.slow
def test_many_rows_are_begun_with_some_of_them(likelihood, monkeypatch):
    """Which takes no more evaluations of all rows, and ends where a search with all rows does."""
    x, y = wiggly(600)
    seen, evaluate = [], PointEvaluator._evaluate

    def counted(self, vector, points):
        seen.append(sum(int(np.sum(np.asarray(chunk.counts) > 0)) for chunk in self._chunks))
        return evaluate(self, vector, points)

    monkeypatch.setattr(PointEvaluator, "_evaluate", counted)
    monkeypatch.setattr(points, "CHUNK", 128)
    monkeypatch.setattr(points, "_ROUNDED", 8)
    _, _, report = fitted(x, y, likelihood, num_inducing=12)
    first, seen[:] = seen.copy(), []
    monkeypatch.setattr(with_points, "FEWER", 1e9)
    _, _, right = fitted(x, y, likelihood, num_inducing=12)
    # Two chunks of 120 rows for 16 rows a point.
    assert set(first) == {240, 600}
    assert set(seen) == {600}
    assert first.count(600) <= len(seen)
    assert report.num_rows == right.num_rows == 600
    assert report.log_evidence == pytest.approx(right.log_evidence, abs=0.02 * 600)


def test_a_search_begins_where_there_is_a_bound():
    """On the way to the middle of the limits where there is none; nowhere else if there is none at all."""
    vector = np.array([8.0, 4.0])

    def below(most):
        return lambda at: 1.0 if at[0] <= most else np.inf

    for most, part in ((8.0, 0.0), (7.0, 0.25), (3.0, 0.75), (-1.0, 0.0)):
        found = with_points._with_bound(below(most), vector, np.zeros(2))
        np.testing.assert_allclose(found, (1.0 - part) * vector)


def test_copies_of_rounded_rows_do_not_make_the_noise_vanish():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(80, 2))
    y = np.round(x[:, 0] + 0.7 * rng.normal(size=80))
    twice = np.concatenate([x, x]), np.concatenate([y, y])
    with pytest.warns(HyperparameterWarning, match="rounding of y"):
        _, noise, report = fitted(*twice, ko.likelihoods.Gaussian())
    assert float(noise.noise) == pytest.approx(1.0 / np.sqrt(12.0), rel=1e-3)
    assert "likelihood.noise" in report.at_bound
    # Without copies the noise is found as it is, rounding included.
    _, noise, _ = fitted(x, y, ko.likelihoods.Gaussian())
    assert 0.5 < float(noise.noise) < 1.1


def test_the_evidence_of_outliers_has_a_derivative_from_a_bad_start():
    """The search for a mode that ends on a slope leaves a Hessian that has no Cholesky factor."""
    from kosambi.basis.points import whitened_features
    from kosambi.target.evidence import of_features

    x = np.linspace(-1.0, 1.0, 12)[:, None]
    y = np.where(np.arange(12) % 2 == 0, 40.0, -40.0) + 1.0

    def evidence(log_scale):
        likelihood = ko.likelihoods.StudentT(2.0, jax.numpy.exp(log_scale))
        prior = ko.GaussianProcess(ko.kernels.SquaredExponential(0.1, 900.0))
        features = whitened_features(prior, jax.numpy.asarray(x), jax.numpy.asarray(x[::2]))
        return of_features(likelihood, features, jax.numpy.asarray(y), jax.numpy.zeros(6))[0]

    with jax.enable_x64(True):
        both = jax.jit(jax.value_and_grad(evidence))
        for log_scale in (-3.0, -1.0, 1.0):
            value, slope = both(log_scale)
            assert np.isfinite(value)
            assert np.isfinite(slope)
