# %% [markdown]
# # Several outputs
#
# Two quantities at the same inputs, such as the temperatures of two rooms, mostly vary together. A model of both knows
# more than a model of each: where one sensor was down, the other still says something. The outputs are mixtures of
# latent functions,
#
# $$f_p(x) = \sum_q L_{pq}\, g_q(x), \qquad y_{np} = f_p(x_n) + \varepsilon_{np},$$
#
# a *linear model of coregionalisation*. Cells of `y` that are NaN were not observed.

# %%
import matplotlib.pyplot as plt
import numpy as np

import kosambi as ko

rng = np.random.default_rng(1)
hours = np.sort(rng.uniform(0.0, 24.0, 48))
common = np.sin(2.0 * np.pi * hours / 12.0) + 0.5 * np.sin(2.0 * np.pi * hours / 5.0)
truth = np.column_stack([20.0 + 2.0 * common, 65.0 - 9.0 * common + 0.4 * hours])  # degrees, and % humidity
y = truth + rng.normal(size=truth.shape) * [0.2, 1.0]
y[(hours > 10.0) & (hours < 18.0), 0] = np.nan  # the thermometer was down
y[::4, 1] = np.nan
X = hours[:, None]

# %% [markdown]
# `y` has two columns, so this is a fit of both. Next to it a fit of the thermometer alone, from the rows that have it.

# %%
model = ko.ProjectedLangevinRegressor(kernel="matern52", progress=False).fit(X, y)
seen = ~np.isnan(y[:, 0])
alone = ko.ProjectedLangevinRegressor(kernel="matern52", hyperparameters="evidence", progress=False)
alone.fit(X[seen], y[seen, 0])
gap = ~seen
for name, mean in (("both outputs", model.predict(X[gap])[:, 0]), ("thermometer alone", alone.predict(X[gap]))):
    print(
        f"{name:18s} error where the thermometer was down: {np.sqrt(np.mean((mean - truth[gap, 0]) ** 2)):.2f} degrees"
    )

# %%
grid = np.linspace(0.0, 24.0, 200)[:, None]
mean, (low, high) = model.predict(grid), model.predict_interval(grid)
figure, panels = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
for p, (panel, label) in enumerate(zip(panels, ("temperature [°C]", "humidity [%]"), strict=True)):
    panel.fill_between(grid[:, 0], low[:, p], high[:, p], alpha=0.2)
    panel.plot(grid[:, 0], mean[:, p])
    panel.plot(hours, y[:, p], "k.", markersize=4)
    panel.set(xlabel="hour", ylabel=label)
panels[0].plot(grid[:, 0], alone.predict(grid), "--", label="thermometer alone")
panels[0].legend()
plt.show()

# %% [markdown]
# Predictions are correlated: in the gap, where f is uncertain, a temperature that is higher than expected goes with a
# humidity that is lower. `return_cov` gives the covariance of the outputs of each row, and `sample_y` draws them
# together. The joint log density uses it, and integrates over cells that are NaN.

# %%
new = np.array([[14.0]])
mean, covariance = model.predict(new, return_cov=True)
deviation = np.sqrt(np.diag(covariance[0]))
print("correlation of the two observations at 14 h:", round(covariance[0, 0, 1] / deviation.prod(), 2))
drawn = model.sample_y(new, n_samples=2000)
print("and of 2000 draws:", np.corrcoef(drawn[0]).round(2)[0, 1])
print("log density of both:", model.predict_log_density(new, mean).round(2), "and of the humidity alone:",
      model.predict_log_density(new, [[np.nan, mean[0, 1]]]).round(2))  # fmt: skip

# %% [markdown]
# What was learned: the loadings $L$ of both latent functions, and a noise for each output, in standard deviations of
# the outputs.

# %%
print(model.fit_report_)

# %% [markdown]
# The first latent function, quick, moves both outputs in opposite directions; the second, slow, moves mostly the humidity.
# That is how the rows were made: a common wave with opposite signs, and a drift of the humidity.
#
# ## What to take away
#
# - `y` with several columns is one model of all of them; NaN is a cell that was not observed.
# - It pays where outputs go together and some cells are missing, or where a question is about several outputs at once.
# - [Several outputs](../how_to/several_outputs.md) has the model and its limits (Gaussian noise, some thousand cells).
