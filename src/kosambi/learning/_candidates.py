"""Where searches begin: the given values, a grid of usual ones, random ones around them, and of these the best."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from kosambi.errors import NumericalError
from kosambi.learning._limits import Limits, limits
from kosambi.learning._objective import Problem, evaluator
from kosambi.learning._starts import Beginning, Scales, has_period, learns_mean, start

# Lengthscales in units of √D standard deviations, and noise as a share of the standard deviation, to begin from.
_REACHES, _SHARES = (0.2, 0.6, 2.0), (0.1, 0.5)
# How many periods are tried, between a fiftieth of the width of the data and all of it.
_PERIODS = 24


def candidates(
    generator: np.random.Generator, problem: Problem, num_restarts: int, earlier: Float[np.ndarray, " P"] | None
) -> tuple[Limits, list[np.ndarray]]:
    """The limits, and the most promising vectors, best first.

    `earlier` is what another search has found.
    """
    layout, prior, likelihood, x, y = problem.layout, problem.prior, problem.likelihood, problem.x, problem.y
    scales = Scales.of(prior, likelihood, x, y, learns_mean(layout))
    bounds = limits(layout, start(prior, likelihood, x, y, scales), problem.given, scales, x)
    beginnings = [Beginning(reach, share) for reach in _REACHES for share in _SHARES]
    if has_period(prior.kernel):
        beginnings += [Beginning(0.6, 0.3, float(part)) for part in np.geomspace(0.02, 1.0, _PERIODS)]
    grid = [layout.vector(start(prior, likelihood, x, y, scales, beginning)) for beginning in beginnings]
    random = [bounds.centre + bounds.width / 6.0 * generator.normal(size=layout.size) for _ in range(num_restarts)]
    found = [] if earlier is None else [earlier]
    vectors = [np.clip(v, bounds.lower, bounds.upper) for v in (layout.vector(problem.given), *found, *grid, *random)]
    distinct: list[np.ndarray] = []
    for vector in vectors:
        if not any(np.allclose(vector, other, atol=1e-8) for other in distinct):
            distinct.append(vector)
    evaluations = [evaluator(problem, bounds, vector, roughly=True)(vector) for vector in distinct]
    values = np.array([value for value, _ in evaluations])
    usable = np.array([np.isfinite(value) and np.all(np.isfinite(slope)) for value, slope in evaluations])
    if not usable.any():
        what = "is finite, but not its derivative," if np.any(np.isfinite(values)) else "is not finite"
        raise NumericalError(
            f"The evidence {what} at any of {len(distinct)} starts. Look for values of y that the likelihood gives no "
            "probability, scale x and y, and look at a kernel of your own: the square root of a distance has no slope "
            "at zero, so guard it with `jnp.where` before and after."
        )
    order = np.argsort(np.where(usable, values, np.inf), kind="stable")
    return bounds, [distinct[i] for i in order[: num_restarts + 1] if usable[i]]
