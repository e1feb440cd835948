"""The posteriors that `convergence.py` samples, with the paper's prior in Ritz coordinates.

Data are read as in `reproduction.comparison.data`: from the folder that the environment variable KOSAMBI_DATA names,
from reproduction/data, or from shared/data beside the repository.
"""

from __future__ import annotations

import numpy as np

import kosambi as ko
from reproduction.comparison.data import find, read
from reproduction.comparison.data import where_to_get as remedy

NAMES = ("synthetic", "breast", "ionosphere", "diabetes", "concrete", "bike_hour")
BIKE_ROWS = 2000


def is_available(name: str) -> bool:
    return name == "synthetic" or find(name) is not None


def where_to_get(name: str) -> str:
    return f"{name}: skipped. {remedy(name)}"


def build(name: str) -> ko.Target:
    return _synthetic() if name == "synthetic" else _from_data(name)


def _synthetic() -> ko.Target:
    rng = np.random.default_rng(0)
    x = rng.uniform(-3.0, 3.0, (1000, 1))
    f = 2.0 * np.sin(0.35 * np.pi * x[:, 0] ** 2)
    y = (rng.uniform(size=len(x)) < 1.0 / (1.0 + np.exp(-f))).astype(float)
    kernel = ko.kernels.SquaredExponential(lengthscale=0.35, variance=4.0)
    return _target(kernel, ko.likelihoods.Bernoulli(), x, y, num_inducing=32)


def _from_data(name: str) -> ko.Target:
    x, y = read(name)
    mean, likelihood = 0.0, ko.likelihoods.Bernoulli()
    if name == "concrete":
        y, likelihood = _standardised(y), ko.likelihoods.StudentT(4.0, 0.3)
    if name == "bike_hour":
        rows = np.random.default_rng(0).permutation(len(x))[:BIKE_ROWS]
        x, y = x[rows], y[rows]
        mean, likelihood = np.log(y.mean()), ko.likelihoods.Poisson(link="exp")
    # A constant column says nothing and has no scale (ionosphere has one).
    x = _standardised(x[:, x.std(axis=0) > 0])
    kernel = ko.kernels.SquaredExponential(lengthscale=np.sqrt(x.shape[1]), variance=1.0)
    return _target(kernel, likelihood, x, y, num_inducing=int(np.sqrt(len(x))), mean=mean)


def _target(kernel, likelihood, x, y, num_inducing: int, mean: float = 0.0) -> ko.Target:  # type: ignore[no-untyped-def]
    # In these coordinates Euler-Maruyama without preconditioning is the paper's update.
    prior = ko.GaussianRandomElement(kernel, ko.measures.empirical(x), mean)
    basis = ko.RitzBasis(prior, x[ko.inducing.greedy_variance(prior, x, num_inducing)])
    return ko.Target(basis, likelihood, x, y)


def _standardised(values: np.ndarray) -> np.ndarray:
    return (values - values.mean(axis=0)) / values.std(axis=0)
