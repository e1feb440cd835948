r"""Draws from N(0, k) that are jointly normal with nearly the right covariance: spectra summed on a grid.

Posterior draws subtract from a prior draw what the coordinates explain of it. What is left is small, so plain random
features (`kosambi.features`), whose error is a part 1/√R of the *prior* variance, will not do. In one and two columns a
spectral density S is summed instead on the midpoints ω_r of a grid with spacing δ,

    F(x) = σ Σ_r √w_r (a_r cos ω_r·x + b_r sin ω_r·x),   w_r = 2 S(ω_r) Π_d δ_d,   a, b ~ N(0, 1),

(for a periodic kernel: on its harmonics). The covariance is Σ_m (−1)^m k(x − z + mP) with the period P = 2π/δ, by
Poisson's summation: exact for inputs that are farther than the kernel reaches from being one period apart. P is twice
the extent of the data and 20 lengthscales.

What no grid holds (the high frequencies of a rough kernel, kernels of three and more columns, products of stationary
kernels) is drawn at random, with its share of the variance. Draws share such frequencies in groups, small enough that
the error of the covariance stays below a fifth of the Monte Carlo error of that many draws.
"""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from kosambi._types import Array, Key
from kosambi.expansions import AbstractExpansion, FiniteExpansion, FourierExpansion, product_features
from kosambi.features import Term
from kosambi.kernels import AbstractFinite, AbstractRadial, AbstractStationary, Periodic
from kosambi.precision import compiled, host_generator

# Frequencies of a grid in one and in two columns, at most.
MAX_GRID = (512, 2048)
# Random frequencies in a list, by the share of the variance that they stand for.
_RANDOM_FREQUENCIES = ((0.1, 512), (1e-3, 128), (0.0, 32))
# A tail with less than this share of the variance is left out.
_NEGLIGIBLE = 1e-9
# Lengthscales that a period is longer than twice the data, at least; most kernels reach no farther.
_MARGIN = 20.0


def draw_spectra(
    key: Key,
    terms: tuple[Term, ...],
    num_draws: int,
    num_columns: int,
    extent: Float[np.ndarray, " D"],
) -> tuple[AbstractExpansion, ...]:
    """J draws with mean zero from each term, to be added up; `extent` is the width of the data in each column."""
    keys = jax.random.split(key, len(terms))
    parts = [_draw_term(k, term, num_draws, num_columns, extent) for k, term in zip(keys, terms, strict=True)]
    return tuple(itertools.chain.from_iterable(parts))


class Grid(NamedTuple):
    """Midpoints of a grid within a ball of scaled frequencies, in a half space."""

    frequencies: Float[np.ndarray, "R D"]
    shares: Float[np.ndarray, " R"]
    """Of the variance."""
    radius: float
    """Of the ball."""
    has_tail: bool
    """Whether frequencies outside of it can be drawn."""


def _draw_term(
    key: Key, term: Term, num_draws: int, num_columns: int, extent: Float[np.ndarray, " D"]
) -> list[AbstractExpansion]:
    key_grid, key_frequencies, key_tail = jax.random.split(key, 3)
    features = jax.eval_shape(lambda x: product_features(term.finite, x), np.zeros((1, num_columns))).shape[1]
    if not term.stationary:
        return [FiniteExpansion(term.finite, host_generator(key_grid).normal(size=(num_draws, features)))]
    variance = float(np.prod([np.asarray(kernel.variance) for kernel in term.stationary]))
    grid = _grid(term.stationary, num_columns, extent)
    parts: list[AbstractExpansion] = []
    left = 1.0 if grid is None else max(0.0, 1.0 - float(grid.shares.sum()))
    if grid is not None:
        # What is neither on the grid nor worth a tail goes to the grid, so that variances are exact.
        has_tail = left > _NEGLIGIBLE and grid.has_tail
        shares = grid.shares if has_tail else grid.shares / grid.shares.sum()
        amplitudes = np.sqrt(variance * shares)
        parts.append(_waves(key_grid, term.finite, grid.frequencies[None], amplitudes, num_draws, features))
    if left > _NEGLIGIBLE and (grid is None or grid.has_tail):
        count = next(number for share, number in _RANDOM_FREQUENCIES if left >= share)
        # The covariance is off by left/√(2·count·lists). That is to be below a fifth of the Monte Carlo error 1/√J, and
        # far below it for a tail, since rough kernels leave little else between points that are near.
        lists = int(np.clip(math.ceil(12.5 * left * num_draws / count), 1, num_draws))
        if grid is None:
            frequencies = np.asarray(_sample(key_frequencies, term.stationary, lists * count, num_columns))
        else:
            frequencies = _tail(key_frequencies, term.stationary[0], lists * count, num_columns, grid.radius)
        amplitudes = np.full(count, np.sqrt(variance * left / count))
        lists_of = frequencies.reshape(lists, count, num_columns)
        parts.append(_waves(key_tail, term.finite, lists_of, amplitudes, num_draws, features))
    return parts


def _grid(kernels: tuple[AbstractStationary, ...], num_columns: int, extent: Float[np.ndarray, " D"]) -> Grid | None:
    kernel = kernels[0]
    if len(kernels) == 1 and isinstance(kernel, Periodic):
        return _harmonics(kernel, num_columns)
    if len(kernels) > 1 or not isinstance(kernel, AbstractRadial) or kernel.spectral_reach is None:
        return None
    dims, lengthscale = _scales(kernel, num_columns)
    if len(dims) > 2:
        return None
    # Kernels with long tails get as long a period as the frequencies that are allowed can fill.
    longest = 2.0 * np.pi / kernel.spectral_reach * (MAX_GRID[0] if len(dims) == 1 else np.sqrt(MAX_GRID[1]))
    reach = max(_MARGIN, min(kernel.reach, longest - float(np.max(2.0 * extent[dims] / lengthscale))))
    spacing = 2.0 * np.pi / (2.0 * extent[dims] + reach * lengthscale)
    scaled = lengthscale * spacing
    # As far out as the kernel asks for, or as so many frequencies of a half space reach.
    largest = MAX_GRID[len(dims) - 1] * float(np.prod(scaled))
    radius = min(kernel.spectral_reach, largest if len(dims) == 1 else np.sqrt(2.0 * largest / np.pi))
    has_tail = kernel.spectral_tail(np.ones(1), radius, len(dims)) is not None
    if radius < kernel.spectral_reach and not has_tail:
        return None
    counts = np.maximum(1, np.floor(radius / scaled)).astype(int)
    if len(dims) == 1:
        # One of few numbers, so that draws for a little more data need not be compiled again.
        counts = np.minimum(16 * np.ceil(counts / 16).astype(int), MAX_GRID[0])
    axes = [(np.arange(counts[0]) + 0.5) * spacing[0]]
    axes += [(np.arange(-n, n) + 0.5) * step for n, step in zip(counts[1:], spacing[1:], strict=True)]
    omega = np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=1)
    squares = np.sum((omega * lengthscale) ** 2, axis=1)
    if len(dims) == 1:
        radius = float(counts[0] * scaled[0])
    omega, squares = omega[squares <= radius**2], squares[squares <= radius**2]
    frequencies = np.zeros((len(omega), num_columns))
    frequencies[:, dims] = omega
    shares = 2.0 * np.asarray(kernel.spectral_density(squares, len(dims))) * float(np.prod(scaled))
    return Grid(frequencies, shares, float(radius), has_tail)


def _harmonics(kernel: Periodic, num_columns: int) -> Grid | None:
    """The discrete spectrum of a periodic kernel, exact."""
    dims = np.arange(num_columns) if kernel.active_dims is None else np.asarray(kernel.active_dims)
    columns = [kernel.harmonics(column) for column in range(len(dims))]
    if np.prod([len(omega) for omega, _ in columns]) > 2 * MAX_GRID[1]:
        return None
    omega = np.stack([w.ravel() for w in np.meshgrid(*(c[0] for c in columns), indexing="ij")], axis=1)
    shares = np.prod(np.stack([p.ravel() for p in np.meshgrid(*(c[1] for c in columns), indexing="ij")]), axis=0)
    # ω and −ω are the same waves. They stand mirrored around zero, which is in the middle.
    middle = len(shares) // 2
    frequencies = np.zeros((middle + 1, num_columns))
    frequencies[:, dims] = omega[middle:]
    return Grid(frequencies, np.concatenate([shares[middle : middle + 1], 2.0 * shares[middle + 1 :]]), np.inf, False)


def _tail(key: Key, kernel: AbstractStationary, count: int, num_columns: int, radius: float) -> np.ndarray:
    """Random frequencies outside the ball of a grid."""
    assert isinstance(kernel, AbstractRadial)
    dims, lengthscale = _scales(kernel, num_columns)
    generator = host_generator(key)
    directions = generator.normal(size=(count, len(dims)))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    frequencies = np.zeros((count, num_columns))
    norms = kernel.spectral_tail(generator.uniform(size=count), radius, len(dims))
    assert norms is not None
    frequencies[:, dims] = norms[:, None] * directions / lengthscale
    return frequencies


def _scales(kernel: AbstractRadial, num_columns: int) -> tuple[np.ndarray, np.ndarray]:
    """The columns that a kernel looks at, and their lengthscales."""
    dims = np.arange(num_columns) if kernel.active_dims is None else np.asarray(kernel.active_dims)
    return dims, np.broadcast_to(np.asarray(kernel.lengthscale), (len(dims),))


@compiled
def _sample(key: Key, kernels: tuple[AbstractStationary, ...], count: int, num_columns: int) -> Float[Array, "R D"]:
    frequencies = jnp.zeros((count, num_columns))
    for kernel_key, kernel in zip(jax.random.split(key, len(kernels)), kernels, strict=True):
        dims = np.arange(num_columns) if kernel.active_dims is None else np.asarray(kernel.active_dims)
        frequencies = frequencies.at[:, dims].add(kernel.sample_frequencies(kernel_key, count, len(dims)))
    return frequencies


def _waves(
    key: Key,
    factors: tuple[AbstractFinite, ...],
    frequencies: Array,
    amplitudes: Array,
    num_draws: int,
    num_features: int,
) -> FourierExpansion:
    # On the host, which compiles nothing.
    shape = (2, num_draws, num_features, amplitudes.shape[0])
    cosine, sine = amplitudes * host_generator(key).normal(size=shape)
    return FourierExpansion(factors, frequencies, cosine, sine)
