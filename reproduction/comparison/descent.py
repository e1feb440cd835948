"""GPyTorch's sparse variational process as the paper runs it: fixed covariance, plain gradient descent.

The covariance is r(x, x') = (1/M) Σ_m k(x, z_m) k(z_m, x') with k and the points of the paper's recipe, which stay as
they are. A constant mean, the noise (from its learned value) and the variational distribution are trained by gradient
descent with batches of 5000. The three learning rates of the paper's code have a third of the time each; the lowest
final training loss is kept.

As the covariance is fixed, the matrices that the distribution of f at the training rows needs are computed once, where
GPyTorch would compute them in every step. The losses are the same, and many more steps are taken in the time.
"""

from __future__ import annotations

import importlib
import time
from typing import Any

import numpy as np

from reproduction.comparison.data import Part
from reproduction.comparison.recipe import Recipe
from reproduction.comparison.variational import Trained, batches, likelihood_of, r_kernel, sparse_model

BATCH = 5000
RATES = {"gaussian": (1e-3, 1e-2, 1e-1), "student_t": (1e-3, 1e-2, 1e-1), "bernoulli": (1e-4, 1e-3, 1e-2)}
MOST_EPOCHS, PATIENCE = 100_000, 100.0


def as_paper(train: Part, likelihood: str, recipe: Recipe, limit: float) -> Trained:
    """Gradient descent at three learning rates."""
    best: Trained | None = None
    best_loss, tried = np.inf, {}
    points = np.asarray(recipe.basis.inducing_points)
    for rate in RATES[likelihood]:
        model = sparse_model(points, r_kernel(recipe.kernel, points), learn_points=False)
        noise = likelihood_of(likelihood, recipe.likelihood)
        loss, epochs, converged = _descend(model, noise, train, rate, limit / 3.0)
        tried[f"{rate:g}"] = loss
        if best is None or loss < best_loss:
            facts = {"M": len(points), "steps": epochs, "learning_rate": rate, "converged": converged}
            best, best_loss = Trained(model, noise, facts), loss
    assert best is not None
    best.facts["losses"] = tried
    return best


class FixedLatent:
    """The distribution of f at the training rows under a model whose covariance and points do not change.

    With L the root of r(Z, Z) and A = L⁻¹ r(Z, x), the mean is c + Aᵀm and the variance r(x, x) − |A|² + |SᵀA|² for a
    whitened variational distribution N(m, SSᵀ). The jitter is that of GPyTorch.
    """

    def __init__(self, model: Any, x: Any) -> None:
        import torch

        strategy = model.variational_strategy
        points, jitter = strategy.inducing_points, strategy.jitter_val
        # The first call sets the variational distribution to the prior, with a little noise.
        model(x[:1])
        self.model = model
        with torch.no_grad():
            between = model.covar_module(points, points).to_dense()
            safe_cholesky = importlib.import_module("linear_operator.utils.cholesky").psd_safe_cholesky
            root = safe_cholesky(between + jitter * torch.eye(len(points), dtype=between.dtype))
            self.weights = torch.linalg.solve_triangular(root, model.covar_module(points, x).to_dense(), upper=False).T
            variance = model.covar_module(x, diag=True) + jitter
            self.rest = variance - self.weights.square().sum(-1)

    def __call__(self, rows: Any) -> Any:
        """At some of the rows."""
        import gpytorch

        # As its own call does: what was kept of the distribution before the last step must go.
        self.model.variational_strategy._clear_cache()
        family = self.model.variational_strategy._variational_distribution
        weights = self.weights[rows]
        mean = self.model.mean_module.constant + weights @ family.variational_mean
        variance = self.rest[rows] + (weights @ family.chol_variational_covar.tril()).square().sum(-1)
        # GPyTorch's companion package, which has no types.
        diagonal = importlib.import_module("linear_operator.operators").DiagLinearOperator(variance)
        return gpytorch.distributions.MultivariateNormal(mean, diagonal)


def _descend(model: Any, noise: Any, train: Part, rate: float, limit: float) -> tuple[float, int, bool]:
    """Plain gradient descent with the stopping rule of the paper's code: final loss, epochs, whether it stopped."""
    import gpytorch
    import torch

    torch.manual_seed(0)
    x, y = (torch.as_tensor(part, dtype=torch.float64) for part in train)
    began = time.perf_counter()
    latent = FixedLatent(model, x)
    elbo = gpytorch.mlls.VariationalELBO(noise, model, num_data=len(y))
    free = [p for p in (*model.parameters(), *noise.parameters()) if p.requires_grad]
    optimiser = torch.optim.SGD(free, lr=rate)
    per_epoch = -(-len(y) // BATCH)
    lowest, waited, epoch, total, last = np.inf, 0.0, 0, 0.0, np.inf
    for step, rows in enumerate(batches(len(y), BATCH, 0), start=1):
        optimiser.zero_grad()
        some = y[rows]
        loss = -elbo(latent(rows), some)
        loss.backward()
        optimiser.step()
        total += float(loss.detach()) * len(some) / len(y)
        if step % per_epoch:
            continue
        epoch, last, total = epoch + 1, total, 0.0
        waited = 0.0 if last < lowest else waited + rate
        lowest = min(lowest, last)
        if not np.isfinite(last):
            return np.inf, epoch, False
        if waited >= PATIENCE or epoch >= MOST_EPOCHS:
            return last, epoch, True
        if time.perf_counter() - began > limit:
            break
    return last, epoch, False
