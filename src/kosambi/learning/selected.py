"""What a choice of inducing points and neighbours has come to, and why, in words and as a table."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from kosambi._core.html import table_html

REASONS = {
    "prediction": "more points would not predict better by {tolerance:g} nats per observation",
    "certificate": "the posterior is proven to be within {tolerance:g} nats per observation of the full one",
    "variance": "the points explain the prior variance at the data",
    "rows": "there are no more distinct rows",
    "full": "many fewer were not enough, and all rows together cost less than to look for fewer",
    "limit": "where predictions cannot be compared, at most 4√N points are taken; more may do better",
    "memory": "the budget of memory is spent; more points may do better",
    "time": "the budget of time is spent; more points may do better",
    "drawing": "draws with more would take minutes; more points may do better",
    "process": "all {num_neighbors} rows inform every input, so that nothing is left to points",
    "neighbors": "the {num_neighbors} rows nearest to an input inform what these points leave open there",
}


class Alternative(NamedTuple):
    """Another number of points or neighbours, with what it would cost and bring."""

    num_inducing: int
    num_neighbors: int | None
    """None where there are only points to choose."""
    cost: float
    """Its work over that of the one which was taken, counted in products."""
    gain: float
    """Mean log predictive density of rows left out, in nats per observation, over that of the one which was taken."""

    def __str__(self) -> str:
        near = "" if self.num_neighbors is None else f" and {self.num_neighbors or 'no'} neighbours"
        work = f"{self.cost:.2g} times the work, {self.gain:+.2g} nats per observation"
        return f"{self.num_inducing or 'no'} points{near}: {work}"


@dataclasses.dataclass(frozen=True, eq=False)
class Selection:
    """Inducing points chosen by `select_inducing`, and why so many."""

    indices: Int[np.ndarray, " M"]
    """Rows of x, in greedy order."""
    reason: str
    """What ended the growth: "prediction", "certificate", "variance", "rows", "full", "limit", "memory", "time" or
    "drawing"; "neighbors" where near rows inform what the points leave open, so that there was no search, and "process"
    where all rows do, and there are no points."""
    tolerance: float
    """Nats per observation that more points may gain."""
    sizes: Int[np.ndarray, " T"]
    """The numbers of points that were tried, increasing."""
    score: Float[np.ndarray, " T"]
    """Mean leave-one-out negative log predictive density with each; NaN where the likelihood has none, and the points
    were chosen by the prior variance alone."""
    gap: Float[np.ndarray, " T"]
    """Proven bound on the divergence from the full posterior, in nats per observation; NaN where there is none."""
    divergence: Float[np.ndarray, " T"]
    """KL(Π_∞, Π*) of draws with each, roughly, in nats; zero for a Gaussian likelihood, NaN where it is not defined."""
    residual_share: Float[np.ndarray, " T"]
    """The share of the prior variance at the data that each leaves unexplained."""
    seconds: float
    """Wall clock."""
    sufficient: int | None = None
    """The smallest number of points that was enough; more were taken where they cost next to nothing."""
    num_neighbors: int = 0
    """m, how many near rows inform what the points leave open at an input."""
    neighbor_scores: Float[np.ndarray, "A 2"] | None = None
    """Numbers of neighbours, and the mean log density of some rows given the sites of so many others near each; None
    where there are no neighbours to choose."""

    @property
    def num_inducing(self) -> int:
        """M, the number of points."""
        return len(self.indices)

    @property
    def is_enough(self) -> bool:
        """Whether no budget of memory or time ended the growth."""
        return self.reason not in ("memory", "time", "drawing")

    @property
    def alternatives(self) -> tuple[Alternative, ...]:
        """What fewer and more points, or neighbours, would cost and gain, as far as that was measured.

        With neighbours these are none, half and twice as many of them; otherwise the sizes next to the one which was
        taken. An input with M points and m neighbours takes m²(M + m) products, and M² without any.
        """
        if self.neighbor_scores is not None:
            size, own = self.num_inducing, self._work(self.num_neighbors)
            known = {int(m): score for m, score in self.neighbor_scores.tolist()}
            return tuple(
                Alternative(size, m, self._work(m) / own, score - known[self.num_neighbors])
                for m, score in known.items()
                if m != self.num_neighbors and np.isfinite(score)
            )
        at = np.flatnonzero(self.sizes == self.num_inducing)
        if not len(at) or not np.isfinite(self.score[at[0]]) or not self.num_inducing:
            return ()
        beside = [place for place in (at[0] - 1, at[0] + 1) if 0 <= place < len(self.sizes)]
        return tuple(
            Alternative(
                int(self.sizes[i]),
                None,
                float(self.sizes[i] / self.num_inducing) ** 2,
                float(self.score[at[0]] - self.score[i]),
            )
            for i in beside
            if np.isfinite(self.score[i])
        )

    def _work(self, num_neighbors: int) -> float:
        size = max(1, self.num_inducing)
        return float(num_neighbors**2 * (size + num_neighbors) if num_neighbors else size**2)

    def __repr__(self) -> str:
        return (
            f"Selection(num_inducing={self.num_inducing}, reason={self.reason!r}, tolerance={self.tolerance:g}, "
            f"sufficient={self.sufficient})"
        )

    def __str__(self) -> str:
        at = int(np.flatnonzero(self.sizes == self.num_inducing)[0])
        lines = [
            f"{self.num_inducing or 'No'} inducing points: {self._explained}",
            f"  sizes tried {', '.join(map(str, self.sizes))} in {self.seconds:.1f} s; "
            f"unexplained prior variance {100 * self.residual_share[at]:.3g} %",
        ]
        if np.isfinite(self.score[at]):
            best = np.nanmin(self.score)
            lines.append(f"  leave-one-out: {self.score[at]:.4f} nats per observation, best {best:.4f}")
        lines += [f"  {other}" for other in self.alternatives]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = [
            (f"{size} (taken)" if size == self.num_inducing else size, *(_shown(number) for number in numbers))
            for size, *numbers in zip(self.sizes, self.score, self.divergence, self.residual_share, strict=True)
        ]
        head = ("points", "leave-one-out nats per observation", "divergence (nats)", "unexplained prior variance")
        return table_html(
            f"{self.num_inducing} inducing points",
            rows,
            head=head,
            notes=[self._explained, *map(str, self.alternatives)],
        )

    @property
    def _explained(self) -> str:
        reason = REASONS[self.reason].format(tolerance=self.tolerance, num_neighbors=self.num_neighbors)
        is_more = self.sufficient is not None and self.sufficient < self.num_inducing
        return f"{self.sufficient} were enough, and so many cost next to nothing; {reason}" if is_more else reason


def _shown(number: float) -> str:
    return f"{number:.4g}" if np.isfinite(number) else "–"
