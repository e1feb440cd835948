"""What `benchmarks.mutation` does inside pytest, which loads this module as a plugin.

`Recorder` writes which test executes which lines; `Chosen` runs some tests in a given order.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

RECORD, TESTS, REPORT = "MUTATION_RECORD", "MUTATION_TESTS", "MUTATION_REPORT"
"""Variables of the environment with the files that this module reads and writes."""
IMPORTED = -1
"""The place of a test in which stands what is executed outside of tests, when files are imported and collected."""


def pytest_configure(config: pytest.Config) -> None:
    if RECORD in os.environ:
        config.pluginmanager.register(Recorder(Path(os.environ[RECORD])))
    elif TESTS in os.environ:
        config.pluginmanager.register(Chosen(Path(os.environ[TESTS]), Path(os.environ[REPORT])))


class Recorder:
    """Writes which test executes which lines of the package, and how long it takes."""

    def __init__(self, out: Path) -> None:
        import coverage

        self.out, self.seconds, self.failed, self.current = out, {}, set(), ""
        self.users: dict[str, set[str]] = defaultdict(set)
        self.coverage = coverage.Coverage(data_file=None, config_file=False, include=[str(Path.cwd() / "src" / "*")])
        self.coverage.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        forget()
        self.current, began = item.nodeid, time.process_time()
        for fixtures in getattr(getattr(item, "_fixtureinfo", None), "name2fixturedefs", {}).values():
            self.users[_context(fixtures[-1])].add(item.nodeid)
        self.coverage.switch_context(self.current)
        result = yield
        self.coverage.switch_context("")
        self.seconds[item.nodeid] = time.process_time() - began
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Iterator[None]:
        if fixturedef.scope == "function":
            return (yield)
        self.coverage.switch_context(_context(fixturedef))
        try:
            return (yield)
        finally:
            self.coverage.switch_context(self.current)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        """One record for each file of tests; lines have the places of tests in its list, or `IMPORTED`."""
        self.coverage.stop()
        data, place = self.coverage.get_data(), {}
        files: dict[str, Any] = defaultdict(lambda: {"tests": [], "lines": defaultdict(lambda: defaultdict(list))})
        for test, seconds in self.seconds.items():
            tests = files[test.partition("::")[0]]["tests"]
            place[test] = len(tests)
            tests.append([test, seconds, test not in self.failed])
        for path in data.measured_files():
            name = str(Path(path).relative_to(Path.cwd()))
            for line, contexts in data.contexts_by_lineno(path).items():
                users = {test for each in contexts if each for test in self.users.get(each, {each})}
                for test in users & place.keys():
                    files[test.partition("::")[0]]["lines"][name][line].append(place[test])
                for record in files.values() if "" in contexts else []:
                    record["lines"][name][line].append(IMPORTED)
        self.out.write_text(json.dumps(files))


def _context(fixture: Any) -> str:
    return f"fixture {fixture.baseid}::{fixture.argname}"


def forget() -> None:
    """Whatever functions remember, so that the next test executes every line that it needs."""
    import equinox as eqx
    import jax

    for name, module in list(sys.modules.items()):
        for value in list(vars(module).values()) if name.startswith("kosambi") else []:
            if callable(getattr(value, "cache_clear", None)):
                value.cache_clear()
    eqx.clear_caches()
    jax.clear_caches()


class Chosen:
    """Runs some tests in a given order, and writes which of them fail and how."""

    def __init__(self, tests: Path, report: Path) -> None:
        self.report = report
        self.order = {test: i for i, test in enumerate(json.loads(tests.read_text()))}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        chosen = [item for item in items if item.nodeid in self.order]
        items[:] = sorted(chosen, key=lambda item: self.order[item.nodeid])

    def pytest_runtest_logreport(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            message = f"doctest: {str(report.longrepr)[-200:]}" if crash is None else crash.message
            with self.report.open("a") as lines:
                lines.write(json.dumps([report.nodeid, message[:400]]) + "\n")

    pytest_collectreport = pytest_runtest_logreport
