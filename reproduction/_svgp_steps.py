"""Steps of a sparse variational process in GPyTorch, with the paper's kernel r, for timing."""

from __future__ import annotations

import time
import warnings
from typing import Any, NamedTuple

import numpy as np


class Times(NamedTuple):
    """Seconds."""

    build: float
    steps: float


def _kernel(base: Any, points: Any) -> Any:
    """r(x, x') = Σ_z k(x, z) k(z, x')/M, whose diagonal costs no N×N matrix."""
    import gpytorch

    class Squared(gpytorch.kernels.Kernel):
        def __init__(self) -> None:
            super().__init__()
            self.base = base

        def forward(self, first: Any, second: Any, diag: bool = False, **settings: Any) -> Any:
            del settings
            left = self.base(first, points).to_dense()
            right = left if first is second else self.base(second, points).to_dense()
            size = points.shape[-2]
            return (left * right).sum(-1) / size if diag else left @ right.mT / size

    return Squared()


def svgp_times(x: np.ndarray, y: np.ndarray, points: np.ndarray, num_steps: int, noise: float) -> Times:
    """Build the model, then take full-batch steps of plain gradient descent, with kernel and points fixed.

    Arguments:
        x: (N, D), the inputs.
        y: (N,), the observations.
        points: (M, D), inducing points, and the support of r.
        num_steps: how many.
        noise: standard deviation that it begins with.
    """
    import gpytorch
    import torch

    inputs, targets, inducing = (torch.tensor(value, dtype=torch.float64) for value in (x, y, points))

    class Model(gpytorch.models.ApproximateGP):
        def __init__(self) -> None:
            family = gpytorch.variational.CholeskyVariationalDistribution(len(inducing))
            super().__init__(
                gpytorch.variational.VariationalStrategy(self, inducing, family, learn_inducing_locations=False)
            )
            self.mean = gpytorch.means.ConstantMean()
            self.kernel = _kernel(gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel()), inducing)
            for parameter in self.kernel.parameters():
                parameter.requires_grad_(False)

        def forward(self, at: Any) -> Any:
            return gpytorch.distributions.MultivariateNormal(self.mean(at), self.kernel(at))

    with warnings.catch_warnings():
        # GPyTorch says so when it adds jitter, which r of many points needs.
        warnings.simplefilter("ignore")
        began = time.perf_counter()
        likelihood = gpytorch.likelihoods.GaussianLikelihood().double()
        likelihood.noise = noise**2
        model = Model().double()
        model.train()
        likelihood.train()
        objective = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=len(targets))
        trained = [p for p in (*model.parameters(), *likelihood.parameters()) if p.requires_grad]
        optimiser = torch.optim.SGD(trained, lr=1e-10)
        built = time.perf_counter()
        for _ in range(num_steps):
            optimiser.zero_grad()
            loss = -objective(model(inputs), targets)
            loss.backward()
            optimiser.step()
        return Times(built - began, time.perf_counter() - built)
