"""Forks of one process that has imported kosambi run pytest, with a fault in the code of functions.

To start Python, to import and to compile the checks of types takes longer than most tests. A fork begins behind that,
and before JAX has started a thread or traced anything, so that only functions that were called at import have been
executed without the fault. These, and functions whose free variables a fault changes, are left to a process of their
own (`Forks.can`).
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import math
import os
import pkgutil
import resource
import subprocess
import sys
import time
import types
from collections import defaultdict
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from benchmarks.mutants import Mutant

OPTIONS = ["--doctest-modules", "--import-mode=importlib", "--strict-markers", "-m", "not slow and not soak"]
"""Those of the project, without the hook that checks types, which is in place when kosambi is imported here."""
Codes = dict[tuple[str, int], types.CodeType]


def limited(memory: int, seconds: float) -> None:
    """Bound memory and time of this process; of the processor, so that other work on the machine decides nothing."""
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    if not math.isinf(seconds):
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(seconds), math.ceil(seconds) + 5))


class Fork:
    """A fork of this process; `wait` as that of `subprocess.Popen`."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._status: int | None = None

    def wait(self, timeout: float | None = None) -> int:
        end = math.inf if timeout is None else time.monotonic() + timeout
        while self._status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._status = os.waitstatus_to_exitcode(status)
            elif time.monotonic() > end:
                raise subprocess.TimeoutExpired("pytest", timeout or 0.0)
            else:
                time.sleep(0.05)
        return self._status


class Forks:
    """This process, which imports all of kosambi from a copy of the project, and its forks."""

    def __init__(self, tree: Path) -> None:
        import jaxtyping

        self._tree, self._called = tree, set[tuple[str, str]]()
        files = (tree / "src").rglob("*.py")
        self._sources = {str(file.relative_to(tree)): file.read_text() for file in files}
        sys.path[:0] = [str(tree / "src"), str(tree)]
        sys.setprofile(self._note)
        with jaxtyping.install_import_hook(["kosambi"], "beartype.beartype"):
            kosambi = importlib.import_module("kosambi")
            for module in pkgutil.walk_packages(kosambi.__path__, "kosambi."):
                if not module.name.endswith("__main__"):
                    importlib.import_module(module.name)
        sys.setprofile(None)
        if not str(kosambi.__file__).startswith(str(tree)):
            raise RuntimeError(f"kosambi was imported from {kosambi.__file__} before, and not from the copy.")
        for plugin in entry_points(group="pytest11"):
            plugin.load()
        self._living: dict[str, list[types.FunctionType]] = defaultdict(list)
        for each in gc.get_objects():
            if isinstance(each, types.FunctionType):
                self._living[each.__code__.co_filename].append(each)
        gc.collect()
        gc.freeze()

    def _note(self, frame: types.FrameType, event: str, _: Any) -> None:
        if event == "call":
            name = frame.f_code.co_qualname.replace(".<locals>", "")
            self._called.add((frame.f_code.co_filename, name))

    def can(self, fault: Mutant) -> bool:
        """Whether the code of functions can be replaced so that the fault is wherever it would be."""
        where = str(self._tree / fault.path)
        with contextlib.suppress(ValueError):
            return (where, fault.function) not in self._called and bool(self._replacements(fault))
        return False

    def _replacements(self, fault: Mutant) -> list[tuple[types.FunctionType, types.CodeType]]:
        """Functions, and the code that they have with a fault; a `ValueError` if it has other free variables."""
        file = self._tree / fault.path
        name = ".".join(Path(fault.path).relative_to("src").with_suffix("").parts).removesuffix(".__init__")
        loader: Any = sys.modules[name].__spec__.loader  # type: ignore[union-attr]
        source = self._sources[fault.path]
        old, new = (_codes(loader.source_to_code(text.encode(), str(file))) for text in (source, fault.applied(source)))
        others = dict(zip(old, new.values(), strict=True))
        found = []
        for function in self._living[str(file)]:
            place = (function.__code__.co_qualname, function.__code__.co_firstlineno)
            if place in others and others[place] != old[place]:
                if len(others[place].co_freevars) != len(function.__code__.co_freevars):
                    raise ValueError
                found.append((function, others[place]))
        return found

    def start(
        self, fault: Mutant, names: list[str], variables: dict[str, str], log: Path, memory: int, seconds: float
    ) -> Fork:
        """A fork that runs pytest with a fault, with limits of memory and of the processor's time."""
        replacements = self._replacements(fault)
        process = os.fork()
        if process:
            return Fork(process)
        status = 3
        try:
            os.setsid()
            output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(output, 1)
            os.dup2(output, 2)
            os.chdir(self._tree)
            os.environ.update(variables)
            sys.dont_write_bytecode = True
            for function, code in replacements:
                function.__code__ = code
            limited(memory, seconds + time.process_time())
            import pytest

            own = ["-q", "--assert=plain", "-o", "addopts=", "-p", "no:cacheprovider", "-p", "no:xdist"]
            status = int(pytest.main([*own, *OPTIONS, "-p", "benchmarks.mutation_plugin", *names]))
            sys.stdout.flush()
        finally:
            os._exit(status)


def _codes(code: types.CodeType) -> Codes:
    """Code of all functions in that of a module, by name and first line, in the order of the text."""
    found: Codes = {}
    for part in code.co_consts:
        if isinstance(part, types.CodeType):
            found[part.co_qualname, part.co_firstlineno] = part
            found.update(_codes(part))
    return found
