# %% [markdown]
# # A first fit
#
# A noisy curve, one call, and what came of it: functions drawn from the posterior, intervals, and a check on rows that
# the fit has not seen.

# %%
import jax
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import kosambi as ko

rng = np.random.default_rng(0)
hours = np.sort(rng.uniform(0.0, 24.0, 120))
truth = 15.0 - 6.0 * np.cos(2.0 * np.pi * (hours - 4.0) / 24.0)
X = pd.DataFrame({"hour of the day": hours})
y = pd.Series(truth + rng.normal(size=120), name="temperature")
model = ko.ProjectedLangevinRegressor(progress=False).fit(X[::2], y[::2])

# %% [markdown]
# `plots.posterior` takes the fitted model and draws in the units of the table. The darker band holds the function at
# each input with probability 95 %, the lighter one a new observation, and the thin lines are functions drawn.

# %%
axes = ko.plots.posterior(model, jax.random.key(0))
axes.set_ylabel("temperature")
plt.show()

# %% [markdown]
# Predictions come with their uncertainty. Beyond the data, at 30 hours, the function is not known: kosambi has not been
# told that days repeat, and says so by a wide interval.

# %%
new = pd.DataFrame({"hour of the day": [6.0, 12.0, 30.0]})
lower, upper = model.predict_interval(new, coverage=0.9)
print(pd.DataFrame({"mean": model.predict(new), "lower": lower, "upper": upper}, index=[6, 12, 30]).round(1))

# %% [markdown]
# The other half of the rows judges the fit. Sixty rows find coarse faults only: the column "expected" has the standard
# errors.

# %%
print(ko.calibration.calibration_report(model.predict_distribution(X[1::2]), y[1::2].to_numpy()))
