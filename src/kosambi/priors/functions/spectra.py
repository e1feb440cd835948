r"""Draws from N(0, k) that are jointly normal with nearly the right covariance: spectra summed on a grid.

Posterior draws subtract from a prior draw what the coordinates explain of it. What is left is small, so plain random
features (`kosambi.priors.functions.features`), whose error is a part 1/√R of the *prior* variance, will not do. In one
and two columns a spectral density S is summed instead on the midpoints ω_r of a grid with spacing δ,

    F(x) = σ Σ_r √w_r (a_r cos ω_r·x + b_r sin ω_r·x),   w_r = 2 S(ω_r) Π_d δ_d,   a, b ~ N(0, 1),

(for a periodic kernel: on its harmonics; for a product of kernels of one column: on all sums of their frequencies). The
covariance is Σ_m (−1)^m k(x − z + mP) with the period P = 2π/δ, by Poisson's summation: exact for inputs that are
farther than the kernel reaches from being one period apart. P is at least twice the extent of the data and 20
lengthscales; inputs farther apart than the `window` of an expansion are warned of.

What no grid holds (the high frequencies of a rough kernel, kernels of three and more columns, most products) is drawn
at random, with its share of the variance. Half of these frequencies are spread evenly over the logarithm of the share
that lies beyond them, with weights, since most of the residual of the coordinates comes from the few that lie far out.
Draws share them in groups, small enough that the error of the covariance stays below a fifth of the Monte Carlo error.
"""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from kosambi._core.precision import host_generator
from kosambi._core.types import Key
from kosambi.kernels import AbstractFinite, AbstractRadial, AbstractStationary, Periodic
from kosambi.priors.functions.expansions import AbstractExpansion, FiniteExpansion, FourierExpansion, product_features
from kosambi.priors.functions.features import Term

# Frequencies of a grid in one and in two columns, at most, and of a product of kernels.
MAX_GRID = (512, 2048)
MAX_SUMS = 4096
# A short spectrum in one column is given this many, for a longer period.
_FEWEST = 64
# Random frequencies in a list, by the share of the variance that they stand for.
_RANDOM_FREQUENCIES = ((0.1, 512), (1e-3, 128), (0.0, 32))
# Draws that share a list, at most.
_DRAWS_PER_LIST = 500
# A tail with less than this share of the variance is left out, and so are the rarest sums of frequencies.
_NEGLIGIBLE, _RAREST = 1e-9, 1e-14
# Lengthscales that a period is longer than twice the data, at least; and how far most kernels reach.
_MARGIN, _REACH = 20.0, 10.0


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
    """Frequencies in a half space that are summed, not drawn."""

    frequencies: Float[np.ndarray, "R D"]
    shares: Float[np.ndarray, " R"]
    """Of the variance."""
    window: Float[np.ndarray, " D"]
    """Inputs farther apart than this meet the next period."""
    radius: float = np.inf
    """Scaled frequencies farther out are drawn at random; infinite when there are none."""


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
    has_tail = grid is None or (left > _NEGLIGIBLE and grid.radius < np.inf)
    if grid is not None:
        # What is neither on the grid nor worth a tail goes to the grid, so that variances are exact.
        shares = grid.shares if has_tail else grid.shares / grid.shares.sum()
        waves = _waves(key_grid, term.finite, grid.frequencies[None], variance * shares[None], num_draws, features)
        parts.append(waves.within(grid.window))
    if has_tail:
        count = next(number for share, number in _RANDOM_FREQUENCIES if left >= share)
        # The covariance is off by left/√(2·count·lists). That is to be below a fifth of the Monte Carlo error 1/√J, and
        # far below it for a tail, since rough kernels leave little else between points that are near.
        lists = math.ceil(num_draws * max(12.5 * left / count, 1.0 / _DRAWS_PER_LIST))
        generator = host_generator(key_frequencies)
        drawn = [_random(generator, term.stationary, count, num_columns, grid) for _ in range(lists)]
        omega, weights = (np.stack(arrays) for arrays in zip(*drawn, strict=True))
        shares = left * weights / weights.sum(axis=1, keepdims=True)
        parts.append(_waves(key_tail, term.finite, omega, variance * shares, num_draws, features))
    return parts


def _grid(kernels: tuple[AbstractStationary, ...], num_columns: int, extent: Float[np.ndarray, " D"]) -> Grid | None:
    if len(kernels) > 1:
        return _sums(kernels, num_columns, extent)
    kernel = kernels[0]
    if isinstance(kernel, Periodic):
        return _harmonics(kernel, num_columns)
    if not isinstance(kernel, AbstractRadial) or kernel.spectral_reach is None:
        return None
    dims, lengthscale = _scales(kernel, num_columns)
    if len(dims) > 2:
        return None
    most = MAX_GRID[len(dims) - 1]
    # Kernels with long tails get as long a period as the frequencies that are allowed can fill, short spectra a longer
    # one than they need.
    side = most if len(dims) == 1 else np.sqrt(most)
    longest = 2.0 * np.pi / kernel.spectral_reach * side - float(np.max(2.0 * extent[dims] / lengthscale))
    wanted = max(kernel.reach, 2.0 * np.pi / kernel.spectral_reach * _FEWEST if len(dims) == 1 else 0.0)
    period = 2.0 * extent[dims] + max(_MARGIN, min(wanted, longest)) * lengthscale
    spacing = 2.0 * np.pi / period
    scaled = lengthscale * spacing
    # As far out as the kernel asks for, or as so many frequencies of a half space reach.
    largest = most * float(np.prod(scaled))
    radius = min(kernel.spectral_reach, largest if len(dims) == 1 else np.sqrt(2.0 * largest / np.pi))
    has_tail = kernel.spectral_tail(np.ones(1), radius, len(dims)) is not None
    if radius < kernel.spectral_reach and not has_tail:
        return None
    counts = np.maximum(1, np.floor(radius / scaled)).astype(int)
    if len(dims) == 1:
        # One of few numbers, so that draws for a little more data need not be compiled again.
        counts = np.minimum(16 * np.ceil(counts / 16).astype(int), most)
        radius = float(counts[0] * scaled[0])
    axes = [(np.arange(counts[0]) + 0.5) * spacing[0]]
    axes += [(np.arange(-n, n) + 0.5) * step for n, step in zip(counts[1:], spacing[1:], strict=True)]
    omega = np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=1)
    squares = np.sum((omega * lengthscale) ** 2, axis=1)
    omega, squares = omega[squares <= radius**2], squares[squares <= radius**2]
    frequencies, window = np.zeros((len(omega), num_columns)), np.full(num_columns, np.inf)
    frequencies[:, dims], window[dims] = omega, period - _REACH * lengthscale
    shares = 2.0 * np.asarray(kernel.spectral_density(squares, len(dims))) * float(np.prod(scaled))
    return Grid(frequencies, shares, window, float(radius) if has_tail else np.inf)


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
    folded = np.concatenate([shares[middle : middle + 1], 2.0 * shares[middle + 1 :]])
    return Grid(frequencies, folded, np.full(num_columns, np.inf))


def _sums(kernels: tuple[AbstractStationary, ...], num_columns: int, extent: Float[np.ndarray, " D"]) -> Grid | None:
    """The spectrum of a product of kernels of one and the same column: all sums of their frequencies."""
    columns = {tuple(range(num_columns)) if k.active_dims is None else k.active_dims for k in kernels}
    if len(columns) > 1 or len(next(iter(columns))) > 1:
        return None
    ((column,),) = columns
    total, shares, window = np.zeros(1), np.ones(1), np.full(num_columns, np.inf)
    for kernel in kernels:
        grid = _grid((kernel,), num_columns, extent)
        # A product falls faster than its factors, so what a factor's tail holds is small; but it must not be lost.
        if grid is None or 1.0 - grid.shares.sum() > 1e-4:
            return None
        omega = grid.frequencies[:, column]
        half = np.where(omega > 0, 0.5, 1.0) * grid.shares / grid.shares.sum()
        signed, halves = np.concatenate([omega, -omega[omega > 0]]), np.concatenate([half, half[omega > 0]])
        total, shares = (total[:, None] + signed).ravel(), (shares[:, None] * halves).ravel()
        # Merged where they agree, and without those that nobody would miss.
        keys, places = np.unique(np.round(total, 9), return_inverse=True)
        shares = np.bincount(places, weights=shares).astype(float)
        total, shares = keys[shares > _RAREST], shares[shares > _RAREST]
        window = np.minimum(window, grid.window)
        if len(total) > 2 * MAX_SUMS:
            return None
    positive = total >= 0
    frequencies = np.zeros((int(positive.sum()), num_columns))
    frequencies[:, column] = total[positive]
    return Grid(frequencies, np.where(total > 0, 2.0, 1.0)[positive] * shares[positive], window)


def _random(
    generator: np.random.Generator,
    kernels: tuple[AbstractStationary, ...],
    count: int,
    num_columns: int,
    grid: Grid | None,
) -> tuple[Float[np.ndarray, "R D"], Float[np.ndarray, " R"]]:
    """Random frequencies and weights: of a whole spectrum, or of what lies outside the ball of a grid."""
    omega, weights = np.zeros((count, num_columns)), np.ones(count)
    if grid is not None:
        kernel = kernels[0]
        assert isinstance(kernel, AbstractRadial)
        dims, _ = _scales(kernel, num_columns)
        found = kernel.tail_frequencies(generator, count, len(dims), grid.radius)
        assert found is not None
        omega[:, dims], weights = found
        return omega, weights
    for kernel in kernels:
        dims = np.arange(num_columns) if kernel.active_dims is None else np.asarray(kernel.active_dims)
        some, more = kernel.spread_frequencies(generator, count, len(dims))
        # In another order for each kernel, since far frequencies stand together.
        order = generator.permutation(count)
        omega[:, dims] += some[order]
        weights = weights * more[order]
    return omega, weights


def _scales(kernel: AbstractRadial, num_columns: int) -> tuple[np.ndarray, np.ndarray]:
    """The columns that a kernel looks at, and their lengthscales."""
    dims = np.arange(num_columns) if kernel.active_dims is None else np.asarray(kernel.active_dims)
    return dims, np.broadcast_to(np.asarray(kernel.lengthscale), (len(dims),))


def _waves(
    key: Key,
    factors: tuple[AbstractFinite, ...],
    frequencies: Float[np.ndarray, "G R D"],
    variances: Float[np.ndarray, "G R"],
    num_draws: int,
    num_features: int,
) -> FourierExpansion:
    # On the host, which compiles nothing.
    normal = host_generator(key).normal(size=(2, num_draws, num_features, frequencies.shape[1]))
    lists = np.arange(num_draws) // -(-num_draws // len(frequencies))
    cosine, sine = np.sqrt(variances)[lists][:, None] * normal
    return FourierExpansion(factors, frequencies, cosine, sine)
