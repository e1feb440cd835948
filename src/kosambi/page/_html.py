"""HTML from parts: text is escaped unless it is `Markup`, so that no column name can become a tag."""

from __future__ import annotations

import html
import re
from typing import TypeAlias

# Control characters have no place in HTML, and a lone surrogate cannot be written.
_FORBIDDEN = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_VOID = frozenset({"meta", "br", "hr", "col"})


class Markup(str):
    """HTML that needs no escaping any more."""

    __slots__ = ()


Child: TypeAlias = "str | Markup | None"


def escaped(text: object) -> Markup:
    """Text as HTML shows it.

    >>> escaped("<b> & 'c'")
    '&lt;b&gt; &amp; &#x27;c&#x27;'
    """
    return text if isinstance(text, Markup) else Markup(html.escape(_FORBIDDEN.sub("\ufffd", str(text)), quote=True))


def joined(*children: Child, between: str = "") -> Markup:
    """Parts one after the other; None is left out."""
    return Markup(between.join(escaped(child) for child in children if child is not None))


def tag(name: str, *children: Child, **attributes: str | None) -> Markup:
    """One element. `class_` is the attribute class, `aria_label` is aria-label.

    >>> tag("p", "a < b", class_="note")
    '<p class="note">a &lt; b</p>'
    """
    pairs = ((key.rstrip("_").replace("_", "-"), value) for key, value in attributes.items() if value is not None)
    opening = name + "".join(f' {key}="{escaped(value)}"' for key, value in pairs)
    if name in _VOID:
        return Markup(f"<{opening}>")
    return Markup(f"<{opening}>{joined(*children)}</{name}>")


def table(head: list[str], rows: list[list[Child]], caption: str, *, numbers: tuple[int, ...] = ()) -> Markup:
    """A table in a box that scrolls by itself where it is too wide; `numbers` are columns to align on the right."""

    def cell(place: int, child: Child, kind: str) -> Markup:
        scope = {"th": "col", "row": "row"}.get(kind)
        return tag("td" if kind == "td" else "th", child, class_="number" if place in numbers else None, scope=scope)

    lines = [tag("tr", *[cell(i, child, "row" if i == 0 else "td") for i, child in enumerate(row)]) for row in rows]
    inside = (
        tag("caption", caption),
        tag("thead", tag("tr", *[cell(i, text, "th") for i, text in enumerate(head)])),
        tag("tbody", *lines),
    )
    return tag("div", tag("table", *inside), class_="scroll")


def section(name: str, heading: str, *children: Child) -> Markup:
    """A part of the page with a heading of its own."""
    return tag(
        "section", tag("h2", heading, id=f"{name}-heading"), *children, id=name, aria_labelledby=f"{name}-heading"
    )
