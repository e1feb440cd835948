"""What notebooks and terminals show of results, the alias of `functions`, and densities of many inputs in blocks."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import kosambi as ko

lk = ko.likelihoods
X = np.linspace(-1.0, 1.0, 40)[:, None]
LABELS = (np.sin(4 * X[:, 0]) > 0).astype(float)


@pytest.fixture(scope="module")
def labels():
    return ko.infer(jax.random.key(0), ko.kernels.Matern52(0.5), lk.Bernoulli(), X, LABELS, num_inducing=6)


@pytest.fixture(scope="module")
def numbers():
    return ko.infer(jax.random.key(0), ko.kernels.Matern52(0.5), lk.Gaussian(0.2), X, LABELS, num_inducing=6)


def test_sample_is_another_name_of_functions(labels):
    key = jax.random.key(5)
    np.testing.assert_array_equal(labels.sample(key)(X), labels.functions(key)(X))
    by_rule = labels.sample(key, method="matheron")(X[:3])
    np.testing.assert_array_equal(by_rule, labels.functions(key, method="matheron")(X[:3]))


def test_a_posterior_is_readable(labels, numbers):
    assert repr(numbers) == "Posterior(100 draws, M=6 of PointBasis, Gaussian, N=40, converged)"
    shown = labels._repr_html_()
    for text in ("posterior draws", "6 of PointBasis", "40 rows, 1 columns", "Matern52", "mala: converged"):
        assert text in shown
    without = ko.Posterior(labels.target, labels.particles)
    assert "converged" not in without._repr_html_() + repr(without)


def test_a_prediction_shows_its_first_inputs_only(labels, numbers, monkeypatch):
    prediction = numbers.predict(np.linspace(-1, 1, 25)[:, None])
    assert repr(prediction) == "Prediction(25 inputs, Gaussian, 1 component)"
    shown = prediction._repr_html_()
    assert shown.count("<tr>") == 11
    assert "and 15 more inputs" in shown
    lower, _ = prediction.interval(0.95)
    assert f"{lower[9]:.4g}" in shown
    classes = labels.predict(X[:2])
    assert f"{classes.probability[1]:.4g}" in classes._repr_html_()
    assert "<tr>" in labels.predict(np.empty((0, 1)))._repr_html_()
    # One noise per input, known or not.
    noisy = ko.infer(jax.random.key(0), ko.kernels.Matern52(0.5), lk.Gaussian(np.full(40, 0.2)), X, LABELS)
    assert "lower" in noisy.predict(X[:15], noise=np.linspace(0.1, 2.0, 15))._repr_html_()
    assert "lower" not in noisy.predict(X[:15])._repr_html_()


def test_a_certificate_is_readable(labels, numbers):
    projected = ko.Posterior(labels.target.with_potential("projected"), labels.particles)
    certificate = projected.certificate()
    assert repr(certificate).startswith("Certificate(divergence ")
    assert len(repr(certificate)) < 150
    shown = certificate._repr_html_()
    assert "The distribution that was sampled from is" in shown
    assert f"{100 * certificate.residual_share:.3g} %" in shown
    assert "Theorem 2" in shown
    assert "from the full posterior" in numbers.certificate()._repr_html_()


def test_a_calibration_is_readable(labels, numbers):
    found = ko.calibration.calibration_report(numbers.predict(X), LABELS)
    assert repr(found) == f"Calibration(40 observations: {found.verdict})"
    shown = found._repr_html_()
    assert shown.count("<tr>") == 5
    assert "mean width" in shown
    lines = str(found).splitlines()
    assert lines[2].split() == ["level", "inside", "expected", "mean", "width"]
    assert [line.split()[0] for line in lines[3:]] == ["50", "80", "90", "95"]
    assert "mean labels" in ko.calibration.calibration_report(labels.predict(X), LABELS)._repr_html_()


@pytest.mark.parametrize("name", ["labels", "numbers"])
def test_log_densities_come_in_blocks(name, monkeypatch, request):
    posterior = request.getfixturevalue(name)
    new, y = np.linspace(-1.5, 1.5, 101)[:, None], (np.arange(101) % 2).astype(float)
    whole = posterior.predict(new).log_density(y)
    np.testing.assert_array_equal(posterior.log_predictive_density(new, y), whole)
    sizes = []
    original = ko.Prediction.log_density

    def seen(self, y):
        sizes.append(self.component_means.shape)
        return original(self, y)

    monkeypatch.setattr(ko.Prediction, "log_density", seen)
    monkeypatch.setattr("kosambi.posterior._predictive._VALUES_AT_ONCE", 100 * 17)
    np.testing.assert_allclose(posterior.log_predictive_density(new, y), whole, rtol=1e-12)
    components = 1 if name == "numbers" else 100
    rows = 1700 // max(components, posterior.basis.size)
    assert len(sizes) == -(-101 // rows)
    assert max(size[1] for size in sizes) == min(rows, 101)


def test_blocks_take_their_own_noise(monkeypatch, numbers):
    new, y, noise = np.linspace(-1, 1, 50)[:, None], np.zeros(50), np.linspace(0.1, 3.0, 50)
    whole = numbers.predict(new, noise=noise).log_density(y)
    monkeypatch.setattr("kosambi.posterior._predictive._VALUES_AT_ONCE", 7 * numbers.basis.size)
    np.testing.assert_allclose(numbers.log_predictive_density(new, y, noise=noise), whole, rtol=1e-12)
    assert numbers.log_predictive_density(np.empty((0, 1)), []).shape == (0,)


@pytest.mark.slow
def test_memory_of_log_densities_does_not_grow_with_the_inputs():
    """Two hundred thousand inputs of 100 draws are 160 MB at once, and twice that with what is made of them."""
    import tracemalloc

    likelihood = lk.Bernoulli("probit")
    posterior = ko.infer(jax.random.key(0), ko.kernels.Matern52(0.5), likelihood, X, LABELS, num_inducing=6)
    number = 200_000
    new, y = np.linspace(-1.0, 1.0, number)[:, None], np.zeros(number)
    tracemalloc.start()
    found = posterior.log_predictive_density(new, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.shape == (number,)
    assert peak < 100e6
