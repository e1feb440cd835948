# %% [markdown]
# # Many rows
#
# Above some thousand rows inducing points alone are not enough, and near rows inform what they leave open. kin40k: the
# forward dynamics of a robot arm, 40,000 rows. So that this page builds in a minute, 2,000 of them are learned from here; the
# README has the figures of all rows, and of covtype, half a million labels.

# %% [markdown]
# The file is looked for in the folder that the environment variable `KOSAMBI_DATA` names and in `reproduction/data` of
# the repository. It is in common collections of benchmark data. Without it, made-up rows of the same shape stand in, and the output says so.

# %%
import os
from pathlib import Path

folders = [Path(os.environ.get("KOSAMBI_DATA", ".")), Path("../../reproduction/data"), Path("reproduction/data")]
file = next((folder / "kin40k.csv.gz" for folder in folders if (folder / "kin40k.csv.gz").is_file()), None)

import time

import numpy as np
import pandas as pd

import kosambi as ko

if file is None:
    print("STAND-IN: no file, rows are made up")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 8))
    y = np.sin(X[:, 0] * X[:, 1]) + np.cos(X[:, 2]) + 0.05 * rng.normal(size=3000)
else:
    table = pd.read_csv(file).sample(3000, random_state=0).to_numpy()
    X, y = table[:, :-1], table[:, -1]
train, test = slice(0, 2000), slice(2000, 3000)

# %%
for neighbors in (0, 32):
    start = time.perf_counter()
    model = ko.ProjectedLangevinRegressor(
        n_inducing=64, n_neighbors=neighbors, hyperparameters="evidence", progress=False
    ).fit(X[train], y[train])
    mean = model.predict(X[test])
    density = model.predict_log_density(X[test], y[test]).mean()
    error = np.sqrt(np.mean((mean - y[test]) ** 2)) / y.std()
    seconds = time.perf_counter() - start
    print(f"{neighbors:3d} neighbours: error {error:.3f} sd, log density {density:.2f}, {seconds:.0f} s")

# %% [markdown]
# `ko.ProjectedLangevinRegressor()` without settings chooses both numbers by itself. For labels the same holds; with
# `covtype.csv.gz` at hand, `python -m benchmarks.large` fits all of its rows.
