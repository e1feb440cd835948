"""Heavy-tailed noise begins where Gaussian noise ends."""

import dataclasses

import jax
import numpy as np
import pytest

import kosambi as ko
from kosambi.learning import _evidence, _rounds
from kosambi.learning._twin import gaussian_start


def data(num_rows=120):
    rng = np.random.default_rng(5)
    x = rng.uniform(-3.0, 3.0, (num_rows, 2))
    return x, np.sin(2.0 * x[:, 0]) + 0.05 * rng.standard_t(4.0, size=num_rows)


def kernel():
    return ko.kernels.Matern52(np.ones(2), 1.0, active_dims=None)


def watched(monkeypatch, likelihood, **how):
    """The start that was found, by the name of its parameters, and what was learned."""
    starts = []

    def spy(task, problem, *rest):
        vector = gaussian_start(task, problem, *rest)
        starts.append(None if vector is None else problem.model(vector))
        return vector

    monkeypatch.setattr(_evidence, "gaussian_start", spy)
    x, y = data()
    found = ko.fit_hyperparameters(jax.random.key(0), kernel(), likelihood, x, y, **how)
    return starts[0], found


@pytest.mark.slow
@pytest.mark.parametrize(
    "likelihood", [ko.likelihoods.StudentT(scale=0.5), ko.likelihoods.Laplace(0.5)], ids=["t", "L"]
)
def test_the_start_is_what_gaussian_noise_finds(monkeypatch, likelihood):
    x, y = data()
    begun, (_, _, report) = watched(monkeypatch, likelihood)
    learned, noise, _ = ko.fit_hyperparameters(jax.random.key(0), kernel(), ko.likelihoods.Gaussian(0.5), x, y)
    assert begun.kernel.lengthscale == pytest.approx(np.asarray(learned.lengthscale), rel=0.05)
    assert float(begun.likelihood.scale) == pytest.approx(0.7 * float(noise.noise), rel=0.05)
    assert report.converged


def test_what_is_frozen_stays_and_other_likelihoods_have_no_twin(monkeypatch):
    begun, _ = watched(monkeypatch, ko.likelihoods.StudentT(scale=0.5), freeze=["likelihood.scale", "kernel.variance"])
    assert float(begun.likelihood.scale) == pytest.approx(0.5)
    assert float(begun.kernel.variance) == pytest.approx(1.0)
    begun, _ = watched(monkeypatch, ko.likelihoods.Gaussian(0.5))
    assert begun is None


def test_an_interruption_before_the_problem_itself_is_one(monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(_rounds, "_main_search", interrupt)
    with pytest.raises(KeyboardInterrupt):
        watched(monkeypatch, ko.likelihoods.StudentT(scale=0.5), on_interrupt="return")


def test_lengthscales_of_columns_are_held_together():
    from kosambi.learning._layout import Model, lay_out
    from kosambi.learning._limits import limits
    from kosambi.learning._starts import Scales, start

    x, y = data()
    for own, width in ((kernel(), 1.0), (ko.kernels.Matern52(1.0), 3.0)):
        prior, noise = ko.GaussianProcess(own), ko.likelihoods.Gaussian(0.5)
        given = Model(own, prior.mean, noise)
        layout = lay_out(given)
        scales = Scales.of(prior, noise, x, y, True)
        found = limits(layout, start(prior, noise, x, y, scales), given, scales, x)
        names = [parameter.name for parameter, _ in layout.entries()]
        widths = [w for name, w in zip(names, found.width, strict=True) if name == "kernel.lengthscale"]
        assert widths == [width] * len(widths)
        assert widths
        assert dataclasses.asdict(found)["scale"][names.index("kernel.lengthscale")] == 1.0
