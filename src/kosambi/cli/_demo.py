"""`kosambi demo`: from tables made on the spot to pages, and a posterior with two modes as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kosambi._core.writing import write_atomically
from kosambi.cli._data import DataRequest
from kosambi.cli._exits import committing
from kosambi.cli._fit import FitRequest, check_matplotlib, fit
from kosambi.cli._predictions import write_table
from kosambi.cli._run_folder import PAGE
from kosambi.cli._screen import Screen
from kosambi.errors import FileError


class Example(NamedTuple):
    """A table, and how it is fitted."""

    name: str
    words: str
    table: dict[str, Any]
    target: str
    likelihood: str | None


def examples(seed: int) -> list[Example]:
    """The tables that are fitted as `kosambi fit` would.

    >>> [example.name for example in examples(0)]
    ['outliers', 'moons']
    """
    outliers, moons = np.random.default_rng(seed).spawn(2)
    words = "a curve with a gap and outliers, under Student's t"
    return [
        Example("outliers", words, _outliers(outliers), "signal", "student_t"),
        Example("moons", "two labels, two numbers and a group", _moons(moons), "label", None),
    ]


def demo(out: Path, screen: Screen, *, seed: int, force: bool) -> None:
    """Write the tables, fit them, and draw; says where everything is."""
    import pandas as pd  # type: ignore[import-untyped]

    if out.exists() and not out.is_dir():
        raise FileError(f"`{out}` is a file. Choose another `--out`.")
    if out.is_dir() and any(out.iterdir()) and not force:
        raise FileError(f"`{out}` exists and is not empty. Choose another `--out`, or replace its runs with `--force`.")
    check_matplotlib("")
    out.mkdir(parents=True, exist_ok=True)
    found = {}
    for example in examples(seed):
        screen.say(f"{example.name}: {example.words}")
        data, run = out / f"{example.name}.csv", out / example.name
        write_table(pd.DataFrame(example.table), data, force=True)
        rows = DataRequest(data, example.target, seed=seed)
        fit(FitRequest(rows, run, likelihood=example.likelihood, force=force), _inner(screen))
        found[example.name] = str(run / PAGE)
    screen.say("two_signs: counts whose rate is the square of f, so that f and -f explain them equally well")
    with screen.stage("two_signs", "Fitting a posterior with two modes"):
        picture, shares = two_signs(out, seed)
    found["two_signs"] = str(picture)
    shown = "\n".join(f"  {path}" for path in found.values())
    text = f"{shares[0]} functions are positive and {shares[1]} negative.\nOpen in a browser:\n{shown}"
    screen.result(text, {"files": found, "positive": shares[0], "negative": shares[1]})


def two_signs(out: Path, seed: int) -> tuple[Path, tuple[int, int]]:
    """Counts y ~ Poisson(f(x)²): their posterior has two modes, and draws are of both; returns how many of each."""
    import jax
    import pandas as pd
    from matplotlib.figure import Figure

    import kosambi as ko

    generator = np.random.default_rng([seed, 2])
    x = generator.uniform(-3.0, 3.0, 160).round(3)[:, None]
    # Without a zero in between, so that a function has one sign throughout.
    y = generator.poisson((2.2 + 1.2 * np.sin(1.5 * x[:, 0])) ** 2)
    write_table(pd.DataFrame({"position": x[:, 0], "count": y}), out / "two_signs.csv", force=True)
    kernel = ko.kernels.Matern52(lengthscale=1.5, variance=6.0, active_dims=None)
    key_fit, key_draw = jax.random.split(jax.random.key(seed))
    posterior = ko.infer(key_fit, kernel, ko.likelihoods.Poisson(link="square"), x, y, progress=False)
    posterior.save(out / "two_signs.kosambi")
    figure = Figure(figsize=(11.0, 4.0), layout="constrained")
    left, right = figure.subplots(1, 2)
    grid = np.linspace(-3.5, 3.5, 200)[:, None]
    functions = np.asarray(posterior.functions(key_draw)(grid))
    # Particles that are neighbours may have begun at the same place.
    left.plot(grid[:, 0], functions[::4].T, color="#0072B2", alpha=0.4, linewidth=0.8)
    left.set(xlabel="position", ylabel="f")
    ko.plots.posterior(posterior, key_draw, axes=right, num_draws=20)
    right.set(xlabel="position", ylabel="count, and its rate f²")
    path = out / "two_signs.png"
    write_atomically(path, lambda file: figure.savefig(file, dpi=110, format="png"), commit=committing(path))
    num_positive = int(np.sum(functions[:, 100] > 0))
    return path, (num_positive, len(functions) - num_positive)


def _inner(screen: Screen) -> Screen:
    """For a fit that is a part: its summary is for people, and stdout is left to the whole when that is JSON."""
    return Screen(quiet=screen.quiet or screen.as_json)


def _outliers(generator: np.random.Generator) -> dict[str, Any]:
    time = np.concatenate([generator.uniform(0.0, 5.0, 80), generator.uniform(7.0, 10.0, 50)])
    # Noise with heavy tails: most of it is small, and some is far off.
    signal = 20.0 + 4.0 * np.sin(1.3 * time) + 0.8 * time + 0.6 * generator.standard_t(2.5, size=130)
    return {"time": time.round(3), "signal": signal.round(3)}


def _moons(generator: np.random.Generator) -> dict[str, Any]:
    is_upper = generator.uniform(size=320) < 0.5
    angle = np.pi * generator.uniform(size=320)
    east = np.where(is_upper, np.cos(angle), 1.0 - np.cos(angle)) + 0.18 * generator.normal(size=320)
    north = np.where(is_upper, np.sin(angle), 0.5 - np.sin(angle)) + 0.18 * generator.normal(size=320)
    group = generator.choice(["calm", "mixed", "wild"], size=320)
    # In one group labels are half a coin toss, which only a model that looks at the group can know.
    flipped = (group == "wild") & (generator.uniform(size=320) < 0.3)
    label = np.where(is_upper ^ flipped, "upper", "lower")
    return {"east": east.round(3), "north": north.round(3), "group": group, "label": label}
