"""Pictures of the gallery that come from tutorials: run a tutorial and keep some of its figures.

    python docs/_extensions/pictures.py several_modes time_series     # or none for all, some minutes

Tutorials are run at every build, but a page such as the gallery needs files. `KOSAMBI_DATA` must name the folder with
the data that a tutorial needs: a picture of made-up rows is not kept.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

DOCS = Path(__file__).parents[1]
# Tutorial, the number of the figure from 0, and the file.
KEPT = {
    "classification": {1: "classification.png"},
    "counts": {0: "counts.png", 2: "bicycles.png"},
    "heteroscedastic": {1: "noise.png"},
    "inverse_problem": {0: "inverse_problem.png"},
    "large_data": {0: "large_data.png"},
    "outliers": {0: "outliers.png"},
    "several_modes": {0: "square_link.png", 1: "several_modes.png"},
    "several_outputs": {0: "several_outputs.png"},
    "time_series": {0: "time_series.png", 2: "bicycles_forecast.png"},
}


def keep(name: str) -> list[Path]:
    """Run one tutorial in its own folder, and write the figures that are listed."""
    figures: list[plt.Figure] = []
    printed: list[str] = []

    def show() -> None:
        figures.extend(plt.figure(number) for number in plt.get_fignums())
        plt.close("all")

    def note(*values: object, **_: object) -> None:
        printed.append(" ".join(map(str, values)))

    folder, before = Path.cwd(), plt.show
    plt.show = show  # type: ignore[assignment]
    try:
        os.chdir(DOCS / "tutorials")
        exec(compile(Path(f"{name}.py").read_text("utf-8"), name, "exec"), {"__name__": "__main__", "print": note})
    finally:
        os.chdir(folder)
        plt.show = before
    if any("STAND-IN" in line for line in printed):
        raise SystemExit(f"{name}: the data are not there, so its pictures would be of made-up rows. Set KOSAMBI_DATA.")
    places = {number: DOCS / "images" / file for number, file in KEPT[name].items()}
    for number, place in places.items():
        figures[number].savefig(place, dpi=100, bbox_inches="tight", facecolor="white")
    return list(places.values())


if __name__ == "__main__":
    for each in sys.argv[1:] or KEPT:
        print(each, *(path.name for path in keep(each)))
