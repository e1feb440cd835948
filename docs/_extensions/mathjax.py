"""A hook of the build: MathJax inside the site, for readers without a network.

Formulas are set by MathJax, which readers' browsers fetch from a content delivery network. Where the environment
variable `MATHJAX` names a folder with the npm package `mathjax`, as in `make docs-offline`, its script and fonts are
copied into the site and pages take them from there.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

SCRIPT = "es5/tex-mml-chtml.js"
FONTS = "es5/output/chtml/fonts/woff-v2"
HOME = "javascripts/vendor/mathjax"


def package() -> Path | None:
    """The folder of the npm package, if one was named."""
    if not (name := os.environ.get("MATHJAX")):
        return None
    from mkdocs.exceptions import PluginError  # here, so that tests need no mkdocs

    folder = Path(name).resolve()
    if absent := [part for part in (SCRIPT, FONTS) if not (folder / part).exists()]:
        raise PluginError(
            f"MATHJAX={name} is no npm package mathjax of version 3: it has no {' and no '.join(absent)}."
        )
    return folder


def on_config(config: Any, **_: Any) -> Any:
    """Called by mkdocs before anything else: the address of the script."""
    if package() is not None:
        scripts = config["extra_javascript"]
        config["extra_javascript"] = [f"{HOME}/{SCRIPT}" if SCRIPT in str(each) else each for each in scripts]
    return config


def on_post_build(config: Any, **_: Any) -> None:
    """Called by mkdocs when all pages are written: the files."""
    if (folder := package()) is not None:
        home = Path(config["site_dir"]) / HOME
        for part in (SCRIPT, "LICENSE"):
            (home / part).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(folder / part, home / part)
        shutil.copytree(folder / FONTS, home / FONTS, dirs_exist_ok=True)
