"""What every method of learning hyperparameters is given, and what it returns."""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Float

from kosambi._core.progress import Interruption, Progress
from kosambi._core.types import Array
from kosambi.learning._layout import Layout, Model
from kosambi.learning._search import Record
from kosambi.likelihoods import AbstractLikelihood
from kosambi.priors import AbstractPrior


@dataclasses.dataclass(frozen=True)
class Task:
    """Checked arguments, and where to write down what happens."""

    generator: np.random.Generator
    prior: AbstractPrior
    likelihood: AbstractLikelihood
    x: Float[Array, "N D"]
    y: Float[Array, " N"]
    counts: Float[Array, " N"] | None
    layout: Layout
    max_iterations: int
    record: Record
    show: Progress
    stop: Interruption = dataclasses.field(default_factory=Interruption)
    """What Ctrl-C does."""

    @property
    def num_counting(self) -> int:
        """How many rows have a weight that is not zero."""
        return len(self.x) if self.counts is None else int(np.count_nonzero(self.counts))


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a method found; the fields are those of `FitReport`."""

    model: Model
    strategy: str
    objective: float
    log_evidence: float
    is_exact: bool
    bound: float
    gradient_norm: float
    converged: bool
    at_bound: tuple[str, ...]
    frozen: tuple[str, ...]
    restarts: tuple[float, ...]
    rounds: int
    iterations: int
    num_rows: int
    num_support: int | None
    inducing_points: Float[np.ndarray, "M D"] | None
    jitter: float
    warnings: tuple[str, ...]
    beside: dict[str, Float[np.ndarray, "..."]] = dataclasses.field(default_factory=dict)
    """Numbers by name that are not parameters of the model; the report lists them with those that are."""
