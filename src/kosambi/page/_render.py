"""The page as text."""

from __future__ import annotations

import importlib.resources
import itertools
from typing import Any

from kosambi._core.types import ArrayLike
from kosambi.errors import InputError
from kosambi.page._effect_sections import effects_section
from kosambi.page._facts import Facts, gathered
from kosambi.page._held_out_sections import calibration_section, predictions_section
from kosambi.page._html import Markup, joined, tag
from kosambi.page._model_sections import (
    basis_section,
    parameters_section,
    run_section,
    versions_section,
    warnings_section,
)
from kosambi.page._numbers import key_figures
from kosambi.page._verdict import verdict

# Nothing may be fetched and nothing may run, whatever gets into the page.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"


def render(
    estimator: Any,
    X: ArrayLike | None = None,
    y: ArrayLike | None = None,
    *,
    title: str | None = None,
    source: str | None = None,
    date: str | None = None,
    target: str | None = None,
) -> str:
    """The page about a fitted estimator as one HTML text.

    The same estimator and data give the same text. Names of columns and classes are shown as they are, whatever they
    contain. Nothing global is changed, so that several threads may do this at once.

    Arguments:
        estimator: a fitted `ProjectedLangevinRegressor` or `ProjectedLangevinClassifier`.
        X: (n, D), held-out rows in the units of the fit; an array, or a data frame, whose column names are shown. None
            where there are none; sections that need them then say so.
        y: (n,), what was observed there; the name of a series is shown.
        title: the heading; made from the kind of model when None.
        source: where the data come from, shown below the title.
        date: a date to show; none when None, because nothing else on the page changes with time.
        target: what y is called; the name of a series, or "y", when None.

    >>> import numpy as np, kosambi as ko
    >>> x = np.linspace(0.0, 6.0, 40)[:, None]
    >>> model = ko.ProjectedLangevinRegressor(hyperparameters=None, n_inducing=8, n_samples=20).fit(x, np.sin(x[:, 0]))
    >>> ko.page.render(model, title="A <sine>").splitlines()[0]
    '<!doctype html>'
    """
    for name, value in (("title", title), ("source", source), ("date", date), ("target", target)):
        if value is not None and not isinstance(value, str):
            raise InputError(f"`{name}` must be text or None. Got {value!r}.")
    facts = gathered(estimator, X, y, target)
    numbers = itertools.count(1)
    parts = {
        "Predictions": predictions_section(facts, numbers),
        "Calibration": calibration_section(facts, numbers),
        "Inputs": effects_section(facts, numbers),
        "Sampler": run_section(facts, numbers),
        "Inducing points": basis_section(facts, numbers),
        "Hyperparameters": parameters_section(facts, numbers),
        "Warnings": warnings_section(facts),
        "Versions": versions_section(facts),
    }
    places = ("predictions", "calibration", "effects", "sampler", "inducing-points", "hyperparameters", "warnings")
    links = zip(parts, (*places, "versions"), strict=True)
    heading = _title(facts) if title is None else title
    about = " · ".join(text for text in (source, date) if text)
    body = tag(
        "main",
        tag("h1", heading),
        tag("p", about, class_="source") if about else None,
        verdict(facts),
        key_figures(facts),
        tag("nav", tag("ul", *[tag("li", tag("a", t, href=f"#{p}")) for t, p in links]), aria_label="Sections"),
        *parts.values(),
        tag("footer", "Made by kosambi. The page is complete in itself and asks for nothing from elsewhere."),
    )
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name_="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        tag("title", heading),
        tag("style", Markup(importlib.resources.files("kosambi.page").joinpath("style.css").read_text("utf-8"))),
    )
    return str(joined(Markup("<!doctype html>\n"), tag("html", head, tag("body", body), lang="en"), Markup("\n")))


def _title(facts: Facts) -> str:
    likelihood = type(facts.posterior.likelihood).__name__
    kind = f"{len(facts.classes)} classes" if facts.has_labels else facts.target
    return f"{kind}: {likelihood} model of {len(facts.names)} input{'s' if len(facts.names) > 1 else ''}"
