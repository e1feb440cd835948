"""Links between pages lead somewhere, on a site built by mkdocs and where the repository is browsed; so do old ones."""

from __future__ import annotations

import re
import unicodedata
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
# A page of results is written by the experiments, and decisions speak of their time.
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS.rglob("*.md"), *DOCS.glob("tutorials/*.py")])
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]


def text_of(page: Path) -> str:
    """The page without its code blocks; of a tutorial its cells of text."""
    text = page.read_text()
    if page.suffix == ".py":
        text = "\n".join(line[2:] for line in text.splitlines() if line.startswith("# "))
    return re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)


def links(page: Path) -> list[str]:
    """Targets of links and pictures inside the repository; formulas and code have none."""
    text = re.sub(r"`[^`\n]*`|\$[^$]*\$", "`", text_of(page))
    return [link for link in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in link]


def site_anchor(heading: str) -> str:
    """Python-Markdown's rule."""
    plain = unicodedata.normalize("NFKD", heading).encode("ascii", "ignore").decode()
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower())


def host_anchor(heading: str) -> str:
    """The rule of code-hosting sites."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def anchors(page: Path) -> tuple[set[str], set[str]]:
    """What links to a page may name: on the site, and where the repository is browsed."""
    text = text_of(page)
    headings = [re.sub(r"`", "", heading) for heading in re.findall(r"^#+ (.+?)$", text, flags=re.MULTILINE)]
    named = set(re.findall(r'<a id="([^"]+)">', text))
    return {*map(site_anchor, headings)} | named, {*map(host_anchor, headings)} | named


@pytest.mark.parametrize("name", NAMES)
def test_links_lead_somewhere(name):
    page = ROOT / name
    for link in links(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        if anchor and target.suffix in (".md", ".py"):
            on_site, on_host = anchors(target)
            assert anchor in on_site, f"{link} on the site"
            assert anchor in on_host or target.suffix == ".py", f"{link} where the repository is browsed"


def test_links_of_the_site_stay_inside_it():
    for page in DOCS.rglob("*.md"):
        for link in links(page):
            assert (page.parent / link.partition("#")[0]).resolve().is_relative_to(DOCS), f"{page.name}: {link}"


def test_no_page_sends_a_reader_by_way_of_the_guide():
    for page in [*PAGES, *(ROOT / "src").rglob("*.py")]:
        assert "guide.md#" not in page.read_text(), page


def test_old_anchors_of_the_guide_lead_to_a_page():
    """The script that follows them looks for the link behind the anchor."""
    text = (DOCS / "guide.md").read_text()
    followed = re.findall(r'<a id="([^"]+)"></a>\[[^\]]+\]\(how_to/[^)]+\)', text)
    assert len(followed) == text.count("<a id=") == len(set(followed)) == 46
    assert {"one-call", "how-many-inducing-points-num_inducingauto", "the-command-line"} <= set(followed)
    assert not set(followed) & {site_anchor(heading) for heading in re.findall(r"^## (.+)$", text, flags=re.MULTILINE)}
    assert "nextElementSibling" in (DOCS / "javascripts" / "moved.js").read_text()


def formulas(page: Path) -> list[str]:
    """What stands between dollars, outside of code."""
    text = re.sub(r"`[^`\n]*`", "`", text_of(page))
    return re.findall(r"\$\$(.+?)\$\$", text, flags=re.DOTALL) + re.findall(
        r"(?<!\$)\$([^$]+)\$(?!\$)", re.sub(r"\$\$.+?\$\$", "", text, flags=re.DOTALL)
    )


@pytest.mark.parametrize("name", [name for name in NAMES if formulas(ROOT / name)])
def test_formulas_are_tex(name):
    text = re.sub(r"`[^`\n]*`", "`", text_of(ROOT / name))
    assert text.count("$") % 2 == 0
    for formula in formulas(ROOT / name):
        assert formula.isascii(), formula
        assert formula.count("{") - formula.count(r"\{") == formula.count("}") - formula.count(r"\}"), formula
        assert formula.count(r"\begin{") == formula.count(r"\end{"), formula
