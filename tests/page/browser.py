"""A headless Chromium on a pipe: the DevTools protocol over two file descriptors, without any package for it."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome")
# Chromium reads commands from descriptor 3 and writes answers to 4, whatever numbers the pipes have here.
_ONTO_3_AND_4 = """
import os, sys
reading, writing = os.dup(int(sys.argv[1])), os.dup(int(sys.argv[2]))
reading, writing = (os.dup2(fd, 20 + i) for i, fd in enumerate((reading, writing)))
os.dup2(reading, 3, inheritable=True), os.dup2(writing, 4, inheritable=True)
os.execv(sys.argv[3], sys.argv[3:])
"""


def executable() -> str | None:
    """Where a browser is, if there is one."""
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Browser:
    """One browser with one tab. `with Browser(path, profile) as browser:` ends it in any case."""

    def __init__(self, path: str, profile: Path, timeout: float = 60.0) -> None:
        self._deadline = time.monotonic() + timeout
        child_reads, self._write = os.pipe()
        self._read, child_writes = os.pipe()
        flags = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-background-networking",
            "--disable-component-update",
            "--no-first-run",
            "--remote-debugging-pipe",
            f"--user-data-dir={profile}",
        ]
        command = [sys.executable, "-S", "-c", _ONTO_3_AND_4, str(child_reads), str(child_writes), path, *flags]
        # A session of its own, so that all of its processes can be ended together.
        self._process = subprocess.Popen(
            command,
            pass_fds=(child_reads, child_writes),
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(child_reads)
        os.close(child_writes)
        self._number, self._rest, self._session = 0, b"", None
        self.events: list[dict] = []

    def __enter__(self) -> Browser:
        try:
            target = self.call("Target.createTarget", url="about:blank")["targetId"]
            self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            for domain in ("Page", "Runtime", "Log", "Network"):
                self.call(f"{domain}.enable")
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End every process of the browser."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(timeout=10)
        for descriptor in (self._read, self._write):
            os.close(descriptor)

    def call(self, method: str, **parameters: object) -> dict:
        """Send a command and wait for its answer."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def open(self, url: str, width: int, height: int = 900, scheme: str = "light") -> None:
        """Load a page in a window of that size, and wait until all of it is there."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.events.clear()
        self.call("Page.navigate", url=url)
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self._receive()

    def evaluate(self, script: str) -> object:
        """The value of an expression in the page."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(str(answer["exceptionDetails"]))
        return answer["result"].get("value")

    def screenshot(self, path: Path) -> None:
        """What the window shows, as PNG."""
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def _receive(self) -> dict:
        """The next message; events are kept."""
        while b"\0" not in self._rest:
            left = self._deadline - time.monotonic()
            if left <= 0 or not select.select([self._read], [], [], left)[0]:
                raise TimeoutError("the browser did not answer in time")
            piece = os.read(self._read, 2**20)
            if not piece:
                raise RuntimeError("the browser ended by itself")
            self._rest += piece
        line, self._rest = self._rest.split(b"\0", 1)
        message = json.loads(line)
        if "method" in message:
            self.events.append(message)
        return message
