"""Dates on axes, effects of dates and of seasons, and the prediction over time."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

import kosambi as ko
from kosambi import plots
from kosambi._core.calendar import circles, on_circle, phases
from kosambi.errors import InputError
from kosambi.page import render
from kosambi.plots.dates import mark_axis, shown_ends, shown_name, shown_value, unit_of
from kosambi.plots.seasons import averaged_season, influence
from kosambi.tables import TableTransformer

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.figure import Figure

RNG = np.random.default_rng(0)
DAYS = np.arange(60)
TABLE = pd.DataFrame({"date": pd.Timestamp("2024-02-01") + pd.to_timedelta(DAYS, "D")})
X = TableTransformer().fit_transform(TABLE)
Y = np.where(DAYS % 7 == 2, 2.0, 0.0) + 0.02 * DAYS + 0.1 * RNG.normal(size=60)
LABEL = "date (days since 2024-02-01)"
FEW = {"hyperparameters": None, "n_inducing": 20, "n_samples": 20, "progress": False}


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def model():
    return ko.ProjectedLangevinRegressor(**FEW).fit(X, Y)


def ticks(axes):
    axes.figure.canvas.draw()
    return [tick.get_text() for tick in axes.get_xticklabels()]


@pytest.mark.parametrize(
    ("origin", "ends", "expected"),
    [
        ("2024-02-01", (0.0, 60.0), ["Feb", "15", "Mar", "15", "Apr"]),
        ("1900-01-01", (0.0, 40_000.0), ["1900", "1920", "1940", "1960", "1980", "2000"]),
        ("2024-02-01", (0.0, 0.25), ["Feb-01", "01:00", "02:00", "03:00", "04:00", "05:00", "06:00"]),
    ],
)
def test_ticks_are_dates(origin, ends, expected):
    axes = Figure().add_subplot()
    axes.plot(ends, (0.0, 1.0))
    axes.set_xlim(*ends)
    mark_axis(axes.xaxis, f"d (days since {origin})")
    words = ticks(axes)
    assert words[: len(expected)] == expected
    # A tick stands where its date is, in days since the origin.
    first = axes.get_xticks()[0]
    assert first == pytest.approx(round(first * 24) / 24, abs=1e-6)
    assert axes.xaxis.get_major_formatter()(first).startswith(str(np.datetime64(origin) + int(first)))


def test_ticks_do_not_leave_the_calendar():
    axes = Figure().add_subplot()
    axes.set_xlim(-1e7, 1e7)
    mark_axis(axes.xaxis, LABEL)
    assert ticks(axes)


def test_other_axes_stay_as_they_are():
    axes = Figure().add_subplot()
    before = axes.xaxis.get_major_locator()
    mark_axis(axes.xaxis, "size")
    assert axes.xaxis.get_major_locator() is before
    mark_axis(axes.xaxis, "start (hours)")
    axes.set_xlim(0.0, 24.0)
    assert "4:00" in ticks(axes)


def test_values_in_words():
    assert shown_value(LABEL, 0.5) == "2024-02-01 12:00"
    assert shown_value(LABEL, 1e9) == "1e+09"
    assert shown_value("d (days since 0500-01-01)", 1.0) == "0500-01-02"
    assert shown_ends(LABEL, np.array([0.5, 0.75])) == ("2024-02-01 12:00", "2024-02-01 18:00")
    assert [shown_name(label) for label in (LABEL, "d (days since 2024-02-01 UTC)")] == ["date", "d (UTC)"]
    assert [unit_of(label) for label in (LABEL, "t (hours)", "size")] == [" days", " hours", ""]


def test_the_effect_of_a_season_is_an_average_over_rows_at_one_time(model):
    (circle,) = circles(list(X))
    effect = averaged_season(model, X.to_numpy(), circle, max_rows=60, num_samples=10)
    assert effect.levels == ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
    expected = []
    for day in range(7):
        rows = X.copy()
        rows.iloc[:, 1:] = on_circle(np.array([day / 7]))
        expected.append(model.predict(rows).mean())
    np.testing.assert_allclose(effect.mean[:, 0], expected, rtol=1e-9)
    np.testing.assert_array_equal(effect.data, TABLE["date"].dt.day_of_week)
    assert influence(effect) == pytest.approx(np.var(np.array(expected)[TABLE["date"].dt.day_of_week]), rel=1e-9)
    # Saturdays, the third day after a Thursday, are what stands out; a season of one column alone would not show it.
    assert np.argmax(effect.mean[:, 0]) == 5


def test_panels_have_the_name_of_the_column_and_its_calendar(model):
    axes = plots.partial_effect(model, X, "date", num_samples=10, num_points=9)
    assert axes.get_xlabel() == "date"
    assert {"Feb", "Mar"} <= set(ticks(axes))
    by_label = plots.partial_effect(model, X, LABEL, num_samples=10, num_points=9)
    assert by_label.get_xlabel() == "date"
    week = plots.partial_effect(model, X, "date: day of the week", num_samples=10)
    assert ticks(week) == ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
    with pytest.raises(InputError, match="`feature` must be"):
        plots.partial_effect(model, X, "date: time of year")


@pytest.mark.parametrize(("season", "first"), [("day", "0:00"), ("year", "Jan")])
def test_panels_of_days_and_years_go_once_round(season, first):
    phase = phases(season, np.linspace(0.0, 365.9, 40), "2024-01-01")
    words = {"day": "time of day", "year": "time of year"}[season]
    table = pd.DataFrame(on_circle(phase), columns=[f"t ({words}, {part})" for part in ("sine", "cosine")])
    fitted = ko.ProjectedLangevinRegressor(**FEW | {"n_inducing": 10}).fit(table, np.cos(2 * np.pi * phase))
    axes = plots.partial_effect(fitted, table, f"t: {words}", num_samples=10)
    assert ticks(axes)[0] == first
    line = next(line for line in axes.lines if line.get_label() == "mean").get_ydata()
    assert line[0] == pytest.approx(line[-1], abs=1e-9)


def test_the_prediction_over_time(model):
    for axes in (plots.timeline(model), plots.posterior(model)):
        lines = {line.get_label(): line.get_xydata() for line in axes.lines}
        np.testing.assert_allclose(lines["data"], np.column_stack([DAYS, Y]), atol=1e-9)
        times, mean = lines["mean"].T
        assert (times[0], times[-1]) == pytest.approx((0.0, 59 * 1.1))
        inputs = TableTransformer().fit(TABLE)
        whole = np.arange(60)[np.isin(np.arange(60), np.round(times, 6))]
        for day in whole:
            expected = model.predict(inputs.transform(TABLE.iloc[[day]]))
            assert mean[np.argmin(np.abs(times - day))] == pytest.approx(expected[0], rel=1e-6)
        assert len(whole) > 0
        assert axes.get_xlabel() == "date"
        assert "Mar" in ticks(axes)


def test_of_many_rows_the_last_are_drawn(model):
    axes = plots.timeline(model, num_points=40)
    low, high = axes.get_xlim()
    assert high > 59.0
    assert high - low == pytest.approx(40 * 7 / 14)


def test_bad_input_a_timeline_of_other_columns(model):
    other = ko.ProjectedLangevinRegressor(**FEW).fit(X.assign(size=RNG.normal(size=60)), Y)
    with pytest.raises(InputError, match=r"draws estimators of one column of dates. This one has 4 columns"):
        plots.timeline(other)
    with pytest.raises(InputError, match="draws estimators of one column of dates"):
        plots.timeline(model.posterior_)


def test_a_single_column_of_days_has_dates_on_its_axis():
    days = X[[LABEL]]
    fitted = ko.ProjectedLangevinRegressor(**FEW).fit(days, Y)
    axes = plots.posterior(fitted)
    assert axes.get_xlabel() == "date"
    assert "Mar" in ticks(axes)
    several = X.assign(size=RNG.uniform(size=60))[[LABEL, "size"]]
    surface = plots.surface(ko.ProjectedLangevinRegressor(**FEW).fit(several, Y), num_points=6)
    assert surface.get_xlabel() == "date"
    assert "Mar" in ticks(surface)


@pytest.mark.slow
def test_a_page_shows_dates(model):
    page = render(model, X, Y, target="sales")
    assert "days since" not in page
    for words in (
        "date: day of the week: from",
        "date: from 2024-02-01 to 2024-03-",
        "over date",
        "beyond the last one",
    ):
        assert words in page
    assert "<td>date: day of the week, sine</td>" in page
    assert " days</td>" in page
