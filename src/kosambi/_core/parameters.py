"""The numbers of a model by name: one walk over its arrays, and arguments that can be read and replaced.

A model is made of parts: a kernel, a prior mean, a likelihood. `parameters` names each floating-point array in them by
where it is, `kernel.lengthscale`, `kernel.0.variance` (the first kernel of a sum or product), `mean`,
`likelihood.noise`, and says which values it can take; learning, reports and pages all go by these names. A
`Configurable` also gives and takes its constructor's arguments by name, in scikit-learn's manner, where the same path
is written `kernel__0__variance`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from kosambi._core.precision import Module, with_fields
from kosambi._core.representation import arguments, forgotten_arguments
from kosambi.errors import InputError

SUPPORTS = ("positive", "real", "unit", "increasing", "fixed")
"""What can be said of the values of a parameter; see `kosambi.kernels.AbstractKernel.supports`."""

Instance = TypeVar("Instance", bound="Configurable")


class Parameter(NamedTuple):
    """One floating-point array of a model."""

    name: str
    """Where it is: `kernel.lengthscale`, `kernel.0.variance`, `likelihood.noise`."""
    value: Any
    """The array."""
    support: str
    """Which values it can take: one of `SUPPORTS`."""
    owner: Any
    """The object that holds it."""
    field: str
    """The name of the field there."""
    leaf: int
    """Which leaf of all parts, one after the other, it is."""


def parameters(**parts: Any) -> list[Parameter]:
    """All parameters of the parts of a model, in their order.

    In a prior mean a number can be any real one, elsewhere it is positive, unless the object that holds it says
    otherwise in `supports`.

    Arguments:
        **parts: pytrees by the name that their parameters begin with, such as `kernel=`, `mean=`, `likelihood=`.

    >>> import kosambi as ko
    >>> kernel = ko.kernels.Matern52(lengthscale=0.5) + ko.kernels.Constant(2.0)
    >>> [(p.name, p.value.item(), p.support) for p in parameters(kernel=kernel)]
    [('kernel.0.lengthscale', 0.5, 'positive'), ('kernel.0.variance', 1.0, 'positive'),
     ('kernel.1.variance', 2.0, 'positive')]
    """
    found, before = [], 0
    for part, tree in parts.items():
        paths, _ = jax.tree_util.tree_flatten_with_path(tree)
        for i, (path, leaf) in enumerate(paths):
            if _is_array(leaf) and jnp.issubdtype(leaf.dtype, jnp.floating):
                names, owner, field = _walk(tree, path)
                support = _support(owner, field, "real" if part == "mean" else "positive")
                found.append(Parameter(".".join([part, *names]), leaf, support, owner, field, before + i))
        before += len(paths)
    return found


def _walk(tree: Any, path: tuple[Any, ...]) -> tuple[list[str], Any, str]:
    """The steps to a leaf by name, the object that holds it, and the field."""
    owner, value, field = tree, tree, ""
    names: list[str] = []
    for key in path:
        if isinstance(key, jax.tree_util.GetAttrKey):
            owner, field, value = value, key.name, getattr(value, key.name)
            # The kernels of a sum are its numbers: `kernel.0`, not `kernel.kernels.0`.
            if field != "kernels":
                names.append(field)
        else:
            step = getattr(key, "idx", getattr(key, "key", None))
            value = value[step]
            names.append(str(step))
    return names, owner, field


def _support(owner: Any, field: str, default: str) -> str:
    said: Mapping[str, str] = getattr(owner, "supports", {})
    support = said.get(field, default)
    if support not in SUPPORTS:
        raise InputError(
            f"`{type(owner).__name__}.supports` says {support!r} of {field!r}. It must be one of {', '.join(SUPPORTS)}."
        )
    return support


class Configurable(Module):
    """A module whose constructor's arguments can be read and replaced by name, as scikit-learn does.

    Modules never change: `set_params` returns another one. An estimator that holds one replaces it, so that
    `estimator.set_params(kernel__lengthscale=0.5)` and a grid search over `kernel__lengthscale` work.
    """

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The arguments of the constructor by name, numbers as Python numbers.

        Arguments:
            deep: also those of the parts, as `part__argument`; the parts of a sum or product are `0`, `1`, ….

        >>> import kosambi as ko
        >>> (ko.kernels.Matern52(0.5) + ko.kernels.Constant(2.0)).get_params()["1__variance"]
        2.0
        """
        own = {name: _plain(value) for name, value in self._arguments().items()}
        nested = {
            f"{name}__{inner}": part
            for name, value in own.items()
            if deep and isinstance(value, Configurable)
            for inner, part in value.get_params().items()
        }
        return own | nested

    def set_params(self: Instance, **params: Any) -> Instance:
        """A copy with other arguments; this object stays as it is.

        Arguments:
            **params: arguments by the names that `get_params` gives, those of parts included.

        >>> import kosambi as ko
        >>> ko.kernels.Matern52(0.5).set_params(lengthscale=[1.0, 2.0])
        Matern52(lengthscale=[1.0, 2.0], variance=1.0)
        """
        own = self._arguments()
        whole, inner = nested_params(params)
        for name in (*whole, *inner):
            if name not in own:
                raise InputError(
                    f"`{type(self).__name__}` has no parameter {name!r}. It has {', '.join(own) or 'none'}."
                )
        changed = own | whole
        for name, values in inner.items():
            changed[name] = with_params(name, changed[name], values)
        return self._with_arguments(changed) if params else self

    def _arguments(self) -> dict[str, Any]:
        return arguments(self)

    def _with_arguments(self: Instance, values: dict[str, Any]) -> Instance:
        forgotten = forgotten_arguments(self)
        if forgotten:
            raise InputError(
                f"`{type(self).__name__}` keeps no field for its argument {forgotten[0]!r}, so no copy of it can be "
                f"made. Add the field, or say which it is: `argument_fields = {{{forgotten[0]!r}: 'field'}}`."
            )
        made = type(self)(**{name: _plain(value) for name, value in values.items()})
        # Not every constructor makes arrays of numbers: one that takes the fields as they are does not.
        fields = {
            name: self.argument_fields.get(name, name) for name, value in arguments(self).items() if _is_array(value)
        }
        numbers = {field: getattr(made, field) for field in fields.values() if not _is_array(getattr(made, field))}
        repaired = {field: np.asarray(value, dtype=float) for field, value in numbers.items() if value is not None}
        return with_fields(made, **repaired) if repaired else made

    def __sklearn_clone__(self: Instance) -> Instance:
        # Nothing ever changes it, so it may be shared.
        return self


def nested_params(params: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Arguments that are replaced as a whole, and by argument those of its parts.

    >>> nested_params({"kernel": 1, "kernel__0__variance": 2.0})
    ({'kernel': 1}, {'kernel': {'0__variance': 2.0}})
    """
    whole: dict[str, Any] = {}
    inner: dict[str, dict[str, Any]] = {}
    for name, value in params.items():
        head, separator, rest = name.partition("__")
        if separator:
            inner.setdefault(head, {})[rest] = value
        else:
            whole[name] = value
    return whole, inner


def with_params(name: str, part: Any, values: Mapping[str, Any]) -> Any:
    """`part`, the argument called `name`, with other arguments of its own."""
    if not isinstance(part, Configurable):
        raise InputError(
            f"`{name}__{next(iter(values))}` sets a parameter of `{name}`, which is {part!r}. Give `{name}` an object "
            "first, for example `kernel=kosambi.kernels.Matern52()`."
        )
    return part.set_params(**values)


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray | jax.Array)


def _plain(value: Any) -> Any:
    """A concrete array without axes as a Python number; anything else as it is."""
    is_number = (_is_array(value) or isinstance(value, np.generic)) and np.ndim(value) == 0
    if not is_number or isinstance(value, jax.core.Tracer) or value.dtype.kind not in "fiub":
        return value
    return value.item()
