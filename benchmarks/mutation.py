"""Mutation testing: how many small faults in the mathematics the quick tests see.

python -m benchmarks.mutation --package target basis --number 30 --seed 0 --most 60 --out mutation

Faults (`benchmarks.mutants`) are sampled from the lines that quick tests execute, at most two in a function, each with
the same probability. The tests that execute its line run in a copy of the project, the quickest files first, until one
fails. A fault is *killed* if a test fails or does not end in time, and has *survived* otherwise.

Which test executes which line is recorded first, with the package `coverage`, which this needs beside the development
environment. Before every test JAX and kosambi forget what they have compiled or remembered, so that code that is traced
once is seen by every test that needs it; what a fixture of a module executes counts for all tests that use it.

The folder `--out` has the copy, what was recorded (again where a file has changed) and `results.json`; the same command
goes on after a stop. `--most` leaves out tests beyond so many seconds for a fault. `--again` shows faults that survived
to the tests as they are now; `--controls` runs all tests that killed one without any fault, and names those that fail
by themselves; `--lines` says which lines the quick tests execute at all.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import hashlib
import json
import math
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.mutants import ROOT, Mutant, of_package, present
from benchmarks.mutation_fork import Fork, Forks, limited
from benchmarks.mutation_plugin import IMPORTED, RECORD, REPORT, TESTS

PACKAGES = ["target", "learning", "samplers", "basis"]
LEFT_OUT = ("tests/cli/", "tests/files/", "tests/page/", "tests/plots/", "tests/tables", "tests/test_project")
LEFT_OUT += ("tests/test_structure", "tests/test_documentation")
"""Tests of what lies around the mathematics, and of text and pages: slow, and few of them see a number."""
EACH = 2
"""Faults of one function in a sample, at most."""
FIRST_SECONDS = 10.0
"""Of recorded time in a first process; where no test of those fails, the others follow in a second one."""
PATIENCE, LEAST = 4.0, 40.0
"""How many times longer than recorded tests may take, and the seconds that are added."""
SLACK = 6.0
"""Seconds on the clock for one of the processor, after which a process that waits for nothing is ended too."""
AT_ONCE = 40
"""Files of tests that one process records."""
MEMORY = 8 * 2**30
"""Bytes of data that a process with a fault may have."""
Record = dict[str, Any]
Tests = dict[str, list[tuple[float, str]]]


class Copy:
    """A copy of the project, into which faults are put, and which tests execute which of its lines."""

    def __init__(self, out: Path) -> None:
        self.out, self.tree, self.kept = out, out / "tree", out / "recorded"
        self.kept.mkdir(parents=True, exist_ok=True)
        listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(listed, cwd=ROOT, capture_output=True, check=True, text=True).stdout.split("\0")[:-1]
        self.digests = {}
        for name in [name for name in names if (ROOT / name).is_file()]:
            content, target = (ROOT / name).read_bytes(), self.tree / name
            self.digests[name] = hashlib.sha256(content).hexdigest()
            if not target.is_file() or target.read_bytes() != content:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content)
        for path in [*(self.tree / "src").rglob("*.py"), *(self.tree / "tests").rglob("*.py")]:
            if str(path.relative_to(self.tree)) not in self.digests:
                path.unlink()
        # What tests share decides with them whether they are recorded again.
        shared = [name for name in self.digests if name.startswith("tests/") and "/test_" not in name]
        self.shared = hashlib.sha256("".join(self.digests[name] for name in shared).encode()).hexdigest()
        self.records = self._recorded([name for name in self.digests if _has_tests(name)])

    def _recorded(self, names: list[str]) -> dict[str, Record]:
        """What each file of tests executes, from disk where nothing has changed since."""
        found = {name: known for name in names if (known := self._known(name)) is not None}
        missing = [name for name in names if name not in found]
        for first in range(0, len(missing), AT_ONCE):
            some, report = missing[first : first + AT_ONCE], self.out / "record.json"
            report.unlink(missing_ok=True)
            self.pytest(some, {RECORD: str(report)})
            records = json.loads(report.read_text())
            for name in some:
                record = found[name] = records.get(name, {"tests": [], "lines": {}})
                used = [
                    path for path, lines in record["lines"].items() if any(max(each) >= 0 for each in lines.values())
                ]
                record["digests"] = {each: self.digests[each] for each in (name, *used)}
                record["shared"] = self.shared
                self._place(name).write_text(json.dumps(record))
                broken = [test for test, _, is_passed in record["tests"] if not is_passed]
                print(*(f"fails without a fault, and is not used: {test}\n" for test in broken), end="", flush=True)
            print(f"recorded {first + len(some)} of {len(missing)} files of tests", flush=True)
        return found

    def _place(self, name: str) -> Path:
        return self.kept / (name.replace("/", "+") + ".json")

    def _known(self, name: str) -> Record | None:
        if not self._place(name).is_file():
            return None
        record: Record = json.loads(self._place(name).read_text())
        is_same = all(self.digests.get(each) == digest for each, digest in record["digests"].items())
        return record if is_same and record["shared"] == self.shared else None

    def report_lines(self) -> None:
        """Print which part of the lines of each file is executed by any quick test, in this process or by an import."""
        import coverage

        executed: dict[str, set[int]] = defaultdict(set)
        for record in self.records.values():
            for path, lines in record["lines"].items():
                executed[str(ROOT / path)].update(map(int, lines))
        report = coverage.Coverage(data_file=None, config_file=False, include=[str(ROOT / "src" / "*")])
        report.get_data().add_lines(executed)
        report.get_data().touch_files(str(path) for path in (ROOT / "src").rglob("*.py"))
        report.report(show_missing=True, skip_covered=True)

    def tests_of(self, mutant: Mutant) -> Tests:
        """Tests that execute the line of a fault, with their seconds, by file."""
        found: Tests = {}
        for name in [name for name in self.records if not name.startswith(LEFT_OUT)]:
            record = self.records[name]
            lines = record["lines"].get(mutant.path, {})
            places = set(lines.get(str(mutant.line)) or lines.get(str(mutant.statement)) or []) - {IMPORTED}
            tests = [(seconds, test) for test, seconds, passed in (record["tests"][i] for i in places) if passed]
            if tests:
                found[name] = sorted(tests)
        return found

    def pytest(
        self, names: list[str], variables: dict[str, str], seconds: float = float("inf"), fault: Mutant | None = None
    ) -> int | None:
        """The exit status of pytest with some files; None where it took too long. A fault is in the copy already."""
        # Without the package itself the example of a function is taken for that of a module of the same name; without
        # the file of what tests share, examples run without it.
        names = ["src/kosambi/__init__.py", "tests/conftest.py", *names]
        log = self.out / "log.txt"
        process: Fork | subprocess.Popen
        if fault is not None and self.forks.can(fault):
            process = self.forks.start(fault, names, variables, log, MEMORY, seconds)
        else:
            process = self._start(names, variables, log, seconds)
        try:
            status = process.wait(None if math.isinf(seconds) else SLACK * seconds)
            return None if status == -signal.SIGXCPU else status
        except subprocess.TimeoutExpired:
            return None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def _start(self, names: list[str], variables: dict[str, str], log: Path, seconds: float) -> subprocess.Popen:
        """A process that runs pytest from the beginning."""
        path = os.pathsep.join(str(self.tree / part) for part in ("src", "."))
        command = [sys.executable, "-m", "pytest", "-q", "-p", "benchmarks.mutation_plugin", "-p", "no:cacheprovider"]
        with log.open("w") as output:
            return subprocess.Popen(
                [*command, *names],
                cwd=self.tree,
                env={**os.environ, "PYTHONPATH": path, **variables},
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=functools.partial(limited, MEMORY, seconds),
            )

    @functools.cached_property
    def forks(self) -> Forks:
        """Made for the first fault, when what is missing has been recorded."""
        return Forks(self.tree)

    def failures(self, tests: Tests, fault: Mutant | None = None) -> tuple[str, list[list[str]]]:
        """How tests end, and the names and messages of those that fail; with a fault the first one is enough."""
        chosen, report = self.out / "tests.json", self.out / "report.txt"
        report.unlink(missing_ok=True)
        chosen.write_text(json.dumps([test for some in tests.values() for _, test in some]))
        limit = LEAST + PATIENCE * sum(seconds for some in tests.values() for seconds, _ in some)
        variables = {TESTS: str(chosen), REPORT: str(report), "PYTHONDONTWRITEBYTECODE": "1"}
        status = self.pytest([*tests, *(["-x"] if fault else [])], variables, limit, fault)
        found = [json.loads(line) for line in report.read_text().splitlines()] if report.is_file() else []
        if status in (4, 5):
            raise RuntimeError(f"pytest did not find the tests {list(tests)}:\n{(self.out / 'log.txt').read_text()}")
        how = "too long" if status is None else "passed" if status == 0 else "failed" if status in (1, 2) else "crashed"
        return how, found

    def judged(self, mutant: Mutant, most: float) -> Record:
        """What tests that take so many seconds say of one fault, or the nearest file if it takes longer."""
        tests, began, package = self.tests_of(mutant), time.monotonic(), mutant.path.split("/")[2]
        seconds = {name: sum(each for each, _ in some) for name, some in tests.items()}
        rounds: list[Tests] = [{}, {}]
        spent = 0.0
        # Most faults are seen by tests of the same file.
        stem = f"/test_{Path(mutant.path).stem}.py"
        for name in sorted(tests, key=lambda name: (stem not in name, f"/{package}/" not in name, seconds[name])):
            spent += seconds[name]
            if spent < most or not rounds[0]:
                rounds[0 if spent < FIRST_SECONDS or not rounds[0] else 1][name] = tests[name]
        file = self.tree / mutant.path
        source, times = file.read_text(), (file.stat().st_atime_ns, file.stat().st_mtime_ns)
        how, found = "passed", []
        _ = self.forks  # which imports the file as it is
        try:
            file.write_text(mutant.applied(source))
            for some in rounds:
                if some and how == "passed":
                    how, found = self.failures(some, mutant)
        finally:
            file.write_text(source)
            os.utime(file, ns=times)
        number, shown = (sum(len(some) for each in parts for some in each.values()) for parts in ([tests], rounds))
        test, message = found[0] if found else ("", "")
        seen = {"how": how, "test": test, "message": message, "tests": number, "shown": shown}
        return {**seen, "seconds": time.monotonic() - began}


def _has_tests(name: str) -> bool:
    if not name.endswith(".py"):
        return False
    is_example = name.startswith("src/") and ">>>" in (ROOT / name).read_text()
    return is_example or (name.startswith("tests/") and "/test_" in name)


def sample(copy: Copy, package: str, number: int, seed: int) -> Record:
    """Faults in a random order that is the same every time, as many as are asked for."""
    every, faults = of_package(package), []
    taken: Counter[tuple[str, str]] = Counter()
    for mutant in random.Random(f"{package} {seed}").sample(every, len(every)):
        place = (mutant.path, mutant.function)
        if len(faults) < number and taken[place] < EACH and mutant.before != mutant.after and copy.tests_of(mutant):
            taken[place] += 1
            faults.append({"mutant": mutant._asdict()})
    return {"candidates": len(every), "unseen": sum(not copy.tests_of(each) for each in every), "faults": faults}


def judge(copy: Copy, key: str, faults: list[Record], most: float, is_again: bool, save: Callable[[], None]) -> None:
    """Show those faults of a sample to the tests that have not been, or those that survived once more."""
    for i, fault in enumerate(faults):
        when = "again" if is_again and fault.get("first", {}).get("how") == "passed" else "first"
        mutant = present(Mutant(**fault["mutant"]))
        if when in fault or mutant is None:
            continue
        fault[when] = verdict = copy.judged(mutant, most)
        save()
        change = " ".join(f"{mutant.before} -> {mutant.after}".split())
        where = f"{mutant.path}:{mutant.line} {mutant.function}"
        print(f"{key} {i} {verdict['how']} {verdict['seconds']:.0f} s: {where}: {change[:160]}", flush=True)


def table(samples: Record) -> list[str]:
    """Rows of Markdown, one for each sample: with the tests as they were, and as they are now."""
    rows = ["| sample | faults | killed | by time | by an exception | survived | score | now |", "|" + "---|" * 8]
    for key, each in samples.items():
        seen = [fault for fault in each["faults"] if "first" in fault]
        killed = [fault["first"] for fault in seen if fault["first"]["how"] != "passed"]
        later = sum(fault.get("again", fault["first"])["how"] != "passed" for fault in seen)
        late = sum(verdict["how"] == "too long" for verdict in killed)
        asserted = sum(verdict["message"].startswith(("assert", "Assert", "doctest", "Failed")) for verdict in killed)
        counts = (len(seen), len(killed), late, len(killed) - late - asserted, len(seen) - len(killed))
        scores = (f"{100 * number / max(len(seen), 1):.0f} %" for number in (len(killed), later))
        rows.append("| " + " | ".join(map(str, (key, *counts, *scores))) + " |")
    return rows


def controls(copy: Copy, samples: Record) -> list[str]:
    """Tests that killed something and fail without a fault as well."""
    faults = [fault for each in samples.values() for fault in each["faults"]]
    killers = {fault[when]["test"] for fault in faults for when in ("first", "again") if when in fault}
    tests: Tests = defaultdict(list)
    for name, record in copy.records.items():
        for test, seconds, _ in record["tests"]:
            if test in killers:
                tests[name].append((seconds, test))
    return [test for test, _ in copy.failures(tests)[1]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--package", nargs="+", default=PACKAGES)
    parser.add_argument("--number", type=int, default=60, help="faults of each package")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--most", type=float, default=float("inf"), help="seconds of tests for each fault")
    parser.add_argument("--out", type=Path, required=True, help="a folder")
    parser.add_argument("--again", action="store_true", help="faults that survived, with the tests as they are now")
    parser.add_argument("--controls", action="store_true", help="the tests that killed a fault, without any")
    parser.add_argument("--lines", action="store_true", help="only line coverage")
    options = parser.parse_args()
    copy = Copy(options.out.resolve())
    if options.lines:
        copy.report_lines()
        return
    results = copy.out / "results.json"
    samples: Record = json.loads(results.read_text()) if results.is_file() else {}
    for package in options.package:
        key = f"{package} {options.seed}"
        if key not in samples:
            samples[key] = sample(copy, package, options.number, options.seed)
        save = lambda: results.write_text(json.dumps(samples, indent=1))  # noqa: E731
        judge(copy, key, samples[key]["faults"], options.most, options.again, save)
    if options.controls:
        print("fail without a fault:", controls(copy, samples) or "none")
    print(*table(samples), sep="\n")


if __name__ == "__main__":
    main()
