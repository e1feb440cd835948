"""Small HTML tables for notebooks: what `_repr_html_` of results returns. Everything in them is escaped."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence

# Control characters have no place in HTML, and a lone surrogate cannot be written.
_FORBIDDEN = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_CELL = "text-align:left;padding:2px 12px 2px 0"


def escape(text: object) -> str:
    """`str(text)` as HTML shows it: no tag, attribute or control character in it survives.

    >>> escape("<b> & 'c'")
    '&lt;b&gt; &amp; &#x27;c&#x27;'
    """
    return html.escape(_FORBIDDEN.sub("\ufffd", str(text)), quote=True)


def table_html(
    title: object, rows: Iterable[Sequence[object]], *, head: Sequence[object] = (), notes: Iterable[object] = ()
) -> str:
    """A table with one row of cells for each entry of `rows`, the first cell being its heading.

    Arguments:
        title: the caption.
        rows: the cells of each row, mostly a name and a value; any object, shown by `str` and escaped.
        head: headings of the columns; none when empty.
        notes: lines below the table.

    >>> shown = table_html("A <run>", [("draws", 100), ("sampler", "mala")])
    >>> "A &lt;run&gt;" in shown, shown.count("<tr>")
    (True, 2)
    """
    caption = f'<caption style="text-align:left;font-weight:bold">{escape(title)}</caption>'
    columns = "".join(f'<th scope="col" style="{_CELL}">{escape(cell)}</th>' for cell in head)
    lines = [_row(cells) for cells in rows]
    below = "".join(f"<p>{escape(note)}</p>" for note in notes)
    top = f"<thead><tr>{columns}</tr></thead>" if columns else ""
    return f"<div><table>{caption}{top}<tbody>{''.join(lines)}</tbody></table>{below}</div>"


def _row(cells: Sequence[object]) -> str:
    first, *others = cells
    values = "".join(f'<td style="{_CELL}">{escape(cell)}</td>' for cell in others)
    return f'<tr><th scope="row" style="{_CELL}">{escape(first)}</th>{values}</tr>'
