"""What dates should become: scores of held-out rows with the time alone, and with the seasons of the calendar.

python -m benchmarks.dates --out dates.json [--made all] [--repeats 3] [--csv table.csv=date=target ...]

Tables are made with known structure (`MADE` says which), or are files with a column of dates; other columns of a file
that are numbers are inputs too. Held out are a random fifth of the rows, and the last fifth in time. Codings:

* days: the time as a number alone (`TableTransformer(dates="days")`);
* calendar: with the seasons that the span and the resolution of the column allow, as points on circles (the default);
* levels: the same with a column of 0 and 1 for each day of the week in place of its circle;
* always: the circles of day, week and year whatever the span, to see what the rule is for.

Prints mean negative log densities of the standardised target, lower is better, with the seconds of a fit.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import kosambi as ko
from kosambi._core.calendar import SEASONS, circle_labels, on_circle, phases
from kosambi.tables import TableTransformer
from reproduction.store import describe

CODINGS = ("days", "calendar", "levels", "always")
_MOST_ROWS = 1500


def _of_season(times: pd.DatetimeIndex, season: str) -> np.ndarray:
    days = (times - pd.Timestamp("2000-01-01")) / pd.Timedelta(days=1)
    return phases(season, np.asarray(days), "2000-01-01")


def made(name: str, generator: np.random.Generator) -> pd.DataFrame:
    """A table with the columns `date` and `y`, some with inputs besides."""
    frequency, number, *parts = MADE[name]
    if frequency == "any":
        times = pd.Timestamp("2019-01-01") + pd.to_timedelta(np.sort(generator.integers(0, 1500, number)), "D")
    else:
        times = pd.date_range("2020-01-01", periods=number, freq=frequency)
    years = np.asarray((times - times[0]) / pd.Timedelta(days=365.25))
    table = pd.DataFrame({"date": times})
    y = np.zeros(number)
    if "trend" in parts:
        y += 1.0 * years / years[-1]
    if "drift" in parts:
        y += np.cumsum(generator.normal(size=number)) * 4.0 / np.sqrt(number)
    if "week" in parts:
        y += np.array([0.0, 0.0, 0.1, 0.1, 0.6, 1.2, -1.0])[np.round(7 * _of_season(times, "week")).astype(int)]
    if "year" in parts:
        angle = 2 * np.pi * (_of_season(times, "year") - 0.55)
        y += 0.8 * np.cos(angle) + 0.3 * np.cos(2 * angle)
    if "day" in parts:
        hour, is_free = 24 * _of_season(times, "day"), _of_season(times, "week") > 4.5 / 7
        y += np.where(is_free, 0.4, 2.0 * np.exp(-0.5 * ((hour - 8) / 2) ** 2)) + np.exp(-0.5 * ((hour - 18) / 3) ** 2)
    if "size" in parts:
        table["size"], table["age"] = generator.uniform(40, 160, number), generator.uniform(0, 60, number)
        y += 0.02 * table["size"].to_numpy() - 0.01 * table["age"].to_numpy()
    table["y"] = y + 0.4 * generator.normal(size=number)
    return table


MADE: dict[str, Any] = {
    "25 dates of four years, trend": ("any", 25, "trend"),
    "40 dates of four years, trend": ("any", 40, "trend"),
    "28 days, trend": ("D", 28, "trend"),
    "60 days, trend": ("D", 60, "trend"),
    "30 months, trend": ("MS", 30, "trend"),
    "2 years of days, drift": ("D", 730, "drift"),
    "60 houses of four years": ("any", 60, "trend", "size"),
    "500 houses of four years": ("any", 500, "trend", "size"),
    "28 days, week": ("D", 28, "week"),
    "a year of days, week": ("D", 366, "trend", "week"),
    "3 years of days, week and year": ("D", 1096, "trend", "week", "year"),
    "3 years of days, week, year, inputs": ("D", 1096, "week", "year", "size"),
    "60 days of hours, day and week": ("h", 1440, "day"),
    "30 months, year": ("MS", 30, "year"),
    "5 years of months, year": ("MS", 60, "year"),
    "10 years of months, year": ("MS", 120, "trend", "year"),
    "12 years of quarters, year": ("QS", 48, "trend", "year"),
}
"""Frequency, number of rows, and what is in y besides noise."""


def coded(table: pd.DataFrame, coding: str, rows: np.ndarray) -> Any:
    """All rows, coded by what the rows of the training say."""
    inputs = table.drop(columns="y")
    transformer = TableTransformer(dates="days" if coding in ("days", "always") else "calendar")
    matrix = transformer.fit(inputs.iloc[rows]).transform(inputs)
    times = pd.DatetimeIndex(table["date"])
    if coding == "always":
        for season in SEASONS:
            matrix[list(circle_labels("date", season, None))] = on_circle(_of_season(times, season))
    week = [label for label in circle_labels("date", "week", None) if label in matrix]
    if coding == "levels" and week:
        days = np.round(7 * _of_season(times, "week")).astype(int)
        matrix = matrix.drop(columns=week)
        matrix[[f"date (day)={day}" for day in range(7)]] = np.eye(7)[days]
    return matrix


def scored(table: pd.DataFrame, coding: str, split: str, repeat: int) -> dict[str, Any]:
    """Scores of the held-out rows of one split with one coding."""
    number = len(table)
    order = np.argsort(table["date"].to_numpy(), kind="stable")
    if split == "random":
        order = np.random.default_rng(repeat).permutation(number)
    held = order[number - max(1, round(0.2 * number)) :]
    rows = np.setdiff1d(np.arange(number), held)
    matrix = coded(table, coding, rows)
    y = table["y"].to_numpy(dtype=float)
    y = (y - y[rows].mean()) / y[rows].std()
    start = time.perf_counter()
    model = ko.ProjectedLangevinRegressor(random_state=0, progress=False).fit(matrix.iloc[rows], y[rows])
    density = np.asarray(model.predict_log_density(matrix.iloc[held], y[held]))
    return {
        "coding": coding,
        "split": split,
        "repeat": repeat,
        "rows": number,
        "columns": matrix.shape[1],
        "nll": -float(density.mean()),
        "rmse": float(np.sqrt(np.mean((np.asarray(model.predict(matrix.iloc[held])) - y[held]) ** 2))),
        "seconds": time.perf_counter() - start,
    }


def from_file(text: str) -> tuple[str, pd.DataFrame]:
    """A table on disk, FILE=DATE=TARGET: its first rows, with inputs that are numbers."""
    path, date, target = text.rsplit("=", 2)
    raw = pd.read_csv(path).iloc[:_MOST_ROWS].rename(columns={date: "date", target: "y"})
    kept = [name for name in raw if name in ("date", "y") or pd.api.types.is_float_dtype(raw[name].dtype)]
    table = raw[kept].dropna().reset_index(drop=True)
    return Path(path).stem, table.assign(date=ko.tables.typed(table[["date"]])["date"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--made", nargs="*", default=["all"], help="names of MADE, or all")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--codings", nargs="*", default=list(CODINGS), choices=CODINGS)
    parser.add_argument("--csv", nargs="*", default=[], metavar="FILE=DATE=TARGET")
    options = parser.parse_args()
    warnings.simplefilter("ignore", ko.errors.DataWarning)
    names = list(MADE) if options.made == ["all"] else options.made
    files = dict(from_file(text) for text in options.csv)
    found: list[dict[str, Any]] = []
    for name in [*names, *files]:
        for repeat in range(options.repeats):
            table = files[name] if name in files else made(name, np.random.default_rng([repeat, 51]))
            for split in ("random", "last"):
                if split == "last" and repeat and name in files:
                    # There is one last fifth.
                    continue
                found += [{"table": name, **scored(table, each, split, repeat)} for each in options.codings]
            options.out.write_text(json.dumps({"machine": describe(), "scores": found}, indent=1) + "\n")
        for split in ("random", "last"):
            cells = []
            for each in options.codings:
                own = [s for s in found if (s["table"], s["split"], s["coding"]) == (name, split, each)]
                nll, seconds = (float(np.mean([score[key] for score in own])) for key in ("nll", "seconds"))
                cells.append(f"{each} {nll:.3f} ({own[0]['columns']}, {seconds:.0f} s)")
            print(f"{name}, {split}: {', '.join(cells)}", flush=True)


if __name__ == "__main__":
    main()
