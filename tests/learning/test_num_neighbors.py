"""Whether there are neighbours and how many, in `infer` and the estimators, and the last word on scale and noise."""

import jax
import numpy as np
import pytest
import scipy.stats

import kosambi as ko
from kosambi.estimators import _learn
from kosambi.learning import held_out_near, num_neighbors
from kosambi.learning.held_out_near import last_word_near

lk = ko.likelihoods
RNG = np.random.default_rng(0)
X = RNG.uniform(-1.0, 1.0, (300, 4))
F = np.sin(4.0 * X[:, 0]) * np.cos(3.0 * X[:, 1]) + X[:, 2] * X[:, 3]
Y = F + 0.05 * RNG.normal(size=300)
KERNEL = ko.kernels.Matern52([0.4, 0.5, 1.0, 1.0])


@pytest.fixture
def _few_rows_are_many(monkeypatch):
    for name in ("NEAR_ROWS", "NEAR_ROWS_GAUSSIAN"):
        monkeypatch.setattr(num_neighbors, name, 200)
    monkeypatch.setattr(num_neighbors, "NEAR_POINTS", 32)
    monkeypatch.setattr(_learn, "_FEW_POINTS", 8)


def test_none_for_few_rows():
    posterior = ko.infer(jax.random.key(0), KERNEL, lk.Gaussian(0.05), X, Y)
    assert posterior.target.num_neighbors is None
    assert posterior.selection.num_neighbors == 0


@pytest.mark.usefixtures("_few_rows_are_many")
def test_infer_takes_them_by_itself_and_says_so():
    posterior = ko.infer(jax.random.key(0), KERNEL, lk.Gaussian(0.05), X, Y)
    assert posterior.target.kind == "neighbors"
    assert posterior.target.num_neighbors == posterior.selection.num_neighbors == 96
    assert posterior.basis.size == posterior.selection.num_inducing == 32
    assert "96 rows nearest to an input" in str(posterior.selection)
    assert 0.0 < posterior.selection.residual_share[0] < 1.0
    assert posterior.selection.is_enough
    alternatives = {other.num_neighbors: other for other in posterior.selection.alternatives}
    assert sorted(alternatives) == [0, 48, 192]
    assert alternatives[48].cost == pytest.approx(48**2 * (32 + 48) / (96**2 * (32 + 96)))
    # Points alone predict far worse, and twice as many neighbours about as well.
    assert alternatives[0].gain < -0.1 < alternatives[192].gain < 0.1
    assert "32 points and 192 neighbours" in str(posterior.selection)


@pytest.mark.usefixtures("_few_rows_are_many")
@pytest.mark.parametrize(
    "options",
    [
        {"num_neighbors": 0},
        {"num_inducing": 20},
        {"potential": "projected"},
        {"inducing_points": X[:20]},
        {"basis": ko.PointBasis(ko.GaussianProcess(KERNEL), X[:20])},
    ],
    ids=["zero", "points", "potential", "given", "basis"],
)
def test_what_is_given_decides(options):
    prior = options["basis"].prior if "basis" in options else KERNEL
    posterior = ko.infer(jax.random.key(0), prior, lk.Gaussian(0.05), X, Y, **options)
    assert posterior.target.num_neighbors is None


def test_a_number_asks_for_them():
    posterior = ko.infer(jax.random.key(0), KERNEL, lk.Gaussian(0.05), X, Y, num_inducing=20, num_neighbors=12)
    assert (posterior.target.num_neighbors, posterior.basis.size) == (12, 20)
    with pytest.raises(ValueError, match="Leave out one"):
        ko.infer(jax.random.key(0), KERNEL, lk.Gaussian(), X, Y, num_neighbors=5, potential="optimal")
    with pytest.raises(ValueError, match='zero for none, or "auto"'):
        ko.infer(jax.random.key(0), KERNEL, lk.Gaussian(), X, Y, num_neighbors="many")
    with pytest.raises(ValueError, match="zero or more"):
        ko.infer(jax.random.key(0), KERNEL, lk.Gaussian(), X, Y, num_neighbors=-3)


def test_likelihoods_that_cannot_have_them():
    for likelihood in (lk.Poisson("square"), lk.ShiftMixture(1.0, 0.5, 1.0), lk.Categorical(3)):
        assert num_neighbors.enough_neighbors(10**5, likelihood) == 0
    assert num_neighbors.enough_neighbors(10**7, lk.Gaussian()) == num_neighbors.FEWEST
    assert num_neighbors.enough_neighbors(10**6, lk.Bernoulli()) == num_neighbors.FEWEST


@pytest.mark.slow
@pytest.mark.usefixtures("_few_rows_are_many")
def test_the_regressor_predicts_better_with_them(tmp_path):
    new = RNG.uniform(-1.0, 1.0, (100, 4))
    truth = np.sin(4.0 * new[:, 0]) * np.cos(3.0 * new[:, 1]) + new[:, 2] * new[:, 3]
    model = ko.ProjectedLangevinRegressor(kernel="matern32").fit(X, Y)
    error = float(np.sqrt(np.mean(np.square(model.predict(new) - truth))))
    assert (model.posterior_.target.num_neighbors, model.posterior_.basis.size) == (96, 32)
    assert "96 rows nearest" in str(model.posterior_.selection)
    # The same model without them.
    prior, likelihood, points = model.posterior_.prior, model.posterior_.likelihood, model.posterior_.basis
    x = model.transform_inputs(X)
    alone = ko.infer(jax.random.key(0), prior, likelihood, x, Y, inducing_points=points.inducing_points)
    found = alone.predict(model.transform_inputs(new)).mean
    assert error < 0.9 * float(np.sqrt(np.mean(np.square(found - truth))))
    model.set_params(n_neighbors=10, n_inducing=32, kernel=ko.kernels.Matern32(2.0), hyperparameters=None).fit(X, Y)
    assert (model.posterior_.target.num_neighbors, model.posterior_.basis.size) == (10, 32)
    assert model.sample_y(new[:3], n_samples=4).shape == (3, 4)
    assert model.predict(new[:3], return_cov=True)[1].shape == (3, 3)
    ko.save(model, tmp_path / "m.kosambi")
    np.testing.assert_array_equal(ko.load(tmp_path / "m.kosambi").predict(new), model.predict(new))
    assert model.certificate_.num_neighbors == 10


def test_last_word_against_dense_predictions(monkeypatch):
    monkeypatch.setattr(held_out_near, "_ROWS_AT_ONCE", 64)
    prior, held = ko.GaussianProcess(KERNEL), np.arange(3, 300, 9)
    points, weights = X[:16], np.ones(300)
    found = last_word_near(prior, 0.5, X, Y, weights, points, 300, held)
    assert found.score > found.before + 0.1
    assert 0.9 < found.square < 1.1
    assert found.noise["noise"] < 0.4
    # With all other rows as neighbours a prediction is the dense one, up to the coordinates, which are kept.
    used = np.setdiff1d(np.arange(300), held)
    gram = prior.covariance(X[used]) + 0.25 * np.eye(len(used))
    cross = prior.covariance(X[held], X[used])
    mean = cross @ np.linalg.solve(gram, Y[used])
    variance = 1.25 - np.sum(cross * np.linalg.solve(gram, cross.T).T, axis=1)
    dense = scipy.stats.norm.logpdf(Y[held], mean, np.sqrt(variance)).mean()
    assert found.before == pytest.approx(dense, abs=0.05)


@pytest.mark.usefixtures("_few_rows_are_many")
@pytest.mark.slow
def test_none_by_itself_where_most_inputs_are_replicated():
    x = np.repeat(X[:60], 5, axis=0)
    y = np.repeat(F[:60], 5) + 0.05 * RNG.normal(size=300)
    assert ko.infer(jax.random.key(0), KERNEL, lk.Gaussian(0.05), x, y).target.num_neighbors is None
    assert ko.infer(jax.random.key(0), KERNEL, lk.Gaussian(0.05), X, Y).target.num_neighbors is not None
