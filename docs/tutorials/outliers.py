# %% [markdown]
# # Outliers
#
# A sensor slips now and then: one reading in twelve is off by far. With Gaussian noise
#
# $$y_n = f(x_n) + \varepsilon_n, \qquad \varepsilon_n \sim N(0, \sigma^2)$$
#
# a few such readings widen the noise for all. Student's t distribution has heavy tails, $p(\varepsilon) \propto (1 +
# \varepsilon^2 / (\nu s^2))^{-(\nu + 1)/2}$, so that an outlier is what it expects now and then. The data are made up: the
# curve is known, and so is which readings slipped.

# %%
import matplotlib.pyplot as plt
import numpy as np

import kosambi as ko

rng = np.random.default_rng(1)
x = np.sort(rng.uniform(-3.0, 3.0, 120))[:, None]
truth = np.sin(2.0 * x[:, 0])
y = truth + 0.15 * rng.normal(size=120)
slipped = np.arange(120) % 12 == 0
y[slipped] += rng.choice([-3.0, 3.0], size=10)
models = {
    name: ko.ProjectedLangevinRegressor(name, hyperparameters="evidence", progress=False).fit(x, y)
    for name in ("gaussian", "student_t")
}

# %%
figure, panels = plt.subplots(1, 2, figsize=(11, 4), sharey=True, layout="constrained")
for panel, (name, model) in zip(panels, models.items(), strict=True):
    ko.plots.posterior(model, axes=panel).set_title(name, loc="right")
    panel.plot(x[:, 0], truth, "k--", lw=1.0, label="truth")
    panel.set(xlabel="position", ylabel="reading" if name == "gaussian" else None)
plt.show()

# %% [markdown]
# How far the posterior mean is from the curve that made the data, how wide the band of f is, and what the noise of an
# ordinary reading is thought to be (it is 0.15):

# %%
for name, model in models.items():
    f = model.predict_distribution(x)
    error = np.sqrt(np.mean((np.asarray(f.mean) - truth) ** 2))
    print(f"{name:10s} error of the mean {error:.3f}, mean deviation of f {np.mean(f.standard_deviation):.3f}")
    print(f"{'':10s} {model.posterior_.likelihood}")

# %% [markdown]
# The Gaussian model is not wrong about its uncertainty (its band is wide), it is ignorant: it had to explain ten readings
# by noise that all of them share.
#
# ## Which readings slipped?
#
# Given the model, a reading is suspicious where it is improbable. Its log density under the fitted distribution ranks
# the readings:

# %%
density = np.asarray(models["student_t"].predict_log_density(x, y))
suspicious = np.argsort(density)[:10]
print(f"{np.sum(slipped[suspicious])} of the 10 least probable readings are among the 10 that slipped")

# %% [markdown]
# ## What does it cost where there are no outliers?
#
# The same curve without the slips. If heavy tails were learned where there are none, the band would be wider than
# necessary:

# %%
clean = y - np.where(slipped, np.round((y - truth) / 3.0) * 3.0, 0.0)
for name in models:
    model = ko.ProjectedLangevinRegressor(name, hyperparameters="evidence", progress=False).fit(x, clean)
    f = model.predict_distribution(x)
    error = np.sqrt(np.mean((np.asarray(f.mean) - truth) ** 2))
    print(f"{name:10s} error of the mean {error:.3f}, mean deviation of f {np.mean(f.standard_deviation):.3f}")

# %% [markdown]
# ## How it was drawn
#
# With Gaussian noise there are closed forms. Student's likelihood is not log-concave, so functions come from MCMC, and the
# report says whether they can be trusted:

# %%
print(models["student_t"].report_)

# %% [markdown]
# ## What to take away
#
# - `"student_t"` (or `"laplace"`, which is log-concave) takes the outliers for what they are, and costs next to nothing
#   where there are none. What it costs is a sampler in the place of a closed form.
# - Outliers that come in groups, or noise that grows with the inputs, are another problem: [noise that
#   varies](heteroscedastic.py).
# - [All likelihoods](../how_to/likelihoods.md), [how to read the report](../how_to/convergence.md).
