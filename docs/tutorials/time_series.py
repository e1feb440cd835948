# %% [markdown]
# # Time series: trend, season, forecast
#
# Ten years of months (made up): a slow trend, a yearly season, noise. A sum of kernels is a sum of independent
# functions, $k = k_\text{trend} + k_\text{season}$, and what goes on for ever in the future is what the kernel says
# goes on for ever.

# %%
import jax
import matplotlib.pyplot as plt
import numpy as np

import kosambi as ko

rng = np.random.default_rng(0)
t = np.arange(120)[:, None] / 12.0
y = 0.4 * t[:, 0] + np.sin(2.0 * np.pi * t[:, 0]) + 0.3 * rng.normal(size=120)
past = t[:, 0] < 8.0
trend = ko.kernels.Linear() + ko.kernels.Constant()
season = ko.kernels.Periodic(lengthscale=1.0, period=1.0)
kernel, noise, fit = ko.fit_hyperparameters(
    jax.random.key(0),
    trend + season,
    ko.likelihoods.Gaussian(0.3),
    t[past],
    y[past],
    freeze=["kernel.*.period"],
    progress=False,
)
print(fit)

# %% [markdown]
# The last two years were held back. The season is carried on; the trend is a straight line because it was given as one.

# %%
posterior = ko.infer(jax.random.key(1), kernel, noise, t[past], y[past], progress=False)
axes = ko.plots.posterior(posterior, jax.random.key(2), x_new=np.linspace(0.0, 10.0, 400)[:, None], num_draws=3)
axes.plot(t[~past, 0], y[~past], "o", mfc="none", color="C2", label="held back")
axes.set_xlabel("years")
plt.show()
lower, upper = posterior.predict(t[~past]).interval(0.9)
print(f"{np.mean((lower <= y[~past]) & (y[~past] <= upper)):.0%} of 24 months inside their 90 % intervals")

# %% [markdown]
# ## From a table with dates
#
# The same months as a table whose column `date` is text. `TableTransformer` reads it and codes it by the days since the
# first one and, because it spans more than two years of months, by the time of year as a point on a circle. Kernel,
# lengthscales and noise are learned; the season goes on because the circle does.

# %%
import pandas as pd
from sklearn.pipeline import make_pipeline

months = pd.date_range("2015-01-01", periods=120, freq="MS")
table = pd.DataFrame({"date": months.strftime("%d.%m.%Y"), "sales": y})
pipeline = make_pipeline(
    ko.tables.TableTransformer(date_format={"date": "day-first"}),
    ko.ProjectedLangevinRegressor(hyperparameters="evidence", progress=False),
)
pipeline.fit(table.loc[past, ["date"]], table.loc[past, "sales"])
print(*pipeline[0].get_feature_names_out(), sep="\n")

# %%
model = pipeline[-1]
axes = ko.plots.timeline(model)
held_back = pipeline[0].transform(table.loc[~past, ["date"]])
axes.plot(held_back.iloc[:, 0], y[~past], "o", mfc="none", color="C2", label="held back")
plt.show()
ko.plots.partial_effect(model, pipeline[0].transform(table[["date"]]), "date: time of year")
plt.show()
lower, upper = model.predict_interval(held_back, coverage=0.9)
print(f"{np.mean((lower <= y[~past]) & (y[~past] <= upper)):.0%} of 24 months inside their 90 % intervals")

# %% [markdown]
# All days here are the first of a month, so nothing says whether day or month comes first, and the format must be given.
# The trend is not a straight line this time: beyond the last month it falls back on the prior mean, with a band that
# widens. What is known of the future, such as a trend that goes on, is said by the kernel, as above.
