"""Averages over hyperparameters against NUTS on hyperparameters and function values together (BlackJAX)."""

from __future__ import annotations

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import kosambi as ko
from kosambi.samplers import effective_sample_size

pytestmark = pytest.mark.slow
ROWS, NEW, NUM_DRAWS = 40, 12, 240
PRIORS = {
    "kernel.lengthscale": ko.hyperpriors.LogNormal(0.8, 0.5),
    "kernel.variance": ko.hyperpriors.LogNormal(1.0, 0.5),
    "likelihood.noise": ko.hyperpriors.LogNormal(0.3, 0.5),
    "likelihood.scale": ko.hyperpriors.LogNormal(0.3, 0.5),
    "likelihood.degrees_of_freedom": ko.hyperpriors.LogNormal(5.0, 0.5),
}
CASES = {
    "gaussian": (ko.likelihoods.Gaussian(0.3), ["noise"], 1.0),
    "bernoulli": (ko.likelihoods.Bernoulli(), [], 4.0),
    "student_t": (ko.likelihoods.StudentT(5.0, 0.3), ["degrees_of_freedom", "scale"], 1.0),
}


def matern(x, z, length, variance):
    distance = jnp.sqrt(5.0) * jnp.abs(x[:, None] - z[None, :]) / length
    return variance * (1.0 + distance + distance**2 / 3.0) * jnp.exp(-distance)


def log_likelihood(name, y, f, numbers):
    if name == "gaussian":
        return jnp.sum(jax.scipy.stats.norm.logpdf(y, f, numbers[0]))
    if name == "student_t":
        return jnp.sum(jax.scipy.stats.t.logpdf(y, numbers[0], f, numbers[1]))
    return jnp.sum(jnp.where(y > 0, jax.nn.log_sigmoid(f), jax.nn.log_sigmoid(-f)))


def names_of(case):
    return ["kernel.lengthscale", "kernel.variance", *(f"likelihood.{name}" for name in CASES[case][1])]


def data(case):
    likelihood, _, variance = CASES[case]
    generator = np.random.default_rng(5)
    x = np.sort(generator.uniform(-2.0, 2.0, ROWS + NEW))
    with jax.enable_x64(True):
        gram = np.asarray(matern(x, x, 0.8, variance))
    root = np.linalg.cholesky(gram + 1e-8 * np.eye(len(x)))
    f = root @ generator.normal(size=len(x))
    y = np.asarray(likelihood.draw(jax.random.key(1), f))
    new = np.zeros(len(x), dtype=bool)
    new[np.linspace(2, len(x) - 3, NEW).round().astype(int)] = True
    return x[~new], y[~new], x[new]


def reference(case):
    """Draws of log θ, (C, T, P), and mean and deviation of f at new inputs, with standard errors of the mean."""
    x, y, new = data(case)
    means, widths = (np.array(part) for part in zip(*(PRIORS[name].free for name in names_of(case)), strict=True))
    size = len(means)

    def parts(position):
        theta = means + widths * position[:size]
        length, variance, *numbers = jnp.exp(theta)
        root = jnp.linalg.cholesky(matern(x, x, length, variance) + 1e-9 * jnp.eye(ROWS))
        return theta, root, length, variance, numbers

    def log_density(position):
        _, root, _, _, numbers = parts(position)
        return log_likelihood(case, y, root @ position[size:], numbers) - 0.5 * position @ position

    def conditional(position):
        theta, root, length, variance, _ = parts(position)
        cross = jax.scipy.linalg.solve_triangular(root, matern(x, new, length, variance), lower=True)
        return theta, cross.T @ position[size:], variance - jnp.sum(cross**2, axis=0)

    def chain(key):
        key_warm, key_run = jax.random.split(key)
        (state, tuned), _ = blackjax.window_adaptation(blackjax.nuts, log_density).run(
            key_warm, jnp.zeros(size + ROWS), 600
        )
        step = blackjax.nuts(log_density, **tuned).step

        def one(state, key):
            state, _ = step(key, state)
            return state, conditional(state.position)

        return jax.lax.scan(one, state, jax.random.split(key_run, 2500))[1]

    with jax.enable_x64(True):
        theta, f, within = map(np.asarray, jax.jit(jax.vmap(chain))(jax.random.split(jax.random.key(0), 4)))
    deviation = np.sqrt(np.var(f, axis=(0, 1)) + np.mean(within, axis=(0, 1)))
    return theta, np.mean(f, axis=(0, 1)), deviation


@pytest.mark.parametrize("case", CASES)
def test_against_nuts_on_hyperparameters_and_functions_together(case):
    x, y, new = data(case)
    theta, mean, deviation = reference(case)
    kernel, priors = ko.kernels.Matern52(0.8), {name: PRIORS[name] for name in names_of(case)}
    draws = ko.fit_hyperparameters(
        jax.random.key(2), kernel, CASES[case][0], x[:, None], y, priors=priors, num_draws=NUM_DRAWS
    )[2].draws
    for at, name in enumerate(names_of(case)):
        own, other = np.log(draws.values[name]), theta[:, :, at]
        distance = scipy.stats.ks_2samp(own, other.ravel()).statistic
        worth = min(draws.ess, NUM_DRAWS), float(np.min(effective_sample_size(other[:, :, None])))
        limit = np.sqrt(-0.5 * np.log(0.5e-3) * (1.0 / worth[0] + 1.0 / worth[1]))
        shift = (np.mean(own) - np.mean(other)) / np.std(other)
        print(f"{case} {name}: KS {distance:.3f}, limit {limit:.3f}, shift {shift:+.2f} deviations, "
              f"deviation {np.std(own) / np.std(other):.2f} of that of NUTS")  # fmt: skip
        if case == "gaussian":
            assert distance < limit
            # The same test sees a shift of half a deviation and more.
            assert scipy.stats.ks_2samp(own + 0.8 * np.std(other), other.ravel()).statistic > limit
        else:
            # A bound stands for the evidence.
            assert abs(shift) < 0.5
    some = ko.average(jax.random.key(3), draws, x[:, None], y, num_particles=NUM_DRAWS * 4)
    found = some.predict(new[:, None])
    error = np.sqrt(np.mean(np.square((found.mean - mean) / deviation)))
    ratio = found.standard_deviation / deviation
    print(f"{case}: error of the mean {error:.3f} deviations, deviations {ratio.min():.3f} to {ratio.max():.3f}")
    assert error < 0.1
    assert 0.9 < np.mean(ratio) < 1.1
