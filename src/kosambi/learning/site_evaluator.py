r"""The bound of `kosambi.learning.dense` and its slope in the free numbers of a model, for blocks of rows.

At settled sites the slope is the explicit one: that in K and μ, pulled back to the hyperparameters, less that of the
expected costs.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from kosambi._core.journal import Arrays
from kosambi._core.precision import at_rest, compiled
from kosambi._core.types import Array
from kosambi.learning.dense import gram_slope, settled
from kosambi.learning.device_dense import FAINT, is_for_device
from kosambi.learning.exact import AbstractBlockEvaluator, gram_gradient
from kosambi.learning.layout import Layout, Model, rebuilt
from kosambi.learning.rows import Block
from kosambi.learning.sites import DRAWN, SETTLED, SHORTLY, Fitted, Sites, expected_cost
from kosambi.learning.starts import Limits
from kosambi.learning.surrogate import MANY_NUMBERS
from kosambi.priors import AbstractPrior
from kosambi.priors.base import evaluate_mean

# Nats that an update of the sites may promise, over the square of the steepest slope: the slope is off by about the
# root of it.
_RELATIVE = 1e-4


class SiteEvaluator(AbstractBlockEvaluator):
    """Minus the variational bound on the log evidence without inducing points; see `AbstractBlockEvaluator`.

    Sites begin where those of the best evaluation so far ended: a cost with several modes would otherwise make the
    bound depend on where a line search has been.

    `tolerance` are nats that a further update of the sites may promise. With `is_searched` they are more while the best
    slope so far is steep: sites must be as good as the slope is to be known.
    """

    def __init__(
        self, layout: Layout, given: Model, prior: AbstractPrior, blocks: list[Block], bounds: Limits | None = None
    ) -> None:
        super().__init__(layout, given, prior, blocks, bounds)
        self.is_settled, self.tolerance, self.is_searched, self._steepness = True, SETTLED, False, np.inf
        self._is_held = False
        self._has_settled = [True] * len(blocks)
        self._best: list[Sites | None] = [None] * len(blocks)
        self._last: list[Sites | None] = [None] * len(blocks)

    def _block(self, number: int, vector: Float[np.ndarray, " P"]) -> tuple[float, Float[np.ndarray, " P"]]:
        given, (x, y, counts, _) = self._given[number], self._blocks[number]
        gram, found, has_settled = self._settled_at(number, vector)
        if not np.isfinite(found.bound):
            return -np.inf, np.full(len(vector), np.nan)
        self._has_settled[number] = has_settled
        self._last[number] = found.sites
        slopes = gram_slope(gram, found), np.sum(found.factors.alpha, axis=1)
        q = found.mean, found.variance
        return found.bound, np.asarray(_pulled_back(self.layout, vector, given, self._prior, x, y, counts, *q, *slopes))

    def _evidence(self, number: int, vector: Float[np.ndarray, " P"]) -> float:
        # A draw is decided by differences of nats, of which a hundredth does not matter.
        return self._settled_at(number, vector, DRAWN if self._is_held else 0.0)[1].bound

    def _settled_at(
        self, number: int, vector: Float[np.ndarray, " P"], tolerance: float = 0.0
    ) -> tuple[Array, Fitted, bool]:
        """K of a block, the best sites there, and whether they have settled."""
        _, y, counts, _ = self._blocks[number]
        gram, mean = self._prior_at(number, vector)
        likelihood = self.layout.model(vector, self._given[number]).likelihood
        rough = min(SHORTLY, _RELATIVE * self._steepness**2) if self.is_searched else 0.0
        least = max(self.tolerance, rough, tolerance)
        return gram, *settled(likelihood, gram, mean, y, counts, self._best[number], least)

    def _prior_at(self, number: int, vector: Float[np.ndarray, " P"]) -> tuple[Array, Float[np.ndarray, " N"]]:
        """K, on an accelerator if it is worth it there, and μ."""
        x = self._blocks[number].x
        gram, mean = _moments(self.layout, vector, self._given[number], self._prior, x)
        # Symmetric, so that its transpose, which is in LAPACK's order, is the same.
        return (gram if is_for_device(len(x)) else np.asarray(gram).T), np.asarray(mean)

    def _keep(self, gradient: Float[np.ndarray, " P"]) -> None:
        if not self._is_held:
            self._best = list(self._last)
        self.is_settled = all(self._has_settled)
        self._steepness = float(np.max(np.abs(gradient if self.bounds is None else gradient * self.bounds.scale)))

    def memory(self) -> list[Any]:
        """With the sites, of the best evaluation and of the last one."""
        own = np.asarray(self.is_settled), np.asarray(self._steepness), np.asarray(self._has_settled)
        every = [part for sites in (*self._best, *self._last) for part in (sites or (None, None))]
        return [*super().memory(), *own, *every]

    def recall(self, memory: Arrays) -> None:
        super().recall(memory)
        settled, steepness, every = memory[2:5]
        assert settled is not None
        assert steepness is not None
        assert every is not None
        self.is_settled, self._steepness = bool(settled), float(steepness)
        self._has_settled = [bool(one) for one in every]
        pairs = zip(memory[5::2], memory[6::2], strict=True)
        sites = [None if one is None or other is None else Sites(one, other) for one, other in pairs]
        self._best, self._last = sites[: len(self._best)], sites[len(self._best) :]

    @property
    def sites(self) -> list[Sites | None]:
        """Those of every block at the best evaluation so far; None where there was none."""
        return list(self._best)

    def begin_with(self, sites: list[Sites | None]) -> None:
        """Sites of every block that the first evaluation begins with, in the place of those of rough latent values."""
        self._best = list(sites)

    def hold(self, vector: Float[np.ndarray, " P"], sites: list[Sites | None] | None) -> None:
        """Begin every evaluation with the sites at `vector`, found from `sites`, so that it depends on nothing else.

        As a density must: one that depends on where a chain has been is none.
        """
        self.is_searched = False
        if sites:
            self.begin_with(sites)
        self(vector)
        self._is_held = True
        # A surrogate is learned from slopes; trajectories alone may have them rough.
        self.tolerance = 0.1 * DRAWN if len(vector) > MANY_NUMBERS else self.tolerance

    def left_out(self, vector: Float[np.ndarray, " P"]) -> tuple[Float[np.ndarray, " N"], Float[np.ndarray, " N"]]:
        """Given the sites of all others; for one latent function.

        Without its own site f_n has the variance v_n/(1 − W_n v_n) and the mean (m_n − v_n λ_n)/(1 − W_n v_n).
        """
        densities, every = [], []
        for at, (_, y, counts, _) in enumerate(self._blocks):
            gram, mean = self._prior_at(at, vector)
            likelihood = self.layout.model(vector, self._given[at]).likelihood
            found, _ = settled(likelihood, gram, mean, y, counts, self._best[at], self.tolerance)
            rows = np.flatnonzero(np.asarray(counts))
            every.append(np.asarray(counts)[rows])
            if not np.isfinite(found.bound):
                densities.append(np.full(len(rows), -np.inf))
                continue
            centre, variance = found.mean[:, 0], found.variance[:, 0]
            left = np.maximum(1.0 - found.sites.precision[:, 0] * variance, FAINT)
            away = (centre - variance * found.sites.shift[:, 0]) / left
            density = at_rest(likelihood).log_predictive_density(np.asarray(y), away, np.sqrt(variance / left))
            densities.append(np.asarray(density)[rows])
        return np.concatenate(densities), np.concatenate(every)


def _parts(
    layout: Layout, vector: Array, given: Model, prior: AbstractPrior, x: Array
) -> tuple[Float[Array, "N N"], Float[Array, " N"]]:
    model = layout.model(vector, given)
    return rebuilt(prior, model).pairwise(x, x), jnp.asarray(evaluate_mean(model.mean, x))


_moments = compiled(_parts)


@compiled
def _pulled_back(
    layout: Layout,
    vector: Array,
    given: Model,
    prior: AbstractPrior,
    x: Array,
    y: Array,
    counts: Array,
    mean: Array,
    variance: Array,
    weights: Array,
    alpha: Array,
) -> Float[Array, " P"]:
    """The slope in the free numbers, from those in K and μ, and of the costs themselves."""

    def weighted(v: Array) -> Array:
        model = layout.model(v, given)
        cost = expected_cost(model.likelihood, y, counts, mean, jnp.sqrt(variance))
        return jnp.sum(alpha * jnp.asarray(evaluate_mean(model.mean, x))) - cost

    return jax.grad(weighted)(vector) + gram_gradient(layout, vector, given, prior, x, weights)
