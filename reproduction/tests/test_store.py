"""Cells are computed once, survive an interruption whole, and are computed again when their arguments change."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kosambi._core.writing import as_json
from kosambi.errors import FileError, InputError
from reproduction import page
from reproduction.experiment import NAMES, Cell, Experiment, Scale, named
from reproduction.run import run as run_all
from reproduction.store import Store, describe, label

COUNTED = []


def squared(number):
    COUNTED.append(number)
    return {"square": number**2}


def failing():
    raise ValueError("no such thing")


def run(work, store, **options):
    return run_all([(store, work)], **options)[store.name]


def cells(*numbers):
    return [Cell(f"square-{n}", squared, {"number": n}) for n in numbers]


def results(store):
    """What cells returned, without what they were computed on."""
    return {name: {k: v for k, v in found.items() if k != "machine"} for name, found in store.found().items()}


@pytest.fixture(autouse=True)
def _fresh():
    COUNTED.clear()


def test_done_cells_are_kept(tmp_path):
    store = Store(tmp_path, "squares")
    assert run(cells(1, 2), store)[:2] == (2, 0)
    assert run(cells(1, 2, 3), store)[:2] == (1, 2)
    assert COUNTED == [1, 2, 3]
    assert results(store) == {f"square-{n}": {"square": n**2} for n in (1, 2, 3)}


def test_the_one_file_is_enough_to_go_on(tmp_path):
    store = Store(tmp_path, "squares")
    run(cells(1, 2), store)
    store.gather()
    for piece in store.pieces.iterdir():
        piece.unlink()
    assert run(cells(1, 2), store)[:2] == (0, 2)
    store.gather()
    content = json.loads(store.whole.read_text())
    assert content["machines"] == [as_json(describe())]
    assert all(record["machine"] == 0 for record in content["cells"].values())
    assert all(found["machine"] == label(describe()) for found in store.found().values())


def test_other_arguments_are_other_work(tmp_path):
    store = Store(tmp_path, "squares")
    run([Cell("a", squared, {"number": 1})], store)
    assert run([Cell("a", squared, {"number": 5})], store).computed == 1
    assert results(store) == {"a": {"square": 25}}


def test_a_failure_is_told_and_tried_again(tmp_path):
    store = Store(tmp_path, "squares")
    work = [Cell("bad", failing), *cells(1)]
    for _ in range(2):
        tally = run(work, store)
        assert tally.failed == {"bad": "ValueError: no such thing"}
    assert tally.kept == 1
    assert list(store.found()) == ["square-1"]
    assert "test_store" in store.records()["bad"]["traceback"]


def test_missing_packages_leave_a_cell_out(tmp_path):
    tally = run([Cell("a", squared, {"number": 1}, needs=("no_such_package",))], Store(tmp_path, "squares"))
    assert tally.left_out == {"a": {"packages": ["no_such_package"]}}
    assert not COUNTED


def test_missing_data_leave_a_cell_out_unless_it_is_done(tmp_path):
    store, lacking = Store(tmp_path, "squares"), Cell("a", squared, {"number": 1}, data=("no_such_data", "yeast"))
    tally = run([lacking], store)
    assert tally.left_out == {"a": {"data": ["no_such_data"]}}
    assert not COUNTED
    run([Cell("a", squared, {"number": 1}, data=("yeast",))], store)
    assert run([lacking], store)[1:] == (1, {}, {})


def test_several_processes_give_the_same(tmp_path):
    here, there = Store(tmp_path / "here", "powers"), Store(tmp_path / "there", "powers")
    # A function that other processes can import.
    work = [Cell(f"power-{n}", dict, {"base": n}) for n in range(4)]
    run(work, here)
    assert run(work, there, jobs=2).computed == 4
    assert results(here) == results(there)


SLEEPER = """
import sys, time
from pathlib import Path
from reproduction.experiment import Cell
from reproduction.run import run
from reproduction.store import Store

def slow(number):
    time.sleep(0.3)
    return {"number": number, "filler": "x" * 20000}

run([(Store(Path(sys.argv[1]), "slow"), [Cell(f"c{n}", slow, {"number": n}) for n in range(50)])])
"""
ROOT = Path(__file__).resolve().parents[2]


def test_killed_anywhere_it_goes_on(tmp_path):
    process = subprocess.Popen([sys.executable, "-c", SLEEPER, str(tmp_path)], cwd=ROOT)
    store = Store(tmp_path, "slow")
    deadline = time.monotonic() + 120
    while len(list(store.pieces.glob("*.json"))) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    found = store.found()  # every file that is there is whole
    assert 2 <= len(found) < 50
    times = {path.name: path.stat().st_mtime_ns for path in store.pieces.glob("*.json")}
    later = [Cell(f"c{n}", squared, {"number": n}) for n in range(len(found) + 1)]
    assert run(later, store)[:2] == (1, len(found))
    assert {path.name: path.stat().st_mtime_ns for path in store.pieces.glob("*.json") if path.name in times} == times


def test_bad_input_names_the_file_and_the_name(tmp_path):
    (tmp_path / "squares.json").write_text("{")
    with pytest.raises(FileError, match=r"squares\.json"):
        Store(tmp_path, "squares").records()
    with pytest.raises(InputError, match="a/b"):
        Store(tmp_path, "other").keep(Cell("a/b", squared), result={})
    with pytest.raises(InputError, match="regression, classification"):
        named("nothing")


@pytest.mark.parametrize("name", NAMES)
def test_experiments_have_cells_with_names_of_their_own(name):
    entry = named(name)
    assert entry.name == name
    for scale in (Scale(), Scale(quick=True, splits=2, limit=20.0)):
        work = entry.cells(scale)
        assert len({cell.name for cell in work}) == len(work) > 0
        for cell in work:
            assert as_json(cell.arguments) == json.loads(json.dumps(cell.arguments))
            assert cell.function.__module__.startswith("reproduction.")
    assert isinstance(entry.table({}), str)


def test_the_page_has_every_experiment_that_has_results(tmp_path):
    def draw(found, folder):
        path = folder / "squares-all.png"
        path.write_bytes(b"")
        return [path]

    shown = Experiment("squares", "Squares", lambda _: cells(1), lambda found: f"| {len(found)} |", draw)
    hidden = Experiment("others", "Others", lambda _: [], lambda _: "nothing", draw)
    store = Store(tmp_path / "kept", "squares")
    run(cells(1), store)
    store.gather()
    text = page.write(tmp_path / "results.md", tmp_path / "kept", [shown, hidden]).read_text()
    assert "## Squares" in text
    assert "| 1 |" in text
    assert "(kept/squares-all.png)" in text
    assert "Others" not in text
