"""The table of results in the README has the figures of the page of results."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def rows(text):
    """Cells without bold and stars."""
    lines = [line.strip("|").split("|") for line in text.splitlines() if "|" in line]
    return [[re.sub(r"[\\*]", "", cell).strip() for cell in line] for line in lines]


def test_the_readme_quotes_the_page():
    if not (ROOT / "docs").is_dir():
        pytest.skip("the documentation is not beside the tests")
    quoted = rows((ROOT / "README.md").read_text().split("## Results")[1].split("\n## ")[0])
    page = (ROOT / "docs" / "results.md").read_text()
    table = rows(page.split("### Negative log likelihood, Gaussian")[1].split("###")[0])
    head, body = table[0], {row[0]: row for row in table[2:]}
    assert len(quoted) == 2 + len(body)
    for row in quoted[2:]:
        for name, value in zip(quoted[0][1:], row[1:], strict=True):
            assert body[row[0]][head.index(name)] == value
