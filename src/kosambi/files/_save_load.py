"""The two calls: `save` and `load`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from kosambi._core import writing
from kosambi._core.writing import DISK_ERRORS
from kosambi.errors import FileError, InputError
from kosambi.files._annotations import ArrayRef
from kosambi.files._container import opened, write
from kosambi.files._decode import build, custom_names, plan
from kosambi.files._encode import Encoder
from kosambi.files._estimators import SavedEstimator, as_saved, is_estimator, settings_of
from kosambi.files._registry import FaultError


def save(value: Any, path: str | os.PathLike[str], *, rescue: bool = True) -> None:
    """Write a kernel, likelihood, prior, basis, target, posterior, prediction, draw or fitted estimator to one file.

    The file is safetensors: arrays, and a JSON description with a format version and a SHA-256 digest. It holds no
    code. What two parts share is stored once. A file of the same name is replaced as a whole, or not at all.

    Functions and classes of your own are stored by name: `Custom(cost, name="mine")`, `Named("trend", function)` as a
    prior mean, and a class attribute `name = "mine"` for a kernel or a likelihood.

    Arguments:
        value: what to write; also a list, a tuple or a dictionary of such things.
        path: of the file. Any suffix will do; `.kosambi` is the custom.
        rescue: if the disk fails (it is full, say), write the file to the temporary folder instead, so that hours of
            work are not lost with the program; the error then says where it is.

    Raises:
        InputError: `value` holds something that cannot be stored.
        FileError: the file cannot be written there.

    >>> import pathlib, tempfile, kosambi as ko
    >>> kernel = ko.kernels.Matern52(lengthscale=[0.3, 1.0]) + 0.1
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "kernel.kosambi"
    ...     ko.save(kernel, path)
    ...     ko.load(path).kernels[0].lengthscale
    array([0.3, 1. ])
    """
    name = _as_path(path)
    encoder = Encoder()
    specification = encoder.specification(as_saved(value))
    refs = {key: ArrayRef(key, array.dtype, array.shape) for key, array in encoder.arrays.items()}
    try:
        # What could not be loaded is not written.
        build(plan(specification, refs, encoder.custom), encoder.arrays)
    except FaultError as fault:
        raise InputError(f"`save` was given an object that could not be loaded again: {_sentence(fault)}") from fault
    try:
        write(name, specification, encoder.arrays)
    except OSError as error:
        text = f"`{name}` cannot be written: {_reason(error)}. {_remedy(name)}"
        if rescue and error.errno in DISK_ERRORS:
            last = os.path.basename(name)
            text += " " + writing.rescue(lambda folder: write(str(folder / last), specification, encoder.arrays))
        raise FileError(text.rstrip()) from error


def check_saveable(value: Any) -> None:
    """Raise at once what `save` would raise after hours of work: that a part is code without a name.

    For a kernel, a likelihood or a prior of your own before it is fitted, or an estimator that holds one.

    Arguments:
        value: what `save` takes, and also an estimator that has not been fitted.

    Raises:
        InputError: `value` holds something that cannot be stored; the message says the remedy.

    >>> import jax.numpy as jnp, kosambi as ko
    >>> likelihood = ko.likelihoods.Custom(lambda y, f: jnp.log(jnp.cosh(y - f)))
    >>> ko.files.check_saveable(likelihood)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    kosambi.errors.InputError: `save` stores no code, and `Custom` holds a function. Give it a name, ...
    """
    is_unfitted = is_estimator(value) and not hasattr(value, "posterior_")
    Encoder().specification(settings_of(value) if is_unfitted else as_saved(value))


def load(path: str | os.PathLike[str], custom: Mapping[str, Any] | None = None) -> Any:
    """What `save` wrote to a file, bit for bit, on any machine and whatever JAX's x64 switch says.

    Format, size, digest, classes, fields, types and shapes are checked before any array is read, and the numbers before
    the object is handed over. Nothing in the file is executed or imported.

    Arguments:
        path: of the file.
        custom: your own functions and classes by the names they were saved under.

    Raises:
        FileError: there is no such file, it is damaged or of another kind, or `custom` lacks something.
        InputError: `custom` has names that the file does not use.

    >>> import os, tempfile, jax, jax.numpy as jnp, numpy as np, kosambi as ko
    >>> log_cosh = lambda y, f: jnp.log(jnp.cosh(y - f))
    >>> likelihood = ko.likelihoods.Custom(log_cosh, name="log_cosh")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ko.save(likelihood, os.path.join(folder, "cost.kosambi"))
    ...     again = ko.load(os.path.join(folder, "cost.kosambi"), custom={"log_cosh": log_cosh})
    >>> again.derivative([0.0], [1.0]).round(6)
    array([0.761594])
    """
    name, own = _as_path(path), _as_custom(custom)
    try:
        with opened(name) as file:
            _check_names(custom_names(file.specification), own)
            checked = plan(file.specification, file.arrays, own)
            found = build(checked, file.read())
            return found.restored() if isinstance(found, SavedEstimator) else found
    except FaultError as fault:
        raise FileError(f"`{name}` cannot be loaded: {_sentence(fault)}") from fault
    except OSError as error:
        raise FileError(f"`{name}` cannot be read: {_reason(error)}. Check the path and its permissions.") from error


def _check_names(wanted: set[str], own: dict[str, Any]) -> None:
    missing, unknown = sorted(wanted - set(own)), sorted(set(own) - wanted)
    if missing:
        parts = ", ".join(f"{name!r}: ..." for name in missing)
        raise FaultError(
            f"it holds parts of your own that it knows by name only: {', '.join(map(repr, missing))}. "
            f"Write `kosambi.load(path, custom={{{parts}}})` with the functions or classes"
        )
    if unknown:
        used = f"It uses {', '.join(map(repr, sorted(wanted)))}." if wanted else "It uses none."
        raise InputError(f"`custom` has names that the file does not use: {', '.join(map(repr, unknown))}. {used}")


def _as_path(path: object) -> str:
    name = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    if not isinstance(name, str) or not name or "\0" in name:
        raise InputError(f"`path` must be the path of a file, as text or a `pathlib.Path`. Got {path!r}.")
    return name


def _as_custom(custom: object) -> dict[str, Any]:
    if custom is None:
        return {}
    if not isinstance(custom, Mapping) or not all(isinstance(name, str) for name in custom):
        raise InputError(
            f"`custom` must be a dictionary from names to functions and classes. Got {custom!r}. "
            "For example custom={'mine': my_cost}."
        )
    return dict(custom)


def _sentence(fault: FaultError) -> str:
    # A hostile file chooses parts of the text.
    text = str(fault)
    return (text if len(text) <= 800 else text[:797] + "...").rstrip(".") + "."


def _reason(error: OSError) -> str:
    return error.strerror or str(error) or type(error).__name__


def _remedy(name: str) -> str:
    folder = os.path.dirname(os.path.realpath(name))
    if not os.path.isdir(folder):
        return f"The directory `{folder}` does not exist: make it first."
    if os.path.isdir(name):
        return "Give the path of a file in it."
    return "Check the free space and the permissions of the directory."
