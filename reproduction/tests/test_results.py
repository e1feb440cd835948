"""The page of results in the documentation is the one that the kept JSON makes."""

import json
import shutil
from pathlib import Path

import pytest

from reproduction import NAMES, experiment, page

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_the_page_is_made_from_the_json(tmp_path):
    if not DOCS.is_dir():
        pytest.skip("the documentation is not beside the tests")
    shutil.copytree(DOCS / "results", tmp_path / "results", ignore=shutil.ignore_patterns("cells", "*.png"))
    written = page.write(tmp_path / "results.md", tmp_path / "results", [experiment(name) for name in NAMES])
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
