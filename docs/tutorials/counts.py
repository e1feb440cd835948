# %% [markdown]
# # Counts
#
# Coal mining disasters in Britain by year, 1851 to 1962: they became fewer, but when, and by how much? Counts are whole numbers and their rate is positive:
#
# $$y_n \sim \mathrm{Poisson}(\lambda(x_n)), \qquad \lambda = e^{f}.$$
#
# The logarithm of the rate has a Gaussian process as its prior, so that the rate may change in any smooth way.

# %%
import os
from pathlib import Path

import jax
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import kosambi as ko


def find(name):
    """The file in the folder that KOSAMBI_DATA names or in the repository, if it is there."""
    folders = [os.environ.get("KOSAMBI_DATA", "."), "data", "docs/tutorials/data"]
    return next((path for path in (Path(folder) / name for folder in folders) if path.is_file()), None)


# %% [markdown]
# The table is `coal` of the R package boot, counted by year (Jarrett 1979). It states no licence and is not in the
# repository: set `KOSAMBI_DATA` to a folder with `coal_yearly.csv.gz`, columns `year` and `target`. Without it made-up
# counts stand in, and the output says so.

# %%
if (file := find("coal_yearly.csv.gz")) is None:
    print("STAND-IN: no file, rows are made up")
    years = np.arange(1851.0, 1963.0)
    counts = np.random.default_rng(0).poisson(np.where(years < 1890, 3.0, 1.0))
else:
    table = pd.read_csv(file)
    years, counts = table["year"].to_numpy(float), table["target"].to_numpy()
X = pd.DataFrame({"year": years})
model = ko.ProjectedLangevinRegressor("poisson", progress=False).fit(X, counts)
axes = ko.plots.posterior(model, jax.random.key(0))
axes.set_ylabel("disasters in the year")
plt.show()

# %% [markdown]
# The dark band holds the rate, the light one counts. With a Gaussian likelihood the light band would reach below zero,
# and would be as wide in the quiet years as in the bad ones.
#
# ## When did it change?
#
# A question about the whole curve needs functions: in which year did the rate fall fastest, and when did it first go
# below two a year for good? Each function drawn has an answer, and together they are its posterior distribution.

# %%
grid = np.arange(1855.0, 1960.0)
rates = np.exp(model.sample_functions(pd.DataFrame({"year": grid}), n_samples=400))  # (105, 400)
steepest = grid[:-1][np.diff(rates, axis=0).argmin(axis=0)]
above = rates >= 2.0
for_good = grid[np.where(above.any(axis=0), len(grid) - 1 - above[::-1].argmax(axis=0), 0)]
figure, panels = plt.subplots(1, 2, figsize=(10, 3.4), layout="constrained")
for panel, years_found, title in zip(
    panels, (steepest, for_good), ("the rate falls fastest", "the last year with a rate of 2 or more"), strict=True
):
    panel.hist(years_found, bins=np.arange(1855, 1962, 3), color=ko.plots.BLUE, alpha=0.6, density=True)
    panel.set(xlabel="year", ylabel="posterior density", title=title)
    print(f"{title}: 50 % between {np.quantile(years_found, 0.25):.0f} and {np.quantile(years_found, 0.75):.0f}")
plt.show()

# %% [markdown]
# Yearly counts of about three date the fall to a decade, no better. How large it was is known as well as that:

# %%
early, late = rates[(grid >= 1860) & (grid < 1870)].mean(axis=0), rates[(grid >= 1900) & (grid < 1910)].mean(axis=0)
print(f"rate of the 1860s over that of the 1900s: {np.median(early / late):.1f}, ", end="")
print("90 % between {:.1f} and {:.1f}".format(*np.quantile(early / late, [0.05, 0.95])))

# %% [markdown]
# ## More variance than Poisson
#
# A Poisson count has a variance equal to its mean. Bicycles rented in an hour vary more than that, given the hour, the
# temperature and whether it is a working day: rain, holidays and fashion are not in the table. The *negative binomial*
# distribution has one more parameter for it, $\operatorname{Var} y = \lambda + \alpha \lambda^2$. 400 of the 17,379 hours
# of `bike_hour` (UCI, CC BY 4.0), 1,000 others to judge:

# %%
table = pd.read_csv(find("bike_hour.csv.gz")).sample(1400, random_state=0)
X = table[["hr", "temp", "workingday"]].rename(columns={"hr": "hour", "temp": "temperature"})
X["temperature"] = 41.0 * X["temperature"]  # the file has degrees Celsius over 41
y, new, then = table["target"].to_numpy()[:400], X[400:], table["target"].to_numpy()[400:]
fits = {}
for name in ("poisson", "negative_binomial"):
    fits[name] = ko.ProjectedLangevinRegressor(name, hyperparameters="evidence", progress=False).fit(X[:400], y)
    density = fits[name].predict_log_density(new, then)
    lower, upper = fits[name].predict_interval(new, coverage=0.9)
    inside = np.mean((lower <= then) & (then <= upper))
    print(f"{name:18s} log density {density.mean():7.2f}, inside 90 % intervals {inside:.0%}")
print(fits["negative_binomial"].posterior_.likelihood)

# %% [markdown]
# The Poisson model has to take every deviation for a change of the rate. That makes its rate rough, and its intervals wrong
# both ways: too narrow where there are rows, wild between them.

# %%
workday = pd.DataFrame({"hour": np.linspace(0, 23, 93), "temperature": 20.0, "workingday": 1})
figure, axes = plt.subplots(figsize=(7, 3.6), layout="constrained")
for name, colour in zip(fits, (ko.plots.ORANGE, ko.plots.BLUE), strict=True):
    low, high = fits[name].predict_interval(workday, coverage=0.9)
    axes.fill_between(workday["hour"], low, high, color=colour, alpha=0.25, lw=0, label=f"90 % of y, {name}")
    axes.plot(workday["hour"], fits[name].predict(workday), color=colour)
axes.set(xlabel="hour of a working day at 20 °C", ylabel="bicycles rented in the hour")
axes.legend(frameon=False)
plt.show()

# %% [markdown]
# ## What to take away
#
# - `"poisson"`, and if held-out counts fall outside of their intervals too often, `"negative_binomial"` or
#   `"zero_inflated_poisson"`.
# - Counts have discrete distributions: intervals end at whole numbers, and hold a little more than they promise.
# - Changes in time are questions about functions; `sample_functions` gives the logarithm of the rate.
# - [Choose a likelihood](../how_to/likelihoods.md), [calibration](../how_to/calibration.md).
