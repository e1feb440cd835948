# %% [markdown]
# # Outliers
#
# One observation in twelve is off by far. With Gaussian noise
#
# $$y_n = f(x_n) + \varepsilon_n, \qquad \varepsilon_n \sim N(0, \sigma^2)$$
#
# a few of them widen the noise for all; with Student-t noise they are what that distribution expects now and then.

# %%
import matplotlib.pyplot as plt
import numpy as np

import kosambi as ko

rng = np.random.default_rng(1)
x = np.sort(rng.uniform(-3.0, 3.0, 120))[:, None]
truth = np.sin(2.0 * x[:, 0])
y = truth + 0.15 * rng.normal(size=120)
y[::12] += rng.choice([-3.0, 3.0], size=10)
models = {
    name: ko.ProjectedLangevinRegressor(name, hyperparameters="evidence", progress=False).fit(x, y)
    for name in ("gaussian", "student_t")
}

# %%
figure, panels = plt.subplots(1, 2, figsize=(11, 4), sharey=True, layout="constrained")
for panel, (name, model) in zip(panels, models.items(), strict=True):
    ko.plots.posterior(model, axes=panel).set_title(name, loc="right")
plt.show()

# %% [markdown]
# How far the posterior mean is from the curve that made the data, and how wide the band of f is:

# %%
for name, model in models.items():
    f = model.predict_distribution(x)
    error = np.sqrt(np.mean((np.asarray(f.mean) - truth) ** 2))
    print(f"{name:10s} error of the mean {error:.3f}, mean deviation of f {np.mean(f.standard_deviation):.3f}")
