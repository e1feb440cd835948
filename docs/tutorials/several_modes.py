# %% [markdown]
# # Several modes
#
# Counts with rate $f^2$ cannot tell $f$ from $-f$: the posterior has two modes, of probability one half each. A local
# sampler stays in the one where it began. `Tempering`, which `sampler="auto"` takes here, moves between them.

# %%
import jax
import matplotlib.pyplot as plt
import numpy as np

import kosambi as ko

rng = np.random.default_rng(0)
x = np.sort(rng.uniform(-3.0, 3.0, 80))[:, None]
counts = rng.poisson((2.0 + np.sin(x[:, 0])) ** 2)
prior = ko.kernels.SquaredExponential(lengthscale=1.0, variance=4.0)
posterior = ko.infer(
    jax.random.key(0), prior, ko.likelihoods.Poisson("square"), x, counts, num_inducing=8, progress=False
)
print(posterior.report)
print(posterior.modes())

# %%
figure, panels = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
ko.plots.modes(posterior, jax.random.key(1), axes=panels[0])
ko.plots.highest_density(posterior, axes=panels[1])
plt.show()

# %% [markdown]
# Left, functions in the colour of their mode. Right, the smallest regions that hold f with the stated probability: two
# pieces, without the gap that an equal-tailed interval would include.
