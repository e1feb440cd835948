"""`kosambi.infer`: from a prior, a likelihood and data to a posterior, with every part chosen or given."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
from jax.random import fold_in

from kosambi._core.checks import as_count, as_inputs, check_key, is_traced
from kosambi._core.precision import public
from kosambi._core.programs import split
from kosambi._core.progress import Clock, Interruption, Progress
from kosambi._core.types import Array, ArrayLike, Key
from kosambi.basis import AbstractBasis, InducingBasis, NystromBasis, PointBasis, RitzBasis, inducing
from kosambi.errors import InputError
from kosambi.kernels import AbstractKernel
from kosambi.learning import Selection, select_inducing
from kosambi.learning.chosen_points import beside_neighbors_of, points_among
from kosambi.learning.num_neighbors import (
    NEAR_ROWS_GAUSSIAN,
    PROCESS_FROM,
    are_replicated,
    as_neighbors,
    beside_neighbors,
    enough_neighbors,
    may_be_process,
    of_all_rows,
)
from kosambi.likelihoods import AbstractLikelihood
from kosambi.outputs.stacking import as_rows, is_matrix, without_neighbors
from kosambi.posterior import Posterior
from kosambi.posterior.carried import carried
from kosambi.posterior.doubled import scores_beside
from kosambi.priors import AbstractPrior, GaussianProcess, GaussianRandomElement
from kosambi.samplers import AbstractSampler, sample
from kosambi.samplers.run import is_for_closed_form
from kosambi.sources import AbstractRowSource
from kosambi.streaming import check_arguments, infer_source
from kosambi.target import Target
from kosambi.target.neighbors import DEFAULT, NEIGHBORS

BASES: dict[str, Any] = {
    "point": PointBasis,
    "ritz": RitzBasis,
    "nystrom": NystromBasis,
    "inducing": InducingBasis,
}
# Folded into the key of the points for functions that are carried over; far from small numbers.
_CARRIED = 2**28
METHODS = ("greedy", "kmeans", "uniform")
"""How inducing points are chosen among the inputs."""


@public
def infer(
    key: Key,
    prior: AbstractPrior | AbstractKernel,
    likelihood: AbstractLikelihood,
    x: ArrayLike | AbstractRowSource,
    y: ArrayLike | None = None,
    *,
    num_inducing: int | str | None = "auto",
    inducing_points: str | ArrayLike = "greedy",
    basis: str | type[AbstractBasis] | AbstractBasis = "auto",
    potential: str = "auto",
    num_neighbors: int | str | None = "auto",
    weights: ArrayLike | None = None,
    sampler: str | AbstractSampler = "auto",
    num_particles: int = 100,
    initial: ArrayLike | Posterior | None = None,
    background: float | None = None,
    precision: str = "float64",
    max_memory: int | str | None = None,
    progress: bool | None = None,
    on_interrupt: str = "raise",
    mesh: Any = None,
) -> Posterior:
    """The posterior over functions: prior, inducing points, basis, target, sampler, in one call.

    Arguments:
        key: a JAX random key.
        prior: a prior; a kernel stands for `GaussianProcess(kernel)`.
        likelihood: what an observation costs.
        x: (N, D), the inputs; or a source from `kosambi.sources`, whose rows need not fit into memory and which has y
            and weights. M coordinates then say everything: there are no neighbours.
        y: (N,), the observations; None for a source. (N, P) for P outputs, NaN where one was not observed: each cell
            is then a row, with the number of its output as last column, for a kernel with `Coregionalization`; with
            Gaussian noise for each output, and without neighbours. See `kosambi.outputs`.
        num_inducing: M: a number, at most N, and zero to leave everything to `num_neighbors`; "auto", or None, which is
            the same, for as many as predictions can use (see `select_inducing`; `posterior.selection` says why so
            many); "all" for every distinct row. Above 2000 rows with Gaussian noise "all" is the full process without
            coordinates, M = 0 and m = N.
        inducing_points: "greedy", "kmeans" (in units of the lengthscales), "uniform", or the points themselves, (M, D).
            What "auto" compares are greedy points; of the other kinds as many are taken.
        basis: "auto" ("point" for a `GaussianProcess`, "ritz" for a `GaussianRandomElement`), "point", "ritz",
            "nystrom", "inducing", a basis class, or a finished basis.
        potential: "auto", "projected" (the paper's), "optimal" or "neighbors"; see `Target`.
        num_neighbors: m, how many near rows inform what the coordinates leave open at an input, with
            potential="neighbors" (which a number above zero asks for), and at least N for all rows; 0 for none; "auto",
            or None, for none up to 5000 rows (8000 with Gaussian noise), where M can carry the data or all rows are
            taken, and above for as many as take some minutes at most, beside 512 evenly spread points (64 at least for
            very many rows of other likelihoods than `Gaussian`, and none where these would add less than 0.01 nats per
            observation; none on an accelerator, whose memory holds all pairs of rows), unless M, the basis or the
            potential was given, or the likelihood cannot have them.
        weights: (N,), how often each observation counts.
        sampler: "auto", a name or an object from `kosambi.samplers`; see `sample`.
        num_particles: J.
        initial: where the particles begin; see `sample`. A posterior of the same columns is a warm start: from the
            values of its functions at the inducing points, wherever a sampler needs a start.
        background: the share, between 0 and 1, of a broad background that is mixed into the measure of a
            `GaussianRandomElement`; see `GaussianRandomElement.with_background`.
        precision: "float64", "float32" or "tf32" for the steps of the sampler; see `sample`.
        max_memory: bytes, or text such as "2GB", that the process may take with a source; half of the machine's when
            None. Blocks of rows and the sample that is learned from follow it; `report.stream` says what was used.
        progress: whether to show a progress line; None shows it on a terminal.
        on_interrupt: what Ctrl-C does, "raise" or "return"; see `sample`.
        mesh: from `kosambi.parallel.mesh`, devices for the steps of the sampler; see `sample`.

    >>> import jax, numpy as np, kosambi as ko
    >>> x = np.linspace(-3.0, 3.0, 100)[:, None]
    >>> y = (np.sin(2 * x[:, 0]) > 0).astype(float)
    >>> posterior = ko.infer(jax.random.key(0), ko.kernels.Matern52(variance=4.0), ko.likelihoods.Bernoulli(), x, y)
    >>> posterior.report.converged
    True
    >>> posterior.predict([[0.8], [-0.8]]).probability.round(0)
    array([1., 0.])
    """
    if is_traced((key, prior, x, y)):
        raise InputError("`infer` compiles its own loops and cannot run inside `jit`. Call it outside.")
    key_points, key_sample = split(check_key(key), 2)
    clock = Clock()
    if not isinstance(likelihood, AbstractLikelihood):
        raise InputError(
            f"`infer` needs a likelihood from `kosambi.likelihoods` third. Got {type(likelihood).__name__}. "
            "A cost of your own is `Custom(cost)`."
        )
    if isinstance(x, AbstractRowSource):
        near = None if num_neighbors in ("auto", 0) else num_neighbors
        given = {"y": y, "weights": weights, "num_neighbors": near, "initial": initial, "mesh": mesh}
        usual = {"precision": (precision, "float64"), "on_interrupt": (on_interrupt, "raise")}
        given |= {name: None if value == default else value for name, (value, default) in usual.items()}
        check_arguments(likelihood, potential, given)
        chosen_prior = _with_background(_as_prior(prior), background)
        if isinstance(basis, AbstractBasis):
            number = inducing.as_num_inducing("num_inducing", num_inducing)
            coordinates: Any = _finished(basis, chosen_prior, number, inducing_points, background)
        else:
            coordinates = _as_basis_class(basis, chosen_prior)
        return infer_source(
            key,
            chosen_prior,
            likelihood,
            x,
            coordinates,
            num_inducing=num_inducing,
            inducing_points=inducing_points,
            potential=potential,
            sampler=sampler,
            num_particles=num_particles,
            max_memory=max_memory,
            progress=progress,
        )
    if max_memory is not None:
        raise InputError("`max_memory` is for rows of a source from `kosambi.sources`. Leave it out, or give one as x.")
    if y is None:
        raise InputError("`infer` needs observations `y` beside x. Only a source from `kosambi.sources` has its own.")
    if is_matrix(y):
        likelihood, x, y, weights = as_rows(likelihood, x, y, weights)
        num_neighbors = without_neighbors(num_neighbors, potential, len(y), NEAR_ROWS_GAUSSIAN)
    x = as_inputs("x", x)
    # Before anything is computed, so that a wrong argument is heard of at once.
    Interruption(on_interrupt)
    observations = likelihood.check(y)
    chosen_prior = _with_background(_as_prior(prior), background)
    chosen_prior.kernel.check_inputs(np.asarray(x))
    asked = as_neighbors("num_neighbors", num_neighbors)
    is_near = potential == NEIGHBORS or (isinstance(asked, int) and asked > 0)
    number = inducing.as_num_inducing("num_inducing", num_inducing, allow_none=is_near)
    selection, near = None, 0
    if isinstance(basis, AbstractBasis):
        chosen_basis = _finished(basis, chosen_prior, number, inducing_points, background)
        near = _neighbors(asked, potential, False, chosen_prior, likelihood, x)
    else:
        kind = PointBasis if number == 0 and basis == "auto" else _as_basis_class(basis, chosen_prior)
        if number == 0 and kind is not PointBasis:
            raise InputError('`num_inducing=0` needs `basis="point"`: other bases have no form without points.')
        how = _as_method(inducing_points, number, x, is_near)
        is_open = number == "auto" and isinstance(how, str)
        near = _neighbors(asked, potential, is_open and kind is PointBasis, chosen_prior, likelihood, x)
        is_left_open = asked == "auto" and (is_open or number == "all") and kind is PointBasis
        has_no_start = (initial is None or isinstance(initial, Posterior)) and is_for_closed_form(sampler)
        can_be_process = (
            is_left_open and has_no_start and may_be_process(np.asarray(x), chosen_prior, likelihood, potential)
        )
        if is_left_open and near >= len(x) > PROCESS_FROM and not can_be_process:
            near = 0
        if is_open and not near:
            selection = select_inducing(chosen_prior, likelihood, x, observations, weights=weights, progress=progress)
        is_process = can_be_process and (number == "all" or near >= len(x) or _is_full(selection))
        near = len(x) if is_process else near
    with Progress(progress) as show:
        show.update("inducing points and basis")
        if not isinstance(basis, AbstractBasis):
            if is_process:
                selection, is_open = of_all_rows(len(x), clock.seconds, selection), False
                chosen_basis = kind(chosen_prior, x[:0])
            elif is_open and near:
                own, seen = np.asarray(x), np.asarray(observations)
                rows = beside_neighbors_of(key_points, chosen_prior, likelihood, own, seen, near, has_no_start)
                chosen_basis = kind(chosen_prior, x[rows])
            else:
                chosen_basis = kind(chosen_prior, points_among(key_points, chosen_prior, x, number, how, selection))
        if near or potential == NEIGHBORS:
            show.update("neighbours")
            potential = NEIGHBORS
        count = near if potential == NEIGHBORS else None
        target = Target(chosen_basis, likelihood, x, observations, potential, weights=weights, num_neighbors=count)
        if not isinstance(basis, AbstractBasis) and is_open and target.neighborhood is not None:
            share = 1.0 - np.sum(np.square(target.neighborhood.psi)) / np.sum(chosen_prior.variance(x))
            selection = beside_neighbors(rows, near, float(share), clock.seconds)
    begin = carried(fold_in(key_points, _CARRIED), initial, target) if isinstance(initial, Posterior) else initial
    how_drawn: dict[str, Any] = {"initial": begin, "precision": precision, "progress": progress}
    how_drawn |= {"on_interrupt": on_interrupt, "mesh": mesh}
    particles, report = sample(key_sample, target, sampler, num_particles, **how_drawn)
    if selection is not None and selection.reason == NEIGHBORS:
        scores = scores_beside(target, np.asarray(particles.whitened))
        selection = dataclasses.replace(selection, neighbor_scores=scores)
    notes = () if selection is None or selection.is_enough else (str(selection),)
    notes = (*notes, *_doubts(target))
    report = dataclasses.replace(
        report,
        seconds=clock.seconds,
        compile_seconds=clock.compile_seconds,
        warnings=(*notes, *report.warnings),
    )
    posterior = Posterior(target, particles, report)
    posterior.selection = selection
    return posterior


def _as_prior(prior: object) -> AbstractPrior:
    if isinstance(prior, AbstractPrior):
        return prior
    if isinstance(prior, AbstractKernel):
        return GaussianProcess(prior)
    raise InputError(
        f"`infer` needs a prior or a kernel second. Got {type(prior).__name__}. "
        "For example `kosambi.kernels.Matern52(lengthscale=0.5)`."
    )


def _with_background(prior: AbstractPrior, background: float | None) -> AbstractPrior:
    if background is None:
        return prior
    if not isinstance(prior, GaussianRandomElement):
        raise InputError(
            f"`background` is for a `GaussianRandomElement`. A `{type(prior).__name__}` has its full variance "
            "everywhere. Leave it out."
        )
    return prior.with_background(background)


def _finished(
    basis: AbstractBasis, prior: AbstractPrior, number: int | str, inducing_points: Any, background: float | None
) -> AbstractBasis:
    if number != "auto" or not (isinstance(inducing_points, str) and inducing_points == "greedy"):
        raise InputError("A finished `basis` has its inducing points. Leave out `num_inducing` and `inducing_points`.")
    if background is not None:
        raise InputError("A finished `basis` has its prior. Leave out `background`, or pass a basis class.")
    if basis.prior is not prior:
        raise InputError("`basis` was made for another prior. Pass `basis.prior` as the prior, or a basis class.")
    return basis


def _as_basis_class(basis: Any, prior: AbstractPrior) -> Callable[[AbstractPrior, Array], AbstractBasis]:
    if isinstance(basis, str) and basis == "auto":
        return RitzBasis if isinstance(prior, GaussianRandomElement) else PointBasis
    if isinstance(basis, str) and basis in BASES:
        return BASES[basis]
    if isinstance(basis, type) and issubclass(basis, AbstractBasis):
        return basis
    names = ", ".join(f'"{name}"' for name in ("auto", *BASES))
    raise InputError(f"`basis` must be one of {names}, a basis class, or a finished basis. Got {basis!r}.")


def _as_method(how: Any, number: int | str, x: Array, allow_none: bool) -> str | Array:
    """How inducing points are chosen, or the points themselves, of which there may be none if `allow_none`."""
    if isinstance(how, str):
        if how not in METHODS:
            raise InputError(
                f'`inducing_points` must be "greedy", "kmeans", "uniform", or points of shape (M, D). Got {how!r}.'
            )
        if isinstance(number, int) and number:
            as_count("num_inducing", number, at_most=x.shape[0], limit_name="the number of rows of x")
        return how
    if number != "auto":
        raise InputError("`inducing_points` were given, so `num_inducing` has no use. Leave out one of the two.")
    return as_inputs("inducing_points", how, x.shape[1], allow_empty=allow_none)


def _neighbors(
    asked: int | str, potential: str, is_open: bool, prior: AbstractPrior, likelihood: AbstractLikelihood, x: Array
) -> int:
    """m, or zero for none; `is_open` says that nothing was given that would decide on the coordinates."""
    if potential not in ("auto", NEIGHBORS):
        if asked not in ("auto", 0):
            raise InputError(
                f'`num_neighbors={asked}` asks for potential="neighbors". Got potential={potential!r}. Leave out one '
                "of the two."
            )
        return 0
    if isinstance(asked, int):
        return asked
    enough = enough_neighbors(len(x), likelihood)
    if potential == NEIGHBORS:
        return enough or DEFAULT
    # The covariance of a random element takes a sum over its measure for each pair of neighbours.
    can = enough and is_open and isinstance(prior, GaussianProcess) and not are_replicated(np.asarray(x))
    return enough if can else 0


def _is_full(selection: Selection | None) -> bool:
    return selection is not None and selection.reason == "full"


def _doubts(target: Target) -> tuple[str, ...]:
    """What became of the neighbours, where it is not as it should be."""
    if target.neighborhood is None:
        return ()
    report = target.neighborhood.report
    is_usual = not report.num_unsettled and not report.num_clipped
    return () if is_usual else (f"Of {len(target.y)} rows with neighbours: {report}.",)
