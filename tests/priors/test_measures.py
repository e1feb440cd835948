from __future__ import annotations

import jax
import numpy as np
import pytest

import kosambi as ko
from kosambi.errors import InputError

m = ko.measures


def test_duplicates_keep_their_weight():
    kernel = ko.kernels.Matern52()
    doubled = ko.GaussianRandomElement(kernel, m.empirical([[0.0], [1.0], [1.0]]))
    merged = ko.GaussianRandomElement(kernel, m.points([[0.0], [1.0]], [1.0, 2.0]))
    x = np.linspace(-1.0, 2.0, 7)[:, None]
    np.testing.assert_allclose(doubled.covariance(x), merged.covariance(x), rtol=1e-14)


def test_subsample_takes_different_rows():
    x = np.arange(50.0)[:, None]
    taken = m.subsample(jax.random.key(0), x, 20)
    assert len(np.unique(taken.points)) == 20
    np.testing.assert_allclose(taken.weights, 0.05)
    again = m.subsample(jax.random.key(0), x, 20)
    np.testing.assert_array_equal(taken.points, again.points)


def test_mixture_of_points_merges_and_nests():
    a, b = m.empirical([[0.0], [1.0]]), m.empirical([[2.0]])
    nested = m.mixture([m.mixture([a, b], [1.0, 1.0]), b], [0.5, 0.5])
    np.testing.assert_array_equal(nested.points[:, 0], [0.0, 1.0, 2.0, 2.0])
    np.testing.assert_allclose(nested.weights, [0.125, 0.125, 0.25, 0.5])


def test_mixture_with_a_normal_part_adds_covariances():
    kernel = ko.kernels.SquaredExponential(0.7)
    points, normal = m.empirical([[0.0], [1.0]]), m.gaussian([0.0], [[2.0]])
    x = np.linspace(-2.0, 2.0, 5)[:, None]
    r = [ko.GaussianRandomElement(kernel, measure).covariance(x) for measure in (points, normal)]
    nested = m.mixture([m.mixture([normal, points], [1.0, 3.0]), points], [0.8, 0.2])
    mixed = ko.GaussianRandomElement(kernel, nested)
    np.testing.assert_allclose(mixed.covariance(x), 0.8 * r[0] + 0.2 * r[1], rtol=1e-13)
    np.testing.assert_allclose(mixed.variance(x), np.diag(mixed.covariance(x)), rtol=1e-13)


def test_points_drawn_from_a_normal_measure():
    mean, covariance = np.array([1.0, -2.0]), np.array([[2.0, 0.5], [0.5, 1.0]])
    points = m.gaussian(mean, covariance).sample(jax.random.key(1), 20_000).points
    np.testing.assert_allclose(points.mean(axis=0), mean, atol=3.3 * np.sqrt(2.0 / 20_000))
    np.testing.assert_allclose(np.cov(points.T), covariance, atol=3.3 * np.sqrt(8.0 / 20_000))


def test_measures_of_weight_zero_drop_out_and_huge_weights_do_not_overflow():
    points, normal = m.empirical([[0.0], [1.0]]), m.gaussian([0.0], [[1.0]])
    assert isinstance(m.mixture([points, normal], [1.0, 0.0]), m.PointMeasure)
    assert isinstance(m.mixture([points, normal], [0.0, 1.0]), m.MixtureMeasure)
    np.testing.assert_allclose(m.points([[0.0], [1.0]], [1e308, 1e308]).weights, 0.5)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: m.points([[0.0], [1.0]], [1.0, -0.5]), "not negative.*-0.5"),
        (lambda: m.points([[0.0], [1.0]], [0.0, 0.0]), "sum to a positive number"),
        (lambda: m.points([[0.0], [1.0]], [1.0, np.nan]), "finite"),
        (lambda: m.points([[0.0], [1.0]], [1.0]), r"shape \(2,\)"),
        (lambda: m.empirical([1.0, 2.0]), r"x\[:, None\]"),
        (lambda: m.empirical(np.empty((0, 2))), "empty"),
        (lambda: m.empirical([[np.nan]]), "finite"),
        (lambda: m.subsample(jax.random.key(0), [[1.0]], 2), "at most 1, the number of rows of x"),
        (lambda: m.subsample(jax.random.key(0), [[1.0]], 0), "at least 1"),
        (lambda: m.subsample(jax.random.key(0), [[1.0]], 1.5), "whole number"),
        (lambda: m.subsample(0, [[1.0]], 1), r"jax.random.key\(0\)"),
        (lambda: m.gaussian([0.0], [[-1.0]]), "positive definite"),
        (lambda: m.gaussian([0.0, 0.0], [[1.0, 0.5], [0.0, 1.0]]), "symmetric"),
        (lambda: m.gaussian([0.0], np.eye(2)), r"shape \(1, 1\)"),
        (lambda: m.gaussian(0.0, [[1.0]]), r"shape \(D,\)"),
        (lambda: m.mixture([]), "list of measures"),
        (lambda: m.mixture([m.empirical([[0.0]]), m.empirical([[0.0, 1.0]])]), "same columns"),
        (lambda: m.mixture([m.empirical([[0.0]])], [-1.0]), "not negative"),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(InputError, match=message):
        make()
