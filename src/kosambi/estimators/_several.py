"""What a regressor does with y of shape (n, P): the same methods, with an axis for the outputs."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jaxtyping import Float
from sklearn.utils import check_array
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from kosambi._core.precision import host_generator
from kosambi.errors import InputError
from kosambi.estimators._base import FUNCTIONS, OBSERVATIONS, AbstractEstimator, random_key
from kosambi.estimators._inputs import check_units, checked_weights, refuse_masked, standardised, validated
from kosambi.estimators._learn import Settings
from kosambi.estimators._outputs import fitted_outputs
from kosambi.estimators._rows import location_and_scale
from kosambi.kernels import AbstractKernel, coregionalizations
from kosambi.likelihoods import Gaussian
from kosambi.outputs import JointPrediction, every_cell
from kosambi.outputs import predict as predict_outputs


def several(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method of one output that, where a fit had several, is the one of `SeveralOutputs` for these."""

    @functools.wraps(method)
    def chosen(self: Any, *args: Any, **kwargs: Any) -> Any:
        check_is_fitted(self, "posterior_")
        if self.n_outputs_ == 1:
            return method(self, *args, **kwargs)
        return getattr(self, f"_{method.__name__}_outputs")(*args, **kwargs)

    return chosen


class SeveralOutputs(AbstractEstimator):
    """The part of a regressor that is for several outputs."""

    @property
    def n_outputs_(self) -> int:
        """P, how many outputs y had in the fit."""
        check_is_fitted(self, "posterior_")
        if self.posterior_.target.x.shape[1] == len(self.x_mean_):
            return 1
        return coregionalizations(self.posterior_.prior.kernel)[0].num_outputs

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # Other noise is that of one output.
        tags.target_tags.multi_output = isinstance(self.likelihood, Gaussian) or self.likelihood == "gaussian"
        return tags

    def predict_distribution(self, X: Any) -> Any:
        """The distributions of f and of an observation at the rows of X, as `kosambi.Prediction`, in the units of y.

        With several outputs a `kosambi.outputs.JointPrediction`.

        Arguments:
            X: (n, D).
        """
        check_is_fitted(self, "posterior_")
        return super().predict_distribution(X) if self.n_outputs_ == 1 else self._joint(X)

    def sample_functions(self, X: Any, n_samples: int = 10, random_state: Any = 0) -> Any:
        """Functions drawn from the posterior, at the rows of X: (n, n_samples), or (n, P, n_samples).

        In the units of y where f has those. The same functions at every call with the same `random_state`, whichever
        rows are asked for.

        Arguments:
            X: (n, D).
            n_samples: how many; above the number of draws that were fitted, a draw occurs again with another residual.
            random_state: a seed, a generator or None.
        """
        check_is_fitted(self, "posterior_")
        if self.n_outputs_ == 1:
            return super().sample_functions(X, n_samples, random_state)
        return self._drawn(X, n_samples, random_key(random_state, FUNCTIONS))

    def _fit_outputs(self, X: Any, y: Any, sample_weight: Any, checkpoint: Any, mesh: Any) -> None:
        x = validated(self, X, dtype=np.float64, ensure_min_samples=2)
        y = _as_outputs(y, x)
        weights = checked_weights(sample_weight, x)
        settings = dataclasses.replace(self._checked_settings(x), mesh=mesh)
        _check_units(self, settings)
        if checkpoint is not None:
            raise InputError("`checkpoint` is for one output. Leave it out, or fit the columns of y one by one.")
        if self.warm_start and hasattr(self, "posterior_"):
            raise InputError("`warm_start=True` is for one output. Set it to False to fit several outputs anew.")
        for column in y.T:
            seen = column[~np.isnan(column)]
            if len(seen):
                check_units(seen, float(location_and_scale(seen, np.ones(len(seen)))[1]))
        used = weights > 0
        self.x_mean_, self.x_scale_ = location_and_scale(x[used], weights[used])
        near = standardised(x[used], self.x_mean_, self.x_scale_, getattr(self, "feature_names_in_", None))
        key = random_key(self.random_state)
        self.posterior_, self.fit_report_, units = fitted_outputs(
            key, settings, self.likelihood, near, y[used], weights[used]
        )
        self.y_mean_, self.y_scale_ = units
        self.report_ = self.posterior_.report
        # One of an earlier fit would be wrong.
        self.__dict__.pop("_certificate", None)

    def _forget_outputs(self) -> None:
        """Of an earlier fit of several, where this one was of one."""
        for name in ("y_mean_", "y_scale_"):
            self.__dict__.pop(name, None)

    def _joint(self, X: Any) -> JointPrediction:
        joint = predict_outputs(self.posterior_, self.transform_inputs(X))
        return joint.in_units(self.y_mean_, self.y_scale_)

    def _predict_outputs(self, X: Any, return_std: bool = False, return_cov: bool = False) -> Any:
        if return_std and return_cov:
            raise InputError("`return_std` and `return_cov` cannot both be asked for. Take the root of the diagonal.")
        joint = self._joint(X)
        if return_cov:
            return joint.mean, joint.covariance
        return (joint.mean, joint.standard_deviation) if return_std else joint.mean

    def _predict_interval_outputs(self, X: Any, coverage: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        return self._joint(X).interval(coverage)

    def _predict_quantile_outputs(self, X: Any, q: Any) -> np.ndarray:
        return self._joint(X).quantile(q)

    def _predict_log_density_outputs(self, X: Any, y: Any) -> Float[np.ndarray, " n"]:
        joint = self._joint(X)
        given = check_array(y, dtype=np.float64, ensure_all_finite="allow-nan", input_name="y")
        return joint.log_density(given)

    def _sample_y_outputs(self, X: Any, n_samples: int = 1, random_state: Any = 0) -> Float[np.ndarray, "n P S"]:
        key_functions, key_noise = jax.random.split(random_key(random_state, OBSERVATIONS))
        f = self._drawn(X, n_samples, key_functions)
        noise = np.asarray(self.posterior_.likelihood.noise)  # type: ignore[attr-defined]
        noise = (noise * self.y_scale_)[:, None]
        return f + noise * host_generator(key_noise).normal(size=f.shape)

    def _drawn(self, X: Any, n_samples: int, key: Any) -> Float[np.ndarray, "n P S"]:
        cells = every_cell(self.transform_inputs(X), self.n_outputs_)
        f, _ = self._functions(cells, n_samples, key)
        values = self.y_mean_ + self.y_scale_ * f.reshape(len(f), -1, self.n_outputs_)
        return np.ascontiguousarray(np.moveaxis(values, 0, 2))


def _check_units(estimator: Any, settings: Settings) -> None:
    """Refuse what speaks of the units of one output."""
    if not estimator.standardize:
        raise InputError("`standardize=False` is for one output: several are compared in units of their spread.")
    if settings.is_restricted:
        raise InputError(
            "`freeze`, `tie` and `priors` are for one output. For several give a kernel with a "
            "`kosambi.kernels.Coregionalization` to `kosambi.fit_hyperparameters`, which knows them."
        )
    if isinstance(settings.kernel, AbstractKernel) and estimator.kernel_units == "input":
        raise InputError(
            "With several outputs, whose units may differ, `kernel` is one of standardised columns and outputs. Say "
            '`kernel_units="standardized"`.'
        )


def _as_outputs(y: Any, x: np.ndarray) -> Float[np.ndarray, "n P"]:
    """A matrix of observations, with NaN where there is none."""
    refuse_masked("y", y)
    found = check_array(y, dtype=np.float64, ensure_all_finite="allow-nan", input_name="y")
    check_consistent_length(x, found)
    return np.asarray(found)
