"""Whether a fit predicts its own rows worse than a constant distribution would, which its user is told."""

from __future__ import annotations

import numpy as np

from kosambi.estimators._models import in_units
from kosambi.learning.leave_one_out import scores
from kosambi.posterior import Posterior
from kosambi.posterior.doubled import left_out_score
from kosambi.target import Target

# Rows for each inducing point from which the last word is that of the rows themselves, and how many of them are asked.
_CHECKED_FROM, _CHECKED = 4, 2000
# Where each is predicted from all others, which takes a product with all pairs of rows.
_CHECKED_ALL = 200
# Rows above which all of them together are not scored: that takes a product of N×N matrices.
_MOST_SCORED = 2000
# Nats per observation that are no difference: inputs that say nothing leave a constant.
_NOTHING = 0.05


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
        f"constant distribution: the hyperparameters do not suit {_model_in_words(target)}, or the inputs "
        "say nothing of the target. Look at the columns, or give a number, `n_inducing=1024`, with which "
        "hyperparameters are learned together, or a larger one."
    )


def _model_in_words(target: Target) -> str:
    return f"{target.basis.size} inducing points" if target.basis.size else "the data"


def _left_out_score(posterior: Posterior) -> float | None:
    """Mean log density of each row given all others, where the choice of points has measured it.

    Where all rows were taken without a score it is found now, if it takes little: with little noise, fewer points
    predict far worse than all rows.
    """
    selection, target = posterior.selection, posterior.target
    if selection is None:
        return None
    score = selection.score[selection.sizes == selection.num_inducing]
    if len(score) and np.isfinite(score[0]):
        return -float(score[0])
    if selection.reason != "full" or len(target.y) > _MOST_SCORED:
        return None
    x, prior = np.asarray(target.x), target.basis.prior
    known = np.asarray(target.basis.whitened_mean(x)), np.asarray(prior.variance(x)), np.asarray(prior.mean_at(x))
    weights = np.ones(len(x)) if target.weights is None else np.asarray(target.weights)
    return -scores(target.likelihood, *known, np.asarray(target.y), weights, [target.basis.size])[0].score


def _own_score(posterior: Posterior) -> float | None:
    """Mean log density of some rows of the fit that are no inducing points; None where points are not few."""
    target = posterior.target
    x, y = np.asarray(target.x), np.asarray(target.y)
    is_all = target.neighborhood is not None and target.neighborhood.is_all
    some = np.unique(np.linspace(0, len(y) - 1, min(len(y), _CHECKED_ALL if is_all else _CHECKED)).round().astype(int))
    if target.neighborhood is not None:
        return left_out_score(target, np.asarray(posterior.particles.whitened), some, target.neighborhood.num_neighbors)
    if len(y) < _CHECKED_FROM * target.basis.size:
        return None
    # A row that is an inducing point has no residual, which no new input is without.
    points = {point.tobytes() for point in np.ascontiguousarray(target.basis.inducing_points)}
    some = np.array([row for row in some if np.ascontiguousarray(x[row]).tobytes() not in points], dtype=int)
    return float(np.mean(posterior.log_predictive_density(x[some], y[some]))) if len(some) else None
