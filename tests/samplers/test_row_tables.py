"""Polynomials in the place of the costs of rows: their values, slopes, how far they reach, and what is done beyond."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.polynomial import chebyshev

import kosambi as ko
from kosambi._core.precision import lift
from kosambi.likelihoods import Bernoulli, NegativeBinomial, Poisson, StudentT
from kosambi.samplers import chains, normal_frames, row_tables, starts
from kosambi.samplers.normal_frames import LARGEST_ERROR, remainder_frame
from kosambi.target.modes import find_modes
from tests.cases import cases
from tests.samplers.grids import grid_of, p_values

RNG = np.random.default_rng(5)
X = RNG.uniform(-1.0, 1.0, size=(120, 1))
F = np.sin(3.0 * X[:, 0])
COUNTS = RNG.poisson(np.exp(1.0 + F)).astype(float)
CASES = {
    "labels": (Bernoulli(), (F + RNG.logistic(size=120) > 0).astype(float)),
    "counts": (Poisson(), COUNTS),
    "dispersed counts": (NegativeBinomial(0.5), COUNTS),
    "outliers": (StudentT(4.0, 0.3), F + 0.3 * RNG.standard_t(4, size=120)),
}


def target_of(likelihood, y, potential, num_points=4, **options):
    points = np.linspace(-1.0, 1.0, num_points)[:, None]
    basis = ko.PointBasis(ko.GaussianProcess(ko.kernels.Matern32(0.4)), points)
    return ko.Target(basis, likelihood, X, y, potential, **options)


@pytest.mark.parametrize("degrees", [[12] * 5, [12, 24, 24, 48, 192], [0] * 5], ids=["short", "long", "none"])
def test_value_and_slope_of_polynomials(degrees):
    """Coefficients above the highest degree are not looked at."""
    highest, degree = max(degrees), np.array(degrees)
    coefficients = np.where(np.arange(1 + max(highest, 48))[:, None] <= degree, RNG.normal(size=5), 0.0)
    if highest == 12:
        coefficients = coefficients[:13]
    width = RNG.uniform(0.5, 2.0, size=5)
    change = RNG.uniform(-1.0, 1.0, size=(7, 5)) * width
    with jax.enable_x64(True):
        value, slope = row_tables.interpolated(*map(jnp.asarray, (width, coefficients, degree, change)))
    each = [chebyshev.Chebyshev(coefficients[:, n], [-width[n], width[n]]) for n in range(5)]
    np.testing.assert_allclose(value, np.stack([p(change[:, n]) for n, p in enumerate(each)], 1), atol=1e-10)
    right = np.stack([p.deriv()(change[:, n]) for n, p in enumerate(each)], 1)
    np.testing.assert_allclose(slope, right, rtol=1e-9, atol=1e-9)


def test_beyond_its_reach_it_is_a_straight_line():
    coefficients, width = jnp.asarray(RNG.normal(size=(5, 1))), jnp.asarray([2.0])
    at = jnp.asarray([[2.0], [2.5], [4.0]])
    value, slope = row_tables.interpolated(width, coefficients, jnp.asarray([4]), at)
    np.testing.assert_allclose(slope, np.full((3, 1), slope[0, 0]), rtol=1e-5)
    np.testing.assert_allclose(value[1:] - value[0], slope[0, 0] * (at[1:] - 2.0), rtol=1e-4)


@pytest.mark.parametrize(
    ("name", "potential"),
    cases(CASES, ["optimal", "neighbors"], quick=["labels-optimal", "counts-neighbors", "outliers-neighbors"]),
)
def test_the_potential_is_that_of_its_definition(name, potential):
    options = {"num_neighbors": 8} if potential == "neighbors" else {}
    target = target_of(*CASES[name], potential, **options)
    modes = find_modes(jax.random.key(0), target)
    frame = remainder_frame(target, modes, 4, 64)
    assert frame.is_tabulated
    v = 1.5 * np.random.default_rng(1).normal(size=(64, 4))
    with jax.enable_x64(True):
        found = np.asarray(jax.jit(lambda v: frame.potential(v))(v))
    right = starts.whitened_potentials(target)(frame.whitened(v))
    np.testing.assert_allclose(found, right, atol=LARGEST_ERROR)


def test_many_rows_have_several_degrees(monkeypatch):
    """Each row the lowest that suits it, in any number of blocks, and the same potential."""
    monkeypatch.setattr(row_tables, "MANY_ROWS", 50)
    monkeypatch.setattr(row_tables, "_ERROR", 1e-6)
    target = target_of(*CASES["labels"], "neighbors", num_neighbors=8)
    modes = find_modes(jax.random.key(0), target)
    frame = remainder_frame(target, modes, 6, 64)
    assert len(frame.rows) > 1
    assert sum(group.width.size for group in frame.rows) >= 120
    v = 1.5 * np.random.default_rng(1).normal(size=(64, 6))
    with jax.enable_x64(True):
        found = np.asarray(jax.jit(lambda v: frame.potential(v))(v))
    right = starts.whitened_potentials(target)(frame.whitened(v)[:, :4]) + 0.5 * np.sum(np.square(v[:, 4:]), axis=1)
    np.testing.assert_allclose(found, right, atol=LARGEST_ERROR)


def test_rows_of_low_degree_take_few_terms_beside_others(monkeypatch):
    """Lonely rows are known by themselves alone; blocks are sorted by degree, and jumps know where rows are."""
    monkeypatch.setattr(normal_frames, "_VALUES_LONG", 64 * 20)
    lonely, points = np.arange(3.0, 11.0, 2.0), np.linspace(-1.0, 1.0, 8)
    x, points = (np.concatenate([part, lonely])[:, None] for part in (X[:116, 0], points))
    basis = ko.PointBasis(ko.GaussianProcess(ko.kernels.SquaredExponential(0.5)), points)
    y = np.sin(3.0 * x[:, 0]) + 0.05 * np.random.default_rng(0).standard_t(4, size=120)
    y[::40] += 1.0
    target = ko.Target(basis, StudentT(4.0, 0.05), x, y, "optimal")
    frame = remainder_frame(target, find_modes(jax.random.key(0), target), 14, 64)
    (rows,) = frame.rows
    highest = np.max(rows.degree, axis=1)
    assert len(highest) == 6
    assert highest[0] <= 24 < highest[-1]
    assert np.all(np.diff(highest) >= 0)
    assert frame.jumps.number
    psi = rows.psi.reshape(-1, 14).astype(np.float64)
    np.testing.assert_allclose(frame.jumps.effect, frame.jumps.direction @ psi.T, atol=1e-5)
    v = np.pad(np.random.default_rng(1).normal(size=(64, 12)), ((0, 0), (0, 2)))
    with jax.enable_x64(True):
        found = np.asarray(frame.potential(jnp.asarray(v)))
        jumped = np.asarray(lift(frame).jumped(jax.random.key(2), jnp.asarray(v)))
    np.testing.assert_allclose(found, starts.whitened_potentials(target)(frame.whitened(v)[:, :12]), atol=0.05)
    assert np.all(np.isfinite(jumped))


def test_a_few_of_many_rows_may_need_very_high_degrees(monkeypatch):
    """Rows far from what the others say, with noise that is small beside what is left open there."""
    lonely, points = np.arange(3.0, 11.0, 2.0), np.linspace(-1.0, 1.0, 8)
    x, points = (np.concatenate([part, lonely])[:, None] for part in (X[:116, 0], points))
    basis = ko.PointBasis(ko.GaussianProcess(ko.kernels.SquaredExponential(0.5)), points)
    y = np.sin(3.0 * x[:, 0]) + 0.05 * np.random.default_rng(0).standard_t(4, size=120)
    y[-4:] += 4.0
    target = ko.Target(basis, StudentT(4.0, 0.03), x, y, "optimal")
    modes = find_modes(jax.random.key(0), target)
    assert not remainder_frame(target, modes, 14, 64).is_tabulated
    monkeypatch.setattr(row_tables, "MANY_ROWS", 50)
    monkeypatch.setattr(normal_frames, "MANY_ROWS", 50)
    frame = remainder_frame(target, modes, 14, 64)
    assert frame.is_tabulated
    assert np.max(frame.rows[-1].degree) > row_tables.DEGREES[-1]
    v = np.pad(np.random.default_rng(1).normal(size=(64, 12)), ((0, 0), (0, 2)))
    with jax.enable_x64(True):
        found = np.asarray(frame.potential(jnp.asarray(v)))
    np.testing.assert_allclose(found, starts.whitened_potentials(target)(frame.whitened(v)[:, :12]), atol=0.05)


def watched_frames(monkeypatch):
    """The frames that runs make, in a list that fills."""
    used, made = [], chains.padded_frame

    def watched(*args, **options):
        used.append(made(*args, **options))
        return used[-1]

    monkeypatch.setattr(chains, "padded_frame", watched)
    return used


@pytest.mark.slow
def test_particles_out_of_reach_are_found_out(monkeypatch):
    """Tables that end within the posterior, which the first look does not see: the run is made again without them."""
    used = watched_frames(monkeypatch)
    target = target_of(*CASES["counts"], "optimal")
    _, right = ko.sample(jax.random.key(1), target, num_particles=200)
    monkeypatch.setattr(row_tables, "REACH", 0.3)
    monkeypatch.setattr(normal_frames, "LARGEST_ERROR", 1e3)
    _, report = ko.sample(jax.random.key(1), target, num_particles=200)
    assert report.converged
    assert [frame.is_tabulated for frame in used] == [True, True, False]
    # Steps of both runs are counted.
    assert report.steps > right.steps
    assert report.gradient_evaluations >= report.steps


@pytest.mark.slow
def test_the_law_of_draws_with_tables(monkeypatch):
    used = watched_frames(monkeypatch)
    # Few points, so that what they leave open matters and the two potentials differ.
    likelihood, y = CASES["counts"]
    target = target_of(likelihood, y, "optimal", num_points=1)
    found, report = ko.sample(jax.random.key(3), target, num_particles=4000)
    assert report.converged
    assert used[-1].is_tabulated
    assert min(p_values(found.whitened, grid_of(target))) > 1e-3
    assert min(p_values(found.whitened, grid_of(target.with_potential("projected")))) < 1e-6
