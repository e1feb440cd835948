"""Gram matrices made of tiles are those made in one piece."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import kosambi as ko
from kosambi.kernels import tiles

KERNELS = {
    "Matern52": ko.kernels.Matern52(lengthscale=np.array([0.5, 2.0])),
    "sum": ko.kernels.Linear() + 0.5 * ko.kernels.SquaredExponential(),
}


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("shape", [(1, 1), (30, 256), (257, 5), (300, 600)])
def test_tiles_are_parts_of_the_whole(name, shape, rng):
    kernel = KERNELS[name]
    x, z = rng.normal(size=(shape[0], 2)), rng.normal(size=(shape[1], 2))
    with jax.enable_x64(True):
        whole = np.asarray(tiles._pairwise(kernel, x, z))
        variances = np.asarray(tiles._pointwise(kernel, x))
    np.testing.assert_allclose(kernel(x, z), whole, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(kernel.diagonal(x), variances, rtol=1e-12)
    assert kernel(x, z).shape == shape


def test_other_numbers_of_rows_compile_nothing(caplog, rng):
    prior = ko.GaussianProcess(ko.kernels.Matern32())
    prior.covariance(rng.normal(size=(9, 4))), prior.variance(rng.normal(size=(9, 4)))
    with jax.log_compiles(True), caplog.at_level("WARNING"):
        for number in (3, 70, 301):
            x = rng.normal(size=(number, 4))
            prior.covariance(x), prior.covariance(x[:2], x), prior.variance(x)
    assert not [record for record in caplog.records if "XLA compilation" in record.getMessage()]


def test_many_rows_are_taken_in_one_piece(monkeypatch, rng):
    monkeypatch.setattr(tiles, "MOST_ROWS", 10)
    x = rng.normal(size=(11, 1))
    np.testing.assert_allclose(ko.kernels.Matern32()(x)[:10, :10], ko.kernels.Matern32()(x[:10]), rtol=1e-12)


def test_no_rows():
    assert ko.kernels.Matern32()(np.empty((0, 2)), np.ones((3, 2))).shape == (0, 3)
    assert ko.kernels.Matern32().diagonal(np.empty((0, 2))).shape == (0,)
