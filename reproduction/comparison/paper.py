"""The numbers that the paper prints: means and standard deviations over five splits, PLS first, SVGP second.

*Near-Optimal Approximations for Bayesian Inference in Function Space*, tables "Comparison between PLS and SVGP on
various regression benchmark data sets" and "... classification benchmark data sets" (section on experiments).
"""

from __future__ import annotations

from typing import NamedTuple

SPLITS = 5


class Printed(NamedTuple):
    """One number of a table: mean and standard deviation."""

    mean: float
    deviation: float


_ORDER = {
    "regression": ("boston", "concrete", "energy_cooling", "energy_heating", "kin8nm", "wine_quality"),
    "classification": ("breast", "diabetes", "heart", "ionosphere", "mushrooms", "rice", "wine_colour", "yeast"),
}
# mean (deviation) of PLS, mean (deviation) of SVGP, a line for each data set.
_TEXT = {
    ("gaussian", "nll"): """1.075 0.427 1.026 0.267
        1.182 0.112 1.296 0.096
        0.769 0.073 1.289 0.032
        0.407 0.145 0.253 0.113
        0.839 0.027 0.914 0.022
        1.345 0.079 1.361 0.073""",
    ("student_t", "nll"): """1.359 0.819 1.174 0.384
        1.277 0.099 1.289 0.081
        0.948 0.091 1.299 0.045
        0.425 0.159 0.287 0.128
        0.908 0.032 0.915 0.025
        1.353 0.081 1.391 0.088""",
    ("gaussian", "mae"): """0.360 0.067 0.403 0.084
        0.620 0.072 0.707 0.072
        0.413 0.019 0.777 0.031
        0.237 0.020 0.235 0.023
        0.423 0.012 0.473 0.009
        0.766 0.037 0.782 0.034""",
    ("student_t", "mae"): """0.368 0.058 0.385 0.081
        0.669 0.059 0.686 0.057
        0.484 0.029 0.765 0.033
        0.255 0.031 0.238 0.026
        0.441 0.012 0.468 0.011
        0.774 0.040 0.787 0.036""",
    ("gaussian", "width"): """2.30 0.35 2.48 0.57
        3.54 0.70 3.58 0.68
        2.11 0.30 3.17 0.26
        1.62 0.24 1.39 0.17
        2.21 0.05 2.39 0.11
        3.62 0.32 3.62 0.36""",
    ("student_t", "width"): """2.584 0.548 2.539 0.758
        3.794 0.840 3.805 0.809
        2.471 0.300 3.451 0.393
        1.487 0.187 1.398 0.248
        2.369 0.109 2.386 0.125
        3.653 0.329 3.644 0.289""",
    ("bernoulli", "auc"): """98.37 0.90 98.44 0.81
        83.38 2.93 82.95 2.59
        91.34 0.75 91.21 0.98
        90.94 2.85 92.94 1.71
        81.77 2.09 81.76 1.95
        94.65 1.54 94.04 1.40
        94.95 1.67 94.99 1.34
        69.16 2.39 67.23 1.03""",
    ("bernoulli", "accuracy"): """94.74 1.48 94.74 0.83
        76.56 4.33 76.46 4.44
        83.35 1.83 83.11 1.41
        85.91 4.47 87.27 5.35
        75.64 1.64 74.83 2.85
        88.96 1.14 88.46 0.56
        93.98 0.63 85.98 3.34
        64.93 2.20 64.13 1.30""",
}


def printed(data: str, likelihood: str, metric: str) -> tuple[Printed, Printed] | None:
    """(PLS, SVGP) as printed, or None where the paper has no such number.

    >>> printed("boston", "gaussian", "nll")[0]
    Printed(mean=1.075, deviation=0.427)
    """
    if (likelihood, metric) not in _TEXT:
        return None
    names = _ORDER["classification" if likelihood == "bernoulli" else "regression"]
    if data not in names:
        return None
    line = _TEXT[likelihood, metric].splitlines()[names.index(data)]
    a, b, c, d = map(float, line.split())
    return Printed(a, b), Printed(c, d)
