from __future__ import annotations

import equinox as eqx
import jax
import numpy as np
import pytest

import kosambi as ko
from kosambi.basis import points
from kosambi.errors import InputError, NumericalError, RoundingWarning
from tests.cases import cases
from tests.tables import BASES, X3

k = ko.kernels


def dense_difference(basis, x):
    """r − φᵀΛφ, computed densely."""
    phi = basis.conditional_mean(x)
    return basis.prior.covariance(x) - phi @ basis.covariance @ phi.T


def test_nystrom_eigenvalues_on_the_papers_example():
    z = [[1.0, 2.0, 3.0], [1.5, 2.5, 3.5]]
    prior = ko.GaussianRandomElement(k.Linear(), ko.measures.empirical(z))
    np.testing.assert_allclose(ko.NystromBasis(prior, z).eigenvalues, [17.35339039, 0.02160961], atol=5e-9)


@pytest.mark.parametrize("basis_type", [ko.NystromBasis, ko.RitzBasis])
@pytest.mark.parametrize("num_inducing", [10, 24, 60, 150])
def test_functions_are_orthonormal_before_and_after_truncation(basis_type, num_inducing, curve_prior, curve_inputs):
    basis = basis_type(curve_prior, curve_inputs[:num_inducing])
    gram = curve_prior.kernel(basis.inducing_points)
    np.testing.assert_allclose(basis.transform.T @ gram @ basis.transform, np.eye(basis.size), rtol=0, atol=1e-8)
    assert basis.report.dropped == num_inducing - basis.size
    assert basis.report.jitter == 0.0
    if num_inducing >= 60:
        assert basis.report.dropped > num_inducing / 2
    expected = curve_prior.kernel(curve_inputs, basis.inducing_points) @ basis.transform
    np.testing.assert_allclose(basis.evaluate(curve_inputs), expected, rtol=0, atol=1e-11)


def test_nystrom_is_the_papers_formula(curve_prior, curve_inputs):
    z = curve_inputs[:7]
    basis = ko.NystromBasis(curve_prior, z, tolerance=0.0)
    values, vectors = np.linalg.eigh(curve_prior.kernel(z) / 7)
    values, vectors = values[::-1], vectors[:, ::-1]
    np.testing.assert_allclose(basis.eigenvalues, values, rtol=1e-9)
    expected = curve_prior.kernel(curve_inputs, z) @ vectors / np.sqrt(7 * values)
    signs = np.sign(np.sum(expected * basis.evaluate(curve_inputs), axis=0))
    np.testing.assert_allclose(basis.evaluate(curve_inputs), expected * signs, atol=1e-9)
    np.testing.assert_array_equal(basis.conditional_mean(curve_inputs), basis.evaluate(curve_inputs))


@pytest.mark.parametrize("basis_type", [ko.NystromBasis, ko.RitzBasis])
def test_all_data_as_inducing_points_is_exact(basis_type):
    """With M = N and equal weights the estimated eigenpairs are those of C (paper, appendix on sufficiency)."""
    x = np.linspace(-3.0, 3.0, 40)[:, None]
    prior = ko.GaussianRandomElement(k.Matern32(0.5, 1.3), ko.measures.empirical(x))
    basis = basis_type(prior, x)
    assert basis.report.dropped == 0
    dense = np.linalg.eigvalsh(prior.kernel(x) / 40)[::-1]
    np.testing.assert_allclose(basis.eigenvalues, dense, rtol=1e-9)
    functions = basis.evaluate(x)
    for m in range(basis.size):
        image = prior.apply_covariance(lambda v: basis.evaluate(v)[:, m])(x)
        np.testing.assert_allclose(image, basis.eigenvalues[m] * functions[:, m], rtol=0, atol=1e-9 * dense[0])
    draws = prior.draw(jax.random.key(0), 20)
    values = draws(x)
    np.testing.assert_allclose(basis.coordinates(draws) @ functions.T, values, rtol=0, atol=1e-8 * np.abs(values).max())
    np.testing.assert_allclose(basis.residual_variance(x), 0.0, atol=1e-12)


def test_ritz_eigenvalues_agree_with_the_dense_operator():
    errors = {ko.RitzBasis: [], ko.NystromBasis: []}
    for seed in range(4):
        x = np.random.default_rng(seed).uniform(-3.0, 3.0, (1000, 1))
        prior = ko.GaussianRandomElement(k.SquaredExponential(0.35, 4.0), ko.measures.empirical(x))
        z = x[ko.inducing.greedy_variance(prior, x, num_inducing=32)]
        dense = np.linalg.eigvalsh(prior.kernel(x) / 1000)[::-1][:10]
        for basis_type, found in errors.items():
            found.append(np.max(np.abs(basis_type(prior, z).eigenvalues[:10] / dense - 1)))
    for basis_type, found in errors.items():
        print(f"{basis_type.__name__}: largest {max(found):.1e}, median {np.median(found):.1e}")
    assert max(errors[ko.RitzBasis]) < 1e-5
    assert np.median(errors[ko.RitzBasis]) < 1e-6
    # Greedy points are no sample of the measure, which is what Nyström takes them for.
    assert min(errors[ko.NystromBasis]) > 1e-2


def test_ritz_and_points_agree_when_nothing_is_dropped(curve_inputs):
    prior = ko.GaussianRandomElement(k.SquaredExponential(0.35, 4.0), ko.measures.empirical(curve_inputs))
    z = curve_inputs[ko.inducing.greedy_variance(prior, curve_inputs, 32)]
    ritz, points = ko.RitzBasis(prior, z), ko.PointBasis(prior, z)
    assert ritz.report.dropped == points.report.dropped == 0
    draws = prior.draw(jax.random.key(1), 50)
    x = np.linspace(-3.5, 3.5, 101)[:, None]
    means = [basis.coordinates(draws) @ basis.conditional_mean(x).T for basis in (ritz, points)]
    np.testing.assert_allclose(means[0], means[1], rtol=0, atol=1e-6)
    largest = prior.variance(x).max()
    np.testing.assert_allclose(ritz.residual_variance(x), points.residual_variance(x), rtol=0, atol=1e-9 * largest)


def inputs_with_duplicates(columns, seed):
    x = np.random.default_rng(seed).normal(size=(250, columns))
    x[100:120] = x[:20]
    return x


@pytest.mark.parametrize(
    ("seed", "chosen", "columns"),
    cases(
        range(3),
        ["greedy", "first rows"],
        [1, 8, 34],
        quick=["1-first rows-8", "2-greedy-34"],
    ),
)
def test_residual_covariance_is_positive_semi_definite(columns, chosen, seed):
    x = inputs_with_duplicates(columns, seed)
    kernel = k.SquaredExponential(0.7 * np.sqrt(columns), 1.4)
    # The first rows hold each of 20 points twice; greedy ones do not.
    rows = np.r_[0:30, 100:110] if chosen == "first rows" else ko.inducing.greedy_path(kernel, x, 40).indices
    random_element = ko.GaussianRandomElement(kernel, ko.measures.empirical(x))
    for basis_type, prior in [
        (ko.RitzBasis, random_element),
        (ko.PointBasis, random_element),
        (ko.PointBasis, ko.GaussianProcess(kernel)),
    ]:
        basis = basis_type(prior, x[rows])
        residual, largest = dense_difference(basis, x), prior.variance(x).max()
        assert np.linalg.eigvalsh(residual)[0] > -1e-10 * largest
        np.testing.assert_allclose(basis.residual_variance(x), np.diag(residual), rtol=0, atol=1e-10 * largest)
        assert np.all(basis.residual_variance(x) >= 0)
        if chosen == "first rows":
            assert basis.report.dropped >= 10


@pytest.mark.parametrize("name", BASES)
def test_residual_variance_is_that_of_a_draw_without_its_projection(name):
    """Var[G − φᵀu(G)] = r − 2φᵀAᵀr(Z, x) + φᵀAᵀr(Z, Z)Aφ, whatever φ is."""
    basis = BASES[name]
    z, phi = basis.inducing_points, basis.conditional_mean(X3)
    transform = getattr(basis, "transform", np.eye(basis.size))
    cross = basis.prior.covariance(X3, z) @ transform
    inner = transform.T @ basis.prior.covariance(z) @ transform
    expected = basis.prior.variance(X3) - 2 * np.sum(phi * cross, axis=1) + np.sum((phi @ inner) * phi, axis=1)
    np.testing.assert_allclose(basis.residual_variance(X3), expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", BASES)
def test_whitening(name, rng):
    basis = BASES[name]
    w = rng.normal(size=(4, 3, basis.size))
    np.testing.assert_allclose(basis.whiten(basis.colour(w)), w, atol=1e-10)
    root = basis.colour(np.eye(basis.size))
    np.testing.assert_allclose(root.T @ root, basis.covariance, atol=1e-12)
    np.testing.assert_allclose(basis.whitened_mean(X3), basis.conditional_mean(X3) @ root.T, atol=1e-10)


@pytest.mark.parametrize("name", [name for name in BASES if name.startswith(("Ritz", "Point"))])
def test_conditional_mean_is_the_normal_one(name):
    basis = BASES[name]
    assert basis.is_conditional
    z = basis.inducing_points
    transform = getattr(basis, "transform", np.eye(basis.size))
    inner = transform.T @ basis.prior.covariance(z) @ transform
    np.testing.assert_allclose(inner, basis.covariance, rtol=1e-8, atol=1e-12)
    expected = np.linalg.solve(inner, transform.T @ basis.prior.covariance(z, X3)).T
    np.testing.assert_allclose(basis.conditional_mean(X3), expected, rtol=1e-8, atol=1e-10)


def test_inducing_functions_are_the_papers(curve_prior, curve_inputs):
    z = curve_inputs[:6]
    basis = ko.InducingBasis(curve_prior, z)
    gram = curve_prior.kernel(z)
    np.testing.assert_allclose(basis.covariance, gram @ gram / 6, rtol=1e-12)
    # To rounding: a program for these rows and one for tiles of rows.
    np.testing.assert_allclose(basis.evaluate(curve_inputs), curve_prior.kernel(curve_inputs, z), rtol=1e-12)
    expected = np.linalg.solve(gram, curve_prior.kernel(z, curve_inputs)).T
    np.testing.assert_allclose(basis.conditional_mean(curve_inputs), expected, rtol=1e-6, atol=1e-9)


def test_dropped_inducing_functions_keep_their_weight():
    """With Z the support of the measure, duplicates included, the paper's approximation is exact."""
    z = np.array([[0.0], [0.0], [1.0], [2.0]])
    prior = ko.GaussianRandomElement(k.Matern32(), ko.measures.empirical(z))
    x = np.linspace(-1.0, 3.0, 9)[:, None]
    for basis in (ko.InducingBasis(prior, z), ko.NystromBasis(prior, z)):
        assert basis.report.dropped == 1
        phi = basis.conditional_mean(x)
        np.testing.assert_allclose(phi @ basis.covariance @ phi.T, prior.covariance(x), atol=1e-12)


def test_more_inducing_points_than_support_points(rng):
    s, z = rng.normal(size=(3, 2)), rng.normal(size=(8, 2))
    prior = ko.GaussianRandomElement(k.Matern52(), ko.measures.empirical(s))
    for basis in (ko.RitzBasis(prior, z), ko.PointBasis(prior, z)):
        assert basis.size == 3
        assert basis.report.dropped == 5
        np.testing.assert_allclose(basis.residual_variance(z), 0.0, atol=1e-12)


def test_residual_of_inducing_functions_with_a_normal_measure_keeps_its_digits():
    kernel, z = k.SquaredExponential(0.6, 1.5), np.linspace(-3.0, 3.0, 25)[:, None]
    nodes, weights = np.polynomial.hermite_e.hermegauss(150)
    x = np.linspace(-3.0, 3.0, 61)[:, None]
    found = [
        ko.InducingBasis(ko.GaussianRandomElement(kernel, measure), z).residual_variance(x)
        for measure in (ko.measures.gaussian([0.0], [[1.0]]), ko.measures.points(nodes[:, None], weights))
    ]
    np.testing.assert_allclose(found[0], found[1], rtol=0, atol=1e-13)


def test_ritz_coordinates_of_draws_have_unit_variance_even_the_smallest():
    x = np.random.default_rng(0).uniform(-1.0, 1.0, (300, 1))
    prior = ko.GaussianRandomElement(k.SquaredExponential(1.0), ko.measures.empirical(x))
    basis = ko.RitzBasis(prior, np.linspace(-6.0, 6.0, 40)[:, None])
    w = basis.whiten(basis.coordinates(prior.draw(jax.random.key(0), 4000)))
    np.testing.assert_allclose(w.var(axis=0), 1.0, atol=5 * np.sqrt(2 / 4000))


def test_bad_input_overflow_is_named():
    prior = ko.GaussianRandomElement(k.Matern52(variance=1e200), ko.measures.empirical([[0.0], [1.0]]))
    with pytest.raises(NumericalError, match="overflowed"):
        ko.PointBasis(ko.GaussianRandomElement(k.Linear(1e300), ko.measures.empirical([[1e9]])), [[1e9]])
    for basis_type in (ko.RitzBasis, ko.NystromBasis, ko.InducingBasis):
        with pytest.raises(NumericalError, match="overflowed"):
            basis_type(prior, [[0.0], [1.0]])


def test_reports_read_well(curve_prior, curve_inputs):
    report = ko.RitzBasis(curve_prior, curve_inputs[:100]).report
    assert str(report).startswith(f"{report.num_kept} of 100 kept, {report.dropped} dropped")
    assert 1e5 < report.condition < 1e8
    assert "dropped" not in str(ko.PointBasis(curve_prior, curve_inputs[:2]).report)


@pytest.mark.parametrize("kind", ["process", "element"])
def test_without_points_everything_is_residual(kind):
    x = np.random.default_rng(0).normal(size=(6, 2))
    kernel, measure = k.Matern52(0.7), ko.measures.empirical(x)
    prior = ko.GaussianProcess(kernel) if kind == "process" else ko.GaussianRandomElement(kernel, measure)
    basis = ko.PointBasis(prior, np.empty((0, 2)))
    assert basis.whitened_mean(x[:3]).shape == basis.conditional_mean(x[:3]).shape == (3, 0)
    np.testing.assert_allclose(basis.residual_variance(x[:3]), prior.variance(x[:3]), rtol=1e-12)


def test_points_that_others_determine_keep_their_part_of_the_law():
    z = np.array([[1.0, 0.2], [0.3, 2.0], [1.0, 1.0], [-0.5, 0.7]])
    basis = ko.InducingBasis(ko.GaussianRandomElement(k.Linear(), ko.measures.empirical(z)), z)
    assert basis.size == 2
    # h(Z) of all four, whose mean square is what u has as covariance.
    given = basis.inducing_points @ z.T
    np.testing.assert_allclose(basis.covariance, given @ given.T / 4.0, rtol=1e-9)
    roots = basis.colour(np.eye(2))
    np.testing.assert_allclose(roots.T @ roots, basis.covariance, rtol=1e-9)
    np.testing.assert_allclose(basis.whiten(roots), np.eye(2), atol=1e-9)


def test_points_that_would_extrapolate_with_huge_weights_are_dropped(curve_prior, curve_inputs, monkeypatch):
    def largest_squared_weight():
        basis = ko.PointBasis(curve_prior, np.linspace(-0.2, 0.2, 12)[:, None])
        return np.max(np.sum(np.square(basis.conditional_mean(curve_inputs)), axis=1))

    assert largest_squared_weight() <= points.LARGEST_SQUARED_WEIGHT
    monkeypatch.setattr(points, "LARGEST_SQUARED_WEIGHT", np.inf)
    assert largest_squared_weight() > 1e5


@pytest.mark.parametrize("is_for_host", [True, False])
def test_residual_variances_below_zero_are_measured_by_the_largest_prior_variance(is_for_host, monkeypatch):
    monkeypatch.setattr(points, "is_for_host", lambda number: is_for_host)
    prior, larger = (ko.GaussianProcess(k.Linear(variance)) for variance in (1.0, 3.0))
    basis = eqx.tree_at(lambda basis: basis.prior, ko.PointBasis(prior, [[0.5, 0.0], [0.0, 2.0]]), larger)
    # The factor is that of another prior, by which 3² in place of 3 times |x|² are explained.
    assert (3.0 - 3.0**2) * 4.0**2 / (3.0 * 2.0**2) == -8.0
    with pytest.warns(RoundingWarning, match=r"of -8\.0e\+00 of the largest"):
        residual = basis.residual_variance([[1.0, 0.0], [0.0, 4.0]])
    np.testing.assert_array_equal(residual, 0.0)


@pytest.mark.parametrize("basis_type", [ko.NystromBasis, ko.RitzBasis, ko.InducingBasis])
def test_bad_input_gaussian_process_where_the_kernel_of_the_space_is_needed(basis_type):
    with pytest.raises(InputError, match="Use `PointBasis`"):
        basis_type(ko.GaussianProcess(k.Matern52()), [[0.0]])


@pytest.mark.parametrize("basis_type", [ko.NystromBasis, ko.RitzBasis, ko.InducingBasis, ko.PointBasis])
def test_bad_input(basis_type, curve_prior):
    with pytest.raises(InputError, match="needs a prior"):
        basis_type(k.Matern52(), [[0.0]])
    with pytest.raises(InputError, match=r"inducing_points\[:, None\]"):
        basis_type(curve_prior, [0.0, 1.0])
    if basis_type is not ko.PointBasis:
        with pytest.raises(InputError, match="empty"):
            basis_type(curve_prior, np.empty((0, 1)))
    with pytest.raises(InputError, match="finite"):
        basis_type(curve_prior, [[np.nan]])
    with pytest.raises(InputError, match="2 columns, but 1 are expected"):
        basis_type(curve_prior, [[0.0, 1.0]])
    for tolerance in (-1.0, 1.0):
        with pytest.raises(InputError, match="tolerance"):
            basis_type(curve_prior, [[0.0]], tolerance=tolerance)
    with pytest.raises(InputError, match="concrete arrays"):
        jax.jit(lambda z: basis_type(curve_prior, z).size)(np.ones((2, 1)))
    basis = basis_type(curve_prior, [[0.0], [1.0]])
    with pytest.raises(InputError, match="2 columns, but 1 are expected"):
        basis.conditional_mean([[0.0, 1.0]])
    with pytest.raises(InputError, match="finite"):
        basis.residual_variance([[np.inf]])
    with pytest.raises(InputError, match="function draws"):
        basis.coordinates(np.ones((2, 2)))
    for wrong in (np.ones((2, 3)), 1.0):
        with pytest.raises(InputError, match="2 entries in its last axis"):
            basis.whiten(wrong)
    assert basis.colour(basis.whiten(np.ones(2))).shape == (2,)
    assert basis.conditional_mean(np.empty((0, 1))).shape == (0, 2)


def test_bad_input_no_variance_at_the_inducing_points():
    zero = ko.GaussianRandomElement(k.Linear(), ko.measures.empirical([[1.0]]))
    for basis_type in (ko.NystromBasis, ko.InducingBasis, ko.PointBasis):
        with pytest.raises(NumericalError, match=r"[Cc]hoose"):
            basis_type(zero, [[0.0]])
    far = ko.GaussianRandomElement(k.SquaredExponential(0.1), ko.measures.empirical([[1e3]]))
    with pytest.raises(NumericalError, match="measure lies too far"):
        ko.RitzBasis(far, [[0.0]])


def test_the_condition_number_of_many_points_is_estimated(monkeypatch):
    basis = ko.PointBasis(ko.GaussianProcess(ko.kernels.Matern52(0.5)), np.linspace(-2.0, 2.0, 40)[:, None])
    computed = basis.report.condition
    assert computed == pytest.approx(np.linalg.cond(basis.covariance), rel=1e-4)
    monkeypatch.setattr(points, "MOST_SINGULAR_VALUES", 10)
    # Another norm, within a factor of the number of points.
    assert computed / 40 < basis.report.condition < 40 * computed
