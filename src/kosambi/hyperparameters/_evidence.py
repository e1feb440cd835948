"""Hyperparameters by the evidence of the model that is used: starts, short searches, rounds, and a stage on all rows.

Within a round the inducing points stand still, so that the objective is smooth; between rounds they are chosen again
for the kernel as it is then. All rounds and restarts share one compiled function, because shapes never change.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from kosambi import inducing
from kosambi._types import Array
from kosambi.draws import evaluate_mean
from kosambi.evidence import Projection, of_projection, project, starting_mode
from kosambi.hyperparameters._layout import Layout, Model, lay_out, rebuilt
from kosambi.hyperparameters._limits import Limits, limits
from kosambi.hyperparameters._search import Minimum, Record, minimise
from kosambi.hyperparameters._starts import Scales, start
from kosambi.likelihoods import AbstractLikelihood
from kosambi.precision import compiled, lift
from kosambi.priors import AbstractPrior
from kosambi.progress import Progress

# Lengthscales in units of √D standard deviations, and noise as a share of the standard deviation, to begin from.
_REACHES, _SHARES = (0.2, 0.6, 2.0), (0.1, 0.5)
# Iterations of a short search, and of each round; the last number goes on.
SHORT = 12
_ROUNDS = (15, 25, 40)
MAX_ROUNDS = 8
# Choosing inducing points again has ended to matter when it gains less than this many nats, or this many a datum.
_GAIN, _GAIN_PER_ROW = 0.1, 2e-4


@dataclasses.dataclass(frozen=True)
class Problem:
    """Data, prior and likelihood as they are given, on the rows that the kernel is learned from."""

    prior: AbstractPrior
    likelihood: AbstractLikelihood
    x: Float[Array, "N D"]
    y: Float[Array, " N"]
    layout: Layout
    num_inducing: int

    @property
    def given(self) -> Model:
        """The model before anything is learned."""
        return Model(self.prior.kernel, self.prior.mean, self.likelihood)

    def model(self, vector: np.ndarray) -> Model:
        """The model that free numbers stand for, at rest."""
        return jax.tree.map(_at_rest, self.layout.model(np.asarray(vector), self.given))


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a search found."""

    model: Model
    minimum: Minimum
    limits: Limits
    log_evidence: float
    points: Float[np.ndarray, "M D"]
    restarts: tuple[float, ...]
    rounds: int
    iterations: int
    converged: bool
    interrupted: bool


class Evaluator:
    """The objective at fixed inducing points, with the mode of the last evaluation as the start of the next."""

    def __init__(self, problem: Problem, bounds: Limits, points: Float[np.ndarray, "M D"], model: Model) -> None:
        self.points, self.bounds, self.problem = points, bounds, problem
        self.evidence = -np.inf
        self._lowest = np.inf
        self._held = lift((problem.given, problem.prior, problem.x, problem.y, points, bounds.centre, bounds.width))
        self._mode = _first_mode(rebuilt(problem.prior, model), model.likelihood, problem.x, problem.y, points)

    def __call__(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        (total, (evidence, mode)), gradient = _objective(self.problem.layout, vector, self._mode, *self._held)
        value, slope = float(total), np.asarray(gradient)
        if np.isfinite(value) and np.all(np.isfinite(slope)):
            self._mode = mode
            if value < self._lowest:
                self._lowest, self.evidence = value, float(evidence)
        return value, slope


def search(
    generator: np.random.Generator,
    problem: Problem,
    num_restarts: int,
    max_iterations: int,
    record: Record,
    show: Progress,
) -> Outcome:
    """The best model from several starts, with inducing points that follow the kernel."""
    bounds, candidates = _candidates(generator, problem, num_restarts)
    best: tuple[Minimum, np.ndarray, float] | None = None
    restarts: list[float] = []
    iterations, rounds, done, interrupted = 0, 0, False, False
    try:
        for number, vector in enumerate(_screened(problem, bounds, candidates, num_restarts + 1)):
            show.update("starts", number, num_restarts + 1)
            found = _round(problem, bounds, vector, min(SHORT, max_iterations), record)
            restarts.append(-found[0].value)
            if best is None or found[0].value < best[0].value:
                best = found
        assert best is not None
        while rounds < MAX_ROUNDS and iterations < max_iterations and not done:
            show.update("search", iterations, max_iterations, f"objective {-best[0].value:.1f}")
            limit = min(_ROUNDS[min(rounds, len(_ROUNDS) - 1)], max_iterations - iterations)
            before = best[0].value
            found = _round(problem, bounds, best[0].vector, limit, record)
            rounds, iterations = rounds + 1, iterations + max(1, found[0].iterations)
            if found[0].value < best[0].value:
                best = found
            gained = before - found[0].value
            done = found[0].converged and gained < max(_GAIN, _GAIN_PER_ROW * len(problem.y))
    except KeyboardInterrupt:
        interrupted = True
        if best is None:
            raise
    minimum, points, evidence = best
    return Outcome(
        problem.model(minimum.vector),
        minimum,
        bounds,
        evidence,
        points,
        tuple(restarts),
        rounds,
        iterations,
        done,
        interrupted,
    )


def _candidates(generator: np.random.Generator, problem: Problem, num_restarts: int) -> tuple[Limits, list[np.ndarray]]:
    """The limits, and vectors to begin from: the given one, a grid of usual ones, and random ones around them."""
    layout, prior, likelihood, x, y = problem.layout, problem.prior, problem.likelihood, problem.x, problem.y
    usual = start(prior, likelihood, x, y, 1.0, 0.3)
    bounds = limits(layout, usual, problem.given, Scales.of(likelihood, x, y))
    grid = [layout.vector(start(prior, likelihood, x, y, reach, share)) for reach in _REACHES for share in _SHARES]
    spread = np.where(bounds.upper - bounds.lower < 1e3, 1.0, bounds.width)
    random = [bounds.centre + 0.5 * spread * generator.normal(size=layout.size) for _ in range(num_restarts)]
    return bounds, [np.clip(v, bounds.lower, bounds.upper) for v in (layout.vector(problem.given), *grid, *random)]


def _screened(problem: Problem, bounds: Limits, candidates: list[np.ndarray], number: int) -> list[np.ndarray]:
    """The most promising starts, best first, none twice."""
    distinct: list[np.ndarray] = []
    for vector in candidates:
        if not any(np.allclose(vector, other, atol=1e-8) for other in distinct):
            distinct.append(vector)
    if len(distinct) <= 1:
        return distinct
    values = [_evaluator(problem, bounds, vector)(vector)[0] for vector in distinct]
    order = np.argsort(np.where(np.isfinite(values), values, np.inf), kind="stable")
    return [distinct[i] for i in order[:number]]


def _round(
    problem: Problem, bounds: Limits, vector: np.ndarray, max_iterations: int, record: Record
) -> tuple[Minimum, np.ndarray, float]:
    """A search with inducing points chosen for where it begins."""
    evaluator = _evaluator(problem, bounds, vector)
    found = minimise(evaluator, vector, bounds.lower, bounds.upper, max_iterations, record)
    return found, evaluator.points, evaluator.evidence


def _evaluator(problem: Problem, bounds: Limits, vector: np.ndarray) -> Evaluator:
    model = problem.model(vector)
    points = choose_points(rebuilt(problem.prior, model), problem.x, problem.num_inducing)
    return Evaluator(problem, bounds, points, model)


def choose_points(prior: AbstractPrior, x: Float[Array, "N D"], number: int) -> Float[np.ndarray, "M D"]:
    """`number` rows of x by greedy selection; where that ends early, filled up, so that shapes stay what they were."""
    if number == len(x):
        return np.asarray(x)
    chosen = inducing.greedy_path(prior, x, number).indices
    if len(chosen) < number:
        rest = np.setdiff1d(np.arange(len(x)), chosen)
        chosen = np.concatenate([chosen, rest[np.linspace(0, len(rest) - 1, number - len(chosen)).astype(int)]])
    return np.ascontiguousarray(np.asarray(x)[chosen])


def on_all_rows(
    problem: Problem, model: Model, x: Float[Array, "N D"], y: Float[Array, " N"], record: Record
) -> tuple[Model, float, np.ndarray]:
    """The likelihood's parameters and the mean again, with the kernel as it is, on all rows: O(NM²) once."""
    prior = rebuilt(problem.prior, model)
    points = choose_points(prior, x, problem.num_inducing)
    names = ["kernel", *(parameter.name for parameter in problem.layout.frozen if parameter.name[:7] != "kernel.")]
    tied = [[p.name for p in group] for group in problem.layout.groups if len(group) > 1]
    layout = lay_out(model, names, [names for names in tied if not any(name.startswith("kernel") for name in names)])
    usual = start(prior, model.likelihood, x, y, 1.0, 0.3)
    bounds = limits(layout, usual, model, Scales.of(model.likelihood, x, y))
    psi, residual, mode = _projected(prior, model.likelihood, x, y, points)
    evidence = [-np.inf]
    held = lift((model, x, y, psi, residual, bounds.centre, bounds.width))

    def objective(vector: np.ndarray) -> tuple[float, np.ndarray]:
        (total, (value, _)), gradient = _fixed_objective(layout, vector, mode, *held)
        evidence[0] = max(evidence[0], float(value))
        return float(total), np.asarray(gradient)

    found = minimise(objective, layout.vector(model), bounds.lower, bounds.upper, 50, record)
    refined = jax.tree.map(_at_rest, layout.model(found.vector, model))
    return refined, evidence[0], points


@compiled
def _first_mode(prior: AbstractPrior, likelihood: AbstractLikelihood, x: Array, y: Array, points: Array) -> Array:
    return starting_mode(likelihood, project(prior, x, points), y)


@compiled
def _projected(
    prior: AbstractPrior, likelihood: AbstractLikelihood, x: Array, y: Array, points: Array
) -> tuple[Array, Array, Array]:
    projection = project(prior, x, points)
    return projection.psi, projection.residual, starting_mode(likelihood, projection, y)


@compiled
def _objective(
    layout: Layout,
    vector: Array,
    mode: Array,
    given: Model,
    prior: AbstractPrior,
    x: Array,
    y: Array,
    points: Array,
    centre: Array,
    width: Array,
) -> Any:
    def projection(model: Model) -> Projection:
        return project(rebuilt(prior, model), x, points)

    return _penalised(layout, vector, mode, given, projection, y, centre, width)


@compiled
def _fixed_objective(
    layout: Layout,
    vector: Array,
    mode: Array,
    given: Model,
    x: Array,
    y: Array,
    psi: Array,
    residual: Array,
    centre: Array,
    width: Array,
) -> Any:
    def projection(model: Model) -> Projection:
        return Projection(psi, residual, jnp.asarray(evaluate_mean(model.mean, x)))

    return _penalised(layout, vector, mode, given, projection, y, centre, width)


def _penalised(
    layout: Layout,
    vector: Array,
    mode: Array,
    given: Model,
    projection: Callable[[Model], Projection],
    y: Array,
    centre: Array,
    width: Array,
) -> Any:
    """Minus the log evidence and the log prior, with the evidence and the mode beside, and the gradient."""

    def objective(v: Array) -> tuple[Array, tuple[Array, Array]]:
        model = layout.model(v, given)
        evidence, found = of_projection(model.likelihood, projection(model), y, mode)
        return 0.5 * jnp.sum(jnp.square((v - centre) / width)) - evidence, (evidence, found)

    return jax.value_and_grad(objective, has_aux=True)(vector)


def _at_rest(leaf: Any) -> Any:
    return np.asarray(leaf, dtype=np.float64) if isinstance(leaf, jax.Array | np.ndarray | np.generic) else leaf
