"""`kosambi.infer` with a source, or with a limit of memory: rows are held and treated as arrays, or read in blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kosambi._core.checks import as_inputs
from kosambi._core.groups import ALONE
from kosambi._core.long_tables import frozen
from kosambi._core.types import ArrayLike, Key
from kosambi.basis import AbstractBasis, PointBasis, inducing
from kosambi.choices import as_basis_class, as_prior, finished, with_background
from kosambi.errors import InputError
from kosambi.kernels import AbstractKernel
from kosambi.learning.num_neighbors import as_neighbors
from kosambi.likelihoods import AbstractLikelihood
from kosambi.outputs.stacking import is_matrix
from kosambi.posterior import Posterior
from kosambi.priors import AbstractPrior, GaussianProcess
from kosambi.sources import AbstractRowSource, ArraySource
from kosambi.streaming.held import Asked, HeldRows, chosen, read, reported, why_not, without_use
from kosambi.streaming.source import check_arguments, infer_source, surveyed


def within(
    walked: Callable[..., Posterior],
    max_memory: object,
    key: Key,
    prior: AbstractPrior | AbstractKernel,
    likelihood: AbstractLikelihood,
    x: ArrayLike | AbstractRowSource,
    y: ArrayLike | None,
    arguments: dict[str, Any],
) -> Posterior:
    """The posterior given rows of a source, or arrays, in no more memory than may be taken.

    Arguments:
        walked: `infer` for rows in memory.
        max_memory: bytes that the process may take.
        key: a JAX random key.
        prior: a prior or a kernel.
        likelihood: what an observation costs.
        x: the inputs, or a source.
        y: the observations; None for a source.
        arguments: all others of `infer`, by name.
    """
    weights, chosen_prior = arguments["weights"], with_background(as_prior(prior), arguments["background"])
    asked, found, rows = _asked(arguments, chosen_prior), None, None
    if isinstance(x, AbstractRowSource):
        _refuse_twice(y, arguments)
        source, group = x, x.group
        reason = why_not(asked, group)
    else:
        if is_matrix(y):
            raise InputError("`max_memory` is for one output. Leave it out, or fit one column of y at a time.")
        rows = HeldRows(frozen(as_inputs("x", x)), np.asarray(likelihood.check(y)), weights)
        source, reason = ArraySource(*rows), why_not(asked, ALONE)
    if reason is not None:
        # Before a pass over all rows.
        check_arguments(likelihood, arguments)
    else:
        if rows is None:
            draws, progress = arguments["num_particles"], arguments["progress"]
            found = surveyed(source, likelihood, max_memory, asked.num_points, draws, progress)
            shape = found.num_rows, len(found.x_mean)
        else:
            shape = rows.x.shape
        memory, reason = chosen(shape, likelihood, asked, max_memory)
        if memory is not None:
            if found is not None:
                rows = read(found)
                weights = rows.counts
            assert rows is not None
            reason = without_use(asked, rows.x)
            if not reason:
                options = arguments | {"weights": weights, "memory": memory}
                posterior = walked(key, prior, likelihood, rows.x, rows.y, **options)
                return reported(posterior, memory, found)
        check_arguments(likelihood, arguments)
    del rows
    basis, number = arguments["basis"], arguments["num_inducing"]
    if isinstance(basis, AbstractBasis):
        checked = inducing.as_num_inducing("num_inducing", number)
        points = arguments["inducing_points"]
        coordinates: Any = finished(basis, chosen_prior, checked, points, arguments["background"])
    else:
        coordinates = as_basis_class(basis, chosen_prior)
    names = ("num_inducing", "inducing_points", "potential", "sampler", "num_particles", "progress")
    given = {name: arguments[name] for name in names}
    given |= {"max_memory": max_memory, "reason": reason}
    return infer_source(key, chosen_prior, likelihood, source if found is None else found, coordinates, **given)


def _asked(arguments: dict[str, Any], prior: AbstractPrior) -> Asked:
    """What decides on neighbours."""
    asked, potential = as_neighbors("num_neighbors", arguments["num_neighbors"]), arguments["potential"]
    basis, points = arguments["basis"], arguments["inducing_points"]
    open_choice = Asked(asked, "auto", potential)
    number: Any = inducing.as_num_inducing(
        "num_inducing", arguments["num_inducing"], allow_none=open_choice.is_for_neighbors
    )
    if isinstance(basis, AbstractBasis):
        return open_choice._replace(num_points=basis.size)
    if not isinstance(points, str):
        return open_choice._replace(num_points=len(np.asarray(points)))
    otherwise = ""
    if not isinstance(prior, GaussianProcess):
        otherwise = f"near rows are for a `GaussianProcess`, and the prior is a `{type(prior).__name__}`"
    elif as_basis_class(basis, prior) is not PointBasis:
        otherwise = "coordinates were asked for"
    return open_choice._replace(num_points=number, otherwise=otherwise)


def _refuse_twice(y: object, arguments: dict[str, Any]) -> None:
    """Refuse what a source has, and what no fit of one knows."""
    for name, value in (("y", y), ("weights", arguments["weights"])):
        if value is not None:
            raise InputError(f"`{name}` cannot be given with a source of rows, which has its own. Leave it out.")
