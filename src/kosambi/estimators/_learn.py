"""Hyperparameters of an estimator's model: what it was asked for, what is learned, and the last word on it."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from kosambi._core.checks import as_count
from kosambi._core.parameters import parameters
from kosambi._core.precision import with_fields
from kosambi._core.types import Key
from kosambi.basis import inducing
from kosambi.errors import HyperparameterWarning, InputError
from kosambi.estimators._models import in_units
from kosambi.estimators._rows import Rows
from kosambi.kernels import AbstractKernel, AbstractRadial, Matern32, Matern52, SquaredExponential
from kosambi.learning import FitReport, fit_hyperparameters
from kosambi.learning.held_out import LastWord
from kosambi.learning.num_neighbors import as_neighbors
from kosambi.learning.sizes import SUBSET
from kosambi.likelihoods import AbstractLikelihood, Gaussian
from kosambi.posterior import Posterior
from kosambi.priors import GaussianProcess
from kosambi.target.neighbors import NEIGHBORS

METHODS = ("auto", "evidence", "average", "paper", None)
FAMILIES: dict[str, type[AbstractRadial]] = {
    "matern32": Matern32,
    "matern52": Matern52,
    "squared_exponential": SquaredExponential,
    "rbf": SquaredExponential,
}
"""Kernels by name, with a lengthscale for each column."""
AVERAGED_ROWS, AVERAGED_STEPPED = 1000, 200
"""Rows, times latent functions, up to which "auto" averages over hyperparameters: with Gaussian noise, and where draws
need steps. With more rows the data leave little open, least of all labels, and an evaluation takes long."""
CLOSED_DRAWS, STEPPED_DRAWS, FEW_ROWS, FEW_ROWS_DRAWS = 20, 10, 300, 50
"""Draws of hyperparameters that are averaged over, likewise; and of so few rows with Gaussian noise, which leave much
open and whose models take next to no time, so many."""
# The smallest step between observations, in standard deviations, above which they are rounded coarsely.
_COARSE = 0.1
# Points that explain all but this part of the prior variance at the data are enough.
_FEW_POINTS, _MUCH, _OF_THE_NOISE = 256, 1e-3, 0.05


@dataclasses.dataclass(frozen=True)
class Settings:
    """What an estimator was asked for; see `ProjectedLangevinRegressor`."""

    kernel: AbstractKernel | str | None
    n_inducing: int | str | None
    n_neighbors: int | str | None
    n_samples: int
    hyperparameters: str | None
    sampler: Any
    potential: str
    progress: bool | None
    mean: float | None = None
    """Where the search for the prior mean begins; from the observations when None."""
    initial: Posterior | None = None
    """The last fit, where this one begins."""
    freeze: tuple[str, ...] = ()
    tie: tuple[str | tuple[str, ...], ...] = ()
    priors: Mapping[str, Any] | None = None
    """Of hyperparameters, as `fit_hyperparameters` has them."""
    mesh: Any = None
    """Devices that share rows and particles of the posterior."""
    is_centred: bool = True
    """Whether real observations are standardised, so that a prior mean of zero is theirs."""

    @property
    def is_restricted(self) -> bool:
        """Whether something was said of hyperparameters that a search must keep to."""
        return bool(self.freeze or self.tie or self.priors)

    @property
    def asks_for_neighbors(self) -> bool:
        """Whether near data were asked for, and not left open."""
        return self.potential == NEIGHBORS or as_neighbors("n_neighbors", self.n_neighbors) not in ("auto", 0)

    @property
    def num_points(self) -> int | str:
        """M as it was asked for, checked; none at all only where neighbours are to say everything."""
        return inducing.as_num_inducing("n_inducing", self.n_inducing, allow_none=self.asks_for_neighbors)

    @property
    def is_learned(self) -> bool:
        """Whether hyperparameters are learned by the evidence, averaged over or not."""
        return self.hyperparameters in ("auto", "evidence", "average")

    def num_draws(self, likelihood: AbstractLikelihood, num_rows: int, has_neighbors: bool) -> int:
        """How many draws of the hyperparameters to average over; none where the best ones are enough."""
        is_gaussian = isinstance(likelihood, Gaussian)
        values = num_rows * likelihood.num_latents
        is_small = values <= (AVERAGED_ROWS if is_gaussian else AVERAGED_STEPPED) and not has_neighbors
        is_wanted = self.hyperparameters == "average" or (self.hyperparameters == "auto" and is_small)
        if not is_wanted:
            return 0
        if not is_gaussian:
            return STEPPED_DRAWS
        # Every model has as many functions as the others, and all together as many as were asked for.
        has_many = values <= FEW_ROWS and self.n_samples % FEW_ROWS_DRAWS == 0
        return FEW_ROWS_DRAWS if has_many else CLOSED_DRAWS

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
            raise InputError(
                '`hyperparameters` must be "auto", "evidence", "average", "paper" or None. '
                f"Got {self.hyperparameters!r}."
            )
        if self.is_restricted and self.hyperparameters is None:
            raise InputError(
                "`freeze`, `tie` and `priors` are for hyperparameters that are learned, and `hyperparameters=None` "
                'keeps all of them. Leave them out, or ask for "evidence".'
            )
        _ = self.num_points
        as_count("n_samples", self.n_samples)


@dataclasses.dataclass(frozen=True)
class Model:
    """A model of standardised observations, with the inducing points that it was learned with."""

    prior: GaussianProcess
    likelihood: AbstractLikelihood
    report: FitReport | None

    @property
    def points(self) -> np.ndarray | None:
        """Those inducing points."""
        return None if self.report is None else self.report.inducing_points


def learned(
    key: Key,
    settings: Settings,
    likelihood: AbstractLikelihood,
    rows: Rows,
    filled: Rows,
    z: np.ndarray,
    number: int | str,
    max_rows: int | None,
    num_draws: int = 0,
) -> Model:
    """The model with hyperparameters that were learned from `rows`, or as it was given.

    `filled` are the rows with copies of weight zero, `z` their standardised observations; `number` and `max_rows` are
    those of `fit_hyperparameters`, and so is `num_draws`.
    """
    kernel = kernel_of(settings, rows.x.shape[1])
    # Standardised observations have mean zero, a constant added to every class changes no probability, and where f and
    # −f mean the same a mean would choose between them.
    is_real = in_units(likelihood, 0.0, 1.0) is not None
    has_mean = not (is_real and settings.is_centred) and likelihood.num_latents == 1 and not likelihood.is_even
    if is_real and (settings.hyperparameters is None or "mean" in settings.freeze):
        # Real observations that are taken as they are have the prior that was given, and that has mean zero.
        has_mean = False
    rough = np.asarray(likelihood.raw_rough_latent(rows.y)) if has_mean else np.zeros(1)
    mean = float(np.average(rough, weights=rows.weights if has_mean else None))
    prior = GaussianProcess(kernel, mean=settings.mean if has_mean and settings.mean is not None else mean)
    method = "evidence" if settings.is_learned else settings.hyperparameters
    if method is not None and (len(rows.y) < 2 or np.ptp(rows.y) == 0 or not np.any(np.ptp(rows.x, axis=0) > 0)):
        warnings.warn(
            "Neither all inputs nor all observations may be equal for hyperparameters to be learned, nor may there be "
            "one row only; they stay as they are.",
            HyperparameterWarning,
            stacklevel=6,
        )
        method = None
    if method is None:
        return Model(prior, likelihood, None)
    if method == "paper":
        if rows.has_weights:
            raise InputError('`hyperparameters="paper"` knows no sample weights. Use "evidence".')
        found, likelihood, report = fit_hyperparameters(
            key,
            prior,
            likelihood,
            rows.x,
            z[: len(rows.y)],
            method,
            freeze=settings.freeze,
            tie=settings.tie,
            priors=settings.priors,
            progress=settings.progress,
        )
        return Model(found, likelihood, report)
    # Of very many rows, which are not filled up, ones would be one more copy of everything they are compared with.
    weights = None if filled is rows and not rows.has_weights else filled.weights
    if weights is not None and in_units(likelihood, 0.0, 1.0) is not None and not is_coarse(rows.y):
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
        freeze=settings.freeze if has_mean else (*settings.freeze, "mean"),
        tie=settings.tie,
        priors=settings.priors,
        num_draws=num_draws,
        progress=settings.progress,
    )
    return Model(found, likelihood, report)


def kernel_of(settings: Settings, num_columns: int) -> AbstractKernel:
    """The kernel that a search begins with: the one that was given, or one with a lengthscale for each column."""
    kernel = settings.kernel
    if isinstance(kernel, AbstractKernel):
        return kernel
    family = FAMILIES["matern52" if kernel is None else kernel]
    return family(lengthscale=np.full(num_columns, np.sqrt(num_columns)), variance=1.0, active_dims=None)


def with_last_word(model: Model, found: LastWord, num_held: int) -> Model:
    """The model with the scale and the noise that suit rows which were kept out; its report has these numbers."""
    if found.score < found.constant:
        warnings.warn(
            f"{num_held} rows that were kept out are predicted with {found.score:.3g} nats per observation, and would "
            f"be with {found.constant:.3g} by a constant distribution. Look at the columns, and for outliers in y.",
            HyperparameterWarning,
            stacklevel=7,
        )
    prior = with_fields(model.prior, kernel=model.prior.kernel.with_factor(found.scale))
    likelihood = with_fields(model.likelihood, **found.noise)
    report = model.report
    if report is not None:
        learned = parameters(kernel=prior.kernel, mean=prior.mean, likelihood=likelihood)
        report = dataclasses.replace(report, parameters={p.name: np.asarray(p.value) for p in learned})
    return Model(prior, likelihood, report)


def leaves_much(prior: GaussianProcess, likelihood: AbstractLikelihood, rows: Rows) -> bool:
    """Whether 256 points leave prior variance unexplained, so that more of them would predict better.

    A part of the prior variance counts, and with Gaussian noise a part of the noise: where that is small, less matters.
    """
    some = rows.x[np.unique(np.linspace(0, len(rows.y) - 1, SUBSET).round().astype(int))]
    path = inducing.greedy_path(prior, some, min(_FEW_POINTS, len(some)))
    little = _MUCH * path.prior_trace
    if isinstance(likelihood, Gaussian):
        little = min(little, _OF_THE_NOISE * len(some) * float(np.mean(np.square(likelihood.noise))))
    return not path.stopped_early and bool(path.residual_trace[-1] > little)


def is_coarse(y: np.ndarray) -> bool:
    """Whether y is rounded so coarsely, as scores from 3 to 9 are, that equal values need not be copies."""
    values = np.unique(y)
    step = float(np.min(np.diff(values), initial=np.inf))
    return len(values) <= 0.5 * len(y) and step > _COARSE * float(np.std(y))
