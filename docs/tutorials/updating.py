# %% [markdown]
# # Updating with new data
#
# Data come batch after batch, and a model is wanted after each. There are three ways, from cheap to thorough:
#
# | | hyperparameters | inducing points | what it costs |
# |---|---|---|---|
# | `posterior.condition(key, x, y)`, `partial_fit` | stay | stay | little: with Gaussian noise a closed form |
# | `fit` with `warm_start=True` | learned, from where they were | chosen anew | less than a fit from nothing |
# | `fit` | learned from nothing | chosen anew | a fit |
#
# The example is the temperature of the sea along 100 km of coast, measured by ships that pass at some places each day.

# %%
import time
import warnings

import jax
import matplotlib.pyplot as plt
import numpy as np

import kosambi as ko

rng = np.random.default_rng(5)


def sea(km):
    """What the ships measure, in degrees."""
    return 12.0 + 2.0 * np.sin(km / 9.0) + 1.5 * np.cos(km / 25.0)


X = rng.uniform(0.0, 100.0, (160, 1))
y = sea(X[:, 0]) + 0.4 * rng.normal(size=160)
days = np.array_split(np.arange(160), 8)

# %% [markdown]
# A kernel that is given is in the units of the columns: kilometres, and squared degrees. The thermometer's error of 0.4
# degrees is known, so that it is frozen; the rest is learned from the first day.

# %%
model = ko.ProjectedLangevinRegressor(
    ko.likelihoods.Gaussian(0.4),
    ko.kernels.Matern52(lengthscale=10.0, variance=4.0),
    freeze=["likelihood.noise"],
    hyperparameters="evidence",
    n_inducing="all",
    n_samples=20,
    warm_start=True,
    progress=False,
)
model.fit(X[days[0]], y[days[0]])
print(model.kernel_)

# %% [markdown]
# ## Rows that come later: `partial_fit`
#
# Each day's rows are added to those seen. The posterior is that of all rows at the same hyperparameters: with Gaussian
# noise and coordinates $w \sim N(m, S)$ it is Bayes' rule once more,
#
# $$S_1^{-1} = S^{-1} + \sigma^{-2}\,\Psi^\top \Psi, \qquad S_1^{-1} m_1 = S^{-1} m + \sigma^{-2}\,\Psi^\top (y - \mu),$$
#
# so that the order in which rows come does not matter. Inducing points stay too: rows at places of which they know
# little are warned of, and that is the moment for a fit of all rows. Here the 20 places of the first day are enough.

# %%
figure, panels = plt.subplots(1, 3, figsize=(13, 3.6), sharey=True, layout="constrained")
errors = []
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    for number, rows in enumerate(days[:4]):
        if number:
            # Before the rows of the day are shown to it.
            errors.append(float(np.mean(np.abs(model.predict(X[rows]) - y[rows]))))
            model.partial_fit(X[rows], y[rows])
        if number in (0, 1, 3):
            panel = panels[(0, 1, 3).index(number)]
            ko.plots.posterior(model, axes=panel).set_title(f"after day {number + 1}", loc="right")
            panel.set(xlabel="km", ylabel="temperature")
plt.show()
print("mean absolute error of each day before it is seen:", np.round(errors, 2))
print("rows seen:", model.posterior_.target.num_rows)
print("warnings:", sorted({str(each.message).split(",")[0] for each in said}) or "none")

# %% [markdown]
# ## When points and hyperparameters should change: `warm_start`
#
# `fit` with all rows then begins at the last fit's hyperparameters, and chooses points among all rows.

# %%
start = time.perf_counter()
model.fit(X, y)
print(f"warm fit of {len(X)} rows: {time.perf_counter() - start:.1f} s")
print(model.kernel_)
grid = np.linspace(0.0, 100.0, 201)[:, None]
print(f"error of the mean: {np.sqrt(np.mean((model.predict(grid) - sea(grid[:, 0])) ** 2)):.3f} degrees")

# %% [markdown]
# ## Without an estimator: `condition`
#
# A posterior of `infer` has the same. In closed form it equals a posterior of all rows with the same points, to rounding.

# %%
options = {"inducing_points": np.linspace(0.0, 100.0, 40)[:, None], "sampler": "exact", "num_neighbors": 0}
prior, likelihood = ko.GaussianProcess(model.kernel_, mean=12.0), ko.likelihoods.Gaussian(0.4)
early = ko.infer(jax.random.key(0), prior, likelihood, X[:80], y[:80], **options)
later = early.condition(jax.random.key(1), X[80:], y[80:])
whole = ko.infer(jax.random.key(0), prior, likelihood, X, y, **options)
print("largest difference of the means:", np.abs(later.predict(X).mean - whole.predict(X).mean).max())

# %% [markdown]
# Other likelihoods than the Gaussian are conditioned by their sampler, which begins at the present draws.
#
# ## What to take away
#
# - `partial_fit` and `condition` add rows without a new search; the order of rows does not matter.
# - A warning about points or hyperparameters, or errors that grow, are the sign for `fit` with `warm_start=True`.
# - [New data](../how_to/new_data.md).
