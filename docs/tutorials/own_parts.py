# %% [markdown]
# # A kernel and a likelihood of your own
#
# A kernel is a class with two methods, a likelihood can be one function: the cost of an observation,
# $-\log p(y \mid f)$. Everything else (draws, predictions, learned parameters, files) follows from them.
# [Extending](../extending.md) has the contracts; this is a walk through one of each.
#
# The problem: the price of a share is a random walk that starts at a known value, observed with errors that have heavier
# tails than a Gaussian. The kernel of a random walk in continuous time, Brownian motion, is $\min(x, z)$; it is not
# stationary, and not among those that kosambi has.

# %%
import tempfile
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import kosambi as ko


class Brownian(ko.kernels.AbstractKernel):
    """variance · min(x, z) for positive inputs of one column: a path that begins at zero."""

    name = "brownian"  # by which files know it
    variance: np.ndarray

    def __init__(self, variance=1.0):
        self.variance = np.asarray(variance, dtype=np.float64)  # an array, so that it can be learned

    def pairwise(self, x, z):
        return self.variance * jnp.minimum(x[:, :1], z[:, 0])

    def pointwise(self, x):
        return self.variance * x[:, 0]


kernel = Brownian(4.0)
paths = ko.GaussianProcess(kernel).draw(jax.random.key(0), num_draws=20, at=np.linspace(0.02, 4.0, 200)[:, None])
grid = np.linspace(0.02, 4.0, 200)[:, None]
figure, axes = plt.subplots(figsize=(7, 3.2), layout="constrained")
axes.plot(grid[:, 0], np.asarray(paths(grid)).T, color=ko.plots.ORANGE, lw=0.6)
axes.plot(grid[:, 0], 2.0 * np.sqrt(kernel.diagonal(grid)), "k--", lw=0.8, label="± 2 standard deviations")
axes.plot(grid[:, 0], -2.0 * np.sqrt(kernel.diagonal(grid)), "k--", lw=0.8)
axes.set(xlabel="years", ylabel="change of the price", title="drawn from the prior")
axes.legend(frameon=False)
plt.show()

# %% [markdown]
# ## A likelihood as a function
#
# The hyperbolic secant distribution has exponential tails and a smooth top: $p(y \mid f) = \frac{1}{\pi s}
# \operatorname{sech}\frac{y - f}{s}$. Its cost is $\log(\pi s) + \log\cosh\frac{y - f}{s}$, and since its exponential
# integrates to one over y, `is_density=True` may be said: there are predictive densities then.

# %%
SCALE = 0.3


def secant(y, f):
    """log(πs) + log cosh((y − f)/s), from a sum of exponentials that does not overflow."""
    scaled = (y - f) / SCALE
    return jnp.logaddexp(scaled, -scaled) - jnp.log(2.0) + jnp.log(jnp.pi * SCALE)


y_axis = np.linspace(-30.0, 30.0, 200_001)
print("integral over y:", round(float(np.sum(np.exp(-secant(y_axis, 0.4))) * (y_axis[1] - y_axis[0])), 6))
rng = np.random.default_rng(0)
x = np.sort(rng.uniform(0.05, 4.0, 80))[:, None]
truth = np.asarray(paths[3](x))[0]
error = SCALE * np.log(np.tan(0.5 * np.pi * rng.uniform(size=80)))  # a draw of the secant distribution
likelihood = ko.likelihoods.Custom(secant, name="secant", is_convex=True, is_density=True)
posterior = ko.infer(jax.random.key(1), kernel, likelihood, x, truth + error, num_inducing="all", progress=False)
print(posterior.report)
axes = ko.plots.posterior(posterior, jax.random.key(2), x_new=grid, num_draws=4)
axes.plot(x[:, 0], truth, "k--", lw=0.8)
axes.set(xlabel="years", ylabel="change of the price")
plt.show()

# %% [markdown]
# Draws of a kernel that kosambi cannot split into waves are exact at the inputs that are asked for (`at=`, or `x_new` of
# the picture) and at the inducing points. The band widens beyond the last observation as a random walk does.
#
# ## A likelihood as a class
#
# The scale was known above. As a field of a class it is learned; and with a cumulative distribution function there are
# quantiles, intervals and calibration. Both take a line each:


# %%
class Secant(ko.likelihoods.AbstractLikelihood):
    """Errors with the hyperbolic secant distribution; heavier tails than Gaussian, lighter than Student's."""

    is_convex = True
    strip = 0.5 * np.pi  # log cosh is analytic in |Im f| < π/2, for a scale of one
    scale: np.ndarray

    def __init__(self, scale=1.0):
        self.scale = np.asarray(scale, dtype=np.float64)

    def raw_cost(self, y, f):
        scaled = (y - f) / self.scale
        return jnp.logaddexp(scaled, -scaled) - jnp.log(2.0) + jnp.log(jnp.pi * self.scale)

    def raw_mean(self, f):
        return f

    def raw_variance(self, f):
        return jnp.full_like(f, (0.5 * jnp.pi * self.scale) ** 2)

    def cdf(self, y, f):
        return 2.0 / np.pi * np.arctan(np.exp((y - f) / self.scale))


fitted_kernel, fitted, fit = ko.fit_hyperparameters(
    jax.random.key(3), Brownian(1.0), Secant(1.0), x[::2], (truth + error)[::2], progress=False
)
print(f"variance {float(fitted_kernel.variance):.2f} (4), scale {float(fitted.scale):.3f} ({SCALE})")
half = ko.infer(
    jax.random.key(4), fitted_kernel, fitted, x[::2], (truth + error)[::2], num_inducing="all", progress=False
)
print(ko.calibration.calibration_report(half.predict(x[1::2]), (truth + error)[1::2]))

# %% [markdown]
# ## Keep it
#
# A file holds numbers, and the names of what is yours; whoever loads it brings the code:

# %%
with tempfile.TemporaryDirectory() as folder:
    posterior.save(Path(folder) / "share.kosambi")
    again = ko.load(Path(folder) / "share.kosambi", custom={"brownian": Brownian, "secant": secant})
print(np.array_equal(again.predict(x).mean, posterior.predict(x).mean))

# %% [markdown]
# ## What to take away
#
# - A kernel: `pairwise` and `pointwise` in JAX. A likelihood: one cost, and what you want beyond that.
# - Check a density by its integral, a derivative by nothing: JAX makes it.
# - `is_convex=True` and `strip` are promises that kosambi relies on; leave them out when in doubt.
# - [Extending](../extending.md) lists what each further member is for, and how to contribute.
