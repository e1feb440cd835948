"""Experiments that end in figures: states, log-odds, slopes, tables and pictures from what was kept."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from scipy import stats

import kosambi as ko
from kosambi._core.writing import as_json
from reproduction import _poisson_page, _shift_page, complexity, curves, poisson, shift
from reproduction.experiment import Scale


def test_cells_have_names_of_their_own_and_arguments_for_json():
    for module in (poisson, shift, complexity):
        for quick in (True, False):
            cells = module.EXPERIMENT.cells(Scale(quick=quick))
            assert len({cell.name for cell in cells}) == len(cells)
            assert all(as_json(cell.arguments) == cell.arguments for cell in cells)
    assert len(poisson.cells(Scale())) == 20


# Poisson


def test_states_of_draws():
    split = curves.interval_split(4, 1000)
    c = curves.curve(4, 1000)[split.train]
    arcs = poisson.arcs(c, split.train)
    assert len(arcs) == 3
    assert all(len(set(np.sign(c[arc]))) == 1 and np.all(np.diff(split.train[arc]) == 1) for arc in arcs)
    mirrored = c.copy()
    mirrored[arcs[1]] *= -1.0
    broken = c.copy()
    broken[arcs[2][: len(arcs[2]) // 2]] *= -1.0
    found = poisson.states(np.stack([c, -c, mirrored, broken]), c, split.train)
    assert list(found) == ["truth", "truth", "other", "changing"]


def count_entry(positive, changing, above, ladder=False, draws=True):
    entry = {
        "num_particles": 20,
        "cut": -0.5,
        "positive": positive,
        "states": {"truth": 20 - changing, "other": 0, "changing": changing},
        "coordinates": 3,
        "lowest": 100.0,
        "above": [0.0, above],
        "energy": 112.0,
        "num_modes": 2,
        "converged": True,
        "r_hat": None,
        "steps": 10,
        "step_size": 0.1,
        "seconds": 1.0,
        "compile_seconds": 0.5,
        "at_cut": list(np.linspace(-2.0, 2.0, 20)),
    }
    if ladder:
        entry["ladder"] = {
            "swap_rates": [0.5, 0.6],
            "barrier": 0.9,
            "arrivals": 40.0,
            "chains": 8,
            "log_evidence": [-12.0, 0.1],
        }
    if draws:
        grid = np.linspace(-3.0, 3.0, 5)
        entry |= {"grid": list(grid), "truth": list(np.sin(grid)), "draws": [list(np.sin(grid))] * 20}
        entry["draw_states"] = ["truth"] * 18 + ["changing"] * 2
    return entry


def count_cells():
    tried = [{"size": 1e-3, "energy": None}, {"size": 3e-5, "energy": 112.0}]
    samplers = {"Euler-Maruyama": count_entry(19, 12, 25.0), "MALA": count_entry(10, 5, 3.0)}
    return {
        "local-4": {"number": 4, "tried": tried, "samplers": samplers},
        "tempering-4": {"number": 4, "samplers": {"tempering": count_entry(9, 0, 1.0, ladder=True)}},
        "local-7": {"number": 7, "tried": tried, "samplers": {"MALA": count_entry(20, 5, 3.0, draws=False)}},
    }


def test_table_of_counts():
    text = poisson.EXPERIMENT.table(count_cells())
    assert "curve 4, mean potential at the end: 0.001: diverged; 3e-05: 112.0." in text
    # Without a row of Euler-Maruyama for it, the reader wants to know why.
    assert "curve 7, mean potential" in text
    assert "-12.00 ± 0.10" in text
    assert "**Euler-Maruyama**: both signs on 1 of 1 curves; a half lies within the 95 % limits on 0 of 1" in text
    assert "**tempering**: both signs on 1 of 1 curves; a half lies within the 95 % limits on 1 of 1" in text
    assert "60.0 % of the draws" in text
    assert "differ on 1 of 1 curves" in text
    for missing in count_cells():
        rest = {name: cell for name, cell in count_cells().items() if name != missing}
        assert "| curve | sampler |" in poisson.EXPERIMENT.table(rest)
    assert "| curve | sampler |" in poisson.EXPERIMENT.table({})


def test_pictures_of_counts(tmp_path):
    pytest.importorskip("matplotlib")
    names = [path.name for path in poisson.EXPERIMENT.draw(count_cells(), tmp_path)]
    assert names == ["poisson-functions.png", "poisson-shares.png"]
    assert all((tmp_path / name).stat().st_size > 1000 for name in names)
    assert poisson.EXPERIMENT.draw({}, tmp_path) == []


def test_limits_of_a_share_hold_it():
    low, high = _poisson_page.interval(0, 50)
    assert low == 0.0
    assert high == pytest.approx(1.0 - 0.025 ** (1 / 50), rel=1e-6)


# Shift


def test_log_odds_against_dense_densities():
    target = shift.halfway_problem(0.8)
    psi, y = np.asarray(target.basis.whitened_mean(target.x)), np.asarray(target.y)
    normal = stats.multivariate_normal(np.zeros(len(y)), psi @ psi.T + shift.NOISE**2 * np.eye(len(y)))
    of_data = normal.logpdf(y - shift.SHIFT) - normal.logpdf(y)
    assert shift.log_odds_of_data(psi, y, shift.SHIFT, shift.NOISE) == pytest.approx(of_data, abs=1e-6)
    assert shift.closed_log_odds(target) == pytest.approx(0.8, abs=1e-9)
    # The conditions under which the closed form is that of the posterior.
    assert shift.SHIFT >= 15.0 * shift.NOISE
    assert np.max(np.diff(np.asarray(target.x)[:, 0])) < 0.5
    assert abs(np.mean(y) - 0.5 * shift.SHIFT) < 1.0


def test_start_spans_both_modes():
    x = curves.grid(100)
    prior = ko.GaussianRandomElement(ko.kernels.SquaredExponential(0.5, variance=4.0), ko.measures.empirical(x))
    points = x[np.linspace(0, 99, shift.NUM_INDUCING).astype(int)]
    basis = ko.NystromBasis(prior, points)
    target = ko.Target(basis, ko.likelihoods.ShiftMixture(20.0, 0.5, 1.0), x, np.zeros(100))
    start = shift.paper_start(target, 5)
    # u = √M Λ^{-1/2}Vᵀa, from the eigenvectors themselves.
    values, vectors = np.linalg.eigh(np.asarray(prior.kernel(points, points)) / shift.NUM_INDUCING)
    a = -np.linspace(-1.0, 3.0, 5)[:, None] + 1e-4 * np.random.default_rng(0).normal(size=(5, shift.NUM_INDUCING))
    by_hand = np.sqrt(shift.NUM_INDUCING) * (a @ vectors) / np.sqrt(values)
    assert np.allclose(np.linalg.norm(start, axis=1), np.linalg.norm(by_hand, axis=1), rtol=1e-6)
    f = start @ np.asarray(basis.conditional_mean(points)).T
    assert np.allclose(f.mean(axis=1), [12.0, 0.0, -12.0, -24.0, -36.0], atol=0.01)
    levels = np.broadcast_to(f.mean(axis=1, keepdims=True), (5, 100))
    assert list(shift.is_shifted(target, levels)) == [False, False, True, True, True]
    half = np.where(np.arange(100) < 50, 0.0, -20.0)[None]
    assert list(shift.is_mixed(target, half)) == [True]


def shift_entry(shifted, closed, alpha=0.5):
    grid = np.linspace(-3.0, 3.0, 5)
    modes = [1] * shifted + [0] * (40 - shifted)
    return {
        "closed": closed,
        "alpha": alpha,
        "num_particles": 40,
        "shifted": shifted,
        "mixed": 0,
        "kernel": {"lengthscale": 0.3, "variance": 4.0},
        "converged": True,
        "r_hat": 1.0,
        "seconds": 1.0,
        "compile_seconds": 0.5,
        "step_size": 0.001,
        "steps": 100,
        "grid": list(grid),
        "draws": [list(np.sin(grid) - 20.0 * mode) for mode in modes],
        "draw_shifted": modes,
        "at_cut": [-20.0 * mode for mode in modes],
        "x": list(grid),
        "y": list(np.sin(grid)),
    }


def shift_cells():
    local = {"num_particles": 50, "shifted": 37, "mixed": 3, "begun": 37}
    tried = [{"size": 0.1, "energy": None}, {"size": 0.001, "energy": 1500.0}]
    energies = {"unshifted": 1300.0, "shifted": 1409.0}
    return {
        "paper": {**shift_entry(20, -109.0), "tried": tried, "energies": energies},
        "paper-tempering": shift_entry(0, -109.0),
        "odds-0": {**shift_entry(20, 0.0), "local": local},
        "odds-1": {**shift_entry(30, 1.0), "local": local},
    }


def test_table_of_shifts():
    text = shift.EXPERIMENT.table(shift_cells())
    assert "one mode, and the second group comes from the start" in text
    assert "109.0 nats apart" in text
    assert "they agree" in text
    assert "all in one mode" in text
    wrong = {**shift_cells(), "odds-1": {**shift_cells()["odds-1"], "shifted": 2}}
    assert "they DISAGREE" in shift.EXPERIMENT.table(wrong)
    for missing in shift_cells():
        rest = {name: cell for name, cell in shift_cells().items() if name != missing}
        assert "| data | sampler |" in shift.EXPERIMENT.table(rest)
    assert "| data | sampler |" in shift.EXPERIMENT.table({})


def test_pictures_of_shifts(tmp_path):
    pytest.importorskip("matplotlib")
    assert [path.name for path in shift.EXPERIMENT.draw(shift_cells(), tmp_path)] == ["shift-functions.png"]
    only = {"paper-tempering": shift_cells()["paper-tempering"]}
    assert len(shift.EXPERIMENT.draw(only, tmp_path)) == 1
    assert shift.EXPERIMENT.draw({}, tmp_path) == []


def test_sampled_log_odds_of_one_mode_are_none():
    assert _shift_page.sampled_log_odds(0, 10) is None
    assert _shift_page.sampled_log_odds(10, 10) is None


def test_a_short_run_is_described():
    target = shift.halfway_problem(0.0, num_rows=24)
    start = np.broadcast_to(np.repeat([10.0, -10.0], 8)[:, None], (16, *target.shape))
    sampler = ko.samplers.EulerMaruyama(num_steps=20, preconditioned=True)
    with pytest.warns(ko.errors.ConvergenceWarning):
        particles, report = ko.sample(jax.random.key(0), target, sampler, 16, initial=start)
    found = as_json(shift.describe(target, particles, report))
    assert (found["num_particles"], found["shifted"], found["mixed"]) == (16, 8, 0)


# Complexity


def timed(values, power, names=("kosambi", "SVGP")):
    def point(value):
        seconds = 1e-3 * value**power
        return {"value": value, "total": seconds, "totals": [seconds] * 3, "step": seconds, "kept": 5, "compiling": 1.0}

    return {name: [point(value) for value in values] for name in names}


def timing_cells():
    names = {"N": ("kosambi", "kosambi, Student-t", "SVGP"), "M": ("kosambi", "kosambi, rough kernel", "SVGP")}
    cells = {axis: {"axis": axis, "points": timed([10, 20, 40, 80], 1.0, names[axis])} for axis in names}
    return {**cells, "J": {"axis": "J", "points": timed([10, 100], 2.0, ("kosambi",))}}


def test_slopes():
    assert complexity.slope([1, 2, 4], [3.0, 12.0, 48.0]) == pytest.approx(2.0)
    assert np.isnan(complexity.slope([1, 2], [1.0, -1.0]))


def test_table_of_times():
    text = complexity.EXPERIMENT.table(timing_cells())
    assert "time grows as N to the power 1.00 (total)" in text
    assert "time grows as J to the power 2.00 (total)" in text
    assert "SVGP takes 1.0 to 1.0 times as long as kosambi a step" in text
    assert "### Over" not in complexity.EXPERIMENT.table({})


def test_picture_of_times(tmp_path):
    pytest.importorskip("matplotlib")
    assert [path.name for path in complexity.EXPERIMENT.draw(timing_cells(), tmp_path)] == ["complexity-growth.png"]
    assert complexity.EXPERIMENT.draw({}, tmp_path) == []


def test_times_of_a_small_size():
    found = as_json(complexity.grow("J", [20, 40], repeats=1, rival=False))
    first, second = found["points"]["kosambi"]
    assert (first["value"], second["value"], first["kept"]) == (20, 40, 10)
    assert first["total"] > 0.0
    assert first["compiling"] > 0.0


def test_rival_takes_its_steps():
    pytest.importorskip("gpytorch")
    from reproduction._svgp_steps import svgp_times

    x = curves.grid(30)
    times = svgp_times(x, curves.regression(1, 30), x[::10], 2, 0.1)
    assert times.build > 0.0
    assert times.steps > 0.0
