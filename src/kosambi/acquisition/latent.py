r"""The posterior distribution of f as a function of x that JAX can trace and differentiate.

Given coordinates, f(x) is a mixture of J normal distributions N(m(x) + ψ(x)ᵀw_j, σ²(x)), or one,
N(m + ψᵀμ, σ² + |Rᵀψ|²). Given all N rows of the full process, with precisions W and I + W^½ r_XX W^½ = LLᵀ,

    mean m(x) + r_xX v,   variance r_xx − |B r_Xx|²,   B = L⁻¹W^½,   v = BᵀB(t − m)

Rows are filled up to one of a few sizes, so that a row more is the same program.
"""

from __future__ import annotations

import abc

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from kosambi._core.precision import Module, public
from kosambi._core.programs import bucket
from kosambi._core.types import Array
from kosambi.basis import AbstractBasis
from kosambi.errors import InputError
from kosambi.likelihoods import Gaussian
from kosambi.posterior import AveragedPosterior, Posterior
from kosambi.priors import AbstractPrior
from kosambi.priors.base import evaluate_mean

# The part of the prior variance below which a variance has no digits left; derivatives of its root need a floor.
_FLOOR = 1e-12


class AbstractLatent(Module):
    """f given data, for one model."""

    @abc.abstractmethod
    def moments(self, x: Float[Array, "n D"]) -> tuple[Float[Array, "n J"], Float[Array, " n"]]:
        """Means of the J normal components of f(x), and their common variance, traceable."""

    @abc.abstractmethod
    def covariance(self, x: Float[Array, "n D"], z: Float[Array, "A D"]) -> Float[Array, "n A"]:
        """Cov(f(x), f(z)), traceable, where there is one component."""


class OfCoordinates(AbstractLatent):
    """f from the coordinates of a basis."""

    basis: AbstractBasis
    w: Float[Array, "J M"]
    root: Float[Array, "M M"] | None

    def moments(self, x: Float[Array, "n D"]) -> tuple[Float[Array, "n J"], Float[Array, " n"]]:
        """m + ψᵀw_j, and σ² + |Rᵀψ|²."""
        psi = self.basis.whitened_weights(x)
        variance = jnp.maximum(self.basis.residual(x), _FLOOR * self.basis.prior.pointwise(x))
        if self.root is not None:
            variance = variance + jnp.sum(jnp.square(psi @ self.root), axis=1)
        return evaluate_mean(self.basis.prior.mean, x)[:, None] + psi @ self.w.T, variance

    def covariance(self, x: Float[Array, "n D"], z: Float[Array, "A D"]) -> Float[Array, "n A"]:
        """r − ψᵀψ + ψᵀRRᵀψ."""
        assert self.root is not None
        left, right = self.basis.whitened_weights(x), self.basis.whitened_weights(z)
        return self.basis.prior.pairwise(x, z) - left @ right.T + (left @ self.root) @ (right @ self.root).T


class OfRows(AbstractLatent):
    """f from all rows of the full process."""

    prior: AbstractPrior
    x: Float[Array, "P D"]
    values: Float[Array, " P"]
    """v."""
    root: Float[Array, "P P"]
    """B."""

    def moments(self, x: Float[Array, "n D"]) -> tuple[Float[Array, "n J"], Float[Array, " n"]]:
        """m + r_xX v, and r_xx − |B r_Xx|²."""
        cross, prior = self.prior.pairwise(x, self.x), self.prior.pointwise(x)
        variance = prior - jnp.sum(jnp.square(cross @ self.root.T), axis=1)
        mean = evaluate_mean(self.prior.mean, x) + cross @ self.values
        return mean[:, None], jnp.maximum(variance, _FLOOR * prior)

    def covariance(self, x: Float[Array, "n D"], z: Float[Array, "A D"]) -> Float[Array, "n A"]:
        """r − r_xX BᵀB r_Xz."""
        left, right = (self.prior.pairwise(at, self.x) @ self.root.T for at in (x, z))
        return self.prior.pairwise(x, z) - left @ right.T


class Latent(Module):
    """f given data, averaged over K models with equal weights, which differ by their numbers alone in each stack."""

    stacks: tuple[AbstractLatent, ...]
    noises: tuple[Float[Array, " k"], ...] | None
    """The standard deviation of Gaussian noise in each model; None for other likelihoods."""
    x: Float[Array, "P D"]
    """The rows, filled up with copies of the first."""

    def moments(self, x: Float[Array, "n D"]) -> tuple[Float[Array, "n L"], Float[Array, "n L"]]:
        """Means and variances of all L normal components of f(x), traceable."""
        found = [_over_models(lambda model: model.moments(x), stack) for stack in self.stacks]
        means = [jnp.concatenate([*mean], axis=1) for mean, _ in found]
        widths = [jnp.repeat(variance.T, mean.shape[2], axis=1) for mean, variance in found]
        return jnp.concatenate(means, axis=1), jnp.concatenate(widths, axis=1)

    def mean(self, x: Float[Array, "n D"]) -> Float[Array, " n"]:
        """E f(x), traceable."""
        return jnp.mean(self.moments(x)[0], axis=1)


def _over_models(function, stack: AbstractLatent):  # type: ignore[no-untyped-def]
    arrays, rest = eqx.partition(stack, _is_array)
    return jax.vmap(lambda own: function(eqx.combine(own, rest)))(arrays)


def over_models(function, latent: Latent) -> list[Array]:  # type: ignore[no-untyped-def]
    """`function(model, noise)` of every model, one result with an axis of models for each stack; traceable."""
    assert latent.noises is not None
    found = []
    for stack, noise in zip(latent.stacks, latent.noises, strict=True):
        arrays, rest = eqx.partition(stack, _is_array)
        found.append(jax.vmap(lambda own, s, rest=rest: function(eqx.combine(own, rest), s))(arrays, noise))
    return found


def _is_array(leaf: object) -> bool:
    return isinstance(leaf, np.ndarray | jax.Array)


@public
def latent_of(posterior: Posterior) -> Latent:
    """The distribution of f of a posterior with one latent function, for any inputs."""
    if not isinstance(posterior, Posterior):
        raise InputError(
            f"An acquisition function needs a `Posterior`. Got {type(posterior).__name__}. That of an estimator is "
            "`estimator.posterior_`, of standardised inputs."
        )
    if posterior.likelihood.num_latents > 1:
        raise InputError(
            f"`{type(posterior.likelihood).__name__}` has {posterior.likelihood.num_latents} latent functions, and "
            "there is one to be maximised. Use a likelihood with one, or `posterior.functions(key)`."
        )
    models = posterior.components if isinstance(posterior, AveragedPosterior) else (posterior,)
    groups: dict[object, list[AbstractLatent]] = {}
    noises: dict[object, list[float]] = {}
    is_gaussian = all(isinstance(model.likelihood, Gaussian) and model.likelihood.noise.ndim == 0 for model in models)
    for model in models:
        found = _of_model(model)
        leaves, tree = jax.tree.flatten(found)
        kind = (tree, tuple(np.shape(leaf) if _is_array(leaf) else leaf for leaf in leaves))
        groups.setdefault(kind, []).append(found)
        noises.setdefault(kind, []).append(float(model.likelihood.noise) if is_gaussian else np.nan)  # type: ignore[attr-defined]
    rows = np.asarray(posterior.target.x)
    return Latent(
        tuple(_stacked(group) for group in groups.values()),
        tuple(np.array(each) for each in noises.values()) if is_gaussian else None,
        np.concatenate([rows, np.repeat(rows[:1], bucket(len(rows)) - len(rows), axis=0)]),
    )


def _stacked(models: list[AbstractLatent]) -> AbstractLatent:
    return jax.tree.map(lambda *leaves: np.stack(leaves) if _is_array(leaves[0]) else leaves[0], *models)


def _of_model(posterior: Posterior) -> AbstractLatent:
    rows = posterior.target.neighborhood
    if rows is None:
        known = posterior.particles.distribution
        w = np.asarray(posterior.particles.whitened) if known is None else np.asarray(known.mean)[None]
        return OfCoordinates(posterior.basis, w, None if known is None else np.asarray(known.root))
    if not rows.is_all or (posterior.basis.size and not isinstance(posterior.likelihood, Gaussian)):
        raise InputError(
            f"f has no closed form that is smooth in x here: {rows.num_neighbors} neighbours inform it at each input. "
            "Use `DrawnImprovement(posterior.functions(key))` or `thompson`, or infer without neighbours."
        )
    from scipy.linalg import cholesky, solve_triangular  # here, because it is slow to import

    x, precision = np.asarray(rows.x), np.asarray(rows.precision)
    scale, number = np.sqrt(precision), len(precision)
    system = scale[:, None] * np.asarray(posterior.prior.covariance(x)) * scale
    # As `kosambi.basis.all_rows` does, far below the noise.
    load = number * np.finfo(np.float64).eps * precision * np.asarray(posterior.prior.variance(x))
    system[np.diag_indices(number)] += 1.0 + load
    root = solve_triangular(cholesky(system, lower=True), np.diag(scale), lower=True)
    values = root.T @ (root @ (np.asarray(rows.location) - np.asarray(rows.mean)))
    more = bucket(number) - number
    return OfRows(
        posterior.prior,
        np.concatenate([x, np.repeat(x[:1], more, axis=0)]),
        np.pad(values, (0, more)),
        np.pad(root, (0, more)),
    )
