# %% [markdown]
# # Comparing models
#
# Two ways: the log marginal likelihood (evidence), which asks how probable the data are under a model, and held-out
# rows, which ask how well it predicts. Where they disagree, the reason is worth finding.

# %%
import jax
import numpy as np

import kosambi as ko

rng = np.random.default_rng(3)
x = np.sort(rng.uniform(-3.0, 3.0, 160))[:, None]
y = np.abs(x[:, 0]) + 0.2 * rng.normal(size=160)  # a kink, which smooth kernels do not expect
train, test = slice(0, None, 2), slice(1, None, 2)
fits, densities = {}, {}
for kernel in (ko.kernels.Matern12(), ko.kernels.Matern32(), ko.kernels.SquaredExponential()):
    name = type(kernel).__name__
    learned, noise, _ = ko.fit_hyperparameters(
        jax.random.key(0), kernel, ko.likelihoods.Gaussian(), x[train], y[train], progress=False
    )
    fits[name] = ko.infer(jax.random.key(1), learned, noise, x[train], y[train], num_inducing="all", progress=False)
    densities[name] = np.asarray(fits[name].log_predictive_density(x[test], y[test]))
print(ko.compare(fits))

# %% [markdown]
# A difference in evidence of 3 nats is a Bayes factor of twenty. The held-out log density, with the standard error of
# the *difference* from the first model, row by row:

# %%
first = next(iter(densities.values()))
for name, density in densities.items():
    difference = density - first
    error = difference.std(ddof=1) / np.sqrt(len(difference))
    print(f"{name:20s} {density.mean():7.3f} per row, difference {difference.mean():+.3f} ± {error:.3f}")
