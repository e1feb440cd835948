"""Rows as a stream give what the same rows in memory give, for any blocks; and say what they did."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import kosambi as ko
from kosambi.basis import points
from kosambi.errors import InputError
from kosambi.sources import ArraySource, BlockSource, Stream, memory
from kosambi.target import normal_sums, stream, stream_newton
from kosambi.target.corrected_term import CorrectedTerm
from kosambi.target.normal_sums import GramSum, RootSum
from kosambi.target.stream_newton import StreamPotential

RNG = np.random.default_rng(3)
N = 1500
X = RNG.normal(size=(N, 2))
F = 1.5 * np.sin(2.0 * X[:, 0]) + X[:, 1]
WEIGHTS = RNG.integers(0, 3, size=N).astype(float)
NEW = RNG.normal(size=(20, 2))
PRIOR = ko.GaussianProcess(ko.kernels.Matern52(lengthscale=[1.0, 2.0]), mean=0.3)
BASIS = ko.PointBasis(PRIOR, X[:12])
KEY = jax.random.key(0)
DATA = {
    "gaussian": (ko.likelihoods.Gaussian(0.3), F + 0.3 * RNG.normal(size=N)),
    "bernoulli": (ko.likelihoods.Bernoulli(), (RNG.uniform(size=N) < 1.0 / (1.0 + np.exp(-F))).astype(float)),
    "student_t": (ko.likelihoods.StudentT(4.0, 0.3), F + 0.3 * RNG.standard_t(4.0, size=N)),
    "categorical": (ko.likelihoods.Categorical(3), np.digitize(F + RNG.logistic(size=N), [-1.0, 1.0]).astype(float)),
}


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of 256 rows and a sample of 400."""
    monkeypatch.setattr(memory, "AT_ONCE", 256)
    monkeypatch.setattr(memory, "MOST_SAMPLED", 512)


def streamed(name, potential="projected", **options):
    likelihood, y = DATA[name]
    source = ArraySource(X, y, WEIGHTS)
    return ko.infer(KEY, PRIOR, likelihood, source, basis=BASIS, potential=potential, **options)


def in_memory(name, potential="projected", **options):
    likelihood, y = DATA[name]
    return ko.infer(KEY, PRIOR, likelihood, X, y, weights=WEIGHTS, basis=BASIS, potential=potential, **options)


@pytest.mark.parametrize("potential", ["projected", "optimal"])
@pytest.mark.parametrize("largest", [1e8, 0.0])
def test_gaussian_noise_gives_the_posterior_of_all_rows(small_blocks, monkeypatch, potential, largest):
    """From the normal matrix, and from its factor."""
    monkeypatch.setattr(stream, "LARGEST_TRACE", largest)
    many, all_rows = streamed("gaussian", potential), in_memory("gaussian", potential)
    assert many.report.stream.block_rows == 256
    assert len(many.target.y) == 512
    a, b = many.predict(NEW), all_rows.predict(NEW)
    np.testing.assert_allclose(a.mean, b.mean, atol=1e-10)
    np.testing.assert_allclose(a.variance, b.variance, rtol=1e-8)
    assert many.log_evidence.value == pytest.approx(all_rows.log_evidence.value, abs=1e-8)
    assert (many.report.converged, many.report.stream.passes, many.target.num_rows) == (True, 2, N)


def test_the_certificate_of_gaussian_noise_is_that_of_all_rows(small_blocks):
    likelihood, y = DATA["gaussian"]
    many = ko.infer(KEY, PRIOR, likelihood, ArraySource(X, y), basis=BASIS)
    all_rows = ko.infer(KEY, PRIOR, likelihood, X, y, basis=BASIS)
    a, b = many.certificate(), all_rows.certificate()
    assert a.full_bound == pytest.approx(b.full_bound, rel=1e-8)
    assert a.residual_share == pytest.approx(b.residual_share, rel=1e-8)
    assert many.explained_variance == pytest.approx(all_rows.explained_variance, rel=1e-8)
    assert a.remainder == pytest.approx(b.remainder, rel=1e-8)
    assert "a sample of 512 of 1,500 rows" in str(a)


def potentials(name, potential, block_rows=256):
    """V of all rows from a stream and from memory, at the same places."""
    likelihood, y = DATA[name]
    target = ko.Target(BASIS, likelihood, X, y, potential, weights=WEIGHTS)
    rows = ko.sources.Stream(ArraySource(X, y, WEIGHTS))
    whole = StreamPotential(BASIS, likelihood, rows, block_rows, target.term.rule)
    return whole, target, 0.3 * RNG.normal(size=(3, int(np.prod(target.shape))))


@pytest.mark.parametrize(
    ("name", "potential"),
    [
        ("bernoulli", "optimal"),
        pytest.param("student_t", "projected", marks=pytest.mark.slow),
        ("categorical", "projected"),
    ],
)
def test_sums_over_a_stream_are_those_in_memory_for_any_blocks(name, potential):
    for block_rows in (128, 1024):
        whole, target, w = potentials(name, potential, block_rows)
        u = target.basis.colour(w) if len(target.shape) == 1 else None
        shaped = w.reshape(3, *target.shape)
        with jax.enable_x64(True):
            right, slopes = (np.asarray(part) for part in target.whitened_value_and_gradient(shaped))
            hessian = np.asarray(target.term.hessian(shaped[0]))
        np.testing.assert_allclose(whole.values(w), right, rtol=1e-11)
        value, slope = whole.values_and_gradients(w)
        np.testing.assert_allclose(value, right, rtol=1e-11)
        np.testing.assert_allclose(slope, slopes.reshape(3, -1), atol=1e-8)
        here = whole.derivatives(w[0])
        assert here.value + 0.5 * w[0] @ w[0] == pytest.approx(right[0], rel=1e-11)
        np.testing.assert_allclose(here.slope + w[0], slopes.reshape(3, -1)[0], atol=1e-8)
        np.testing.assert_allclose(here.second, hessian, atol=1e-8)
        if u is not None:
            np.testing.assert_allclose(whole.values(w), target.potential(u), rtol=1e-11)


def test_a_corrected_term_is_right_to_second_order_at_its_centre(small_blocks):
    posterior, all_rows = streamed("bernoulli"), in_memory("bernoulli", num_particles=8)
    term = posterior.target.term
    assert isinstance(term, CorrectedTerm)
    centre = np.asarray(term.centre)
    with jax.enable_x64(True):
        value, slope = (np.asarray(part) for part in all_rows.target.term.value_and_gradient(centre[None]))
        found, gradient = (np.asarray(part) for part in term.value_and_gradient(centre[None]))
        curvature = np.asarray(all_rows.target.term.curvature(centre))
        np.testing.assert_allclose(np.asarray(term.curvature(centre)), curvature, atol=1e-8)
        numeric = jax.grad(lambda w: term.value(w[None])[0])(centre + 0.1)
        np.testing.assert_allclose(np.asarray(term.gradient((centre + 0.1)[None]))[0], numeric, atol=1e-8)
    assert found[0] == pytest.approx(value[0], abs=1e-8)
    np.testing.assert_allclose(gradient, slope, atol=1e-8)
    # A further Newton step of all rows would lead nowhere.
    step = np.linalg.solve(curvature + np.eye(len(centre)), slope[0] + centre)
    assert np.max(np.abs(step)) < 1e-8


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bernoulli", "student_t"])
def test_other_likelihoods_agree_with_memory_within_their_monte_carlo_error(small_blocks, name):
    """Means and evidence of 1,000 draws each: within 4.5 standard errors; draws of the sample alone are not."""
    many, all_rows = (make(name, num_particles=1000) for make in (streamed, in_memory))
    a, b = many.predict(NEW), all_rows.predict(NEW)
    spread = np.std(all_rows.particles.whitened @ all_rows.basis.whitened_mean(NEW).T, axis=0) * np.sqrt(2.0 / 1000)
    assert np.max(np.abs(a.mean - b.mean) / spread) < 4.5
    one, other = many.log_evidence, all_rows.log_evidence
    assert abs(one.value - other.value) < 4.5 * np.hypot(one.standard_error, other.standard_error)
    likelihood, rows = DATA[name][0], many.target
    alone = ko.infer(KEY, PRIOR, likelihood, rows.x, rows.y, weights=rows.weights, basis=BASIS, num_particles=1000)
    assert np.max(np.abs(alone.predict(NEW).mean - b.mean) / spread) > 10
    assert many.report.stream.pareto_k < 0.5
    assert many.report.converged


@pytest.mark.slow
def test_steps_over_all_rows_where_weights_cannot_do_it(small_blocks, monkeypatch):
    import kosambi.streaming.rows as rows

    monkeypatch.setattr(rows, "EVEN", 0.0)
    monkeypatch.setattr(rows, "LARGEST_PARETO_K", -np.inf)
    many, all_rows = (make("bernoulli", num_particles=400) for make in (streamed, in_memory))
    assert many.report.stream.steps >= 16
    assert many.report.converged
    assert many.report.r_hat <= many.report.r_hat_limit
    spread = np.std(all_rows.particles.whitened @ all_rows.basis.whitened_mean(NEW).T, axis=0)
    assert np.max(np.abs(many.predict(NEW).mean - all_rows.predict(NEW).mean) / spread) < 4.5 * np.sqrt(2.0 / 400)
    width = many.predict(NEW).variance / all_rows.predict(NEW).variance
    assert np.all((width > 0.7) & (width < 1.4))


@pytest.mark.slow
def test_a_posterior_of_a_stream_is_one_like_others(small_blocks, tmp_path):
    posterior = streamed("categorical", num_particles=32)
    posterior.save(tmp_path / "model")
    again = ko.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict(NEW).probability, posterior.predict(NEW).probability)
    assert again.report == posterior.report
    assert again.target.num_rows == N
    assert posterior.functions(KEY)(NEW).shape == (32, 20, 3)
    assert "N=1500" in repr(posterior)
    assert "1,500 rows in" in str(posterior.report)
    with pytest.raises(InputError, match="was read from a stream"):
        posterior.target.with_potential("optimal")
    with pytest.raises(InputError, match="cannot be reweighted"):
        posterior.reweighted(KEY)


def test_points_are_chosen_from_the_sample(small_blocks):
    likelihood, y = DATA["gaussian"]
    source = BlockSource(lambda: ((X[i : i + 100], y[i : i + 100]) for i in range(0, N, 100)))
    posterior = ko.infer(KEY, PRIOR, likelihood, source, num_inducing=20, inducing_points="kmeans")
    held = {row.tobytes() for row in np.asarray(posterior.target.x)}
    assert all(point.tobytes() in held for point in np.asarray(posterior.basis.inducing_points))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"y": np.ones(N)}, "`y` cannot be given with a source"),
        ({"weights": np.ones(N)}, "`weights` cannot be given"),
        ({"precision": "float32"}, "need float64"),
        ({"initial": np.ones((2, 2))}, "around the mode"),
        ({"num_inducing": "all"}, '"all"` cannot be had'),
        ({"max_memory": "1MB"}, "are needed for"),
        ({"sampler": "tempering"}, "around one mode"),
    ],
)
def test_what_a_stream_cannot_have_is_refused(options, words):
    _, y = DATA["bernoulli"]
    with pytest.raises(InputError, match=words):
        ko.infer(KEY, PRIOR, ko.likelihoods.Bernoulli(), ArraySource(X, y), **{"num_inducing": 5} | options)


@pytest.mark.parametrize(
    "likelihood",
    [
        ko.likelihoods.Poisson("square"),
        ko.likelihoods.Gaussian(np.ones(N)),
        ko.likelihoods.CustomJoint(lambda y, f: (f**2).sum()),
    ],
)
def test_likelihoods_without_a_sum_over_rows_or_with_two_signs_are_refused(likelihood):
    with pytest.raises(InputError, match=r"Rows that are read in blocks cannot have .*leave `max_memory` out"):
        ko.infer(KEY, PRIOR, likelihood, ArraySource(X, np.ones(N)), num_inducing=5)


def test_arrays_need_observations_beside_them():
    for limit in (None, "2GB"):
        with pytest.raises(InputError, match="needs observations"):
            ko.infer(KEY, PRIOR, ko.likelihoods.Gaussian(0.1), X, max_memory=limit)


@pytest.mark.parametrize("largest", [1e8, 0.0])
def test_normal_equations_of_an_accelerator_are_those_of_the_host(monkeypatch, largest):
    monkeypatch.setattr(stream, "LARGEST_TRACE", largest)
    likelihood, y = DATA["gaussian"]

    def sums():
        with jax.enable_x64(True):
            rows = Stream(ArraySource(X, y, WEIGHTS))
            found = stream.gaussian_sums(BASIS, likelihood, rows, 256, True, float(sum(WEIGHTS)))
        root, aim = np.asarray(found.term.root), np.asarray(found.term.aim)
        return [root.T @ root, root.T @ aim, found.term.constant, found.sums.residual, found.noise_trace]

    on_host = sums()
    for place in (stream, normal_sums, points):
        monkeypatch.setattr(place, "is_for_host", lambda _: False)
    for a, b in zip(sums(), on_host, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-8)


@pytest.mark.parametrize(
    ("name", "is_optimal"), [("bernoulli", False), ("student_t", False), ("student_t", True), ("categorical", False)]
)
def test_an_accelerator_finds_what_the_host_does(monkeypatch, name, is_optimal):
    """Sums of a pass by one program for a block, from features that stay on the device."""
    likelihood, y = DATA[name]
    w = 0.5 * np.random.default_rng(2).normal(size=BASIS.size * likelihood.num_latents)
    rule = likelihood.rule(np.array([0.5])) if is_optimal else None

    def sums():
        rows = StreamPotential(BASIS, likelihood, Stream(ArraySource(X, y, WEIGHTS)), 256, rule)
        with jax.enable_x64(True):
            return [*rows.derivatives(w), rows.values(w[None]), *rows.values_and_gradients(w[None])]

    on_host = sums()
    for place in (stream, stream_newton, points):
        monkeypatch.setattr(place, "is_for_host", lambda _: False)
    for a, b in zip(sums(), on_host, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10)


def test_a_sum_over_blocks_keeps_the_digits_of_one_block():
    """Against sums with more digits; sums that are simply added up are off by more than ten times as much."""
    blocks = np.random.default_rng(1).normal(size=(4000, 8, 3)) + 5.0
    sums, plain, exact = GramSum(2), np.zeros((3, 3)), np.zeros((3, 3), np.longdouble)
    for block in blocks:
        sums.add(block)
        plain += block.T @ block
        exact += block.astype(np.longdouble).T @ block.astype(np.longdouble)
    whole = sums.total[0].astype(np.longdouble) + sums.total[1]
    off, plainly = (float(np.max(np.abs(each - exact)) / np.trace(exact)) for each in (whole, plain))
    assert off < 1e-16 / np.sqrt(len(blocks))
    assert plainly > 10.0 * off


def test_points_that_say_the_same_leave_nothing_undefined():
    """A normal matrix without full rank, by both ways."""
    rows = np.random.default_rng(0).normal(size=(50, 4)) @ np.diag([1.0, 1e-9, 1.0, 1.0])
    rows[:, 2] = rows[:, 0]
    for kind in (GramSum, RootSum):
        total = kind(3)
        total.add(rows[:30])
        total.add(rows[30:])
        root, aim, rest = total.found(float(np.sum(rows[:, 3] ** 2)))
        np.testing.assert_allclose(root.T @ root, rows[:, :3].T @ rows[:, :3], atol=1e-12)
        np.testing.assert_allclose(root.T @ aim, rows[:, :3].T @ rows[:, 3], atol=1e-7)
        left = np.linalg.lstsq(rows[:, [0]], rows[:, 3])[1][0]
        assert rest == pytest.approx(left, rel=0.1)
