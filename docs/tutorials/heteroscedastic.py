# %% [markdown]
# # Noise that varies
#
# The acceleration of a motorcyclist's helmet in a crash, 133 measurements over 57 milliseconds: quiet at first, then
# violent. One number for the noise is too large at the beginning and too small later. `"heteroscedastic"` has a second
# function, the logarithm of the noise:
#
# $$y_n \sim N\bigl(f_1(x_n),\; e^{2 f_2(x_n)}\bigr).$$

# %% [markdown]
# The table is `mcycle` of the R package MASS (Silverman 1985). It states no licence and is not in the repository: set
# `KOSAMBI_DATA` to a folder with `mcycle.csv.gz`, columns `times` and `target`. Without it made-up rows of the same shape
# stand in, and the output says so.

# %%
import os
import warnings
from pathlib import Path

import jax
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import kosambi as ko

file = Path(os.environ.get("KOSAMBI_DATA", ".")) / "mcycle.csv.gz"
if file.is_file():
    table = pd.read_csv(file)
    t, y = table["times"].to_numpy(), table["target"].to_numpy()
else:
    print("STAND-IN: no file, rows are made up")
    rng = np.random.default_rng(0)
    t = np.sort(rng.uniform(2.4, 57.6, 133))
    y = -80.0 * np.exp(-0.5 * ((t - 21.0) / 5.0) ** 2) + np.where(t < 14.0, 2.0, 22.0) * rng.normal(size=133)
X = pd.DataFrame({"milliseconds": t})
models = {
    name: ko.ProjectedLangevinRegressor(name, hyperparameters="evidence", progress=False).fit(X, y)
    for name in ("gaussian", "heteroscedastic")
}

# %%
figure, panels = plt.subplots(1, 2, figsize=(11, 4), sharey=True, layout="constrained")
for panel, (name, model) in zip(panels, models.items(), strict=True):
    ko.plots.posterior(model, axes=panel).set_title(name, loc="right")
    panel.set_ylabel("acceleration [g]" if name == "gaussian" else None)
    widths = [float(np.ptp(model.predict_interval(pd.DataFrame({"milliseconds": [at]}), 0.95))) for at in (5.0, 30.0)]
    print(f"{name:16s} width of the 95 % interval at 5 ms {widths[0]:6.1f} g, at 30 ms {widths[1]:6.1f} g")
plt.show()

# %% [markdown]
# At 5 ms the first interval is nearly empty, and at 30 ms observations fall outside of it.
#
# ## What is it worth?
#
# Every third row is left out in turn, and predicted. What counts is the difference from Gaussian noise, row by row. Above,
# hyperparameters were the most probable ones (`"evidence"`, which is quick); with so few rows the default, `"auto"`, is an
# average over draws of them.

# %%
options = {
    "gaussian": {"likelihood": "gaussian"},
    "heteroscedastic, most probable": {"likelihood": "heteroscedastic", "hyperparameters": "evidence"},
    "heteroscedastic, average": {"likelihood": "heteroscedastic"},
}
density = {name: np.empty(len(y)) for name in options}
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    for fold in range(3):
        out = np.arange(len(y)) % 3 == fold
        for name, settings in options.items():
            fit = ko.ProjectedLangevinRegressor(**settings, progress=False).fit(X[~out], y[~out])
            density[name][out] = fit.predict_log_density(X[out], y[out])
for name in list(options)[1:]:
    difference = density[name] - density["gaussian"]
    error, worst = difference.std(ddof=1) / np.sqrt(len(difference)), difference.argmin()
    print(f"{name:31s} {difference.mean():+.2f} ± {error:.2f} nats per observation; ", end="")
    print(f"the worst row is {y[worst]:.0f} g at {t[worst]} ms, {difference[worst]:.0f}")
print("warnings:", [str(each.message).split(",")[0] for each in said])

# %% [markdown]
# Noise that varies is worth about a third of a nat for each observation, and one value of its hyperparameters would have
# lost most of that to a single row: the logarithm of the noise is a function that few rows speak of, and a model that is
# sure of its lengthscale is too sure of the noise. (What is warned of is one of the models in one of the averages, whose
# sampler was stopped at its limit of steps; it is one of ten.)
#
# ## The noise itself
#
# Its logarithm is a function like the other one, with a posterior of its own. The two are drawn together: of a draw,
# function 0 is the mean and function 1 the logarithm of the noise, both for a standardised target; the likelihood has the
# scale.

# %%
model = models["heteroscedastic"]
grid = np.linspace(t.min(), t.max(), 200)
inputs = model.transform_inputs(pd.DataFrame({"milliseconds": grid}))
draws = model.posterior_.functions(jax.random.key(0))(inputs)
print("draws, inputs, functions:", draws.shape)
noise = float(model.posterior_.likelihood.scale) * np.exp(draws[..., 1])  # in g
low, middle, high = np.quantile(noise, [0.025, 0.5, 0.975], axis=0)
figure, axes = plt.subplots(figsize=(7, 3.6), layout="constrained")
axes.fill_between(grid, low, high, color=ko.plots.BLUE, alpha=0.25, lw=0, label="95 %")
axes.plot(grid, middle, color=ko.plots.BLUE, label="median")
axes.plot(grid, noise[:5].T, color=ko.plots.ORANGE, lw=0.7)
axes.set(xlabel="milliseconds", ylabel="standard deviation of the noise [g]", yscale="log")
axes.legend(frameon=False)
plt.show()

# %% [markdown]
# Questions about both functions go to the draws too: when does the noise exceed 10 g for the first time?

# %%
first = grid[(noise > 10.0).argmax(axis=1)]
print(
    "noise above 10 g from {:.1f} ms on, 90 % between {:.1f} and {:.1f}".format(*np.quantile(first, [0.5, 0.05, 0.95]))
)

# %% [markdown]
# ## What to take away
#
# - One number for the noise makes intervals wrong in both directions at once; the log density of rows left out shows it,
#   the coverage of intervals over all rows together does not.
# - `"heteroscedastic"` is not log-concave and has two functions to find; with few rows let predictions be averaged
#   over hyperparameters, which is the default.
# - Heavy tails are another thing: [outliers](outliers.py).
# - [Choose a likelihood](../how_to/likelihoods.md).
