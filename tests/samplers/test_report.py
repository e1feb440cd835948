"""What samplers return: reports that are built in one place, and names of version 0.1.0."""

from __future__ import annotations

import ast
import dataclasses
from pathlib import Path

import jax
import numpy as np
import pytest

import kosambi as ko
from kosambi.samplers.convergence import from_variances
from kosambi.samplers.ladder import chain_statistics
from tests.cases import cases

X = np.linspace(-1.0, 1.0, 30)[:, None]
BASIS = ko.PointBasis(ko.GaussianProcess(ko.kernels.Matern52()), X[::6])
SAMPLERS = {
    "exact": (ko.samplers.Exact(), ko.likelihoods.Gaussian(0.3)),
    "mala": (ko.samplers.MALA(), ko.likelihoods.Bernoulli()),
    "euler_maruyama": (ko.samplers.EulerMaruyama(num_steps=4000), ko.likelihoods.Bernoulli()),
    "stochastic_gradient": (ko.samplers.StochasticGradient(10, num_steps=400), ko.likelihoods.Bernoulli()),
    "tempering": (ko.samplers.Tempering(), ko.likelihoods.Bernoulli()),
}


def run(name, num_particles=80):
    sampler, likelihood = SAMPLERS[name]
    target = ko.Target(BASIS, likelihood, X, (X[:, 0] > 0).astype(float), "projected")
    return ko.sample(jax.random.key(0), target, sampler, num_particles=num_particles)


@pytest.mark.filterwarnings("ignore::kosambi.errors.ConvergenceWarning")
@pytest.mark.parametrize("name", cases(list(SAMPLERS), slow=["tempering"]))
def test_reports_of_all_samplers_say_the_same_things_alike(name):
    particles, report = run(name)
    assert report.sampler == name
    assert report.mcse == pytest.approx(report.ess**-0.5, rel=1e-14)
    assert (report.dropped, report.jitter) == (BASIS.report.dropped, BASIS.report.jitter)
    assert report.acceptance_by_particle.shape == (particles.num_particles,)
    assert len(report.energy) == len(report.energy_steps) == len(report.r_hat_trace)
    assert 0.0 < report.seconds < 600.0
    assert report.r_hat_by_coordinate.shape == (BASIS.size,)
    for field in dataclasses.fields(report):
        value = getattr(report, field.name)
        if isinstance(value, np.ndarray):
            assert value.dtype in (np.float64, np.int64), field.name


def test_a_report_is_built_in_one_place():
    calls = []
    for path in Path(ko.samplers.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Report":
                calls.append(path.name)
    assert calls == ["report.py"]


def test_a_report_is_readable():
    report = run("exact")[1]
    assert repr(report).startswith("Report(exact: converged, nested R-hat 1.0000, 80 effective draws, 0 steps,")
    assert len(repr(report)) < 200
    noted = dataclasses.replace(report, warnings=("<b>look</b>",))
    shown = noted._repr_html_()
    assert "exact: converged" in shown
    assert "warning: &lt;b&gt;look&lt;/b&gt;" in shown


def test_r_hat_of_a_tempering_run_is_the_nested_one(rng):
    """From sums over 200 steps of 16 independent chains in 8 superchains, against W = total variance − B."""
    draws = rng.normal(size=(16, 200, 3)) + 0.3 * (np.arange(16) % 8)[:, None, None]
    found = chain_statistics(draws.sum(axis=1), np.square(draws).sum(axis=1), 200.0, 8)
    groups = np.stack([draws[g::8].reshape(-1, 3) for g in range(8)])
    between = groups.mean(axis=1).var(axis=0, ddof=1)
    expected = np.sqrt(1.0 + between / (draws.reshape(-1, 3).var(axis=0) - between))
    np.testing.assert_allclose([*found.by_coordinate, found.r_hat][:2], expected[:2], rtol=1e-10)
    assert found.r_hat == pytest.approx(expected.max(), rel=1e-10)


def test_r_hat_where_nothing_moves():
    between, within = np.array([0.0, 1.0, 1.0]), np.array([0.0, 0.0, 4.0])
    np.testing.assert_array_equal(from_variances(between, within), [1.0, np.inf, np.sqrt(1.25)])
    with jax.enable_x64(True):
        traced = jax.jit(from_variances)(between, within)
    np.testing.assert_array_equal(traced, [1.0, np.inf, np.sqrt(1.25)])


def test_names_of_version_0_1_0_still_work():
    particles = run("exact")[0]
    with pytest.warns(DeprecationWarning, match=r"`Particles.law` is now `Particles.distribution`"):
        assert particles.law is particles.distribution
    with pytest.warns(DeprecationWarning, match="`GaussianLaw` is now `GaussianDistribution`"):
        assert ko.samplers.GaussianLaw is ko.samplers.GaussianDistribution
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = ko.samplers.Nothing
