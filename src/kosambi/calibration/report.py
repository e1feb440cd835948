"""Calibration of a set of predictions, summed up."""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Float

from kosambi._core.html import table_html
from kosambi._core.types import Array, ArrayLike, Key
from kosambi.calibration.checks import PredictiveDistribution, as_held_out, as_prediction, check_cdf, has_order
from kosambi.calibration.coverage import LEVELS, Coverage, coverage, interval_width, pit
from kosambi.calibration.crps import crps

# How far a coverage may be from what is expected, as a standard normal number, and a p-value; beyond them it is said.
_FAR, _UNLIKELY = 3.0, 1e-3
# Below so many observations no coverage is a surprise.
_FEW = 10


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Calibration:
    """How well predictions keep their promises on held-out data. `calibration_report` makes it."""

    num_observations: int
    """N, the number of held-out observations."""
    coverage: Coverage
    """Of central intervals, or of sets of labels, by level."""
    width: Float[Array, " Q"]
    """Their mean width, or the mean number of labels in them."""
    crps: float
    """The mean continuous ranked probability score, in the unit of y."""
    nll: float
    """The mean negative log density."""
    pit: Float[Array, " N"] | None
    """Probability integral transforms; None for labels without order, and for counts and labels without a key."""
    p_value: float
    """Of the Kolmogorov-Smirnov test that the transforms are uniform; NaN without them."""
    has_labels: bool
    """Whether observations are labels, so that widths are numbers of labels."""

    @property
    def verdict(self) -> str:
        """In words: how the coverage compares with what the predictions promise."""
        off = self._surprise()
        if np.max(off) > _FAR and np.min(off) < -_FAR:
            levels = (100 * self.coverage.levels[place] for place in (np.argmax(off), np.argmin(off)))
            return "Wrong shape: {:g} % intervals are too wide, {:g} % intervals too narrow.".format(*levels)
        worst = int(np.argmax(np.abs(off)))
        if abs(off[worst]) > _FAR:
            share, expected = 100 * self.coverage.share[worst], 100 * self.coverage.expected[worst]
            how = "Too sure: intervals are too narrow" if off[worst] < 0 else "Not sure enough: intervals are too wide"
            return f"{how}, {share:.1f} % inside where {expected:.1f} % are expected."
        if self.p_value < _UNLIKELY:
            return (
                "Coverage is near what is expected, but predictions are off in place or shape: the PIT is not uniform."
            )
        if self.num_observations < _FEW:
            return f"{self.num_observations} observations are too few to judge calibration by."
        return "Calibrated, as far as these data can tell."

    def _surprise(self) -> Float[Array, " Q"]:
        """How far each share is off, as a standard normal number with the tail probability of a binomial one.

        A normal approximation is too narrow where nearly all observations should be inside.
        """
        from scipy.stats import binom, norm

        inside = np.round(self.coverage.share * self.num_observations)
        number_inside = binom(self.num_observations, np.clip(self.coverage.expected, 0.0, 1.0))
        below, above = number_inside.cdf(inside), number_inside.sf(inside - 1.0)
        # Of two tails above one half neither is a surprise: the cdf has a step there.
        return np.where(below < above, np.minimum(norm.ppf(below), 0.0), np.maximum(norm.isf(above), 0.0))

    def __repr__(self) -> str:
        return f"Calibration({self.num_observations} observations: {self.verdict})"

    def __str__(self) -> str:
        widths = (6, 7, 14, 11)
        table = [self._head, *self._rows]
        lines = ["  " + "  ".join(f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True)) for row in table]
        return "\n".join([self.verdict, self._scores, *lines])

    def _repr_html_(self) -> str:
        return table_html(self.verdict, self._rows, head=self._head, notes=(self._scores,))

    @property
    def _scores(self) -> str:
        uniform = "" if self.pit is None else f", PIT uniform with p = {self.p_value:.2g}"
        return (
            f"{self.num_observations} observations: negative log density {self.nll:.4f}, CRPS {self.crps:.4g}{uniform}"
        )

    @property
    def _head(self) -> tuple[str, ...]:
        return ("level", "inside", "expected", "mean labels" if self.has_labels else "mean width")

    @property
    def _rows(self) -> list[tuple[str, ...]]:
        table = self.coverage
        rows = zip(table.levels, table.share, table.expected, table.standard_error, self.width, strict=True)
        return [
            (f"{100 * a:g} %", f"{100 * b:.1f} %", f"{100 * e:.1f} ± {100 * error:.1f} %", f"{width:.4g}")
            for a, b, e, error, width in rows
        ]


def calibration_report(
    prediction: PredictiveDistribution, y: ArrayLike, key: Key | None = None, *, levels: ArrayLike = LEVELS
) -> Calibration:
    """Coverage, widths, CRPS, negative log density and PIT of predictions, by data that were not used to fit.

    Arguments:
        prediction: `posterior.predict(x_new)`, or a tempered one.
        y: (N,), what was observed at these inputs.
        key: a JAX random key, for the PIT of counts and ordered labels; without one they have none.
        levels: Q coverages between 0 and 1.

    Returns:
        A `Calibration`: `print` it, or draw it with `kosambi.plots.calibration`. Standard errors and the p-value take
        observations as independent given the posterior, whose own error all of them share.

    >>> import jax, numpy as np, kosambi as ko
    >>> x = np.linspace(-1.0, 1.0, 400)[:, None]
    >>> y = np.sin(3 * x[:, 0]) + 0.2 * np.random.default_rng(0).normal(size=400)
    >>> gaussian = ko.likelihoods.Gaussian(0.1)                                 # half of the noise there is
    >>> posterior = ko.infer(jax.random.key(0), ko.kernels.Matern52(), gaussian, x[::2], y[::2])
    >>> print(ko.calibration.calibration_report(posterior.predict(x[1::2]), y[1::2]).verdict)
    Too sure: intervals are too narrow, 67.0 % inside where 95.0 % are expected.
    """
    prediction = as_prediction(prediction)
    y = as_held_out(prediction, y)
    check_cdf(prediction, "report")
    found = coverage(prediction, y, levels)
    width = np.array([np.mean(interval_width(prediction, float(level))) for level in found.levels])
    transforms, p_value = None, np.nan
    if not prediction.likelihood.is_discrete or (key is not None and has_order(prediction.likelihood)):
        from scipy.stats import kstest

        transforms = pit(prediction, y, key)
        p_value = float(kstest(transforms, "uniform").pvalue)
    nll = -float(np.mean(prediction.log_density(y)))
    score, has_labels = float(np.mean(crps(prediction, y))), prediction.likelihood.num_labels is not None
    return Calibration(len(y), found, width, score, nll, transforms, p_value, has_labels)
