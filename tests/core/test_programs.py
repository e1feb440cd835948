"""Compiled programs are dropped before a process runs out of memory maps."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import kosambi as ko
from kosambi._core import programs
from kosambi.errors import ProcessLimitError


@pytest.fixture
def tally(monkeypatch):
    """Counts that no other test has a part in, and no leftover of a drop in the next test."""
    fresh = programs._Tally()
    monkeypatch.setattr(programs, "_tally", fresh)
    return fresh


def evaluate(num_columns):
    """A public call that compiles one program for each number of columns."""
    return ko.kernels.Matern52()(np.zeros((2, num_columns)))


def test_programs_are_counted(tally):
    evaluate(11)
    assert tally.since_look >= 1
    before = tally.since_look
    evaluate(11)
    assert tally.since_look == before


def test_few_programs_are_kept(tally, monkeypatch):
    monkeypatch.setattr(programs, "LOOK_EVERY", 1)
    evaluate(12)
    evaluate(12)
    assert tally.drops == 0
    assert tally.since_drop >= 1


@pytest.mark.slow
def test_many_maps_are_dropped_and_results_stay(tally, monkeypatch):
    monkeypatch.setattr(programs, "LOOK_EVERY", 1)
    monkeypatch.setattr(programs, "MAX_MAPS", 0)
    monkeypatch.setattr(programs, "count_maps", lambda: 10 + tally.since_drop)
    tally.floor = 10
    first = evaluate(13)
    assert np.array_equal(evaluate(13), first)
    assert tally.drops == 1
    assert tally.since_drop >= 1


@pytest.mark.slow
def test_programs_are_dropped_where_maps_cannot_be_counted(tally, monkeypatch):
    monkeypatch.setattr(programs, "LOOK_EVERY", 1)
    monkeypatch.setattr(programs, "MAX_PROGRAMS", 2)
    monkeypatch.setattr(programs, "count_maps", lambda: None)
    for num_columns in (14, 15, 16, 17):
        evaluate(num_columns)
    assert tally.drops == 1


def test_a_full_process_is_refused_before_the_compiler_crashes(tally, monkeypatch):
    monkeypatch.setattr(programs, "LOOK_EVERY", 1)
    monkeypatch.setattr(programs, "count_maps", lambda: 64_000)
    monkeypatch.setattr(programs, "most_maps", lambda: 65_530)
    tally.floor = 64_000
    evaluate(18)
    for _ in range(2):
        with pytest.raises(ProcessLimitError, match=r"64000 memory maps.*allows 65530"):
            evaluate(18)


def test_nothing_is_dropped_inside_a_trace(tally, monkeypatch):
    monkeypatch.setattr(programs, "LOOK_EVERY", 0)
    monkeypatch.setattr(programs, "MAX_MAPS", -(10**9))

    def traced(scale):
        return scale * np.sum(evaluate(19))

    assert float(jax.jit(traced)(2.0)) == pytest.approx(2 * 4)
    assert tally.drops == 0


def test_dropping_frees_memory_maps(tally):
    if programs.count_maps() is None:
        pytest.skip("this system does not say how many memory maps there are")
    for num_columns in range(20, 40):
        evaluate(num_columns)
    full = programs.count_maps()
    programs.drop()
    assert programs.count_maps() < full
    assert tally.floor == programs.count_maps()
