"""Posteriors with one or two coordinates on a grid, and tests of particles against them."""

from __future__ import annotations

from typing import NamedTuple

import jax
import numpy as np
import scipy.stats

import kosambi as ko


class Grid(NamedTuple):
    """Points w (G, M) and their probabilities."""

    points: np.ndarray
    weights: np.ndarray

    def mean(self, values):
        return self.weights @ values

    def cdf(self, direction):
        """The distribution function of a projection, continuous between the grid points."""
        along = self.points @ direction
        order = np.argsort(along)
        total = np.cumsum(self.weights[order])
        middle = total - 0.5 * self.weights[order]
        return lambda t: np.interp(t, along[order], middle, left=0.0, right=1.0)


def grid_of(target: ko.Target, keep=lambda w: np.ones(len(w), bool), reach=10.0, count=400) -> Grid:
    """exp(−V) in whitened coordinates, by brute force on a grid that is fine on the scale of the posterior."""
    size = target.basis.size
    axis = np.linspace(-reach, reach, count if size == 2 else 20_001)
    points = np.stack(np.meshgrid(*[axis] * size, indexing="ij"), -1).reshape(-1, size)
    modes = ko.target.find_modes(jax.random.key(99), target)
    centre = next(mode for mode in modes.positions if keep(mode[None])[0])
    if size == 2:
        # Askew, so that no projection that is tested runs along the grid, where its steps would show.
        points = points @ np.array([[np.cos(0.4), np.sin(0.4)], [-np.sin(0.4), np.cos(0.4)]])
    points = centre + points @ modes.roots[0].T
    potential = target.potential(target.basis.colour(points))
    density = np.exp(-(potential - potential[np.isfinite(potential)].min())) * keep(points)
    density = np.where(np.isfinite(density), density, 0.0)
    return Grid(points, density / density.sum())


def p_values(w: np.ndarray, grid: Grid) -> list[float]:
    """One for each marginal and a fixed oblique projection (Kolmogorov-Smirnov), each variance, and the covariance."""
    directions = [*np.eye(w.shape[1])]
    if w.shape[1] == 2:
        directions.append(np.array([0.8, -0.6]))
    found = [scipy.stats.kstest(w @ d, grid.cdf(d)).pvalue for d in directions]
    centre = grid.mean(grid.points)
    ours, true = w - centre, grid.points - centre
    pairs = [(i, j) for i in range(w.shape[1]) for j in range(i, w.shape[1])]
    for i, j in pairs:
        product, expected = ours[:, i] * ours[:, j], grid.mean(true[:, i] * true[:, j])
        deviation = np.sqrt(grid.mean((true[:, i] * true[:, j]) ** 2) - expected**2)
        found.append(2 * scipy.stats.norm.sf(abs(product.mean() - expected) / deviation * np.sqrt(len(w))))
    return [float(p) for p in found]


def small_target(likelihood, y, size: int = 2) -> ko.Target:
    """A posterior far from normal: few data, a wide prior, `size` coordinates."""
    x = np.linspace(0.0, 1.0, len(y))[:, None]
    prior = ko.GaussianProcess(ko.kernels.SquaredExponential(lengthscale=0.8, variance=2.0))
    return ko.Target(ko.PointBasis(prior, np.array([[0.1], [0.9]])[:size]), likelihood, x, y, "projected")
