"""Acquisition functions: where to observe next, so as to find the largest value of a function that costs much.

Each is made from a posterior and is largest where an observation is worth most; `maximize` finds that place in a box by
gradients. All of them look for a maximum: to minimise, change the sign of y.

    posterior ─► ExpectedImprovement, UpperConfidenceBound, KnowledgeGradient ─► maximize ─► the next input
        └─► functions ─► DrawnImprovement, DrawnFunction, thompson ───────────────┘
"""

from __future__ import annotations

from kosambi.acquisition.base import AbstractAcquisition
from kosambi.acquisition.drawn import DrawnFunction, DrawnImprovement, thompson
from kosambi.acquisition.improvement import ExpectedImprovement, expected_improvement, log_expected_improvement
from kosambi.acquisition.knowledge import KnowledgeGradient, expected_maximum
from kosambi.acquisition.optimise import Maximum, maximize
from kosambi.acquisition.upper import UpperConfidenceBound

__all__ = [
    "AbstractAcquisition",
    "DrawnFunction",
    "DrawnImprovement",
    "ExpectedImprovement",
    "KnowledgeGradient",
    "Maximum",
    "UpperConfidenceBound",
    "expected_improvement",
    "expected_maximum",
    "log_expected_improvement",
    "maximize",
    "thompson",
]
