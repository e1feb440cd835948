r"""The density that a sampler draws from, exp(−V), over the coordinates of a basis (paper, section 5).

    projected:  V(u) = Σ_n c(y_n, m(x_n) + φ(x_n)ᵀu) + ½ uᵀΛ⁻¹u                    (the paper's Π_∞)
    optimal:    V(u) = Σ_n E_ξ c(y_n, m(x_n) + φ(x_n)ᵀu + σ_n ξ) + ½ uᵀΛ⁻¹u         (the KL-optimal Π*)

    neighbors:  V(u) = Σ_n −log E_ξ exp(−c(y_n, b_n + φ̌(x_n)ᵀu + √D_n ξ)) + ½ uᵀΛ⁻¹u   (`kosambi.target.neighbors`)

with σ_n² the residual variance of the basis at x_n; expanding the cost, the first two differ by about ½ Σ_n c''_n σ_n².
In the third, near data inform the residual. All carry the same additive constants. Everything is computed in whitened
coordinates w = L⁻¹u, where the prior is standard normal; `potential` and `gradient` speak of u.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from kosambi._core.checks import as_float_array, as_inputs, check_finite, is_traced
from kosambi._core.linalg import one_blas_thread
from kosambi._core.meshes import check_mesh
from kosambi._core.precision import Module, at_rest, compiled, public
from kosambi._core.room import USUAL, Room
from kosambi._core.types import Array, ArrayLike
from kosambi.basis import AbstractBasis
from kosambi.errors import InputError, NumericalError
from kosambi.likelihoods import AbstractLikelihood, CustomJoint, Gaussian
from kosambi.target.checks import as_weights, check_length, check_standardised
from kosambi.target.data_terms import AbstractDataTerm, FactorisedTerm, JointTerm, data_value
from kosambi.target.kinds import as_kind, as_number, better_kind
from kosambi.target.least_squares import gaussian_rows, least_squares
from kosambi.target.mesh_rows import features_on_mesh, least_squares_on_mesh
from kosambi.target.neighborhood import Neighborhood
from kosambi.target.neighbors import NEIGHBORS, neighbor_potential
from kosambi.target.stream import StreamFacts


class Target(Module):
    """The potential V of a basis, a likelihood and data, minimised where the posterior is highest.

    Arguments:
        basis: the coordinates.
        likelihood: the cost of one observation, or `CustomJoint`.
        x: (N, D), the inputs.
        y: (N,), the observations.
        potential: "projected" (the paper's), "optimal" or "neighbors" (for `RitzBasis` and `PointBasis`), or "auto":
            optimal where the first two differ by more than 0.02 nats per observation and its integrals are not too
            many; `kind` says which it is.
        weights: (N,), how often each observation counts; once when None.
        num_nodes: of the quadrature of the optimal potential and of that with neighbours; chosen when None.
        num_neighbors: m, with potential="neighbors": how many near rows inform the residual at each; 30 when None, and
            at least N for all rows.
        room: what the arrays of neighbours may take of memory, as `infer(max_memory=...)` plans it.
        mesh: from `kosambi.parallel.mesh`, devices among which the rows are shared out while their features, the least
            squares that Gaussian noise leaves of them, and the systems of near rows are computed.

    >>> import numpy as np, kosambi as ko
    >>> x = np.linspace(-1.0, 1.0, 50)[:, None]
    >>> basis = ko.PointBasis(ko.GaussianProcess(ko.kernels.Matern52()), x[::10])
    >>> target = ko.Target(basis, ko.likelihoods.Bernoulli(), x, (x[:, 0] > 0).astype(float))
    >>> target.potential(np.zeros((2, 5))).round(6)
    array([34.657359, 34.657359])
    """

    basis: AbstractBasis
    likelihood: AbstractLikelihood
    x: Float[Array, "N D"]
    y: Float[Array, " N"]
    weights: Float[Array, " N"] | None
    inverse_root: Float[Array, "M M"]
    term: AbstractDataTerm
    kind: str = eqx.field(static=True)
    neighborhood: Neighborhood | None = None
    """The data as neighbours, with potential="neighbors"."""
    stream: StreamFacts | None = None
    """What is known of all rows where x, y and weights are a sample of them that stands for all."""

    @public
    def __init__(
        self,
        basis: AbstractBasis,
        likelihood: AbstractLikelihood,
        x: ArrayLike,
        y: ArrayLike,
        potential: str = "auto",
        *,
        weights: ArrayLike | None = None,
        num_nodes: int | None = None,
        num_neighbors: int | None = None,
        room: Room = USUAL,
        mesh: Any = None,
    ) -> None:
        self.basis, self.likelihood = _as_model(basis, likelihood)
        self.kind = as_kind(potential, basis, likelihood)
        devices = None if mesh is None else check_mesh(mesh)
        self.x = as_inputs("x", x, basis.inducing_points.shape[1])
        if is_traced((basis, likelihood, self.x, y)):
            raise InputError(
                "`Target` needs concrete arrays. Build it outside `jit`; its potential may be used inside."
            )
        basis.prior.kernel.check_inputs(np.asarray(self.x))
        self.y = likelihood.check(y)
        check_length("y", self.y, self.x)
        self.weights = None if weights is None else as_weights(weights, self.x)
        if self.kind == "auto":
            self.kind, num_nodes = better_kind(basis, likelihood, self.x, self.y, self.weights, num_nodes)
        self.neighborhood = self.stream = None
        number = as_number(self.kind, num_neighbors)
        if not basis.size and not number:
            raise InputError("Without inducing points and neighbours nothing would see the data. Give one of the two.")
        offset = at_rest(basis.prior.mean_at(self.x))
        with one_blas_thread(basis.size):
            # Formed once: a triangular solve for every particle at every step would cost as much as the data.
            self.inverse_root = basis.whiten(np.eye(basis.size))
            if isinstance(likelihood, Gaussian) and likelihood.num_rows is not None:
                check_length("Gaussian(noise=...)", likelihood.row_noise, self.x)
            if isinstance(likelihood, Gaussian):
                check_standardised(likelihood, self.y - offset, self.weights)
            if number is not None:
                self.neighborhood, self.term = neighbor_potential(
                    basis, likelihood, self.x, self.y, self.weights, number, num_nodes, room, devices
                )
                return
            deviation = np.sqrt(basis.residual_variance(self.x)) if self.kind == "optimal" else None
            if isinstance(likelihood, Gaussian):
                rows = gaussian_rows(likelihood, self.y, offset, self.weights, deviation)
                if devices is None:
                    self.term = at_rest(least_squares(basis.whitened_mean(self.x), *rows))
                else:
                    self.term = least_squares_on_mesh(devices, basis, self.x, *rows)
                return
            if isinstance(likelihood, CustomJoint):
                if weights is not None or devices is not None:
                    name = "weights" if weights is not None else "mesh"
                    raise InputError(
                        f"`CustomJoint` does not split over data, so `{name}` has no meaning. Leave it out."
                    )
                self.term = JointTerm(likelihood, basis.whitened_mean(self.x), self.y, offset)
                return
            psi = basis.whitened_mean(self.x) if devices is None else features_on_mesh(devices, basis, self.x)
            rule = None if deviation is None else likelihood.rule(deviation, num_nodes)
            self.term = FactorisedTerm(likelihood, psi, self.y, offset, self.weights, deviation, rule)

    @property
    def num_nodes(self) -> int:
        """Values of the cost that one observation takes: nodes of the quadrature of the optimal potential, or one."""
        rule = getattr(self.term, "rule", None)
        return 1 if rule is None else len(rule.nodes)

    @property
    def num_rows(self) -> int:
        """N, also where no more than a sample of the rows is in memory."""
        return int(self.x.shape[0]) if self.stream is None else int(self.stream.num_rows)

    @property
    def num_neighbors(self) -> int | None:
        """m, the number of near rows that inform the residual; None with the other potentials."""
        return None if self.neighborhood is None else self.neighborhood.num_neighbors

    def with_potential(
        self, potential: str, *, num_nodes: int | None = None, num_neighbors: int | None = None
    ) -> Target:
        """The same model and data with another potential: "projected", "optimal" or "neighbors".

        With neighbours there are as many as before, unless another number is given.
        """
        if self.stream is not None:
            raise InputError(
                f"The potential of {self.num_rows:,} rows was read from a stream; {len(self.x):,} of them are here. "
                f'Call `infer` with the source and potential="{potential}".'
            )
        if potential == NEIGHBORS and num_neighbors is None:
            num_neighbors = self.num_neighbors
        return Target(
            self.basis,
            self.likelihood,
            self.x,
            self.y,
            potential,
            weights=self.weights,
            num_nodes=num_nodes,
            num_neighbors=num_neighbors,
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one u: (M,), or (M, C) with C latent functions."""
        latents = self.likelihood.num_latents
        return (self.basis.size,) if latents == 1 else (self.basis.size, latents)

    @public
    def potential(self, u: ArrayLike) -> Float[Array, "..."]:
        """V(u): a number for one u, (J,) for J of them along the first axis."""
        return _not_nan("potential", _potential(self, self._checked("u", u)))

    @public
    def gradient(self, u: ArrayLike) -> Float[Array, "..."]:
        """∇V(u), shaped like u."""
        return _not_nan("gradient", _gradient(self, self._checked("u", u)))

    @public
    def value_and_gradient(self, u: ArrayLike) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
        """V(u) and ∇V(u), sharing their work."""
        value, gradient = _value_and_gradient(self, self._checked("u", u))
        return _not_nan("value_and_gradient", value), _not_nan("value_and_gradient", gradient)

    @public
    def curvature(self, u: ArrayLike) -> Float[Array, "K K"]:
        """A positive definite curvature of V at one u, with K = M·C rows: Hessian, Fisher, or clipped."""
        u = self._checked("u", u)
        if u.shape != self.shape:
            raise InputError(f"`curvature` takes one u of shape {self.shape}. Got shape {u.shape}.")
        return _curvature(self, u)

    @public
    def quadrature_error(self, u: ArrayLike) -> Float[Array, "..."]:
        """An upper estimate of the error of the optimal potential's quadrature at u; zero for closed forms."""
        return _quadrature_error(self, self._checked("u", u))

    def whitened_potential(self, w: Array) -> Array:
        """V as a function of whitened coordinates, for one w or J of them; traceable."""
        batch = self._batch(w)
        prior = 0.5 * jnp.sum(jnp.square(batch), axis=tuple(range(1, batch.ndim)))
        return jnp.reshape(data_value(self.term, batch) + prior, w.shape[: w.ndim - len(self.shape)])

    def whitened_gradient(self, w: Array) -> Array:
        """∇V in whitened coordinates, two products with the N×M matrix; traceable."""
        return w + jnp.reshape(self.term.gradient(self._batch(w)), w.shape)

    def whitened_value_and_gradient(self, w: Array) -> tuple[Array, Array]:
        """Both, sharing the latent values; traceable."""
        batch = self._batch(w)
        value, gradient = self.term.value_and_gradient(batch)
        value = value + 0.5 * jnp.sum(jnp.square(batch), axis=tuple(range(1, batch.ndim)))
        return jnp.reshape(value, w.shape[: w.ndim - len(self.shape)]), w + jnp.reshape(gradient, w.shape)

    def whitened_curvature(self, w: Array) -> Float[Array, "K K"]:
        """I plus the curvature of the data term, for one w; traceable."""
        curvature = self.term.curvature(w)
        return curvature + jnp.eye(curvature.shape[0], dtype=curvature.dtype)

    def whiten(self, u: Array) -> Array:
        """w = L⁻¹u along the axis of coordinates, for any number of latent functions; traceable."""
        return self._multiply(u, self.inverse_root)

    def _batch(self, w: Array) -> Array:
        """One w as a batch of one."""
        return w if w.ndim > len(self.shape) else w[None]

    def _multiply(self, u: Array, matrix: Float[Array, "M M"]) -> Array:
        if len(self.shape) == 1:
            return u @ matrix
        return jnp.moveaxis(jnp.moveaxis(u, -1, -2) @ matrix, -2, -1)

    def _checked(self, name: str, value: ArrayLike) -> Array:
        array = as_float_array(name, value)
        if array.ndim not in (len(self.shape), len(self.shape) + 1) or array.shape[-len(self.shape) :] != self.shape:
            batch = ", ".join(["J", *map(str, self.shape)])
            raise InputError(f"`{name}` must have shape {self.shape} or ({batch}). Got shape {array.shape}.")
        check_finite(name, array)
        return array


def _not_nan(call: str, values: Array) -> Array:
    """Infinity is what a cost may be far out; NaN is nothing, and is refused."""
    if not is_traced(values) and np.isnan(np.asarray(values)).any():
        raise NumericalError(
            f"`{call}` is no number at these `u`, which are so large that differences of infinite terms are taken. "
            "Give coordinates of the size of the prior's, whose covariance is `basis.covariance`."
        )
    return values


@compiled
def _potential(target: Target, u: Array) -> Array:
    return target.whitened_potential(target.whiten(u))


@compiled
def _gradient(target: Target, u: Array) -> Array:
    return target._multiply(target.whitened_gradient(target.whiten(u)), target.inverse_root.T)


@compiled
def _value_and_gradient(target: Target, u: Array) -> tuple[Array, Array]:
    value, gradient = target.whitened_value_and_gradient(target.whiten(u))
    return value, target._multiply(gradient, target.inverse_root.T)


@compiled
def _curvature(target: Target, u: Array) -> Array:
    curvature = target.whitened_curvature(target.whiten(u))
    # The rows of u run over coordinates first and latent functions second.
    spread = jnp.kron(target.inverse_root, jnp.eye(target.likelihood.num_latents))
    return spread @ curvature @ spread.T


@compiled
def _quadrature_error(target: Target, u: Array) -> Array:
    w = target.whiten(u)
    return jnp.reshape(target.term.quadrature_error(target._batch(w)), u.shape[: -len(target.shape)])


def _as_model(basis: object, likelihood: object) -> tuple[AbstractBasis, AbstractLikelihood]:
    if not isinstance(basis, AbstractBasis):
        raise InputError(
            f"`Target` needs a basis first. Got {type(basis).__name__}. For example `PointBasis(prior, z)`."
        )
    if not isinstance(likelihood, AbstractLikelihood):
        raise InputError(
            f"`Target` needs a likelihood from `kosambi.likelihoods`. Got {type(likelihood).__name__}. "
            "A cost of your own is `Custom(cost)`."
        )
    return basis, likelihood
