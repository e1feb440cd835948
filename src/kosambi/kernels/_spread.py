"""Random norms of frequencies of which many lie far out, with weights that make up for it."""

from __future__ import annotations

import numpy as np

# Natural logarithm of the smallest probability of a far frequency that is drawn on purpose: 1e-10.
_FARTHEST = 23.0


def spread_probabilities(generator: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities s of lying farther out, half uniform and half log-uniform from 1e-10 to 1, and weights at most two.

    Both halves are stratified. The weight is one over the density ½ + ½/(23 s) of s.
    """
    plain = count - count // 2
    uniform = (np.arange(plain) + generator.uniform(size=plain)) / plain
    logarithm = -_FARTHEST * (np.arange(count - plain) + generator.uniform(size=count - plain)) / max(1, count - plain)
    s = np.concatenate([uniform, np.exp(logarithm)])
    return s, 1.0 / (
        plain / count + (1.0 - plain / count) * np.where(s > np.exp(-_FARTHEST), 1.0 / (_FARTHEST * s), 0.0)
    )
