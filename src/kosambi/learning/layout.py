"""Where the hyperparameters of a model lie, what they are called, and how they become one vector of free numbers.

A model is a kernel, a prior mean and a likelihood. `kosambi._core.parameters` says what its parameters are called and
which values they can take: `kernel.lengthscale`, `kernel.0.variance`, `mean`, `likelihood.noise`. Positive ones are
learned as logarithms; a frozen one keeps its value; tied ones are one.
"""

from __future__ import annotations

import dataclasses
import fnmatch
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from kosambi._core.parameters import parameters
from kosambi._core.precision import with_fields
from kosambi._core.types import Array
from kosambi.errors import InputError
from kosambi.kernels import AbstractKernel
from kosambi.likelihoods import AbstractLikelihood
from kosambi.priors import AbstractPrior

Tree = TypeVar("Tree")


class Model(NamedTuple):
    """What is learned."""

    kernel: AbstractKernel
    mean: Any
    likelihood: AbstractLikelihood


@dataclasses.dataclass(frozen=True)
class Parameter:
    """One array of the model without its values, so that it has a hash: name, which leaf it is, shape and support."""

    name: str
    leaf: int
    shape: tuple[int, ...]
    support: str

    @property
    def size(self) -> int:
        """How many free numbers it is."""
        return int(np.prod(self.shape))

    def entry(self, i: int) -> str:
        """The name of its i-th number."""
        return self.name if not self.shape else f"{self.name}[{i}]"


@dataclasses.dataclass(frozen=True)
class Layout:
    """Groups of tied parameters, each one piece of the vector of free numbers; hashable, so that `jit` may use it."""

    groups: tuple[tuple[Parameter, ...], ...]
    frozen: tuple[Parameter, ...]

    @property
    def size(self) -> int:
        """The length of the vector."""
        return sum(group[0].size for group in self.groups)

    def entries(self) -> list[tuple[Parameter, int]]:
        """For each number of the vector the first parameter that it is, and which of its numbers."""
        return [(group[0], i) for group in self.groups for i in range(group[0].size)]

    def vector(self, model: Any) -> Float[np.ndarray, " P"]:
        """The free numbers of a model; of a tied group those of its first parameter."""
        leaves = jax.tree.leaves(model)
        pieces = [to_free(group[0].support, np.asarray(leaves[group[0].leaf])).ravel() for group in self.groups]
        return np.concatenate(pieces) if pieces else np.zeros(0)

    def model(self, vector: Float[Array, " P"], model: Any) -> Any:
        """`model` with the parameters that the free numbers stand for; traceable."""
        leaves, structure = jax.tree.flatten(model)
        at = 0
        for group in self.groups:
            piece = vector[at : at + group[0].size]
            at += group[0].size
            for parameter in group:
                leaves[parameter.leaf] = from_free(parameter.support, piece.reshape(parameter.shape))
        return jax.tree.unflatten(structure, leaves)


def to_free(support: str, value: np.ndarray) -> np.ndarray:
    """Any real numbers in place of the values that a parameter can take; with NumPy."""
    if support == "positive":
        return np.asarray(np.log(value))
    if support == "unit":
        return np.asarray(np.log(value) - np.log1p(-value))
    if support == "increasing":
        return np.concatenate([value[:1], np.log(np.diff(value))])
    return np.asarray(value, dtype=np.float64)


def from_free(support: str, free: Array) -> Array:
    """The inverse of `to_free`; traceable."""
    if support == "positive":
        # Numbers that are known are not worth a program for each of their shapes.
        return np.asarray(np.exp(free)) if isinstance(free, np.ndarray) else jnp.exp(free)
    if support == "unit":
        return jax.nn.sigmoid(free)
    if support == "increasing":
        return free[0] + jnp.concatenate([jnp.zeros_like(free[:1]), jnp.cumsum(jnp.exp(free[1:]))])
    return free


def lay_out(model: Model, freeze: str | Sequence[str] = (), tie: Sequence[Sequence[str]] = ()) -> Layout:
    """Which parameters are free, which are frozen, and which are one.

    Arguments:
        model: kernel, mean and likelihood.
        freeze: names, or patterns such as "kernel.*.variance"; a name stands for all that is below it.
        tie: groups of names or patterns; all parameters of a group have one value.
    """
    everything = _parameters(model)
    known = [parameter.name for parameter in everything]
    frozen = {name for pattern in as_patterns("freeze", freeze) for name in _matches("freeze", pattern, known)}
    frozen |= {parameter.name for parameter in everything if parameter.support == "fixed"}
    groups: list[tuple[Parameter, ...]] = []
    taken: set[str] = set()
    for group in as_groups(tie):
        names = [name for pattern in group for name in _matches("tie", pattern, known)]
        members = [parameter for parameter in everything if parameter.name in names]
        _check_group(group, members, frozen, taken)
        taken |= set(names)
        groups.append(tuple(members))
    rest = [(p,) for p in everything if p.name not in taken and p.name not in frozen]
    return Layout((*groups, *rest), tuple(p for p in everything if p.name in frozen))


def without_kernel(layout: Layout, model: Model) -> Layout:
    """What is free and not of the kernel, tied as before."""
    free = [[p.name for p in group] for group in layout.groups]
    learned = [names for names in free if not any(name.startswith("kernel") for name in names)]
    every = [p.name for group in lay_out(model).groups for p in group]
    fixed = [name for name in every if not any(name in names for names in learned)]
    return lay_out(model, fixed, [names for names in learned if len(names) > 1])


def as_groups(tie: Any) -> list[list[str]]:
    """Checked groups of names or patterns."""
    groups = list(tie) if isinstance(tie, Iterable) else [""]
    if any(isinstance(group, str) for group in groups):
        raise InputError(
            f"`tie` is a list of groups of names. Got {tie!r}. For one group write "
            '[["kernel.0.lengthscale", "kernel.1.lengthscale"]].'
        )
    return [as_patterns("tie", group) for group in groups]


def as_patterns(argument: str, given: Any) -> list[str]:
    """Checked names of parameters, or patterns of them."""
    patterns = [given] if isinstance(given, str) or not isinstance(given, Iterable) else list(given)
    if not all(isinstance(pattern, str) for pattern in patterns):
        raise InputError(
            f'`{argument}` takes names of parameters, such as "kernel.variance". Got {given!r}. For none leave it out.'
        )
    return patterns


def _matches(argument: str, pattern: str, known: list[str]) -> list[str]:
    if pattern in Model._fields:
        # All of a part, also where that has no parameters.
        return [name for name in known if name.split(".")[0] == pattern]
    found = [name for name in known if fnmatch.fnmatchcase(name, pattern) or name.startswith(pattern + ".")]
    if not found:
        raise InputError(f"`{argument}` names no parameter: {pattern!r}. This model has {', '.join(known)}.")
    return found


def _check_group(group: list[str], members: list[Parameter], frozen: set[str], taken: set[str]) -> None:
    if len(members) < 2:
        raise InputError(f"`tie` needs two parameters or more in a group. {group!r} is {len(members)}.")
    clash = [p.name for p in members if p.name in frozen or p.name in taken]
    if clash:
        raise InputError(f"`{clash[0]}` is frozen or tied already, so it cannot be in the group {group!r}.")
    if len({(p.shape, p.support) for p in members}) > 1:
        shapes = ", ".join(f"{p.name} {p.shape}, {p.support}" for p in members)
        raise InputError(f"Tied parameters must have the same shape and support. Got {shapes}.")


def _parameters(model: Model) -> list[Parameter]:
    found = []
    for p in parameters(**model._asdict()):
        _check_support(type(p.owner).__name__, p.name, p.support, p.value)
        found.append(Parameter(p.name, p.leaf, tuple(np.shape(p.value)), p.support))
    return found


def _check_support(owner: str, name: str, support: str, leaf: Any) -> None:
    inside = {
        "positive": np.all(leaf > 0),
        "unit": np.all((leaf > 0) & (leaf < 1)),
        "increasing": np.ndim(leaf) == 1 and np.all(np.diff(leaf) > 0),
    }
    if not inside.get(support, True):
        field = name.rsplit(".", 1)[-1]
        raise InputError(
            f"`{name}` is {np.asarray(leaf)}, but it is learned as {support}. If other values are meant, write "
            f'`supports = {{"{field}": "real"}}` in `{owner}`.'
        )


def rebuilt(prior: AbstractPrior, model: Model) -> AbstractPrior:
    """The prior with another kernel and mean; traceable."""
    return with_fields(prior, kernel=model.kernel, mean=model.mean)
