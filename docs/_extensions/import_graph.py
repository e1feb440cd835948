"""Draw which package imports which, into docs/images/imports.svg: `python docs/_extensions/import_graph.py`.

Rows are the layers of pyproject.toml. A dark arrow is an import that no chain of other imports implies; grey lines are
the rest. Imports for type checkers and the exceptions that pyproject.toml states are left out.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

import grimp

ROOT = Path(__file__).resolve().parents[2]
PICTURE = ROOT / "docs" / "images" / "imports.svg"
WIDTH, ROW, BOX, HEIGHT = 760, 62, 112, 30
ACROSS = {1: (0.5,), 2: (0.25, 0.75), 3: (0.1, 0.5, 0.9)}
"""Where the boxes of a row stand."""


def layers() -> list[list[str]]:
    """The packages, highest layer first."""
    contract = _contract()
    return [[name.strip() for name in layer.split("|")] for layer in contract["layers"]]


def edges() -> set[tuple[str, str]]:
    """Pairs (importer, imported) of packages."""
    graph = grimp.build_graph("kosambi", exclude_type_checking_imports=True, cache_dir=None)
    known = {name for layer in layers() for name in layer}
    excepted = {tuple(text.replace(" ", "").split("->")) for text in _contract()["ignore_imports"]}
    found = set()
    for importer in graph.modules:
        for imported in graph.find_modules_directly_imported_by(importer):
            pair = _package(importer), _package(imported)
            if set(pair) <= known and pair[0] != pair[1] and (importer, imported) not in excepted:
                found.add(pair)
    return found


def implied(pair: tuple[str, str], pairs: set[tuple[str, str]]) -> bool:
    """Whether a chain of the other pairs leads from one end of a pair to the other."""
    reached, waiting = set(), [pair[0]]
    while waiting:
        here = waiting.pop()
        for other in pairs - {pair}:
            if other[0] == here and other[1] not in reached:
                reached.add(other[1])
                waiting.append(other[1])
    return pair[1] in reached


def picture(pairs: set[tuple[str, str]]) -> str:
    """The drawing as SVG."""
    places = {
        name: (WIDTH * ACROSS[len(layer)][column], 30 + ROW * row)
        for row, layer in enumerate(layers())
        for column, name in enumerate(layer)
    }
    height = 30 + ROW * len(layers())
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" '
        'font-size="13" role="img" aria-label="Which package of kosambi imports which">',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0,0 L8,4 L0,8 z" fill="#1f3a5f"/></marker></defs>',
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
    ]
    # The dark arrows last, so that they lie on top.
    for name, other in sorted(pairs, key=lambda pair: (not implied(pair, pairs), pair)):
        (x0, y0), (x1, y1) = places[name], places[other]
        style = 'stroke="#d5dbe3"' if implied((name, other), pairs) else 'stroke="#1f3a5f" marker-end="url(#tip)"'
        start, end = y0 + HEIGHT / 2, y1 - HEIGHT / 2
        # Lines that pass several rows bend outwards, around the boxes between.
        rows = round((y1 - y0) / ROW)
        bend = 0.0 if rows == 1 else (40.0 + 22.0 * rows) * (1 if (x0 + x1) >= WIDTH else -1)
        middle = (start + end) / 2
        path = f"M{x0:.0f},{start:.0f} Q{(x0 + x1) / 2 + bend:.0f},{middle:.0f} {x1:.0f},{end:.0f}"
        lines.append(f'<path id="{name}-{other}" d="{path}" fill="none" {style}/>')
    for name, (x, y) in places.items():
        lines.append(
            f'<rect x="{x - BOX / 2:.0f}" y="{y - HEIGHT / 2:.0f}" width="{BOX}" height="{HEIGHT}" rx="5" '
            'fill="#eef3f9" stroke="#1f3a5f"/>'
        )
        lines.append(f'<text x="{x:.0f}" y="{y + 4:.0f}" text-anchor="middle" fill="#1f3a5f">{name}</text>')
    return "\n".join([*lines, "</svg>", ""])


def _contract() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]


def _package(module: str) -> str:
    return module.split(".")[1] if "." in module else module


if __name__ == "__main__":
    PICTURE.write_text(picture(edges()))
    print(PICTURE.relative_to(ROOT))
