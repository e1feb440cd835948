"""What a search for hyperparameters says about itself."""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Float

from kosambi._core.html import table_html
from kosambi._core.representation import shown_value
from kosambi.learning.drawn import HyperparameterDraws
from kosambi.learning.hyperpriors import AbstractHyperprior


@dataclasses.dataclass(frozen=True)
class FitReport:
    """How hyperparameters were found, and what to make of them."""

    method: str
    """"evidence" or "paper"."""
    objective: float
    """What was maximised: the log evidence (log marginal likelihood) plus the log of the weak prior ("evidence"), or
    the log marginal likelihood of the exact Gaussian process, averaged over its subsets ("paper")."""
    log_evidence: float
    """The log evidence (log marginal likelihood) without the weak prior, of the `num_rows` rows, computed as `strategy`
    says; for "neighbors" estimated from 1024 of them, and with batches of rows from the last batches. With inducing
    points and `max_rows` it is that of all rows. NaN for "paper" where it fits another model."""
    is_exact: bool
    """Whether that is the evidence without inducing points, and not a bound or an approximation with them."""
    bound: float
    """The log evidence where it is a bound with `inducing_points`; NaN otherwise."""
    gradient_norm: float
    """The largest slope of the objective within the bounds at the end, in nats for a factor e, or for a step of a real
    number that moves the latent function by its standard deviation."""
    converged: bool
    """Whether the search ended by itself, and choosing inducing points again no longer mattered."""
    parameters: dict[str, Float[np.ndarray, "..."]]
    """All parameters by name, learned or not. For "paper" with other noise than Gaussian also `exact.noise`, the
    standard deviation of the noise of the exact process."""
    frozen: tuple[str, ...]
    """Names of those that were not learned."""
    at_bound: tuple[str, ...]
    """Names of numbers that ended at a bound: the data say only that they are large, or small."""
    restarts: tuple[float, ...]
    """The objective that each short search from another start reached ("evidence"), or each subset ("paper")."""
    rounds: int
    """How often inducing points were chosen for the main search; 1 where it needs none."""
    iterations: int
    """Iterations of the main search, all rounds."""
    evaluations: int
    """Evaluations of objective and gradient, of all searches, moves of inducing points included."""
    failures: int
    """Evaluations that were not finite, from which a search turned back."""
    trace: Float[np.ndarray, " E"]
    """The objective at every finite evaluation, in order: first that of the rows that the search begins with, and that
    without inducing points where both were tried."""
    num_rows: int
    """Rows of the data that the kernel was learned from."""
    num_support: int | None
    """Support points of the measure that the kernel was learned with; None without a measure made of points."""
    inducing_points: Float[np.ndarray, "M D"] | None
    """As many inducing points as were asked for, for the learned model: greedily chosen, then moved to where the bound
    is highest; hand them to `infer(inducing_points=...)`. None with `num_inducing="auto"` and "all"."""
    jitter: float
    """What was added to the diagonal of r(Z, Z), as a part of its mean."""
    seconds: float
    """Wall clock, compilation included."""
    compile_seconds: float
    """What of that was tracing and compilation."""
    warnings: tuple[str, ...]
    """What the user was warned of."""
    strategy: str = "unknown"
    """How the log evidence was computed: "exact" (without inducing points), "sites" (a variational bound without
    inducing points), "points" (with them) or "neighbors" (each row given its nearest earlier ones, for all rows)."""
    priors: dict[str, AbstractHyperprior] = dataclasses.field(default_factory=dict)
    """The priors over hyperparameters, by name: those that were given, and the usual weak ones."""
    draws: HyperparameterDraws | None = None
    """Draws of the hyperparameters from their posterior, where `num_draws` asked for them."""

    def __repr__(self) -> str:
        numbers = ", ".join(f"{name!r}: {shown_value(value)}" for name, value in self.parameters.items())
        return (
            f"FitReport(method={self.method!r}, converged={self.converged}, log_evidence={self.log_evidence:.6g}, "
            f"parameters={{{numbers}}})"
        )

    def __str__(self) -> str:
        lines = [
            f"{self.method}: {self._state}, objective {self.objective:.2f}, log evidence {self.log_evidence:.2f}, "
            f"steepest slope {self.gradient_norm:.2g}",
            f"  {self._work}; {self.num_rows} rows",
        ]
        for name, value in self.parameters.items():
            shown = np.array2string(np.asarray(value), precision=4, suppress_small=False, max_line_width=90)
            remark = self._remark(name)
            lines.append(f"  {name} = {shown}" + (f" ({remark})" if remark else ""))
        return "\n".join(lines + [f"  warning: {text}" for text in self.warnings])

    def _repr_pretty_(self, printer: object, cycle: bool) -> None:
        del cycle
        printer.text(str(self))  # type: ignore[attr-defined]

    def _repr_html_(self) -> str:
        rows = [
            ("search", self._state, ""),
            ("objective", f"{self.objective:.2f}", ""),
            ("log evidence", f"{self.log_evidence:.2f}", "exact" if self.is_exact else ""),
            ("steepest slope", f"{self.gradient_norm:.2g}", ""),
            ("rows", self.num_rows, ""),
            ("work", self._work, ""),
            *((name, shown_value(value), self._remark(name)) for name, value in self.parameters.items()),
        ]
        return table_html(f"Hyperparameters by {self.method}", rows, notes=self.warnings)

    @property
    def _state(self) -> str:
        return "converged" if self.converged else "NOT converged"

    @property
    def _work(self) -> str:
        return (
            f"{self.evaluations} evaluations ({self.failures} not finite), {self.iterations} iterations in "
            f"{self.rounds} rounds, {len(self.restarts)} starts; {self.seconds:.1f} s of which "
            f"{self.compile_seconds:.1f} s compiling"
        )

    def _remark(self, name: str) -> str:
        if any(bound.split("[")[0] == name for bound in self.at_bound):
            return "at a bound"
        return "frozen" if name in self.frozen else ""
