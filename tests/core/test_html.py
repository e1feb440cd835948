"""HTML tables of results: whatever a name or a value holds, it is text."""

from __future__ import annotations

import html.parser

from kosambi._core.html import escape, table_html


class _Reader(html.parser.HTMLParser):
    """Tags and text of a piece of HTML, as a browser would see them."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag, attrs):  # noqa: ARG002
        self.tags.append(tag)

    def handle_data(self, data):
        self.text.append(data)


def test_names_and_values_cannot_become_tags():
    hostile = "<script>alert('&\"')</script>"
    shown = table_html(hostile, [(hostile, hostile)], head=(hostile, hostile), notes=(hostile,))
    reader = _Reader()
    reader.feed(shown)
    assert set(reader.tags) == {"div", "table", "caption", "thead", "tbody", "tr", "th", "td", "p"}
    assert reader.text == [hostile] * 6


def test_a_table_has_one_row_an_entry_and_shows_any_object():
    reader = _Reader()
    reader.feed(table_html("title", [("a", 1.5), ("b", None, (2, 3))]))
    assert reader.tags.count("tr") == 2
    assert "thead" not in reader.tags
    assert reader.text == ["title", "a", "1.5", "b", "None", "(2, 3)"]


def test_characters_that_html_forbids_are_replaced():
    assert escape("a\x00b\x1b[31m\ud800") == "a\ufffdb\ufffd[31m\ufffd"
