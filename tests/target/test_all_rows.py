"""All rows as neighbours of every input, with and without coordinates: the full process, against its dense formulas."""

import pickle
from concurrent.futures import ThreadPoolExecutor

import jax
import numpy as np
import pytest
import scipy.stats

import kosambi as ko
from kosambi import inference
from kosambi.basis import all_rows
from kosambi.basis.inducing import as_num_inducing
from kosambi.errors import InputError
from kosambi.learning import exact, num_neighbors, selection, without_points
from kosambi.learning.layout import Model, lay_out
from kosambi.learning.rows import Block
from kosambi.posterior._arviz import log_likelihoods
from kosambi.posterior.doubled import left_out_score
from kosambi.target import neighborhood

lk = ko.likelihoods
RNG = np.random.default_rng(0)
N = 60
X = RNG.uniform(-1.0, 1.0, (N, 2))
Y = np.sin(3.0 * X[:, 0]) + X[:, 1] + 0.2 * RNG.normal(size=N)
NEW = RNG.uniform(-1.2, 1.2, (7, 2))
WEIGHTS = np.where(np.arange(N) % 7, 1.0 + np.arange(N) % 3, 0.0)
PRIORS = {
    "process": ko.GaussianProcess(ko.kernels.Matern32([0.5, 0.8], 1.5), 0.3),
    "element": ko.GaussianRandomElement(ko.kernels.SquaredExponential(0.4), ko.measures.empirical(X), 0.3),
}
GAUSSIAN = lk.Gaussian(0.2)


def posterior_of(prior, size=0, weights=None, draws=50, **options):
    basis = ko.PointBasis(prior, X[:size])
    target = ko.Target(basis, GAUSSIAN, X, Y, "neighbors", weights=weights, num_neighbors=N, **options)
    return ko.Posterior(target, *ko.sample(jax.random.key(0), target, num_particles=draws))


def dense(prior, x, weights=None):
    """Mean and covariance of f at the rows of x, and the log marginal likelihood."""
    counts = np.ones(N) if weights is None else weights
    kept = counts > 0
    gram = prior.covariance(X[kept]) + np.diag(0.04 / counts[kept])
    cross = prior.covariance(x, X[kept])
    mean = 0.3 + cross @ np.linalg.solve(gram, Y[kept] - 0.3)
    evidence = scipy.stats.multivariate_normal(np.full(kept.sum(), 0.3), gram).logpdf(Y[kept])
    # Copies of one observation are one with less noise, and a factor.
    evidence += np.sum(-0.5 * (counts[kept] - 1.0) * np.log(2 * np.pi * 0.04) - 0.5 * np.log(counts[kept]))
    return mean, prior.covariance(x) - cross @ np.linalg.solve(gram, cross.T), evidence


@pytest.mark.parametrize("backend", ["cpu", "accelerator"])
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["", "weights"])
@pytest.mark.parametrize(("name", "size"), [("process", 0), ("process", 5), ("element", 0)])
def test_predictions_and_evidence_are_those_of_the_process(name, size, weights, backend, monkeypatch):
    monkeypatch.setattr(all_rows, "platform", lambda: backend)
    prior = PRIORS[name]
    posterior = posterior_of(prior, size, weights)
    mean, covariance, evidence = dense(prior, NEW, weights)
    p = posterior.predict(NEW)
    np.testing.assert_allclose(p.mean, mean, atol=1e-8)
    np.testing.assert_allclose(p.variance, np.diag(covariance), atol=1e-8)
    assert posterior.log_evidence.value == pytest.approx(evidence, abs=1e-8)
    assert posterior.basis.size == size
    assert posterior.report.converged
    assert posterior.predict(NEW[:0]).mean.shape == (0,)


@pytest.mark.parametrize(
    ("size", "number"), [(0, 3000), *(pytest.param(size, 20_000, marks=pytest.mark.slow) for size in (0, 5))]
)
def test_functions_have_the_joint_distribution_and_a_wrong_one_is_rejected(size, number):
    prior = PRIORS["process"]
    posterior = posterior_of(prior, size, draws=number)
    draws = posterior.functions(jax.random.key(1))
    mean, covariance, _ = dense(prior, NEW)

    def p_value(values):
        """Of the squared distance of all first and second moments, which is about normal for so many draws."""
        root = np.linalg.cholesky(covariance)
        z = np.linalg.solve(root, (values - mean).T)
        moments = np.concatenate([z.mean(axis=1), ((z @ z.T) / len(values) - np.eye(len(mean)))[np.tril_indices(7)]])
        variances = np.concatenate([np.ones(7), (1.0 + np.eye(7))[np.tril_indices(7)]]) / len(values)
        return scipy.stats.chi2(len(moments)).sf(np.sum(np.square(moments) / variances))

    values = draws(NEW)
    assert p_value(values) > 1e-3
    # Without the noise of the sites draws vary too little.
    plain = ko.FunctionDraws(draws.mean, draws.parts, 2, 1)
    rows = posterior.target.neighborhood
    errors = rows.location - plain(X)
    without = posterior.target.neighborhood.all_rows(posterior.basis).weighted(errors.T)
    cross = prior.covariance(NEW, X) - posterior.basis.whitened_mean(NEW) @ rows.psi.T
    assert p_value(plain(NEW) + (cross @ without).T) < 1e-12


def test_functions_are_the_same_at_every_call_and_under_jit():
    # Smooth, so that a difference quotient has digits.
    draws = posterior_of(ko.GaussianProcess(ko.kernels.SquaredExponential(0.5), 0.3)).functions(jax.random.key(1))
    values = draws(NEW)
    np.testing.assert_allclose(draws(NEW[2:4]), values[:, 2:4], atol=1e-12)
    np.testing.assert_allclose(draws[3:5](NEW), values[3:5], atol=1e-12)
    with jax.enable_x64(True):
        np.testing.assert_allclose(jax.jit(lambda x: draws[:2](x))(NEW), values[:2], atol=1e-10)
        slope = jax.jit(jax.grad(lambda x: draws[0](x)[0, 0]))(NEW[:1])
        h = np.array([[1e-5, 0.0]])
        difference = (draws[0](NEW[:1] + h) - draws[0](NEW[:1] - h))[0, 0] / 2e-5
    assert float(slope[0, 0]) == pytest.approx(difference, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("size", [0, 5])
def test_files_and_pickles_predict_the_same_and_hold_no_matrix_of_pairs(size, tmp_path):
    posterior = posterior_of(PRIORS["process"], size)
    wanted = posterior.predict(NEW)
    posterior.save(tmp_path / "run.kosambi")
    for again in (pickle.loads(pickle.dumps(posterior)), ko.load(tmp_path / "run.kosambi")):
        p = again.predict(NEW)
        assert np.array_equal(p.mean, wanted.mean)
        assert np.array_equal(p.variance, wanted.variance)
    assert len(pickle.dumps(posterior)) < 8 * N * N
    draws = posterior.functions(jax.random.key(1))
    ko.save(draws, tmp_path / "draws.kosambi")
    assert np.array_equal(ko.load(tmp_path / "draws.kosambi")(NEW), draws(NEW))


@pytest.mark.parametrize("size", [0, 5])
def test_rows_left_out_and_one_after_the_other_by_brute_force(size):
    prior = PRIORS["process"]
    posterior = posterior_of(prior, size, draws=4)
    target, rows = posterior.target, np.array([0, 7, 31])
    gram, w = prior.covariance(X) + 0.04 * np.eye(N), np.asarray(posterior.particles.whitened)
    psi = np.asarray(posterior.basis.whitened_mean(X))
    left = prior.covariance(X) - psi @ psi.T
    found = target.neighborhood.left_out(posterior.basis, rows)
    for place, row in enumerate(rows):
        others = np.delete(np.arange(N), row)
        weights = np.linalg.solve(left[np.ix_(others, others)] + 0.04 * np.eye(N - 1), left[others, row])
        assert found.variance[place] == pytest.approx(left[row, row] - weights @ left[others, row], abs=1e-10)
        mean = 0.3 + psi[row] @ w[0] + weights @ (Y[others] - 0.3 - psi[others] @ w[0])
        assert found.offset[place] + found.psi[place] @ w[0] == pytest.approx(mean, abs=1e-10)
    if not size:
        inverse = np.linalg.inv(gram)
        alpha, level = inverse @ (Y - 0.3), np.diag(inverse)
        score = np.mean(scipy.stats.norm(Y - alpha / level, 1.0 / np.sqrt(level)).logpdf(Y)[rows])
        assert left_out_score(target, w, rows, N) == pytest.approx(score, abs=1e-10)
    # Each given those before it: together they are the density of all, given w.
    potential = np.asarray(target.potential(posterior.particles.coordinates))
    total = np.sum(log_likelihoods(target, posterior.particles), axis=1)
    np.testing.assert_allclose(total, 0.5 * np.sum(w**2, axis=1) - potential, atol=1e-8)


def test_a_site_that_says_nothing_is_no_different_when_it_is_left_out():
    posterior = posterior_of(PRIORS["process"], weights=WEIGHTS)
    given = posterior.target.neighborhood.left_out(posterior.basis, np.array([0, 1]))
    mean, covariance, _ = dense(PRIORS["process"], X[:1], WEIGHTS)
    faint = posterior_of(PRIORS["process"], weights=np.where(WEIGHTS > 0, WEIGHTS, 1e-17))
    other = faint.target.neighborhood.left_out(faint.basis, np.array([0, 1]))
    np.testing.assert_allclose(other.variance, given.variance, atol=1e-9)
    assert np.all(faint.target.neighborhood.one_after_the_other(faint.basis).variance[WEIGHTS == 0] > 0.1)
    assert given.offset[0] == pytest.approx(mean[0], abs=1e-9)
    assert given.variance[0] == pytest.approx(covariance[0, 0], abs=1e-9)


def test_the_certificate_says_what_it_is_and_arviz_takes_it():
    posterior = posterior_of(PRIORS["process"])
    certificate = posterior.certificate()
    assert "full posterior" in str(certificate)
    assert certificate.divergence == 0.0
    assert certificate.num_compared == certificate.num_neighbors == N
    assert [number for number, _ in certificate.scores] == [0, N]
    pytest.importorskip("arviz")
    assert posterior.to_arviz()["log_likelihood"]["y"].shape == (2, 25, N)


@pytest.mark.parametrize(
    ("likelihood", "y"),
    [
        (GAUSSIAN, Y),
        (lk.Bernoulli(), (Y > 0.3).astype(float)),
        pytest.param(lk.StudentT(4.0, 0.2), Y, marks=pytest.mark.slow),
    ],
    ids=["gaussian", "labels", "heavy"],
)
@pytest.mark.parametrize("number", [12, pytest.param(N, marks=pytest.mark.slow)])
def test_without_coordinates_neighbors_say_everything(likelihood, y, number):
    prior = PRIORS["process"]
    posterior = ko.infer(jax.random.key(0), prior, likelihood, X, y, num_inducing=0, num_neighbors=number)
    assert (posterior.basis.size, posterior.report.sampler, posterior.report.r_hat) == (0, "exact", 1.0)
    p = posterior.predict(NEW)
    beside = ko.infer(
        jax.random.key(0), prior, likelihood, X, y, num_inducing=20, num_neighbors=number, num_particles=400
    ).predict(NEW)
    # Other coordinates, the same model.
    assert np.max(np.abs(p.mean - beside.mean) / beside.standard_deviation) < 0.5
    assert np.max(np.abs(np.log(p.standard_deviation / beside.standard_deviation))) < 0.3
    assert np.isfinite(posterior.log_evidence.value)
    assert posterior.functions(jax.random.key(1))(NEW).shape == (100, 7)


def test_nothing_to_draw_and_nothing_to_say_are_refused():
    prior, key = PRIORS["process"], jax.random.key(0)
    with pytest.raises(InputError, match="leaves everything to neighbours: say how many"):
        ko.infer(key, prior, GAUSSIAN, X, Y, num_inducing=0)
    with pytest.raises(InputError, match="no coordinates"):
        ko.infer(key, prior, GAUSSIAN, X, Y, num_inducing=0, num_neighbors=5, sampler="mala")
    for options in ({}, {"potential": "optimal"}, {"potential": "neighbors", "num_neighbors": 0}):
        with pytest.raises(InputError, match="nothing would see the data"):
            ko.Target(ko.PointBasis(prior, X[:0]), GAUSSIAN, X, Y, **options)
    with pytest.raises(InputError, match="nothing would see the data"):
        ko.infer(key, prior, GAUSSIAN, X, Y, num_inducing=0, potential="neighbors", num_neighbors=0)
    with pytest.raises(InputError, match='needs `basis="point"`'):
        ko.infer(key, PRIORS["element"], GAUSSIAN, X, Y, num_inducing=0, num_neighbors=5, basis="nystrom")
    assert ko.infer(key, PRIORS["element"], GAUSSIAN, X, Y, num_inducing=0, num_neighbors=5).basis.size == 0
    assert as_num_inducing("num_inducing", np.int64(0), allow_none=True) == 0


def test_the_evidence_of_sites_is_not_called_exact():
    labels = (Y > 0.3).astype(float)
    posterior = ko.infer(
        jax.random.key(0), PRIORS["process"], lk.Bernoulli(), X, labels, num_inducing=0, num_neighbors=N
    )
    assert posterior.log_evidence.method == "sites"
    assert np.isnan(posterior.log_evidence.standard_error)


def test_threads_wait_for_one_factor_and_factors_make_room(monkeypatch):
    made = []
    monkeypatch.setattr(neighborhood, "AllRows", lambda *given: made.append(1) or all_rows.AllRows(*given))
    posteriors = [posterior_of(PRIORS["process"]) for _ in range(3)]
    assert len(made) == 3
    again = pickle.loads(pickle.dumps(posteriors[0]))
    with ThreadPoolExecutor(8) as pool:
        means = list(pool.map(lambda _: again.predict(NEW).mean, range(16)))
    assert all(np.array_equal(mean, means[0]) for mean in means)
    assert len(made) == 4
    for posterior in posteriors:
        posterior.predict(NEW)
    assert len(made) == 4
    # Room for one of them only.
    monkeypatch.setattr(neighborhood, "largest_process", lambda: 2 * N)
    other = pickle.loads(pickle.dumps(again))
    for posterior in (other, again, other):
        posterior.predict(NEW)
    assert len(made) == 7


def test_copies_of_rows_have_a_point_each_and_not_all_pairs(monkeypatch):
    monkeypatch.setattr(num_neighbors, "PROCESS_FROM", 40)
    x, y = np.repeat(X[:20], 3, axis=0), Y
    posterior = inference.infer(jax.random.key(0), PRIORS["process"], GAUSSIAN, x, y, num_inducing="all")
    assert (posterior.basis.size, posterior.target.neighborhood) == (20, None)
    # A sampler that was asked for has something to draw.
    posterior = inference.infer(
        jax.random.key(0), PRIORS["process"], GAUSSIAN, X, Y, num_inducing="all", sampler="mala", num_particles=20
    )
    assert (posterior.basis.size, posterior.report.sampler) == (N, "mala")


def test_more_rows_than_fit_are_refused_with_the_remedy(monkeypatch):
    monkeypatch.setattr(all_rows, "_host_bytes", lambda: 16 * 50**2)
    with pytest.raises(InputError, match=r'memory for 50 rows\. Leave the number of inducing points .* "auto"'):
        posterior_of(PRIORS["process"])


@pytest.mark.parametrize("asked", ["all", "auto"])
def test_it_is_taken_where_many_points_are_not_enough(asked, monkeypatch):
    monkeypatch.setattr(num_neighbors, "PROCESS_FROM", 40)
    for name, value in (("FULL_FROM", 8), ("_FIRST", 8)):
        monkeypatch.setattr(selection, name, value)
    rough = ko.GaussianProcess(ko.kernels.Matern32(0.2))
    posterior = inference.infer(jax.random.key(0), rough, GAUSSIAN, X, Y, num_inducing=asked)
    assert (posterior.basis.size, posterior.target.num_neighbors) == (0, N)
    assert posterior.selection.reason == "process"
    assert "No inducing points: all 60 rows inform every input" in str(posterior.selection)
    assert "0 (taken)" in posterior.selection._repr_html_()
    # Where something else was asked for, a point for each row it is.
    other = inference.infer(jax.random.key(0), rough, GAUSSIAN, X, Y, num_inducing="all", potential="projected")
    assert other.basis.size == N
    np.testing.assert_allclose(posterior.predict(NEW).mean, other.predict(NEW).mean, atol=1e-6)


@pytest.mark.slow
def test_the_estimator_takes_it_and_no_points_may_be_asked_for(monkeypatch):
    monkeypatch.setattr(num_neighbors, "PROCESS_FROM", 40)
    model = ko.ProjectedLangevinRegressor(n_inducing="all").fit(X, Y)
    assert (model.posterior_.basis.size, model.posterior_.target.num_neighbors) == (0, N)
    near = ko.ProjectedLangevinRegressor(n_inducing=0, n_neighbors=20).fit(X, Y)
    assert (near.posterior_.basis.size, near.posterior_.target.num_neighbors) == (0, 20)
    assert np.mean(np.square(near.predict(X) - model.predict(X))) < 0.01
    with pytest.raises(InputError, match="`n_inducing` must be at least 1"):
        ko.ProjectedLangevinRegressor(n_inducing=0).fit(X, Y)


@pytest.mark.slow
def test_page_and_pictures_say_that_there_are_no_points(monkeypatch):
    monkeypatch.setattr(num_neighbors, "PROCESS_FROM", 40)
    model = ko.ProjectedLangevinRegressor(n_inducing="all", n_samples=20).fit(X, Y)
    text = ko.page.render(model, X[:30], Y[:30])
    assert "All rows inform every input directly" in text
    assert "neighbours say everything" in text
    for draw, said in ((ko.plots.spectrum, "no coordinates"), (ko.plots.selection, "all rows were taken at once")):
        with pytest.raises(InputError, match=said):
            draw(model.posterior_)
    tried = num_neighbors.of_all_rows(N, 1.0, ko.select_inducing(PRIORS["process"], GAUSSIAN, X, Y))
    assert ko.plots.selection(tried).get_legend_handles_labels()[1] == ["0: process"]


def test_an_accelerator_takes_all_rows_that_fit(monkeypatch):
    monkeypatch.setattr(num_neighbors, "platform", lambda: "gpu")
    monkeypatch.setattr(num_neighbors, "largest_process", lambda: 46_000)
    assert num_neighbors.enough_neighbors(36_000, GAUSSIAN) == 36_000
    assert num_neighbors.near_points(36_000, GAUSSIAN) == 0
    assert num_neighbors.enough_neighbors(50_000, GAUSSIAN) == num_neighbors.enough_neighbors(36_000 + 14_000, GAUSSIAN)
    assert num_neighbors.enough_neighbors(50_000, GAUSSIAN) < 100
    assert num_neighbors.enough_neighbors(36_000, lk.Bernoulli()) < 100


def test_exact_evidence_on_an_accelerator_is_that_of_the_host():
    kernel = ko.kernels.Matern52(np.ones(2))
    model = Model(kernel, np.asarray(0.3), lk.Gaussian(0.2))
    layout = lay_out(model, [])
    with jax.enable_x64(True):
        host = exact.ExactEvaluator(layout, model, ko.GaussianProcess(kernel), [Block(X, Y, WEIGHTS, GAUSSIAN)])
        vector = layout.vector(model)
        value, slope = host(vector)
        found = exact._on_device(layout, vector, host._given[0], host._prior, X, Y, WEIGHTS, np.zeros(()))
    assert -float(found[0]) == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(-np.asarray(found[1]), slope, rtol=1e-9, atol=1e-9)


@pytest.mark.slow
def test_many_rows_choose_the_family_on_an_accelerator(monkeypatch):
    for name, value in (("EXACT_ROWS", 100), ("EXACT_BLOCK", 50), ("EXACT_BLOCKS", 2), ("DEVICE_ROWS", 500)):
        monkeypatch.setattr(without_points, name, value)
    monkeypatch.setattr(without_points, "platform", lambda: "gpu")
    monkeypatch.setattr(without_points, "refined", lambda task, prior, found: found)
    rng = np.random.default_rng(3)
    x = rng.uniform(-1.0, 1.0, (500, 1))
    rough = ko.GaussianProcess(ko.kernels.Matern32(0.5)).covariance(x) + 1e-10 * np.eye(500)
    y = np.linalg.cholesky(rough) @ rng.normal(size=500) + 0.02 * rng.normal(size=500)
    kernel, noise, report = ko.fit_hyperparameters(
        jax.random.key(0), ko.kernels.SquaredExponential(), lk.Gaussian(), x, y, choose_family=True
    )
    assert isinstance(kernel, ko.kernels.Matern32)
    assert (report.strategy, report.num_rows, report.is_exact, report.converged) == ("exact", 500, True, True)
    assert 0.015 < float(noise.noise) < 0.025


def test_a_search_on_an_accelerator_that_finds_nothing_changes_nothing(monkeypatch):
    for name, value in (("EXACT_ROWS", 30), ("EXACT_BLOCK", 20), ("EXACT_BLOCKS", 2), ("DEVICE_ROWS", 50)):
        monkeypatch.setattr(without_points, name, value)
    monkeypatch.setattr(without_points, "platform", lambda: "gpu")
    monkeypatch.setattr(without_points, "refined", lambda task, prior, found: found)
    whole = exact.ExactEvaluator._block

    def fails(self, number, vector):
        return (-np.inf, np.full(len(vector), np.nan)) if len(self._blocks[0].y) == 50 else whole(self, number, vector)

    monkeypatch.setattr(exact.ExactEvaluator, "_block", fails)
    _, _, report = ko.fit_hyperparameters(jax.random.key(0), ko.kernels.Matern52(), lk.Gaussian(), X, Y)
    assert (report.num_rows, report.is_exact) == (40, False)
    assert np.isfinite(report.log_evidence)
