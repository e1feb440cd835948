"""Random faults with a right digest: refused or loaded, soon, and in memory that goes with the file's size."""

from __future__ import annotations

import pytest

from kosambi.errors import FileError
from tests.cases import cases
from tests.files.fuzz import custom_of, fault_of, faulty, outcome, warm_up

EACH = 6


@pytest.fixture(scope="module", autouse=True)
def warm():
    warm_up()


# Each case makes its own files, so that one number says which file it was.
@pytest.mark.parametrize("start", cases(range(0, 600, EACH), quick=["0"]))
def test_files_with_random_faults(start, tmp_path):
    path = tmp_path / "faulty.kosambi"
    words = []
    for number in range(start, start + EACH):
        source = faulty(number, path)
        assert fault_of(path, custom_of(source)) is None, (number, source)
        words.append(outcome(path, custom_of(source))[0] if number < start + 3 else "")
    assert "refused" in words


def test_a_number_always_makes_the_same_file(tmp_path):
    first, second = tmp_path / "a.kosambi", tmp_path / "b.kosambi"
    for number in (3, 4, 5):
        assert faulty(number, first) == faulty(number, second)
        assert first.read_bytes() == second.read_bytes()


def test_the_checks_see_what_they_look_for(tmp_path, monkeypatch):
    path = tmp_path / "faulty.kosambi"
    faulty(0, path)
    monkeypatch.setattr("tests.files.fuzz.BYTES", 0)
    monkeypatch.setattr("tests.files.fuzz.BYTES_EACH", 0)
    assert "bytes of memory" in fault_of(path)

    def fail(path, custom):
        raise ZeroDivisionError("raw")

    monkeypatch.setattr("kosambi.load", fail)
    assert fault_of(path) == "ZeroDivisionError: raw"
    monkeypatch.setattr("kosambi.load", lambda path, custom: (_ for _ in ()).throw(FileError("refused")))
    assert outcome(path)[0] == "refused"
