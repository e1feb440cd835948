# %% [markdown]
# # Time series: trend, season, forecast
#
# A shop has sold ice cream for eight years and plans the next two: how much will be sold in each month, and will
# the freezers be large enough for the year after next? A sum of kernels is a sum of independent functions,
#
# $$f = f_\text{trend} + f_\text{season}, \qquad k = k_\text{trend} + k_\text{season},$$
#
# and what goes on in the future is what the kernel says goes on. The series is made up (in tons a month), so that the
# last two years can be compared with the forecast; a real one follows below.

# %%
import os
from pathlib import Path

import jax
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.pipeline import make_pipeline

import kosambi as ko

rng = np.random.default_rng(0)
years = np.arange(120)[:, None] / 12.0
season = 3.0 * np.sin(2.0 * np.pi * (years[:, 0] - 0.25)) + 1.0 * np.cos(4.0 * np.pi * years[:, 0])
sold = 20.0 + 0.6 * years[:, 0] + season + 0.8 * rng.normal(size=120)
past = years[:, 0] < 8.0

# %% [markdown]
# The trend is a straight line with an unknown level and slope, the season repeats after a year, and the year is known, so
# that the period is frozen. Everything else is learned.

# %%
k = ko.kernels
trend, yearly = k.Linear(variance=1.0) + k.Constant(variance=100.0), k.Periodic(period=1.0, variance=10.0)
prior = ko.GaussianProcess(trend + yearly)
prior, noise, fit = ko.fit_hyperparameters(
    jax.random.key(0),
    prior,
    ko.likelihoods.Gaussian(1.0),
    years[past],
    sold[past],
    freeze=["kernel.*.period"],
    progress=False,
)
print(fit)

# %% [markdown]
# ## The forecast
#
# The last two years were held back. Beside it the forecast with a Matérn kernel, which knows nothing of seasons: it
# follows the past as well, and then goes back to the mean.

# %%
posterior = ko.infer(jax.random.key(1), prior, noise, years[past], sold[past], progress=False)
smooth = ko.fit_hyperparameters(
    jax.random.key(0),
    ko.GaussianProcess(k.Matern52()),
    ko.likelihoods.Gaussian(),
    years[past],
    sold[past],
    progress=False,
)[:2]
blind = ko.infer(jax.random.key(1), *smooth, years[past], sold[past], progress=False)
grid = np.linspace(0.0, 10.0, 400)[:, None]
figure, panels = plt.subplots(2, 1, figsize=(10, 6), sharex=True, sharey=True, layout="constrained")
for panel, each, title in zip(panels, (posterior, blind), ("trend and season", "Matérn-5/2"), strict=True):
    ko.plots.posterior(each, jax.random.key(2), x_new=grid, num_draws=3, axes=panel)
    panel.plot(years[~past, 0], sold[~past], "o", mfc="none", color="C2", label="held back")
    panel.set(ylabel="tons a month")
    panel.set_title(title, loc="right")
    lower, upper = each.predict(years[~past]).interval(0.9)
    inside = np.mean((lower <= sold[~past]) & (sold[~past] <= upper))
    error = np.sqrt(np.mean((each.predict(years[~past]).mean - sold[~past]) ** 2))
    print(f"{title:17s} error {error:.2f} tons, {inside:.0%} of 24 months inside 90 % intervals, ", end="")
    print(f"which are {np.mean(upper - lower):.1f} tons wide")
panels[0].set_xlabel("")
panels[1].set_xlabel("years; circles were held back")
plt.show()

# %% [markdown]
# ## Trend and season apart
#
# Each part of a sum has a posterior of its own. For Gaussian noise it is a formula: with $K$ the covariance of the data
# and $k_p$ the kernel of a part, $E[f_p(x) \mid y] = k_p(x, X)(K + \sigma^2 I)^{-1}(y - m)$.

# %%
X, sigma = years[past], float(noise.noise)
K = np.asarray(prior.covariance(X)) + sigma**2 * np.eye(len(X))
residual = np.linalg.solve(K, sold[past] - prior.mean_at(X))
linear, constant, periodic = prior.kernel.kernels
figure, panels = plt.subplots(1, 2, figsize=(11, 3.6), layout="constrained")
for panel, part, title in zip(panels, (linear + constant, periodic), ("trend", "season"), strict=True):
    cross = np.asarray(part(grid, X))
    mean = cross @ residual + (prior.mean if title == "trend" else 0.0)
    sd = np.sqrt(np.asarray(part.diagonal(grid)) - np.sum(cross * np.linalg.solve(K, cross.T).T, axis=1))
    panel.fill_between(grid[:, 0], mean - 1.96 * sd, mean + 1.96 * sd, color=ko.plots.BLUE, alpha=0.25, lw=0)
    panel.plot(grid[:, 0], mean, color=ko.plots.BLUE)
    panel.set(xlabel="years", ylabel="tons a month", title=title)
slope = float(linear.variance) * X[:, 0] @ residual
slope_sd = np.sqrt(float(linear.variance) - float(linear.variance) ** 2 * X[:, 0] @ np.linalg.solve(K, X[:, 0]))
print(f"slope of the trend {slope:.2f} ± {slope_sd:.2f} tons a month in a year (0.6 in truth)")
plt.show()

# %% [markdown]
# ## Questions about whole years
#
# A year's total is a sum of twelve months that are uncertain together: if the slope is larger, all of them are. Functions
# carry that; intervals of single months do not.

# %%
tenth = years[108:, :]
f = np.asarray(posterior.functions(jax.random.key(3))(tenth))  # (100, 12)
total = np.sum(f + sigma * np.random.default_rng(1).normal(size=f.shape), axis=1)
alone = np.sqrt(np.sum(posterior.predict(tenth).observation_variance))
print(
    f"total of year 10: {total.mean():.0f} ± {total.std(ddof=1):.1f} tons (± {alone:.1f} if months were independent), ",
    end="",
)
print(f"and it was {sold[108:].sum():.0f}")
print(f"more than the 315 tons that the freezers can make: probability {np.mean(total > 315.0):.2f}")

# %% [markdown]
# ## A real series: bicycles by the hour
#
# Six weeks of rentals in Washington, in the late summer of 2012 (`bike_hour`, UCI, CC BY 4.0): five to learn from, one to
# forecast. A day looks like the day before, and a Sunday like the Sunday before: two periods, of 24 and of 168 hours, and a
# slow drift. The root of a count has about the same noise everywhere, so that Gaussian noise will do.

# %%
place = next(
    p for p in (Path("data"), Path("docs/tutorials/data"), Path(os.environ.get("KOSAMBI_DATA", "."))) if p.is_dir()
)
table = pd.read_csv(place / "bike_hour.csv.gz")
day = (table["hr"].diff() < 0).cumsum()  # some hours without rentals are not in the table
begin = day[(table["yr"] == 1) & (table["mnth"] == 8) & (table["weekday"] == 1)].iloc[0]
weeks = table[(day >= begin) & (day < begin + 42)]
hours = (24.0 * (day - begin) + table["hr"])[weeks.index].to_numpy(float)[:, None]
root = np.sqrt(weeks["target"].to_numpy())
known = hours[:, 0] < 5 * 168
kernel = (
    k.Periodic(period=24.0, lengthscale=0.5, variance=20.0)
    + k.Periodic(period=168.0, lengthscale=0.2, variance=20.0)
    + k.Matern32(lengthscale=12.0, variance=5.0)
)
prior, noise, fit = ko.fit_hyperparameters(
    jax.random.key(4),
    ko.GaussianProcess(kernel, mean=14.0),
    ko.likelihoods.Gaussian(1.0),
    hours[known],
    root[known],
    freeze=["kernel.*.period"],
    num_restarts=0,
    progress=False,
)
print(prior.kernel, noise)

# %%
bicycles = ko.infer(jax.random.key(5), prior, noise, hours[known], root[known], num_inducing="all", progress=False)
prediction = bicycles.predict(hours[~known])
low, high = (np.square(np.maximum(end, 0.0)) for end in prediction.interval(0.9))
count = weeks["target"].to_numpy()[~known]
same_hour = {hour: np.mean(root[known][np.isclose(hours[known, 0] % 168, hour)]) ** 2 for hour in range(168)}
usual = np.array([same_hour[hour % 168] for hour in hours[~known, 0].astype(int)])
figure, axes = plt.subplots(figsize=(11, 3.8), layout="constrained")
days = hours[~known, 0] / 24.0 - 35.0
axes.fill_between(days, low, high, color=ko.plots.BLUE, alpha=0.25, lw=0, label="90 %, forecast from Monday 0 h")
axes.plot(days, np.square(prediction.mean), color=ko.plots.BLUE)
axes.plot(days, count, "k.", ms=3, label="what came")
axes.set(xlabel="days of the week that was held back", ylabel="bicycles rented in the hour")
axes.legend(frameon=False)
plt.show()
print(f"{np.mean((low <= count) & (count <= high)):.0%} of {len(count)} hours inside their 90 % intervals")
print(f"mean absolute error {np.mean(np.abs(np.square(prediction.mean) - count)):.0f} bicycles, ", end="")
print(f"of the usual number in that hour of the week {np.mean(np.abs(usual - count)):.0f}")

# %% [markdown]
# As a guess the usual number of that hour of the week is about as good: five weeks say little more than what is usual. What
# it does not have is the interval.

# %% [markdown]
# ## The shop's table, without choosing a kernel
#
# The months are a column of dates in the shop's table, as text. `TableTransformer` reads it, says so, and codes it by the
# days since the first one and, because it spans more than two years of months, by the time of year as a point on a circle:
# a season that goes on for any kernel. All days are the first of a month, so that nothing in the column says whether the
# day or the month comes first, and the format must be given.

# %%
months = pd.date_range("2015-01-01", periods=120, freq="MS")
shop = pd.DataFrame({"month": months.strftime("%d/%m/%Y")})
pipeline = make_pipeline(
    ko.tables.TableTransformer(date_format={"month": "day-first"}),
    ko.ProjectedLangevinRegressor(progress=False),
)
pipeline.fit(shop[past], sold[past])
coder, model = pipeline
print(*coder.notes_, *coder.get_feature_names_out(), sep="\n")

# %%
held_back = coder.transform(shop[~past])
lower, upper = model.predict_interval(held_back, coverage=0.9)
days = held_back.iloc[:, 0].to_numpy()
figure, panels = plt.subplots(1, 2, figsize=(12, 4), width_ratios=(2, 1), layout="constrained")
ko.plots.timeline(model, num_draws=0, axes=panels[0])
panels[0].fill_between(days, lower, upper, color="C2", alpha=0.25, lw=0, label="forecast, 90 %")
panels[0].plot(days, sold[~past], "o", mfc="none", color="C2", label="held back")
panels[0].set(xlim=(None, days.max() + 30.0), ylabel="tons a month")
panels[0].legend(frameon=False, fontsize="small", ncols=3)
ko.plots.partial_effect(model, coder.transform(shop[past]), "month: time of year", axes=panels[1])
plt.show()
inside = np.mean((lower <= sold[~past]) & (sold[~past] <= upper))
error = np.sqrt(np.mean((model.predict(held_back) - sold[~past]) ** 2))
print(f"error {error:.2f} tons, {inside:.0%} of 24 months inside 90 % intervals, ", end="")
print(f"which are {np.mean(upper - lower):.1f} tons wide")

# %% [markdown]
# With no kernel chosen the forecast is as near as with the one made by hand. Its intervals are wider: it does not know that
# the trend is a straight line. Farther ahead the trend falls back on the mean, and the band widens; what is known to go on
# for ever is said by a kernel, as above.

# %% [markdown]
# ## What to take away
#
# - A forecast is as good as what the kernel says of the future: `Linear` and `Periodic` go on for ever, a Matérn kernel
#   returns to the mean after a lengthscale or two.
# - Freeze a period that is known; learn the rest.
# - [Dates in a table](../how_to/tables.md#dates-and-times) bring their seasons with them; a trend that goes on is said by a
#   kernel.
# - Questions about sums and differences of several months go to functions.
# - [Choose a kernel](../how_to/kernels.md), [learn hyperparameters](../how_to/hyperparameters.md).
