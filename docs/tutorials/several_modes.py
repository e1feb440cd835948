# %% [markdown]
# # Several modes
#
# Some posteriors have more than one explanation of the data. A sampler that moves in small steps stays in the one where
# it began, and the share of its particles in each then says where they were put, not how probable each explanation is.
# Two examples: one whose answer is known by symmetry, and one where it is not.
#
# ## Counts whose rate is a square
#
# Counts with rate $\lambda = f^2$ cannot tell $f$ from $-f$: the posterior has two modes, of probability one half each.
# `sampler="auto"` sees that and takes `Tempering`.

# %%
import jax
import matplotlib.pyplot as plt
import numpy as np

import kosambi as ko

rng = np.random.default_rng(0)
x = np.sort(rng.uniform(-3.0, 3.0, 80))[:, None]
counts = rng.poisson((2.0 + np.sin(x[:, 0])) ** 2)
prior = ko.kernels.SquaredExponential(lengthscale=1.0, variance=4.0)
options = {"num_inducing": 8, "num_particles": 200, "progress": False}
posterior = ko.infer(jax.random.key(0), prior, ko.likelihoods.Poisson("square"), x, counts, **options)
print(posterior.report)
print(posterior.modes())

# %%
figure, panels = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
ko.plots.modes(posterior, jax.random.key(1), axes=panels[0])
ko.plots.highest_density(posterior, axes=panels[1])
for panel in panels:
    panel.set(xlabel="x", ylabel="signed root of the rate")
plt.show()

# %% [markdown]
# Left, functions in the colour of their mode. Right, the smallest regions that hold f with the stated probability: two
# pieces, without the gap that an equal-tailed interval would include. The rate itself, which is what can be observed, has
# one mode only; so has the posterior with the usual link $\lambda = e^f$, and both predict the same counts:

# %%
usual = ko.infer(jax.random.key(2), prior, ko.likelihoods.Poisson(), x, counts, **options)
grid = np.array([[-1.5], [0.0], [1.5]])
for name, each in (("square", posterior), ("exp", usual)):
    f, interval = each.predict(grid), each.predict(grid).interval(0.9)
    print(f"{name:7s} mean of f {f.mean.round(2)}, mean count {f.observation_mean.round(2)}, 90 % {interval}")

# %% [markdown]
# ## A sensor with an offset
#
# Where the answer is not known by symmetry. A sensor reports a temperature, but some of its readings carry an offset of 3
# degrees that comes and goes: each reading is $f(x_n)$ or $f(x_n) + 3$, with unknown assignment. In the morning there are
# many readings, which show both levels; in the afternoon there are only a few, all near 5: is $f$ there 5, or 2 with the
# offset on?

# %%
morning = rng.uniform(6.0, 12.0, 60)
shifted = rng.uniform(size=60) < 0.4
afternoon = np.array([16.0, 16.4, 16.9, 17.3])
hours = np.concatenate([morning, afternoon])[:, None]
readings = np.concatenate([2.0 + np.sin(morning) + 3.0 * shifted + 0.3 * rng.normal(size=60), [5.1, 4.8, 5.2, 4.9]])
mixture = ko.likelihoods.ShiftMixture(shift=3.0, probability=0.4, noise=0.3)
prior = ko.GaussianProcess(ko.kernels.Matern52(lengthscale=2.5, variance=2.0), mean=2.0)
options = {"num_inducing": 24, "num_particles": 200, "progress": False}
tempered = ko.infer(jax.random.key(3), prior, mixture, hours, readings, sampler="tempering", **options)
print(tempered.report)
print(tempered.modes())

# %%
at = np.array([[9.0], [16.6]])
print("P(f > 3.5) at 9 h and at 16.6 h:", np.mean(np.asarray(tempered.functions(jax.random.key(5))(at)) > 3.5, axis=0))
for place, region in zip(at[:, 0], tempered.predict(at).highest_density_region(0.9), strict=True):
    print(f"90 % of readings at {place} h lie in {region.round(1).tolist()}")
figure, axes = plt.subplots(figsize=(8, 4), layout="constrained")
ko.plots.modes(tempered, jax.random.key(4), axes=axes)
axes.set(xlabel="hour", ylabel="temperature [°C]")
plt.show()

# %% [markdown]
# In the morning both levels are seen, and there is no doubt. In the afternoon four offsets in a row have a probability of
# $0.4^4 = 0.03$ and none of them $0.6^4 = 0.13$, but the prior expects a temperature near 2: all of it together gives the
# shares. A sampler that stays where it began would have given the shares of its starting points.
#
# ## What to take away
#
# - `posterior.modes()` counts and weighs modes; `by_mode()` gives one posterior for each.
# - `report.basins` above 1 or R̂ that levels off are the signs that `MALA` sees; `sampler="auto"` then tempers by itself,
#   up to some size.
# - Use highest density regions, not equal-tailed intervals, where there may be a gap.
# - [Several modes](../how_to/several_modes.md), [how tempering works](../method.md#tempering).
