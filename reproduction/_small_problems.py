"""One-dimensional posteriors with data that follow their own model, for the experiments about theory."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

import kosambi as ko

LIKELIHOODS: dict[str, Any] = {
    "bernoulli": lambda: ko.likelihoods.Bernoulli(),
    "student_t": lambda: ko.likelihoods.StudentT(degrees_of_freedom=4.0, scale=0.3),
    "poisson": lambda: ko.likelihoods.Poisson(link="exp"),
    "gaussian": lambda: ko.likelihoods.Gaussian(0.3),
}


class Problem(NamedTuple):
    """A model and data, with data that were held out."""

    prior: Any
    likelihood: Any
    x: Float[np.ndarray, "N D"]
    y: Float[np.ndarray, " N"]
    x_test: Float[np.ndarray, "T D"]
    y_test: Float[np.ndarray, " T"]


def curve(x: Float[np.ndarray, "N 1"]) -> Float[np.ndarray, " N"]:
    """The function behind the data, between −2 and 2."""
    return np.asarray(1.4 * np.sin(2.0 * x[:, 0]) + 0.6 * np.cos(4.5 * x[:, 0] + 1.0))


def small_problem(likelihood: str, prior: str, num_rows: int, num_test: int = 0, seed: int = 0) -> Problem:
    """Inputs uniform on [−3, 3], observations of `curve`.

    Arguments:
        likelihood: a name in `LIKELIHOODS`.
        prior: "element" (the paper's, with a squared exponential kernel), "wide_element" (four times as large),
            "rough_element" (with Matérn-3/2) or "process" (a Gaussian process with Matérn-5/2).
        num_rows: N.
        num_test: further rows from the same distribution.
        seed: of the data.

    >>> small_problem("poisson", "process", 20, 5).y_test.shape
    (5,)
    """
    rng = np.random.default_rng(seed)
    x = rng.uniform(-3.0, 3.0, (num_rows + num_test, 1))
    f = curve(x)
    if likelihood == "bernoulli":
        y = (rng.uniform(size=len(f)) < 1.0 / (1.0 + np.exp(-f))).astype(float)
    elif likelihood == "student_t":
        y = f + 0.3 * rng.standard_t(4.0, len(f))
    elif likelihood == "poisson":
        y = rng.poisson(np.exp(f)).astype(float)
    else:
        y = f + 0.3 * rng.normal(size=len(f))
    train, test = slice(0, num_rows), slice(num_rows, None)
    return Problem(_prior(prior, x[train]), LIKELIHOODS[likelihood](), x[train], y[train], x[test], y[test])


def _prior(name: str, x: Float[np.ndarray, "N 1"]) -> Any:
    # Variances that make r about 1.5 at the data, and sixteen times that.
    if name == "process":
        return ko.GaussianProcess(ko.kernels.Matern52(lengthscale=0.8, variance=1.5, active_dims=None))
    kernel: Any = ko.kernels.Matern32(lengthscale=0.8, variance=2.8, active_dims=None)
    if name != "rough_element":
        variance = 11.6 if name == "wide_element" else 2.9
        kernel = ko.kernels.SquaredExponential(lengthscale=0.6, variance=variance, active_dims=None)
    return ko.GaussianRandomElement(kernel, ko.measures.empirical(x))
