r"""Small faults in Python source, made on the syntax tree one at a time; `benchmarks.mutation` shows them to tests.

A fault (mutant) replaces the text of one expression or statement and leaves every other byte as it is, so that lines
keep their numbers. Only what is executed inside functions is changed: no annotations, defaults, decorators, docstrings,
messages of errors and warnings, functions that only show things, and no arguments that cost time alone.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
_SHOWN = ("repr", "str", "html", "describe", "summary", "explain", "words", "sentence", "message")
"""A function whose name has one of these in it makes text for people."""
_ONLY_COST = {"check_finite", "overwrite_a", "overwrite_b", "strict", "stacklevel", "copy", "progress", "unroll"}
"""Keyword arguments that do not change results."""
_SYMMETRIC = {
    "maximum",
    "minimum",
    "max",
    "min",
    "logaddexp",
    "dot",
    "vdot",
    "array_equal",
    "allclose",
    "isclose",
    "gcd",
}
_NO_ORDER = {"isinstance", "issubclass", "hasattr", "getattr", "setattr", "cast", "zip", "print", "cond", "partial"}
"""Functions whose first two arguments are alike, or whose swap is no fault that anybody would make."""
_ARITHMETIC: dict[type, type] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Pow: ast.Mult,
}
_LOGIC: dict[type, type] = {ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.And: ast.Or, ast.Or: ast.And}
_BOUNDARY: dict[type, type] = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
_OPPOSITE: dict[type, type] = {
    ast.Lt: ast.GtE,
    ast.LtE: ast.Gt,
    ast.Gt: ast.LtE,
    ast.GtE: ast.Lt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_PAIRS = ("maximum minimum", "max min", "any all", "sum mean", "exp expm1", "log log1p", "sin cos", "argmax argmin")
_PAIRS += ("floor ceil", "ones zeros", "ones_like zeros_like", "var std", "triu tril", "isnan isfinite")
_OTHER = {a: b for pair in _PAIRS for a, b in (pair.split(), reversed(pair.split()))}
"""Functions that one could take for each other."""
_LEFT_OUT = {"exp", "log", "sqrt", "square", "abs", "transpose", "swapaxes", "clip", "cumsum", "stop_gradient", "sort"}
"""Functions of which an argument is left by itself."""
_MODULES = {"np", "jnp", "jax.lax", "jax.numpy", "numpy", "math"}


class Mutant(NamedTuple):
    """One fault."""

    path: str
    """Of the file, from the root of the project."""
    line: int
    statement: int
    """The first line of the statement that it is in."""
    function: str
    """With the names of the classes and functions around it."""
    kind: str
    before: str
    after: str
    start: int
    """The first byte of what is replaced."""
    end: int

    def applied(self, source: str) -> str:
        """The source of the file with this fault."""
        data = source.encode()
        changed = data[: self.start] + self.after.encode() + data[self.end :]
        return changed.decode()

    def name(self) -> tuple[str, ...]:
        """By what it is recognised where lines have moved."""
        return self.path, self.function, self.kind, self.before, self.after


def mutants(path: str, source: str) -> list[Mutant]:
    r"""All faults that can be made in one file, in the order of the text.

    >>> [(mutant.kind, mutant.after) for mutant in mutants("f.py", "def f(x):\\n    return x - 1\\n")]
    [('arithmetic', '(x + 1)'), ('constant', '2')]
    """
    return sorted(_File(path, source).found(), key=lambda mutant: (mutant.start, mutant.end, mutant.kind, mutant.after))


def of_package(package: str) -> list[Mutant]:
    """All faults that can be made in the files of a package as they are now."""
    files = sorted((ROOT / "src" / "kosambi" / package).rglob("*.py"))
    return [mutant for file in files for mutant in mutants(str(file.relative_to(ROOT)), file.read_text())]


def present(mutant: Mutant) -> Mutant | None:
    """The same fault in the source as it is now, where lines may have moved; None if it cannot be made any more."""
    same = [each for each in mutants(mutant.path, (ROOT / mutant.path).read_text()) if each.name() == mutant.name()]
    return min(same, key=lambda each: abs(each.line - mutant.line), default=None)


class _File:
    def __init__(self, path: str, source: str) -> None:
        self.path, self.source, self.tree = path, source.encode(), ast.parse(source)
        lengths = [len(line) for line in self.source.splitlines(keepends=True)]
        self.begins = [sum(lengths[:i]) for i in range(len(lengths))]

    def found(self) -> Iterator[Mutant]:
        yield from self._inside(self.tree, (), None)

    def _inside(self, node: ast.AST, names: tuple[str, ...], statement: ast.stmt | None) -> Iterator[Mutant]:
        """Faults in what is under a node; `statement` is the one around it, None outside of functions."""
        for child in _executed(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                is_function = not isinstance(child, ast.ClassDef)
                if is_function and any(word in child.name for word in _SHOWN):
                    continue
                for inner in child.body:
                    yield from self._statement(inner, (*names, child.name), is_function)
            elif isinstance(child, ast.stmt):
                yield from self._statement(child, names, statement is not None)
            else:
                if statement is not None:
                    yield from self._changed(child, names, statement)
                yield from self._inside(child, names, statement)

    def _statement(self, node: ast.stmt, names: tuple[str, ...], is_inside: bool) -> Iterator[Mutant]:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield from self._inside(ast.Module([node], []), names, None)
        elif is_inside and not _is_message(node):
            yield from self._changed(node, names, node)
            yield from self._inside(node, names, node)

    def _changed(self, node: Any, names: tuple[str, ...], statement: ast.stmt) -> Iterator[Mutant]:
        for kind, other in _faults(node):
            start, end = (self.begins[line - 1] + column for line, column in _span(node))
            before, after = self.source[start:end].decode(), ast.unparse(ast.fix_missing_locations(other))
            if isinstance(other, ast.BinOp | ast.BoolOp | ast.Compare | ast.IfExp | ast.UnaryOp | ast.Lambda):
                after = f"({after})"
            yield Mutant(self.path, node.lineno, statement.lineno, ".".join(names), kind, before, after, start, end)


def _span(node: Any) -> tuple[tuple[int, int], tuple[int, int]]:
    return (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)


def _executed(node: ast.AST) -> Iterator[ast.AST]:
    """The parts of a node that are run when it is, and that are not for people to read."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "type_params", "format_spec"):
            continue
        if isinstance(node, ast.keyword) and node.arg in _ONLY_COST:
            continue
        if isinstance(node, ast.Lambda) and name == "args":
            continue
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, ast.AST) and not isinstance(each, ast.JoinedStr | ast.expr_context | ast.operator):
                yield each


def _is_message(node: ast.stmt) -> bool:
    """Whether a statement only raises, warns, asserts or documents."""
    if isinstance(node, ast.Raise | ast.Assert | ast.Import | ast.ImportFrom):
        return True
    if not isinstance(node, ast.Expr):
        return False
    return isinstance(node.value, ast.Constant) or (isinstance(node.value, ast.Call) and "warn" in _called(node.value))


def _called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _faults(node: Any) -> Iterator[tuple[str, ast.AST]]:
    """Kinds of faults, and what stands in the place of the node."""
    if isinstance(node, ast.stmt):
        yield from _in_statement(node)
    elif isinstance(node, ast.Compare | ast.BoolOp | ast.IfExp):
        yield from _in_condition(node)
    elif isinstance(node, ast.Call):
        yield from _in_call(node)
    elif isinstance(node, ast.BinOp):
        yield from _in_arithmetic(node)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.Not):
        yield ("sign" if isinstance(node.op, ast.USub) else "not"), node.operand
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        yield "constant", ast.Constant(_other_number(node.value))
    elif isinstance(node, ast.Attribute) and node.attr in ("T", "mT"):
        yield "transposition", node.value


def _other_number(value: bool | float) -> bool | float:
    """One more, or twice as much; zero becomes one, and yes no."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    return 2.0 * value if value else 1.0


def _with(node: Any, **fields: Any) -> Any:
    other = copy.copy(node)
    for name, value in fields.items():
        setattr(other, name, value)
    return other


def _in_statement(node: ast.stmt) -> Iterator[tuple[str, ast.AST]]:
    is_again = isinstance(node, ast.Assign) and {
        each.id for each in ast.walk(node.value) if isinstance(each, ast.Name)
    } & {each.id for target in node.targets for each in ast.walk(target) if isinstance(each, ast.Name)}
    is_part = isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript)
    is_call = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    if is_again or is_part or is_call or isinstance(node, ast.AugAssign | ast.Break | ast.Continue):
        yield "statement", ast.Pass()
    if isinstance(node, ast.AugAssign) and type(node.op) in _ARITHMETIC:
        yield "arithmetic", _with(node, op=_ARITHMETIC[type(node.op)]())


def _in_condition(node: Any) -> Iterator[tuple[str, ast.AST]]:
    if isinstance(node, ast.BoolOp):
        yield "logic", _with(node, op=_LOGIC[type(node.op)]())
    elif isinstance(node, ast.IfExp):
        yield "branch", _with(node, body=node.orelse, orelse=node.body)
    elif len(node.ops) == 1:
        for kind, table in (("boundary", _BOUNDARY), ("comparison", _OPPOSITE)):
            if type(node.ops[0]) in table:
                yield kind, _with(node, ops=[table[type(node.ops[0])]()])


def _in_arithmetic(node: ast.BinOp) -> Iterator[tuple[str, ast.AST]]:
    if any(isinstance(side, ast.List | ast.Tuple | ast.JoinedStr | ast.ListComp) for side in (node.left, node.right)):
        return
    if type(node.op) in _ARITHMETIC:
        yield "arithmetic", _with(node, op=_ARITHMETIC[type(node.op)]())
    elif isinstance(node.op, ast.MatMult):
        yield "order", _with(node, left=node.right, right=node.left)
    elif type(node.op) in _LOGIC and not _is_of_types(node):
        yield "logic", _with(node, op=_LOGIC[type(node.op)]())


def _is_of_types(node: ast.BinOp) -> bool:
    """A union such as `int | Array`, which is a type and no sum."""
    leaves = [each for each in ast.walk(node) if isinstance(each, ast.Name | ast.Attribute)]
    return all(str(getattr(each, "id", getattr(each, "attr", "")))[:1].isupper() for each in leaves)


def _is_plain(node: ast.expr) -> bool:
    """What would be taken for no other argument: a number, a text, a function, a shape."""
    return isinstance(node, ast.Constant | ast.JoinedStr | ast.Lambda | ast.Tuple | ast.List)


def _in_call(node: ast.Call) -> Iterator[tuple[str, ast.AST]]:
    name, args = _called(node), node.args
    is_free = not any(isinstance(each, ast.Starred) for each in args)
    if name in ("where", "cond") and len(args) >= 3:
        yield "branch", _with(node, args=[args[0], args[2], args[1], *args[3:]])
    elif len(args) >= 2 and is_free and name not in _SYMMETRIC | _NO_ORDER and not any(map(_is_plain, args[:2])):
        yield "arguments", _with(node, args=[args[1], args[0], *args[2:]])
    if name in _OTHER:
        func: Any = node.func
        other = _with(func, attr=_OTHER[name]) if isinstance(func, ast.Attribute) else _with(func, id=_OTHER[name])
        yield "function", _with(node, func=other)
    if name in _LEFT_OUT and is_free:
        # Of `x.transpose(0, 2, 1)` x is left, of `np.transpose(x)` too.
        owner = node.func.value if isinstance(node.func, ast.Attribute) else None
        is_method = owner is not None and ast.unparse(owner) not in _MODULES
        if is_method or args:
            yield "function", owner if is_method and owner is not None else args[0]
    for place, keyword in enumerate(node.keywords):
        if keyword.arg == "axis":
            axis = {"0": "1", "1": "0", "-1": "0", "-2": "-1"}.get(ast.unparse(keyword.value))
            if axis is not None:
                changed = _with(keyword, value=ast.parse(axis, mode="eval").body)
                yield "axis", _with(node, keywords=[*node.keywords[:place], changed, *node.keywords[place + 1 :]])
