"""Processes that are killed and started again, as threads: whatever each had written, they end as if nothing was."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import kosambi as ko
from kosambi._core import checkpoints
from kosambi._core.journal import Book
from kosambi.errors import FileError, HostError, InputError
from kosambi.sources import ArraySource, BlockSource, SharedSource, base, memory, passes, survey, sweeps
from tests.parallel.threads import in_threads

RNG = np.random.default_rng(7)
N = 600
X = RNG.normal(size=(N, 2))
F = np.sin(2.0 * X[:, 0]) + X[:, 1]
LABELS = (RNG.logistic(size=N) < F).astype(float)
KERNEL = ko.kernels.Matern52(lengthscale=1.5)
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


class Stop(BaseException):
    """Comes at a moment that a test has chosen."""


@pytest.fixture
def power(monkeypatch):
    """Blocks of 64 rows, each an answer that is written at once; at `cut(process, answer)` nobody writes any more."""
    monkeypatch.setattr(memory, "AT_ONCE", 64)
    monkeypatch.setattr(memory, "_FEWEST_ROWS", 64)
    monkeypatch.setattr(passes, "AT_ONCE", 64)
    monkeypatch.setattr(sweeps, "STRETCH", 0.0)

    class Power:
        process, answer, is_on, here = None, 0, True, threading.local()
        counts: dict[int, int]

        def cut(self, process=None, answer=0):
            self.process, self.answer, self.is_on, self.counts = process, answer, True, {0: 0, 1: 0}

    plug, add, flush = Power(), Book.add, checkpoints._Folder.flush

    def counted(book, *arguments):
        index = plug.here.index
        plug.counts[index] += 1
        if (index, plug.counts[index]) == (plug.process, plug.answer):
            plug.is_on = False
            raise Stop
        add(book, *arguments)

    monkeypatch.setattr(Book, "add", counted)
    monkeypatch.setattr(checkpoints._Folder, "flush", lambda folder: flush(folder) if plug.is_on else None)
    return plug


def fitted(power, place, likelihood="gaussian"):
    """The draws and predictions of two processes, or what ended them."""
    y = LABELS if likelihood == "poisson" else F

    def work(group):
        power.here.index = group.index
        options = {"kernel": KERNEL, "hyperparameters": None, "n_inducing": 6, "n_samples": 8, "progress": False}
        model = ko.ProjectedLangevinRegressor(likelihood, **options)
        checkpoint = None if place is None else ko.Checkpoint(place, every=1e-9)
        model.fit(SharedSource(ArraySource(X, y), group), checkpoint=checkpoint)
        return np.asarray(model.posterior_.particles.whitened), model.predict(X[:9]), model.report_.stream.passes

    return in_threads(work)


def is_same(first, second):
    return all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))


def check(power, place, likelihood, number):
    power.cut()
    truth = fitted(power, None, likelihood)
    assert is_same(truth[0][:2], truth[1][:2])
    power.cut()
    assert all(is_same(*pair) for pair in zip(fitted(power, place, likelihood), truth, strict=True))
    assert not place.exists()
    total = min(power.counts.values())
    for answer in np.linspace(1, total, number + 2).astype(int)[1:-1]:
        for process in (0, 1):
            power.cut(process, int(answer))
            ended = fitted(power, place, likelihood)
            assert isinstance(ended[process], Stop)
            assert isinstance(ended[1 - process], HostError)
            assert (place / f"process-{1 - process}" / "about.json").exists()
            power.cut()
            again = fitted(power, place, likelihood)
            assert all(is_same(*pair) for pair in zip(again, truth, strict=True)), (answer, process)
            # Nothing is found again but what was cut off.
            assert power.counts[process] <= total + 2 - (answer - 1)
            assert not place.exists()


def test_processes_that_have_written_unequally_end_as_if_nothing_was(power, tmp_path):
    check(power, tmp_path / "fit", "gaussian", 1)


@pytest.mark.slow
@pytest.mark.parametrize("likelihood", ["poisson", "gaussian"])
def test_cut_off_at_any_answer_of_any_process_they_end_as_if_nothing_was(power, tmp_path, likelihood):
    check(power, tmp_path / "fit", likelihood, 20)


def test_a_process_that_has_lost_its_folder_reads_again_and_ends_the_same(power, tmp_path):
    place = tmp_path / "fit"
    power.cut()
    truth = fitted(power, None)
    power.cut(0, 9)
    fitted(power, place)
    power.cut()
    ko.Checkpoint(place / "process-1").remove()
    assert all(is_same(*pair) for pair in zip(fitted(power, place), truth, strict=True))


def test_another_number_of_processes_is_refused(power, tmp_path):
    place = tmp_path / "fit"
    power.cut(0, 9)
    fitted(power, place)
    power.cut()
    model = ko.ProjectedLangevinRegressor(kernel=KERNEL, hyperparameters=None, n_inducing=6)
    with pytest.raises(FileError, match="the checkpoint of a fit in several processes"):
        model.fit(ArraySource(X, F), checkpoint=place)

    def work(group):
        power.here.index = min(group.index, 1)
        return model.fit(SharedSource(ArraySource(X, F), group), checkpoint=place)

    for error in in_threads(work, 3):
        assert isinstance(error, FileError)
        assert "the checkpoint of another fit" in str(error)
    ko.Checkpoint(place / "process-0").remove()
    ko.Checkpoint(place / "process-1").remove()
    assert not place.exists()
    with checkpoints.resumable(ko.Checkpoint(place, stays=True), {}):
        pass
    for error in in_threads(work, 2):
        assert isinstance(error, FileError)
        assert "a fit in one process, and this one has 2" in str(error)


@pytest.mark.parametrize(
    ("x", "words"),
    [
        (np.ones((300, 3)), r"row 300 \(counted from 0; block 1\): x has 3 columns from here on, and had 2 before"),
        (np.ones((300, 2), dtype=np.float32), r"row 300 .*`x` has the dtype float32 from here on, and had float64"),
    ],
)
def test_columns_that_change_where_another_process_reads_are_refused_with_their_place(x, words, monkeypatch):
    monkeypatch.setattr(base, "IN_TURN", 300)
    source = BlockSource(lambda: iter([(X[:300], F[:300]), (x, F[300:])]))
    for error in in_threads(lambda group: survey(SharedSource(source, group))):
        assert isinstance(error, InputError)
        with pytest.raises(InputError, match=words):
            raise error
