"""Several outputs: cells in and out of rows, with gaps, and joint predictions that are covariances."""

from __future__ import annotations

import jax
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import kosambi as ko
from tests.properties.data import columns, inputs, keys, rows, seeds
from tests.properties.promises import assert_covariance, assert_numbers, outcome

few = settings(max_examples=max(2, settings.default.max_examples // 6))
KERNEL = ko.kernels.Coregionalization([[1.0], [0.5]], own_variance=[0.1, 0.2], column=1) * ko.kernels.Matern52(
    active_dims=[0]
)


@st.composite
def tables(draw, num_rows, num_outputs):
    """(N, P), with gaps."""
    rng = np.random.default_rng(draw(seeds))
    y = rng.normal(size=(num_rows, num_outputs))
    y[rng.uniform(size=y.shape) < draw(st.sampled_from([0.0, 0.4, 1.0]))] = np.nan
    return y


@given(n=rows, d=columns, outputs=st.sampled_from([1, 2, 3]), data=st.data())
def test_cells_are_those_that_were_observed(n, d, outputs, data):
    x = data.draw(inputs(num_rows=st.just(n), num_columns=st.just(d)))
    y = data.draw(tables(n, outputs))
    cells = outcome(ko.outputs.stack, x, y)
    if cells is None:
        assert np.isnan(y).all()
        return
    again = np.full(y.shape, np.nan)
    again[cells.row, cells.output] = cells.y
    np.testing.assert_array_equal(again, y)
    np.testing.assert_array_equal(cells.x[:, :-1], x[cells.row])
    every = ko.outputs.every_cell(x, outputs)
    assert_numbers(every, (n * outputs, d + 1))
    np.testing.assert_array_equal(every[::outputs, :-1], x)


@given(n=st.sampled_from([2, 5]), data=st.data(), key=keys)
@few
def test_bad_input_posteriors_of_outputs(n, data, key):
    x, y = data.draw(inputs(num_rows=st.just(n), num_columns=st.just(1))), data.draw(tables(n, 2))
    posterior = outcome(ko.infer, key, KERNEL, ko.likelihoods.Gaussian(0.3), x, y, num_inducing="all", num_particles=2)
    if posterior is None:
        assert np.isnan(y).all()
        return
    new = np.array([[-0.5], [0.3]])
    joint = ko.outputs.predict(posterior, new)
    assert_numbers(joint.mean, (2, 2))
    for covariance in joint.covariance:
        assert_covariance(covariance, 2)
    assert_numbers(joint.log_density(np.array([[0.1, np.nan], [np.nan, 0.2]])), (2,))


@given(
    x=st.sampled_from([[[0.0], [1.0]], [[0.0]], [], None, "a", [[0.0], [np.nan]]]),
    y=st.sampled_from(
        [
            [[1.0, 2.0], [3.0, np.nan]],
            [[1.0, 2.0], [3.0]],
            [[1.0, np.inf], [1.0, 1.0]],
            [[np.nan] * 2] * 2,
            None,
            "a",
            np.zeros((2, 2, 2)),
            np.zeros((2, 0)),
            [["a", "b"], ["c", "d"]],
        ]
    ),
    number=st.sampled_from([0, -1, 1.5, None, "a", 2]),
)
def test_bad_input_of_any_sort(x, y, number):
    outcome(ko.outputs.stack, x, y)
    outcome(ko.outputs.every_cell, x, number)
    outcome(ko.infer, jax.random.key(0), KERNEL, ko.likelihoods.Gaussian(0.3), x, y, num_particles=2)
    outcome(ko.fit_hyperparameters, jax.random.key(0), KERNEL, ko.likelihoods.Gaussian(0.3), x, y, max_iterations=2)
