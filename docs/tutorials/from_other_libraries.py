# %% [markdown]
# # From scikit-learn, GPyTorch, GPflow
#
# The same models side by side: an exact Gaussian process with a Matérn-5/2 kernel and learned hyperparameters, and a
# classification with inducing points. scikit-learn's and kosambi's code runs here; that of GPyTorch and GPflow is shown
# as text, after their documentation.

# %%
import jax
import matplotlib.pyplot as plt
import numpy as np
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

import kosambi as ko

rng = np.random.default_rng(0)
x = np.sort(rng.uniform(-3.0, 3.0, 80))[:, None]
y = np.sin(2.0 * x[:, 0]) + 0.2 * rng.normal(size=80)
x_new = np.linspace(-3.0, 3.0, 7)[:, None]

# %% [markdown]
# ## Regression
#
# **scikit-learn**

# %%
sk = GaussianProcessRegressor(ConstantKernel() * Matern(nu=2.5) + WhiteKernel(), random_state=0).fit(x, y)
mean, sd = sk.predict(x_new, return_std=True)  # the deviation of an observation, since the noise is in the kernel
print(mean.round(3), sd.round(3), sep="\n")
print(sk.kernel_)

# %% [markdown]
# **kosambi**, with the parts, and as an estimator:

# %%
kernel, noise, _ = ko.fit_hyperparameters(
    jax.random.key(0), ko.kernels.Matern52(), ko.likelihoods.Gaussian(), x, y, progress=False
)
posterior = ko.infer(jax.random.key(1), kernel, noise, x, y, num_inducing="all", progress=False)
prediction = posterior.predict(x_new)
print(np.asarray(prediction.mean).round(3), np.sqrt(prediction.observation_variance).round(3), sep="\n")
print(kernel, noise)

# %%
model = ko.ProjectedLangevinRegressor(kernel="matern52", hyperparameters="evidence", progress=False).fit(x, y)
mean, sd = model.predict(x_new, return_std=True)
print(mean.round(3), sd.round(3), sep="\n")

# %% [markdown]
# They agree to a unit of the third digit; kosambi adds a weak prior to the marginal likelihood, and the estimator learns
# the prior mean too.
#
# **GPyTorch**
#
# ```py
# class Exact(gpytorch.models.ExactGP):
#     def __init__(self, x, y, likelihood):
#         super().__init__(x, y, likelihood)
#         self.mean_module = gpytorch.means.ConstantMean()
#         self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.MaternKernel(nu=2.5))
#
#     def forward(self, x):
#         return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))
#
# likelihood = gpytorch.likelihoods.GaussianLikelihood()
# model = Exact(x, y, likelihood)  # tensors
# model.train(), likelihood.train()
# optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
# mll = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
# for _ in range(100):
#     optimizer.zero_grad()
#     loss = -mll(model(x), y)
#     loss.backward()
#     optimizer.step()
# model.eval(), likelihood.eval()
# with torch.no_grad():
#     prediction = likelihood(model(x_new))  # prediction.mean, prediction.stddev
# ```
#
# **GPflow**
#
# ```py
# model = gpflow.models.GPR((x, y[:, None]), kernel=gpflow.kernels.Matern52())
# gpflow.optimizers.Scipy().minimize(model.training_loss, model.trainable_variables)
# mean, variance = model.predict_y(x_new)
# ```
#
# ## Functions
#
# `sample_y`, `rsample` and `predict_f_samples` draw values at the inputs of one call; a second call draws others, and
# their time grows with the cube of the number of inputs. A draw of kosambi is a function: the same at every call, at
# linear cost, and differentiable.

# %%
draws = posterior.functions(jax.random.key(2))
fine = np.linspace(-3.0, 3.0, 5000)[:, None]
figure, axes = plt.subplots(figsize=(8, 3.4), layout="constrained")
axes.plot(fine[:, 0], np.asarray(draws[:10](fine)).T, lw=0.7, color=ko.plots.ORANGE)
axes.plot(x[:, 0], y, "k.", ms=4)
axes.set(xlabel="x", ylabel="f, ten functions at 5,000 inputs")
plt.show()
print("the same values in another call:", np.allclose(draws(fine[1000:1010]), draws(fine)[:, 1000:1010]))

# %% [markdown]
# ## Classification
#
# scikit-learn's classifier uses Laplace's approximation; sparse variational ones (`SVGP`) a Gaussian distribution over the
# inducing values, found by an optimiser that has to be watched. kosambi draws from the posterior itself, and its report
# says whether the draws can be trusted.

# %%
label = (rng.uniform(size=80) < 1.0 / (1.0 + np.exp(-4.0 * np.sin(2.0 * x[:, 0])))).astype(int)
laplace = GaussianProcessClassifier(ConstantKernel(4.0) * Matern(nu=2.5), random_state=0).fit(x, label)
ours = ko.ProjectedLangevinClassifier(kernel="matern52", progress=False).fit(x, label)
print("scikit-learn", laplace.predict_proba(x_new)[:, 1].round(2))
print("kosambi     ", ours.predict_proba(x_new)[:, 1].round(2))
low, high = ours.predict_interval(x_new, coverage=0.9)
print("90 % from   ", low[:, 1].round(2))
print("     to     ", high[:, 1].round(2))

# %% [markdown]
# **GPyTorch**: an `ApproximateGP` with a `VariationalStrategy` around a `CholeskyVariationalDistribution`, a
# `BernoulliLikelihood`, `VariationalELBO(likelihood, model, num_data=len(y))`, and a loop as above.
#
# **GPflow**
#
# ```py
# model = gpflow.models.SVGP(gpflow.kernels.Matern52(), gpflow.likelihoods.Bernoulli(), inducing_variable=z, num_data=len(x))
# loss = model.training_loss_closure((x, label[:, None]))
# gpflow.optimizers.Scipy().minimize(loss, model.trainable_variables)
# mean, variance = model.predict_y(x_new)
# ```
#
# ## Words
#
# | what | scikit-learn | GPyTorch | GPflow | kosambi |
# |---|---|---|---|---|
# | kernel | `Matern(nu=2.5)` | `ScaleKernel(MaternKernel(nu=2.5))` | `Matern52()` | `kernels.Matern52()` |
# | kernel variance | `ConstantKernel() * …` | `ScaleKernel`'s `outputscale` | `variance` | `variance` |
# | one lengthscale a column | `length_scale=[1, 1]` | `ard_num_dims=2` | `lengthscales=[1, 1]` | `lengthscale=[1, 1]`, `ard=True` |
# | noise | `WhiteKernel` or `alpha` (a variance) | `GaussianLikelihood` (a variance) | `likelihoods.Gaussian` (a variance) | `likelihoods.Gaussian` (a standard deviation) |
# | mean | zero, or `normalize_y=True` | `ConstantMean` | `mean_function=` | `GaussianProcess(kernel, mean=)`, learned |
# | learn | inside `fit` | `ExactMarginalLogLikelihood` and an optimiser | `optimizers.Scipy().minimize` | `fit_hyperparameters`, or an estimator |
# | priors over hyperparameters | – | `lengthscale_prior=` | `Parameter(prior=)` | `priors=` |
# | average over them | – | – | by hand, with MCMC | `ko.average`, or an estimator |
# | sparse | – | `VariationalStrategy` | `SVGP(inducing_variable=z)` | `num_inducing=M` |
# | classes | `GaussianProcessClassifier` | `BernoulliLikelihood` | `Bernoulli` | `likelihoods.Bernoulli`, or `ProjectedLangevinClassifier` |
# | f at new inputs | `predict(return_std=True)` | `model(x)` | `predict_f` | `predict(x).mean`, `.variance` |
# | an observation | the same, with `WhiteKernel` | `likelihood(model(x))` | `predict_y` | `.observation_mean`, `.interval(0.95)` |
# | draws of functions | `sample_y`, at given inputs | `rsample`, at given inputs | `predict_f_samples` | `posterior.functions(key)`: callable anywhere |
#
# Next: [a first fit](first_fit.py), [the estimators](../how_to/estimators.md), [what inducing points
# cost](../how_to/trust.md#the-certificate).
