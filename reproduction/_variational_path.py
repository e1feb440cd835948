"""GPyTorch's sparse variational Gaussian process on a model of kosambi, and what its training passes through."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

import kosambi as ko
from reproduction._small_problems import Problem
from reproduction.comparison.variational import r_kernel, sparse_model

LEARNING_RATE = 0.02
LOOKS = (1, 3, 10, 30, 100, 200, 400, 800, 1500, 3000, 6000, 10_000)
"""Steps after which the distribution is looked at."""


class Normal(NamedTuple):
    """q(f) at the inputs that are judged, after some steps."""

    mean: Float[np.ndarray, " T"]
    covariance: Float[np.ndarray, "T T"]
    steps: int
    seconds: float
    """Of the steps alone."""


def normals(
    problem: Problem, points: Float[np.ndarray, "M D"], x: Float[np.ndarray, "T D"], seconds: float
) -> Iterator[Normal]:
    """Train with Adam on all data at once, whitened, with hyperparameters and inducing points that stay as they are.

    Arguments:
        problem: with the paper's prior and a `Bernoulli` or `StudentT` likelihood.
        points: inducing points.
        x: where the distribution of f is looked at.
        seconds: when to stop.
    """
    import gpytorch
    import torch

    # Matrices of a few hundred rows: more threads only wait for each other.
    torch.set_num_threads(1)
    torch.manual_seed(0)
    # The measure of the prior is that of the inputs.
    kernel = r_kernel(problem.prior.kernel, problem.x)
    model = sparse_model(points, kernel, learn_points=False, mean=gpytorch.means.ZeroMean())
    likelihood = _likelihood(problem.likelihood)
    elbo = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=len(problem.y))
    optimiser = torch.optim.Adam(model.variational_parameters(), lr=LEARNING_RATE)
    inputs, targets, judged = (torch.as_tensor(part) for part in (problem.x, problem.y, x))
    spent, began = 0.0, time.perf_counter()
    for step in range(1, LOOKS[-1] + 1):
        optimiser.zero_grad()
        loss = -elbo(model(inputs), targets)
        loss.backward()
        optimiser.step()
        now = spent + time.perf_counter() - began
        if step not in LOOKS and now < seconds:
            continue
        spent = now
        model.eval()
        with torch.no_grad():
            latent = model(judged)
            yield Normal(latent.mean.numpy(), latent.covariance_matrix.numpy(), step, spent)
        model.train()
        if spent >= seconds:
            return
        began = time.perf_counter()


def _likelihood(given: Any) -> Any:
    """The very likelihood of the model: GPyTorch's own has a probit link for labels."""
    import torch
    from gpytorch.likelihoods.likelihood import _OneDimensionalLikelihood

    class Same(_OneDimensionalLikelihood):
        def forward(self, f: Any, *_: Any, **__: Any) -> Any:
            if isinstance(given, ko.likelihoods.Bernoulli):
                return torch.distributions.Bernoulli(logits=f)
            return torch.distributions.StudentT(float(given.degrees_of_freedom), f, float(given.scale))

    return Same().double()
