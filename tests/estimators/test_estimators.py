"""The estimators against the posteriors they are made of, closed forms, and data with known answers."""

from __future__ import annotations

import pickle

import jax
import numpy as np
import pytest
from scipy import stats

import kosambi as ko
from kosambi import ProjectedLangevinClassifier, ProjectedLangevinRegressor
from kosambi._core.programs import bucket
from kosambi.estimators._rows import location_and_scale, merged, padded
from tests.cases import cases

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 2)) * [1.0, 100.0] + [0.0, 1e4]
F = np.sin(2.0 * X[:, 0])
Y = 500.0 + 30.0 * F + 3.0 * RNG.normal(size=60)
COUNTS = RNG.poisson(np.exp(1.0 + F)).astype(float)
LABELS = np.where(F + 0.3 * RNG.normal(size=60) > 0, "up", "down")
THREE = np.digitize(F, [-0.5, 0.5])


@pytest.fixture(scope="module")
def gaussian():
    # Averages over hyperparameters are looked at in `test_averages`.
    return ProjectedLangevinRegressor(hyperparameters="evidence").fit(X, Y)


@pytest.fixture(scope="module")
def labels():
    return ProjectedLangevinClassifier(hyperparameters="evidence").fit(X, LABELS)


@pytest.fixture(scope="module")
def counts():
    return ProjectedLangevinRegressor("poisson", hyperparameters="evidence").fit(X, COUNTS)


def test_predictions_are_those_of_an_exact_process_in_the_units_of_the_data(gaussian):
    posterior = gaussian.posterior_
    kernel, noise = posterior.prior.kernel, float(posterior.likelihood.noise)
    z = (X - X.mean(axis=0)) / X.std(axis=0)
    new = z[:5] + 0.3
    gram = np.asarray(kernel(z, z)) + noise**2 * np.eye(60)
    cross = np.asarray(kernel(new, z))
    mean = Y.mean() + cross @ np.linalg.solve(gram, Y - Y.mean())
    covariance = np.asarray(kernel(new, new)) - cross @ np.linalg.solve(gram, cross.T) + noise**2 * np.eye(5)
    raw = new * X.std(axis=0) + X.mean(axis=0)
    got, deviation = gaussian.predict(raw, return_std=True)
    # What the inducing points leave out: the choice of their number allows 0.015 nats an observation.
    np.testing.assert_allclose(got, mean, atol=0.2 * np.sqrt(np.diag(covariance)).min())
    np.testing.assert_allclose(deviation, np.sqrt(np.diag(covariance)), rtol=0.1)
    _, joint = gaussian.predict(raw, return_cov=True)
    np.testing.assert_allclose(joint, covariance, atol=0.1 * covariance.max())
    density = gaussian.predict_log_density(raw, mean)
    np.testing.assert_allclose(density, stats.norm.logpdf(mean, got, deviation), rtol=1e-9)
    lower, upper = gaussian.predict_interval(raw, 0.9)
    np.testing.assert_allclose(upper - lower, 2 * stats.norm.ppf(0.95) * deviation, rtol=1e-8)


def test_all_inducing_points_give_the_exact_process():
    model = ProjectedLangevinRegressor(n_inducing=60, hyperparameters="evidence").fit(X, Y)
    kernel, noise = model.posterior_.prior.kernel, float(model.posterior_.likelihood.noise)
    z = model.transform_inputs(X)
    gram = np.asarray(kernel(z, z))
    weights = np.linalg.solve(gram + noise**2 * np.eye(60), Y - Y.mean())
    np.testing.assert_allclose(model.predict(X), Y.mean() + gram @ weights, rtol=1e-6)
    spread = gram - gram @ np.linalg.solve(gram + noise**2 * np.eye(60), gram) + noise**2 * np.eye(60)
    # A difference of numbers as large as the prior variance; the basis leaves out directions with 1e-8 of it.
    np.testing.assert_allclose(model.predict(X, return_cov=True)[1], spread, atol=1e-6 * gram.max())


def test_units_of_inputs_and_target_do_not_matter(gaussian):
    other = ProjectedLangevinRegressor(hyperparameters="evidence").fit(X * [1e-6, 10.0] - 3.0, 1e-9 * Y)
    np.testing.assert_allclose(other.predict(X * [1e-6, 10.0] - 3.0), 1e-9 * gaussian.predict(X), rtol=1e-3)


# Rows observed twice with the same noise say that there is none.
@pytest.mark.filterwarnings("ignore:likelihood.noise ended at a bound")
def test_order_repetitions_and_zero_weights_do_not_matter(gaussian):
    order = np.random.default_rng(1).permutation(60)
    again = ProjectedLangevinRegressor(hyperparameters="evidence").fit(X[order], Y[order])
    np.testing.assert_array_equal(again.predict(X), gaussian.predict(X))
    weights = np.random.default_rng(2).integers(0, 3, 60)
    repeated = ProjectedLangevinRegressor(hyperparameters="evidence").fit(
        np.repeat(X, weights, axis=0), np.repeat(Y, weights)
    )
    weighted = ProjectedLangevinRegressor(hyperparameters="evidence").fit(X, Y, sample_weight=weights)
    np.testing.assert_array_equal(weighted.predict(X), repeated.predict(X))
    assert not np.allclose(weighted.predict(X), gaussian.predict(X), rtol=1e-4)


def test_a_second_fit_of_about_the_same_size_compiles_no_sampler(labels):
    # The number of inducing points is a shape too; "auto" rounds it up to a power of two.
    same = ProjectedLangevinClassifier(hyperparameters="evidence").fit(X[2:], LABELS[2:])
    assert same.posterior_.basis.size == labels.posterior_.basis.size
    assert same.fit_report_.compile_seconds < 0.1 * labels.fit_report_.compile_seconds
    assert same.report_.compile_seconds < 0.1 * labels.report_.compile_seconds
    assert bucket(58) == bucket(60)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["student_t", "negative_binomial", "gamma"])
def test_other_likelihoods_by_name(name):
    y = {"student_t": Y, "negative_binomial": COUNTS, "gamma": np.exp(F)}[name]
    model = ProjectedLangevinRegressor(name, n_inducing=16, hyperparameters=None).fit(X, y)
    assert np.corrcoef(model.predict(X), y)[0, 1] > 0.7
    density = model.predict_log_density(X, y)
    assert density.shape == (60,)
    assert np.all(np.isfinite(density))
    lower, upper = model.predict_interval(X, 0.8)
    assert np.all(lower <= upper)
    assert 0.6 < np.mean((lower <= y) & (y <= upper)) <= 1.0
    drawn = model.sample_y(X, 40, random_state=1)
    assert drawn.shape == (60, 40)
    assert np.mean((lower[:, None] <= drawn) & (drawn <= upper[:, None])) > 0.7


GIVEN = {
    "Gaussian": ko.likelihoods.Gaussian(noise=2.5),
    "StudentT": ko.likelihoods.StudentT(degrees_of_freedom=5.0, scale=2.5),
}


@pytest.mark.parametrize("name", cases(GIVEN, quick=["Gaussian"]))
def test_a_likelihood_object_is_in_the_units_of_y(name):
    model = ProjectedLangevinRegressor(GIVEN[name], n_inducing=16, hyperparameters=None).fit(X, Y)
    found = model.posterior_.likelihood
    assert float(found.noise if name == "Gaussian" else found.scale) == pytest.approx(2.5)
    assert name == "Gaussian" or float(found.degrees_of_freedom) == 5.0
    assert float(np.asarray(model.posterior_.prior.mean)) == pytest.approx(Y.mean())


def test_noise_that_varies_has_units_of_its_own():
    model = ko.likelihoods.HeteroscedasticGaussian(location=7.0, scale=2.0)
    f = np.array([[0.3, -0.5], [1.0, 0.2]])
    y = np.array([6.0, 9.5])
    expected = stats.norm.logpdf(y, 7.0 + 2.0 * f[:, 0], 2.0 * np.exp(f[:, 1]))
    np.testing.assert_allclose(-model.cost(y, f), expected, rtol=1e-12)
    np.testing.assert_allclose(model.observation_mean(f), 7.0 + 2.0 * f[:, 0])
    np.testing.assert_allclose(model.observation_variance(f), 4.0 * np.exp(2.0 * f[:, 1]))
    with jax.enable_x64(True):
        slope = jax.vmap(jax.grad(lambda f, y: model.raw_cost(y, f)))(f, y)
    np.testing.assert_allclose(model.derivative(y, f), slope, rtol=1e-12)


def test_counts_are_predicted_by_their_law(counts):
    prediction = counts.predict_distribution(X[:4])
    np.testing.assert_array_equal(counts.predict(X[:4]), prediction.observation_mean)
    np.testing.assert_allclose(counts.predict_log_density(X[:4], COUNTS[:4]), prediction.log_density(COUNTS[:4]))
    mean, covariance = counts.predict(X[:4], return_cov=True)
    np.testing.assert_allclose(np.diag(covariance), prediction.observation_variance)
    f = counts.sample_functions(X[:4], 100)
    np.testing.assert_allclose(mean, np.exp(f).mean(axis=1), rtol=0.2)
    assert np.all(np.linalg.eigvalsh(covariance) > 0)


def test_probabilities_labels_and_intervals(labels):
    table = labels.predict_proba(X)
    assert labels.classes_.tolist() == ["down", "up"]
    np.testing.assert_allclose(table.sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_array_equal(labels.predict(X), np.where(table[:, 1] > 0.5, "up", "down"))
    chosen = np.where(LABELS == "up", table[:, 1], table[:, 0])
    np.testing.assert_allclose(labels.predict_log_density(X, LABELS), np.log(chosen), rtol=1e-9)
    lower, upper = labels.predict_interval(X, 0.9)
    assert np.all((lower <= table) & (table <= upper))
    assert labels.predict_log_density(X[:1], ["sideways"])[0] == -np.inf
    drawn = labels.sample_y(X, 200, random_state=3)
    share = np.mean(drawn == "up", axis=1)
    # Each share is an average over 200 functions and labels.
    assert np.max(np.abs(share - table[:, 1])) < 5.0 * 0.5 / np.sqrt(100)


@pytest.mark.slow
def test_several_classes():
    model = ProjectedLangevinClassifier(hyperparameters="evidence").fit(X, THREE)
    table = model.predict_proba(X)
    assert model.score(X, THREE) > 0.9
    lower, upper = model.predict_interval(X[:3], 0.9)
    assert lower.shape == (3, 3)
    assert np.all((lower <= table[:3] + 0.02) & (table[:3] <= upper + 0.02))
    assert model.sample_functions(X[:4], 5).shape == (4, 5, 3)
    assert set(np.unique(model.sample_y(X, 5))) <= {0, 1, 2}


def test_functions_are_the_same_at_every_call(gaussian):
    some, all_rows = gaussian.sample_functions(X[:3], 7), gaussian.sample_functions(X, 7)
    np.testing.assert_allclose(some, all_rows[:3], rtol=1e-9)
    assert gaussian.sample_functions(X[:3], 250).shape == (3, 250)
    assert not np.allclose(some, gaussian.sample_functions(X[:3], 7, random_state=1))
    many = gaussian.sample_functions(X[:3], 2000, random_state=4)
    prediction = gaussian.predict_distribution(X[:3])
    np.testing.assert_allclose(many.mean(axis=1), prediction.mean, atol=5 * np.sqrt(prediction.variance / 100).max())


def test_pickle_and_files_keep_every_bit_with_the_switch_off_and_on(gaussian, labels, x64, tmp_path):
    for model in (gaussian, labels):
        expected = model.predict_proba(X) if model is labels else np.stack(model.predict(X, return_std=True))
        ko.save(model, tmp_path / "model.kosambi")
        for again in (pickle.loads(pickle.dumps(model)), ko.load(tmp_path / "model.kosambi")):
            got = again.predict_proba(X) if model is labels else np.stack(again.predict(X, return_std=True))
            np.testing.assert_array_equal(got, expected)
            assert again.get_params() == model.get_params()
            np.testing.assert_array_equal(
                again.posterior_.particles.coordinates, model.posterior_.particles.coordinates
            )
    assert ko.load(tmp_path / "model.kosambi").classes_.dtype == labels.classes_.dtype


def test_what_a_fit_leaves_behind(gaussian, labels):
    assert gaussian.report_.converged
    assert gaussian.fit_report_.converged
    assert gaussian.posterior_.target.x.shape == (60, 2)
    assert gaussian.certificate_ is gaussian.certificate_
    assert labels.certificate_.divergence < 1.0
    assert gaussian.posterior_.selection.num_inducing == gaussian.posterior_.basis.report.num_inducing


def test_seeds():
    models = [ProjectedLangevinRegressor(n_inducing=8, hyperparameters=None, random_state=s) for s in (0, 0, 1)]
    first, same, other = (model.fit(X, Y).posterior_.particles.coordinates for model in models)
    np.testing.assert_array_equal(first, same)
    assert not np.allclose(first, other)


def test_hyperparameters_can_be_kept_and_a_kernel_given():
    kernel = ko.kernels.SquaredExponential(lengthscale=[0.7, 5.0], variance=1.5)
    model = ProjectedLangevinRegressor(kernel=kernel, n_inducing=20, hyperparameters=None).fit(X, Y)
    assert model.fit_report_ is None
    np.testing.assert_array_equal(model.posterior_.prior.kernel.lengthscale, kernel.lengthscale)
    assert float(model.posterior_.prior.kernel.variance) == pytest.approx(1.5)
    assert kernel.variance == 1.5


def test_targets_that_do_not_vary_are_said_to_teach_nothing():
    with pytest.warns(ko.errors.HyperparameterWarning, match="stay as they are"):
        model = ProjectedLangevinRegressor(n_inducing=5).fit(X, np.full(60, 3.0))
    np.testing.assert_allclose(model.predict(X), 3.0)


def test_more_inducing_points_than_rows_are_cut():
    with pytest.warns(ko.errors.TruncationWarning, match="60 are used"):
        model = ProjectedLangevinRegressor(n_inducing=100, hyperparameters=None).fit(X, Y)
    assert model.posterior_.basis.size <= 60


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"likelihood": "normal"}, '`likelihood` must be one of .*"gaussian"'),
        ({"likelihood": ko.likelihoods.Bernoulli()}, "ProjectedLangevinClassifier"),
        ({"likelihood": ko.likelihoods.Gaussian(np.ones(60))}, "one noise for each observation"),
        ({"kernel": "cubic"}, "`kernel` must be a kernel"),
        ({"n_inducing": "many"}, '`n_inducing` must be a whole number, "all", "auto" or None'),
        ({"n_inducing": 0}, "`n_inducing` must be at least 1"),
        ({"n_samples": 1.5}, "`n_samples` must be a whole number"),
        ({"hyperparameters": "mcmc"}, "`hyperparameters` must be"),
        ({"random_state": "seed"}, "`random_state` must be"),
    ],
)
def test_bad_input_settings(settings, text):
    with pytest.raises(ko.errors.InputError, match=text):
        ProjectedLangevinRegressor(**settings).fit(X, Y)


def test_bad_input_data(gaussian):
    with pytest.raises(ko.errors.InputError, match="needs y to be counts"):
        ProjectedLangevinRegressor("poisson").fit(X, -COUNTS - 1.0)
    with pytest.raises(ko.errors.InputError, match="one class only, 'up'"):
        ProjectedLangevinClassifier().fit(X, ["up"] * 60)
    # scikit-learn says so itself from version 1.8 on.
    with pytest.raises(ValueError, match="zero"):
        ProjectedLangevinRegressor().fit(X, Y, sample_weight=np.zeros(60))
    with pytest.raises(ValueError, match="3 features"):
        gaussian.predict(np.ones((2, 3)))
    with pytest.raises(ko.errors.InputError, match="cannot both"):
        gaussian.predict(X, return_std=True, return_cov=True)
    with pytest.raises(ko.errors.InputError, match="has not been fitted"):
        ko.save(ProjectedLangevinRegressor(), "nowhere.kosambi")


def test_rows_are_merged_and_filled_up():
    x = np.array([[1.0], [0.0], [1.0], [-0.0], [2.0]])
    rows = merged(x, np.zeros(5), np.array([1.0, 2.0, 0.5, 1.0, 0.0]))
    np.testing.assert_array_equal(rows.x[:, 0], [0.0, 1.0])
    np.testing.assert_array_equal(rows.weights, [3.0, 1.5])
    filled = padded(rows)
    assert filled.x.shape == (32, 1)
    assert filled.weights.sum() == rows.weights.sum()
    mean, scale = location_and_scale(np.array([[1.0, 7.0], [3.0, 7.0]]), np.array([3.0, 1.0]))
    np.testing.assert_allclose(mean, [1.5, 7.0])
    np.testing.assert_allclose(scale, [np.sqrt(0.75), 1.0])


def test_no_key_is_used_twice():
    from kosambi.estimators._base import COVARIANCE, FUNCTIONS, OBSERVATIONS, random_key

    keys = [random_key(0), *(random_key(0, purpose) for purpose in (FUNCTIONS, OBSERVATIONS, COVARIANCE))]
    made = [np.asarray(jax.random.key_data(part)).tolist() for key in keys for part in (key, *jax.random.split(key, 4))]
    assert len({tuple(part) for part in made}) == len(made)
