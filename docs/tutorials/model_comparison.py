# %% [markdown]
# # Comparing models
#
# Two ways: the log marginal likelihood (evidence), $\log p(y) = \log \int p(y \mid f)\, \mathrm{d}p(f)$, which asks how
# probable the data are under a model, and held-out rows, which ask how well it predicts. Where they disagree, the reason is
# worth finding. The questions here: how rough is a function, and what is its noise like?

# %%
import jax
import matplotlib.pyplot as plt
import numpy as np

import kosambi as ko

rng = np.random.default_rng(3)
x = np.sort(rng.uniform(-3.0, 3.0, 160))[:, None]
truth = np.abs(x[:, 0])  # a kink, which smooth kernels do not expect
y = truth + 0.2 * rng.normal(size=160)
train, test = slice(0, None, 2), slice(1, None, 2)

# %% [markdown]
# ## Kernels, by evidence
#
# Each candidate learns its own hyperparameters first. `ko.compare` sets the log evidences side by side; the column
# "probability" is that of the model if all were equally probable beforehand.

# %%
fits, densities = {}, {}
for kernel in (ko.kernels.Matern12(), ko.kernels.Matern32(), ko.kernels.Matern52(), ko.kernels.SquaredExponential()):
    name = type(kernel).__name__
    learned, noise, _ = ko.fit_hyperparameters(
        jax.random.key(0), kernel, ko.likelihoods.Gaussian(), x[train], y[train], progress=False
    )
    fits[name] = ko.infer(jax.random.key(1), learned, noise, x[train], y[train], num_inducing="all", progress=False)
    densities[name] = np.asarray(fits[name].log_predictive_density(x[test], y[test]))
    print(f"{name:18s} {learned}, noise {float(noise.noise):.3f}")
print(ko.compare(fits))

# %% [markdown]
# A difference in evidence of 3 nats is a Bayes factor of twenty. There is no penalty here for the two or three numbers
# that were learned; all four models have the same number of them.
#
# ## Kernels, by held-out rows
#
# The mean log density of the other half of the rows, and its difference from the best model by evidence with the standard
# error *of the difference*, row by row; the means themselves have errors several times as large, which are the same for all
# models and say nothing about their order:

# %%
best = max(fits, key=lambda name: float(fits[name].log_evidence.value))
for name, density in densities.items():
    difference = density - densities[best]
    error = difference.std(ddof=1) / np.sqrt(len(difference))
    alone = density.std(ddof=1) / np.sqrt(len(density))
    print(f"{name:18s} {density.mean():6.3f} ± {alone:.3f} per row, difference {difference.mean():+.3f} ± {error:.3f}")

# %% [markdown]
# Where does the difference come from? Mostly from a few rows at the kink, where the smoothest kernel is too high; elsewhere
# differences cancel. That is what a comparison row by row can show, and one number cannot:

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(11, 3.8), layout="constrained")
grid = np.linspace(-1.5, 1.5, 300)[:, None]
for name, colour in (("Matern12", "C7"), (best, ko.plots.BLUE), ("SquaredExponential", ko.plots.ORANGE)):
    left.plot(grid[:, 0], fits[name].predict(grid).mean, color=colour, label=name)
left.plot(grid[:, 0], np.abs(grid[:, 0]), "k--", lw=0.8, label="truth")
left.set(xlabel="x", ylabel="mean of f")
left.legend(frameon=False)
right.axhline(0.0, color="k", lw=0.6)
right.plot(x[test][:, 0], densities["SquaredExponential"] - densities[best], "o", ms=4, color=ko.plots.ORANGE)
right.set(xlabel="x", ylabel=f"log density, squared exponential − {best}")
plt.show()

# %% [markdown]
# ## Likelihoods
#
# They can be compared in the same way, if both are densities of the same y. Here a twentieth of the observations is spoilt:

# %%
spoilt = y + np.where(rng.uniform(size=160) < 0.05, rng.choice([-2.0, 2.0], 160), 0.0)
noises = {}
for likelihood in (ko.likelihoods.Gaussian(), ko.likelihoods.StudentT()):
    name = type(likelihood).__name__
    learned, noise, _ = ko.fit_hyperparameters(
        jax.random.key(2), ko.kernels.Matern32(), likelihood, x[train], spoilt[train], progress=False
    )
    noises[name] = ko.infer(
        jax.random.key(3), learned, noise, x[train], spoilt[train], num_inducing="all", progress=False
    )
print(ko.compare(noises))
scores = {name: np.asarray(each.log_predictive_density(x[test], spoilt[test])) for name, each in noises.items()}
difference = scores["StudentT"] - scores["Gaussian"]
error = difference.std(ddof=1) / np.sqrt(len(difference))
print(f"held-out rows: {difference.mean():+.3f} ± {error:.3f} nats per row for Student's t")

# %% [markdown]
# ## What to take away
#
# - Learn each candidate first; compare on the same rows; look at differences with their errors.
# - Evidence uses all rows at once and asks for no split; it judges the prior too, and a model can have little of it and
#   predict as well.
# - Without held-out rows, leave-one-out by ArviZ: `posterior.to_arviz()` and [what it
#   needs](../how_to/files.md#export-to-arviz).
# - [Compare models](../how_to/compare_models.md).
