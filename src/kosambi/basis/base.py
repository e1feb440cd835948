r"""The basis contract: M coordinates u of a function, and what they say about the rest of it.

The coordinates are linear in F(Z) − m(Z), where Z are the inducing points and m the prior mean; a priori u ~ N(0, Λ)
with Λ = L Lᵀ. A function is carried back as m(x) + φ(x)ᵀu plus an independent residual with variance
`residual_variance`. In whitened coordinates w = L⁻¹u ~ N(0, I), and ψ = φL multiplies them.
"""

from __future__ import annotations

import abc
import warnings
from typing import ClassVar, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from kosambi._core.checks import as_float_array, as_inputs, finite_rows, is_traced
from kosambi._core.linalg import by_rows, check_gram
from kosambi._core.precision import Module, compiled, public
from kosambi._core.types import Array, ArrayLike
from kosambi.basis.residual import AbstractResidual
from kosambi.errors import InputError, RoundingWarning
from kosambi.priors import AbstractPrior, GaussianRandomElement
from kosambi.priors.functions.draws import FunctionDraws

# A residual variance below minus this part of the largest prior variance is more than rounding.
_LARGEST_ROUNDING = 1e-8


class BasisReport(NamedTuple):
    """What the construction of a basis kept and threw away."""

    num_inducing: int
    """Inducing points given."""
    num_kept: int
    """Coordinates: the M that everything after the basis sees."""
    dropped: int
    """Eigenpairs (Nyström, Ritz) or inducing points (Point, Inducing) left out: numerically dependent on the others, or
    without prior variance."""
    tolerance: float
    """The relative size below which they were left out."""
    jitter: float
    """What was added to a diagonal; always zero, since dependent parts are dropped instead."""
    condition: float
    """Largest over smallest eigenvalue of what was kept: of k(Z, Z), or of r(Z, Z) for a `PointBasis`."""

    def __str__(self) -> str:
        lost = f", {self.dropped} dropped as numerically dependent" if self.dropped else ""
        return f"{self.num_kept} of {self.num_inducing} kept{lost}; condition {self.condition:.1e}; no jitter"


class Explained(NamedTuple):
    """What the coordinates say about N inputs, as concrete numbers."""

    psi: Float[np.ndarray, "N M"]
    """ψ(x)."""
    residual: Float[np.ndarray, " N"]
    """The residual variance; rounding may leave it below zero."""
    variance: Float[np.ndarray, " N"]
    """The prior variance."""


class AbstractBasis(Module):
    """M linear coordinates of a random function; see the module docstring for the notation."""

    prior: eqx.AbstractVar[AbstractPrior]
    inducing_points: eqx.AbstractVar[Array]
    remainder: eqx.AbstractVar[AbstractResidual]

    is_conditional: ClassVar[bool]
    """Whether φ(x)ᵀu is E[F(x) − m(x) | u], so that the residual is independent of u."""

    @property
    @abc.abstractmethod
    def report(self) -> BasisReport:
        """How many coordinates were kept and what was dropped."""

    @property
    @abc.abstractmethod
    def covariance(self) -> Float[Array, "M M"]:
        """Λ, the prior covariance of the coordinates u."""

    @property
    @abc.abstractmethod
    def size(self) -> int:
        """M, the number of coordinates."""

    @abc.abstractmethod
    def functions(self, x: Float[Array, "N D"]) -> Float[Array, "N M"]:
        """What `evaluate` returns, traceable, for checked inputs."""

    @abc.abstractmethod
    def mean_weights(self, x: Float[Array, "N D"]) -> Float[Array, "N M"]:
        """φ(x), traceable, for checked inputs."""

    @abc.abstractmethod
    def whitened_weights(self, x: Float[Array, "N D"]) -> Float[Array, "N M"]:
        """ψ(x) = φ(x) L, traceable, for checked inputs."""

    def residual(self, x: Float[Array, "N D"]) -> Float[Array, " N"]:
        """The residual variance, traceable, for checked inputs, in blocks of rows; rounding may leave it below zero."""
        return by_rows(lambda rows: self.remainder.variance(self, rows), x, self.remainder.elements_per_row(self))

    @abc.abstractmethod
    def multiply_root(self, w: Float[Array, "... M"]) -> Float[Array, "... M"]:
        """u = L w, traceable."""

    @abc.abstractmethod
    def divide_root(self, u: Float[Array, "... M"]) -> Float[Array, "... M"]:
        """w = L⁻¹ u, traceable."""

    @abc.abstractmethod
    def from_values(self, values: Float[Array, "J Z"]) -> Float[Array, "J M"]:
        """The coordinates u from the centred values of functions at the inducing points, traceable."""

    @property
    def host_factor(self) -> Float[np.ndarray, "M M"] | None:
        """L as concrete numbers, where it is a lower triangle; None under a trace and for other bases."""
        return None

    def explained_on_host(self, x: Float[Array, "N D"]) -> Explained | None:
        """ψ(x) and both variances with LAPACK, where nothing is to be compiled for them; None where it must be."""
        del x
        return None

    @public
    def evaluate(self, x: ArrayLike) -> Float[Array, "N M"]:
        """The basis functions at the rows of `x`: (N, M).

        The orthonormal e_m for Nyström and Ritz, h_m = k(z_m, ·) for inducing functions, r(z_m, ·) for points.
        """
        x = self._checked(x)
        return finite_rows("evaluate", _functions(self, x), x)

    @public
    def conditional_mean(self, x: ArrayLike) -> Float[Array, "N M"]:
        """φ(x), (N, M), which multiplies the coordinates.

        φ(x)ᵀu is E[F(x) − m(x) | u] for Ritz and Point. For Nyström and inducing functions it is the paper's
        projection, which equals the conditional mean only when Z is the support of ν with equal weights.
        """
        x = self._checked(x)
        return finite_rows("conditional_mean", _mean_weights(self, x), x)

    @public
    def whitened_mean(self, x: ArrayLike) -> Float[Array, "N M"]:
        """ψ(x) = φ(x) L, (N, M), which multiplies the whitened coordinates w = L⁻¹u."""
        x = self._checked(x)
        known = self.explained_on_host(x)
        return finite_rows("whitened_mean", _whitened_weights(self, x) if known is None else known.psi, x)

    @public
    def residual_variance(self, x: ArrayLike) -> Float[Array, " N"]:
        """The prior variance, (N,), of the residual, what the coordinates do not explain: Var[F(x) − φ(x)ᵀu].

        Never negative: what rounding leaves below zero is set to zero, with a `RoundingWarning` if that is more than
        1e-8 of the largest prior variance.
        """
        x = self._checked(x)
        if not self.size:
            return self.prior.variance(x)
        known = self.explained_on_host(x)
        if known is None:
            smallest, residual = _clipped_residual(self, x)
        else:
            largest = np.max(np.asarray(self.prior.variance(self.inducing_points)))
            smallest = np.min(known.residual, initial=0.0) / largest
            residual = np.maximum(known.residual, 0.0)
        if not is_traced(smallest) and smallest < -_LARGEST_ROUNDING:
            warnings.warn(
                f"A residual variance of {float(smallest):.1e} of the largest prior variance was set to zero. "
                "The inducing points are too close together for this kernel; raise `tolerance` or take fewer.",
                RoundingWarning,
                stacklevel=3,
            )
        return finite_rows("residual_variance", residual, x)

    @public
    def coordinates(self, draws: FunctionDraws) -> Float[Array, "J M"]:
        """The coordinates u, (J, M), of functions drawn from the prior: their inner products with the basis."""
        if not isinstance(draws, FunctionDraws):
            raise InputError(f"`coordinates` needs function draws. Got {type(draws).__name__}. Use `prior.draw(key)`.")
        return _from_values(self, draws.centred(self.inducing_points))

    @public
    def whiten(self, u: ArrayLike) -> Float[Array, "... M"]:
        """Whitened coordinates w = L⁻¹u of coordinates u, (..., M)."""
        u, factor = self._checked_coordinates("u", u), self.host_factor
        if not self.size:
            return u
        if factor is None or is_traced(u):
            return _divide_root(self, u)
        from scipy.linalg import solve_triangular  # here, because it doubles what `import kosambi` adds to `import jax`

        flat = np.asarray(u).reshape(-1, u.shape[-1])
        return np.ascontiguousarray(solve_triangular(factor, flat.T, lower=True).T).reshape(u.shape)

    @public
    def colour(self, w: ArrayLike) -> Float[Array, "... M"]:
        """Coordinates u = L w of whitened coordinates w, (..., M)."""
        w, factor = self._checked_coordinates("w", w), self.host_factor
        return _multiply_root(self, w) if factor is None or is_traced(w) else np.asarray(w) @ factor.T

    def _checked_coordinates(self, name: str, value: ArrayLike) -> Array:
        array = as_float_array(name, value)
        if array.ndim == 0 or array.shape[-1] != self.size:
            raise InputError(f"`{name}` must have {self.size} entries in its last axis. Got shape {array.shape}.")
        return array

    def _checked(self, x: ArrayLike) -> Array:
        return as_inputs("x", x, self.inducing_points.shape[1], allow_empty=True)


@compiled
def _functions(basis: AbstractBasis, x: Array) -> Array:
    return basis.functions(x)


@compiled
def _mean_weights(basis: AbstractBasis, x: Array) -> Array:
    return basis.mean_weights(x)


@compiled
def _whitened_weights(basis: AbstractBasis, x: Array) -> Array:
    return basis.whitened_weights(x)


@compiled
def _clipped_residual(basis: AbstractBasis, x: Array) -> tuple[Array, Array]:
    residual = basis.residual(x)
    largest = jnp.max(basis.prior.pointwise(basis.inducing_points))
    return jnp.min(residual, initial=0.0) / largest, jnp.maximum(residual, 0.0)


@compiled
def _divide_root(basis: AbstractBasis, u: Array) -> Array:
    return basis.divide_root(u)


@compiled
def _multiply_root(basis: AbstractBasis, w: Array) -> Array:
    return basis.multiply_root(w)


@compiled
def _from_values(basis: AbstractBasis, values: Array) -> Array:
    return basis.from_values(values)


def as_inducing_points(
    basis: str, prior: object, inducing_points: ArrayLike, *, allow_none: bool = False
) -> tuple[AbstractPrior, Array]:
    """A checked prior and matrix of inducing points, of which there may be none if `allow_none`."""
    if not isinstance(prior, AbstractPrior):
        raise InputError(
            f"`{basis}` needs a prior first. Got {type(prior).__name__}. "
            "Use `kosambi.GaussianProcess(kernel)` or `kosambi.GaussianRandomElement(kernel, measure)`."
        )
    points = as_inputs("inducing_points", inducing_points, prior.num_columns, allow_empty=allow_none)
    prior.check_columns(points.shape[1])
    if is_traced((prior, points)):
        raise InputError(
            f"`{basis}` needs concrete arrays: how many functions it keeps depends on their values. "
            "Build it outside `jit` and `grad`; a finished basis is a pytree and may be used inside."
        )
    if len(points):
        check_gram("The prior variance at the inducing points", prior.variance(points)[None])
    return prior, points


def as_random_element(basis: str, prior: AbstractPrior) -> GaussianRandomElement:
    """Refuse a `GaussianProcess` where k itself is needed."""
    if not isinstance(prior, GaussianRandomElement):
        raise InputError(
            f"`{basis}` works in the Hilbert space of the kernel k of a `GaussianRandomElement`; a "
            f"`{type(prior).__name__}` gives the covariance r only, and k is not known. Use `PointBasis`."
        )
    return prior


def as_tolerance(value: float) -> Array:
    """A checked relative tolerance in [0, 1), as an array so that it is data and not structure."""
    array = as_float_array("tolerance", value)
    if array.ndim != 0 or not 0.0 <= float(array) < 1.0:
        raise InputError(f"`tolerance` must be a number in [0, 1). Got {value!r}. The default is a good one.")
    return array
