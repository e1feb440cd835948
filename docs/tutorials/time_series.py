# %% [markdown]
# # Time series: trend, season, forecast
#
# Ten years of months (made up): a slow trend, a yearly season, noise. A sum of kernels is a sum of independent
# functions, $k = k_\text{trend} + k_\text{season}$, and what goes on for ever in the future is what the kernel says
# goes on for ever.

# %%
import jax
import matplotlib.pyplot as plt
import numpy as np

import kosambi as ko

rng = np.random.default_rng(0)
t = np.arange(120)[:, None] / 12.0
y = 0.4 * t[:, 0] + np.sin(2.0 * np.pi * t[:, 0]) + 0.3 * rng.normal(size=120)
past = t[:, 0] < 8.0
trend = ko.kernels.Linear() + ko.kernels.Constant()
season = ko.kernels.Periodic(lengthscale=1.0, period=1.0)
kernel, noise, fit = ko.fit_hyperparameters(
    jax.random.key(0),
    trend + season,
    ko.likelihoods.Gaussian(0.3),
    t[past],
    y[past],
    freeze=["kernel.*.period"],
    progress=False,
)
print(fit)

# %% [markdown]
# The last two years were held back. The season is carried on; the trend is a straight line because it was given as one.

# %%
posterior = ko.infer(jax.random.key(1), kernel, noise, t[past], y[past], progress=False)
axes = ko.plots.posterior(posterior, jax.random.key(2), x_new=np.linspace(0.0, 10.0, 400)[:, None], num_draws=3)
axes.plot(t[~past, 0], y[~past], "o", mfc="none", color="C2", label="held back")
axes.set_xlabel("years")
plt.show()
lower, upper = posterior.predict(t[~past]).interval(0.9)
print(f"{np.mean((lower <= y[~past]) & (y[~past] <= upper)):.0%} of 24 months inside their 90 % intervals")
