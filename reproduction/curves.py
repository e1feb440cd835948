"""What the paper's one-dimensional experiments share: ten curves, their data, how inputs are held out, step sizes.

Curve c is one of ten functions on a grid from −3 to 3, standardised over the grid. Noise comes from NumPy's generator,
so data have the same distribution as the paper's and are not the same numbers. The step size of Euler-Maruyama is
searched as in the paper: the lowest energy at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float, Int

import kosambi as ko
from kosambi.samplers.report import Report

_FIRST_SEED = 100
_PI = np.pi
FORMULAS: tuple[Callable[[np.ndarray], np.ndarray], ...] = (
    lambda x: 2.0 * np.sin(0.35 * _PI * x**2),
    lambda x: 2.0 * np.sin(1.5 * _PI * x),
    lambda x: 1.2 * np.cos(1.5 * _PI * x) - 0.25 * x,
    lambda x: 2.0 * np.sin(0.5 * _PI * x) + 0.6 * np.cos(2.0 * _PI * x) + np.sin(_PI * x),
    lambda x: 2.0 * np.sin(1.5 * _PI * x) + 0.25 * x,
    lambda x: 2.0 * np.sin(0.5 * _PI * x**2) + 0.1 * x,
    lambda x: 4.0 * np.sin(_PI * x) + 2.0 * np.sin(2.0 * _PI * x) - x,
    lambda x: 6.0 * np.cos(_PI * x) + 3.0 * np.sin(2.0 * _PI * x) - x**2,
    lambda x: np.sin(0.3 * _PI * (x - 2.0) ** 2) + 0.1 * x,
    lambda x: np.sqrt(9.0 - x**2) + np.sin(_PI * x),
)
NUM_INTERVALS = 12
ALWAYS_HELD_OUT = (0, 1, 10, 11)
ALSO_HELD_OUT = (4, 3, 7, 7, 8, 5, 6, 6, 7, 8)
"""One interval more for each curve: 3 + the first of `torch.randperm(6)` with the curve's number for a seed."""


class Split(NamedTuple):
    """Places on the grid."""

    train: Int[np.ndarray, " N"]
    test: Int[np.ndarray, " T"]


def grid(size: int) -> Float[np.ndarray, "N 1"]:
    """Inputs of a curve.

    >>> grid(4)[:, 0]
    array([-3., -1.,  1.,  3.])
    """
    return np.linspace(-3.0, 3.0, size)[:, None]


def curve(number: int, size: int) -> Float[np.ndarray, " N"]:
    """c on the grid: mean zero, and sample standard deviation one.

    Arguments:
        number: 1 to 10.
        size: of the grid.

    >>> values = curve(2, 500)
    >>> bool(abs(values.mean()) < 1e-12), round(float(values.std(ddof=1)), 12)
    (True, 1.0)
    """
    values = FORMULAS[number - 1](grid(size)[:, 0])
    standardised: np.ndarray = (values - values.mean()) / values.std(ddof=1)
    return standardised


def interval_split(number: int, size: int) -> Split:
    """Hold out five of twelve intervals: two at either end, and one inside that differs between curves.

    What is left when the grid is cut into twelve equal parts is not used.

    >>> split = interval_split(1, 500)
    >>> len(split.train), len(split.test)
    (287, 205)
    """
    length = size // NUM_INTERVALS
    places = np.arange(NUM_INTERVALS * length)
    held_out = np.isin(places // length, (*ALWAYS_HELD_OUT, ALSO_HELD_OUT[number - 1]))
    return Split(places[~held_out], places[held_out])


def random_split(size: int, num_test: int, seed: int = 0) -> Split:
    """By scikit-learn's `train_test_split`, as the paper's code does it.

    >>> len(random_split(1000, 400).train)
    600
    """
    from sklearn.model_selection import train_test_split

    return Split(*train_test_split(np.arange(size), test_size=num_test, random_state=seed))


def regression(number: int, size: int = 500) -> Float[np.ndarray, " N"]:
    """c with normal noise of standard deviation 0.2."""
    return curve(number, size) + 0.2 * np.random.default_rng(0).normal(size=size)


def counts(number: int, size: int = 1000) -> Float[np.ndarray, " N"]:
    """Poisson counts with rate (2c)²."""
    return np.random.default_rng(0).poisson((2.0 * curve(number, size)) ** 2).astype(float)


def unshifted(number: int, size: int = 1000) -> Float[np.ndarray, " N"]:
    """2c with standard normal noise; the published code never shifts it."""
    return 2.0 * curve(number, size) + np.random.default_rng(0).normal(size=size)


class Searched(NamedTuple):
    """What was tried, and the best of it, if any step size was stable."""

    tried: list[dict[str, Any]]
    """Size and mean potential at the end, None where it diverged."""
    particles: ko.samplers.Particles | None
    report: Report | None


def search_step_size(target: ko.Target, sizes: list[float], duration: float, start: np.ndarray) -> Searched:
    """Run every step size for the same time from the same start (J, M)."""
    tried: list[dict[str, Any]] = []
    lowest, best = np.inf, Searched(tried, None, None)
    for place, size in enumerate(sizes):
        sampler = ko.samplers.EulerMaruyama(size, duration=duration)
        key = jax.random.key(_FIRST_SEED + place)
        try:
            particles, report = ko.sample(key, target, sampler, len(start), initial=start, progress=False)
        except ko.errors.DivergenceError:
            tried.append({"size": size, "energy": None})
            continue
        energy = float(np.mean(np.asarray(target.potential(particles.coordinates))))
        tried.append({"size": size, "energy": energy})
        if energy < lowest:
            lowest, best = energy, Searched(tried, particles, report)
    return best
