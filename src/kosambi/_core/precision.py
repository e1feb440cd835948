"""The precision policy: float64 at rest and at work, without touching JAX's global switch.

JAX computes in float32 unless its x64 switch is on, and with the switch off it demotes float64 arrays without a word,
also on their way through pickle. Functions here let every public call keep float64 whatever the switch says:

* arrays inside public objects are contiguous NumPy float64 (`at_rest`), which pickle keeps bit for bit;
* `public` runs a call with concrete arguments under `jax.enable_x64(True)` and hands back NumPy arrays;
* under a trace (`jit`, `grad`, `vmap`) the same call is plain JAX in the caller's precision, without value checks.
"""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from kosambi._core.checks import is_traced
from kosambi._core.compilation import quicker_options, use_cache
from kosambi._core.processes import check_process
from kosambi._core.programs import keep_few
from kosambi._core.representation import representation
from kosambi._core.types import Array, Key
from kosambi.errors import PrecisionWarning

# Before anything is compiled.
use_cache()

Function = TypeVar("Function", bound=Callable[..., Any])
Tree = TypeVar("Tree")


class Module(eqx.Module):
    """A pytree with NumPy leaves that compares and hashes by identity, and shows the numbers that it was made with.

    Equinox hashes a module by its leaves, and NumPy arrays have no hash, so `jax.jit(module)` and
    `jax.jit(module.method)` would fail. Identity is what `jit` needs: the fields never change.
    """

    argument_fields: ClassVar[Mapping[str, str]] = {}
    """Arguments of the constructor that are kept in a field of another name: argument to field."""

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other

    def __repr__(self) -> str:
        return representation(self)


def with_fields(module: Tree, **values: Any) -> Tree:
    """A module with other values in some fields, whatever its constructor takes."""
    return eqx.tree_at(lambda m: [getattr(m, name) for name in values], module, list(values.values()))


def at_rest(tree: Tree) -> Tree:
    """Every concrete JAX array of `tree` as a contiguous NumPy array; random keys and tracers stay."""

    def rest(leaf: Any) -> Any:
        if not isinstance(leaf, jax.Array) or isinstance(leaf, jax.core.Tracer):
            return leaf
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            return leaf
        # A copy, because NumPy views of JAX buffers are read-only and keep device memory alive.
        return np.array(leaf, order="C")

    return jax.tree.map(rest, tree)


def public(function: Function) -> Function:
    """Give a public function or method the precision policy of this module."""

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        check_process()
        if is_traced((args, kwargs)):
            return function(*args, **kwargs)
        # Concrete arguments give concrete results even inside somebody else's trace. Outside of one this is left out:
        # it would also compile each constant of our own traces by itself, which takes seconds.
        inside = _inside_trace()
        outside = jax.ensure_compile_time_eval() if inside else contextlib.nullcontext()
        if not inside:
            keep_few()
        with jax.enable_x64(True), outside:
            return at_rest(function(*args, **kwargs))

    return wrapped  # type: ignore[return-value]


def _inside_trace() -> bool:
    """Whether a computation that is made now would be staged into a `jit` or `grad` around the caller."""
    # A copy to the device, unlike arithmetic, is not compiled.
    return isinstance(jax.device_put(_PROBE), jax.core.Tracer)


_PROBE = np.zeros((), dtype=np.float32)


def compiled(function: Function) -> Function:
    """`jax.jit` that is safe inside `public`: arrays in any argument are traced, everything else is static.

    NumPy arguments become JAX arrays in the current precision first. Left to `jit`, they can be demoted after it has
    compiled for float64, when it runs once with the switch on and once with it off.
    """
    return _lifting(function, is_loop=False)


def compiled_loop(function: Function) -> Function:
    """`compiled`, for a loop that runs long, where it pays to compile for longer.

    On a GPU XLA chooses kernels for products by trying them. On a CPU it prefers 256 bits; 512 make a step of
    Euler-Maruyama in float64 shorter where the processor has them, and change nothing where it has not.
    """
    return _lifting(function, is_loop=True)


class _Traced:
    """In the place of an array among the arguments that a program is recognised by."""


def _options(backend: str, is_loop: bool) -> dict[str, bool | int]:
    """What XLA is told when it compiles a whole program; backends other than these need not know any of it."""
    if backend == "cpu":
        return {**quicker_options(backend), **({"xla_cpu_prefer_vector_width": 512} if is_loop else {})}
    return {} if is_loop else quicker_options(backend)


def _lifting(function: Function, is_loop: bool) -> Function:
    # Of flat lists of arrays: some programs run for less time than it takes to flatten a likelihood in Python, which
    # `equinox.filter_jit` does several times.
    def of_arrays(known: tuple[Any, tuple[tuple[type, Any], ...]], arrays: list[Array]) -> Any:
        tree, rest = known
        given = iter(arrays)
        leaves = [next(given) if kind is _Traced else leaf for kind, leaf in rest]
        args, kwargs = jax.tree.unflatten(tree, leaves)
        return function(*args, **kwargs)

    of_arrays.__name__ = of_arrays.__qualname__ = function.__name__
    plain = jax.jit(of_arrays, static_argnums=0)

    @functools.cache
    def whole(backend: str) -> Callable[..., Any]:
        return jax.jit(of_arrays, static_argnums=0, compiler_options=_options(backend, is_loop))

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        check_process()
        leaves, tree = jax.tree.flatten((args, kwargs))
        leaves = [_lift(leaf) for leaf in leaves]
        arrays = [leaf for leaf in leaves if isinstance(leaf, jax.Array)]
        # With types, since 1, 1.0 and True are equal.
        rest = tuple((_Traced, None) if isinstance(leaf, jax.Array) else (type(leaf), leaf) for leaf in leaves)
        # Options are for whole programs, not for a part of one.
        program = plain if is_traced(arrays) else whole(jax.default_backend())
        return program((tree, rest), arrays)

    return wrapped  # type: ignore[return-value]


def strong(tree: Tree) -> Tree:
    """Every array of `tree` without a weak type; traceable.

    For the carry of a compiled loop: one that begins weak and ends strong would be compiled twice.
    """

    def fix(leaf: Array) -> Array:
        typed = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
        return leaf if typed else jax.lax.convert_element_type(leaf, leaf.dtype)

    return jax.tree.map(fix, tree)


def lift(tree: Tree, dtype: Any = None) -> Tree:
    """Every NumPy array of `tree` as a JAX array in the current precision, floats in `dtype` if given.

    Done once before a loop of compiled calls, so that none of them moves the data again.
    """

    def cast(leaf: Any) -> Any:
        leaf = _lift(leaf)
        floating = isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jnp.floating)
        return leaf.astype(dtype) if floating and dtype is not None else leaf

    return jax.tree.map(cast, tree)


def _lift(leaf: Any) -> Any:
    if not isinstance(leaf, np.ndarray | np.generic):
        return leaf
    array = np.asarray(leaf)
    # JAX remembers by identity how it converted an array that a live jitted function closes over: the next conversion,
    # in another precision, would get the old one. A view is a new identity without a copy.
    return jnp.asarray(array.view(), dtype=jax.dtypes.canonicalize_dtype(array.dtype))


def host_generator(key: Key) -> np.random.Generator:
    """A NumPy generator seeded by a JAX key, for the few numbers that are not worth compiling for."""
    data = jax.random.key_data(key) if jnp.issubdtype(key.dtype, jax.dtypes.prng_key) else key
    return np.random.default_rng(np.asarray(data))


_warned: set[str] = set()


def warn_once_if_single(what: str) -> None:
    """Say once per process that `what` is being traced in float32."""
    if jax.config.jax_enable_x64 or what in _warned:  # type: ignore[attr-defined]
        return
    _warned.add(what)
    warnings.warn(
        f"{what} under a JAX trace while the x64 switch is off, so it runs in float32 and its numbers differ from "
        "those of a direct call. Call it outside `jit`, or wrap the caller in `jax.enable_x64(True)`.",
        PrecisionWarning,
        stacklevel=3,
    )
