from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.interpolate
import scipy.linalg
import scipy.special
import scipy.stats

import kosambi as ko
from kosambi._core import precision
from kosambi.basis.points import JITTER
from kosambi.errors import InputError, PrecisionWarning
from kosambi.target.evidence import log_evidence
from tests.cases import cases
from tests.likelihoods.table import CASES, SEVERAL

k, lk = ko.kernels, ko.likelihoods
RNG = np.random.default_rng(5)
X = RNG.uniform(-3.0, 3.0, (60, 2))
Y = np.sin(X[:, 0]) + 0.3 * X[:, 1] + 0.2 * RNG.normal(size=60)
Z = X[::6]
KERNEL = k.Matern52([1.2, 2.0], 1.5)
PRIORS = {
    "process": ko.GaussianProcess(KERNEL, 0.3),
    "element": ko.GaussianRandomElement(KERNEL, ko.measures.empirical(X), 0.3),
    "element, normal measure": ko.GaussianRandomElement(
        k.SquaredExponential([1.2, 2.0], 2.0), ko.measures.gaussian([0.0, 0.0], 4.0 * np.eye(2)), 0.3
    ),
}


@pytest.mark.parametrize("name", PRIORS)
def test_gaussian_evidence_is_the_marginal_likelihood_when_every_row_is_inducing(name):
    prior = PRIORS[name]
    dense = scipy.stats.multivariate_normal(np.full(60, 0.3), prior.covariance(X) + 0.04 * np.eye(60))
    found = log_evidence(prior, lk.Gaussian(0.2), X, Y, X)
    # With every row, noise on the inducing values (`JITTER`) is all that is lost: less than N·jitter·r/σ².
    lost = JITTER * np.sum(prior.variance(X)) / 0.04
    assert 0.0 <= dense.logpdf(Y) - found < lost
    # A different noise is told apart by far more than that.
    assert abs(log_evidence(prior, lk.Gaussian(0.21), X, Y, X) - dense.logpdf(Y)) > 100 * lost


@pytest.mark.parametrize("noise", [0.2, np.linspace(0.1, 0.4, 60)], ids=["one noise", "a noise for each"])
@pytest.mark.parametrize("name", PRIORS)
def test_gaussian_evidence_with_few_inducing_points_is_the_bound_of_titsias(name, noise):
    prior = PRIORS[name]
    gram = prior.covariance(Z) + JITTER * np.mean(prior.variance(Z)) * np.eye(len(Z))
    explained = prior.covariance(X, Z) @ np.linalg.solve(gram, prior.covariance(Z, X))
    sd = np.broadcast_to(noise, 60)
    marginal = scipy.stats.multivariate_normal(np.full(60, 0.3), explained + np.diag(sd**2)).logpdf(Y)
    bound = marginal - 0.5 * np.sum((prior.variance(X) - np.diag(explained)) / sd**2)
    found = log_evidence(prior, lk.Gaussian(noise), X, Y, Z)
    np.testing.assert_allclose(found, bound, rtol=0, atol=1e-7 * abs(bound))
    dense = scipy.stats.multivariate_normal(np.full(60, 0.3), prior.covariance(X) + np.diag(sd**2)).logpdf(Y)
    assert found < dense


def test_laplace_is_exact_for_a_normal_likelihood():
    def cost(y, f):
        return 0.5 * jnp.square((y - f) / 0.2) + jnp.log(0.2) + 0.5 * jnp.log(2.0 * jnp.pi)

    custom = lk.Custom(cost, is_density=True, is_convex=True)
    for prior in PRIORS.values():
        exact = log_evidence(prior, lk.Gaussian(0.2), X, Y, Z)
        np.testing.assert_allclose(log_evidence(prior, custom, X, Y, Z), exact, rtol=0, atol=1e-7)


# Two inducing points and four inputs, each seen with every value of y, so that 12 or so terms stand for all data.
PLACES = np.array([[-0.8], [-0.2], [0.5], [1.1]])
POINTS = np.array([[-0.5], [0.9]])
SMALL = ko.GaussianProcess(k.SquaredExponential(0.9, 0.8), 0.4)


AXIS = np.linspace(-5.0, 5.0, 501)
GRID = np.stack(np.meshgrid(AXIS, AXIS, indexing="ij"), -1).reshape(-1, 2)


def log_likelihoods(case):
    """Σ_n E c over one copy of the data at every w of a grid, from SciPy's density and Gauss-Hermite nodes."""
    gram = SMALL.covariance(POINTS) + JITTER * 0.8 * np.eye(2)
    psi = scipy.linalg.solve_triangular(np.linalg.cholesky(gram), SMALL.covariance(POINTS, PLACES), lower=True).T
    sd = np.sqrt(0.8 - np.sum(psi**2, axis=1))
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    mean, table = 0.4 + GRID @ psi.T, np.linspace(-10.0, 10.0, 201)
    # The reference for ordered classes takes one number at a time.
    density = np.vectorize(case.log_density) if isinstance(case.likelihood, lk.Ordinal) else case.log_density
    total = np.zeros(len(GRID))
    for n, spread in enumerate(sd):
        for y in case.y:
            expected = density(y, table[:, None] + spread * nodes) @ weights / weights.sum()
            total += scipy.interpolate.CubicSpline(table, expected)(mean[:, n])
    return total


@pytest.mark.parametrize(
    "name",
    cases(
        ["Bernoulli", "StudentT", "Poisson", "Gamma", "Ordinal", "NegativeBinomial"], quick=["Bernoulli", "StudentT"]
    ),
)
def test_laplace_evidence_against_quadrature(name):
    case, errors = CASES[name], []
    one_copy, prior = log_likelihoods(case), -0.5 * np.sum(GRID**2, axis=1) - np.log(2 * np.pi)
    for repeats in (4, 40):
        reference = scipy.special.logsumexp(repeats * one_copy + prior) + 2 * np.log(AXIS[1] - AXIS[0])
        x = np.repeat(PLACES, repeats * len(case.y), axis=0)
        y = np.tile(case.y, 4 * repeats)
        errors.append(abs(log_evidence(SMALL, case.likelihood, x, y, POINTS) - reference))
    # The error of Laplace's approximation falls as one over the number of data.
    assert errors[0] < 0.1
    assert errors[1] < max(errors[0] / 4.0, 1e-3)


def test_laplace_evidence_of_a_cost_with_a_kink():
    y = np.random.default_rng(4).laplace(0.0, 0.5, 400)
    prior, x = ko.GaussianProcess(k.Constant(0.01)), np.zeros((400, 1))
    f = np.linspace(-0.6, 0.6, 4001)
    for scale in (0.4, 0.5, 0.6):
        values = scipy.stats.laplace.logpdf(y[:, None], f, scale).sum(0) + scipy.stats.norm.logpdf(f, 0.0, 0.1)
        exact = scipy.special.logsumexp(values) + np.log(f[1] - f[0])
        assert abs(log_evidence(prior, lk.Laplace(scale), x, y, x[:1]) - exact) < 0.5


def test_single_precision_under_a_trace_is_warned_of_and_finite():
    def evidence(lengthscale):
        prior = ko.GaussianProcess(k.SquaredExponential(lengthscale))
        return log_evidence(prior, lk.Gaussian(0.1), X[:, :1], Y, np.linspace(-3.0, 3.0, 15)[:, None])

    precision._warned.discard("The evidence is computed")
    with pytest.warns(PrecisionWarning, match="The evidence is computed"):
        value, slope = jax.value_and_grad(evidence)(2.0)
    assert np.isfinite(slope)
    np.testing.assert_allclose(value, evidence(2.0), rtol=0.02)


FEW = X[:25, :1]
DENSITIES = [name for name in (*CASES, *SEVERAL) if name != "Huber"]


@pytest.mark.parametrize(
    ("name", "sort"), cases(DENSITIES, ["process", "element"], quick=["Gaussian-process", "Gaussian-element"])
)
def test_gradient_against_finite_differences(name, sort):
    case = {**CASES, **SEVERAL}[name]
    y = np.resize(case.y, 25)
    kernel = k.SquaredExponential(0.9, 1.1)
    given = (kernel, np.asarray(0.2), case.likelihood)
    measure = ko.measures.empirical(FEW)

    @jax.jit
    def evidence(parts):
        kernel, mean, likelihood = parts
        process = ko.GaussianProcess(kernel, mean)
        prior = process if sort == "process" else ko.GaussianRandomElement(kernel, measure, mean)
        return log_evidence(prior, likelihood, FEW, y, FEW[::5])

    with jax.enable_x64(True):
        leaves, structure = jax.tree.flatten(given)
        leaves = [jnp.asarray(leaf) for leaf in leaves]
        slopes = jax.tree.leaves(jax.grad(evidence)(jax.tree.unflatten(structure, leaves)))
        assert len(slopes) == len(leaves)
        for i, leaf in enumerate(leaves):
            for j in range(leaf.size):
                step = np.zeros(leaf.shape)
                step.flat[j] = 1e-4

                def at(sign, i=i, step=step):
                    moved = [*leaves[:i], leaves[i] + sign * step, *leaves[i + 1 :]]
                    return float(evidence(jax.tree.unflatten(structure, moved)))

                # Fourth order, so that a step that is long beside rounding is accurate.
                difference = (8.0 * (at(1.0) - at(-1.0)) - (at(2.0) - at(-2.0))) / 12e-4
                np.testing.assert_allclose(slopes[i].ravel()[j], difference, rtol=1e-5, atol=1e-5)


def test_evidence_prefers_the_model_that_made_the_data():
    labels = (Y > 0).astype(float)
    smooth = log_evidence(PRIORS["process"], lk.Bernoulli(), X, labels, Z)
    rough = log_evidence(ko.GaussianProcess(k.Matern52(0.05, 1.5)), lk.Bernoulli(), X, labels, X)
    assert smooth > rough + 3.0


def test_bad_input():
    with pytest.raises(InputError, match="without a density"):
        log_evidence(PRIORS["process"], lk.Huber(), X, Y, Z)
    with pytest.raises(InputError, match="GaussianProcess"):
        log_evidence(KERNEL, lk.Gaussian(), X, Y, Z)
    with pytest.raises(InputError, match="59 entries for 60 rows"):
        log_evidence(PRIORS["process"], lk.Gaussian(), X, Y[1:], Z)
    with pytest.raises(InputError, match="columns"):
        log_evidence(PRIORS["process"], lk.Gaussian(), X, Y, Z[:, :1])
