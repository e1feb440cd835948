"""Show doctests in docstrings as code blocks in the API reference.

Markdown takes a line that starts with `>>>` for a quotation. This wraps each run of such lines, up to the next blank
line, in a fence.
"""

from typing import Any

import griffe


class FenceDoctests(griffe.Extension):
    """Rewrite the docstring of every object once it has been loaded."""

    def on_instance(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Fence the doctests of one object."""
        del kwargs
        if obj.docstring:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(text: str) -> str:
    """`text` with a fence around every run of lines that starts with `>>>`."""
    lines: list[str] = []
    inside = False
    for line in [*text.splitlines(), ""]:
        if not inside and line.lstrip().startswith(">>>"):
            inside = True
            lines.append("```pycon")
        elif inside and not line.strip():
            inside = False
            lines.append("```")
        lines.append(line)
    return "\n".join(lines)
