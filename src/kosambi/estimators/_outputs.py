r"""Several outputs in an estimator: a linear model of coregionalisation of y (N, P), learned.

With up to four outputs, as many latent functions as there are outputs, each with a kernel of its own,

    f_p(x) = Σ_q L_pq g_q(x),   g_q ~ GP(0, k_q),

where the search has the outputs as they are fitted each for itself, L = diag, among its starts. With more of them, or
with a kernel that was given, one kernel for all, times LLᵀ + diag(κ), with the two strongest directions of the
correlations between outputs as a start for L.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from kosambi._core.precision import with_fields
from kosambi._core.programs import split
from kosambi._core.types import Key
from kosambi.errors import HyperparameterWarning, InputError
from kosambi.estimators._learn import FAMILIES, Settings, is_coarse
from kosambi.estimators._rows import Rows, location_and_scale, merged, padded
from kosambi.inference import infer
from kosambi.kernels import (
    AbstractCombination,
    AbstractKernel,
    Constant,
    Coregionalization,
    Matern52,
    coregionalizations,
)
from kosambi.learning import FitReport, fit_hyperparameters
from kosambi.learning.num_neighbors import NEAR_ROWS_GAUSSIAN
from kosambi.likelihoods import AbstractLikelihood, Gaussian
from kosambi.outputs import stack
from kosambi.outputs.stacking import without_neighbors
from kosambi.posterior import Posterior
from kosambi.priors import GaussianProcess

MOST_KERNELS = 4
"""Outputs up to which each latent function has a kernel of its own."""
DIRECTIONS = 2
"""Shared functions where all have one kernel."""
# Of the variance of a standardised output, what it has for itself to begin with, and its noise.
_OWN, _NOISE = 0.1, 0.3


class Units(NamedTuple):
    """In which outputs are standardised, so that none is small beside the others."""

    mean: Float[np.ndarray, " P"]
    scale: Float[np.ndarray, " P"]


def fitted_outputs(
    key: Key,
    settings: Settings,
    likelihood: AbstractLikelihood | str,
    x: Float[np.ndarray, "N D"],
    y: Float[np.ndarray, "N P"],
    weights: Float[np.ndarray, " N"],
) -> tuple[Posterior, FitReport | None, Units]:
    """The posterior of standardised outputs, how the hyperparameters were found, and the units; x is standardised."""
    check_settings(settings, likelihood)
    key_learn, key_draw = split(key, 2)
    units, number = _units(y, weights), y.shape[1]
    cells = stack(x, y)
    rows = merged(cells.x, (cells.y - units.mean[cells.output]) / units.scale[cells.output], weights[cells.row])
    noise = np.full(number, _NOISE)
    if isinstance(likelihood, Gaussian):
        noise = np.broadcast_to(np.asarray(likelihood.noise), (number,)) / units.scale
    kernel, freeze, noise = _begun(key_learn, settings, rows, number, noise)
    prior, report = GaussianProcess(kernel), None
    if settings.is_learned:
        prior, found, report = _learned(key_learn, settings, prior, noise, rows, ("mean", *freeze))
        noise = np.asarray(found.noise)
    posterior = infer(
        key_draw,
        prior,
        Gaussian(noise, groups=_outputs_of(rows.x)),
        rows.x,
        rows.y,
        weights=rows.weights if rows.has_weights else None,
        num_inducing=settings.num_points,
        num_neighbors=without_neighbors(settings.n_neighbors, settings.potential, len(rows.y), NEAR_ROWS_GAUSSIAN),
        potential=settings.potential,
        sampler=settings.sampler,
        num_particles=settings.n_samples,
        progress=settings.progress,
        mesh=settings.mesh,
    )
    return posterior, report, units


def check_settings(settings: Settings, likelihood: AbstractLikelihood | str) -> None:
    """Refuse what is for one output only."""
    if likelihood != "gaussian" and not isinstance(likelihood, Gaussian):
        raise InputError(
            f'Several outputs need `likelihood="gaussian"`. Got {likelihood!r}, whose parameters would be the same for '
            "outputs of different units. Fit one model for each column of y (scikit-learn's `MultiOutputRegressor`) or "
            "use `kosambi.infer` with y of shape (N, P)."
        )
    if settings.hyperparameters in ("average", "paper"):
        raise InputError(
            f'`hyperparameters="{settings.hyperparameters}"` is for one output. For several use "auto" or "evidence", '
            "the most probable ones, or None to keep those that are given."
        )


def _units(y: Float[np.ndarray, "N P"], weights: Float[np.ndarray, " N"]) -> Units:
    seen = ~np.isnan(y) & (weights > 0)[:, None]
    if not seen.any(axis=0).all():
        column = int(np.argmin(seen.any(axis=0)))
        raise InputError(f"`y` has no observation of output {column}. Leave this column out.")
    found = [location_and_scale(y[own, p], weights[own]) for p, own in enumerate(seen.T)]
    return Units(*(np.array([float(part) for part in parts]) for parts in zip(*found, strict=True)))


def _outputs_of(x: Float[np.ndarray, "C D1"]) -> np.ndarray:
    return x[:, -1].astype(np.int64)


def _learned(
    key: Key, settings: Settings, prior: GaussianProcess, noise: np.ndarray, rows: Rows, freeze: tuple[str, ...]
) -> tuple[GaussianProcess, Any, FitReport]:
    filled = padded(rows)
    weights = filled.weights if is_coarse(rows.y) else np.minimum(filled.weights, 1.0)
    likelihood = Gaussian(noise, groups=_outputs_of(filled.x))
    options: dict[str, Any] = {"weights": weights, "freeze": freeze, "progress": settings.progress}
    return fit_hyperparameters(key, prior, likelihood, filled.x, filled.y, **options)


def _begun(
    key: Key, settings: Settings, rows: Rows, number: int, noise: np.ndarray
) -> tuple[AbstractKernel, tuple[str, ...], np.ndarray]:
    """A kernel of standardised inputs and outputs to begin with, names that stay as they are, and noise."""
    columns, given = rows.x.shape[1] - 1, settings.kernel
    if isinstance(given, AbstractKernel) and coregionalizations(given):
        found = {part.num_outputs for part in coregionalizations(given)}
        if found != {number}:
            raise InputError(f"`kernel` is for {sorted(found)[0]} outputs, and y has {number}. Give others.")
        given.check_columns(columns + 1)
        return given, (), noise
    if given is None or isinstance(given, str):
        if settings.is_learned and number <= MOST_KERNELS:
            return _each_alone(key, settings, rows, number, noise)
        family: Any = Matern52 if given is None else FAMILIES[given]
        given = family(np.full(columns, np.sqrt(columns)), active_dims=range(columns))
        # B has the variances.
        frozen: tuple[str, ...] = ("kernel.1.variance",)
    else:
        given, frozen = _of_inputs(given, columns), ()
    values, vectors = np.linalg.eigh(_correlations(rows, number))
    kept = slice(number - min(number, DIRECTIONS), number)
    loadings = vectors[:, kept] * np.sqrt(np.maximum(values[kept], _OWN))
    return Coregionalization(loadings, np.full(number, _OWN)) * given, frozen, noise


def _each_alone(
    key: Key, settings: Settings, rows: Rows, number: int, noise: np.ndarray
) -> tuple[AbstractKernel, tuple[str, ...], np.ndarray]:
    """A latent function for each output, as if it were alone."""
    columns, outputs, noise = rows.x.shape[1] - 1, _outputs_of(rows.x), np.array(noise)
    terms: list[AbstractKernel] = []
    for p, own_key in enumerate(split(key, number)):
        own = outputs == p
        mine = Rows(np.ascontiguousarray(rows.x[own, :-1]), rows.y[own], rows.weights[own])
        family: Any = Matern52 if settings.kernel is None else FAMILIES[str(settings.kernel)]
        kernel: Any = family(np.full(columns, np.sqrt(columns)))
        if own.sum() > 1 and np.ptp(mine.y) > 0 and np.any(np.ptp(mine.x, axis=0) > 0):
            filled = padded(mine)
            with warnings.catch_warnings():
                # What is said of one output alone is of a model that nobody gets.
                warnings.simplefilter("ignore", HyperparameterWarning)
                kernel, likelihood, _ = fit_hyperparameters(
                    own_key,
                    kernel,
                    Gaussian(noise[p]),
                    filled.x,
                    filled.y,
                    weights=filled.weights if is_coarse(mine.y) else np.minimum(filled.weights, 1.0),
                    choose_family=settings.kernel is None,
                    progress=settings.progress,
                )
            noise[p] = float(np.asarray(likelihood.noise))  # type: ignore[attr-defined]
        loadings = np.zeros((number, 1))
        loadings[p] = np.sqrt(float(kernel.variance))
        terms.append(Coregionalization(loadings) * type(kernel)(kernel.lengthscale, 1.0, active_dims=range(columns)))
    return sum(terms[1:], terms[0]), ("kernel.*.1.variance",), noise


def _correlations(rows: Rows, number: int) -> Float[np.ndarray, "P P"]:
    """Between outputs at the same inputs, as far as both were observed there; none otherwise."""
    distinct, where = np.unique(rows.x[:, :-1], axis=0, return_inverse=True)
    table, outputs = np.full((len(distinct), number), np.nan), _outputs_of(rows.x)
    table[where.ravel(), outputs] = rows.y
    found = np.eye(number)
    for p in range(number):
        for q in range(p):
            both = ~np.isnan(table[:, p]) & ~np.isnan(table[:, q])
            if both.sum() > 2 and np.std(table[both, p]) > 0 and np.std(table[both, q]) > 0:
                found[p, q] = found[q, p] = float(np.corrcoef(table[both, p], table[both, q])[0, 1])
    return found


def _of_inputs(kernel: AbstractKernel, columns: int) -> AbstractKernel:
    """The kernel, looking at the inputs and not at the number of the output."""
    if isinstance(kernel, AbstractCombination):
        return with_fields(kernel, kernels=tuple(_of_inputs(part, columns) for part in kernel.kernels))
    if isinstance(kernel, Constant):
        return kernel
    if not hasattr(kernel, "active_dims"):
        raise InputError(
            f"`kernel` {type(kernel).__name__} has no `active_dims`, so it would look at the number of the output. "
            "Multiply it by a `kosambi.kernels.Coregionalization`, and let it look at the other columns alone."
        )
    return kernel.set_params(active_dims=list(range(columns))) if kernel.active_dims is None else kernel
