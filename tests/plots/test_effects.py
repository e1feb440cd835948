"""Averaged effects of single inputs, against averages that are worked out from predictions here."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

import kosambi as ko
from kosambi import plots
from kosambi.errors import InputError
from kosambi.plots.average import averaged, influences
from tests.page.models import NAMES, case

mpl.use("Agg")
import matplotlib.pyplot as plt


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    plt.close("all")


def by_label(axes):
    return {entry.get_label(): entry for entry in (*axes.lines, *axes.collections)}


def table_at(X, column, values):
    """All rows for each value in turn, in the kind of table that was given."""
    tables = []
    for value in values:
        rows = np.array(X, dtype=float)
        rows[:, column] = value
        tables.append(rows)
    joined = np.concatenate(tables)
    return pd.DataFrame(joined, columns=X.columns) if hasattr(X, "columns") else joined


def test_line_band_and_draws_are_averages_over_the_rows():
    model, X, _ = case("surface")
    axes = plots.partial_effect(model, X, 0, coverage=0.8, num_points=9, max_rows=50, num_draws=3)
    found = by_label(axes)
    values = np.linspace(*np.quantile(X["speed"], [0.01, 0.99]), 9)
    np.testing.assert_array_equal(found["mean"].get_xdata(), values)
    inputs = table_at(X, 0, values)
    np.testing.assert_allclose(found["mean"].get_ydata(), model.predict(inputs).reshape(9, 50).mean(axis=1), rtol=1e-12)
    draws = model.sample_functions(inputs, n_samples=20).reshape(9, 50, 20).mean(axis=1)
    lower, upper = np.quantile(draws, [0.1, 0.9], axis=1)
    corners = found["80 %"].get_paths()[0].vertices
    for value, low, high in zip(values, lower, upper, strict=True):
        at = corners[np.isclose(corners[:, 0], value), 1]
        np.testing.assert_allclose([at.min(), at.max()], [low, high], rtol=1e-9)
    np.testing.assert_allclose(found["3 draws"].get_ydata(), draws[:, 0], rtol=1e-9)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("speed", "E[y | f], averaged")


def test_few_values_are_points_with_error_bars_and_columns_have_names():
    model, X, _ = case("surface")
    axes = plots.partial_effect(model, X, NAMES[1], max_rows=50)
    found = by_label(axes)
    np.testing.assert_array_equal(found["mean"].get_xdata(), [0.0, 1.0])
    assert found["mean"].get_linestyle() == "None"
    means = model.predict(table_at(X, 1, [0.0, 1.0])).reshape(2, 50).mean(axis=1)
    np.testing.assert_allclose(found["mean"].get_ydata(), means, rtol=1e-12)
    assert len(found["95 %"].get_segments()) == 2
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["0", "1"]
    assert axes.get_xlabel() == NAMES[1]
    # A plain array has the names of the fit.
    again = plots.partial_effect(model, np.asarray(X), 2, num_samples=5)
    assert again.get_xlabel() == NAMES[2].replace("$", r"\$")


@pytest.mark.slow
def test_two_classes_have_one_probability():
    model, X, _ = case("two")
    axes = plots.partial_effect(model, X, 0, num_points=5, max_rows=50)
    inputs = table_at(X, 0, np.linspace(*np.quantile(X[:, 0], [0.01, 0.99]), 5))
    probability = model.predict_proba(inputs)[:, 1].reshape(5, 50).mean(axis=1)
    np.testing.assert_allclose(by_label(axes)["mean"].get_ydata(), probability, rtol=1e-9)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("x0", "P(y = True)")


@pytest.mark.slow
def test_several_classes_have_a_line_each():
    model, X, _ = case("three")
    lines = by_label(plots.partial_effect(model, X, 0, num_points=5, max_rows=50))
    np.testing.assert_allclose(sum(lines[name].get_ydata() for name in model.classes_), 1.0)
    inputs = table_at(X, 0, lines["cat"].get_xdata())
    f = model.sample_functions(inputs, n_samples=20)
    shares = np.exp(f) / np.exp(f).sum(axis=2, keepdims=True)
    expected = shares[:, :, 2].reshape(5, 50, 20).mean(axis=(1, 2))
    np.testing.assert_allclose(lines["cat"].get_ydata(), expected, rtol=1e-9)
    axes = plots.partial_effect(model, X, 0, label=2, num_points=5, max_rows=50)
    np.testing.assert_allclose(by_label(axes)["cat"].get_ydata(), expected, rtol=1e-9)
    assert axes.get_ylabel() == "P(y = cat)"
    assert "5 draws" in by_label(axes)


@pytest.mark.slow
def test_rates_are_drawn_on_their_own_scale():
    model, X, _ = case("counts")
    effect = averaged(model, X, 0, num_points=6)
    inputs = effect.values[:, None]
    rates = np.exp(model.sample_functions(inputs, n_samples=20))
    np.testing.assert_allclose(effect.draws[:, :, 0].T, rates, rtol=1e-9)
    np.testing.assert_allclose(effect.mean[:, 0], model.predict(inputs), rtol=1e-12)
    assert effect.is_response


@pytest.mark.slow
def test_a_loss_has_functions_in_place_of_means():
    X = np.random.default_rng(0).normal(size=(40, 2))
    settings = {"hyperparameters": None, "n_inducing": 8, "n_samples": 12}
    model = ko.ProjectedLangevinRegressor(ko.likelihoods.Huber(0.5), **settings).fit(X, X[:, 0])
    effect = averaged(model, X, 0, num_points=4)
    assert not effect.is_response
    functions = model.sample_functions(table_at(X, 0, effect.values), n_samples=12).reshape(4, 40, 12).mean(axis=1)
    np.testing.assert_allclose(effect.draws[:, :, 0].T, functions, rtol=1e-9)


def test_influential_columns_are_found():
    model, X, _ = case("surface")
    assert list(np.argsort(-influences(model, np.asarray(X)))) == [0, 1, 2]


@pytest.mark.slow
def test_influences_on_several_classes_are_one_number_a_column():
    assert influences(case("three").estimator, case("three").X).shape == (2,)


def test_rows_are_thinned_out_evenly():
    model, X, _ = case("surface")
    effect = averaged(model, np.asarray(X), 0, num_points=3, max_rows=7)
    rows = X.iloc[np.linspace(0, 49, 7).round().astype(int)]
    expected = model.predict(table_at(rows, 0, effect.values)).reshape(3, 7).mean(axis=1)
    np.testing.assert_allclose(effect.mean[:, 0], expected, rtol=1e-12)


def test_bad_input_is_refused_with_a_remedy():
    model, X, _ = case("surface")
    with pytest.raises(InputError, match=r"`feature` must be a column number from 0 to 2, or one of speed, .* Got 3"):
        plots.partial_effect(model, X, 3)
    with pytest.raises(InputError, match="Got 'wind'"):
        plots.partial_effect(model, X, "wind")
    with pytest.raises(InputError, match="`X` has 1 columns, but 3 are expected"):
        plots.partial_effect(model, np.asarray(X)[:, :1], 0)
    with pytest.raises(InputError, match=r"`num_draws` must be a whole number, 0 or more. Got -1"):
        plots.partial_effect(model, X, 0, num_draws=-1, num_samples=2)
    with pytest.raises(InputError, match="`max_rows` must be at least 1"):
        plots.partial_effect(model, X, 0, max_rows=0)


@pytest.mark.slow
def test_bad_input_labels():
    (model, X, _), three = case("two"), case("three").estimator
    with pytest.raises(InputError, match=r"`label` must be one of 1 \(False, True\) for labels"):
        plots.partial_effect(model, X, 0, label=0, num_samples=2)
    with pytest.raises(InputError, match=r"`label` must be one of 0, 1, 2 \(<i>ant, bee & wasp, cat\)"):
        plots.partial_effect(three, X, 0, label=3, num_samples=2)
