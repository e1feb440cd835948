"""The recipe with a kernel that has not converged, and the code's predictions with Student's noise."""

import jax
import numpy as np
import pytest
from scipy import stats

import kosambi as ko
from reproduction.comparison import data, epochs, published, recipe


def rows(number=60, seed=0, columns=2):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2, 2, size=(number, columns))
    return data.Part(x, np.sin(2 * x[:, 0]) + 0.2 * rng.normal(size=number))


def log_density(vector, x, y, known):
    """Of the exact process over N, independently: lengthscales, variance, noise (all before softplus), mean."""
    raw = np.logaddexp(0.0, vector[:-1])
    scaled = x / raw[: x.shape[1]]
    distances = np.square(scaled[:, None] - scaled[None]).sum(axis=-1)
    covariance = raw[-2] * np.exp(-0.5 * distances) + np.diag(raw[-1] + 1e-4 + known)
    return stats.multivariate_normal(np.full(len(y), vector[-1]), covariance).logpdf(y) / len(y)


def test_the_slope_is_that_of_the_marginal_likelihood():
    train, known = rows(), np.random.default_rng(1).uniform(0.0, 0.3, size=60)
    vector = np.array([0.3, -0.2, 0.4, -1.0, 0.2])
    with jax.enable_x64(True):
        raw = epochs.Raw(vector[:2], *(np.asarray(v) for v in vector[2:]))
        found = jax.grad(epochs._loss)(raw, train.x, train.y, known)
        found = np.concatenate([np.ravel(part) for part in found])
    step = 1e-5
    for i, direction in enumerate(step * np.eye(5)):
        there, back = (log_density(vector + s * direction, train.x, train.y, known) for s in (1, -1))
        assert found[i] == pytest.approx(-(there - back) / (2 * step), rel=1e-6, abs=1e-9)


def test_adam_begins_at_the_start_of_the_code_and_ends_at_the_optimum():
    train = rows(columns=1)
    (_, first, _, _), (_, last, noise, residuals) = epochs._kernels(train, "gaussian", [1, 4000])
    # The first step of Adam is as long as its rate, whatever the slope.
    assert np.abs(np.log(np.expm1(first.lengthscale))) == pytest.approx(0.01, rel=1e-4)
    learned = recipe.from_start_of_code(
        jax.random.key(0), ko.kernels.SquaredExponential(np.ones(1), 1.0), ko.likelihoods.Gaussian(), train
    )
    assert noise == pytest.approx(learned.exact_noise, rel=1e-3)
    assert last.lengthscale[0] == pytest.approx(learned.kernel.lengthscale[0], rel=1e-3)
    # Sound residuals are about as large as the noise.
    assert residuals.std() == pytest.approx(noise, rel=0.2)


def test_the_start_of_the_code_may_lie_where_the_likelihood_is_flat():
    # Evenly spaced, since two rows that are close would give the likelihood a slope.
    x = np.linspace(0.0, 6.0, 80)[:, None]
    y = np.sin(2.0 * x[:, 0]) + 0.3 * np.random.default_rng(10).normal(size=80)
    alone, both = (
        [recipe.learn(data.Part(scale * x, y), "gaussian", 0, 1, both_starts=starts) for scale in (1000.0, 1.0)]
        for starts in (False, True)
    )
    assert float(alone[0].kernel.lengthscale[0]) == pytest.approx(np.log(2.0))
    assert float(both[0].kernel.lengthscale[0]) > 100.0
    # With inputs of the usual size the two starts end at the same place.
    np.testing.assert_allclose(alone[1].kernel.lengthscale, both[1].kernel.lengthscale, rtol=1e-2)
    assert alone[1].exact_noise == pytest.approx(both[1].exact_noise, rel=1e-2)


def test_a_warning_of_the_search_reaches_the_cell():
    train = data.Part(np.column_stack([rows().x, np.ones(60)]), rows().y)
    with pytest.warns(ko.errors.HyperparameterWarning, match="Column 2 of x does not vary"):
        recipe.learn(train, "gaussian", 0, 1, both_starts=False)


def test_labels_become_two_regressions():
    targets = epochs._targets(np.array([0.0, 1.0]), "bernoulli")
    # A log-normal distribution with the mean and variance of a gamma one with shape 1.01 or 0.01 (Milios et al. 2018).
    for (target, known), shapes in zip(targets, ([1.01, 0.01], [0.01, 1.01]), strict=True):
        np.testing.assert_allclose(np.exp(target + known / 2), shapes)
        np.testing.assert_allclose(np.expm1(known) * np.exp(2 * target + known), shapes)


def test_epochs_go_on_where_they_ended_and_labels_are_averaged_before_softplus():
    train = data.Part(rows().x, (rows().y > 0).astype(float))
    *_, whole = epochs._kernels(train, "bernoulli", [100])
    *_, parts = epochs._kernels(train, "bernoulli", [50, 100])
    np.testing.assert_allclose(parts[1].lengthscale, whole[1].lengthscale, rtol=1e-9)
    with jax.enable_x64(True):
        ends = [
            np.asarray(epochs._descend(epochs._begin(2), np.asarray(100), train.x, *target)[0].lengthscale)
            for target in epochs._targets(train.y, "bernoulli")
        ]
    np.testing.assert_allclose(whole[1].lengthscale, np.logaddexp(0.0, np.mean(ends, axis=0)))
    after = np.mean(np.logaddexp(0.0, ends), axis=0)
    assert np.abs(whole[1].lengthscale - after).max() > 1e-4


def test_the_noise_of_the_code_is_on_rows_and_coordinates():
    """Its variance, and what two rows of a particle share; distributions that one might take for it are rejected."""
    rng = np.random.default_rng(3)
    weights, scale, freedom, number = np.array([[1.0, 0.5], [0.8, -0.2]]), 0.3, 12.0, 200_000
    draws = published.student_draws(rng, np.zeros((number, 2)), weights, freedom, scale)
    unit = scale**2 * freedom / (freedom - 2)
    right = unit * (np.eye(2) + weights @ weights.T)
    found = np.cov(draws.T)
    error = 4.5 * right.max() * np.sqrt(3.0 / number)
    np.testing.assert_allclose(found, right, atol=error)
    for wrong in (unit * np.eye(2), right / scale, unit * weights @ weights.T):
        assert np.abs(found - wrong).max() > 3 * error


def test_conformal_predictions_of_the_code_with_student_noise(monkeypatch):
    train, test = rows(80), rows(400, seed=1)
    model = recipe.learn(train, "student_t", seed=0, subsets=1)
    posterior = recipe.posterior(model, train, seed=0)
    assert posterior.report.sampler == "mala"
    drawn, scales = published.student_draws, []
    monkeypatch.setattr(published, "student_draws", lambda *args: scales.append(args[-1]) or drawn(*args))
    found = published.variants(posterior, data.Split(train, rows(400, seed=2), test), 0, model.exact_noise)
    # The correction hides the scale of the noise, so that it is looked at by itself: a variance, as in the code.
    assert scales == [model.exact_noise**2] * 2
    assert set(found) == {"published", "published_conformal"}
    # The correction on 400 rows makes up for whatever the draws lack.
    assert found["published_conformal"]["coverage"] == pytest.approx(0.95, abs=0.05)
    assert found["published_conformal"]["mae"] == pytest.approx(found["published"]["mae"], abs=0.05)


def test_an_interval_without_width_has_no_density():
    y = np.zeros(50)
    draws = np.random.default_rng(0).normal(size=(100, 50))
    # All y at the medians: the correction takes the whole interval away.
    found = published.conformal_scores(draws, np.median(draws, axis=0), draws, y)
    assert np.isnan(found["nll"])


def cells(**changed):
    """Two splits of boston with Gaussian noise, where the paper's NLL is 1.075 (0.427)."""
    good = {"nll": 1.0, "mae": 0.36, "width": 2.3}
    code = {"published": {"nll": 9.0, "mae": 0.4}, "published_conformal": {"nll": 1.2, "mae": 0.4, "width": 2.0}}
    return {f"boston-gaussian-faithful-{seed}": {**good, "code": code, **changed} for seed in range(2)}


def test_what_is_said_of_the_papers_figures():
    from reproduction.comparison import fidelity

    settings, metrics = [("boston", "gaussian")], ("nll", "mae", "width")
    assert "3 of 3 means" in fidelity.verdict(cells(), settings, metrics)
    far = fidelity.verdict(cells(nll=5.0), settings, metrics)
    assert "2 of 3 means" in far
    assert "2 of 2 splits outside; within: 1.200 conformal (two starts)" in far
    undefined = cells(nll=5.0, code={"published_conformal": {"nll": None, "mae": 0.4, "width": 2.0}})
    assert "none of" not in fidelity.verdict(undefined, settings, metrics)
    assert "within: " not in fidelity.verdict(undefined, settings, metrics)
    table = fidelity.variants(undefined, settings, metrics)
    assert "| two starts | conformal | 2 of 3 (1 undefined" in table
    assert "| two starts | sound | 2 of 3 |" in table
    none = fidelity.verdict(cells(nll=5.0, code={"published": {"nll": 9.0}}), settings, metrics)
    assert "none of 1 variants within" in none
    assert fidelity.verdict({}, settings, metrics) == ""


def test_larger_subsets_are_set_beside_the_papers():
    from reproduction.comparison import fidelity

    settings = [("wine_colour", "bernoulli")]
    found = {f"wine_colour-faithful-{seed}": {"accuracy": 80.0} for seed in range(2)}
    found |= {f"wine_colour-from_code-{seed}": {"accuracy": 85.0} for seed in range(2)}
    assert "none of 1 variants within" in fidelity.verdict(found, settings, ("accuracy",))
    assert fidelity.larger_subsets(found, settings, ("accuracy",)) == ""
    found |= {f"wine_colour-larger-{seed}": {"accuracy": 94.0} for seed in range(2)}
    assert "94.000 with a kernel from one subset of 2,000 rows" in fidelity.verdict(found, settings, ("accuracy",))
    assert "85.000 with the smaller ones" in fidelity.larger_subsets(found, settings, ("accuracy",))


@pytest.mark.slow
def test_a_kernel_from_a_subset_of_rows_is_judged(monkeypatch):
    train = data.Part(rows(120).x, (rows(120).y > 0).astype(float))
    monkeypatch.setattr(epochs, "load", lambda *_: data.Split(train, train, train))
    found = epochs.measure_larger("wine_colour", "bernoulli", seed=0, rows=80, subsets=1)
    assert found["accuracy"] > 85
    assert found["code"]["published"]["auc"] > 85
