# %% [markdown]
# # A linear inverse problem
#
# What is observed is not the function but averages of it: $y = A f + \varepsilon$, here a blur, 25 numbers for a curve
# at 60 places. Each observation depends on many values of f, so the likelihood is no product over inputs.
# `CustomJoint` takes the cost of all values together.

# %%
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import kosambi as ko

rng = np.random.default_rng(0)
x = np.linspace(0.0, 1.0, 60)[:, None]
truth = np.sin(6.0 * x[:, 0]) + (x[:, 0] > 0.5) * 0.5
centres = np.linspace(0.0, 1.0, 25)[:, None]
A = np.exp(-0.5 * ((centres - x.T) / 0.05) ** 2)
A /= A.sum(axis=1, keepdims=True)
noise = 0.03
observed = A @ truth + noise * rng.normal(size=25)


def cost(y, f):
    """½|y − A f|² / σ², with the observations inside since there are fewer than inputs."""
    del y
    return 0.5 * jnp.sum((observed - A @ f) ** 2) / noise**2


posterior = ko.infer(
    jax.random.key(0),
    ko.kernels.Matern52(lengthscale=0.2, variance=1.0),
    ko.likelihoods.CustomJoint(cost),
    x,
    np.zeros(60),
    num_inducing="all",
    progress=False,
)
print(posterior.report)

# %% [markdown]
# With Gaussian noise the answer is known, K Aᵀ(A K Aᵀ + σ²I)⁻¹ y, and can be set beside the draws.

# %%
K = np.asarray(posterior.prior.covariance(x))
exact = K @ A.T @ np.linalg.solve(A @ K @ A.T + noise**2 * np.eye(25), observed)
prediction = posterior.predict(x)
off = np.abs(np.asarray(prediction.mean) - exact) / np.asarray(prediction.standard_deviation)
print(f"largest difference of the mean: {off.max():.2f} posterior standard deviations, of 100 draws")
low, high = prediction.latent_interval(0.95)
plt.fill_between(x[:, 0], low, high, alpha=0.3, label="95 % of f")
plt.plot(x[:, 0], truth, "k--", label="truth")
plt.plot(x[:, 0], prediction.mean, label="mean")
plt.plot(centres[:, 0], observed, "o", ms=4, label="blurred observations")
plt.legend(frameon=False)
plt.show()
