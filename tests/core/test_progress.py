"""The progress line: moves, says when JAX compiles, covers the choice of points, and is for terminals only."""

from __future__ import annotations

import io
import re
import sys
import threading
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kosambi as ko
from kosambi._core.progress import Interruption, Progress, is_compiling
from kosambi.learning.search import Record, minimise


class Terminal(io.StringIO):
    def isatty(self):
        return True


def on_terminal(monkeypatch):
    """In the test itself: between fixtures and tests pytest puts its own stderr back."""
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    # So that nothing is cut off.
    monkeypatch.setenv("COLUMNS", "160")
    return screen


def slow_to_compile(x):
    for i in range(200):
        x = jnp.sin(x + i) @ x
    return x


def test_compiling_is_told_from_computing():
    """Looked at from another thread, as the line does."""
    worker, seen, stop = threading.get_ident(), [], threading.Event()

    def look():
        while not stop.wait(0.005):
            seen.append(is_compiling(worker))

    def share(work):
        seen.clear()
        stop.clear()
        watcher = threading.Thread(target=look)
        watcher.start()
        work()
        stop.set()
        watcher.join()
        return np.mean(seen)

    x = np.ones((2, 2))
    # A number that no earlier run has had, so that no cache holds the program.
    fresh = time.time() % 1.0
    function = jax.jit(lambda x: slow_to_compile(x) + fresh)
    assert share(lambda: function(x).block_until_ready()) > 0.5
    runs = share(lambda: [function(x).block_until_ready() for _ in range(2000)])
    assert runs < 0.05
    assert not is_compiling(0)


def test_the_line_says_so_and_moves(monkeypatch):
    terminal = on_terminal(monkeypatch)
    fresh = time.time() % 1.0
    with Progress() as line:
        line.update("searching")
        jax.jit(lambda x: slow_to_compile(x) + fresh)(np.ones((3, 3)))
        line.update("searching", 0, 10)
        for done in range(1, 4):
            line.step(done, f"objective {done}.5")
            time.sleep(0.15)
    shown = terminal.getvalue()
    assert "searching: compiling" in shown
    assert "3/10" in shown
    assert "objective 2.5" in shown


def test_a_limit_that_is_not_known_is_not_shown(monkeypatch):
    terminal = on_terminal(monkeypatch)
    with Progress() as line:
        line.update("counting", 1, 7)
        time.sleep(0.15)
        line.update("waiting [red]in line[/red]")
        time.sleep(0.15)
    last = terminal.getvalue().rpartition("counting")[2]
    assert "waiting [red]in line[/red]" in last
    assert "/7" not in last.partition("waiting")[2]


def test_searches_and_the_choice_of_points_are_covered(monkeypatch):
    terminal = on_terminal(monkeypatch)
    x = np.linspace(-3.0, 3.0, 60)[:, None]
    y = np.sin(2 * x[:, 0])
    prior = ko.GaussianProcess(ko.kernels.SquaredExponential(0.7))
    ko.select_inducing(prior, ko.likelihoods.Gaussian(0.1), x, y)
    assert "choosing inducing points" in terminal.getvalue()
    with Progress() as line:
        line.update("search", 5, 100)
        minimise(
            lambda v: (time.sleep(0.02), (float(np.sum((v - 1) ** 4)), 4 * (v - 1) ** 3))[1],
            *(np.full(3, edge) for edge in (0.1, -5.0, 5.0)),
            30,
            Record(show=line),
        )
    shown = [int(number) for number in re.findall(r"(\d+)/100", terminal.getvalue())]
    assert 5 < max(shown) <= 30
    assert "objective" in terminal.getvalue()


def test_nothing_is_shown_where_there_is_no_terminal(capfd, monkeypatch):
    terminal = on_terminal(monkeypatch)
    x = np.linspace(-3.0, 3.0, 30)[:, None]
    prior = ko.GaussianProcess(ko.kernels.SquaredExponential(0.7))
    ko.select_inducing(prior, ko.likelihoods.Gaussian(0.1), x, x[:, 0], progress=False)
    assert not terminal.getvalue()
    terminal.isatty = lambda: False
    ko.select_inducing(prior, ko.likelihoods.Gaussian(0.1), x, x[:, 0])
    assert not terminal.getvalue()
    assert capfd.readouterr() == ("", "")


def test_an_interruption_is_raised_or_remembered():
    stop = Interruption()
    with pytest.raises(KeyboardInterrupt), stop:
        raise KeyboardInterrupt
    assert not stop.happened
    stop = Interruption("return")
    with stop:
        raise KeyboardInterrupt
    assert stop.happened
    with pytest.raises(ZeroDivisionError), stop:
        raise ZeroDivisionError
    with pytest.raises(ko.errors.InputError, match="`on_interrupt` must be"):
        Interruption("keep")
