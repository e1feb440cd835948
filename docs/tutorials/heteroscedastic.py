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
# At 5 ms the first interval is nearly empty, and at 30 ms observations fall outside of it. That shows in the log density
# of rows that were left out. Every third row is left out in turn; what counts is the difference of the two models, row by
# row:

# %%
density = {name: np.empty(len(y)) for name in models}
for fold in range(3):
    out = np.arange(len(y)) % 3 == fold
    for name in models:
        fit = ko.ProjectedLangevinRegressor(name, hyperparameters="evidence", progress=False).fit(X[~out], y[~out])
        density[name][out] = fit.predict_log_density(X[out], y[out])
difference = density["heteroscedastic"] - density["gaussian"]
error = difference.std(ddof=1) / np.sqrt(len(difference))
print({name: round(float(each.mean()), 2) for name, each in density.items()})
print(f"difference {difference.mean():+.2f} ± {error:.2f} nats per observation, median {np.median(difference):+.2f}")
print(
    "most against it:", [(float(t[n]), float(y[n]), round(float(difference[n]), 1)) for n in difference.argsort()[:3]]
)

# %% [markdown]
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
# - `"heteroscedastic"` is not log-concave and has two functions to find; it needs rows enough to see a spread everywhere.
# - Heavy tails are another thing: [outliers](outliers.py).
# - [Choose a likelihood](../how_to/likelihoods.md).
