"""A hook of the build: it fails where a public name is missing from the API reference.

Public is what a package of `kosambi` lists in its `__all__`. A name counts as documented where the reference
has an anchor for it, under the package that exports it or under the module that defines it.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from typing import Any

PAGE = "api.md"
# Modules whose names are listed by what they hold, and programs without an interface in Python.
_LEFT_OUT = ("kosambi._core", "kosambi.cli", "kosambi.streaming", "kosambi.priors.functions")


def public_names() -> dict[str, set[str]]:
    """Each exported name with the anchors under which the reference may have it."""
    import kosambi

    found: dict[str, set[str]] = {}
    packages = [info.name for info in pkgutil.iter_modules(kosambi.__path__, "kosambi.") if info.ispkg]
    for package in ("kosambi", *packages):
        if package.startswith(_LEFT_OUT):
            continue
        module = importlib.import_module(package)
        for name in module.__all__:
            value = getattr(module, name)
            if name == "__version__" or type(value).__name__ == "module":
                continue
            home = f"{getattr(value, '__module__', package)}.{getattr(value, '__qualname__', name)}"
            found[f"{package}.{name}"] = {f"{package}.{name}", home}
    return found


def missing(html: str, names: dict[str, set[str]]) -> list[str]:
    """Names without an anchor in the page; a class that two packages export needs one."""
    anchors = set(re.findall(r'\bid="([^"]+)"', html))
    ends = {anchor.rsplit(".", 1)[-1]: anchor for anchor in anchors if anchor.startswith("kosambi.")}
    homes = {home for name, places in names.items() if places & anchors for home in places}
    absent = [name for name, places in names.items() if not places & anchors and not places & homes]
    # Constants have no home of their own: the module that defines them may be below the package.
    return [name for name in absent if not _is_below(name, ends.get(name.rsplit(".", 1)[-1], ""))]


def _is_below(name: str, anchor: str) -> bool:
    return anchor.startswith(name.rsplit(".", 1)[0] + ".")


def on_page_content(html: str, *, page: Any, **_: Any) -> str:
    """Called by mkdocs for every page."""
    from mkdocs.exceptions import PluginError  # here, so that tests need no mkdocs

    if page.file.src_uri == PAGE and (absent := missing(html, public_names())):
        raise PluginError(f"{PAGE} lacks {len(absent)} public names: {', '.join(absent)}. Add `::: name` for each.")
    return html
