r"""How many inducing points are enough? As many as predictions can use.

Points are taken in greedy order, once, and for growing M the model is asked how well it predicts each observation from
all the others: leave-one-out in closed form for a Gaussian likelihood, around Laplace's approximation for others. With
whitened features ψ(x) of the first M points, σ_n² the residual variance, g and h the first two derivatives of the cost
at the mode ŵ, H = I + Σ_n h_n ψ_nψ_nᵀ and v_n = ψ_nᵀH⁻¹ψ_n,

    f_n | all data but n  ~  N(f̂_n + g_n v_n/(1 − h_n v_n),  v_n/(1 − h_n v_n) + σ_n²)

(Vehtari, Mononen, Tolvanen, Sivula and Winther 2016, with the residual of the inducing points). The smallest M is taken
from which no larger one that was tried predicts better by `tolerance` nats per observation; sizes up to at least twice
the answer are tried. Few points for a rough function predict no better than none, and their number does not matter
either, so the points must also explain half of the prior variance at the data and predict as well as the prior alone.
And the divergence that the certificate measures, KL(Π_∞, Π*), must be small, roughly: ½ Var Δ to first order
around the mode. Nothing is random, so the answer is the same for every key.

The growth ends earlier where the distance from the full posterior is proven to be small (`kosambi.target.bounds`),
where more points are clearly needed and the next size would be all rows, which are then taken without a score, or where
a budget of memory or time is spent. Several latent functions, losses without a density and data that all weigh
nothing have no such score: there the points that explain 99.9 % of the prior variance at the data are taken, at most
4√N (`kosambi.learning.sizes`).
"""

from __future__ import annotations

import time
import warnings

import numpy as np
from jaxtyping import Int

from kosambi._core.checks import as_inputs, as_positive
from kosambi._core.journal import recalled
from kosambi._core.linalg import one_blas_thread
from kosambi._core.long_tables import num_distinct
from kosambi._core.precision import public
from kosambi._core.progress import Progress
from kosambi._core.types import ArrayLike
from kosambi.basis.inducing import distinct_rows, greedy_path
from kosambi.basis.points import whitened_on_host
from kosambi.errors import InputError, TruncationWarning
from kosambi.learning.leave_one_out import Scores, has_score, scores
from kosambi.learning.selected import Selection
from kosambi.learning.sizes import SMALLEST, by_variance, ladder, rounded_up
from kosambi.likelihoods import AbstractLikelihood, Gaussian
from kosambi.priors import AbstractPrior, GaussianProcess
from kosambi.target.checks import as_weights, check_length

TOLERANCE = 0.015
"""Nats per observation that more points may gain before they are worth taking."""
MAX_BYTES = 2 * 2**30
"""Memory that the search may use when no other number is given."""
MAX_SECONDS = 120.0
"""Time that it may use when no other number is given."""
PER_SECOND = 8e6 / MAX_SECONDS
"""Rows times points for each second of `max_seconds` with which a likelihood that needs steps can be drawn from."""
LARGEST_DIVERGENCE = 0.05
"""Nats, for all data together, that the draws may be from the best distribution with the same coordinates, roughly."""
FULL_FROM, FULL_ROWS, FULL_SECONDS = 512, 8000, 40.0
"""Where so many points are not enough for Gaussian noise, up to so many distinct rows are all taken if time is left."""
LARGEST_SHARE = 0.5
"""Above this share of unexplained prior variance, predictions that stand still say nothing."""
# Points of the first pass, and how many times as many each further pass takes.
_FIRST, _GROWTH = 256, 2
# N×M matrices of float64 that are held at once.
_MATRICES = 5


@public
@one_blas_thread()
def select_inducing(
    prior: AbstractPrior,
    likelihood: AbstractLikelihood,
    x: ArrayLike,
    y: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    tolerance: float | int = TOLERANCE,
    max_seconds: float | int = MAX_SECONDS,
    max_bytes: float | int = MAX_BYTES,
    progress: bool | None = None,
) -> Selection:
    """As many greedy inducing points as predictions can use; `infer(num_inducing="auto")` calls it.

    Where more points cost next to nothing (up to some thousand rows) their number is rounded up to a power of two, from
    64 on, so that data of about the same size compile nothing again; `selection.sufficient` is what was enough.
    Deterministic, except where the budget of time decides. With several latent functions, a loss without a density, or
    weights that are all zero nothing can be scored: then the points that explain 99.9 % of the prior variance at the
    data are taken, but at most 4√N (64 are always allowed, and never more than 1024).

    Arguments:
        prior: the prior.
        likelihood: what an observation costs.
        x: (N, D), the inputs.
        y: (N,), the observations.
        weights: (N,), how often each observation counts; once when None.
        tolerance: nats per observation that more points may gain.
        max_seconds: budget of time, of the search and (except for a Gaussian likelihood) of drawing with the answer:
            rows times points are at most 8 million for 120 s, but points at least 256 and √N.
        max_bytes: budget of memory.
        progress: whether to show a progress line; None shows it on a terminal.

    >>> import numpy as np, kosambi as ko
    >>> x = np.linspace(-3.0, 3.0, 400)[:, None]
    >>> y = np.sin(2 * x[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=400)
    >>> prior = ko.GaussianProcess(ko.kernels.Matern52(0.7))
    >>> selection = ko.select_inducing(prior, ko.likelihoods.Gaussian(0.1), x, y)
    >>> selection.sufficient, selection.reason, selection.num_inducing
    (23, 'prediction', 64)
    """
    if not isinstance(prior, AbstractPrior):
        raise InputError(
            f"`select_inducing` needs a prior. Got {type(prior).__name__}. Write `GaussianProcess(kernel)`."
        )
    if not isinstance(likelihood, AbstractLikelihood):
        raise InputError(
            f"`select_inducing` needs a likelihood from `kosambi.likelihoods`. Got {type(likelihood).__name__}. "
            "A cost of your own is `Custom(cost)`."
        )
    tolerance, max_seconds, max_bytes = (
        float(as_positive(name, value))
        for name, value in (("tolerance", tolerance), ("max_seconds", max_seconds), ("max_bytes", max_bytes))
    )
    began = time.perf_counter()
    # Of an earlier run, whose journal this one has.
    earlier = 0.0
    x = as_inputs("x", x, prior.num_columns)
    y = likelihood.check(y)
    check_length("y", y, x)
    if isinstance(likelihood, Gaussian) and likelihood.num_rows is not None:
        check_length("Gaussian(noise=...)", likelihood.row_noise, x)
    counts = np.ones(len(y)) if weights is None else np.asarray(as_weights(weights, x))
    distinct = num_distinct(np.asarray(x))
    afford = max(SMALLEST, int(max_bytes / (8 * _MATRICES * len(y))))
    # The draws come afterwards, in steps that take time for each row and point, unless they need none.
    can_be_drawn = max(_FIRST, int(np.sqrt(len(y))), int(PER_SECOND * max_seconds / len(y)))
    can_be_drawn = distinct if isinstance(likelihood, Gaussian) else can_be_drawn
    short_of = "memory" if afford <= can_be_drawn else "drawing"
    afford = min(afford, can_be_drawn)
    with Progress(progress) as show:
        show.update("choosing inducing points")
        if not (has_score(likelihood) and np.any(counts > 0)):
            return _unscored(prior, likelihood, np.asarray(x), distinct, tolerance, began)
        search = _Search(prior, likelihood, np.asarray(x), np.asarray(y), counts, tolerance, distinct)
        if not np.isfinite(search.without_points):
            return _unscored(prior, likelihood, np.asarray(x), distinct, tolerance, began)
        cap = min(_FIRST, distinct, afford)
        while True:
            show.update("choosing inducing points", note=f"up to {cap}")
            start = time.perf_counter()
            indices, exhausted, spent = search.try_up_to(cap)
            earlier += max(0.0, spent - (time.perf_counter() - start))
            chosen, reason = search.answer(cap, "variance" if exhausted else "rows" if cap >= distinct else None)
            if reason is not None:
                break
            if cap >= afford:
                chosen, reason = cap, short_of
                break
            left = max_seconds - earlier - (time.perf_counter() - began)
            # The work grows with the square of the number of points.
            growth = min(_GROWTH, np.sqrt(max(left, 0.0) / max(spent, 1e-3)))
            if isinstance(likelihood, Gaussian):
                takes_all = cap >= FULL_FROM and left > FULL_SECONDS and distinct <= FULL_ROWS
            else:
                takes_all = growth >= _GROWTH and distinct <= _GROWTH * cap and search.is_far(cap)
            # All rows of a process with Gaussian noise take one matrix of their pairs, and no other.
            is_process = isinstance(likelihood, Gaussian) and isinstance(prior, GaussianProcess)
            if takes_all and (distinct <= afford or (is_process and 8 * distinct**2 <= max_bytes)):
                indices, chosen, reason = search.take_all(), distinct, "full"
                break
            if growth < 1.5:
                chosen, reason = cap, "time"
                break
            cap = min(int(cap * growth), distinct, afford)
    selection = search.selection(indices, chosen, reason, time.perf_counter() - began)
    if not selection.is_enough:
        warnings.warn(f"`num_inducing` by itself: {selection}", TruncationWarning, stacklevel=4)
    return selection


def _unscored(
    prior: AbstractPrior, likelihood: AbstractLikelihood, x: np.ndarray, distinct: int, tolerance: float, began: float
) -> Selection:
    indices, enough, reason, sizes, share = by_variance(prior, x, distinct)
    taken = rounded_up(enough, len(indices), len(x) * likelihood.num_latents)
    unknown = np.full(len(sizes), np.nan)
    seconds = time.perf_counter() - began
    return Selection(indices[:taken], reason, tolerance, sizes, unknown, unknown, unknown, share, seconds, enough)


class _Search:
    """The sizes tried so far, and what each gave."""

    def __init__(
        self,
        prior: AbstractPrior,
        likelihood: AbstractLikelihood,
        x: np.ndarray,
        y: np.ndarray,
        counts: np.ndarray,
        tolerance: float,
        num_distinct: int,
    ) -> None:
        self.num_distinct = num_distinct
        self.prior, self.likelihood, self.x, self.y = prior, likelihood, x, y
        self.counts, self.tolerance = counts, tolerance
        self.found: dict[int, Scores] = {}
        self.offset = np.asarray(prior.mean_at(x))
        self.variance = np.asarray(prior.variance(x))
        (nothing,) = scores(likelihood, np.zeros((len(y), 1)), self.variance, self.offset, y, counts, [1])
        self.without_points = nothing.score

    def try_up_to(self, cap: int) -> tuple[Int[np.ndarray, " M"], bool, float]:
        """Score a ladder of sizes up to `cap`; the greedy order, whether it has no more points, and seconds spent."""
        indices, sizes, found, exhausted, spent = recalled("sizes", lambda: self._tried(cap), cap)
        self.found |= {int(size): Scores(*map(float, each)) for size, each in zip(sizes, found, strict=True)}
        return indices, bool(exhausted), float(spent)

    def _tried(self, cap: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, bool, float]:
        """The greedy order, sizes and what each gave, whether that is all, and the seconds that it took."""
        start = time.perf_counter()
        # Shapes follow the rows, and not how many of them are distinct, so that folds of the same data compile once.
        path = greedy_path(self.prior, self.x, len(self.x) if cap >= self.num_distinct else cap)
        indices = path.indices[:cap]
        psi = whitened_on_host(self.prior, self.x, self.x[_filled(indices)])[:, : len(indices)]
        sizes = [m for m in ladder(len(indices)) if m not in self.found]
        found = scores(self.likelihood, psi, self.variance, self.offset, self.y, self.counts, sizes)
        seconds = time.perf_counter() - start
        return indices, np.array(sizes, dtype=int), np.array(found).reshape(-1, 4), len(indices) < cap, seconds

    def take_all(self) -> Int[np.ndarray, " M"]:
        """Every distinct row, unscored: nothing is left to be explained."""
        self.found[self.num_distinct] = Scores(np.nan, 0.0, 0.0, 0.0)
        return distinct_rows(self.x)

    def is_far(self, cap: int) -> bool:
        """Whether points up to `cap` leave no doubt that more are needed, and that they predict something."""
        sizes = sorted(self.found)
        last, before = self.found[cap], self.found[sizes[-2]] if len(sizes) > 1 else None
        is_rising = before is None or before.score - last.score > self.tolerance
        is_off = is_rising or last.divergence > LARGEST_DIVERGENCE
        return is_off and last.score < self.without_points - self.tolerance

    def answer(self, cap: int, at_end: str | None) -> tuple[int, str | None]:
        """The size to take and why; `at_end` says why there can be no more, and None that more can be tried."""
        sizes = sorted(self.found)
        for size in sizes:
            if at_end is not None and size == sizes[-1]:
                return size, at_end
            reason = self._enough(
                size, [other for other in sizes if other >= size], 2 * size <= cap or at_end is not None
            )
            if reason is not None:
                return size, reason
        return sizes[-1], None

    def _enough(self, size: int, larger: list[int], has_seen: bool) -> str | None:
        at = self.found[size]
        if at.gap < self.tolerance:
            return "certificate"
        if not has_seen or at.residual_share > LARGEST_SHARE:
            return None
        if at.divergence > LARGEST_DIVERGENCE:
            return None
        best = min(self.found[other].score for other in larger)
        is_level = at.score - best < self.tolerance and at.score < self.without_points + self.tolerance
        return "prediction" if is_level else None

    def selection(self, path: np.ndarray, enough: int, reason: str, seconds: float) -> Selection:
        sizes = sorted(self.found)
        score, gap, divergence, share = np.array([self.found[size] for size in sizes]).T
        return Selection(
            indices=path[: rounded_up(enough, len(path), len(self.y))],
            reason=reason,
            tolerance=self.tolerance,
            sizes=np.array(sizes),
            score=score,
            gap=gap,
            divergence=divergence,
            residual_share=share,
            seconds=seconds,
            sufficient=enough,
        )


def _filled(indices: Int[np.ndarray, " M"]) -> Int[np.ndarray, " K"]:
    """The last one repeated, up to a multiple of 32; what a feature of a point is does not depend on later ones."""
    return np.concatenate([indices, np.repeat(indices[-1:], -len(indices) % 32)])
