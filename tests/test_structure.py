"""The structure that the house rules ask for: small files, stated exports, documentation, imports that stay outside."""

from __future__ import annotations

import ast
import functools
import importlib
import importlib.util
import inspect
import pkgutil
import zipfile
from pathlib import Path

import pytest

import kosambi as ko

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
MODULES = ["kosambi", *(info.name for info in pkgutil.walk_packages(ko.__path__, "kosambi."))]
PACKAGES = [name for name in MODULES if (ROOT / "src" / Path(*name.split(".")) / "__init__.py").is_file()]


@pytest.mark.parametrize(
    ("folder", "most"), [("src", 350), ("tests", 400), ("examples", 400), ("benchmarks", 400), ("reproduction", 400)]
)
def test_files_stay_small(folder, most):
    lines = {path: len(path.read_text().splitlines()) for path in (ROOT / folder).rglob("*.py")}
    assert {str(path.relative_to(ROOT)): number for path, number in lines.items() if number > most} == {}


@pytest.mark.parametrize("name", [name for name in PACKAGES if name != "kosambi._core"])
def test_a_package_says_what_it_exports(name):
    package = importlib.import_module(name)
    assert isinstance(package.__all__, list | tuple)
    assert len(set(package.__all__)) == len(package.__all__)
    assert [each for each in package.__all__ if not hasattr(package, each)] == []


def exported():
    """Every class and function in the `__all__` of a package, once."""
    found = {}
    for name in PACKAGES:
        package = importlib.import_module(name)
        for each in getattr(package, "__all__", ()):
            thing = getattr(package, each)
            if inspect.isclass(thing) or inspect.isfunction(thing):
                found[f"{name}.{each}"] = thing
    return found


def test_what_is_exported_is_documented():
    assert [name for name, thing in exported().items() if not thing.__doc__] == []


def public_objects():
    """Every module, and the classes and functions without an underscore that are defined there."""
    for name in MODULES:
        module = importlib.import_module(name)
        yield name, module
        for each, value in vars(module).items():
            is_local = getattr(value, "__module__", None) == name and not each.startswith("_")
            if is_local and (inspect.isclass(value) or inspect.isfunction(value)):
                yield f"{name}.{each}", value


def test_modules_classes_and_functions_are_documented():
    assert [name for name, thing in public_objects() if not inspect.getdoc(thing)] == []


def is_method(thing) -> bool:
    kinds = (property, classmethod, staticmethod, functools.cached_property)
    return inspect.isfunction(thing) or isinstance(thing, kinds) or hasattr(thing, "__wrapped__")


def test_methods_are_documented_or_override_what_is():
    undocumented = [
        f"{name}.{method}"
        for name, each in public_objects()
        if inspect.isclass(each)
        for method, thing in vars(each).items()
        if not method.startswith("_") and is_method(thing)
        if not any(getattr(vars(base).get(method), "__doc__", None) for base in each.__mro__)
    ]
    assert undocumented == []


def imported_modules(path: Path):
    """Modules of kosambi that a file imports anywhere, `from package import module` included."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("kosambi"))
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("kosambi"):
            yield node.module
            for alias in node.names:
                if f"{node.module}.{alias.name}" in MODULES:
                    yield f"{node.module}.{alias.name}"


def test_no_module_imports_the_underscore_module_of_another_package():
    """`_core` is the package for what all of them share."""
    wrong = []
    for path in SOURCES:
        own = path.relative_to(ROOT / "src").parts[1]
        for module in imported_modules(path):
            _, package, *below = [*module.split("."), ""]
            if package not in (own, "_core") and any(part.startswith("_") for part in below):
                wrong.append(f"{path.relative_to(ROOT)}: {module}")
    assert wrong == []


def test_the_wheel_has_every_module_and_the_mark_of_types(tmp_path):
    builder = importlib.import_module("hatchling.builders.wheel").WheelBuilder(str(ROOT))
    (wheel,) = builder.build(directory=str(tmp_path), versions=["standard"])
    names = set(zipfile.ZipFile(wheel).namelist())
    assert "kosambi/py.typed" in names
    assert {str(path.relative_to(ROOT / "src")) for path in SOURCES} <= names
    assert not [name for name in names if name.startswith(("tests", "reproduction", "benchmarks"))]


def test_the_picture_of_imports_is_up_to_date():
    place = ROOT / "docs" / "_extensions" / "import_graph.py"
    spec = importlib.util.spec_from_file_location("import_graph", place)
    graph = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(graph)
    assert graph.PICTURE.read_text() == graph.picture(graph.edges()), f"Run python {place.relative_to(ROOT)}."
