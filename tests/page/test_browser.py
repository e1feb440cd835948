"""Pages in a real browser: nothing fetched, nothing broken, nothing too wide."""

from __future__ import annotations

import pytest

from tests.cases import cases
from tests.page.browser import NAMES, Browser, executable
from tests.page.models import page

PATH = executable()
pytestmark = pytest.mark.skipif(PATH is None, reason=f"no browser: none of {', '.join(NAMES)} is installed")

FIGURES = """
[...document.querySelectorAll("figure")].map(figure => {
  const picture = figure.querySelector("svg, img"), box = picture.getBoundingClientRect();
  const whole = picture.tagName === "IMG" ? picture.naturalWidth > 0 : picture.querySelectorAll("path").length > 5;
  return [box.width, box.height, whole];
})
"""
# What sticks out to the right, except inside a box that scrolls by itself.
TOO_WIDE = """
[...document.querySelectorAll("main *")].filter(
  element => element.getBoundingClientRect().right > document.documentElement.clientWidth + 1
    && !element.closest(".scroll") && !element.closest("svg")
).map(element => element.outerHTML.slice(0, 80))
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Browser(PATH, tmp_path_factory.mktemp("profile"), timeout=120.0) as running:
        yield running


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (375, "dark")])
@pytest.mark.parametrize("name", cases(["surface", "curve", "three"], quick=["curve"]))
def test_a_page_shows_as_it_should(browser, tmp_path, name, width, scheme):
    path = tmp_path / f"{name}.html"
    path.write_text(page(name), "utf-8")
    browser.open(path.as_uri(), width, scheme=scheme)
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    assert browser.evaluate(TOO_WIDE) == []
    figures = browser.evaluate(FIGURES)
    assert len(figures) >= 4
    assert all(wide > 100 and high > 100 and whole for wide, high, whole in figures)
    words = browser.evaluate("document.body.innerText")
    for heading in ("Calibration", "Did the sampler converge?", "How many inducing points?", "Versions and time"):
        assert heading in words
    badge = browser.evaluate("document.querySelector('.verdict .badge').innerText")
    assert badge in ("Sound on these data", "Use with care", "Do not rely on it yet")
    dark = browser.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (dark == "rgb(255, 255, 255)") == (scheme == "light")
    # Figures stay on white, where their ink can be read.
    assert browser.evaluate("getComputedStyle(document.querySelector('.card')).backgroundColor") == "rgb(255, 255, 255)"
    browser.screenshot(tmp_path / "page.png")
    assert (tmp_path / "page.png").stat().st_size > 10_000
    methods = [event["method"] for event in browser.events]
    assert not {"Log.entryAdded", "Runtime.exceptionThrown", "Runtime.consoleAPICalled"} & set(methods)
    asked = [e["params"]["request"]["url"] for e in browser.events if e["method"] == "Network.requestWillBeSent"]
    assert [url for url in asked if not url.startswith("data:")] == [path.as_uri()]


def test_the_checks_see_what_they_look_for(browser, tmp_path):
    path = tmp_path / "broken.html"
    path.write_text(
        "<main><p style='width: 999px'>x</p><img src='https://example.org/a.png'><script>no()</script></main>"
    )
    browser.open(path.as_uri(), 375)
    assert len(browser.evaluate(TOO_WIDE)) == 1
    methods = [event["method"] for event in browser.events]
    assert "Runtime.exceptionThrown" in methods
    asked = [e["params"]["request"]["url"] for e in browser.events if e["method"] == "Network.requestWillBeSent"]
    assert "https://example.org/a.png" in asked


def test_a_browser_that_hangs_is_ended(tmp_path):
    running = Browser(PATH, tmp_path, timeout=0.0)
    with pytest.raises(TimeoutError):
        running.__enter__()
    assert running._process.poll() is not None
