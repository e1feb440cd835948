"""Figures as SVG inside the page: no pyplot, no settings of matplotlib changed, the same bytes every time."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import Any

from kosambi.page._html import Markup, escaped, joined, tag

INK, GRID = "#24292f", "#e4e7eb"
# Inches. Small ones, so that text stays readable where a telephone shrinks them.
SMALL, SQUARE, WIDE = (4.3, 3.3), (4.1, 3.7), (6.2, 3.9)
_REFERENCE = re.compile(r'(?:href="|url\()#([^")]+)')
_LONGEST_NAME = 32


def figure(number: int, size: tuple[float, float], draw: Callable[[Any], Any], alt: str, caption: str) -> Markup:
    """A figure with its caption; `draw` is given the axes, `number` makes what is inside unique on the page."""
    return tag("figure", tag("div", svg(number, size, draw, alt), class_="card"), tag("figcaption", caption))


def svg(number: int, size: tuple[float, float], draw: Callable[[Any], Any], alt: str) -> Markup:
    """The picture that `draw` makes."""
    try:
        from matplotlib.backends.backend_svg import FigureCanvasSVG
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("`page` needs matplotlib. Install it with `pip install kosambi[plots]`.") from error
    picture = Figure(figsize=size, layout="constrained", facecolor="white")
    axes = picture.add_subplot()
    draw(axes)
    _tidy(axes)
    text = io.StringIO()
    canvas: Any = FigureCanvasSVG(picture)
    canvas.print_svg(text, metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    return _inline(text.getvalue(), number, alt)


def drawable(text: object) -> str:
    """A name for a figure: not too long, and with a box for each character that the font of figures lacks."""
    from matplotlib.font_manager import FontProperties, findfont, get_font

    words = " ".join(str(text).split())
    words = words if len(words) <= _LONGEST_NAME else words[: _LONGEST_NAME - 1] + "…"
    font = get_font(findfont(FontProperties()))
    return "".join(c if font.get_char_index(ord(c)) else "□" for c in words)


def _tidy(axes: Any) -> None:
    """Ink on white whatever the user's style is, since that is how the page shows figures."""
    axes.set_facecolor("white")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("#8c959f")
    axes.tick_params(which="both", color="#8c959f", labelcolor=INK, labelsize=9)
    for words in (axes.title, axes.xaxis.label, axes.yaxis.label):
        words.set_color(INK)
    legend = axes.get_legend()
    for words in legend.get_texts() if legend is not None else ():
        words.set_color(INK)


def _inline(text: str, number: int, alt: str) -> Markup:
    """An SVG document as an element: without its prologue and comments, with names that no other figure has."""
    text = re.sub(r"<!--.*?-->", "", text[text.index("<svg") :], flags=re.DOTALL)
    text = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>|<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = text.replace("xlink:href=", "href=")
    box = re.search(r'viewBox="([^"]*)"', text)
    assert box is not None
    names: dict[str, str] = {}
    for found in _REFERENCE.finditer(text):
        names.setdefault(found.group(1), f"f{number}-{len(names)}")

    def renamed(found: re.Match[str]) -> str:
        new = names.get(found.group(1))
        return "" if new is None else f' id="{new}"'

    body = re.sub(r' id="([^"]*)"', renamed, text[text.index(">") + 1 :])
    body = _REFERENCE.sub(lambda found: found.group(0).replace(found.group(1), names[found.group(1)]), body)
    body = re.sub(r"\n\s*", "\n", body)
    width, height = box.group(1).split()[2:]
    opening = (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{escaped(alt)}" viewBox="{box.group(1)}" '
        f'width="{float(width) / 0.75:.0f}" height="{float(height) / 0.75:.0f}">'
    )
    return joined(Markup(opening), Markup(body.strip()))
