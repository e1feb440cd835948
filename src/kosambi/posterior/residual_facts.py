"""How much of the prior variance at the data the coordinates leave unexplained."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from kosambi.priors import GaussianRandomElement
from kosambi.priors.measures import PointMeasure
from kosambi.target import Target


class ResidualFacts(NamedTuple):
    """How much of the prior variance the coordinates leave, as `Certificate` has it."""

    residual_share: float
    residual_trace: float
    remainder: float

    @classmethod
    def of(cls, target: Target, residual: Float[np.ndarray, " N"] | None = None) -> ResidualFacts:
        """Of a target; `residual` are its residual variances at the data, where they are known."""
        basis = target.basis
        if residual is None:
            residual = np.asarray(basis.residual_variance(target.x))
        trace, remainder = float(np.sum(residual)), float(np.mean(residual))
        if isinstance(basis.prior, GaussianRandomElement) and isinstance(basis.prior.measure, PointMeasure):
            measure = basis.prior.measure
            remainder = float(np.sum(measure.weights * np.asarray(basis.residual_variance(measure.points))))
        if (known := target.stream) is not None:
            trace, total = float(known.residual_trace), float(known.prior_trace)
            if not isinstance(basis.prior, GaussianRandomElement):
                remainder = trace / float(known.num_rows)
            return cls(trace / total if total > 0 else np.nan, trace, remainder)
        total = float(np.sum(np.asarray(basis.prior.variance(target.x))))
        return cls(trace / total if total > 0 else np.nan, trace, remainder)
