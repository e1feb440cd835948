# %% [markdown]
# # A kernel and a likelihood of your own
#
# A kernel is a class with two methods, a likelihood can be one function: the cost of an observation,
# $-\log p(y \mid f)$. [Extending](../extending.md) has the contracts.

# %%
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import kosambi as ko


class Brownian(ko.kernels.AbstractKernel):
    """min(x, z) for positive inputs of one column: a path that begins at zero."""

    def pairwise(self, x, z):
        return jnp.minimum(x[:, :1], z[:, 0])

    def pointwise(self, x):
        return x[:, 0]


def log_cosh(y, f):
    """Near a square for small errors and an absolute value for large ones."""
    scaled = (y - f) / 0.2
    return jnp.logaddexp(scaled, -scaled)


# %% [markdown]
# `log_cosh` is minus the logarithm of a density up to a constant; without `is_density=True` kosambi takes it for a
# loss: there is a posterior of f, and no distribution of new observations.

# %%
rng = np.random.default_rng(0)
x = np.sort(rng.uniform(0.05, 4.0, 80))[:, None]
y = np.sqrt(x[:, 0]) * np.sin(2.0 * x[:, 0]) + 0.2 * rng.laplace(size=80)
likelihood = ko.likelihoods.Custom(log_cosh, name="log_cosh")
posterior = ko.infer(jax.random.key(0), Brownian(), likelihood, x, y, num_inducing=40, progress=False)
print(posterior)
grid = np.linspace(0.05, 4.0, 200)[:, None]
ko.plots.posterior(posterior, jax.random.key(1), x_new=grid, num_draws=4)
plt.show()
