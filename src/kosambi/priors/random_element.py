"""The paper's prior: a Gaussian random element of the Hilbert space of k with covariance operator C."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from kosambi._core.checks import as_count, as_float_array, as_inputs, as_positive, check_key, is_traced
from kosambi._core.precision import Module, at_rest, compiled, public, warn_once_if_single
from kosambi._core.types import Array, ArrayLike, Key
from kosambi.errors import InputError
from kosambi.kernels import AbstractKernel, Product
from kosambi.priors.base import AbstractPrior, as_kernel, as_mean
from kosambi.priors.functions.draws import FunctionDraws
from kosambi.priors.functions.expansions import AbstractExpansion, FourierExpansion, KernelExpansion
from kosambi.priors.functions.features import Term
from kosambi.priors.functions.spectra import draw_spectra
from kosambi.priors.measures import (
    AbstractMeasure,
    GaussianMeasure,
    MixtureMeasure,
    PointMeasure,
    empirical,
    gaussian,
    mixture,
)
from kosambi.priors.smoothing import (
    Envelope,
    check_smoothable,
    is_squared_exponential,
    point_root,
    smoothed,
    smoothed_diagonal,
)

# Random frequencies of a draw where a normal measure is correlated between columns.
_FEATURES = 512


class GaussianRandomElement(AbstractPrior):
    """F ~ N(mean, C) in the Hilbert space of `kernel`, C f = ∫ k(·, s) f(s) dν(s): the paper's prior.

    The covariance function is r(x, z) = ∫ k(x, s) k(s, z) dν(s), so `kernel` is not the covariance. With the
    empirical measure of the data, variance follows the density of the data and vanishes far away.

    Arguments:
        kernel: k, the reproducing kernel.
        measure: ν, from `kosambi.measures`.
        mean: a number, or a callable from (N, D) to (N,).

    >>> import kosambi as ko
    >>> support = [[1.1, 3.5, 3.5], [1.3, 7.5, 1.5], [2.5, 2.5, 0.5]]
    >>> prior = ko.GaussianRandomElement(ko.kernels.Linear(), ko.measures.empirical(support))
    >>> prior.covariance([[1.0, 2.0, 3.0]], [[1.5, 2.5, 3.5]])
    array([[355.6]])
    """

    measure: AbstractMeasure

    def __init__(
        self,
        kernel: AbstractKernel,
        measure: AbstractMeasure,
        mean: ArrayLike | Callable[[Array], ArrayLike] = 0.0,
    ) -> None:
        self.kernel = as_kernel("GaussianRandomElement", kernel)
        if not isinstance(measure, AbstractMeasure):
            raise InputError(
                f"`GaussianRandomElement` needs a measure. Got {type(measure).__name__}. "
                "For data x write `kosambi.measures.empirical(x)`."
            )
        check_smoothable(kernel, measure)
        self.measure = measure
        self.mean = as_mean(mean)

    @property
    def num_columns(self) -> int:
        """D, the number of columns of the measure."""
        return self.measure.num_columns

    @property
    def has_points(self) -> bool:
        """Whether ν is made of points, so that r has the exact root κ(x) = √p k(x, S)."""
        return isinstance(self.measure, PointMeasure)

    def root(self, x: Float[Array, "N D"]) -> Float[Array, "N S"]:
        """κ(x), (N, S), with r(x, z) = κ(x) κ(z)ᵀ; for a measure made of points. Traceable."""
        assert isinstance(self.measure, PointMeasure)
        return point_root(self.kernel, self.measure, x)

    def pairwise(self, x: Float[Array, "N D"], z: Float[Array, "M D"]) -> Float[Array, "N M"]:
        """∫ k(x, s) k(s, z) dν(s)."""
        return smoothed(self.kernel, self.measure, x, z)

    def pointwise(self, x: Float[Array, "N D"]) -> Float[Array, " N"]:
        """∫ k(x, s)² dν(s)."""
        return smoothed_diagonal(self.kernel, self.measure, x)

    @public
    def draw(self, key: Key, num_draws: int = 1, *, num_features: int = 512) -> FunctionDraws:
        """`num_draws` functions from the prior, callable anywhere.

        Exact finite sums Σ_i √p_i ω_i k(·, s_i) where ν is made of points. A normal part of ν is drawn by
        `num_features` random frequencies: exact at every single input and for covariances, with joint moments of order
        four off by O(1/num_features), as in `kosambi.priors.functions.features`.

        >>> import jax, kosambi as ko
        >>> x = [[0.0], [0.5], [1.0]]
        >>> prior = ko.GaussianRandomElement(ko.kernels.Matern52(), ko.measures.empirical(x))
        >>> prior.draw(jax.random.key(0), num_draws=2)([[0.0], [9.0]]).shape
        (2, 2)
        """
        key, num_draws = check_key(key), as_count("num_draws", num_draws)
        num_features = as_count("num_features", num_features)
        if is_traced(key):
            warn_once_if_single("A prior draw is made")
        parts = _measure_draw(key, self.kernel, self.measure, num_draws, num_features)
        return FunctionDraws(self.mean, parts, self.num_columns)

    def accurate_parts(
        self, key: Key, num_draws: int, extent: Float[np.ndarray, " D"], at: Array | None = None
    ) -> tuple[AbstractExpansion, ...]:
        """Exact sums over points; for a normal part of ν a spectrum on a grid (`kosambi.priors.functions.spectra`)."""
        if at is not None:
            raise InputError(
                "Draws of a `GaussianRandomElement` are good everywhere, so `at` has no use. Leave it out."
            )
        return _accurate_parts(key, self.kernel, self.measure, num_draws, extent)

    def with_background(
        self, share: float = 0.3, reach: float = 3.0, *, num_points: int = 1000
    ) -> GaussianRandomElement:
        """The same prior with a broad normal background mixed into ν, so that its variance vanishes farther out.

        The background is normal around the mean of ν, with `reach` times its standard deviation in each column: in
        closed form for a squared exponential kernel, by `num_points` quasi-random points for others. Farther out than
        that the variance vanishes nevertheless; a `GaussianProcess` keeps it everywhere.

        Arguments:
            share: the weight of the background, between 0 and 1.
            reach: its width, in standard deviations of ν.
            num_points: how many points stand for it where there is no closed form.

        >>> import numpy as np, kosambi as ko
        >>> x = np.linspace(-1.0, 1.0, 30)[:, None]
        >>> prior = ko.GaussianRandomElement(ko.kernels.SquaredExponential(0.3), ko.measures.empirical(x))
        >>> bool(prior.with_background().variance([[2.5]])[0] > 1e3 * prior.variance([[2.5]])[0])
        True
        """
        share, reach = float(as_positive("share", share)), float(as_positive("reach", reach))
        if not share < 1.0:
            raise InputError(f"`share` must lie between 0 and 1. Got {share!r}. The default is 0.3.")
        if not isinstance(self.measure, PointMeasure):
            raise InputError("`with_background` is for a measure made of points. Mix others with `measures.mixture`.")
        centre = self.measure.weights @ self.measure.points
        spread = np.sqrt(self.measure.weights @ np.square(self.measure.points - centre))
        # A column that does not vary needs no background.
        scales = reach * np.where(spread > 0, spread, np.finfo(float).eps + np.abs(centre) * 1e-12)
        background: AbstractMeasure = gaussian(centre, np.diag(np.square(scales)))
        if not is_squared_exponential(self.kernel):
            from scipy.stats import norm, qmc

            uniforms = qmc.Halton(self.num_columns, scramble=False).random(as_count("num_points", num_points) + 1)[1:]
            background = empirical(centre + scales * norm.ppf(uniforms))
        return GaussianRandomElement(self.kernel, mixture([self.measure, background], [1.0 - share, share]), self.mean)

    @public
    def apply_covariance(self, function: Callable[[Array], ArrayLike]) -> Callable[[ArrayLike], Array]:
        """C f = Σ_i p_i k(·, s_i) f(s_i) for a callable f from (N, D) to (N,); again a callable, and a pytree.

        >>> import kosambi as ko
        >>> prior = ko.GaussianRandomElement(ko.kernels.Linear(), ko.measures.empirical([[1.0], [2.0]]))
        >>> prior.apply_covariance(lambda x: x[:, 0])([[1.0], [2.0]])
        array([2.5, 5. ])
        """
        if not isinstance(self.measure, PointMeasure):
            raise InputError(
                "`apply_covariance` integrates a function against the measure, which is a finite sum for points only. "
                "Replace the measure by points drawn from it: `measure.sample(key, num_points=1000)`."
            )
        values = as_float_array("function(points)", function(self.measure.points))
        if values.shape != (self.measure.points.shape[0],):
            raise InputError(
                f"`function` must map inputs of shape (N, D) to N numbers. It returned shape {values.shape} for "
                f"{self.measure.points.shape[0]} points."
            )
        return KernelFunction(self.kernel, self.measure.points, self.measure.weights * values)


class KernelFunction(Module):
    """f = Σ_i c_i k(·, s_i), an element of the Hilbert space of k, as a callable from (N, D) to (N,)."""

    kernel: AbstractKernel
    points: Float[Array, "S D"]
    coefficients: Float[Array, " S"]

    @public
    def __call__(self, x: ArrayLike) -> Float[Array, " N"]:
        """f at the rows of `x`."""
        x = as_inputs("x", x, self.points.shape[1], allow_empty=True)
        return _expansion(KernelExpansion(self.kernel, self.points, self.coefficients[None]), x)[0]


@compiled
def _expansion(expansion: AbstractExpansion, x: Array) -> Array:
    return expansion.evaluate(x)


@compiled
def _measure_draw(
    key: Key, kernel: AbstractKernel, measure: AbstractMeasure, num_draws: int, num_features: int
) -> tuple[AbstractExpansion, ...]:
    if isinstance(measure, PointMeasure):
        omega = jax.random.normal(key, (num_draws, measure.points.shape[0]))
        return (KernelExpansion(kernel, measure.points, jnp.sqrt(measure.weights) * omega),)
    if isinstance(measure, MixtureMeasure):
        keys = jax.random.split(key, len(measure.components))
        parts: list[AbstractExpansion] = []
        for part_key, weight, component in zip(keys, measure.weights, measure.components, strict=True):
            # r holds k twice, so a share w of r is √w in front of k.
            scaled = Product.of(jnp.sqrt(jnp.maximum(weight, 0.0)), kernel)
            parts.extend(_measure_draw(part_key, scaled, component, num_draws, num_features))
        return tuple(parts)
    assert isinstance(measure, GaussianMeasure)
    key_frequency, key_cosine, key_sine = jax.random.split(key, 3)
    envelope = Envelope(kernel, measure)
    frequencies = envelope.sample_frequencies(key_frequency, num_draws * num_features)
    shape = (num_draws, 1, num_features)
    return (
        FourierExpansion(
            (envelope,),
            frequencies.reshape(num_draws, num_features, measure.num_columns),
            jax.random.normal(key_cosine, shape) / np.sqrt(num_features),
            jax.random.normal(key_sine, shape) / np.sqrt(num_features),
        ),
    )


def _accurate_parts(
    key: Key, kernel: AbstractKernel, measure: AbstractMeasure, num_draws: int, extent: np.ndarray
) -> tuple[AbstractExpansion, ...]:
    if isinstance(measure, MixtureMeasure):
        keys = jax.random.split(key, len(measure.components))
        parts: list[AbstractExpansion] = []
        for part_key, weight, component in zip(keys, measure.weights, measure.components, strict=True):
            scaled = Product.of(np.sqrt(weight), kernel)
            parts.extend(_accurate_parts(part_key, scaled, component, num_draws, extent))
        return tuple(parts)
    if isinstance(measure, GaussianMeasure):
        envelope = Envelope(kernel, measure)
        stationary = envelope.stationary_part()
        if stationary is not None:
            return draw_spectra(key, (Term((stationary,), (envelope,)),), num_draws, len(extent), extent)
    return at_rest(_measure_draw(key, kernel, measure, num_draws, _FEATURES))
