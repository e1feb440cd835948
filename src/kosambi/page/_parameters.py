"""The numbers of a model by name: those of kernel, mean and likelihood as they are used."""

from __future__ import annotations

import dataclasses

import numpy as np

from kosambi._core.parameters import parameters as model_parameters
from kosambi.kernels import Periodic
from kosambi.page._facts import Facts

MOST_NUMBERS = 200
"""Of one parameter; a longer one is not shown."""


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
    """All of them that can be shown, in the order of kernel, mean, likelihood."""
    prior, likelihood, learned = facts.posterior.prior, facts.posterior.likelihood, facts.estimator.fit_report_
    frozen, at_bound = ((), ()) if learned is None else (learned.frozen, learned.at_bound)
    found = []
    for p in model_parameters(kernel=prior.kernel, mean=prior.mean, likelihood=likelihood):
        value = np.asarray(p.value)
        if value.size > MOST_NUMBERS:
            continue
        columns: tuple[int, ...] = ()
        if value.ndim == 1 and p.name.startswith("kernel."):
            active = getattr(p.owner, "active_dims", None)
            columns = tuple(range(len(facts.names))) if active is None else tuple(active)
        columns = columns if len(columns) == value.size else ()
        # The lengthscale of a periodic kernel is a part of its period and has no unit.
        is_length = p.field == "period" or (p.field == "lengthscale" and not isinstance(p.owner, Periodic))
        found.append(Parameter(p.name, value, columns, is_length, frozen, at_bound))
    return found
