r"""The prior covariance r(x, z) = ∫ k(x, s) k(s, z) dν(s) of a Gaussian random element (paper, eq. def-r-kernel).

For points it is a finite sum, r(x, z) = κ(x) κ(z)ᵀ with the *root* κ(x) = √p k(x, S). For a normal ν and a squared
exponential k with variance v and scales L = diag(ℓ²), with m = (x + z)/2,

    r(x, z) = v² |I + 2L⁻¹Σ|^{−1/2} exp(−¼ |x − z|²_{L⁻¹} − ½ |m − μ|²_{(Σ + L/2)⁻¹}).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np
from jaxtyping import Float

from kosambi._core.linalg import by_rows
from kosambi._core.types import Array, Key
from kosambi.errors import InputError
from kosambi.kernels import AbstractFinite, AbstractKernel, Constant, Product, SquaredExponential
from kosambi.kernels.stationary import select, squared_distance
from kosambi.priors.measures import AbstractMeasure, GaussianMeasure, MixtureMeasure, PointMeasure


def check_smoothable(kernel: AbstractKernel, measure: AbstractMeasure) -> None:
    """Refuse a normal ν with a kernel for which the integral has no closed form."""
    kernel.check_columns(measure.num_columns)
    parts = measure.components if isinstance(measure, MixtureMeasure) else (measure,)
    if any(isinstance(part, GaussianMeasure) for part in parts):
        _as_squared_exponential(kernel)


def point_root(kernel: AbstractKernel, measure: PointMeasure, x: Float[Array, "N D"]) -> Float[Array, "N S"]:
    """κ(x) = √p k(x, S), with r(x, z) = κ(x) κ(z)ᵀ."""
    return kernel.pairwise(x, measure.points) * jnp.sqrt(measure.weights)


def smoothed(
    kernel: AbstractKernel, measure: AbstractMeasure, x: Float[Array, "N D"], z: Float[Array, "M D"]
) -> Float[Array, "N M"]:
    """r(x, z)."""
    if isinstance(measure, PointMeasure):
        right = point_root(kernel, measure, z).T
        return by_rows(lambda block: point_root(kernel, measure, block) @ right, x, measure.points.shape[0])
    if isinstance(measure, MixtureMeasure):
        return sum(
            (w * smoothed(kernel, part, x, z) for w, part in zip(measure.weights, measure.components, strict=True)),
            start=jnp.zeros((x.shape[0], z.shape[0])),
        )
    assert isinstance(measure, GaussianMeasure)
    scale, difference, centre = _normal_integral(kernel, measure)
    return scale * jnp.exp(
        -0.25 * squared_distance(difference(x), difference(z))
        # |a + b|² is the squared distance of a from −b.
        - 0.5 * squared_distance(centre(x), -centre(z))
    )


def smoothed_diagonal(kernel: AbstractKernel, measure: AbstractMeasure, x: Float[Array, "N D"]) -> Float[Array, " N"]:
    """r(x, x)."""
    if isinstance(measure, PointMeasure):
        return by_rows(
            lambda block: jnp.sum(jnp.square(point_root(kernel, measure, block)), axis=1), x, measure.points.shape[0]
        )
    if isinstance(measure, MixtureMeasure):
        return sum(
            (
                w * smoothed_diagonal(kernel, part, x)
                for w, part in zip(measure.weights, measure.components, strict=True)
            ),
            start=jnp.zeros(x.shape[0]),
        )
    assert isinstance(measure, GaussianMeasure)
    scale, _, centre = _normal_integral(kernel, measure)
    return scale * jnp.exp(-2.0 * jnp.sum(jnp.square(centre(x)), axis=1))


class Envelope(AbstractFinite):
    """h(x)h(z) with h(x)² = r(x, x) for a normal ν: what is left of r beside a stationary squared exponential.

    r(x, z) = h(x) h(z) exp(−½ (x−z)ᵀQ(x−z)) with Q = L⁻¹/2 − P/4 and P = (Σ + L/2)⁻¹.
    """

    kernel: AbstractKernel
    measure: GaussianMeasure

    def finite_features(self, x: Float[Array, "N D"]) -> Float[Array, "N P"]:
        """h(x)."""
        return jnp.sqrt(self.pointwise(x))[:, None]

    def pairwise(self, x: Float[Array, "N D"], z: Float[Array, "M D"]) -> Float[Array, "N M"]:
        """h(x) h(z)."""
        return self.finite_features(x) @ self.finite_features(z).T

    def pointwise(self, x: Float[Array, "N D"]) -> Float[Array, " N"]:
        """r(x, x)."""
        return smoothed_diagonal(self.kernel, self.measure, x)

    def sample_frequencies(self, key: Key, num_frequencies: int) -> Float[Array, "R D"]:
        """ω ~ N(0, Q), so that r(x, z) = h(x) h(z) E cos ω·(x − z)."""
        num_columns = self.measure.num_columns
        dims, precision = self._precision()
        root = jnp.linalg.cholesky(precision)
        drawn = jax.random.normal(key, (num_frequencies, len(dims))) @ root.T
        return jnp.zeros((num_frequencies, num_columns)).at[:, dims].set(drawn)

    def stationary_part(self) -> SquaredExponential | None:
        """exp(−½ (x−z)ᵀQ(x−z)) as a kernel, where Q is diagonal and not zero; for concrete parameters."""
        dims, precision = self._precision()
        scales = np.diagonal(np.asarray(precision))
        largest = float(np.max(scales))
        if not np.allclose(precision, np.diag(scales), rtol=0.0, atol=1e-14 * largest) or not largest > 0:
            return None
        # A column in which the measure has no width is all in the envelope.
        varies = scales > 1e-10 * largest
        dims, scales = dims[varies], scales[varies]
        return SquaredExponential(scales**-0.5, 1.0, active_dims=tuple(dims.tolist()))

    def _precision(self) -> tuple[np.ndarray, Float[Array, "A A"]]:
        """The columns that matter, and Q."""
        _, base = _as_squared_exponential(self.kernel)
        dims = np.arange(self.measure.num_columns) if base.active_dims is None else np.asarray(base.active_dims)
        squared = jnp.broadcast_to(jnp.square(base.lengthscale), (len(dims),))
        inner = jnp.linalg.inv(self.measure.covariance[np.ix_(dims, dims)] + jnp.diag(0.5 * squared))
        return dims, jnp.diag(0.5 / squared) - 0.25 * inner


def _normal_integral(kernel: AbstractKernel, measure: GaussianMeasure):  # type: ignore[no-untyped-def]
    """The scale v² |I + 2L⁻¹Σ|^{−1/2}, and the maps x → x/ℓ and x → T⁻¹(x − μ)/2 with T Tᵀ = Σ + L/2."""
    factor, base = _as_squared_exponential(kernel)
    dims = np.arange(measure.num_columns) if base.active_dims is None else np.asarray(base.active_dims)
    mean, covariance = measure.mean[dims], measure.covariance[np.ix_(dims, dims)]
    squared = jnp.broadcast_to(jnp.square(base.lengthscale), (len(dims),))
    root = jnp.linalg.cholesky(covariance + jnp.diag(0.5 * squared))
    # |I + 2L⁻¹Σ| = |Σ + L/2| / |L/2|
    log_ratio = 2.0 * jnp.sum(jnp.log(jnp.diagonal(root))) - jnp.sum(jnp.log(0.5 * squared))
    scale = jnp.square(factor * base.variance) * jnp.exp(-0.5 * log_ratio)

    def difference(x: Array) -> Array:
        return select(x, base.active_dims) / base.lengthscale

    def centre(x: Array) -> Array:
        return 0.5 * jsl.solve_triangular(root, (select(x, base.active_dims) - mean).T, lower=True).T

    return scale, difference, centre


def is_squared_exponential(kernel: AbstractKernel) -> bool:
    """Whether a kernel is a number times a squared exponential one, for which a normal measure has a closed form."""
    parts = kernel.kernels if isinstance(kernel, Product) else (kernel,)
    others = [part for part in parts if not isinstance(part, Constant)]
    return len(others) == 1 and isinstance(others[0], SquaredExponential)


def _as_squared_exponential(kernel: AbstractKernel) -> tuple[Array, SquaredExponential]:
    """A number times a squared exponential kernel, taken apart."""
    parts = kernel.kernels if isinstance(kernel, Product) else (kernel,)
    factor: Array = jnp.ones(())
    found: list[SquaredExponential] = []
    for part in parts:
        if isinstance(part, Constant):
            factor = factor * part.variance
        elif isinstance(part, SquaredExponential):
            found.append(part)
    if len(found) != 1 or len(found) + sum(isinstance(part, Constant) for part in parts) != len(parts):
        raise InputError(
            f"A normal measure needs a `SquaredExponential` kernel (times a number). Got {type(kernel).__name__}. "
            "Replace the measure by points drawn from it: `measure.sample(key, num_points=1000)`."
        )
    return factor, found[0]
