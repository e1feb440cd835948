"""An estimator that goes on: from the last fit (`warm_start`), or with more rows (`partial_fit`)."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np

from kosambi._core.types import Key
from kosambi.errors import InputError
from kosambi.estimators._learn import FAMILIES, Settings
from kosambi.kernels import AbstractKernel, scaled
from kosambi.likelihoods import AbstractLikelihood
from kosambi.posterior import Posterior
from kosambi.priors import GaussianProcess
from kosambi.sources import AbstractRowSource


def check_warm_start(value: object) -> None:
    """Refuse what is neither true nor false."""
    if not isinstance(value, bool | np.bool_):
        raise InputError(f"`warm_start` must be True or False. Got {value!r}.")


def begun_from(
    last: Posterior, settings: Settings, likelihood: AbstractLikelihood, location: float, scale: float
) -> tuple[Settings, AbstractLikelihood]:
    """Settings and likelihood whose hyperparameters are those of `last`, in the units of a new fit.

    `likelihood` is that of standardised observations, and stays where the last fit had another one; so does the kernel
    where another one was asked for since.
    """
    if type(last.likelihood) is not type(likelihood) or last.likelihood.num_latents != likelihood.num_latents:
        return settings, likelihood
    if not isinstance(last.prior, GaussianProcess):
        return settings, likelihood
    moved = last.likelihood.in_units(-location / scale, 1.0 / scale)
    known = last.likelihood if moved is None else moved.likelihood
    shift, factor = (0.0, 1.0) if moved is None else (moved.location, moved.scale)
    kernel = last.prior.kernel if factor == 1.0 else scaled(last.prior.kernel, factor**2)
    if not _is_asked_for(kernel, settings.kernel) or not _are_alike(known, likelihood):
        return settings, likelihood
    mean = np.asarray(last.prior.mean)
    start = float(shift + factor * mean) if mean.ndim == 0 and mean.dtype != object else None
    return dataclasses.replace(settings, kernel=kernel, mean=start, initial=last), known


def _is_asked_for(kernel: AbstractKernel, asked: AbstractKernel | str | None) -> bool:
    """Whether a kernel is of the sort that an estimator was asked for."""
    if asked is None:
        return True
    if isinstance(asked, str):
        return type(kernel) is FAMILIES[asked]
    return _are_alike(kernel, asked)


def _are_alike(one: object, other: object) -> bool:
    """Whether two models differ by the numbers in them alone."""
    (leaves, tree), (other_leaves, other_tree) = jax.tree.flatten(one), jax.tree.flatten(other)
    same = tree == other_tree  # type: ignore[operator]
    return bool(same) and [*map(np.shape, leaves)] == [*map(np.shape, other_leaves)]


def with_rows(
    key: Key,
    posterior: Posterior,
    settings: Settings,
    x: np.ndarray,
    y: np.ndarray,
    weights: np.ndarray,
) -> Posterior:
    """The posterior with rows that came later; `x` is in its units."""
    used = weights > 0
    counts = weights[used]
    return posterior.condition(
        # Another key for each number of rows, so that no call repeats the random numbers of one before.
        jax.random.fold_in(key, posterior.target.num_rows),
        x[used],
        y[used],
        weights=counts if np.any(counts != 1.0) else None,
        sampler=settings.sampler,
        num_particles=settings.n_samples,
        progress=settings.progress,
    )


def refuse_source(X: Any) -> None:
    """A stream is read by `fit`, which sees all of it."""
    if isinstance(X, AbstractRowSource):
        raise InputError(
            "`partial_fit` takes rows as arrays. Read a source with `fit`, and add arrays to it afterwards."
        )
