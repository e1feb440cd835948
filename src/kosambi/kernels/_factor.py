"""A kernel times a number, taken up by its variances, so that its form stays."""

from __future__ import annotations

import numpy as np

from kosambi.kernels._base import AbstractCombination, AbstractKernel, Constant, Product
from kosambi.kernels.linear import Linear
from kosambi.kernels.stationary import AbstractStationary
from kosambi.precision import with_fields


def with_factor(kernel: AbstractKernel, factor: float) -> AbstractKernel:
    """The kernel times a number, where it has a variance to take it up."""
    if isinstance(kernel, Product):
        head = kernel.kernels
        for i, part in enumerate(head):
            scaled = with_factor(part, factor)
            if scaled is not part:
                return with_fields(kernel, kernels=(*head[:i], scaled, *head[i + 1 :]))
        return kernel
    if isinstance(kernel, AbstractCombination):
        return with_fields(kernel, kernels=tuple(with_factor(part, factor) for part in kernel.kernels))
    if isinstance(kernel, AbstractStationary | Linear | Constant):
        return with_fields(kernel, variance=np.asarray(kernel.variance * factor))
    return kernel


def scaled(kernel: AbstractKernel, factor: float) -> AbstractKernel:
    """The kernel times a positive number: with other variances, or as a product where a part has none.

    >>> import kosambi as ko
    >>> float(ko.kernels.scaled(ko.kernels.Matern52(variance=2.0), 3.0).variance)
    6.0
    """
    # Parts without a variance would keep their size.
    return with_factor(kernel, factor) if _takes_factor(kernel) else factor * kernel


def _takes_factor(kernel: AbstractKernel) -> bool:
    if isinstance(kernel, Product):
        return any(_takes_factor(part) for part in kernel.kernels)
    if isinstance(kernel, AbstractCombination):
        return all(_takes_factor(part) for part in kernel.kernels)
    return isinstance(kernel, AbstractStationary | Linear | Constant)
