# %% [markdown]
# # A first fit
#
# A thermometer was read 120 times, at some hours of the day, and each reading is off by about a degree. What was the
# temperature at noon, how sure is that, and when was it warmest? The data are made up, so that the answers can be
# compared with the truth.

# %%
import jax
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import kosambi as ko

rng = np.random.default_rng(0)
hours = np.sort(rng.uniform(0.0, 24.0, 120))


def day(hour):
    """The true temperature: 9 degrees at 4 o'clock in the morning, 21 at 16 in the afternoon."""
    return 15.0 - 6.0 * np.cos(2.0 * np.pi * (np.asarray(hour) - 4.0) / 24.0)


X = pd.DataFrame({"hour of the day": hours})
y = pd.Series(day(hours) + rng.normal(size=120), name="temperature")
train, test = slice(0, None, 2), slice(1, None, 2)
model = ko.ProjectedLangevinRegressor(progress=False).fit(X[train], y[train])

# %% [markdown]
# That is all: no kernel, no lengthscale, no noise was given. `fit` has standardised the column, chosen a family of
# kernels, drawn the hyperparameters from their posterior (with 60 rows one value of them would be too sure of itself) and
# drawn 100 functions.
#
# `plots.posterior` takes the fitted model and draws in the units of the table. The darker band holds the temperature at
# each hour with probability 95 %, the lighter one a new reading, and the thin lines are functions drawn.

# %%
axes = ko.plots.posterior(model, jax.random.key(0))
axes.plot(hours, day(hours), "k--", lw=1.0, label="truth")
axes.set_ylabel("temperature [°C]")
axes.legend(frameon=False)
plt.show()

# %% [markdown]
# ## Predictions
#
# Predictions come with their uncertainty. Beyond the data, at 30 hours, the function is not known: kosambi has not been
# told that days repeat, and says so by a wide interval.

# %%
new = pd.DataFrame({"hour of the day": [6.0, 12.0, 30.0]})
lower, upper = model.predict_interval(new, coverage=0.9)
print(
    pd.DataFrame(
        {"mean": model.predict(new), "lower": lower, "upper": upper, "truth": day([6.0, 12.0, 30.0])}, index=[6, 12, 30]
    ).round(1)
)

# %% [markdown]
# ## Questions about the whole curve
#
# When was it warmest, and for how long was it above 20 degrees? An interval at each hour does not answer that, since
# both depend on many hours at once. Functions do: each one drawn has an answer, and together the answers are its posterior
# distribution.

# %%
grid = np.linspace(0.0, 24.0, 289)  # every five minutes
functions = model.sample_functions(pd.DataFrame({"hour of the day": grid}), n_samples=100)  # (289, 100)
warmest = grid[functions.argmax(axis=0)]
above = (functions > 20.0).mean(axis=0) * 24.0
print("warmest at       {:4.1f} h, 90 % between {:4.1f} and {:4.1f}".format(*np.quantile(warmest, [0.5, 0.05, 0.95])))
print("above 20 degrees {:4.1f} h, 90 % between {:4.1f} and {:4.1f}".format(*np.quantile(above, [0.5, 0.05, 0.95])))
print(f"truth: {grid[day(grid).argmax()]:.1f} h and {24.0 * np.mean(day(grid) > 20.0):.1f} h")

# %% [markdown]
# ## Can it be trusted?
#
# Two questions. Did the computation work? The report says so. With Gaussian noise and few rows there are closed forms
# throughout: no step of a sampler was taken, and 100 draws are 100 independent ones.

# %%
print(model.report_)

# %% [markdown]
# And do predictions keep their promises? The other half of the rows judges that. Sixty rows find coarse faults only: the
# column "expected" has the standard errors.

# %%
print(ko.calibration.calibration_report(model.predict_distribution(X[test]), y[test].to_numpy()))

# %% [markdown]
# ## What to take away
#
# - One call fits; predictions, intervals and functions are in the units of the table.
# - Where there are no data the interval is wide, and nobody has to ask for that.
# - Functions answer questions about the whole curve: [Predictions and draws](../how_to/predictions.md).
# - Held-out rows are the judge: [How far to trust an answer](../how_to/trust.md).
#
# Next: [outliers](outliers.py), [counts](counts.py), or [all settings of the
# estimators](../how_to/estimators.md).
