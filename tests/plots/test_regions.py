"""Highest density regions: two pieces where there are two modes, and the coverage that they claim."""

import jax
import numpy as np
import pytest
from scipy import stats

import kosambi as ko
from kosambi.errors import InputError
from kosambi.plots._regions import smallest_coverage


def test_region_of_two_modes_has_two_pieces_and_the_right_mass():
    rng = np.random.default_rng(0)
    labels = (np.arange(400) % 4 == 0).astype(int)
    centre = np.where(labels == 0, -2.0, 2.0)[:, None]
    means = centre + 0.3 * rng.normal(size=(400, 3))
    values, coverage = smallest_coverage(means, np.full(3, 0.1), labels)
    widths = [
        np.sqrt(0.1**2 + (1.06 * means[labels == k].std(axis=0) * np.sum(labels == k) ** -0.2) ** 2) for k in (0, 1)
    ]
    for n in range(3):
        inside = coverage[:, n] <= 0.9
        assert np.sum(np.diff(inside.astype(int)) == 1) == 2
        # The density once more, from SciPy.
        spread = np.where(labels == 0, widths[0][n], widths[1][n])
        density = stats.norm.pdf(values[:, n][:, None], means[:, n], spread).mean(axis=1)
        assert np.trapezoid(np.where(inside, density, 0.0), values[:, n]) == pytest.approx(0.9, abs=0.02)
        assert density[inside].min() >= density[~inside].max() * (1 - 1e-9)


def test_particles_at_one_place_have_a_region():
    values, coverage = smallest_coverage(np.zeros((5, 2)), np.zeros(2), np.zeros(5, dtype=int))
    assert np.all(np.isfinite(values))
    assert np.all((coverage > 0) & (coverage <= 1 + 1e-12))


@pytest.mark.slow
def test_picture_has_a_line_for_each_mode():
    x = np.linspace(-1.0, 1.0, 30)[:, None]
    basis = ko.PointBasis(ko.GaussianProcess(ko.kernels.SquaredExponential(variance=4.0)), x[::10])
    target = ko.Target(basis, ko.likelihoods.Poisson("square"), x, np.full(30, 4.0))
    particles, report = ko.sample(jax.random.key(0), target, "tempering", num_particles=64)
    axes = ko.plots.highest_density(ko.Posterior(target, particles, report), (0.5, 0.9))
    assert len(axes.get_lines()) == 2
    # f = 0 is in no region: the rate would be 0 where four are counted.
    lines = [line.get_ydata() for line in axes.get_lines()]
    assert np.min(np.abs(lines)[:, 100:200]) > 1.0


def test_bad_input_is_named():
    x = np.linspace(-1.0, 1.0, 10)[:, None]
    fitted = ko.infer(jax.random.key(0), ko.kernels.Matern52(), ko.likelihoods.Gaussian(0.1), x, np.sin(x[:, 0]))
    with pytest.raises(InputError, match="coverage"):
        ko.plots.highest_density(fitted, ())
    with pytest.raises(InputError, match="95"):
        ko.plots.highest_density(fitted, (95.0,))
