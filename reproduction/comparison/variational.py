"""Sparse variational Gaussian processes of GPyTorch, as a practitioner would run them.

Matérn-5/2 with a lengthscale per column and an output scale, a constant mean, standardised inputs, a whitened
variational distribution, float64. Everything is learned, inducing points (k-means at first) included, by Adam at 0.01
with batches of 1024 on the evidence lower bound, on the device that JAX uses. `descent` has the paper's version. Heavy
imports are inside functions.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

import kosambi as ko
from kosambi.posterior import Prediction
from reproduction.comparison.data import Part
from reproduction.comparison.scores import normal_latent

BATCH = 1024
# A window of steps that lowers the loss by less than this has converged.
WINDOW, TOLERANCE = 500, 1e-3
WATCHED = 50
"""Steps between two looks of whoever watches."""


class Trained(NamedTuple):
    """A fitted model of GPyTorch."""

    model: Any
    likelihood: Any
    facts: dict[str, Any]


def use_same_machine() -> None:
    """One thread of PyTorch for each core that this process may use, and the accelerator if JAX computes on it."""
    import jax
    import torch

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
    torch.set_num_threads(cores)
    if jax.default_backend() == "gpu" and torch.cuda.is_available():
        torch.set_default_device("cuda")


def r_kernel(kernel: ko.kernels.SquaredExponential, points: np.ndarray) -> Any:
    """The covariance of the paper's prior with `points` as the sample of ν, for GPyTorch."""
    import gpytorch
    import torch

    samples = torch.as_tensor(points, dtype=torch.float64)
    base = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=points.shape[1])).double()
    base.base_kernel.lengthscale = torch.as_tensor(np.array(np.broadcast_to(kernel.lengthscale, points.shape[1:])))
    base.outputscale = torch.as_tensor(float(kernel.variance), dtype=torch.float64)

    class SmoothedKernel(gpytorch.kernels.Kernel):
        def __init__(self) -> None:
            super().__init__()
            self.base = base.requires_grad_(False)

        def forward(self, x1: Any, x2: Any, diag: bool = False, **_: Any) -> Any:
            left, right = (self.base(x, samples).to_dense() for x in (x1, x2))
            if diag:
                return (left * right).sum(-1) / len(samples)
            return left @ right.transpose(-1, -2) / len(samples)

    return SmoothedKernel()


def as_practitioner(
    train: Part,
    likelihood: str,
    number: int,
    seed: int,
    limit: float,
    watch: Callable[[float, Trained], None] | None = None,
) -> Trained:
    """Adam until a window of steps no longer lowers the loss, or the time is over; x must be standardised.

    `watch` is called every `WATCHED` steps with the seconds of training so far, to which its own do not count.
    """
    import gpytorch
    import torch

    torch.manual_seed(seed)
    columns = train.x.shape[1]
    kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.MaternKernel(nu=2.5, ard_num_dims=columns)).double()
    # Longer than the default of 0.69, with which functions of many columns are all but white noise at first.
    kernel.base_kernel.lengthscale = float(np.sqrt(columns))
    began = time.perf_counter()
    points = _centres(train.x, number, seed)
    model = sparse_model(points, kernel, learn_points=True)
    noise = likelihood_of(likelihood, None)
    elbo = gpytorch.mlls.VariationalELBO(noise, model, num_data=len(train.y))
    optimiser = torch.optim.Adam([*model.parameters(), *noise.parameters()], lr=0.01)
    losses: list[float] = []
    converged = False
    x, y = (torch.as_tensor(part, dtype=torch.float64) for part in train)
    for rows in batches(len(y), BATCH, seed):
        optimiser.zero_grad()
        loss = -elbo(model(x[rows]), y[rows])
        loss.backward()
        optimiser.step()
        losses.append(float(loss.detach()))
        if watch is not None and len(losses) % WATCHED == 0:
            looked = time.perf_counter()
            watch(looked - began, Trained(model, noise, {}))
            model.train()
            noise.train()
            began += time.perf_counter() - looked
        if len(losses) % WINDOW == 0 and len(losses) >= 2 * WINDOW:
            before, now = float(np.mean(losses[-2 * WINDOW : -WINDOW])), float(np.mean(losses[-WINDOW:]))
            converged = bool(before - now < TOLERANCE * max(1.0, abs(now)))
        if converged or time.perf_counter() - began > limit:
            break
    window = losses[-WINDOW:]
    return Trained(
        model, noise, {"M": len(points), "steps": len(losses), "converged": converged, "loss": float(np.mean(window))}
    )


def predictor(trained: Trained, likelihood: str) -> Callable[[np.ndarray], Prediction]:
    """The distribution of f, which is normal, with the learned noise; GPyTorch's labels have a probit link."""
    import gpytorch
    import torch

    trained.model.eval()
    trained.likelihood.eval()
    noise = trained.likelihood
    observed: Any = ko.likelihoods.Bernoulli(link="probit")
    if likelihood == "gaussian":
        observed = ko.likelihoods.Gaussian(noise.noise.detach().sqrt().item())
    elif likelihood == "student_t":
        observed = ko.likelihoods.StudentT(noise.deg_free.detach().item(), noise.noise.detach().sqrt().item())
    elif likelihood == "negative_binomial":
        observed = ko.likelihoods.NegativeBinomial(noise.raw_dispersion.detach().exp().item())

    def predict(x: np.ndarray) -> Prediction:
        means, deviations = [], []
        with torch.no_grad(), gpytorch.settings.fast_pred_var(False):
            for begin in range(0, len(x), BATCH):
                latent = trained.model(torch.as_tensor(x[begin : begin + BATCH], dtype=torch.float64))
                means.append(latent.mean.cpu().numpy())
                deviations.append(latent.variance.clamp_min(0.0).sqrt().cpu().numpy())
        return normal_latent(observed, np.concatenate(means), np.concatenate(deviations))

    return predict


def sparse_model(points: np.ndarray, kernel: Any, *, learn_points: bool, mean: Any = None) -> Any:
    """GPyTorch's sparse process, whitened; the mean is a learned constant unless given."""
    import gpytorch
    import torch

    class Sparse(gpytorch.models.ApproximateGP):
        def __init__(self) -> None:
            family = gpytorch.variational.CholeskyVariationalDistribution(len(points))
            strategy = gpytorch.variational.VariationalStrategy(
                self, torch.as_tensor(points, dtype=torch.float64), family, learn_inducing_locations=learn_points
            )
            super().__init__(strategy)
            self.mean_module = gpytorch.means.ConstantMean() if mean is None else mean
            self.covar_module = kernel

        def forward(self, x: Any) -> Any:
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    return Sparse().double()


def likelihood_of(name: str, learned: Any) -> Any:
    """GPyTorch's, from the learned values where there are any; the degrees of freedom are then kept."""
    import torch

    # GPyTorch's quadrature makes its nodes on the processor, whatever the default device is.
    return _likelihood(name, learned).to(torch.get_default_device())


def _likelihood(name: str, learned: Any) -> Any:
    import gpytorch

    if name == "bernoulli":
        return gpytorch.likelihoods.BernoulliLikelihood().double()
    if name == "negative_binomial":
        return _counts()
    if name == "gaussian":
        noise = gpytorch.likelihoods.GaussianLikelihood().double()
        if learned is not None:
            # Never at the bound of 1e-4 itself, where the raw parameter is infinite.
            noise.noise = max(float(learned.noise) ** 2, 1.01e-4)
        return noise
    if learned is None:
        return gpytorch.likelihoods.StudentTLikelihood().double()
    positive = gpytorch.constraints.Positive()
    student = gpytorch.likelihoods.StudentTLikelihood(deg_free_constraint=positive).double()
    # Beyond a thousand it is normal to every digit that matters.
    student.deg_free = min(float(learned.degrees_of_freedom), 1e3)
    student.raw_deg_free.requires_grad_(False)
    student.noise = float(learned.scale) ** 2
    return student


def _counts() -> Any:
    """Counts of mean e^f and variance e^f + α e^{2f}, α learned, which GPyTorch does not have; its own quadrature."""
    import gpytorch
    import torch

    class NegativeBinomial(gpytorch.likelihoods.likelihood._OneDimensionalLikelihood):
        def __init__(self) -> None:
            super().__init__()
            self.raw_dispersion = torch.nn.Parameter(torch.tensor(float(np.log(0.5)), dtype=torch.float64))

        def forward(self, function_samples: Any, *_: Any, **__: Any) -> Any:
            odds = function_samples + self.raw_dispersion
            return torch.distributions.NegativeBinomial(torch.exp(-self.raw_dispersion), logits=odds)

    return NegativeBinomial()


def batches(number: int, size: int, seed: int) -> Iterator[Any]:
    """Which rows come next: a new random order each time around, without end; all of them where they are few."""
    import torch

    rng = np.random.default_rng(seed)
    while True:
        if number <= size:
            yield slice(None)
            continue
        order = torch.as_tensor(rng.permutation(number))
        yield from (order[begin : begin + size] for begin in range(0, number, size))


def _centres(x: np.ndarray, number: int, seed: int) -> np.ndarray:
    """K-means centres; the distinct rows where there are no more of them."""
    from sklearn.cluster import KMeans

    distinct = np.unique(x, axis=0)
    if len(distinct) <= number:
        return distinct
    return np.asarray(KMeans(number, n_init=1, max_iter=30, random_state=seed).fit(x).cluster_centers_)
