r"""Split-conformal intervals: coverage that does not rest on the model being right.

n held-out observations are scored by how far they lie outside their intervals, E = max(lower − y, y − upper), negative
inside (conformalised quantile regression, Romano et al. 2019). The intervals at other inputs are widened on both sides
by the score of rank ⌈(n + 1) coverage⌉, or made narrower where it is negative. If held-out and new data are
exchangeable, new observations are inside with at least that probability, over draws of both. For labels the score is
1 − P(y = the label seen), and a set holds the labels whose own score is not larger.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Bool, Float

from kosambi._core.checks import as_count, as_level
from kosambi._core.types import Array, ArrayLike
from kosambi.calibration.checks import PredictiveDistribution, as_held_out, as_prediction, label_probabilities
from kosambi.errors import InputError


@dataclasses.dataclass(frozen=True, eq=False)
class Conformal:
    """A correction of intervals, or of sets of labels, that was found on held-out data."""

    coverage: float
    """The coverage that was asked for."""
    correction: float
    """What both ends of an interval move outwards; for labels the largest score 1 − P(y = k) that a set admits."""
    num_observations: int
    """n, how many held-out data there were."""
    likelihood: str
    """The name of the likelihood."""
    num_labels: int | None
    """How many labels there are; None where observations are numbers."""

    def interval(self, prediction: PredictiveDistribution) -> tuple[Float[Array, " N"], Float[Array, " N"]]:
        """(lower, upper) at other inputs, (N,) each: central intervals with both ends moved by the correction.

        Cut to the range of the observations, and to the median where the ends would pass each other.
        """
        prediction = self._checked(prediction)
        if self.num_labels is not None:
            raise InputError(f"`{self.likelihood}` has labels, which have sets in place of intervals. Use `sets`.")
        lower, upper = prediction.interval(self.coverage)
        lower = np.maximum(lower - self.correction, prediction.likelihood.lowest)
        upper = upper + self.correction
        crossed = lower > upper
        if np.any(crossed):
            median = prediction.quantile(0.5)
            lower, upper = np.where(crossed, median, lower), np.where(crossed, median, upper)
        return lower, upper

    def sets(self, prediction: PredictiveDistribution) -> Bool[Array, "N L"]:
        """(N, L), true for the labels in the set of each input. A set can be empty, or hold all labels."""
        prediction = self._checked(prediction)
        if self.num_labels is None:
            raise InputError(f"`{self.likelihood}` has no labels, so there are no sets of them. Use `interval`.")
        return 1.0 - label_probabilities(prediction) <= self.correction

    def apply(
        self, prediction: PredictiveDistribution
    ) -> tuple[Float[Array, " N"], Float[Array, " N"]] | Bool[Array, "N L"]:
        """`sets` for labels, `interval` for everything else."""
        return self.interval(prediction) if self.num_labels is None else self.sets(prediction)

    def standard_error(self, num_new: int) -> float:
        """How far the coverage of `num_new` observations may be off: √(p(1 − p)(1/n + 1/num_new)), one deviation."""
        num_new = as_count("num_new", num_new)
        return float(np.sqrt(self.coverage * (1 - self.coverage) * (1 / self.num_observations + 1 / num_new)))

    def _checked(self, prediction: PredictiveDistribution) -> PredictiveDistribution:
        prediction = as_prediction(prediction)
        if type(prediction.likelihood).__name__ != self.likelihood:
            raise InputError(
                f"`prediction` has a `{type(prediction.likelihood).__name__}` likelihood, but the correction was found "
                f"for `{self.likelihood}`. Correct the predictions of each model by themselves."
            )
        return prediction


def conformal(prediction: PredictiveDistribution, y: ArrayLike, coverage: float = 0.95) -> Conformal:
    """Intervals, or sets of labels, that cover new observations with probability `coverage`, by held-out data.

    Arguments:
        prediction: `posterior.predict(x)` at inputs that were not used to fit, or a tempered one.
        y: (N,), what was observed there; N must be at least coverage/(1 − coverage), 19 for 95 %.
        coverage: between 0 and 1.

    Returns:
        A `Conformal`, to be applied to predictions at other inputs. The held-out data themselves are covered by
        construction: judge on a third part.

    >>> import jax, numpy as np, kosambi as ko
    >>> x = np.linspace(-1.0, 1.0, 600)[:, None]
    >>> y = np.sin(3 * x[:, 0]) + 0.2 * np.random.default_rng(0).normal(size=600)
    >>> gaussian = ko.likelihoods.Gaussian(0.1)                                 # half of the noise there is
    >>> posterior = ko.infer(jax.random.key(0), ko.kernels.Matern52(), gaussian, x[::3], y[::3])
    >>> found = ko.calibration.conformal(posterior.predict(x[1::3]), y[1::3])
    >>> lower, upper = found.interval(posterior.predict(x[2::3]))
    >>> inside = np.mean((lower <= y[2::3]) & (y[2::3] <= upper))
    >>> bool(abs(inside - 0.95) < 3 * found.standard_error(200))
    True
    """
    prediction = as_prediction(prediction)
    y, coverage = as_held_out(prediction, y), as_level("coverage", coverage)
    likelihood = prediction.likelihood
    if likelihood.num_labels is not None:
        scores = 1.0 - label_probabilities(prediction)[np.arange(len(y)), y.astype(int)]
    else:
        lower, upper = prediction.interval(coverage)
        scores = np.maximum(lower - y, y - upper)
    correction = float(np.sort(scores)[_rank(len(y), coverage) - 1])
    return Conformal(coverage, correction, len(y), type(likelihood).__name__, likelihood.num_labels)


def _rank(num_observations: int, coverage: float) -> int:
    """⌈(n + 1) coverage⌉, refused where there are not as many scores."""
    # 20 · 0.95 may come out a rounding above 19.
    rank = int(np.ceil((num_observations + 1) * coverage - 1e-9))
    if rank > num_observations:
        needed = int(np.ceil(coverage / (1.0 - coverage) - 1e-9))
        raise InputError(
            f"`y` has {num_observations} held-out observations, too few for intervals that cover {100 * coverage:g} %. "
            f"Give at least {needed}, or ask for less coverage."
        )
    return max(rank, 1)
