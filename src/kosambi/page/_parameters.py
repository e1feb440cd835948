"""The numbers of a model by name: those of kernel, mean and likelihood as they are used."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np

from kosambi.page._facts import Facts


@dataclasses.dataclass(frozen=True, eq=False)
class Parameter:
    """One array of the model."""

    name: str
    """Where it is: `kernel.lengthscale`, `kernel.0.variance`, `likelihood.noise`."""
    value: np.ndarray
    """Its numbers."""
    columns: tuple[int, ...]
    """The input column of each number; empty where they do not belong to columns."""
    is_length: bool
    """Whether it is a length in the space of inputs, and so has their units."""
    frozen: tuple[str, ...]
    """Names of those that were not learned."""
    at_bound: tuple[str, ...]
    """Names of numbers that ended at a bound."""

    @property
    def size(self) -> int:
        """How many numbers."""
        return int(self.value.size)

    def entry(self, i: int) -> str:
        """The name of its i-th number."""
        return self.name if self.value.ndim == 0 else f"{self.name}[{i}]"

    def remark(self, i: int) -> str:
        """What to know about it."""
        if self.name in self.frozen:
            return "not learned"
        if self.entry(i) in self.at_bound:
            return "at a bound: hardly matters" if self.is_length else "at a bound"
        return ""


def parameters(facts: Facts) -> list[Parameter]:
    """All of them, in the order of kernel, mean, likelihood; one noise per observation is left out."""
    prior, likelihood, learned = facts.posterior.prior, facts.posterior.likelihood, facts.estimator.fit_report_
    parts = {"kernel": prior.kernel, "mean": prior.mean, "likelihood": likelihood}
    frozen, at_bound = ((), ()) if learned is None else (learned.frozen, learned.at_bound)
    found = []
    for part, tree in parts.items():
        for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]:
            if not isinstance(leaf, np.ndarray | jax.Array) or leaf.dtype.kind != "f" or np.size(leaf) > 200:
                continue
            owner, names = _walk(tree, path)
            value, is_length = np.asarray(leaf), bool(names) and names[-1] in ("lengthscale", "period")
            columns: tuple[int, ...] = ()
            if value.ndim == 1 and part == "kernel":
                active = getattr(owner, "active_dims", None)
                columns = tuple(range(len(facts.names))) if active is None else tuple(active)
            columns = columns if len(columns) == value.size else ()
            found.append(Parameter(".".join([part, *names]), value, columns, is_length, frozen, at_bound))
    return found


def _walk(tree: Any, path: tuple[Any, ...]) -> tuple[Any, list[str]]:
    """The object that holds a leaf, and the steps to it by name."""
    owner, value, names = tree, tree, []
    for key in path:
        if isinstance(key, jax.tree_util.GetAttrKey):
            owner, value = value, getattr(value, key.name)
            # The kernels of a sum are its numbers: `kernel.0`, not `kernel.kernels.0`.
            if key.name != "kernels":
                names.append(key.name)
        else:
            step = getattr(key, "idx", getattr(key, "key", None))
            value = value[step]
            names.append(str(step))
    return owner, names
