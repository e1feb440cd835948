"""One panel for a category, a map for two inputs, and the name of the target on the page."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

import kosambi as ko
from kosambi.plots.average import influences
from kosambi.plots.categories import Category, averaged_category, categories, influence

RNG = np.random.default_rng(0)
CITY = RNG.integers(0, 3, 60)
TABLE = pd.DataFrame(np.eye(3)[CITY], columns=["city=Bonn <&>", "city=Köln", "city=Ulm"])
TABLE["size"] = RNG.uniform(20.0, 90.0, 60)
TABLE["kind=flat"] = RNG.integers(0, 2, 60).astype(float)
RENT = 10.0 * TABLE["size"] + np.array([0.0, 200.0, -100.0])[CITY] + 20.0 * TABLE["kind=flat"]
FEW = {"hyperparameters": None, "n_inducing": 20, "n_samples": 20, "progress": False}


@pytest.fixture(scope="module")
def model():
    return ko.ProjectedLangevinRegressor(**FEW).fit(TABLE, RENT)


def test_columns_of_one_category_are_found():
    X = TABLE.to_numpy()
    found = categories(list(TABLE), X)
    assert found == [
        Category("city", (0, 1, 2), ("Bonn <&>", "Köln", "Ulm")),
        Category("kind", (4,), ("other", "flat")),
    ]
    # Columns of which a row has two, or none, are no category.
    X[0, :3] = 1.0
    assert [each.name for each in categories(list(TABLE), X)] == ["kind"]


def test_the_effect_of_a_category_is_an_average_over_rows_with_one_level(model):
    X = TABLE.to_numpy()
    city = categories(list(TABLE), X)[0]
    effect = averaged_category(model, X, city, max_rows=60)
    expected = []
    for level in range(3):
        rows = TABLE.copy()
        rows.iloc[:, :3] = np.eye(3)[level]
        expected.append(model.predict(rows).mean())
    np.testing.assert_allclose(effect.mean[:, 0], expected, rtol=1e-9)
    np.testing.assert_array_equal(effect.data, CITY)
    shares = np.bincount(CITY) / 60
    np.testing.assert_allclose(influence(effect), np.sum(shares * (expected - shares @ expected) ** 2), rtol=1e-9)
    assert influence(effect) > influences(model, X)[4]


def test_a_panel_has_the_levels_below_its_axis(model):
    axes = ko.plots.partial_effect(model, TABLE, "city", num_samples=10)
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["Bonn <&>", "Köln", "Ulm"]
    assert axes.get_xlabel() == "city"
    assert ko.plots.partial_effect(model, TABLE, "city=Ulm", num_samples=10).get_xlabel() == "city=Ulm"
    with pytest.raises(ko.errors.InputError, match="town"):
        ko.plots.partial_effect(model, TABLE, "town")


def test_the_page_has_one_panel_a_category_and_the_name_of_the_target(model):
    text = ko.page.render(model, target="rent <€>")
    effects = text[text.index('id="effects"') : text.index('id="sampler"')]
    captions = re.findall(r"<figcaption>(.*?)</figcaption>", effects)
    assert len(captions) == 3
    assert sum("city" in caption for caption in captions) == 1
    assert any("from Ulm to Köln the average of rent &lt;€&gt;" in caption for caption in captions)
    assert "rent &lt;€&gt;: Gaussian model" in text


@pytest.mark.slow
def test_two_inputs_have_a_map():
    x = RNG.uniform(0.0, 100.0, (40, 2))
    model = ko.ProjectedLangevinRegressor(**FEW).fit(pd.DataFrame(x, columns=["east", "north"]), np.sin(x[:, 0] / 20.0))
    text = ko.page.render(model, target="height")
    assert "Over east and north: the mean of height." in text
    labels = ko.ProjectedLangevinClassifier(**FEW).fit(x, np.where(x[:, 0] > 50.0, "wet", "dry"))
    assert "Over x0 and x1: the probability of wet." in ko.page.render(labels)
