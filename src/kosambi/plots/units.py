"""A posterior with the units that its inputs are shown in: those of the user's table where an estimator is given.

An estimator standardises its inputs, z = (x − mean) / scale by column, and its posterior knows z. Pictures show x.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from jaxtyping import Float

from kosambi._core.checks import as_inputs, as_positive
from kosambi._core.types import ArrayLike
from kosambi.errors import InputError
from kosambi.posterior import Posterior


@dataclasses.dataclass(frozen=True, eq=False)
class View:
    """What is drawn, and how its D input columns are shown."""

    posterior: Posterior
    """Of inputs as it knows them."""
    mean: Float[np.ndarray, " D"]
    """Added to the inputs, after `scale`."""
    scale: Float[np.ndarray, " D"]
    """What they are multiplied by."""
    names: list[str]
    """Of the columns."""

    def shown(self, inputs: ArrayLike) -> Float[np.ndarray, "N D"]:
        """Inputs of the posterior, (N, D), in the units of the axis."""
        return self.mean + self.scale * np.asarray(inputs)

    def known(self, inputs: ArrayLike) -> Float[np.ndarray, "N D"]:
        """Inputs in the units of the axis, (N, D), as the posterior knows them."""
        return (np.asarray(as_inputs("x_new", inputs, len(self.names))) - self.mean) / self.scale


def check_one_output(name: str, model: Any) -> None:
    """Refuse an estimator of several outputs where one is shown."""
    if getattr(model, "n_outputs_", 1) > 1:
        raise InputError(
            f"`{name}` is of one output, and this estimator has {model.n_outputs_}. Use `model.predict` and "
            "`model.predict_interval`, whose columns are the outputs."
        )


def view(name: str, model: Any, x_mean: float = 0.0, x_scale: float = 1.0) -> View:
    """Of a posterior, or of a fitted estimator, whose units and column names are taken.

    >>> import numpy as np, kosambi as ko
    >>> x = np.linspace(100.0, 300.0, 20)[:, None]
    >>> model = ko.ProjectedLangevinRegressor(hyperparameters=None, n_inducing=5).fit(x, np.sin(x[:, 0] / 50.0))
    >>> seen = view("posterior", model)
    >>> [float(end) for end in seen.shown(seen.posterior.target.x).round(6)[[0, -1], 0]]
    [100.0, 300.0]
    """
    scale = float(as_positive("x_scale", x_scale))
    if isinstance(model, Posterior):
        columns = np.asarray(model.target.x).shape[1]
        names = ["x"] if columns == 1 else [f"x{d}" for d in range(columns)]
        return View(model, np.full(columns, float(x_mean)), np.full(columns, scale), names)
    posterior = getattr(model, "posterior_", None)
    if not isinstance(posterior, Posterior):
        raise InputError(
            f"`plots.{name}` needs a posterior or a fitted estimator. Got {type(model).__name__}. Use `kosambi.infer`, "
            "or call `fit` first."
        )
    check_one_output(f"plots.{name}", model)
    if x_mean != 0.0 or scale != 1.0:
        raise InputError("`x_mean` and `x_scale` are those of the estimator that was given. Leave them out.")
    columns = len(np.atleast_1d(model.x_mean_))
    names = [str(each) for each in getattr(model, "feature_names_in_", ())]
    if len(names) != columns:
        names = ["x"] if columns == 1 else [f"x{d}" for d in range(columns)]
    return View(posterior, np.asarray(model.x_mean_), np.asarray(model.x_scale_), names)
