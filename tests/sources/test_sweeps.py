"""Passes that are taken up again: the same sums, whatever was known; other rows before the mark are refused."""

from __future__ import annotations

import numpy as np
import pytest

from kosambi._core.checkpoints import Checkpoint, resumable
from kosambi.errors import InputError
from kosambi.sources import ArraySource, Stream, passes, survey, sweeps
from kosambi.sources.passes import Mark
from kosambi.sources.tally import Tally

RNG = np.random.default_rng(1)
N = 150_000
X, Y = RNG.normal(size=(N, 2)), RNG.normal(size=N)
WEIGHTS = RNG.uniform(size=N)


class Stop(BaseException):
    pass


def marked(x, rows):
    """A pass of 8192-row blocks that was left after `rows` of them."""
    mark = Mark()
    for block in Stream(ArraySource(x, Y[: len(x)])).blocks(8192, mark):
        if block.rows[-1] + 1 >= rows:
            return mark
    raise AssertionError


def test_a_pass_goes_on_behind_its_mark_and_ends_with_the_same_digests():
    whole = Stream(ArraySource(X, Y))
    expected = [block.rows[0] for block in whole.blocks(8192)]
    for number in (1, 2):
        mark = marked(X, 65536 * number)
        stream = Stream(ArraySource(X, Y))
        assert [block.rows[0] for block in stream.blocks(8192, mark)] == expected[8 * number :]
        assert stream._digests == whole._digests
        assert stream.num_rows == N


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda x: x[:80_000], "80,000 rows where an earlier run had read 131,072"),
        (lambda x: np.where(np.arange(len(x))[:, None] == 70_000, 5.0, x), "in rows 65,536 to 131,071"),
        (lambda x: np.concatenate([x[1:2], x[:1], x[2:]]), "another order, in rows 0 to 65,535"),
    ],
)
def test_other_rows_before_a_mark_are_refused(change, words):
    mark, x = marked(X, 131_072), change(X)
    stream = Stream(ArraySource(x, Y[: len(x)]))
    with pytest.raises(InputError, match=f"which an earlier run made: .*{words}.*remove the checkpoint"):
        for _ in stream.blocks(8192, mark):
            pass


def test_a_first_pass_that_is_interrupted_finds_the_same(tmp_path, monkeypatch):
    """After each of its blocks, with a sample that is cut on the way."""
    monkeypatch.setattr(sweeps, "STRETCH", 0.0)
    monkeypatch.setattr(passes, "AT_ONCE", 512)
    source = ArraySource(X[:3000], Y[:3000], WEIGHTS[:3000])
    truth, add = survey(source, sample_rows=200, block_rows=512), Tally.add

    for most in range(1, 7):
        count = 0

        def counted(tally, block, most=most):
            nonlocal count
            if count == most - 1:
                raise Stop
            add(tally, block)
            count += 1

        place = Checkpoint(tmp_path / "fit", every=1e-9)
        with monkeypatch.context() as patched:
            patched.setattr(Tally, "add", counted)
            with pytest.raises(Stop), resumable(place, {}):
                survey(source, sample_rows=200, block_rows=512)
        with resumable(place, {}) as book:
            found = survey(source, sample_rows=200, block_rows=512)
        assert book.recalled == most - 1
        for name in ("x_mean", "x_scale", "lowest", "highest", "total_weight", "y_mean", "y_scale", "num_counted"):
            np.testing.assert_array_equal(getattr(found, name), getattr(truth, name))
        for one, other in zip(vars(found.sample).values(), vars(truth.sample).values(), strict=True):
            np.testing.assert_array_equal(one, other)
        assert (found.stream.num_rows, found.stream.passes) == (3000, 1)
