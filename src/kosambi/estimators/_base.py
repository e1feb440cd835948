"""What both estimators share: checks in scikit-learn's manner, the fit, and predictions in the user's units."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jaxtyping import Bool, Float, Int
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from kosambi._core.checks import as_count
from kosambi._core.parameters import nested_params, with_params
from kosambi._core.precision import host_generator
from kosambi._core.processes import check_process
from kosambi._core.types import Array, Key
from kosambi.errors import DataWarning, InputError
from kosambi.estimators._inputs import is_near, standardised, validated
from kosambi.estimators._learn import Settings
from kosambi.estimators._more import check_warm_start, with_rows
from kosambi.estimators._rows import extreme_cells, padded_inputs
from kosambi.estimators._units import (
    check_units_of,
    in_input_units,
    in_standard_units,
    is_in_input_units,
    standardizes_target,
)
from kosambi.kernels import AbstractKernel
from kosambi.learning.layout import as_groups, as_patterns
from kosambi.likelihoods import AbstractLikelihood
from kosambi.posterior import AveragedPosterior, Posterior, Prediction
from kosambi.posterior.certificate import Certificate
from kosambi.priors.functions.draws import FunctionDraws
from kosambi.priors.functions.features import expand

# What keys are for, other than a fit.
FUNCTIONS, OBSERVATIONS, COVARIANCE, MORE_ROWS = 1, 2, 3, 4
_FIRST_PURPOSE = 2**30
# Numbers of one block of new inputs, which are predicted one after the other.
_VALUES_AT_ONCE = 2**23


class AbstractEstimator(BaseEstimator):
    """A posterior over functions behind scikit-learn's methods."""

    posterior_: Posterior

    def _checked_settings(self, x: Float[np.ndarray, "N D"]) -> Settings:
        """What was asked for; a warning of cells of x that look like mistakes."""
        settings = self._settings()
        settings.check()
        self._check_cells(x)
        return settings

    @staticmethod
    def _check_cells(x: Float[np.ndarray, "N D"], where: str = "") -> None:
        """Warn of cells that look like mistakes; `where` they are is said first."""
        if (note := extreme_cells(x)) is not None:
            warnings.warn(
                f"{where}{note} If that stands for a missing value, or is a mistake, leave the row out or repair it; "
                "if it is right, take logarithms or ranks of the column.",
                DataWarning,
                stacklevel=6,
            )

    def _key(self) -> Key:
        """Of the next fit."""
        return random_key(self.random_state)

    def _add_rows(
        self, x: Float[np.ndarray, "n D"], y: Float[np.ndarray, " n"], weights: Float[np.ndarray, " n"]
    ) -> None:
        """More rows for the model as it is, whose inputs have not been standardised."""
        near = standardised(x, self.x_mean_, self.x_scale_, getattr(self, "feature_names_in_", None))
        key = random_key(self.random_state, MORE_ROWS)
        self.posterior_ = with_rows(key, self.posterior_, self._settings(), near, y, weights)
        self.report_ = self.posterior_.report
        self.__dict__.pop("_certificate", None)

    def set_params(self, **params: Any) -> AbstractEstimator:
        """Set arguments, those of a kernel, likelihood or sampler included: `set_params(kernel__lengthscale=0.5)`.

        The kernel that was given stays as it is; the estimator gets another one. `get_params` lists all names.
        """
        whole, inner = nested_params(params)
        super().set_params(**whole)
        for name, values in inner.items():
            if name not in self.get_params(deep=False):
                # scikit-learn's own message.
                super().set_params(**{name: values})
            setattr(self, name, with_params(name, getattr(self, name), values))
        return self

    def _settings(self) -> Settings:
        check_units_of(self)
        check_warm_start(self.warm_start)
        return Settings(
            self._kernel,
            self.n_inducing,
            self.n_neighbors,
            self.n_samples,
            self.hyperparameters,
            self.sampler,
            self.potential,
            self.progress,
            freeze=tuple(as_patterns("freeze", self.freeze)),
            tie=tuple(map(tuple, as_groups(self.tie))),
            priors=self.priors,
        )

    def _standard(
        self, settings: Settings, likelihood: AbstractLikelihood, target_units: tuple[float, float]
    ) -> Settings:
        return in_standard_units(
            settings,
            likelihood,
            target_units,
            self.x_scale_,
            is_input=is_in_input_units(self),
            is_centred=standardizes_target(self, likelihood),
        )

    @property
    def _kernel(self) -> Any:
        return self.kernel

    @property
    def kernel_(self) -> AbstractKernel:
        """The kernel in the units of the columns, and its variance in squared units of y where f has units of y.

        `kernel_(X)` is the prior covariance of f at rows as they are: lengthscales and periods can be read off in the
        units of their columns. Of an average over hyperparameters it is the most probable one. A kernel of standardised
        columns that has no such form, as `Linear` with `kernel_units="standardized"`, has no `kernel_`.

        >>> import numpy as np, kosambi as ko
        >>> years = np.linspace(1900.0, 2000.0, 40)[:, None]
        >>> kernel = ko.kernels.Matern52(lengthscale=20.0)
        >>> model = ko.ProjectedLangevinRegressor(kernel=kernel, hyperparameters=None, n_inducing=10)
        >>> model.fit(years, np.sin(years[:, 0] / 20.0)).kernel_
        Matern52(lengthscale=20.0, variance=1.0)
        """
        check_is_fitted(self, "posterior_")
        found = in_input_units(self.posterior_.prior.kernel, self.x_mean_, self.x_scale_)
        if found is None:
            raise AttributeError(
                f"{self.posterior_.prior.kernel!r} is a kernel of standardised columns and has no form in their own "
                "units. Read it from `posterior_.prior.kernel`."
            )
        return found

    @property
    def certificate_(self) -> Certificate:
        """How far the draws are from the best distribution with as many coordinates; computed when first asked for.

        See `kosambi.Posterior.certificate`.
        """
        check_is_fitted(self, "posterior_")
        if "_certificate" not in self.__dict__:
            self._certificate = self.posterior_.certificate()
        return self._certificate

    def transform_inputs(self, X: Any) -> Float[np.ndarray, "N D"]:
        """The inputs as `posterior_` knows them, (X − x_mean_) / x_scale_.

        In standard deviations from the mean of the training rows; with a kernel that was given in their units, or with
        `standardize=False`, in their own units.
        """
        check_is_fitted(self, "posterior_")
        x = validated(self, X, reset=False, dtype=np.float64)
        return standardised(x, self.x_mean_, self.x_scale_, getattr(self, "feature_names_in_", None))

    def is_within_reach(self, X: Any) -> Bool[np.ndarray, "n D"]:
        """Whether each cell lies near enough to the training rows for anything to be computed.

        Rows with a cell that does not, 1e150 standard deviations away, are refused by all predictions.

        Arguments:
            X: (n, D).
        """
        check_is_fitted(self, "posterior_")
        return is_near(validated(self, X, reset=False, dtype=np.float64), self.x_mean_, self.x_scale_)

    def predict_distribution(self, X: Any) -> Prediction:
        """The distributions of f and of an observation at the rows of X, as `kosambi.Prediction`, in the units of y.

        A classifier's labels are their numbers in `classes_`.

        Arguments:
            X: (n, D).
        """
        return self._prediction(self.transform_inputs(X))

    def sample_functions(self, X: Any, n_samples: int = 10, random_state: Any = 0) -> Array:
        """Functions drawn from the posterior, at the rows of X: (n, n_samples), or (n, n_samples, C).

        The latent functions, before any link, in the units of y where they have those. The same functions at every
        call with the same `random_state`, whichever rows are asked for.

        Arguments:
            X: (n, D).
            n_samples: how many; above the number of draws that were fitted, a draw occurs again with another residual.
            random_state: a seed, a generator or None.
        """
        f, _ = self._functions(self.transform_inputs(X), n_samples, random_key(random_state, FUNCTIONS))
        return np.moveaxis(f, 0, 1)

    def _functions(
        self, x: Float[np.ndarray, "N D"], n_samples: int, key: Key
    ) -> tuple[Float[np.ndarray, "S N *C"], Int[np.ndarray, " S"]]:
        """Values of functions, and the numbers of their particles."""
        number, size = as_count("n_samples", n_samples), self.posterior_.num_particles
        # A kernel without features can still be drawn at the inputs that are asked for.
        at = x if expand(self.posterior_.prior.kernel) is None else None
        found, numbers = [], []
        for key_batch in jax.random.split(key, -(-number // size)):
            wanted = min(number, size)
            number -= wanted
            which = np.linspace(0, size - 1, wanted).round().astype(int)
            if isinstance(self.posterior_, AveragedPosterior):
                # Particles that follow each other are of different models; which come first is left to chance.
                key_first, key_batch = jax.random.split(key_batch)
                which = (int(host_generator(key_first).integers(size)) + np.arange(wanted)) % size
            draws = self.posterior_.functions(key_batch, at=at)
            assert isinstance(draws, FunctionDraws)
            # Spread over the particles, because neighbours may have begun at the same place.
            chosen = draws if np.array_equal(which, np.arange(size)) else draws[which]
            found.append(np.asarray(chosen(padded_inputs(x)))[:, : len(x)])
            numbers.append(which)
        return np.concatenate(found), np.concatenate(numbers)

    def _observations(self, X: Any, n_samples: int, random_state: Any) -> np.ndarray:
        """Observations drawn at the rows of X, (n_samples, n), each row along one function."""
        key_functions, key_noise = jax.random.split(random_key(random_state, OBSERVATIONS))
        f, numbers = self._functions(self.transform_inputs(X), n_samples, key_functions)
        return np.asarray(self.posterior_.draw_observations(key_noise, f, numbers))

    def _prediction(self, x: Float[np.ndarray, "N D"]) -> Prediction:
        return self.posterior_.predict(padded_inputs(x)).first(len(x))

    def _in_blocks(self, X: Any, summary: Callable[..., np.ndarray], *values: np.ndarray, axis: int = 0) -> np.ndarray:
        """A summary of the predictions for all rows, and of `values` of them; predictions are never all in memory."""
        x = self.transform_inputs(X)
        components = self.posterior_.likelihood.num_latents * self.posterior_.num_components
        size = max(1, _VALUES_AT_ONCE // components)
        blocks = [slice(start, start + size) for start in range(0, len(x), size)]
        parts = [summary(self._prediction(x[block]), *(value[block] for value in values)) for block in blocks]
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=axis)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "posterior_")


def random_key(random_state: Any, purpose: int = 0) -> Key:
    """A JAX key from what scikit-learn takes as a seed: a number, a generator, or None for one that differs each time.

    `purpose` tells apart what one seed is used for, since a fit and its draws mostly have the same.

    >>> import jax
    >>> bool(jax.random.key_data(random_key(3))[1] == jax.random.key_data(random_key(3))[1])
    True
    """
    check_process()
    if isinstance(random_state, np.random.Generator):
        seed = int(random_state.integers(2**31))
    else:
        try:
            seed = int(check_random_state(random_state).randint(2**31 - 1))
        except ValueError as error:
            raise InputError(
                f"`random_state` must be a whole number, a generator or None. Got {random_state!r}."
            ) from error
    key = jax.random.key(seed)
    # Far from small numbers, which fold into the keys that splitting gives.
    return jax.random.fold_in(key, _FIRST_PURPOSE + purpose) if purpose else key
