"""What a checkpoint of a fit is of: settings and rows, or their source; and the random key of a fit that goes on."""

from __future__ import annotations

import numbers
from collections.abc import Callable

import jax
import numpy as np
from jaxtyping import Float
from sklearn.base import BaseEstimator

from kosambi._core.checkpoints import described
from kosambi._core.journal import digest_of, recalled
from kosambi._core.types import Key
from kosambi.errors import InputError
from kosambi.sources import AbstractRowSource


def about(
    estimator: BaseEstimator,
    x: Float[np.ndarray, "N D"],
    y: Float[np.ndarray, " N"],
    weights: Float[np.ndarray, " N"],
    max_memory: object = None,
) -> dict[str, str]:
    """Digests of the rows and of an estimator's arguments, by name.

    The code of a function of one's own, a cost for example, is not among them.

    >>> from kosambi import ProjectedLangevinRegressor
    >>> found = about(ProjectedLangevinRegressor(n_samples=7), np.zeros((5, 2)), np.zeros(5), np.ones(5))
    >>> found["estimator"], found["n_samples"], found["X"].split(" ")[0]
    ('ProjectedLangevinRegressor', '7', '5x2')
    """
    data = {"X": x, "y": y, "sample_weight": weights}
    names = {name: f"{'x'.join(map(str, value.shape))} {digest_of([value])}" for name, value in data.items()}
    limit = {} if max_memory is None else {"max_memory": described(max_memory)}
    return names | limit | _settings(estimator)


def about_source(estimator: BaseEstimator, source: AbstractRowSource, max_memory: object) -> dict[str, str]:
    """What tells of a source whether its rows are the same, without reading all of them, and an estimator's arguments.

    >>> from kosambi import ProjectedLangevinRegressor
    >>> from kosambi.sources import ArraySource
    >>> found = about_source(ProjectedLangevinRegressor(), ArraySource(np.zeros((5, 2)), np.zeros(5)), "2GB")
    >>> found["the shape of `x`"], found["max_memory"]
    ('(5, 2)', "'2GB'")
    """
    marks = {name: str(value) for name, value in source.marks().items()}
    return {"source": type(source).__name__, **marks, "max_memory": described(max_memory)} | _settings(estimator)


def _settings(estimator: BaseEstimator) -> dict[str, str]:
    """An estimator's arguments by name."""
    settings = estimator.get_params(deep=False)
    seed = settings["random_state"]
    if not (seed is None or isinstance(seed, numbers.Integral)):
        raise InputError(
            f"`checkpoint` needs a `random_state` that is a whole number or None. Got {seed!r}, which would have gone "
            "on when the fit is taken up again."
        )
    # What is shown on a terminal changes no number.
    del settings["progress"]
    return {"estimator": type(estimator).__name__} | {key: described(settings[key]) for key in settings}


def kept_key(fresh: Callable[[], Key]) -> Key:
    """A new key; in a fit that is taken up again the one that it began with, whatever `random_state` says."""
    (data,) = recalled("key", lambda: (np.asarray(jax.random.key_data(fresh())),))
    return jax.random.wrap_key_data(jax.numpy.asarray(data))
