"""The paper's ten curves, how their inputs are held out, and how its step size is searched."""

from __future__ import annotations

import numpy as np
import pytest

import kosambi as ko
from reproduction import curves

NUMBERS = range(1, 11)


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("size", [500, 1000])
def test_curves_are_standardised(number, size):
    values = curves.curve(number, size)
    assert np.all(np.isfinite(values))
    assert abs(values.mean()) < 1e-12
    assert values.std(ddof=1) == pytest.approx(1.0, abs=1e-12)


def test_curves_have_the_shape_of_their_formulas():
    x = curves.grid(1000)[:, 0]
    for number, formula in ((2, 2.0 * np.sin(1.5 * np.pi * x)), (10, np.sqrt(9.0 - x**2) + np.sin(np.pi * x))):
        assert np.corrcoef(curves.curve(number, 1000), formula)[0, 1] == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("number", NUMBERS)
def test_sizes_are_those_of_the_paper(number):
    assert len(curves.interval_split(number, 1000).train) == 581
    assert len(curves.interval_split(number, 500).train) == 287
    assert len(curves.random_split(1000, 400).train) == 600


def test_intervals_at_both_ends_and_one_inside_are_held_out():
    split = curves.interval_split(4, 1000)
    assert not set(split.train) & set(split.test)
    assert set(split.test // 83) == {0, 1, 7, 10, 11}
    assert len(split.train) + len(split.test) == 996


def test_the_interval_inside_is_drawn_as_in_the_paper():
    torch = pytest.importorskip("torch")
    for number in NUMBERS:
        order = torch.randperm(6, generator=torch.Generator().manual_seed(number))
        assert 3 + int(order[0]) == curves.ALSO_HELD_OUT[number - 1]


def test_data_have_their_distributions():
    c = curves.curve(3, 1000)
    assert abs(np.mean(curves.regression(3, 1000) - c)) < 4 * 0.2 / np.sqrt(1000)
    assert abs(np.mean(curves.counts(3) - 4.0 * c**2)) < 4 * np.sqrt(np.mean(4.0 * c**2) / 1000)
    assert abs(np.mean(curves.unshifted(3) - 2.0 * c)) < 4 / np.sqrt(1000)


def test_the_figure_of_the_paper_is_cut_where_the_rate_of_the_fourth_curve_is_largest():
    x = curves.grid(1000)[:, 0]
    peaks = [x[np.argmax(np.abs(curves.curve(n, 1000)))] for n in NUMBERS]
    assert [n for n, peak in zip(NUMBERS, peaks, strict=True) if abs(peak + 0.55) < 0.1] == [4]


@pytest.mark.filterwarnings("ignore::kosambi.errors.StepSizeWarning")
@pytest.mark.filterwarnings("ignore::kosambi.errors.ConvergenceWarning")
def test_the_step_size_with_the_lowest_energy_at_the_end_is_taken():
    x = curves.grid(40)
    prior = ko.GaussianRandomElement(ko.kernels.SquaredExponential(1.0), ko.measures.empirical(x))
    target = ko.Target(ko.NystromBasis(prior, x[::8]), ko.likelihoods.Gaussian(0.5), x, curves.regression(2, 40))
    start = np.full((20, target.basis.size), 30.0)
    # The first is beyond the limit of stability; the others end at other energies, since they have other noise.
    found = curves.search_step_size(target, [0.1, 1e-3, 1e-2], 50.0, start)
    diverged, *energies = (entry["energy"] for entry in found.tried)
    assert diverged is None
    assert energies[0] != energies[1]
    assert np.mean(target.potential(found.particles.coordinates)) == pytest.approx(min(energies))
    assert curves.search_step_size(target, [0.1], 50.0, start).particles is None
