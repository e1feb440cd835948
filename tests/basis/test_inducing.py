from __future__ import annotations

import jax
import numpy as np
import pytest

import kosambi as ko
from kosambi.errors import InputError, TruncationWarning

i = ko.inducing
k = ko.kernels


def plain_pivoted_cholesky(gram_column, diagonal, num_inducing):
    """The textbook loop in NumPy: indices and the largest residual before each."""
    residual, rows, indices, largest = diagonal.copy(), [], [], []
    for _ in range(num_inducing):
        pivot = int(np.argmax(residual))
        largest.append(residual[pivot])
        column = gram_column(pivot)
        for row in rows:
            column = column - row[pivot] * row
        column = column / np.sqrt(residual[pivot])
        rows.append(column)
        indices.append(pivot)
        residual = residual - column**2
        residual[indices] = -np.inf
    return np.array(indices), np.array(largest)


@pytest.mark.parametrize("columns", [1, 3, 8])
@pytest.mark.parametrize("seed", range(5))
def test_greedy_is_a_plain_pivoted_cholesky(columns, seed):
    x = np.random.default_rng(seed).normal(size=(400, columns))
    kernel = k.SquaredExponential(0.5 * np.sqrt(columns), 1.7)
    column = lambda j: 1.7 * np.exp(-0.5 * np.sum((x - x[j]) ** 2, axis=1) / (0.25 * columns))
    expected, largest = plain_pivoted_cholesky(column, np.full(400, 1.7), 40)
    reliable = int(np.sum(largest > 1e-8 * 1.7))
    path = i.greedy_path(kernel, x, 40)
    count = min(reliable, len(path.indices))
    assert count >= 8
    assert set(path.indices[:count]) == set(expected[:count])
    np.testing.assert_array_equal(path.indices[:count], expected[:count])
    # What is left is the diagonal of the Schur complement.
    z = x[path.indices[:6]]
    left = 1.7 - np.sum(np.linalg.solve(kernel(z), kernel(z, x)) * kernel(z, x), axis=0)
    np.testing.assert_allclose(path.residual_trace[5], left.sum(), rtol=1e-8)
    np.testing.assert_allclose(path.largest_residual[5], left.max(), rtol=1e-6)
    assert path.prior_trace == pytest.approx(1.7 * 400)


def test_greedy_is_deterministic_and_ties_go_to_the_lowest_index():
    x = np.array([[0.0], [5.0], [-5.0], [5.0], [10.0]])
    np.testing.assert_array_equal(i.greedy_variance(k.Matern52(0.1), x, 3), [0, 1, 2])


def test_greedy_takes_a_prior_for_its_kernel(curve_prior, curve_inputs):
    np.testing.assert_array_equal(
        i.greedy_variance(curve_prior, curve_inputs, 9), i.greedy_variance(curve_prior.kernel, curve_inputs, 9)
    )


def test_greedy_stops_when_nothing_is_left_and_says_so(rng):
    x = np.repeat(rng.normal(size=(5, 2)), 4, axis=0)
    with pytest.warns(TruncationWarning, match="5 inducing points instead of 12"):
        indices = i.greedy_variance(k.Matern52(), x, 12)
    assert len(np.unique(x[indices], axis=0)) == 5
    with pytest.warns(TruncationWarning, match="2 inducing points instead of 6"):
        i.greedy_variance(k.Linear(), rng.normal(size=(50, 2)), 6)


def test_greedy_goes_on_while_the_residual_is_above_the_limit(rng):
    """Fewer than asked for only when the largest residual is below 1e-12 of the largest variance."""
    x = rng.uniform(-3.0, 3.0, (300, 1))
    path = i.greedy_path(k.SquaredExponential(0.8, 2.0), x, 100)
    assert path.stopped_early
    assert path.largest_residual[-1] <= 1e-12 * 2.0 < path.largest_residual[-2]
    assert len(np.unique(path.indices)) == len(path.indices)


@pytest.mark.parametrize("choose", [i.uniform, i.kmeans], ids=["uniform", "kmeans"])
def test_random_choices_never_take_a_point_twice(choose, rng):
    x = np.repeat(rng.normal(size=(30, 2)), 3, axis=0)
    indices = choose(jax.random.key(0), x, 20)
    assert indices.shape == (20,)
    assert len(np.unique(x[indices], axis=0)) == 20
    np.testing.assert_array_equal(indices, choose(jax.random.key(0), x, 20))
    assert set(indices) != set(choose(jax.random.key(1), x, 20))
    with pytest.warns(TruncationWarning, match="30 inducing points instead of 40"):
        assert len(choose(jax.random.key(0), x, 40)) == 30


def test_uniform_is_uniform():
    x = np.arange(10.0)[:, None]
    counts = np.zeros(10)
    for seed in range(300):
        counts[i.uniform(jax.random.key(seed), x, 3)] += 1
    # Each count is binomial(300, 0.3); 4.5 standard deviations.
    assert np.all(np.abs(counts - 90) < 4.5 * np.sqrt(300 * 0.3 * 0.7))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: i.greedy_variance(k.Matern52(), np.ones((3, 1)), 4), "at most 3, the number of rows of x"),
        (lambda: i.uniform(jax.random.key(0), np.ones((3, 1)), 4), "at most 3"),
        (lambda: i.kmeans(jax.random.key(0), np.ones((3, 1)), 4), "at most 3"),
        (lambda: i.greedy_variance(k.Matern52(), np.ones((3, 1)), 0), "at least 1"),
        (lambda: i.greedy_variance(k.Matern52(), np.ones((3, 1)), 2.0), "whole number"),
        (lambda: i.greedy_variance(k.Matern52(), [1.0, 2.0], 1), r"x\[:, None\]"),
        (lambda: i.greedy_variance(k.Matern52(), [[np.inf]], 1), "finite"),
        (lambda: i.greedy_variance(k.Matern52(), np.empty((0, 1)), 1), "empty"),
        (lambda: i.greedy_variance("Matern52", np.ones((3, 1)), 1), "kernel or a prior"),
        (lambda: i.greedy_variance(k.Linear(), np.zeros((3, 1)), 1), "no input at which the kernel is positive"),
        (lambda: i.uniform(0, np.ones((3, 1)), 1), r"jax.random.key\(0\)"),
        (lambda: jax.jit(lambda x: i.greedy_variance(k.Matern52(), x, 1))(np.ones((3, 1))), "concrete arrays"),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(InputError, match=message):
        make()
