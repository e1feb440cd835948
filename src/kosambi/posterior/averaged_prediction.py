"""Predictions averaged over hyperparameters: a mixture of the predictions of several models, with equal weights."""

from __future__ import annotations

import copy
import functools

import numpy as np
from jaxtyping import Float

from kosambi._core.types import Array, ArrayLike
from kosambi.likelihoods import Gaussian
from kosambi.likelihoods.normal import normal_cdf
from kosambi.posterior.prediction import Prediction


def _with_means(part: Prediction, means: Array) -> Prediction:
    """The part with its means where those of the mixture are, so that they are held once."""
    found = copy.copy(part)
    found.component_means = means
    return found


class AveragedPrediction(Prediction):
    """The predictive distributions of f and of an observation, averaged over models; `AveragedPosterior.predict`.

    An observation has the density Σ_k p(y | θ_k)/K; moments, quantiles and probabilities are those of that mixture.

    Arguments:
        parts: the predictions of the models at the same inputs, with as many components each.
    """

    def __init__(self, parts: tuple[Prediction, ...]) -> None:
        # Components of one model lie apart from each other, as particles do.
        means = np.stack([part.component_means for part in parts], axis=1)
        shape = means.shape[0], means.shape[2]
        deviation = np.stack([np.broadcast_to(part.component_deviation, shape) for part in parts], axis=1)
        super().__init__(
            parts[0].likelihood,
            means.reshape(-1, *means.shape[2:]),
            deviation.reshape(-1, deviation.shape[2]),
            np.mean([part.support for part in parts], axis=0),
            tuple(dict.fromkeys(text for part in parts for text in part.warnings)),
            is_noise_known=parts[0].is_noise_known,
        )
        self.parts = tuple(_with_means(part, means[:, k]) for k, part in enumerate(parts))
        """The prediction of each model."""

    @functools.cached_property
    def _observation(self) -> tuple[Array, Array]:
        means, variances = (np.array(each) for each in zip(*(part._observation for part in self.parts), strict=True))
        return np.mean(means, axis=0), np.mean(variances, axis=0) + np.var(means, axis=0)

    @functools.cached_property
    def _label_probabilities(self) -> Float[Array, "N L"]:
        return np.mean([part._label_probabilities for part in self.parts], axis=0)

    def log_density(self, y: ArrayLike) -> Float[Array, " N"]:
        """The log density, or log probability, of one observation `y` (N,) at each input."""
        every = np.stack([part.log_density(y) for part in self.parts])
        return np.logaddexp.reduce(every, axis=0) - np.log(len(self.parts))

    def first(self, number: int) -> Prediction:
        """The prediction at the first inputs."""
        return AveragedPrediction(tuple(part.first(number) for part in self.parts))

    def _stretched(self, root: float, centre: Float[Array, " N *C"]) -> Prediction:
        return AveragedPrediction(tuple(part._stretched(root, centre) for part in self.parts))

    @functools.cached_property
    def _deviations(self) -> Float[Array, "K N"]:
        """Standard deviations of an observation in every component, with Gaussian noise."""
        noise = np.stack([np.broadcast_to(part._model.row_noise, self.num_points) for part in self.parts])  # type: ignore[attr-defined]
        times = len(self.component_means) // len(self.parts)
        return np.sqrt(np.square(self.component_deviation) + np.tile(np.square(noise), (times, 1)))

    def _cdf(self, y: np.ndarray, points: np.ndarray) -> np.ndarray:
        if isinstance(self.likelihood, Gaussian):
            # All at once: searches for quantiles ask often.
            return normal_cdf((y - self.component_means[:, points]) / self._deviations[:, points]).mean(axis=0)
        return np.mean([part._cdf(y, points) for part in self.parts], axis=0)

    def __repr__(self) -> str:
        return f"Averaged{super().__repr__()[:-1]} of {len(self.parts)} models)"
