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
HOW_TO = sorted(DOCS.glob("how_to/*.md"))
PAGES = sorted(page for page in [ROOT / "README.md", *DOCS.glob("*.md"), *HOW_TO] if page.name != "results.md")
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
    pages = [*DOCS.glob("*.md"), *HOW_TO, *DOCS.glob("adr/*.md"), *DOCS.glob("tutorials/*.py")]
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
def test_usual_terms_are_found_in_the_how_to_pages_and_the_glossary(term):
    for pages in (HOW_TO, [DOCS / "glossary.md"]):
        text = " ".join(" ".join(page.read_text() for page in pages).split())
        assert term.lower() in text.lower(), pages[0].name


@pytest.mark.parametrize("page", HOW_TO, ids=lambda page: page.stem)
def test_a_how_to_page_begins_with_its_question_and_an_example_that_stands_alone(page):
    title, question, *_ = page.read_text().split("\n\n")
    assert title.startswith("# ")
    assert question.startswith("*")
    assert question.endswith("?*")
    language, code = re.findall(r"^```(\w*)\n(.*?)^```", page.read_text(), flags=re.DOTALL | re.MULTILINE)[0]
    assert language == "python"
    assert "import" in code
    assert len(page.read_text().splitlines()) <= 250


def load(name: str):
    """One of the hooks of the build, which are no package."""
    spec = importlib.util.spec_from_file_location(name, DOCS / "_extensions" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_mathjax_is_put_into_the_site_where_its_package_is_named(tmp_path, monkeypatch):
    pytest.importorskip("mkdocs", reason="needs the docs extra")
    mathjax = load("mathjax")
    remote = yaml.load((ROOT / "mkdocs.yml").read_text(), yaml.BaseLoader)["extra_javascript"]
    config = {"extra_javascript": remote, "site_dir": str(tmp_path / "site")}
    monkeypatch.delenv("MATHJAX", raising=False)
    assert mathjax.on_config(config)["extra_javascript"] == remote
    assert any(script.endswith(mathjax.SCRIPT) for script in remote)
    for part in (mathjax.SCRIPT, f"{mathjax.FONTS}/a.woff", "LICENSE"):
        (tmp_path / "package" / part).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "package" / part).write_text(part)
    monkeypatch.setenv("MATHJAX", str(tmp_path / "package"))
    scripts = mathjax.on_config(config)["extra_javascript"]
    assert not [script for script in scripts if "://" in script]
    mathjax.on_post_build(config)
    for part in (mathjax.SCRIPT, f"{mathjax.FONTS}/a.woff"):
        assert (tmp_path / "site" / mathjax.HOME / part).read_text() == part
    assert (tmp_path / "site" / scripts[-1]).is_file()


def test_pictures_of_tutorials_are_in_the_gallery():
    shown = (DOCS / "gallery.md").read_text()
    for tutorial, pictures in load("pictures").KEPT.items():
        assert (DOCS / "tutorials" / f"{tutorial}.py").is_file()
        for picture in pictures.values():
            assert (DOCS / "images" / picture).is_file(), picture
            assert f"images/{picture})](tutorials/{tutorial}.py)" in shown, picture
