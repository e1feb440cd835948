"""The project's own promises: pages and examples run, metadata is valid, the import is light."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import kosambi as ko
from tests.cases import cases

ROOT = Path(__file__).parents[1]
PAGES = [str(page.relative_to(ROOT)) for page in sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])]
EXAMPLES = sorted(path.name for path in (ROOT / "examples").glob("*.py"))


def code_blocks(page: Path, language: str = "python") -> str:
    """The code of a page, blocks joined in order, so that later ones may use what earlier ones made."""
    return "\n".join(re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), flags=re.DOTALL | re.MULTILINE))


@pytest.mark.parametrize("page", cases([page for page in PAGES if code_blocks(ROOT / page)], quick=["README.md"]))
def test_code_in_the_documentation_runs(page, tmp_path):
    command = [sys.executable, "-W", "error", "-c", code_blocks(ROOT / page)]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    # Commands come after the code that makes their tables.
    if commands := code_blocks(ROOT / page, "sh"):
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        shell = ["sh", "-e", "-c", commands]
        result = subprocess.run(
            shell, cwd=tmp_path, capture_output=True, text=True, check=False, env={**os.environ, "PATH": path}
        )
        assert result.returncode == 0, result.stderr


def test_the_readme_example_is_short_and_prints():
    block = code_blocks(ROOT / "README.md")
    lines = [line for line in block.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    assert len(lines) <= 14
    assert "print(" in block


@pytest.mark.slow
@pytest.mark.parametrize("script", EXAMPLES)
def test_examples_run(script, tmp_path):
    command = [sys.executable, "-W", "error", str(ROOT / "examples" / script), "--out", str(tmp_path / "out")]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    pictures = list((tmp_path / "out").glob("*.png"))
    assert pictures
    assert all(picture.stat().st_size > 10_000 for picture in pictures)
    assert all(picture.name in result.stdout for picture in pictures)


def test_metadata_is_valid():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["cff-version"] == "1.2.0"
    assert "Near-Optimal Approximations for Bayesian Inference in Function Space" in str(citation)
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    assert {repo["repo"] for repo in hooks["repos"]} == {"local"}
    assert ko.__version__ in (ROOT / "CITATION.cff").read_text()
    assert "Unreleased" in (ROOT / "CHANGELOG.md").read_text()


def test_the_import_is_light():
    """Heavy packages are imported when they are needed, not by `import kosambi`."""
    heavy = ("sklearn", "matplotlib", "pandas", "blackjax", "scipy.linalg", "threadpoolctl")
    code = f"import sys, kosambi; print([name for name in {heavy} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
