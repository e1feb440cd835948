"""What is reported of a run whose gradients came from a part of the rows."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class StochasticReport:
    r"""How far draws of mini-batches are from the posterior, as all rows see them.

    Under exp(−V) every coordinate has E[v·∂V/∂v] = 1 and E[∂V/∂v] = 0 (integration by parts). What the draws have
    instead of the first is by how much their variances are too large, in the frame of the mode, where Laplace's
    approximation is standard normal. The second holds for steps of any length once these have forgotten their start,
    because gradients of batches have no bias: what is found there is what is left of the start.

    >>> print(StochasticReport(256, 40, 0.02, 0.013, 0.004, 0.01, 0.006, 0))
    batches of 256 rows, 40 to a pass; variances 1.3 % (± 0.4 %) off, drift 0.01 (± 0.006)
    """

    batch_size: int
    """Rows of a batch."""
    num_batches: int
    """Batches that are all rows together."""
    gradient_noise: float
    """The variance of a gradient over batches, of the noisiest coordinate of the frame."""
    inflation: float
    """The mean over coordinates of E[v·∂V/∂v] − 1: by what part variances are too large."""
    inflation_error: float
    """Its standard error."""
    drift: float
    """The root mean square over coordinates of E[∂V/∂v], less what Monte Carlo error adds to it."""
    drift_error: float
    """What that could be by chance."""
    metropolis_steps: int
    """Steps on all rows that followed and left no bias; the other figures are of the draws before them."""

    def __str__(self) -> str:
        text = (
            f"batches of {self.batch_size} rows, {self.num_batches} to a pass; variances {100 * self.inflation:.1f} % "
            f"(± {100 * self.inflation_error:.1f} %) off, drift {self.drift:.2g} (± {self.drift_error:.1g})"
        )
        if self.metropolis_steps:
            return f"{text}, before {self.metropolis_steps} Metropolis steps on all rows"
        return text
