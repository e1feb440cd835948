"""`kosambi.infer`: from a prior, a likelihood and data to a posterior, with every part chosen or given."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from jax.random import fold_in

from kosambi._core.checks import as_inputs, check_key, is_traced
from kosambi._core.long_tables import frozen
from kosambi._core.meshes import check_mesh
from kosambi._core.precision import public
from kosambi._core.process_memory import give_back
from kosambi._core.programs import split
from kosambi._core.progress import Clock, Interruption, Progress
from kosambi._core.room import USUAL, Room
from kosambi._core.types import ArrayLike, Key
from kosambi.basis import AbstractBasis, PointBasis, inducing
from kosambi.choices import as_basis_class, as_method, as_prior, finished, num_neighbors_of, with_background
from kosambi.errors import InputError
from kosambi.kernels import AbstractKernel
from kosambi.learning import Selection, select_inducing
from kosambi.learning.chosen_points import beside_neighbors_of, points_among
from kosambi.learning.memory import Memory, Size
from kosambi.learning.num_neighbors import (
    NEAR_ROWS_GAUSSIAN,
    PROCESS_FROM,
    as_neighbors,
    beside_neighbors,
    may_be_process,
    of_all_rows,
)
from kosambi.likelihoods import AbstractLikelihood
from kosambi.outputs.stacking import as_rows, is_matrix, without_neighbors
from kosambi.posterior import Posterior
from kosambi.posterior.carried import carried
from kosambi.posterior.doubled import scores_beside
from kosambi.priors import AbstractPrior
from kosambi.samplers import AbstractSampler, sample
from kosambi.samplers.run import is_for_closed_form
from kosambi.sources import AbstractRowSource
from kosambi.streaming import within
from kosambi.target import Target
from kosambi.target.neighbors import NEIGHBORS

# Folded into the key of the points for functions that are carried over; far from small numbers.
_CARRIED = 2**28


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
        x: (N, D), the inputs; or a source from `kosambi.sources`, which has y and weights. Its rows are held in memory
            and treated as arrays are if they fit, with all that neighbours need, and M, the basis and the potential
            were left open, or neighbours asked for. Otherwise they are read in blocks and M coordinates say everything.
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
        max_memory: bytes, or text such as "2GB", that the process may take; with a source half of the machine's when
            None, and for arrays no limit. Blocks of rows and how many points there are beside neighbours follow it, and
            whether rows are held; `report.stream` says what was used.
        progress: whether to show a progress line; None shows it on a terminal.
        on_interrupt: what Ctrl-C does, "raise" or "return"; see `sample`.
        mesh: from `kosambi.parallel.mesh`, devices that share rows (their features, near rows, least squares, sums of
            costs) and particles; see `Target` and `sample`. The choice of M is made on one device. All rows as
            neighbours of each other are refused, and "auto" takes coordinates instead.

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
    if not isinstance(likelihood, AbstractLikelihood):
        raise InputError(
            f"`infer` needs a likelihood from `kosambi.likelihoods` third. Got {type(likelihood).__name__}. "
            "A cost of your own is `Custom(cost)`."
        )
    is_source = isinstance(x, AbstractRowSource)
    if y is None and not is_source:
        raise InputError("`infer` needs observations `y` beside x. Only a source from `kosambi.sources` has its own.")
    arguments: dict[str, Any] = {
        "num_inducing": num_inducing,
        "inducing_points": inducing_points,
        "basis": basis,
        "potential": potential,
        "num_neighbors": num_neighbors,
        "weights": weights,
        "sampler": sampler,
        "num_particles": num_particles,
        "initial": initial,
        "background": background,
        "precision": precision,
        "progress": progress,
        "on_interrupt": on_interrupt,
        "mesh": mesh,
    }
    if is_source or max_memory is not None:
        return within(walked, max_memory, key, prior, likelihood, x, y, arguments)
    return walked(key, prior, likelihood, x, y, **arguments)


@public
def walked(
    key: Key,
    prior: AbstractPrior | AbstractKernel,
    likelihood: AbstractLikelihood,
    x: ArrayLike,
    y: ArrayLike,
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
    progress: bool | None = None,
    on_interrupt: str = "raise",
    mesh: Any = None,
    memory: Memory | None = None,
) -> Posterior:
    """`infer` for rows in memory; `memory` is what its arrays may take, if that is limited."""
    key_points, key_sample = split(check_key(key), 2)
    clock = Clock()
    if is_matrix(y):
        likelihood, x, y, weights = as_rows(likelihood, x, y, weights)
        num_neighbors = without_neighbors(num_neighbors, potential, len(y), NEAR_ROWS_GAUSSIAN)
    x = frozen(as_inputs("x", x))
    # Before anything is computed, so that a wrong argument is heard of at once.
    Interruption(on_interrupt)
    if mesh is not None:
        check_mesh(mesh)
    observations = likelihood.check(y)
    chosen_prior = with_background(as_prior(prior), background)
    chosen_prior.kernel.check_inputs(np.asarray(x))
    asked = as_neighbors("num_neighbors", num_neighbors)
    is_near = potential == NEIGHBORS or (isinstance(asked, int) and asked > 0)
    number = inducing.as_num_inducing("num_inducing", num_inducing, allow_none=is_near)
    selection, near = None, 0
    if isinstance(basis, AbstractBasis):
        chosen_basis = finished(basis, chosen_prior, number, inducing_points, background)
        near = num_neighbors_of(asked, potential, False, chosen_prior, likelihood, x)
    else:
        kind = PointBasis if number == 0 and basis == "auto" else as_basis_class(basis, chosen_prior)
        if number == 0 and kind is not PointBasis:
            raise InputError('`num_inducing=0` needs `basis="point"`: other bases have no form without points.')
        how = as_method(inducing_points, number, x, is_near)
        is_open = number == "auto" and isinstance(how, str)
        near = num_neighbors_of(asked, potential, is_open and kind is PointBasis, chosen_prior, likelihood, x)
        is_left_open = asked == "auto" and (is_open or number == "all") and kind is PointBasis
        has_no_start = (initial is None or isinstance(initial, Posterior)) and is_for_closed_form(sampler)
        # One matrix of all pairs of rows is for one device.
        can_be_process = is_left_open and has_no_start and mesh is None
        can_be_process = can_be_process and may_be_process(np.asarray(x), chosen_prior, likelihood, potential)
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
                given = chosen_prior, likelihood, np.asarray(x), np.asarray(observations)
                rows = beside_neighbors_of(key_points, *given, near, has_no_start, memory)
                chosen_basis = kind(chosen_prior, x[rows])
            else:
                chosen_basis = kind(chosen_prior, points_among(key_points, chosen_prior, x, number, how, selection))
        if near or potential == NEIGHBORS:
            show.update("neighbours")
            potential = NEIGHBORS
        options: dict[str, Any] = {"weights": weights, "mesh": mesh}
        if potential == NEIGHBORS:
            options |= {"num_neighbors": near, "room": _room(memory, x.shape, near, chosen_basis, likelihood)}
        target = Target(chosen_basis, likelihood, x, observations, potential, **options)
        if not isinstance(basis, AbstractBasis) and is_open and target.neighborhood is not None:
            share = 1.0 - target.neighborhood.explained / float(np.sum(chosen_prior.variance(x)))
            selection = beside_neighbors(rows, near, share, clock.seconds)
    if memory is not None:
        give_back()
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


def _room(
    memory: Memory | None,
    shape: tuple[int, ...],
    num_neighbors: int,
    basis: AbstractBasis,
    likelihood: AbstractLikelihood,
) -> Room:
    """What the arrays of neighbours may take of it; the usual where that is not limited."""
    return USUAL if memory is None else memory.room(Size.of(shape, num_neighbors, basis.size, likelihood))


def _is_full(selection: Selection | None) -> bool:
    return selection is not None and selection.reason == "full"


def _doubts(target: Target) -> tuple[str, ...]:
    """What became of the neighbours, where it is not as it should be."""
    if target.neighborhood is None:
        return ()
    report = target.neighborhood.report
    is_usual = not report.num_unsettled and not report.num_clipped
    return () if is_usual else (f"Of {len(target.y)} rows with neighbours: {report}.",)
