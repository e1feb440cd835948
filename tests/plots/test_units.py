"""Pictures of a fitted estimator speak in the units and names of its table."""

from __future__ import annotations

import jax
import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

import kosambi as ko
from kosambi.plots.surface import grid_values
from kosambi.plots.units import view

mpl.use("Agg")
import matplotlib.pyplot as plt

GIVEN = {"hyperparameters": None, "n_inducing": 8, "n_samples": 20, "progress": False}


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def curve():
    X = pd.DataFrame({"temperature [K]": np.linspace(250.0, 350.0, 40)})
    return ko.ProjectedLangevinRegressor(**GIVEN).fit(X, 3.0 + np.sin(X["temperature [K]"] / 15.0)), X


@pytest.fixture(scope="module")
def plane():
    X = np.random.default_rng(0).uniform([0.0, 500.0], [100.0, 900.0], (40, 2))
    return ko.ProjectedLangevinRegressor(**GIVEN).fit(X, np.sin(X[:, 0] / 20.0) + X[:, 1] / 300.0), X


def test_one_input_has_the_units_and_the_name_of_its_column(curve):
    model, X = curve
    axes = ko.plots.posterior(model, jax.random.key(0), num_draws=2)
    lines = {each.get_label(): each for each in axes.get_lines()}
    assert axes.get_xlabel() == "temperature [K]"
    np.testing.assert_allclose(np.sort(lines["data"].get_xdata()), X.iloc[:, 0], rtol=1e-12)
    # The margin is a tenth of the data's width.
    np.testing.assert_allclose(axes.get_xlim(), (240.0, 360.0), rtol=1e-12)
    x, mean = lines["mean of f"].get_data()
    expected = model.predict_distribution(pd.DataFrame({"temperature [K]": x})).mean
    np.testing.assert_allclose(mean, expected, rtol=1e-9)


def test_new_inputs_are_in_the_units_of_the_table(curve):
    axes = ko.plots.posterior(curve[0], x_new=[[260.0], [300.0]])
    np.testing.assert_allclose(axes.get_xlim(), (260.0, 300.0))


def test_a_map_of_two_inputs_has_the_predictions_of_the_estimator(plane):
    model, X = plane
    across, up, values = grid_values(view("surface", model), "mean", 5)
    np.testing.assert_allclose([across[0], across[-1]], [X[:, 0].min(), X[:, 0].max()], rtol=1e-12)
    np.testing.assert_allclose(values[3, 1], model.predict([[across[1], up[3]]])[0], rtol=1e-9)
    assert abs(values[3, 1] - model.predict([[across[3], up[1]]])[0]) > 1e-3  # the axes are not exchanged
    axes = ko.plots.posterior(model)
    assert (axes.get_xlabel(), axes.get_ylabel(), axes.get_title()) == ("x0", "x1", "mean of y")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda curve, plane: ko.plots.posterior(curve, x_scale=2.0), "Leave them out"),
        (lambda curve, plane: ko.plots.surface(curve), "two input columns. These have 1"),
        (lambda curve, plane: ko.plots.surface(plane, "median"), "`quantity` must be one of mean, deviation"),
        (lambda curve, plane: ko.plots.posterior(ko.ProjectedLangevinRegressor()), "call `fit` first"),
    ],
)
def test_refusals_say_what_to_do(curve, plane, call, words):
    with pytest.raises(ko.errors.InputError, match=words):
        call(curve[0], plane[0])
