"""`kosambi.average`: the posterior averaged over draws of the hyperparameters."""

from __future__ import annotations

import inspect
import itertools
from typing import Any

import numpy as np

from kosambi._core.checks import as_count, check_key
from kosambi._core.programs import split
from kosambi._core.progress import Progress
from kosambi._core.threads import in_threads
from kosambi._core.types import ArrayLike, Key
from kosambi.basis import AbstractBasis
from kosambi.errors import InputError
from kosambi.inference import infer
from kosambi.learning import HyperparameterDraws
from kosambi.likelihoods import AbstractLikelihood, Gaussian
from kosambi.posterior import AveragedPosterior, Posterior
from kosambi.priors import AbstractPrior, GaussianProcess
from kosambi.samplers.run import is_for_closed_form

ALL_ROWS = 8000
"""Rows up to which every model with Gaussian noise has all of them, as `num_inducing="auto"` does."""
_OWN = ("key", "prior", "likelihood", "x", "y", "num_particles", "progress", "initial", "on_interrupt")


def average(
    key: Key,
    draws: HyperparameterDraws,
    x: ArrayLike,
    y: ArrayLike,
    *,
    num_particles: int = 100,
    point: Posterior | None = None,
    progress: bool | None = None,
    **options: Any,
) -> AveragedPosterior:
    """The posterior over functions, averaged over hyperparameters: K models, with equal weights.

    Each draw of the hyperparameters has a posterior of its own (`infer`) and a share of the particles. With Gaussian
    noise all rows are taken; otherwise, and where a number of points was asked for, the inducing points of the most
    probable hyperparameters are those of all models. A single best kernel makes intervals too narrow where data are
    few; this does not.

    Arguments:
        key: a JAX random key.
        draws: hyperparameters, `report.draws` of `fit_hyperparameters(..., num_draws=K)`.
        x: (N, D), the inputs.
        y: (N,), the observations.
        num_particles: J, of all models together; rounded up to a multiple of K.
        point: the posterior of `draws.point`, if it is known already.
        progress: whether to show a progress line; None shows it on a terminal.
        **options: other arguments of `infer`, such as `weights` or `sampler`, the same for all models.

    >>> import jax, numpy as np, kosambi as ko
    >>> x = np.linspace(0.0, 10.0, 20)[:, None]
    >>> y = np.sin(x[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=20)
    >>> gaussian = ko.likelihoods.Gaussian()
    >>> report = ko.fit_hyperparameters(jax.random.key(0), ko.kernels.Matern52(), gaussian, x, y, num_draws=10)[2]
    >>> posterior = ko.average(jax.random.key(1), report.draws, x, y)
    >>> len(posterior.components), posterior.functions(jax.random.key(2))(x).shape
    (10, (100, 20))
    >>> bool(posterior.predict([[12.0]]).variance > posterior.point.predict([[12.0]]).variance)
    True
    """
    if not isinstance(draws, HyperparameterDraws):
        raise InputError(
            f"`average` needs draws of hyperparameters second. Got {type(draws).__name__}. Use "
            "`fit_hyperparameters(..., num_draws=20)[2].draws`."
        )
    known = [name for name in inspect.signature(infer).parameters if name not in _OWN]
    if unknown := [name for name in options if name not in known]:
        raise InputError(f"`average` knows no argument `{unknown[0]}`. It takes those of `infer`: {', '.join(known)}.")
    if isinstance(options.get("basis"), AbstractBasis):
        raise InputError("A finished `basis` has one prior, an average several. Pass a basis class or its name.")
    number, total = len(draws), as_count("num_particles", num_particles)
    key_point, *keys = split(check_key(key), number + 1)
    if point is None:
        point = infer(key_point, *draws.point, x, y, num_particles=total, progress=progress, **options)
    is_closed = isinstance(draws.point[1], Gaussian) and is_for_closed_form(options.get("sampler", "auto"))
    given = options | _coordinates(point, draws.point[0], options, is_closed)
    share = -(-total // number)
    # In closed form particles are cheap. Chains need as many as the run of the point estimate had, whose programs are
    # there; some of them are kept.
    models = list(zip(draws.priors, draws.likelihoods, keys, strict=True))
    size = share if is_closed else max(share, point.num_particles)
    kept = np.linspace(0, size - 1, share).round().astype(int)
    with Progress(progress) as show:
        show.update("models with drawn hyperparameters", 0, number)
        done = itertools.count(1)

        def one(model: tuple[AbstractPrior, AbstractLikelihood, Key]) -> Posterior:
            found = infer(model[2], model[0], model[1], x, y, num_particles=size, progress=False, **given)
            show.update("models with drawn hyperparameters", next(done), number)
            return found if size == share else found.some(kept)

        # Programs that add over the devices of a mesh wait for each other, so that only one may run.
        components = in_threads(one, models) if options.get("mesh") is None else [one(model) for model in models]
    return AveragedPosterior(point, tuple(components), draws)


def _coordinates(point: Posterior, prior: AbstractPrior, options: dict[str, Any], is_closed: bool) -> dict[str, Any]:
    """Arguments of `infer` for the coordinates of every model: all rows where that is cheap, or those of `point`.

    Points that are enough for the most probable lengthscales may be too few for a shorter one. Without coordinates a
    model with Gaussian noise is exact, takes a seventh of the time, and holds O(N) numbers.
    """
    num_rows = len(point.target.y)
    asked = [options.get(name, "auto") for name in ("num_inducing", "num_neighbors", "potential", "basis")]
    is_open = (
        all(isinstance(each, str) and each in ("auto", "all") for each in asked) and "inducing_points" not in options
    )
    # One matrix of all pairs of rows is for one device.
    is_alone = options.get("mesh") is None
    if is_closed and is_open and is_alone and isinstance(prior, GaussianProcess) and num_rows <= ALL_ROWS:
        return {"num_inducing": 0, "num_neighbors": num_rows}
    found: dict[str, Any] = {"num_inducing": "auto", "inducing_points": point.basis.inducing_points}
    if point.target.neighborhood is not None:
        found["num_neighbors"] = point.target.neighborhood.num_neighbors
    return found
