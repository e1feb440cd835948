# %% [markdown]
# # A linear inverse problem
#
# What is observed is not the function but averages of it: a blurred profile, say, of which 25 pixels are known and the 60
# values behind them are wanted,
#
# $$y = A f + \varepsilon, \qquad \varepsilon \sim N(0, \sigma^2 I).$$
#
# Each observation depends on many values of f, so the likelihood is no product over inputs. `CustomJoint` takes the cost
# of all values together. There are fewer observations than unknowns: without a prior there is no answer, and with one the
# answer comes with its uncertainty.

# %%
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import kosambi as ko

rng = np.random.default_rng(0)
x = np.linspace(0.0, 1.0, 60)[:, None]
truth = 0.4 * np.sin(6.0 * x[:, 0]) + (x[:, 0] > 0.5) * 1.2
centres = np.linspace(0.0, 1.0, 25)[:, None]
A = np.exp(-0.5 * ((centres - x.T) / 0.05) ** 2)
A /= A.sum(axis=1, keepdims=True)
noise = 0.03
observed = A @ truth + noise * rng.normal(size=25)
print("condition number of A:", f"{np.linalg.cond(A):.0e}")


def cost(y, f):
    """½|y − A f|² / σ², with the observations inside since there are fewer than inputs."""
    del y
    return 0.5 * jnp.sum((observed - A @ f) ** 2) / noise**2


# %% [markdown]
# `infer` wants an observation for each input; the cost does not look at them, so zeros will do.

# %%
kernel = ko.kernels.Matern32(lengthscale=0.2, variance=1.0)
posterior = ko.infer(
    jax.random.key(0),
    kernel,
    ko.likelihoods.CustomJoint(cost, is_convex=True),
    x,
    np.zeros(60),
    num_inducing="all",
    num_particles=1000,
    progress=False,
)
print(posterior.report)

# %% [markdown]
# With Gaussian noise the answer is known, $KA^\top(AKA^\top + \sigma^2 I)^{-1}y$ with covariance $K - KA^\top(AKA^\top +
# \sigma^2 I)^{-1}AK$, and can be set beside the draws:

# %%
K = np.asarray(posterior.prior.covariance(x))
gain = np.linalg.solve(A @ K @ A.T + noise**2 * np.eye(25), A @ K).T
exact, exact_sd = gain @ observed, np.sqrt(np.diag(K - gain @ A @ K))
prediction = posterior.predict(x)
off = np.abs(np.asarray(prediction.mean) - exact) / exact_sd
ratio = np.asarray(prediction.standard_deviation) / exact_sd
print(
    f"mean: off by {off.max():.2f} posterior standard deviations at most; 1000 draws have an error of {1000**-0.5:.2f}"
)
print(f"standard deviations: {ratio.min():.2f} to {ratio.max():.2f} of the exact ones")

# %%
low, high = prediction.latent_interval(0.95)
figure, axes = plt.subplots(figsize=(8, 4), layout="constrained")
axes.fill_between(x[:, 0], low, high, color=ko.plots.BLUE, alpha=0.3, lw=0, label="95 % of f")
axes.plot(x[:, 0], truth, "k--", label="truth")
axes.plot(x[:, 0], prediction.mean, color=ko.plots.BLUE, label="mean")
axes.plot(centres[:, 0], observed, "o", ms=4, color=ko.plots.ORANGE, label="blurred observations")
axes.set(xlabel="position", ylabel="brightness")
axes.legend(frameon=False)
plt.show()

# %% [markdown]
# ## What a closed form does not give
#
# The truth has a step, and the step is what one would like to find. Each function drawn has a place where it rises most
# over a tenth of the width (finer than that the blur hides everything), and together they say where the step may be:

# %%
functions = np.asarray(posterior.functions(jax.random.key(1))(x))
rise = functions[:, 6:] - functions[:, :-6]
steepest = 0.5 * (x[:-6, 0] + x[6:, 0])[rise.argmax(axis=1)]
print(
    "steepest rise, median {:.2f}, 90 % between {:.2f} and {:.2f}; the step is at 0.5".format(
        *np.quantile(steepest, [0.5, 0.05, 0.95])
    )
)

# %% [markdown]
# And the noise need not be Gaussian: with an absolute error in place of a squared one there is no closed form, and only
# the cost changes. One bad pixel then does little:


# %%
def robust(y, f):
    """Σ log cosh, near an absolute error: heavy tails."""
    del y
    scaled = (spoilt - A @ f) / noise
    return jnp.sum(jnp.logaddexp(scaled, -scaled))


spoilt = observed.copy()
spoilt[8] += 1.0
gaussian_mean = gain @ spoilt
likelihood = ko.likelihoods.CustomJoint(robust, is_convex=True)
repaired = ko.infer(jax.random.key(2), kernel, likelihood, x, np.zeros(60), num_inducing="all", progress=False)
for name, mean in (("squared error", gaussian_mean), ("log cosh", repaired.predict(x).mean)):
    print(f"{name:14s} error of the mean with one bad pixel: {np.sqrt(np.mean((mean - truth) ** 2)):.3f}")

# %% [markdown]
# ## What to take away
#
# - `CustomJoint` takes any differentiable cost of all values: blurs, integrals, differential equations on a grid.
# - It has the projected potential only, no certificate and no predictive distribution of y; take all points
#   (`num_inducing="all"`) so that nothing is left to the residual.
# - Check against the closed form where there is one, and then change the cost.
# - [A likelihood of your own](../extending.md#a-likelihood-of-your-own).
