"""A journal and its folder: the same answers again, whole files only, and nothing of another computation."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest

import kosambi as ko
from kosambi._core.checkpoints import described, resumable
from kosambi._core.journal import Answer, Book, Scope, State, Steps, entered, recalled
from kosambi._core.records import read_records, write_records
from kosambi._core.threads import in_threads
from kosambi.errors import CheckpointWarning, FileError, InputError


class Sum:
    """Adds what it is given; the next sum follows from its memory."""

    def __init__(self):
        self.total, self.calls = np.zeros(3), 0

    def add(self, number):
        self.calls += 1
        self.total = self.total + number
        return (float(self.total[0]),)

    def memory(self):
        return [self.total]

    def recall(self, memory):
        (self.total,) = memory


def walked(adder, numbers):
    steps = Steps("sums", adder)
    return [float(steps.next(lambda number=number: adder.add(number), number)[0]) for number in numbers]


def test_answers_are_known_again_and_the_memory_is_that_of_the_last(tmp_path):
    place = ko.Checkpoint(tmp_path / "here", every=1e9, stays=True)
    first, second = Sum(), Sum()
    with contextlib.suppress(KeyboardInterrupt), resumable(place, {}):
        walked(first, [1.0, 2.0, 3.0])
        raise KeyboardInterrupt
    with resumable(place, {}) as book:
        assert walked(second, [1.0, 2.0, 3.0, 4.0]) == [1.0, 3.0, 6.0, 10.0]
    assert (first.calls, second.calls, book.recalled) == (3, 1, 3)
    assert place.is_there
    place.remove()
    assert not place.path.exists()


def test_answers_after_the_last_memory_do_not_count():
    """As where a process was killed between the writing of the two."""
    answers = {"/sums.0": [Answer("", (np.asarray(1.0),), True)] * 3, "/free.0": [Answer("", (), False)] * 3}
    assert [len(every) for every in Book(answers, {"/sums.0": State(2, [])}).answers.values()] == [2, 3]
    assert [len(every) for every in Book(answers).answers.values()] == [0, 3]


def test_answers_that_are_found_once_more_count_in_place_of_those_without_a_memory(tmp_path):
    """Killed between the two writings, taken up, killed again, taken up again."""
    place, old = ko.Checkpoint(tmp_path / "here", every=1e9), {}
    for number, recalled_then in ((2, 0), (3, 2), (4, 2), (5, 4)):
        with contextlib.suppress(KeyboardInterrupt), resumable(place, {}) as book:
            assert walked(Sum(), [1.0] * number) == list(np.arange(1.0, number + 1))
            raise KeyboardInterrupt
        assert book.recalled == recalled_then
        for path in place.path.glob("state-*"):
            if number == 3:
                path.write_bytes(old[path])
            old[path] = path.read_bytes()


def test_what_is_refused_at_the_first_attempt_leaves_nothing(tmp_path):
    def refused(words):
        recalled("square", lambda: (4.0,))
        raise InputError(words)

    place = ko.Checkpoint(tmp_path / "here", stays=True)
    with pytest.raises(InputError), resumable(place, {}):
        refused("not these rows")
    assert not place.path.exists()
    with resumable(place, {}):
        recalled("square", lambda: (4.0,))
    with pytest.raises(InputError) as caught, resumable(place, {}):
        refused("other rows now")
    assert place.is_there
    assert "is kept in" in caught.value.__notes__[0]


def test_another_question_is_refused(tmp_path):
    place = ko.Checkpoint(tmp_path / "here", stays=True)
    with resumable(place, {}):
        recalled("square", lambda: (4.0,), 2.0)
    with pytest.raises(FileError, match="has not gone the same way"), resumable(place, {}):
        recalled("square", lambda: (9.0,), 3.0)


def test_places_do_not_depend_on_threads_nor_on_what_is_known():
    def one(number):
        return float(recalled("inner", lambda: (np.sqrt(number),), number)[0])

    book = Book()
    for known in (0, 8):
        with entered(Scope(book)):
            # What is inside a known answer is not asked.
            recalled("outer", lambda: (sum(in_threads(one, [1.0, 4.0])),))
            assert in_threads(one, [float(i) for i in range(7)]) == [np.sqrt(i) for i in range(7)]
        assert book.recalled == known
        book = Book({path: list(every) for path, every in _whole(book).items()})


def _whole(book):
    answers = {}
    for path, _, answer in book.new:
        answers.setdefault(path, []).append(answer)
    return answers


def test_without_a_checkpoint_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with resumable(None, {}) as book:
        assert recalled("square", lambda: (4.0,)) == (4.0,)
    assert book is None
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("change", "message"), [({"n": "2"}, r"n \(1 then, 2 now\)"), ({"m": "3"}, r"m \(none then, 3 now\)")]
)
def test_what_differs_is_said(tmp_path, change, message):
    with pytest.raises(ZeroDivisionError), resumable(tmp_path / "here", {"n": "1"}):
        raise ZeroDivisionError
    with pytest.raises(FileError, match=message), resumable(tmp_path / "here", {"n": "1", **change}):
        pass


def test_other_versions_are_refused(tmp_path):
    with pytest.raises(ZeroDivisionError), resumable(tmp_path / "here", {}):
        raise ZeroDivisionError
    about = tmp_path / "here" / "about.json"
    content = json.loads(about.read_text())
    content["about"]["version of numpy"] = "0.1"
    about.write_text(json.dumps(content))
    with pytest.raises(FileError, match=r"version of numpy \(0.1 then"), resumable(tmp_path / "here", {}):
        pass


def test_a_folder_of_others_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(FileError, match="not part of a checkpoint"), resumable(tmp_path, {}):
        pass
    with pytest.raises(FileError, match="not part of a checkpoint"):
        ko.Checkpoint(tmp_path).remove()
    assert (tmp_path / "thesis.tex").read_text() == "precious"


def test_a_folder_in_use_is_refused(tmp_path):
    with resumable(tmp_path / "here", {}), pytest.raises(FileError, match="in use"), resumable(tmp_path / "here", {}):
        pass


def test_damage_is_noticed(tmp_path):
    write_records(tmp_path / "one", [("name", [np.arange(5.0)])])
    content = bytearray((tmp_path / "one").read_bytes())
    for at in (0, 30, len(content) - 40, len(content) - 1):
        damaged = bytes(content[:at]) + bytes([content[at] ^ 1]) + bytes(content[at + 1 :])
        (tmp_path / "two").write_bytes(damaged)
        with pytest.raises(FileError, match="damaged"):
            read_records(tmp_path / "two")
    (tmp_path / "two").write_bytes(bytes(content[:-1]))
    with pytest.raises(FileError, match="damaged"):
        read_records(tmp_path / "two")


def test_records_keep_types_values_and_order(tmp_path):
    parts = [np.asfortranarray(np.arange(6.0).reshape(2, 3)), np.array([True]), np.zeros((0, 2), np.int32), None]
    parts += [np.float32(1.5), np.array([np.nan, -0.0, np.inf])]
    write_records(tmp_path / "one", [("a", parts), ("b", [])])
    (name, found), last = read_records(tmp_path / "one")
    assert (name, last) == ("a", ("b", ()))
    for part, other in zip(parts, found, strict=True):
        if part is None:
            assert other is None
            continue
        assert (np.asarray(part).dtype, np.shape(part)) == (other.dtype, other.shape)
        assert np.asarray(part).tobytes() == other.tobytes()
    assert found[0].flags.f_contiguous
    with pytest.raises(TypeError, match="numbers"):
        write_records(tmp_path / "one", [("a", [np.array([object()])])])


def test_a_full_disk_is_warned_of_and_the_work_goes_on(tmp_path, monkeypatch):
    def full(*arguments):
        raise OSError(28, "No space left on device")

    with resumable(ko.Checkpoint(tmp_path / "here", every=1e-9), {}):
        monkeypatch.setattr("kosambi._core.checkpoints.write_records", full)
        with pytest.warns(CheckpointWarning, match="No space left"):
            assert recalled("square", lambda: (4.0,))[0] == 4.0


@pytest.mark.slow
def test_digests_are_the_same_in_every_process():
    code = """
import kosambi as ko
from kosambi._core.checkpoints import described
print(described(ko.kernels.Matern52(2.0)), described(ko.likelihoods.Custom(lambda y, f: (y - f) ** 2)))
"""
    found = {subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout for _ in range(2)}
    assert len(found) == 1
    assert described(ko.kernels.Matern52(2.0)) in found.pop()
    assert described(ko.kernels.Matern52(2.0)) != described(ko.kernels.Matern52(2.1))
    assert described(ko.kernels.Matern52(2.0)) != described(ko.kernels.Matern32(2.0))


def test_wrong_arguments():
    with pytest.raises(InputError, match="path of a folder"):
        ko.Checkpoint(3)
    with pytest.raises(InputError, match="every"):
        ko.Checkpoint("here", every=0.0)
    assert pickle.loads(pickle.dumps(ko.Checkpoint("here", 5.0))) == ko.Checkpoint("here", 5.0)
