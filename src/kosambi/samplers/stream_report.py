"""What is reported of rows that were read as a stream, and of fits that may take so much memory and no more."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class StreamReport:
    """How the rows of a source were read, or how much memory a fit of arrays has taken that was given a limit.

    >>> str(StreamReport(10**6, 20_000, 8192, 6, 61.5, 2 * 10**9, 1_100_000_000, 0.1, 95.0, 0))
    '1,000,000 rows in 6 passes of 8,192-row blocks (61.5 s), 20,000 of them kept; 1.1 of 2 GB of memory; weights of
    the draws: Pareto k 0.10, worth 95'
    >>> str(StreamReport(10**6, 10**6, 8192, 2, 1.5, 4 * 10**9, 3 * 10**9, -float("inf"), 100.0, 0, True))
    '1,000,000 rows held in memory after 2 passes (1.5 s); 3 of 4 GB of memory'
    """

    num_rows: int
    """N."""
    sample_rows: int
    """Rows that stay in memory: all of them where they are held; otherwise what is beyond second order at the mode
    comes from them."""
    block_rows: int
    """Rows read at a time."""
    passes: int
    """How often all rows were read; zero for arrays."""
    seconds: float
    """What these passes took together."""
    max_memory: int
    """Bytes that the process was allowed."""
    peak_memory: int
    """The most bytes that the process had until then, whatever it did before; zero where the system does not say."""
    pareto_k: float
    """k̂ of the weights that carry draws over to the potential of all rows; −inf where none are needed."""
    effective_draws: float
    """How many equal weights these are worth."""
    steps: int
    """Metropolis steps over all rows, each of them a pass; none where weights were enough."""
    is_held: bool = False
    """Whether all rows were held in memory, so that near ones could inform f."""
    reason: str = ""
    """Why they were not; where they were, what there was no memory for."""

    def __str__(self) -> str:
        taken = f"{self.peak_memory / 1e9:.2g} of {self.max_memory / 1e9:.2g} GB of memory"
        if self.is_held:
            how = f"held in memory after {self.passes} passes ({self.seconds:.1f} s)" if self.passes else "in memory"
            return f"{self.num_rows:,} rows {how}; {taken}" + (f"; {self.reason}" if self.reason else "")
        text = (
            f"{self.num_rows:,} rows in {self.passes} passes of {self.block_rows:,}-row blocks ({self.seconds:.1f} s), "
            f"{self.sample_rows:,} of them kept; {taken}"
        )
        text += f"; not held: {self.reason}" if self.reason else ""
        if self.steps:
            return f"{text}; {self.steps} Metropolis steps over all rows"
        if self.pareto_k == -float("inf"):
            return text
        return f"{text}; weights of the draws: Pareto k {self.pareto_k:.2f}, worth {self.effective_draws:.0f}"
