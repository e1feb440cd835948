"""Posteriors of every sort of basis, likelihood and potential, built without sampling."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np

import kosambi as ko

X = np.random.default_rng(0).uniform(-2.0, 2.0, (30, 2))
Z = X[::6]
KERNEL = ko.kernels.Matern52([0.7, 1.4]) + 0.2 * ko.kernels.Linear()
SMOOTH = ko.kernels.SquaredExponential(0.8)
PROCESS = ko.GaussianProcess(KERNEL, mean=0.3)
ELEMENT = ko.GaussianRandomElement(KERNEL, ko.measures.empirical(X))
NORMAL = ko.GaussianRandomElement(SMOOTH, ko.measures.gaussian([0.0, 0.0], np.eye(2)))
WEIGHTS = np.linspace(0.5, 1.5, 30)
REAL, COUNTS, LABELS = np.sin(X[:, 0]), np.arange(30.0) % 4, np.arange(30.0) % 3


def largest_error(y, f):
    return jnp.sqrt(jnp.mean(jnp.square(y - f)))


def log_cosh(y, f):
    return jnp.log(jnp.cosh(y - f))


CUSTOM = {"largest_error": largest_error, "log_cosh": log_cosh}
lk = ko.likelihoods
# Basis, likelihood, observations, potential, weights.
MODELS = {
    "Gaussian, exact": (lambda: ko.PointBasis(PROCESS, Z), lk.Gaussian(0.3), REAL, "projected", None),
    "Gaussian, noise for each": (lambda: ko.PointBasis(ELEMENT, Z), lk.Gaussian(WEIGHTS), REAL, "optimal", None),
    "Bernoulli, Ritz": (lambda: ko.RitzBasis(ELEMENT, Z), lk.Bernoulli(), REAL > 0, "projected", None),
    "StudentT, optimal": (lambda: ko.RitzBasis(NORMAL, Z), lk.StudentT(4.0, 0.2), REAL, "optimal", WEIGHTS),
    "Poisson, Nystrom": (lambda: ko.NystromBasis(ELEMENT, Z), lk.Poisson("square"), COUNTS, "projected", None),
    "Huber, inducing": (lambda: ko.InducingBasis(NORMAL, Z), lk.Huber(0.3), REAL, "projected", WEIGHTS),
    "Categorical": (lambda: ko.PointBasis(PROCESS, Z), lk.Categorical(3), LABELS, "projected", None),
    "Custom": (lambda: ko.PointBasis(PROCESS, Z), lk.Custom(log_cosh, name="log_cosh"), REAL, "projected", None),
    "CustomJoint": (
        lambda: ko.PointBasis(PROCESS, Z),
        lk.CustomJoint(largest_error, name="largest_error"),
        REAL,
        "projected",
        None,
    ),
}


@functools.cache
def posterior(name):
    basis, likelihood, y, potential, weights = MODELS[name]
    target = ko.Target(basis(), likelihood, X, np.asarray(y, float), potential, weights=weights)
    if name == "Gaussian, exact":
        return ko.Posterior(target, *ko.sample(jax.random.key(0), target, num_particles=20))
    u = np.random.default_rng(1).normal(size=(7, *target.shape))
    return ko.Posterior(target, ko.samplers.Particles.from_coordinates(target, u))


def custom_of(name):
    return {key: value for key, value in CUSTOM.items() if getattr(MODELS[name][1], "name", None) == key}
