"""What `kosambi.infer` does with a source: arguments that it cannot have, the first pass, the coordinates."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from kosambi._core.checks import as_count, as_inputs, check_key
from kosambi._core.groups import Group
from kosambi._core.journal import recalled
from kosambi._core.precision import public
from kosambi._core.programs import split
from kosambi._core.progress import Clock, Progress
from kosambi._core.types import Array, Key
from kosambi.basis import AbstractBasis, inducing
from kosambi.errors import InputError
from kosambi.kernels import column_scales
from kosambi.learning import select_inducing
from kosambi.learning.sizes import affordable
from kosambi.likelihoods import AbstractLikelihood
from kosambi.posterior import Posterior
from kosambi.priors import AbstractPrior
from kosambi.samplers import AbstractSampler
from kosambi.sources import AbstractRowSource, Survey, survey
from kosambi.sources.memory import Plan, plan
from kosambi.streaming.rows import check_streamable, infer_rows

# Coordinates that memory is planned for where their number is left open.
_USUAL = 512
# Rows of a block of features beyond which nothing gets faster: what caches like, and what keeps an accelerator busy.
_CACHED, _BUSY = 2**13, 2**16
_REMEDIES = {
    "initial": "draws begin around the mode of all rows",
    "precision": "sums over many rows need float64",
    "mesh": "blocks of rows are read for one device",
    "on_interrupt": "there are no draws to return before all rows have been read",
}
_USUALLY = {"precision": "float64", "on_interrupt": "raise"}


def check_arguments(likelihood: AbstractLikelihood, arguments: Mapping[str, object]) -> None:
    """Refuse what a fit of rows that are read in blocks has no use for."""
    for name, reason in _REMEDIES.items():
        given = arguments[name]
        if given is not None and not (isinstance(given, str) and given == _USUALLY.get(name)):
            raise InputError(f"`{name}` cannot be given where rows are read in blocks: {reason}.")
    check_streamable(likelihood)


def planned(
    max_memory: object, num_columns: int, num_coordinates: object, latents: int, num_draws: int, group: Group
) -> Plan:
    """How many rows are held at once, for a number of coordinates, or for the usual one where it is left open.

    Of several processes, each holds what the one with the least memory can. A fit that is taken up again goes on with
    what it had begun with, whatever is free now.
    """
    number = num_coordinates if isinstance(num_coordinates, int) else _USUAL
    wanted = num_columns, number * latents, num_draws
    own = Plan(*map(int, recalled("memory", lambda: plan(max_memory, *wanted), *wanted)))
    found = group.gathered("planning memory", [own.block_rows, own.sample_rows])
    block_rows, sample_rows = np.min([numbers for (numbers,) in found], axis=0).tolist()
    return own._replace(block_rows=block_rows, sample_rows=sample_rows)


@public
def infer_source(
    key: Key,
    prior: AbstractPrior,
    likelihood: AbstractLikelihood,
    source: AbstractRowSource | Survey,
    basis: AbstractBasis | Callable[[AbstractPrior, Array], AbstractBasis],
    *,
    num_inducing: int | str | None = "auto",
    inducing_points: Any = "greedy",
    potential: str = "auto",
    sampler: str | AbstractSampler = "auto",
    num_particles: int = 100,
    max_memory: object = None,
    reason: str = "",
    progress: bool | None = None,
) -> Posterior:
    """The posterior over functions given all rows of a source, with M coordinates; see `kosambi.infer`.

    Arguments:
        key: a JAX random key.
        prior: a prior.
        likelihood: what an observation costs.
        source: the rows, or what a first pass over them found.
        basis: a finished basis, or a class of them.
        num_inducing: M, or "auto": as many as take minutes.
        inducing_points: as in `infer`, among the rows of the sample.
        potential: "auto", "projected" or "optimal".
        sampler: as in `infer`.
        num_particles: J.
        max_memory: bytes that the process may take.
        reason: why rows are read in blocks, and not held, for the report.
        progress: whether to show a progress line.
    """
    key_points, key_draw = split(check_key(key), 2)
    clock, particles = Clock(), as_count("num_particles", num_particles)
    number = inducing.as_num_inducing("num_inducing", num_inducing)
    if number == "all":
        raise InputError(
            '`num_inducing="all"` cannot be had for rows that are read in blocks. Give a number, or "auto".'
        )
    known: object = number
    if isinstance(basis, AbstractBasis):
        known = basis.size
    elif not isinstance(inducing_points, str):
        known = len(inducing_points)
    group = (source.stream.source if isinstance(source, Survey) else source).group
    with group.together():
        group.check_same({"the random key": jax.random.key_data(key).tolist()}, "Give all of them the same one.")
        if isinstance(source, Survey):
            found = source
        else:
            found = surveyed(source, likelihood, max_memory, known, particles, progress)
        holds = planned(max_memory, found.x_mean.shape[0], known, likelihood.num_latents, particles, group)
        # No larger than there are rows, nor than caches like.
        fits = 2 ** int(np.ceil(np.log2(max(found.num_rows, 2))))
        most = _CACHED if jax.default_backend() == "cpu" else _BUSY
        holds = holds._replace(block_rows=min(holds.block_rows, fits, most))
        if not isinstance(basis, AbstractBasis):
            points = _points(key_points, prior, likelihood, found, number, inducing_points, progress)
            basis = basis(prior, points)
        return infer_rows(
            key_draw,
            basis,
            likelihood,
            found,
            holds,
            potential=potential,
            sampler=sampler,
            num_particles=particles,
            reason=reason,
            progress=progress,
            clock=clock,
        )


def surveyed(
    source: AbstractRowSource,
    likelihood: AbstractLikelihood,
    max_memory: object,
    number: object,
    num_particles: int,
    progress: bool | None,
) -> Survey:
    """The first pass, with as large a sample as memory allows."""
    first = source.first()
    columns = first.x.shape[1] if first.x.ndim == 2 else 1
    holds = planned(max_memory, columns, number, likelihood.num_latents, num_particles, source.group)
    with Progress(progress) as show:
        show.update("reading all rows for the first time")
        return survey(source, sample_rows=holds.sample_rows, block_rows=holds.block_rows, check=likelihood.check)


def _points(
    key: Key,
    prior: AbstractPrior,
    likelihood: AbstractLikelihood,
    found: Survey,
    number: int | str,
    how: Any,
    progress: bool | None,
) -> Float[np.ndarray, "M D"]:
    """Inducing points: those given, or rows of the sample."""
    x = found.sample.x
    if not isinstance(how, str):
        if number != "auto":
            raise InputError("`inducing_points` were given, so `num_inducing` has no use. Leave out one of the two.")
        return np.asarray(as_inputs("inducing_points", how, x.shape[1]))
    if how not in ("greedy", "kmeans", "uniform"):
        raise InputError(
            f'`inducing_points` must be "greedy", "kmeans", "uniform", or points of shape (M, D). Got {how!r}.'
        )
    if number == "auto":
        most = affordable(found.num_rows, likelihood)
        if most is None:
            rows = found.sample
            chosen = select_inducing(prior, likelihood, x, rows.y, weights=rows.weights, progress=progress)
            if how == "greedy":
                return x[chosen.indices]
            number = chosen.num_inducing
        else:
            # Evenly spread points, which predict better than greedy ones where no number of them is enough.
            number, how = min(most, len(inducing.distinct_rows(x))), "kmeans"
    assert isinstance(number, int)
    as_count("num_inducing", number, at_most=len(x), limit_name="the number of rows of the sample")
    if how == "greedy":
        return x[inducing.greedy_variance(prior, x, number)]
    if how == "kmeans":
        return x[inducing.kmeans(key, x / column_scales(prior.kernel, x), number)]
    return x[inducing.uniform(key, x, number)]
