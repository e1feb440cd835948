"""Every kernel: covariances of any inputs and any parameters are covariances, or are refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import kosambi as ko
from tests.properties.data import edges, inputs, rows, scales, seeds
from tests.properties.promises import assert_covariance, assert_numbers, outcome
from tests.tables import KERNELS

k = ko.kernels
names = st.sampled_from(list(KERNELS))
WITH_SCALES = {
    "SquaredExponential": lambda size, v: k.SquaredExponential(size, v),
    "Matern12": lambda size, v: k.Matern12(size, v),
    "Matern32": lambda size, v: k.Matern32(size, v),
    "Matern52": lambda size, v: k.Matern52(size, v),
    "RationalQuadratic": lambda size, v: k.RationalQuadratic(size, v, alpha=0.7),
    "Periodic": lambda size, v: k.Periodic(1.0, v, period=size),
    "Linear": lambda size, v: k.Linear(v),
    "Constant": lambda size, v: k.Constant(v),
    "Sum": lambda size, v: k.Matern52(size, v) + k.Linear(v) + v,
    "Product": lambda size, v: v * k.SquaredExponential(size) * k.Matern12(size),
}


def of_outputs(name, x):
    """Inputs as the kernel is for: of several outputs, column 1 has their number."""
    if name == "Coregionalization":
        x = x.copy()
        x[:, 1] = np.abs(np.round(x[:, 1])) % 2
    return x


@given(name=names, x=inputs(num_columns=st.just(3)))
def test_gram_matrices_are_covariances_and_know_their_diagonal(name, x):
    kernel, x = KERNELS[name], of_outputs(name, x)
    gram = kernel(x)
    assert_covariance(gram, len(x))
    diagonal = kernel.diagonal(x)
    assert_numbers(diagonal, (len(x),))
    np.testing.assert_allclose(np.diag(gram), diagonal, rtol=1e-12)
    np.testing.assert_array_equal(gram, kernel(x, x))


@given(name=names, x=inputs(num_columns=st.just(3)), num_rows=rows, seed=seeds)
def test_rows_do_not_know_of_each_other(name, x, num_rows, seed):
    kernel, rng = KERNELS[name], np.random.default_rng(seed)
    x, z = of_outputs(name, x), of_outputs(name, rng.normal(size=(num_rows, 3)))
    gram, order = kernel(x, z), rng.permutation(len(x))
    assert_numbers(gram, (len(x), num_rows))
    np.testing.assert_allclose(kernel(x[order], z), gram[order], rtol=1e-12, atol=1e-300)
    np.testing.assert_allclose(kernel(z, x), gram.T, rtol=1e-9, atol=1e-12 * max(1.0, np.abs(gram).max()))
    np.testing.assert_allclose(kernel(x[:1], z), gram[:1], rtol=1e-12, atol=1e-300)


@pytest.mark.parametrize("name", WITH_SCALES)
@given(x=inputs(num_columns=st.just(2), scale=scales), length=scales, variance=scales)
@settings(max_examples=max(3, settings.default.max_examples // 4))
def test_any_scale_gives_covariances_or_words(name, x, length, variance):
    kernel = WITH_SCALES[name](length, variance)
    gram = outcome(kernel, x)
    if gram is not None:
        assert_covariance(gram, len(x))
    diagonal = outcome(kernel.diagonal, x)
    if diagonal is not None:
        assert_numbers(diagonal, (len(x),))
        assert (diagonal >= 0).all()


@given(
    name=st.sampled_from(list(WITH_SCALES)),
    values=st.lists(edges, min_size=10, max_size=10),
    length=st.sampled_from([1e-150, 1e-9, 1.0, 1e150, 1e300]),
)
def test_numbers_at_the_edge_give_covariances_or_words(name, values, length):
    kernel, x = WITH_SCALES[name](length, 2.0), np.array(values).reshape(5, 2)
    gram = outcome(kernel, x)
    if gram is not None:
        assert_covariance(gram, 5)
        np.testing.assert_allclose(np.diag(gram), kernel.diagonal(x), rtol=1e-9)


@given(first=names, second=names, factor=st.floats(1e-3, 1e3), x=inputs(num_columns=st.just(3)))
def test_the_algebra_of_kernels_is_that_of_their_matrices(first, second, factor, x):
    assume("Coregionalization" not in (first, second))
    a, b = KERNELS[first], KERNELS[second]
    scale = np.abs(a(x)).max() * np.abs(b(x)).max() + np.abs(a(x)).max() + np.abs(b(x)).max()
    np.testing.assert_allclose((a + b)(x), a(x) + b(x), rtol=1e-12, atol=1e-13 * scale)
    np.testing.assert_allclose((a * b)(x), a(x) * b(x), rtol=1e-12, atol=1e-13 * scale)
    np.testing.assert_allclose((factor * a)(x), factor * a(x), rtol=1e-12)
    scaled = k.scaled(a, factor)
    np.testing.assert_allclose(scaled(x), factor * a(x), rtol=1e-12, atol=1e-13 * factor * scale)


PARAMETERS = {
    "lengthscale": lambda v: k.Matern52(lengthscale=v),
    "variance": lambda v: k.Matern52(variance=v),
    "period": lambda v: k.Periodic(period=v),
    "alpha": lambda v: k.RationalQuadratic(alpha=v),
    "slope": lambda v: k.Linear(variance=v),
    "constant": lambda v: k.Constant(v),
    "own variance": lambda v: k.Coregionalization([[1.0]], own_variance=[v]),
    "factor": lambda v: v * k.Matern52(),
}


@given(
    name=st.sampled_from(list(PARAMETERS)),
    value=st.one_of(
        st.floats(allow_nan=True, allow_infinity=True), st.sampled_from([None, "one", [], [[1.0]], True, 10**400, 1j])
    ),
)
def test_bad_input_parameters_are_positive_numbers_or_refused(name, value):
    kernel = outcome(PARAMETERS[name], value)
    if kernel is not None:
        gram = outcome(kernel, [[0.0], [0.0]])
        assert gram is None or np.isfinite(gram).all()


@given(
    dims=st.one_of(st.lists(st.integers(-3, 4), max_size=3), st.sampled_from([None, "a", 1.5, [0.5], [[0]], [True]])),
    num_columns=st.integers(1, 3),
)
def test_bad_input_active_columns_are_columns_or_refused(dims, num_columns):
    kernel = outcome(k.Matern32, 1.0, active_dims=dims)
    gram = None if kernel is None else outcome(kernel, np.ones((2, num_columns)))
    assert gram is None or np.isfinite(gram).all()
