r"""Functions with neighbours: a local Matheron rule.

With F_j a posterior draw whose residual keeps its prior (`kosambi.posterior._functions`), and ε_j standard normal
numbers, one for each draw and row,

    f_j(x) = F_j(x) + B(x)(t − F_j(X) − s∘ε_j)_{𝒩(x)},   s² = 1/(τW)

𝒩(x) the m nearest of all rows and τ their shares (`kosambi.target.neighborhood.taper`), with which f_j does not jump
where neighbours change. At one input its mean and variance are those that predictions have, N(b + ψ̌ᵀw_j, D). The same
function at every call, from any batch: ε_j of a row follows from the key and the number of the row.

Where all rows are neighbours of every input, B(x) = R_xX(R + W⁻¹)⁻¹, and each draw is a sum over the rows with weights
that are found once.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int, UInt

from kosambi._core.checks import is_traced
from kosambi._core.linalg import by_rows, host_blocks
from kosambi._core.precision import compiled, lift
from kosambi._core.programs import bucket
from kosambi._core.types import Array
from kosambi.basis import AbstractBasis
from kosambi.priors.functions.draws import AbstractCorrection, FunctionDraws
from kosambi.target import Target
from kosambi.target.neighborhood import Near, Neighborhood, taper

# Values of functions at neighbours that are made at once.
_VALUES_AT_ONCE = 2**23


class NearData(AbstractCorrection):
    """B(x)(t − F_j(X) − s∘ε_j): what near data add to draws whose residual has not seen them."""

    basis: AbstractBasis
    rows: Neighborhood
    key: UInt[Array, " W"]
    """Of the ε, as numbers."""
    kind: str = eqx.field(static=True)
    """How JAX calls that kind of key."""
    total: int = eqx.field(static=True)
    """How many draws there were."""
    numbers: Int[Array, " J"]
    """Which of them these are."""

    def select(self, indices: Int[np.ndarray, " L"]) -> NearData:
        """Some of the draws."""
        return NearData(self.basis, self.rows, self.key, self.kind, self.total, np.asarray(self.numbers)[indices])

    def evaluate(self, draws: FunctionDraws, x: Float[Array, "N D"]) -> Float[Array, "J N"]:
        """The correction at the rows of `x`; of concrete ones with a search on the host, a block at a time."""
        if is_traced((self, draws, x)):
            # Arrays of NumPy cannot be indexed by what is traced.
            return lift(self)._traced(draws, jnp.asarray(x))
        x, rows = np.asarray(x), self.rows
        found = np.zeros((draws.num_draws, len(x)))
        near = rows.nearest(x)
        assert isinstance(near, Near)
        places = near.rows.shape[1]
        if not places:
            return found
        size = max(1, _VALUES_AT_ONCE // (places * draws.num_draws))
        for part in host_blocks(len(x), size):
            index, share = near.at(part)
            weights = rows.local(self.basis, x[part], near.at(part)).weights
            used, inverse = np.unique(index, return_inverse=True)
            filled = np.concatenate([used, np.repeat(used[:1], bucket(len(used)) - len(used))])
            noise = np.asarray(_normals(self.key, self.kind, self.total, self.numbers, filled))[:, : len(used)]
            errors = np.asarray(rows.location)[used] - np.asarray(draws(np.asarray(rows.x)[filled]))[:, : len(used)]
            # B is zero wherever τ is.
            precision = np.asarray(rows.precision)[index] * share
            scaled = np.where(precision > 0, weights / np.sqrt(np.where(precision > 0, precision, 1.0)), 0.0)
            at = inverse.reshape(index.shape)
            found[:, part] = np.einsum("tk,jtk->jt", weights, errors[:, at]) - np.einsum(
                "tk,jtk->jt", scaled, noise[:, at].astype(np.float64)
            )
        return found

    def _traced(self, draws: FunctionDraws, x: Float[Array, "N D"]) -> Float[Array, "J N"]:
        """The same in JAX: the nearest of all distances, and one small system after the other."""
        rows, size = self.rows, x.shape[0]
        said = jnp.asarray(rows.precision) > 0
        places = min(rows.num_neighbors, rows.x.shape[0])
        if not places:
            return jnp.zeros((draws.num_draws, size), dtype=x.dtype)
        # Around zero, where squares lose no digits.
        centre = jnp.mean(rows.x, axis=0)
        scaled, data = (jax.lax.stop_gradient(x) - centre) / rows.scales, (rows.x - centre) / rows.scales
        apart = jnp.sum(jnp.square(data), axis=1) - 2.0 * scaled @ data.T
        is_all = places == rows.x.shape[0]
        order = jax.lax.top_k(-jnp.where(said, apart, jnp.inf), places if is_all else places + 1)[1]
        index = order[:, :places]
        shares = jnp.ones((size, places), dtype=x.dtype) if is_all else self._shares(x, order, said)
        precision = jnp.where(said, rows.precision, 0.0)[index] * shares

        unit = float(np.finfo(x.dtype).eps) * (8.0 + 4.0 * jnp.max(jnp.abs(rows.x) / rows.scales))

        def solve(row: tuple[Array, Array, Array]) -> Array:
            one, which, strength = row
            psi = self.basis.whitened_weights(one[None])[0]
            near, features, root = rows.x[which], rows.psi[which], _root(strength)
            gram = self.basis.prior.pairwise(near, near) - features @ features.T
            gram = root[:, None] * gram * root
            # What rounding of r, ψ and inputs can add to R, which in single precision may be more than the noise.
            rounding = unit * jnp.square(root) * self.basis.prior.pointwise(near)
            gram = gram + jnp.diag(1.0 + rounding)
            toward = self.basis.prior.pairwise(near, one[None])[:, 0] - features @ psi
            return root * jax.scipy.linalg.cho_solve(jax.scipy.linalg.cho_factor(gram), root * toward)

        # One after the other: batches of factorisations can block XLA's threads on a CPU for good.
        weights = jax.lax.map(solve, (x, index, precision))
        values = draws(rows.x[index].reshape(-1, x.shape[1])).reshape(-1, size, places)
        noise = _draw_normals(self.key, self.kind, self.total, self.numbers, index.reshape(-1))
        noise = noise.reshape(-1, size, places).astype(x.dtype)
        root = _root(precision)
        scaled_weights = jnp.where(root > 0, weights / jnp.where(root > 0, root, 1.0), 0.0)
        errors = rows.location[index] - values
        return jnp.einsum("tk,jtk->jt", weights, errors) - jnp.einsum("tk,jtk->jt", scaled_weights, noise)

    def _shares(self, x: Array, order: Int[Array, "N K"], said: Array) -> Array:
        apart = jnp.sum(jnp.square((x[:, None] - self.rows.x[order]) / self.rows.scales), axis=2)
        distance = jnp.sqrt(jnp.maximum(apart, 1e-30))
        next_one = jnp.where(said[order[:, -1:]], distance[:, -1:], jnp.inf)
        return taper(distance[:, :-1], next_one, x.shape[1], jnp)


class AllData(AbstractCorrection):
    """R_xX v_j with v_j = (R + W⁻¹)⁻¹(t − F_j(X) − s∘ε_j): what all data add to draws that have not seen them."""

    basis: AbstractBasis
    x: Float[Array, "N D"]
    psi: Float[Array, "N M"]
    weights: Float[Array, "J N"]
    """v."""

    @classmethod
    def of(cls, target: Target, draws: FunctionDraws, generator: np.random.Generator) -> AllData:
        """For draws whose residual keeps its prior."""
        rows, basis = target.neighborhood, target.basis
        assert rows is not None
        precision = np.asarray(rows.precision)
        # A row that says nothing has no weight, whatever its noise.
        deviation = 1.0 / np.sqrt(np.where(precision > 0, precision, 1.0))
        noise = deviation * generator.normal(size=(draws.num_draws, len(precision)))
        error = np.asarray(rows.location) - np.asarray(draws(rows.x)) - noise
        weights = rows.all_rows(basis).weighted(error.T).T
        return cls(basis, rows.x, rows.psi, np.ascontiguousarray(weights))

    def select(self, indices: Int[np.ndarray, " L"]) -> AllData:
        """Some of the draws."""
        return AllData(self.basis, self.x, self.psi, np.asarray(self.weights)[indices])

    def evaluate(self, draws: FunctionDraws, x: Float[Array, "N D"]) -> Float[Array, "J N"]:
        """The sum at the rows of `x`, in blocks of them."""
        del draws
        return _sum_over_rows(self, x)


@compiled
def _sum_over_rows(data: AllData, x: Array) -> Float[Array, "J N"]:
    def block(some: Array) -> Array:
        cross = data.basis.prior.pairwise(some, data.x)
        return (cross - data.basis.whitened_weights(some) @ data.psi.T) @ data.weights.T

    return by_rows(block, x, 2 * data.x.shape[0]).T


def _root(precision: Array) -> Array:
    """√precision, with a derivative of zero at zero."""
    return jnp.where(precision > 0, jnp.sqrt(jnp.where(precision > 0, precision, 1.0)), 0.0)


def _draw_normals(key: Array, kind: str, total: int, numbers: Array, rows: Array) -> Float[Array, "J R"]:
    """ε of some rows, in single precision whatever JAX's switch says, so that it is the same numbers."""
    wrapped = jax.random.wrap_key_data(jnp.asarray(key, dtype=jnp.uint32), impl=kind)

    def of_row(row: Array) -> Array:
        return jax.random.normal(jax.random.fold_in(wrapped, row), (total,), dtype=jnp.float32)

    return jax.vmap(of_row)(rows.astype(jnp.uint32))[:, numbers].T


@compiled
def _normals(key: Array, kind: str, total: int, numbers: Array, rows: Array) -> Float[Array, "J R"]:
    return _draw_normals(key, kind, total, numbers, rows)
