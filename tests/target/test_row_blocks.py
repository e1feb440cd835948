"""Functions of rows, a block at a time."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

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
