"""The documentation speaks of what there is: names resolve, pages are in the menu, usual terms can be found."""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import inspect
import re
from pathlib import Path

import pytest
import yaml

import kosambi as ko
from kosambi.target.modes import Modes

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
# Results are written by the experiments; a decision may name what it replaced.
PAGES = sorted(page for page in [ROOT / "README.md", *DOCS.glob("*.md")] if page.name != "results.md")
OWNERS = {
    "FitReport": [ko.FitReport],
    "basis": [ko.basis.AbstractBasis, ko.RitzBasis, ko.PointBasis],
    "certificate": [ko.posterior.Certificate],
    "fit": [ko.FitReport],
    "likelihood": [ko.likelihoods.AbstractLikelihood],
    "measure": [type(ko.measures.empirical([[0.0]]))],
    "modes": [Modes],
    "particles": [ko.samplers.Particles],
    "posterior": [ko.Posterior],
    "prediction": [ko.Prediction],
    "prior": [ko.GaussianProcess, ko.GaussianRandomElement],
    "report": [ko.samplers.Report],
    "selection": [ko.learning.Selection],
    "target": [ko.Target],
}
"""Whose attributes a name such as `certificate.bound` on a page stands for; a module of that name counts too."""


def code_spans(page: Path) -> list[str]:
    """What stands between single backticks, outside of code blocks."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    return re.findall(r"`([^`\n]+)`", text)


def has(owner: type, name: str) -> bool:
    """Whether a class has an attribute or a field of that name, or sets it in its constructor."""
    fields = [field.name for field in dataclasses.fields(owner)] if dataclasses.is_dataclass(owner) else []
    return hasattr(owner, name) or name in fields or f"self.{name}" in inspect.getsource(owner)


def resolve(path: str) -> object:
    """The object at a dotted path below `kosambi`: modules by import, the rest by attribute."""
    found: object = ko
    for name in path.split("."):
        try:
            found = getattr(found, name)
        except AttributeError:
            found = importlib.import_module(f"{found.__name__}.{name}")  # type: ignore[attr-defined]
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_dotted_names_on_a_page_exist(page):
    for span in code_spans(page):
        for path in re.findall(r"(?:^|[\s(])(?:ko|kosambi)\.([A-Za-z_.0-9]*[A-Za-z_0-9])", span):
            resolve(path)


@pytest.mark.parametrize("name", ["glossary.md", "notation.md"])
def test_attributes_on_a_page_exist(name):
    checked = 0
    for span in code_spans(DOCS / name):
        match = re.match(r"(\w+)\.(\w+)", span)
        if match is None or match[1] in ("ko", "kosambi"):
            continue
        owner, attribute = match.groups()
        module = getattr(ko, owner) if owner in ko.__all__ else None
        assert any(has(each, attribute) for each in OWNERS.get(owner, [])) or hasattr(module, attribute), span
        checked += 1
    assert checked > 20


def pages_of(entry) -> set[str]:
    """The pages of a part of the menu, however deep."""
    if isinstance(entry, str):
        return {entry}
    return set().union(*(pages_of(below) for below in (entry.values() if isinstance(entry, dict) else entry)))


def test_every_page_is_in_the_menu():
    pages = [*DOCS.glob("*.md"), *DOCS.glob("adr/*.md"), *DOCS.glob("tutorials/*.py")]
    assert pages_of(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]) == {
        str(page.relative_to(DOCS)) for page in pages
    }


def test_the_build_knows_which_public_names_the_reference_lacks():
    spec = importlib.util.spec_from_file_location("reference", DOCS / "_extensions" / "reference.py")
    reference = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(reference)
    names = {"kosambi.infer": {"kosambi.infer", "kosambi.inference.infer"}, "kosambi.plots.pit": {"kosambi.plots.pit"}}
    assert reference.missing('<h3 id="kosambi.inference.infer">', names) == ["kosambi.plots.pit"]
    assert reference.missing('<h3 id="kosambi.infer"><h3 id="kosambi.plots.pit">', names) == []
    assert {"kosambi.infer", "kosambi.plots.surface"} <= set(reference.public_names())


@pytest.mark.parametrize(
    "term",
    [
        "MCMC",
        "calibration",
        "credible interval",
        "hyperparameter",
        "inducing points",
        "kernel",
        "marginal likelihood",
        "per observation",
        "posterior predictive",
        "residual variance",
        "standard deviation",
    ],
)
def test_usual_terms_are_found_in_the_guide_and_the_glossary(term):
    for page in ("guide.md", "glossary.md"):
        text = " ".join((DOCS / page).read_text().split())
        assert term.lower() in text.lower(), page
