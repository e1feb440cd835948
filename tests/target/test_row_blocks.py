"""Functions of rows, a block at a time."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from kosambi.target import row_blocks
from kosambi.target.row_blocks import map_over_rows


@pytest.mark.parametrize("size", [1, 7, 20, 21, 64])
def test_blocks_do_not_change_what_each_row_has(size):
    x, y = np.arange(21.0), np.arange(42.0).reshape(21, 2)

    @jax.jit
    def all_rows(x, y):
        return map_over_rows(lambda rows: (rows[0] ** 2, jnp.sum(rows[2], axis=1)), (x, None, y), size)

    square, total = all_rows(x, y)
    np.testing.assert_allclose(square, x**2)
    np.testing.assert_allclose(total, y.sum(axis=1))


def test_an_accelerator_takes_as_many_values_as_its_memory_holds(monkeypatch):
    assert row_blocks.values_at_once(1000) == 1000
    monkeypatch.setattr(row_blocks.jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(row_blocks, "_device_memory", lambda: 2**37)
    assert row_blocks.values_at_once(2**20) == 2**30
    # Where a value takes many numbers, or nothing is known of the memory, a fixed factor.
    assert row_blocks.values_at_once(2**17, is_quadrature=True) == 2**23
    monkeypatch.setattr(row_blocks, "_device_memory", lambda: 0)
    assert row_blocks.values_at_once(2**20) == 2**26
