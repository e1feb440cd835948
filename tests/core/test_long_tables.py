"""Long tables: which rows differ, their order, tables that nobody may write to."""

from __future__ import annotations

import numpy as np
import pytest

from kosambi._core import long_tables
from kosambi._core.checks import as_float_array
from kosambi._core.long_tables import column_groups, distinct_rows, frozen, row_blocks, sorted_by_values

RNG = np.random.default_rng(0)
TABLES = {
    "copies": RNG.integers(0, 4, size=(500, 3)).astype(float),
    "different": RNG.normal(size=(300, 2)),
    "signs of zero": np.array([[0.0, 1.0], [-0.0, 1.0], [0.0, -1.0]]),
    "one": np.ones((1, 2)),
    "equal": np.ones((40, 2)),
}


@pytest.mark.parametrize("x", TABLES.values(), ids=list(TABLES))
@pytest.mark.parametrize("agree", [False, True], ids=["hashes", "hashes that agree by chance"])
def test_distinct_rows_are_those_of_numpy(x, agree, monkeypatch):
    if agree:
        monkeypatch.setattr(long_tables, "row_hashes", lambda x: np.zeros(len(x), dtype=np.uint64))
    _, first, counts = np.unique(x, axis=0, return_index=True, return_counts=True)
    order = np.argsort(first)
    found = distinct_rows(x)
    np.testing.assert_array_equal(found[0], first[order])
    np.testing.assert_array_equal(found[1], counts[order])


@pytest.mark.parametrize("x", TABLES.values(), ids=list(TABLES))
def test_the_order_of_rows_is_that_of_numpy(x):
    y = RNG.integers(0, 2, size=len(x)).astype(float)
    table = np.column_stack([x, y])
    distinct, where = np.unique(table, axis=0, return_inverse=True)
    order, number = sorted_by_values(x, y)
    np.testing.assert_array_equal(number, where.ravel())
    np.testing.assert_array_equal(table[order], distinct[np.sort(where.ravel())])


def test_blocks_and_groups_cover_everything_once():
    for size in (1, 2, 5, 8, 9, 10, 16, 17, 54):
        assert [i for part in row_blocks(size, 4) for i in range(part.start, part.stop)] == list(range(size))
        groups = list(column_groups(size))
        assert [i for part in groups for i in range(part.start, part.stop)] == list(range(size))
        assert size == 1 or min(part.stop - part.start for part in groups) >= 2


def test_sums_down_some_columns_have_the_digits_of_all():
    x = RNG.normal(size=(5000, 21)) * np.logspace(-5, 5, 21)
    together = np.std(x, axis=0)
    np.testing.assert_array_equal(np.concatenate([np.std(x[:, part], axis=0) for part in column_groups(21)]), together)


def test_a_frozen_array_is_kept_and_any_other_copied():
    whole = RNG.normal(size=(9, 2))
    assert as_float_array("x", whole) is not whole
    view = whole[:4]
    view.setflags(write=False)
    # Somebody may still write to what it is a view of.
    assert not np.shares_memory(as_float_array("x", view), whole)
    kept = frozen(whole[:4])
    assert as_float_array("x", kept) is kept
    with pytest.raises(ValueError, match="read-only"):
        whole[0, 0] = 1.0
    assert as_float_array("x", frozen(np.ones((3, 2))[:, :1])).flags.c_contiguous
    assert as_float_array("x", frozen(np.ones(3, dtype=np.float32))).dtype == np.float64
