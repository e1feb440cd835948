"""The objectives: minus the log evidence and the log of the weak prior, compiled once for all searches of one shape."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from kosambi._core.precision import at_rest, compiled, lift
from kosambi._core.types import Array
from kosambi.basis import inducing
from kosambi.basis.points import Features, whitened_features
from kosambi.learning._blocks import Block
from kosambi.learning._exact import ExactEvaluator
from kosambi.learning._layout import Layout, Model, rebuilt
from kosambi.learning._limits import Limits
from kosambi.learning._sites import ROUGHLY, SiteEvaluator
from kosambi.likelihoods import AbstractLikelihood
from kosambi.priors import AbstractPrior
from kosambi.priors.base import evaluate_mean
from kosambi.target.evidence import of_features
from kosambi.target.newton import starting_mode

EXACT, SITES, POINTS = "exact", "sites", "points"


@dataclasses.dataclass(frozen=True)
class Problem:
    """Data, prior and likelihood as they are given, on the rows that the kernel is learned from."""

    prior: AbstractPrior
    likelihood: AbstractLikelihood
    x: Float[Array, "N D"]
    y: Float[Array, " N"]
    counts: Float[Array, " N"] | None
    layout: Layout
    num_inducing: int
    strategy: str
    """How the evidence is computed: `EXACT` (Gaussian noise, no inducing points), `SITES` (any likelihood, no inducing
    points) or `POINTS` (any likelihood, with inducing points)."""
    blocks: tuple[np.ndarray, ...] = ()
    """Rows of blocks that are taken for independent data sets; one block of all rows when empty. Not for `POINTS`."""
    is_joint: bool = False
    """Whether a search in hyperparameters and points follows, whose compiled function then serves here too."""

    @property
    def is_exact(self) -> bool:
        """Whether the evidence is exact: Gaussian noise, one block, no inducing points."""
        return self.strategy == EXACT and len(self.blocks) <= 1

    @property
    def num_rows(self) -> int:
        """Rows that the evidence is of."""
        return sum(map(len, self.blocks)) if self.blocks else len(self.x)

    @property
    def counting(self) -> tuple[np.ndarray, np.ndarray]:
        """Inputs and observations of the rows that count."""
        used = slice(None) if self.counts is None else np.asarray(self.counts) > 0
        return np.asarray(self.x)[used], np.asarray(self.y)[used]

    @property
    def given(self) -> Model:
        """The model before anything is learned."""
        return Model(self.prior.kernel, self.prior.mean, self.likelihood)

    def model(self, vector: np.ndarray) -> Model:
        """The model that free numbers stand for, at rest."""
        return at_rest(self.layout.model(vector, self.given))


class Evaluator:
    """The objective at fixed inducing points, with the mode of the best evaluation as the start of the next."""

    def __init__(
        self,
        problem: Problem,
        bounds: Limits,
        vector: Float[np.ndarray, " P"],
        points: Float[np.ndarray, "M D"] | None = None,
        mode: Float[Array, " K"] | None = None,
    ) -> None:
        self._layout, self._lowest, self.evidence = problem.layout, np.inf, -np.inf
        model = problem.model(vector)
        prior, x, y = rebuilt(problem.prior, model), problem.x, problem.y
        points = choose_points(prior, x, problem.num_inducing) if points is None else points
        self._objective = joint_objective if problem.is_joint else _objective
        self._held = lift((points, problem.given, problem.prior, x, y, problem.counts, bounds.centre, bounds.width))
        self._mode = first_mode(prior, model.likelihood, x, y, points) if mode is None else mode

    def __call__(self, vector: Float[np.ndarray, " P"]) -> tuple[float, Float[np.ndarray, " P"]]:
        """Value and gradient."""
        (total, (evidence, mode)), gradient = self._objective(self._layout, vector, self._mode, *self._held)
        value, slope = float(total), np.asarray(gradient[0])
        # From the best place so far, not from the last: a cost with several modes would make the objective depend on
        # where the line search has been.
        if np.isfinite(value) and np.all(np.isfinite(slope)) and value < self._lowest:
            self._mode, self._lowest, self.evidence = mode, value, float(evidence)
        return value, slope


def evaluator(
    problem: Problem,
    bounds: Limits,
    vector: Float[np.ndarray, " P"],
    points: Float[np.ndarray, "M D"] | None = None,
    roughly: bool = False,
) -> Evaluator | ExactEvaluator | SiteEvaluator:
    """The objective of a problem around `vector`, for which inducing points are chosen unless given or not needed.

    `roughly` is enough where starts are compared.
    """
    if problem.strategy == POINTS:
        return Evaluator(problem, bounds, vector, points)
    data = problem.layout, problem.given, problem.prior, list(blocks_of(problem)), bounds
    if problem.strategy == EXACT:
        return ExactEvaluator(*data)
    sites = SiteEvaluator(*data)
    sites.tolerance = ROUGHLY if roughly else sites.tolerance
    return sites


def blocks_of(problem: Problem) -> Iterator[Block]:
    """The blocks of a problem without inducing points, all of one size: shorter ones with rows that do not count."""
    counts = np.ones(len(problem.x)) if problem.counts is None else np.asarray(problem.counts)
    size = max(map(len, problem.blocks), default=0)
    for rows in problem.blocks or (np.arange(len(problem.x)),):
        filled = np.concatenate([rows, np.repeat(rows[:1], max(0, size - len(rows)))])
        own = np.where(np.arange(len(filled)) < len(rows), counts[filled], 0.0)
        yield Block(problem.x[filled], problem.y[filled], own, problem.likelihood.at_rows(filled))


def choose_points(prior: AbstractPrior, x: Float[Array, "N D"], number: int) -> Float[np.ndarray, "M D"]:
    """`number` rows of x by greedy selection; where that ends early, filled up, so that shapes stay what they were."""
    if number == len(x):
        return np.asarray(x)
    chosen = inducing.greedy_path(prior, x, number).indices
    if len(chosen) < number:
        rest = np.setdiff1d(np.arange(len(x)), chosen)
        chosen = np.concatenate([chosen, rest[np.linspace(0, len(rest) - 1, number - len(chosen)).astype(int)]])
    return np.ascontiguousarray(np.asarray(x)[chosen])


@compiled
def first_mode(prior: AbstractPrior, likelihood: AbstractLikelihood, x: Array, y: Array, points: Array) -> Array:
    """Where the search for the mode begins."""
    return starting_mode(likelihood, whitened_features(prior, x, points), y)


@compiled
def projected(
    prior: AbstractPrior, likelihood: AbstractLikelihood, x: Array, y: Array, points: Array
) -> tuple[Array, Array, Array]:
    """ψ, the residual variances, and where the search for the mode begins."""
    features = whitened_features(prior, x, points)
    return features.psi, features.residual, starting_mode(likelihood, features, y)


@compiled
def _objective(
    layout: Layout,
    vector: Array,
    mode: Array,
    points: Array,
    given: Model,
    prior: AbstractPrior,
    x: Array,
    y: Array,
    counts: Array | None,
    centre: Array,
    width: Array,
) -> Any:
    def evidence(model: Model) -> tuple[Array, Array]:
        return of_features(model.likelihood, whitened_features(rebuilt(prior, model), x, points), y, mode, counts)

    found, gradient = _penalised(layout, vector, given, evidence, centre, width)
    return found, (gradient,)


@compiled
def fixed_objective(
    layout: Layout,
    vector: Array,
    mode: Array,
    given: Model,
    x: Array,
    y: Array,
    counts: Array | None,
    psi: Array,
    residual: Array,
    centre: Array,
    width: Array,
) -> Any:
    """The objective where the kernel stands still, so that ψ is known."""

    def evidence(model: Model) -> tuple[Array, Array]:
        features = Features(psi, residual, jnp.asarray(evaluate_mean(model.mean, x)))
        return of_features(model.likelihood, features, y, mode, counts)

    return _penalised(layout, vector, given, evidence, centre, width)


def _penalised(
    layout: Layout,
    vector: Array,
    given: Model,
    evidence: Callable[[Model], tuple[Array, Array]],
    centre: Array,
    width: Array,
) -> Any:
    """Minus the log evidence and the log prior, with the evidence and the mode beside, and the gradient."""

    def objective(v: Array) -> tuple[Array, tuple[Array, Array]]:
        value, mode = evidence(layout.model(v, given))
        return 0.5 * jnp.sum(jnp.square((v - centre) / width)) - value, (value, mode)

    return jax.value_and_grad(objective, has_aux=True)(vector)


@compiled
def joint_objective(
    layout: Layout,
    vector: Array,
    mode: Array,
    points: Array,
    given: Model,
    prior: AbstractPrior,
    x: Array,
    y: Array,
    counts: Array | None,
    centre: Array,
    width: Array,
) -> Any:
    """The objective as a function of both, with the evidence and the mode beside, and both gradients."""

    def objective(v: Array, z: Array) -> tuple[Array, tuple[Array, Array]]:
        model = layout.model(v, given)
        value, found = of_features(model.likelihood, whitened_features(rebuilt(prior, model), x, z), y, mode, counts)
        return 0.5 * jnp.sum(jnp.square((v - centre) / width)) - value, (value, found)

    return jax.value_and_grad(objective, argnums=(0, 1), has_aux=True)(vector, points)
