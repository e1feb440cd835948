# %% [markdown]
# # Many rows
#
# kin40k: the forward dynamics of a robot arm with eight joints, 40,000 rows, and hardly any noise. A function of eight
# inputs that rough needs many rows to be known, and the question is what a method does with them. With $M$ inducing
# points it knows what $M$ numbers can say; here near rows say the rest:
#
# $$f(x) = \mu + \psi(x)^\top w + g(x), \qquad g(x) \mid \text{the } m \text{ rows near } x.$$

# %% [markdown]
# The table is in common collections of benchmark data and states no licence: set `KOSAMBI_DATA` to a folder with
# `kin40k.csv.gz`, eight columns and `target`. Without it made-up rows of the same shape stand in, and the output says so.

# %%
import os
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import kosambi as ko

folder = Path(os.environ.get("KOSAMBI_DATA", "."))
if (folder / "kin40k.csv.gz").is_file():
    table = pd.read_csv(folder / "kin40k.csv.gz").sample(frac=1.0, random_state=0).to_numpy()
    X, y = table[:, :-1], table[:, -1]
else:
    print("STAND-IN: no file, rows are made up")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(14_000, 8))
    y = np.sin(X[:, 0] * X[:, 1]) + np.cos(X[:, 2]) + 0.05 * rng.normal(size=14_000)
test = slice(len(X) - 4000, None)


def judged(model, num_rows):
    """Seconds, error in standard deviations of the target, and log density, both of the same 4,000 rows."""
    start = time.perf_counter()
    model.fit(X[:num_rows], y[:num_rows])
    seconds = time.perf_counter() - start
    error = np.sqrt(np.mean((model.predict(X[test]) - y[test]) ** 2)) / y.std()
    return seconds, error, float(model.predict_log_density(X[test], y[test]).mean() + np.log(y.std()))


# %% [markdown]
# ## More rows, all defaults
#
# Seconds are those of a machine with two cores that does other things too, and include compiling.

# %%
found = []
for num_rows in (1000, 4000, len(X) - 4000):
    model = ko.ProjectedLangevinRegressor(hyperparameters="evidence", progress=False)
    seconds, error, density = judged(model, num_rows)
    target = model.posterior_.target
    found.append((num_rows, error, density))
    print(f"{num_rows:6d} rows: error {error:.3f}, log density {density:5.2f}, {seconds:4.0f} s; ", end="")
    print(f"M = {target.basis.size}, m = {getattr(target, 'num_neighbors', 0)}")

# %% [markdown]
# ## What neighbours are worth
#
# The same rows, kernel and noise with 512 inducing points alone. (A sparse Gaussian process makes more of 512 points by
# learning points, kernel and noise together: `n_inducing=512, n_neighbors=0` and nothing else has an error of 0.19 and a
# log density of 0.22 on these rows, at several times the cost.)

# %%
points = ko.ProjectedLangevinRegressor(
    model.posterior_.likelihood, model.kernel_, n_inducing=512, n_neighbors=0, hyperparameters=None, progress=False
)
seconds, error, density = judged(points, len(X) - 4000)
print(f"{len(X) - 4000:6d} rows, 512 points alone: error {error:.3f}, log density {density:.2f}, {seconds:.0f} s")

# %%
rows, errors, densities = map(np.array, zip(*found, strict=True))
figure, panels = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
for panel, values, alone, label in zip(
    panels, (errors, densities), (error, density), ("error [sd of the target]", "log density"), strict=True
):
    panel.semilogx(rows, values, "o-", color=ko.plots.BLUE, label="all defaults")
    panel.semilogx(rows[-1:], [alone], "s", color=ko.plots.ORANGE, label="512 points alone, same kernel")
    panel.set(xlabel="rows learned from", ylabel=label)
    panel.legend(frameon=False)
plt.show()

# %% [markdown]
# ## Labels
#
# For labels it is the same call. covtype has 581,012 rows of 54 columns: is a patch of forest lodgepole pine? (UCI, CC BY
# 4.0; `covtype.csv.gz` in the same folder.) So that this page builds in minutes, 10,000 rows are learned from; all of them
# take a quarter of an hour, and their figures are on [another page](../benchmarks.md).

# %%
if (folder / "covtype.csv.gz").is_file():
    table = pd.read_csv(folder / "covtype.csv.gz").sample(14_000, random_state=0)
    forest, pine = table.drop(columns="target"), table["target"].to_numpy() == 1
    classifier = ko.ProjectedLangevinClassifier(progress=False)
    start = time.perf_counter()
    classifier.fit(forest[:10_000], pine[:10_000])
    probability = classifier.predict_proba(forest[10_000:])[:, 1]
    loss = -np.mean(np.log(np.where(pine[10_000:], probability, 1.0 - probability)))
    wrong = np.mean((probability > 0.5) != pine[10_000:])
    print(f"{wrong:.1%} of 4,000 other rows wrong, log loss {loss:.3f}, {time.perf_counter() - start:.0f} s")
    logistic = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(forest[:10_000], pine[:10_000])
    print(f"logistic regression: {1.0 - logistic.score(forest[10_000:], pine[10_000:]):.1%} wrong")
else:
    print("covtype.csv.gz was not found: this part is left out")

# %% [markdown]
# ## What to take away
#
# - Nothing was set: with more rows the defaults go from all rows in closed form to points and neighbours by themselves.
# - Points alone stop improving where their number ends; neighbours go on with the rows.
# - Half a million rows are minutes on two cores, or on one accelerator: [Beside other libraries](../benchmarks.md).
# - [Many rows](../how_to/many_rows.md), [more rows than memory](../how_to/streams.md).
