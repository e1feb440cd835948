from __future__ import annotations

import jax
import jax.extend
import jax.numpy as jnp
import numpy as np
import pytest

import kosambi as ko
from kosambi.errors import InputError
from kosambi.kernels.stationary import squared_distance

k = ko.kernels


def pairs(x, z, function):
    """A Gram matrix one pair at a time, in plain NumPy."""
    return np.array([[function(a, b) for b in z] for a in x])


def scaled(a, b, lengthscale):
    return np.sum(((a - b) / np.asarray(lengthscale)) ** 2)


FORMULAS = {
    "SquaredExponential": (
        k.SquaredExponential([0.7, 2.0], 1.7),
        lambda a, b: 1.7 * np.exp(-0.5 * scaled(a, b, [0.7, 2.0])),
    ),
    "Matern12": (k.Matern12(0.9, 0.6), lambda a, b: 0.6 * np.exp(-np.sqrt(scaled(a, b, 0.9)))),
    "Matern32": (
        k.Matern32([0.7, 2.0], 1.3),
        lambda a, b: 1.3 * (1 + np.sqrt(3 * scaled(a, b, [0.7, 2.0]))) * np.exp(-np.sqrt(3 * scaled(a, b, [0.7, 2.0]))),
    ),
    "Matern52": (
        k.Matern52(1.2, 2.0),
        lambda a, b: (
            2.0
            * (1 + np.sqrt(5 * scaled(a, b, 1.2)) + 5 / 3 * scaled(a, b, 1.2))
            * np.exp(-np.sqrt(5 * scaled(a, b, 1.2)))
        ),
    ),
    "RationalQuadratic": (
        k.RationalQuadratic(0.8, 1.4, alpha=0.7),
        lambda a, b: 1.4 * (1 + scaled(a, b, 0.8) / 1.4) ** -0.7,
    ),
    "Periodic": (
        k.Periodic(0.9, 0.8, period=[1.5, 2.5]),
        lambda a, b: 0.8 * np.exp(-2 * np.sum(np.sin(np.pi * (a - b) / np.array([1.5, 2.5])) ** 2) / 0.81),
    ),
    "Linear": (k.Linear([0.5, 3.0]), lambda a, b: 0.5 * a[0] * b[0] + 3.0 * a[1] * b[1]),
    "Constant": (k.Constant(0.3), lambda a, b: 0.3),
    "Coregionalization": (
        k.Coregionalization([[1.0, 0.5], [-2.0, 0.3]], [0.1, 0.2]),
        lambda a, b: B[int(np.round(a[1])), int(np.round(b[1]))] if {*np.round([a[1], b[1]])} <= {0.0, 1.0} else 0.0,
    ),
}
B = np.array([[1.35, -1.85], [-1.85, 4.29]])


@pytest.mark.parametrize("name", FORMULAS)
def test_every_kernel_is_its_formula(name, rng):
    kernel, formula = FORMULAS[name]
    x, z = 2.0 * rng.normal(size=(9, 2)), 2.0 * rng.normal(size=(6, 2))
    np.testing.assert_allclose(kernel(x, z), pairs(x, z, formula), rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(kernel.diagonal(x), [formula(a, a) for a in x], rtol=1e-14)


def test_the_formula_table_has_every_elementary_kernel():
    combined = {"Sum", "Product"}
    elementary = {
        value.__name__ for name, value in vars(k).items() if name[0].isupper() and not name.startswith("Abstract")
    } - combined
    assert elementary == set(FORMULAS)


def test_arithmetic(rng):
    x, z = rng.normal(size=(7, 2)), rng.normal(size=(4, 2))
    a, b = k.Matern52(0.5), k.Linear()
    np.testing.assert_allclose((a + b)(x, z), a(x, z) + b(x, z), rtol=1e-15)
    np.testing.assert_allclose((a * b)(x, z), a(x, z) * b(x, z), rtol=1e-15)
    np.testing.assert_allclose(sum([a, b, a])(x, z), 2 * a(x, z) + b(x, z), rtol=1e-15)
    np.testing.assert_allclose((a + 2)(x, z), a(x, z) + 2, rtol=1e-15)
    np.testing.assert_allclose((2 + a)(x, z), a(x, z) + 2, rtol=1e-15)
    np.testing.assert_allclose((a * b + 0.5 * b).diagonal(x), (a.diagonal(x) + 0.5) * b.diagonal(x), rtol=1e-14)
    assert len((a + b + a + b).kernels) == 4
    assert len((a * b * a).kernels) == 3


@pytest.mark.parametrize("number", [2, 2.0, np.float64(2.0), np.float32(2.0), np.array(2.0), jnp.asarray(2.0)])
def test_scaling_from_either_side(number, rng):
    x = rng.normal(size=(5, 2))
    kernel = k.Matern32(0.5)
    np.testing.assert_allclose((number * kernel)(x), 2 * kernel(x), rtol=1e-15)
    np.testing.assert_allclose((kernel * number)(x), 2 * kernel(x), rtol=1e-15)


def test_active_dims_look_at_their_columns_only(rng):
    x, z = rng.normal(size=(6, 4)), rng.normal(size=(5, 4))
    kernel = k.SquaredExponential([0.5, 2.0], active_dims=[3, 1])
    np.testing.assert_array_equal(kernel(x, z), k.SquaredExponential([0.5, 2.0])(x[:, [3, 1]], z[:, [3, 1]]))
    np.testing.assert_array_equal(k.Linear(active_dims=2)(x, z), np.outer(x[:, 2], z[:, 2]))


def test_equal_points_are_at_distance_zero_far_from_the_origin(rng):
    x = 1e8 + rng.normal(size=(20, 40))
    distance = np.asarray(squared_distance(x, x))
    assert np.all(np.diagonal(distance) == 0.0)
    np.testing.assert_array_equal(distance, distance.T)


@pytest.mark.parametrize("far", [1e16, 1e20, 1e150, 1e300, -1e308])
@pytest.mark.parametrize("cls", [ko.kernels.SquaredExponential, ko.kernels.Matern32, ko.kernels.Matern52])
def test_a_row_far_out_is_uncorrelated_and_leaves_the_others_alone(cls, far):
    kernel, x, near = cls(0.7), np.array([[0.1], [0.5]]), np.array([[0.2], [-0.3]])
    expected = kernel(x, near)
    found = kernel(x, np.concatenate([near, [[far]]]))
    np.testing.assert_allclose(found[:, :2], expected, rtol=1e-14)
    np.testing.assert_array_equal(found[:, 2], 0.0)
    np.testing.assert_allclose(kernel(np.concatenate([x, [[far]]]), near), [*expected, [0.0, 0.0]], rtol=1e-14)


def test_far_off_inputs_lose_no_digits(rng):
    near = rng.integers(-8, 8, size=(20, 2)) / 8.0
    for kernel in (k.Matern12(0.3), k.SquaredExponential([0.3, 0.7])):
        np.testing.assert_allclose(kernel(near + 2.0**20), kernel(near), rtol=1e-14)


def test_periodic_harmonics_have_the_right_spread_for_short_lengthscales():
    for lengthscale in (1e-5, 1e-3, 0.1, 2.0):
        with jax.enable_x64(True):
            kernel = k.Periodic(lengthscale, period=2 * np.pi)
            drawn = np.asarray(kernel.sample_frequencies(jax.random.key(0), 20_000, 1))
        np.testing.assert_allclose(drawn, np.round(drawn))
        # The variance of a harmonic is 1/ℓ²; the fourth moment of a Skellam variable adds ℓ² to that of a normal one.
        np.testing.assert_allclose(np.std(drawn) * lengthscale, 1.0, atol=4.5 * np.sqrt((2 + lengthscale**2) / 80_000))


@pytest.mark.parametrize("columns", [1, 16, 40])
def test_squared_distance_and_its_derivatives(columns, rng):
    x, z = rng.normal(size=(6, columns)), rng.normal(size=(4, columns))
    plain = lambda a, b: jnp.sum((a[:, None] - b[None]) ** 2, axis=-1)
    with jax.enable_x64(True):
        x, z = jnp.asarray(x), jnp.asarray(z)
        weights = jnp.asarray(rng.normal(size=(6, 4)))
        np.testing.assert_allclose(squared_distance(x, z), plain(x, z), rtol=1e-13)
        objective = lambda f: lambda a, b: jnp.sum(weights * jnp.sin(f(a, b)))
        for mode in (jax.jacrev, jax.jacfwd):
            ours, theirs = (jax.jit(mode(objective(f), argnums=(0, 1)))(x, z) for f in (squared_distance, plain))
            jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12), ours, theirs)
        ours, theirs = (jax.jit(jax.hessian(objective(f)))(x, z) for f in (squared_distance, plain))
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-10)


def largest_intermediate(function, *arguments):
    """The size of the largest array that a traced computation, or one nested in it, makes."""

    def walk(jaxpr):
        for equation in jaxpr.eqns:
            for variable in equation.outvars:
                yield int(np.prod(variable.aval.shape))
            for nested in jax.extend.core.jaxprs_in_params(equation.params):
                yield from walk(nested)

    return max(walk(jax.make_jaxpr(function)(*arguments).jaxpr))


@pytest.mark.parametrize("columns", [8, 40])
@pytest.mark.parametrize("name", ["SquaredExponential", "Matern52", "Periodic", "Linear"])
def test_gram_matrices_and_gradients_never_build_an_n_m_d_array(name, columns):
    kernel = getattr(k, name)()
    x, z = np.ones((50, columns)), np.ones((60, columns))
    # `Periodic` maps each column to two, so (N + M)·2D numbers are its inputs.
    allowed = max(50 * 60, 60 * 2 * columns)
    assert largest_intermediate(kernel.pairwise, x, z) <= allowed
    value = lambda a, b, kernel: jnp.sum(jnp.sin(kernel.pairwise(a, b)))
    assert largest_intermediate(jax.grad(value, argnums=(0, 1, 2)), x, z, kernel) <= allowed
    assert largest_intermediate(kernel.pointwise, x) <= 50 * columns


@pytest.mark.parametrize("kernel", [k.Matern12(0.7), k.Matern32(0.7), k.Matern52(0.7)], ids=lambda v: type(v).__name__)
def test_matern_derivatives_at_and_near_coinciding_points(kernel):
    with jax.enable_x64(True):
        value = jax.jit(lambda a: kernel.pairwise(a[None], jnp.zeros((1, 2)))[0, 0])
        origin = jnp.zeros(2)
        assert np.all(np.isfinite(jax.grad(value)(origin)))
        assert np.all(np.isfinite(jax.hessian(value)(origin)))
        if isinstance(kernel, k.Matern52):
            # ∂²k/∂x² at zero distance is −5/(3ℓ²) times the variance.
            np.testing.assert_allclose(jax.hessian(value)(origin), -5 / (3 * 0.49) * np.eye(2), rtol=1e-12)
        point, step = jnp.array([0.3, -0.2]), 1e-6
        numeric = [(value(point.at[i].add(step)) - value(point.at[i].add(-step))) / (2 * step) for i in range(2)]
        np.testing.assert_allclose(jax.grad(value)(point), numeric, rtol=1e-7)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: k.SquaredExponential(lengthscale=0.0), r"lengthscale=.*positive"),
        (lambda: k.SquaredExponential(lengthscale=[1.0, -2.0]), r"lengthscale=.*positive"),
        (lambda: k.Matern52(variance=-1.0), r"Matern52\(variance=.*positive"),
        (lambda: k.Matern52(variance=[1.0, 2.0]), "must be a number"),
        (lambda: k.Matern52(lengthscale=np.nan), "positive and finite"),
        (lambda: k.Matern52(lengthscale=np.inf), "positive and finite"),
        (lambda: k.Matern52(lengthscale="long"), "must hold numbers"),
        (lambda: k.Matern52(lengthscale=[[1.0]]), "a number or a list of numbers"),
        (lambda: k.RationalQuadratic(alpha=0.0), "alpha"),
        (lambda: k.Periodic(period=-1.0), "period"),
        (lambda: k.Linear(variance=0.0), "Linear"),
        (lambda: k.Constant(variance=-1.0), "Constant"),
        (lambda: -2.0 * k.Matern52(), "positive"),
        (lambda: k.Matern52() * "two", "combines kernels"),
        (lambda: k.Matern52() + None, "combines kernels"),
        (lambda: k.Sum(), "at least one kernel"),
        (lambda: k.Matern52(active_dims=[0, 0]), "different column numbers"),
        (lambda: k.Matern52(active_dims=[-1]), "0 or more"),
        (lambda: k.Matern52(active_dims=[]), "different column numbers"),
        (lambda: k.Matern52(active_dims=[1])([[1.0]]), "uses column 1"),
        (lambda: k.Matern52(lengthscale=[1.0, 2.0])([[1.0, 2.0, 3.0]]), "2 entries in `lengthscale` for 3"),
        (lambda: k.Periodic(period=[1.0, 2.0])([[1.0, 2.0, 3.0]]), "2 entries in `period` for 3"),
        (lambda: k.Matern52()([["1.5"]]), "must hold numbers"),
        (lambda: k.Matern52()(np.array([["2020-01-01"]], dtype="datetime64[D]")), "must hold numbers"),
        (lambda: k.Matern52()(np.ma.masked_greater([[1.0], [2.0]], 1.5)), "masked"),
        (lambda: k.Matern52()([1.0, 2.0]), r"x\[:, None\]"),
        (lambda: k.Matern52()([[[1.0]]]), r"shape \(N, D\)"),
        (lambda: k.Matern52()([[np.nan], [1.0], [np.inf]]), r"2 NaN or infinite values \(rows 0, 2\)"),
        (lambda: k.Matern52()([[1.0]], [[1.0, 2.0]]), "2 columns, but 1 are expected"),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_no_rows_give_an_empty_matrix():
    assert k.Matern52()(np.empty((0, 2)), np.ones((3, 2))).shape == (0, 3)
