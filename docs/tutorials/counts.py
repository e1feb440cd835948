# %% [markdown]
# # Counts
#
# Coal mining disasters in Britain by year, 1851 to 1962. Counts are whole numbers and their rate is positive:
#
# $$y_n \sim \mathrm{Poisson}(\lambda(x_n)), \qquad \lambda = e^{f}.$$

# %% [markdown]
# The file is looked for in the folder that the environment variable `KOSAMBI_DATA` names and in `reproduction/data` of
# the repository. It is the table `coal` of the R package boot, counted by year. Without it, made-up rows of the same shape stand in, and the output says so.

# %%
import os
from pathlib import Path

folders = [Path(os.environ.get("KOSAMBI_DATA", ".")), Path("../../reproduction/data"), Path("reproduction/data")]
file = next((folder / "coal_yearly.csv.gz" for folder in folders if (folder / "coal_yearly.csv.gz").is_file()), None)

import jax
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import kosambi as ko

if file is None:
    print("STAND-IN: no file, rows are made up")
    years = np.arange(1851.0, 1963.0)
    counts = np.random.default_rng(0).poisson(np.where(years < 1890, 3.0, 1.0))
else:
    table = pd.read_csv(file)
    years, counts = table["year"].to_numpy(float), table["target"].to_numpy()
X = pd.DataFrame({"year": years})
model = ko.ProjectedLangevinRegressor("poisson", progress=False).fit(X, counts)
axes = ko.plots.posterior(model, jax.random.key(0))
axes.set_ylabel("disasters")
plt.show()

# %% [markdown]
# A question about the whole curve needs functions: when did the rate fall fastest? Each function has an answer, and
# together they are its posterior distribution. It is wide; yearly counts of about three do not date the fall well.

# %%
grid = pd.DataFrame({"year": np.arange(1855.0, 1960.0)})
rates = np.exp(model.sample_functions(grid, n_samples=100))
steepest = grid["year"].to_numpy()[:-1][np.diff(rates, axis=0).argmin(axis=0)]
print("steepest fall: median", np.median(steepest), "50 % between", *np.quantile(steepest, [0.25, 0.75]))

# %% [markdown]
# Bicycle rentals by the hour vary more than a Poisson distribution allows, given hour, temperature and the like. The
# negative binomial distribution has one more parameter for that. 250 rows of `bike_hour` (UCI, CC BY 4.0):

# %%
bikes = next((f / "bike_hour.csv.gz" for f in folders if (f / "bike_hour.csv.gz").is_file()), None)
if bikes is None:
    print("bike_hour.csv.gz was not found: this part is left out")
else:
    table = pd.read_csv(bikes).sample(650, random_state=0)
    X, y = table[["hr", "temp", "workingday"]], table["target"].to_numpy()
    for name in ("poisson", "negative_binomial"):
        fit = ko.ProjectedLangevinRegressor(name, hyperparameters="evidence", n_inducing=32, progress=False)
        fit.fit(X[:250], y[:250])
        density = fit.predict_log_density(X[250:], y[250:])
        lower, upper = fit.predict_interval(X[250:], coverage=0.9)
        inside = np.mean((lower <= y[250:]) & (y[250:] <= upper))
        print(f"{name:18s} log density {density.mean():8.2f}, inside 90 % intervals {100 * inside:.0f} %")
