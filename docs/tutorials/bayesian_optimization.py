# %% [markdown]
# # Bayesian optimisation
#
# A function costs much to evaluate, a day in a laboratory say, and its largest value is wanted after few evaluations.
# A posterior over functions says of each place what to expect there and how sure that is; an *acquisition function*
# turns it into the worth of an observation. Expected improvement over the best value $b$ seen so far is
#
# $$a(x) = E\,\max(f(x) - b, 0) = \sigma(x)\,\bigl(z\,\Phi(z) + \varphi(z)\bigr), \qquad z = \frac{\mu(x) - b}{\sigma(x)}.$$
#
# It is large where the mean is high and where little is known. The example has one input, so that all of it can be
# seen: the yield of a process at a temperature, measured with some noise.

# %%
import warnings

import jax
import matplotlib.pyplot as plt
import numpy as np

import kosambi as ko


def process(temperature):
    """The mean yield, in percent; nobody knows it."""
    t = (np.asarray(temperature) - 60.0) / 40.0
    return 55.0 + 18.0 * np.sin(5.0 * t) * np.exp(-0.5 * t**2)


rng = np.random.default_rng(2)
low, high = 20.0, 120.0
x = np.array([[30.0], [52.0], [80.0], [108.0]])
y = process(x[:, 0]) + 0.5 * rng.normal(size=4)

# %% [markdown]
# The first inputs cover the range. That matters: begun with three of them, at 28, 60 and 112 degrees, the same loop stays
# at the lower of the two peaks.
#
# Four measurements say little about lengthscale and noise. What is known of them beforehand goes into `priors`, in
# degrees and in percent: the yield changes over some 15 degrees, and a measurement is off by about half a percent. Forty
# inducing points on a grid carry everything that a function of this lengthscale can do between 20 and 120 degrees, so
# that they can stay as they are.

# %%
grid = np.linspace(low, high, 200)[:, None]
points = np.linspace(low, high, 40)[:, None]
priors = {
    "kernel.lengthscale": ko.hyperpriors.LogNormal(15.0, 0.3),
    "likelihood.noise": ko.hyperpriors.LogNormal(0.5, 0.3),
}
prior = ko.GaussianProcess(ko.kernels.Matern52(lengthscale=15.0, variance=100.0), mean=55.0)
likelihood = ko.likelihoods.Gaussian(0.5)


def learned(key, prior, likelihood, x, y):
    """Hyperparameters from all rows, from where they were; and the posterior."""
    with warnings.catch_warnings():
        # That few rows may mislead is why there are more rounds.
        warnings.simplefilter("ignore", ko.errors.HyperparameterWarning)
        prior, likelihood, _ = ko.fit_hyperparameters(
            key, prior, likelihood, x, y, priors=priors, num_restarts=0, progress=False
        )
    return prior, likelihood, ko.infer(key, prior, likelihood, x, y, inducing_points=points, sampler="exact")


# %% [markdown]
# One round is: learn, choose, measure. Hyperparameters are learned again every third round, and in between the new row is
# added in closed form by `condition`. The pictures show four of the rounds: above what is believed, below what an
# observation is worth.

# %%
rounds, shown = 8, (0, 2, 4, 7)
figure, panels = plt.subplots(2, 4, figsize=(13, 4.6), sharex=True, height_ratios=[3, 1], layout="constrained")
for number, key in enumerate(jax.random.split(jax.random.key(0), rounds)):
    if number % 3 == 0:
        prior, likelihood, posterior = learned(key, prior, likelihood, x, y)
    else:
        posterior = posterior.condition(key, x[-1:], y[-1:])
    improvement = ko.acquisition.ExpectedImprovement(posterior)
    new = ko.acquisition.maximize(key, improvement, [[low], [high]]).x
    if number in shown:
        above, below = panels[:, shown.index(number)]
        f = posterior.predict(grid)
        mean, sd = np.asarray(f.mean), np.asarray(f.standard_deviation)
        above.fill_between(grid[:, 0], mean - 2.0 * sd, mean + 2.0 * sd, color="#0072B2", alpha=0.2, lw=0)
        above.plot(grid[:, 0], mean, color="#0072B2")
        above.plot(grid[:, 0], process(grid[:, 0]), "k--", lw=0.8)
        above.plot(x[:, 0], y, "ko", ms=4)
        above.axvline(float(new[0]), color="#E69F00")
        above.set(title=f"{len(y)} measurements", ylabel="yield" if number == 0 else None)
        below.plot(grid[:, 0], improvement(grid), color="#E69F00")
        below.set(xlabel="temperature", ylabel="improvement" if number == 0 else None)
    x, y = np.vstack([x, new]), np.append(y, process(new) + 0.5 * rng.normal())
plt.show()

# %%
posterior = posterior.condition(jax.random.key(1), x[-1:], y[-1:])
best, found = grid[np.argmax(process(grid[:, 0])), 0], grid[np.argmax(posterior.predict(grid).mean), 0]
print(f"largest yield at {best:.1f} degrees; after {len(y)} measurements it is believed to be at {found:.1f}")
print(f"yield there {process(found):.2f}, and {process(best):.2f} at best")
print(prior.kernel, likelihood)

# %% [markdown]
# ## Other ways to choose
#
# `UpperConfidenceBound(posterior, deviations)` is the mean and that many standard deviations. `thompson` takes the maximum of one
# function drawn from the posterior, a way to choose several inputs at once. `KnowledgeGradient` asks how much the best
# *mean* will rise, which suits noisy measurements. All are maximised in the same way.

# %%
for acquisition in (
    ko.acquisition.UpperConfidenceBound(posterior, 2.0),
    ko.acquisition.ExpectedImprovement(posterior),
):
    top = ko.acquisition.maximize(jax.random.key(1), acquisition, [[low], [high]])
    print(f"{type(acquisition).__name__:22s} next at {float(top.x[0]):6.1f} degrees")

# %% [markdown]
# ## What to take away
#
# - Begin with inputs that cover the box, and say in `priors` what is known of the scale; few rows cannot.
# - Inducing points on a grid let `condition` add rows in closed form; learn hyperparameters again now and then.
# - In several columns, with a regressor that is begun from its last fit (`warm_start=True`), and beside BoTorch:
#   `examples/bayesian_optimization.py` and `benchmarks/optimization.py` in the repository; figures are in
#   [decision 38](../adr/0038-new-data-and-acquisition.md).
# - [Bayesian optimisation](../how_to/bayesian_optimization.md) lists all acquisition functions.
