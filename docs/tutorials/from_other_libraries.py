# %% [markdown]
# # From scikit-learn, GPyTorch, GPflow
#
# The same model, an exact Gaussian process with a Matérn-5/2 kernel and learned hyperparameters, in scikit-learn and in
# kosambi; both run here, and agree.

# %%
import jax
import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

import kosambi as ko

rng = np.random.default_rng(0)
x = np.sort(rng.uniform(-3.0, 3.0, 80))[:, None]
y = np.sin(2.0 * x[:, 0]) + 0.2 * rng.normal(size=80)
x_new = np.linspace(-3.0, 3.0, 7)[:, None]

sk = GaussianProcessRegressor(ConstantKernel() * Matern(nu=2.5) + WhiteKernel(), random_state=0).fit(x, y)
print(sk.predict(x_new).round(3))

# %%
kernel, noise, _ = ko.fit_hyperparameters(
    jax.random.key(0), ko.kernels.Matern52(), ko.likelihoods.Gaussian(), x, y, progress=False
)
posterior = ko.infer(jax.random.key(1), kernel, noise, x, y, num_inducing="all", progress=False)
print(np.asarray(posterior.predict(x_new).mean).round(3))
print(kernel, noise)

# %% [markdown]
# kosambi adds a weak prior to the marginal likelihood, hence differences in the third digit. Who comes from another
# library finds the same pieces under these names (the code of the others is not run here):
#
# | what | scikit-learn | GPyTorch | GPflow | kosambi |
# |---|---|---|---|---|
# | kernel | `Matern(nu=2.5)` | `ScaleKernel(MaternKernel(nu=2.5))` | `Matern52()` | `kernels.Matern52()` |
# | one lengthscale a column | `length_scale=[1, 1]` | `ard_num_dims=2` | `lengthscales=[1, 1]` | `ard=True` |
# | noise | `WhiteKernel` or `alpha` | `GaussianLikelihood` | `likelihoods.Gaussian` (a variance) | `likelihoods.Gaussian` (a standard deviation) |
# | learn | inside `fit` | `ExactMarginalLogLikelihood` and an optimiser | `optimizers.Scipy().minimize` | `fit_hyperparameters`, or an estimator |
# | sparse | – | `VariationalStrategy` | `SVGP(inducing_variable=Z)` | `num_inducing=M` |
# | classes | `GaussianProcessClassifier` | `BernoulliLikelihood` | `Bernoulli` | `likelihoods.Bernoulli`, or `ProjectedLangevinClassifier` |
# | draws of functions | `sample_y`, at given inputs | `rsample`, at given inputs | `predict_f_samples` | `posterior.functions(key)`: callable anywhere |
