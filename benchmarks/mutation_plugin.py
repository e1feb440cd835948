"""What `benchmarks.mutation` does inside pytest, which loads this module as a plugin.

`Recorder` writes which test executes which lines. `Runner` keeps all tests collected and runs some of them with a fault
in the place of the functions that were imported: to start Python, import and collect takes longer than most tests.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import signal
import sys
import time
import types
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

RECORD, CHANNEL = "MUTATION_RECORD", "MUTATION_CHANNEL"
Record = dict[str, Any]
Functions = dict[tuple[str, int], types.CodeType]


def pytest_configure(config: pytest.Config) -> None:
    if RECORD in os.environ:
        config.pluginmanager.register(Recorder(Path(os.environ[RECORD])))
    elif CHANNEL in os.environ:
        config.pluginmanager.register(Runner(*map(int, os.environ[CHANNEL].split())))


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
        """One record for each file of tests; lines have the places of tests in its list."""
        self.coverage.stop()
        data, place = self.coverage.get_data(), {}
        files: dict[str, Record] = defaultdict(lambda: {"tests": [], "lines": defaultdict(lambda: defaultdict(list))})
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


class TookTooLongError(BaseException):
    """A test with a fault that does not end; no test catches it."""


class Runner:
    """Answers commands, one line of JSON each: tests in their order, seconds, and a file with its source."""

    def __init__(self, commands: int, answers: int) -> None:
        self.commands, self.answers = os.fdopen(commands, "r"), os.fdopen(answers, "w")
        self.failure: list[str] | None = None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and self.failure is None:
            crash = getattr(report.longrepr, "reprcrash", None)
            message = f"doctest: {str(report.longrepr)[-200:]}" if crash is None else crash.message
            self.failure = [report.nodeid, message[:400]]

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed and self.failure is None:
            self.failure = [report.nodeid, str(report.longrepr)[-400:]]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        signal.signal(signal.SIGPROF, self._interrupt)
        items = {item.nodeid: item for item in session.items}
        self._answer({"how": "ready"})
        for line in self.commands:
            command = json.loads(line)
            tests = [items[name] for name in command["tests"] if name in items]
            try:
                with replaced(Path(command["path"]), command["source"]) if command["path"] else contextlib.nullcontext():
                    answer = self._run(session, tests, command["seconds"])
            except ValueError as error:
                answer = {"how": "cannot", "test": "", "message": str(error)}
            self._answer(answer)
        return True

    def pytest_collection_finish(self) -> None:
        """A file that cannot be collected because of its fault is a failure before any test."""
        if self.failure is not None:
            self._answer({"how": "failed", "test": self.failure[0], "message": self.failure[1]})

    def _answer(self, answer: Record) -> None:
        self.answers.write(json.dumps(answer) + "\n")
        self.answers.flush()

    def _run(self, session: pytest.Session, tests: list[pytest.Item], seconds: float) -> Record:
        """Until one fails. Fixtures end with the last test, so that the next command has its own."""
        self.failure, how, current = None, "passed", ""
        signal.setitimer(signal.ITIMER_PROF, seconds)
        try:
            for item, following in zip(tests, [*tests[1:], None], strict=True):
                current = item.nodeid
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                if self.failure is not None:
                    how = "failed"
                    break
        except TookTooLongError:
            how = "too long"
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0.0)
            with contextlib.suppress(BaseException):
                session._setupstate.teardown_exact(None)
            session.shouldstop = session.shouldfail = False
        test, message = self.failure or [current if how == "too long" else "", ""]
        return {"how": how, "test": test, "message": message}

    def _interrupt(self, *_: Any) -> None:
        raise TookTooLongError


@contextlib.contextmanager
def replaced(path: Path, source: str) -> Iterator[None]:
    """All functions of a file have the code that they would have with another source; caches are empty on both sides."""
    module = importlib.import_module(".".join(path.relative_to("src").with_suffix("").parts).removesuffix(".__init__"))
    loader, where = module.__spec__.loader, str(path.absolute())
    old, new = (loader.source_to_code(text.encode(), where) for text in (path.read_text(), source))
    others = dict(zip(_functions(old), _functions(new).values(), strict=True))
    gc.unfreeze()
    living = [each for each in gc.get_objects() if isinstance(each, types.FunctionType)]
    mine = [each for each in living if each.__code__.co_filename == where]
    kept = [(each, each.__code__) for each in mine]
    forget()
    try:
        for function, code in kept:
            if (code.co_qualname, code.co_firstlineno) in others:
                function.__code__ = others[code.co_qualname, code.co_firstlineno]
        yield
    finally:
        for function, code in kept:
            function.__code__ = code
        forget()


def _functions(code: types.CodeType) -> Functions:
    """Code of all functions in that of a module, by name and first line, in the order of the text."""
    found: Functions = {}
    for part in code.co_consts:
        if isinstance(part, types.CodeType):
            found[part.co_qualname, part.co_firstlineno] = part
            found.update(_functions(part))
    return found
