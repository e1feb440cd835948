"""From rows to a posterior: hyperparameters, inducing points, draws."""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any

import numpy as np

from kosambi._core.checks import as_count
from kosambi._core.parameters import parameters
from kosambi._core.precision import host_generator, with_fields
from kosambi._core.programs import split
from kosambi._core.types import Key
from kosambi.basis import inducing
from kosambi.errors import HyperparameterWarning, InputError, TruncationWarning
from kosambi.estimators._models import in_units, prior_in_units
from kosambi.estimators._rows import Rows, padded
from kosambi.inference import infer
from kosambi.kernels import AbstractKernel, AbstractRadial, Matern32, Matern52, SquaredExponential, column_scales
from kosambi.learning import FitReport, fit_hyperparameters
from kosambi.learning.held_out import kept_out, last_word
from kosambi.learning.sizes import SUBSET, affordable
from kosambi.likelihoods import AbstractLikelihood, Gaussian
from kosambi.posterior import Posterior
from kosambi.priors import GaussianProcess
from kosambi.target import Target

METHODS = ("evidence", "paper", None)
FAMILIES: dict[str, type[AbstractRadial]] = {
    "matern32": Matern32,
    "matern52": Matern52,
    "squared_exponential": SquaredExponential,
    "rbf": SquaredExponential,
}
"""Kernels by name, with a lengthscale for each column."""
# Rows for each inducing point from which the last word is that of the rows themselves, and how many of them are asked.
_CHECKED_FROM, _CHECKED = 4, 2000
# Nats per observation that are no difference: inputs that say nothing leave a constant.
_NOTHING = 0.05
# The smallest step between observations, in standard deviations, above which they are rounded coarsely.
_COARSE = 0.1
# Points that explain all but this part of the prior variance at the data are enough.
_FEW_POINTS, _MUCH = 256, 1e-3


@dataclasses.dataclass(frozen=True)
class Settings:
    """What an estimator was asked for; see `ProjectedLangevinRegressor`."""

    kernel: AbstractKernel | str | None
    n_inducing: int | str | None
    n_samples: int
    hyperparameters: str | None
    sampler: Any
    potential: str
    progress: bool | None

    def check(self) -> None:
        """Refuse what no later call would name by its name here."""
        known = self.kernel is None or isinstance(self.kernel, AbstractKernel)
        if not known and not (isinstance(self.kernel, str) and self.kernel in FAMILIES):
            names = ", ".join(f'"{name}"' for name in FAMILIES)
            raise InputError(
                f"`kernel` must be a kernel from `kosambi.kernels`, one of {names}, or None for the one of these that "
                f"the evidence prefers. Got {self.kernel!r}."
            )
        if self.hyperparameters not in METHODS:
            raise InputError(f'`hyperparameters` must be "evidence", "paper" or None. Got {self.hyperparameters!r}.')
        inducing.as_num_inducing("n_inducing", self.n_inducing)
        as_count("n_samples", self.n_samples)


@dataclasses.dataclass(frozen=True)
class _Model:
    """A model of standardised observations, with the inducing points that it was learned with."""

    prior: GaussianProcess
    likelihood: AbstractLikelihood
    report: FitReport | None

    @property
    def points(self) -> np.ndarray | None:
        return None if self.report is None else self.report.inducing_points


def fitted(
    key: Key, settings: Settings, likelihood: AbstractLikelihood, rows: Rows, location: float, scale: float
) -> tuple[Posterior, FitReport | None]:
    """The posterior given `rows`, whose inputs are standardised, and how the hyperparameters were found.

    `likelihood` is that of standardised observations; (location, scale) is (0, 1) where there are no such.
    """
    key_learn, key_points, key_held, key_draw = split(key, 4)
    filled = padded(rows)
    number = inducing.as_num_inducing("n_inducing", settings.n_inducing)
    number = _at_most(number, rows) if isinstance(number, int) else number
    few = affordable(len(rows.y), likelihood) if number == "auto" else None
    is_learned = settings.hyperparameters == "evidence"
    if few is not None and not isinstance(likelihood, Gaussian):
        # So many rows are learned from with the points that then carry the draws.
        number, few = (_at_most(few, rows) if is_learned else number), None
    z = (filled.y - location) / scale
    limit = SUBSET if few is not None else None
    model = _learned(key_learn, settings, likelihood, rows, filled, z, number, limit)
    points = model.points if isinstance(number, int) else None
    if few is not None and _leaves_much(model.prior, rows):
        # Evenly spread points predict far better than greedy ones where no number of them is enough.
        scaled = rows.x / column_scales(model.prior.kernel, rows.x)
        chosen = inducing.kmeans(key_points, scaled, few)
        points = rows.x[chosen]
        if is_learned:
            held = kept_out(host_generator(key_held), np.setdiff1d(np.arange(len(rows.y)), chosen))
            model = _with_last_word(model, rows, z[: len(rows.y)], points, held)
    given = in_units(model.likelihood, location, scale)
    final = model.likelihood if given is None else given
    prior = prior_in_units(model.prior.kernel, np.asarray(model.prior.mean), final, location, scale)
    posterior = infer(
        key_draw,
        prior,
        final,
        filled.x,
        filled.y,
        weights=filled.weights,
        sampler=settings.sampler,
        potential=settings.potential,
        num_particles=settings.n_samples,
        progress=settings.progress,
        **({"num_inducing": number} if points is None else {"inducing_points": points}),
    )
    posterior = _without_padding(posterior, rows)
    if (note := worse_than_constant(posterior)) is not None:
        warnings.warn(note, HyperparameterWarning, stacklevel=6)
    return posterior, model.report


def _with_last_word(model: _Model, rows: Rows, z: np.ndarray, points: np.ndarray, held: np.ndarray) -> _Model:
    """The model with the scale and the noise that suit rows which were kept out; its report has these numbers."""
    noise = float(model.likelihood.noise)  # type: ignore[attr-defined]
    found = last_word(model.prior, noise, rows.x, z, rows.weights, points, held)
    if found.score < found.constant:
        warnings.warn(
            f"{len(held)} rows that were kept out are predicted with {found.score:.3g} nats per observation, and would "
            f"be with {found.constant:.3g} by a constant distribution. Look at the columns, and for outliers in y.",
            HyperparameterWarning,
            stacklevel=7,
        )
    prior = with_fields(model.prior, kernel=model.prior.kernel.with_factor(found.scale))
    likelihood = with_fields(model.likelihood, noise=np.asarray(found.noise))
    report = model.report
    if report is not None:
        learned = parameters(kernel=prior.kernel, mean=prior.mean, likelihood=likelihood)
        report = dataclasses.replace(report, parameters={p.name: np.asarray(p.value) for p in learned})
    return _Model(prior, likelihood, report)


def worse_than_constant(posterior: Posterior) -> str | None:
    """What to warn of where rows are predicted worse than by a constant distribution; None if they are not.

    Rows are predicted from all the others where the number of points was chosen by such predictions. With points that
    are few for their rows, some rows of the fit are; where there is a point for each, that would say little.
    """
    target, likelihood = posterior.target, posterior.likelihood
    y = np.asarray(target.y)
    is_real = in_units(likelihood, 0.0, 1.0) is not None and likelihood.num_latents == 1
    if not (is_real or likelihood.is_binary) or np.ptp(y) == 0:
        return None
    score = _left_out_score(posterior)
    if score is None:
        score = _own_score(posterior)
    share = float(np.average(y, weights=target.weights))
    spread = float(np.average(np.square(y - share), weights=target.weights))
    constant = (
        -0.5 * np.log(2.0 * np.pi * np.e * spread)
        if is_real
        else share * np.log(share) + (1.0 - share) * np.log1p(-share)
    )
    if score is None or not score < constant - _NOTHING:
        return None
    return (
        f"Rows of the data are predicted with {score:.3g} nats per observation, and would be with {constant:.3g} by a "
        f"constant distribution: the hyperparameters do not suit {target.basis.size} inducing points, or the inputs "
        "say nothing of the target. Look at the columns, or give a number, `n_inducing=1024`, with which "
        "hyperparameters are learned together, or a larger one."
    )


def _left_out_score(posterior: Posterior) -> float | None:
    """Mean log density of each row given all others, where the choice of points has measured it."""
    selection = posterior.selection
    if selection is None:
        return None
    score = selection.score[np.flatnonzero(selection.sizes == selection.num_inducing)]
    return -float(score[0]) if len(score) and np.isfinite(score[0]) else None


def _own_score(posterior: Posterior) -> float | None:
    """Mean log density of some rows of the fit that are no inducing points; None where points are not few."""
    target = posterior.target
    x, y = np.asarray(target.x), np.asarray(target.y)
    if len(y) < _CHECKED_FROM * target.basis.size:
        return None
    some = np.unique(np.linspace(0, len(y) - 1, min(len(y), _CHECKED)).round().astype(int))
    # A row that is an inducing point has no residual, which no new input is without.
    points = {point.tobytes() for point in np.ascontiguousarray(target.basis.inducing_points)}
    some = np.array([row for row in some if np.ascontiguousarray(x[row]).tobytes() not in points], dtype=int)
    return float(np.mean(posterior.log_predictive_density(x[some], y[some]))) if len(some) else None


def _leaves_much(prior: GaussianProcess, rows: Rows) -> bool:
    """Whether 256 points leave prior variance unexplained, so that more of them would predict better."""
    some = rows.x[np.unique(np.linspace(0, len(rows.y) - 1, SUBSET).round().astype(int))]
    path = inducing.greedy_path(prior, some, min(_FEW_POINTS, len(some)))
    return not path.stopped_early and bool(path.residual_trace[-1] > _MUCH * path.prior_trace)


def _is_coarse(y: np.ndarray) -> bool:
    """Whether y is rounded so coarsely, as scores from 3 to 9 are, that equal values need not be copies."""
    values = np.unique(y)
    step = float(np.min(np.diff(values), initial=np.inf))
    return len(values) <= 0.5 * len(y) and step > _COARSE * float(np.std(y))


def _at_most(asked: int, rows: Rows) -> int:
    distinct = len(np.unique(rows.x, axis=0))
    if asked > distinct:
        warnings.warn(
            f"`n_inducing={asked}` is more than there are distinct rows; {distinct} are used.",
            TruncationWarning,
            stacklevel=6,
        )
    return min(asked, distinct)


def _learned(
    key: Key,
    settings: Settings,
    likelihood: AbstractLikelihood,
    rows: Rows,
    filled: Rows,
    z: np.ndarray,
    number: int | str,
    max_rows: int | None,
) -> _Model:
    kernel = settings.kernel
    if kernel is None or isinstance(kernel, str):
        family, num_columns = FAMILIES["matern52" if kernel is None else kernel], rows.x.shape[1]
        kernel = family(lengthscale=np.full(num_columns, np.sqrt(num_columns)), variance=1.0, active_dims=None)
    # Standardised observations have mean zero, a constant added to every class changes no probability, and where f and
    # −f mean the same a mean would choose between them.
    has_mean = in_units(likelihood, 0.0, 1.0) is None and likelihood.num_latents == 1 and not likelihood.is_even
    rough = np.asarray(likelihood.raw_rough_latent(rows.y)) if has_mean else np.zeros(1)
    prior = GaussianProcess(kernel, mean=float(np.average(rough, weights=rows.weights if has_mean else None)))
    method = settings.hyperparameters
    if method is not None and (len(rows.y) < 2 or np.ptp(rows.y) == 0 or not np.any(np.ptp(rows.x, axis=0) > 0)):
        warnings.warn(
            "Neither all inputs nor all observations may be equal for hyperparameters to be learned, nor may there be "
            "one row only; they stay as they are.",
            HyperparameterWarning,
            stacklevel=6,
        )
        method = None
    if method is None:
        return _Model(prior, likelihood, None)
    if method == "paper":
        if rows.has_weights:
            raise InputError('`hyperparameters="paper"` knows no sample weights. Use "evidence".')
        found, likelihood, report = fit_hyperparameters(
            key, prior, likelihood, rows.x, z[: len(rows.y)], method, progress=settings.progress
        )
        return _Model(found, likelihood, report)
    weights = filled.weights
    if in_units(likelihood, 0.0, 1.0) is not None and not _is_coarse(rows.y):
        # Rows that occur twice with the same real number are copies. As two observations that agree to the last digit
        # they would say that there is no noise.
        weights = np.minimum(weights, 1.0)
    found, likelihood, report = fit_hyperparameters(
        key,
        prior,
        likelihood,
        filled.x,
        z,
        weights=weights,
        num_inducing=number,
        max_rows=max_rows,
        choose_family=settings.kernel is None,
        freeze=() if has_mean else ("mean",),
        progress=settings.progress,
    )
    return _Model(found, likelihood, report)


def _without_padding(posterior: Posterior, rows: Rows) -> Posterior:
    """The same draws with the data as they are."""
    old = posterior.target
    target = Target(
        old.basis, old.likelihood, rows.x, rows.y, old.kind, weights=rows.weights if rows.has_weights else None
    )
    stripped = Posterior(target, posterior.particles, posterior.report)
    stripped.selection = posterior.selection
    return stripped
