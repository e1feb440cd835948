r"""Measures ν over inputs: where a Gaussian random element puts its variance (paper, section 3.5.2).

The covariance operator C f = ∫ k(·, s) f(s) dν(s) needs a probability measure. Points with weights,
ν = Σ_i p_i δ_{s_i}, make everything a finite sum; a normal ν keeps r analytic for a squared exponential k. Weights are
scaled to sum to one.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from kosambi._core.checks import as_count, as_float_array, as_inputs, check_finite, check_key, is_traced
from kosambi._core.precision import Module, compiled, public
from kosambi._core.representation import shown_value
from kosambi._core.types import Array, ArrayLike, Key
from kosambi.errors import InputError


class AbstractMeasure(Module):
    """A probability measure on inputs with `num_columns` columns."""

    @property
    @abc.abstractmethod
    def num_columns(self) -> int:
        """D, the number of input columns."""


class PointMeasure(AbstractMeasure):
    """ν = Σ_i p_i δ_{s_i}: `points` (S, D) with `weights` (S,) that sum to one.

    A point that occurs twice counts twice. Points of weight zero are allowed and carry nothing.
    """

    points: Array
    weights: Array

    def __init__(self, points: ArrayLike, weights: ArrayLike | None = None) -> None:
        self.points = as_inputs("points", points)
        if weights is None:
            weights = np.ones(self.points.shape[0])
        self.weights = _as_weights("weights", weights, self.points.shape[0], "points")

    def __repr__(self) -> str:
        # Equal weights are what it has when none are given.
        is_plain = isinstance(self.weights, np.ndarray) and bool(np.all(self.weights == self.weights.flat[0]))
        return f"PointMeasure(points={shown_value(self.points)})" if is_plain else super().__repr__()

    @property
    def num_columns(self) -> int:
        """D, the number of input columns."""
        return int(self.points.shape[1])


class GaussianMeasure(AbstractMeasure):
    """ν = N(mean, covariance), with `mean` (D,) and `covariance` (D, D), positive definite."""

    mean: Array
    covariance: Array

    def __init__(self, mean: ArrayLike, covariance: ArrayLike) -> None:
        self.mean = as_float_array("gaussian(mean=...)", mean)
        covariance = as_float_array("gaussian(covariance=...)", covariance)
        if self.mean.ndim != 1 or self.mean.shape[0] == 0:
            raise InputError(f"`gaussian(mean=...)` must have shape (D,). Got {self.mean.shape}. Write [0.0] for D=1.")
        check_finite("gaussian(mean=...)", self.mean)
        check_finite("gaussian(covariance=...)", covariance)
        columns = self.mean.shape[0]
        if covariance.shape != (columns, columns):
            raise InputError(
                f"`gaussian(covariance=...)` must have shape ({columns}, {columns}) to go with the mean. "
                f"Got {covariance.shape}. For independent columns write `np.diag(variances)`."
            )
        if not is_traced(covariance):
            asymmetry = float(np.max(np.abs(covariance - covariance.T)))
            smallest = float(np.linalg.eigvalsh(covariance)[0])
            if asymmetry > 1e-10 * float(np.max(np.abs(covariance))) or smallest <= 0:
                raise InputError(
                    "`gaussian(covariance=...)` must be symmetric and positive definite. Got asymmetry "
                    f"{asymmetry:.2g} and smallest eigenvalue {smallest:.2g}. Add a small multiple of the identity."
                )
        self.covariance = covariance

    @property
    def num_columns(self) -> int:
        """D, the number of input columns."""
        return int(self.mean.shape[0])

    @public
    def sample(self, key: Key, num_points: int) -> PointMeasure:
        """`num_points` independent points from this distribution, each of equal weight, as a measure for any kernel.

        >>> import jax, kosambi as ko
        >>> ko.measures.gaussian([0.0], [[1.0]]).sample(jax.random.key(0), 3).points.shape
        (3, 1)
        """
        num_points = as_count("num_points", num_points)
        return PointMeasure(_normal_points(check_key(key), self.mean, self.covariance, num_points))


class MixtureMeasure(AbstractMeasure):
    """ν = Σ_c w_c ν_c over `components`, of which at least one is not made of points; see `mixture`."""

    components: tuple[AbstractMeasure, ...]
    weights: Array

    @property
    def num_columns(self) -> int:
        """D, the number of input columns."""
        return self.components[0].num_columns


def empirical(x: ArrayLike) -> PointMeasure:
    """The empirical measure of the rows of `x` (N, D), each of weight 1/N; the paper's choice.

    >>> import kosambi as ko
    >>> ko.measures.empirical([[0.0], [1.0], [1.0], [2.0]]).weights
    array([0.25, 0.25, 0.25, 0.25])
    """
    return PointMeasure(as_inputs("x", x))


def points(x: ArrayLike, weights: ArrayLike) -> PointMeasure:
    """Points `x` (S, D) with `weights` (S,), not negative, scaled to sum to one.

    >>> import kosambi as ko
    >>> ko.measures.points([[0.0], [1.0]], weights=[1.0, 3.0]).weights
    array([0.25, 0.75])
    """
    return PointMeasure(as_inputs("x", x), weights)


@public
def subsample(key: Key, x: ArrayLike, size: int) -> PointMeasure:
    """`size` rows of `x`, drawn without replacement, each of equal weight.

    >>> import jax, numpy as np, kosambi as ko
    >>> ko.measures.subsample(jax.random.key(0), np.arange(10.0)[:, None], size=4).points.shape
    (4, 1)
    """
    x = as_inputs("x", x)
    if is_traced((key, x)):
        raise InputError("`subsample` needs concrete arrays. Call it outside `jit` and `vmap`.")
    size = as_count("subsample(size=...)", size, at_most=x.shape[0], limit_name="the number of rows of x")
    rows = jax.random.choice(check_key(key), x.shape[0], (size,), replace=False)
    return PointMeasure(x[np.asarray(rows)])


def gaussian(mean: ArrayLike, covariance: ArrayLike) -> GaussianMeasure:
    """The normal distribution with `mean` (D,) and `covariance` (D, D); r is analytic for a squared exponential kernel.

    >>> import kosambi as ko
    >>> ko.measures.gaussian([0.0, 1.0], [[1.0, 0.0], [0.0, 2.0]]).num_columns
    2
    """
    return GaussianMeasure(mean, covariance)


def mixture(measures: Sequence[AbstractMeasure], weights: ArrayLike | None = None) -> AbstractMeasure:
    """Σ_c w_c ν_c: measures on the same columns, with `weights` (equal when None) scaled to sum to one.

    Measures made of points merge into one list of points.

    >>> import kosambi as ko
    >>> data, background = ko.measures.empirical([[0.0], [1.0]]), ko.measures.points([[5.0]], [1.0])
    >>> ko.measures.mixture([data, background], weights=[0.9, 0.1]).weights
    array([0.45, 0.45, 0.1 ])
    """
    given = list(measures)
    if not given or not all(isinstance(measure, AbstractMeasure) for measure in given):
        raise InputError(f"`mixture` needs a list of measures. Got {measures!r}. Make them with `kosambi.measures`.")
    columns = {measure.num_columns for measure in given}
    if len(columns) > 1:
        raise InputError(f"`mixture` needs measures on the same columns. Got {sorted(columns)} columns.")
    weights = np.ones(len(given)) if weights is None else weights
    shares = _as_weights("mixture(weights=...)", weights, len(given), "measures")
    atoms: list[tuple[Array, Array]] = []
    smooth: list[tuple[float, AbstractMeasure]] = []
    for share, measure in _flattened(shares, given):
        if share == 0:
            continue
        if isinstance(measure, PointMeasure):
            atoms.append((measure.points, share * measure.weights))
        else:
            smooth.append((share, measure))
    if not smooth:
        return PointMeasure(np.concatenate([a for a, _ in atoms]), np.concatenate([w for _, w in atoms]))
    if atoms:
        weight = sum(float(np.sum(w)) for _, w in atoms)
        merged = PointMeasure(np.concatenate([a for a, _ in atoms]), np.concatenate([w for _, w in atoms]))
        smooth.append((weight, merged))
    return MixtureMeasure(tuple(measure for _, measure in smooth), np.asarray([share for share, _ in smooth], float))


def _flattened(shares: Array, measures: Sequence[AbstractMeasure]) -> list[tuple[float, AbstractMeasure]]:
    flat: list[tuple[float, AbstractMeasure]] = []
    for share, measure in zip(np.asarray(shares), measures, strict=True):
        if isinstance(measure, MixtureMeasure):
            flat.extend(_flattened(share * measure.weights, measure.components))
        else:
            flat.append((float(share), measure))
    return flat


def _as_weights(name: str, weights: ArrayLike, size: int, of_what: str) -> Float[Array, " S"]:
    array = as_float_array(name, weights)
    if array.shape != (size,):
        raise InputError(f"`{name}` must have shape ({size},), one per row of the {of_what}. Got {array.shape}.")
    if is_traced(array):
        return array / jnp.sum(array)
    largest = float(np.max(array))
    # Scaled first, because a sum of huge weights overflows.
    total = float(np.sum(array / largest)) if 0 < largest < np.inf else 0.0
    if not np.all(np.isfinite(array)) or np.any(array < 0) or not total > 0:
        raise InputError(
            f"`{name}` must be finite, not negative, and sum to a positive number. Got a smallest weight of "
            f"{float(np.min(array)):.3g} and a largest of {largest:.3g}. Clip them at zero, or drop those {of_what}."
        )
    return array / largest / total


@compiled
def _normal_points(key: Key, mean: Array, covariance: Array, num_points: int) -> Float[Array, "S D"]:
    root = jnp.linalg.cholesky(covariance)
    return mean + jax.random.normal(key, (num_points, mean.shape[0])) @ root.T
