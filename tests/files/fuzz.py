"""Files with a right digest and random faults: `load` must refuse or load each, soon and in little memory.

    python -m tests.files.fuzz --minutes 5 --seed 1

Same seed, same files. What is found is kept in the current folder, with the number that makes it again.
"""

from __future__ import annotations

import argparse
import copy
import random
import sys
import tempfile
import time
import tracemalloc
from pathlib import Path

import numpy as np

import kosambi as ko
from kosambi.errors import FileError
from kosambi.files import _container
from kosambi.files._registry import registry
from tests.files.helpers import contents
from tests.files.models import log_cosh

GOLDEN = sorted((Path(__file__).parent / "golden").rglob("*.kosambi"))
# What is allowed to a file of so many bytes: a constant, and some for each byte.
SECONDS, SECONDS_EACH = 5.0, 2e-5
BYTES, BYTES_EACH = 2**26, 100
NUMBERS = [0, 1, -1, 2, 7, 63, 1000, 10**6, 10**9, 2**31, 2**53, 2**62, 2**63 - 1, -(2**63), 2**70, 1e308, -1e-308, 0.5]
TEXTS = ["", "<U500000000", "O", "auto", "all", "log", "0" * 5000, "é\u0000", "x" * 100_000, "None", "10000000i8"]


def places(value, found=None):
    """Every container of a specification with each of its keys."""
    found = [] if found is None else found
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in pairs:
        found.append((value, key))
        places(item, found)
    return found


def anything(rng, spec, arrays, level=0):
    """A value such as a file may hold anywhere."""
    kind = rng.randrange(8 if level < 3 else 6)
    if kind == 0:
        return rng.choice(NUMBERS)
    if kind == 1:
        return rng.choice(TEXTS)
    if kind == 2:
        return rng.choice([None, True, False])
    if kind == 3:
        return {rng.choice(["array", "scalar"]): rng.choice([*arrays, "a999"])}
    if kind == 4:
        return {"object": rng.choice([-1, 10**9, rng.randrange(1 + len(spec["objects"]))])}
    if kind == 5:
        return {"bits": rng.choice(["7ff8000000000000", "fff0000000000000", "x"])}
    parts = [anything(rng, spec, arrays, level + 1) for _ in range(rng.choice([0, 1, 2, 40]))] if kind == 6 else []
    return {rng.choice(["tuple", "list"]): parts} if kind == 6 else {"dict": [["k", rng.choice(NUMBERS)]]}


def change_specification(rng, spec, arrays):
    """One place has something else."""
    container, key = rng.choice(places(spec))
    act = rng.randrange(6)
    if act == 0:
        container.pop(key) if isinstance(container, dict) else container.__delitem__(key)
    elif act == 1:
        other, name = rng.choice(places(spec))
        container[key] = copy.deepcopy(other[name])
    elif act == 2 and isinstance(container, dict) and "class" in container:
        container["class"] = rng.choice(sorted(registry()))
    elif isinstance(container[key], int) and act == 3:
        container[key] += rng.choice([-1, 1, 10])
    else:
        container[key] = anything(rng, spec, arrays)


def change_sharing(rng, spec, arrays):
    """Objects of twice the object before, many times."""
    objects = spec["objects"]
    for _ in range(rng.choice([2, 12, 30])):
        entry = copy.deepcopy(rng.choice(objects))
        slots = [(c, k) for c, k in places(entry) if k == "object" or (k == "tuple" and isinstance(c[k], list))]
        for container, name in slots:
            reference = {"object": len(objects) - 1}
            container[name] = len(objects) - 1 if name == "object" else [reference] * rng.choice([1, 2, 50])
        objects.append(entry)
    spec["root"] = {"object": len(objects) - 1}


def change_array(rng, spec, arrays):
    """One array has other numbers, another type or another shape."""
    if not arrays:
        return
    name = rng.choice(sorted(arrays))
    array, act = np.array(arrays[name]), rng.randrange(6)
    if act == 0 and array.size:
        bad = rng.choice([np.nan, np.inf, -np.inf, 0.0, -1.0, 1e308, 5e-324])
        with np.errstate(all="ignore"):
            array.reshape(-1)[rng.randrange(array.size)] = np.array(bad if array.dtype.kind == "f" else 127).astype(
                array.dtype
            )
    elif act == 1:
        array = np.zeros(rng.choice([(), (0,), (3, 0), (1000, 0), (1, 1, 1), (2,), (0, 0)]), array.dtype)
    elif act == 2 and array.size:
        array = np.array([array.reshape(-1)] * 2)
    elif act == 3:
        with np.errstate(all="ignore"):
            array = array.astype(rng.choice(["<f4", "<i8", "?", "u1", "<f2"]))
    elif act == 4 and array.ndim:
        array = np.ascontiguousarray(array[: rng.randrange(len(array) + 1)])
    else:
        array = np.ascontiguousarray(np.repeat(array.reshape(-1), rng.choice([1, 2, 50])))
    arrays[name] = array


CHANGES = (change_specification, change_specification, change_array, change_sharing)


def faulty(seed: int, path: Path) -> Path:
    """Write the file of a number to `path`; returns the good file that it was made from."""
    rng = random.Random(seed)
    source = rng.choice(GOLDEN)
    spec, arrays = copy.deepcopy(contents(source))
    for _ in range(rng.choice([1, 1, 2, 5])):
        if not isinstance(spec.get("objects"), list) or not spec["objects"]:
            break
        rng.choice(CHANGES)(rng, spec, arrays)
    try:
        _container.write(str(path), spec, arrays)
    except (UnicodeEncodeError, OverflowError, ValueError):
        path.write_bytes(source.read_bytes())
    return source


def custom_of(source: Path) -> dict | None:
    """The functions that a good file asks for."""
    return {"log_cosh": log_cosh, "trend": lambda x: x[:, 0]} if source.name == "custom.kosambi" else None


def outcome(path: Path, custom: dict | None = None) -> tuple[str, float, int]:
    """Whether it was "refused" or "loaded", the seconds it took, and the bytes it took at most."""
    tracemalloc.start()
    began, word = time.perf_counter(), "refused"
    try:
        ko.load(path, custom)
        word = "loaded"
    except FileError:
        pass
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return word, time.perf_counter() - began, peak


def warm_up() -> None:
    """Load every good file, so that what is imported and compiled once is not charged to a faulty one."""
    for source in GOLDEN:
        ko.load(source, custom_of(source))


def fault_of(path: Path, custom: dict | None = None) -> str | None:
    """What is wrong with how a file is dealt with; None if nothing is."""
    size = path.stat().st_size
    try:
        _, seconds, peak = outcome(path, custom)
    except ko.errors.InputError as error:
        # The fault took away the function that was handed over.
        return None if "does not use" in str(error) else str(error)
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:200]}"
    if peak > BYTES + BYTES_EACH * size:
        return f"{peak} bytes of memory for {size} of file"
    return f"{seconds:.1f} s for {size} bytes" if seconds > SECONDS + SECONDS_EACH * size else None


def main() -> None:
    parser = argparse.ArgumentParser(description="Load files with random faults.")
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    warm_up()
    end, number, found = time.monotonic() + 60.0 * options.minutes, options.seed * 10**6, 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "faulty.kosambi"
        while time.monotonic() < end:
            source = faulty(number, path)
            fault = fault_of(path, custom_of(source))
            if fault is not None:
                found += 1
                kept = Path(f"fuzz-{number}.kosambi")
                kept.write_bytes(path.read_bytes())
                print(f"{number} (from {source.name}): {fault}. Kept as {kept}.", flush=True)
            number += 1
    print(f"{number - options.seed * 10**6} files, {found} faults.")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
