"""The page of results in the documentation is the one that the kept JSON makes, and the README quotes it."""

import json
import re
import shutil
from pathlib import Path

import pytest

from reproduction import page
from reproduction.experiment import NAMES, named

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"


def test_the_page_is_made_from_the_json(tmp_path):
    if not DOCS.is_dir():
        pytest.skip("the documentation is not beside the tests")
    shutil.copytree(DOCS / "results", tmp_path / "results", ignore=shutil.ignore_patterns("cells", "*.png"))
    written = page.write(tmp_path / "results.md", tmp_path / "results", [named(name) for name in NAMES])
    assert written.read_text() == (DOCS / "results.md").read_text()
    for figure in (DOCS / "results").glob("*.png"):
        assert (tmp_path / "results" / figure.name).is_file(), "a figure that nothing draws"


@pytest.mark.parametrize("name", NAMES)
def test_results_name_machines_and_versions(name):
    path = DOCS / "results" / f"{name}.json"
    if not path.is_file():
        pytest.skip(f"no results of {name} are kept")
    content = json.loads(path.read_text())
    assert content["cells"]
    for record in content["cells"].values():
        machine = content["machines"][record["machine"]]
        assert {"processor", "cores", "python", "versions"} <= set(machine)
        assert {"kosambi", "jax", "numpy"} <= set(machine["versions"])
        assert record["seconds"] >= 0


def rows(text):
    """Cells without bold and stars."""
    lines = [line.strip("|").split("|") for line in text.splitlines() if "|" in line]
    return [[re.sub(r"[\\*]", "", cell).strip() for cell in line] for line in lines]


def test_the_readme_quotes_the_page():
    if not DOCS.is_dir():
        pytest.skip("the documentation is not beside the tests")
    quoted = rows((ROOT / "README.md").read_text().split("## Results")[1].split("\n## ")[0])
    page = (DOCS / "results.md").read_text()
    table = rows(page.split("### Negative log likelihood, Gaussian")[1].split("###")[0])
    head, body = table[0], {row[0]: row for row in table[2:]}
    assert len(quoted) == 2 + len(body)
    for row in quoted[2:]:
        for name, value in zip(quoted[0][1:], row[1:], strict=True):
            assert body[row[0]][head.index(name)] == value
