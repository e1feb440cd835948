r"""A target with more rows: the same coordinates, likelihood and potential, given all data.

With Gaussian noise the data's part of the potential is ½|Rw − q|² + c, whatever their number, and the new rows add one
of their own, so that

    R'ᵀR' = RᵀR + Σ_new ψψᵀ/σ²,   R'ᵀq' = Rᵀq + Σ_new ψ(y − m)/σ²

from a QR factorisation of R above the new rows: O((M + n)M²) for n new rows, however many there were before. Other
likelihoods, and neighbours, need all rows again.
"""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Float

from kosambi._core.checks import as_inputs, as_positive
from kosambi._core.linalg import one_blas_thread
from kosambi._core.precision import at_rest, public
from kosambi._core.types import Array, ArrayLike
from kosambi.errors import InputError
from kosambi.likelihoods import AbstractLikelihood, Gaussian
from kosambi.target.checks import as_weights, check_length
from kosambi.target.data_terms import QuadraticTerm
from kosambi.target.least_squares import least_squares, quadratic_term
from kosambi.target.stream import RowFeatures, StreamFacts, features_of
from kosambi.target.target import Target


class MoreRows(NamedTuple):
    """Rows that are to be added, checked."""

    x: Float[Array, "n D"]
    y: Float[Array, " n"]
    weights: Float[Array, " n"] | None
    likelihood: AbstractLikelihood
    """Of these rows."""


@public
def checked_rows(
    target: Target, x: ArrayLike, y: ArrayLike, weights: ArrayLike | None, noise: ArrayLike | None
) -> MoreRows:
    """Rows that can be added to those of `target`, or an error that names the argument."""
    x = as_inputs("x", x, target.x.shape[1])
    likelihood = _likelihood_of(target.likelihood, x, noise)
    y = likelihood.check(y)
    check_length("y", y, x)
    return MoreRows(x, y, None if weights is None else as_weights(weights, x), likelihood)


def _likelihood_of(likelihood: AbstractLikelihood, x: Array, noise: ArrayLike | None) -> AbstractLikelihood:
    has_own = isinstance(likelihood, Gaussian) and likelihood.num_rows is not None
    if noise is None:
        if has_own:
            raise InputError(
                "The noise of this posterior is one number per observation, so new rows need theirs. Give `noise`, "
                f"({len(x)},)."
            )
        return likelihood
    if not has_own:
        raise InputError(
            "`noise` is for a `Gaussian` likelihood with one number per observation, and this posterior has "
            f"{likelihood!r} for all rows. Leave it out, or use `weights`."
        )
    values = np.asarray(as_positive("noise", noise, max_ndim=1))
    if values.ndim == 1 and len(values) != len(x):
        raise InputError(f"`noise` has {len(values)} entries for {len(x)} rows of x. Give one for each row.")
    return Gaussian(np.broadcast_to(values, (len(x),)))


@public
def with_more_rows(target: Target, rows: MoreRows, kept: Array | None = None) -> Target:
    """The target of the rows of `target` and of `rows`, with the same basis and the same potential.

    Arguments:
        target: of the rows so far.
        rows: what `checked_rows` gives.
        kept: the numbers of new rows that join the sample of a target that was read as a stream; all join otherwise.
    """
    known = target.stream
    if known is not None and not isinstance(target.term, QuadraticTerm):
        raise InputError(
            f"{target.num_rows:,} rows were read as a stream, and {len(target.x):,} of them are here: with "
            f"`{type(target.likelihood).__name__}` more rows need all of them again. Call `infer` with a source of all "
            "rows."
        )
    if isinstance(target.likelihood, Gaussian) and target.neighborhood is None:
        return _updated(target, rows, kept)
    x, y, weights = _joined(target, rows)
    number, nodes = target.num_neighbors, None
    if target.neighborhood is not None:
        # All rows stay all rows.
        number = max(target.neighborhood.num_neighbors, len(x)) if target.neighborhood.is_all else number
    elif target.kind == "optimal":
        largest = [float(np.max(np.asarray(target.basis.residual_variance(part)))) for part in (target.x, rows.x)]
        # A rule that suits the largest residual so far suits a smaller one.
        nodes = target.num_nodes if largest[1] <= largest[0] else None
    return Target(
        target.basis,
        _joined_likelihood(target.likelihood, rows.likelihood),
        x,
        y,
        target.kind,
        weights=weights,
        num_nodes=nodes,
        num_neighbors=number,
    )


def _updated(target: Target, rows: MoreRows, kept: Array | None) -> Target:
    """In closed form, from R and q."""
    assert isinstance(rows.likelihood, Gaussian)
    old, known = target.term, target.stream
    assert isinstance(old, QuadraticTerm)
    new_x, new_y = np.asarray(rows.x), np.asarray(rows.y)
    counts = None if rows.weights is None else np.asarray(rows.weights)
    with one_blas_thread(target.basis.size):
        features = features_of(target.basis, new_x)
        features = features._replace(psi=np.asarray(features.psi))
        deviation = np.sqrt(features.residual) if target.kind == "optimal" else None
        own = quadratic_term(rows.likelihood, features.psi, new_y, features.offset, counts, deviation)
        root = np.concatenate([np.asarray(old.root), np.asarray(own.root)])
        aim = np.concatenate([np.asarray(old.aim), np.asarray(own.aim)])
        term = at_rest(least_squares(root, aim, np.ones(len(root)), float(old.constant) + float(own.constant)))
    likelihood = _joined_likelihood(target.likelihood, rows.likelihood)
    if known is None:
        x, y, weights = _joined(target, rows)
    else:
        chosen = np.arange(0) if kept is None else np.asarray(kept)
        counts = np.ones(len(new_y)) if counts is None else counts
        some = MoreRows(new_x[chosen], new_y[chosen], counts[chosen] * float(known.factor), rows.likelihood)
        x, y, weights = _joined(target, some)
        known = _facts_with(known, rows, features)
    return eqx.tree_at(
        lambda t: (t.x, t.y, t.weights, t.term, t.likelihood, t.stream),
        target,
        (x, y, weights, term, likelihood, known),
        is_leaf=lambda value: value is None or isinstance(value, Gaussian | QuadraticTerm | StreamFacts),
    )


def _joined(target: Target, rows: MoreRows) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    x, y = (np.concatenate([np.asarray(a), np.asarray(b)]) for a, b in ((target.x, rows.x), (target.y, rows.y)))
    if target.weights is None and rows.weights is None:
        return x, y, None
    counts = [np.ones(len(own.y)) if own.weights is None else np.asarray(own.weights) for own in (target, rows)]
    return x, y, np.concatenate(counts)


def _joined_likelihood(old: AbstractLikelihood, new: AbstractLikelihood) -> AbstractLikelihood:
    if not isinstance(old, Gaussian) or not isinstance(new, Gaussian) or old.num_rows is None:
        return old
    return Gaussian(np.concatenate([np.asarray(old.row_noise), np.asarray(new.row_noise)]))


def _facts_with(known: StreamFacts, rows: MoreRows, features: RowFeatures) -> StreamFacts:
    """What is known of all rows of a stream, with new ones; rows of weight zero do not count, as there."""
    assert isinstance(rows.likelihood, Gaussian)
    counts = np.ones(len(rows.y)) if rows.weights is None else np.asarray(rows.weights)
    used = counts > 0
    precision = counts / np.square(np.asarray(rows.likelihood.row_noise))
    x = np.asarray(rows.x)[used]
    error = np.asarray(rows.y) - features.offset
    return StreamFacts(
        num_rows=np.asarray(int(known.num_rows) + len(counts)),
        factor=known.factor,
        residual_trace=np.asarray(known.residual_trace + np.sum(features.residual[used])),
        prior_trace=np.asarray(known.prior_trace + np.sum(features.variance[used])),
        largest_variance=np.asarray(np.max(features.variance[used], initial=float(known.largest_variance))),
        largest_residual=np.asarray(np.max(features.residual[used], initial=float(known.largest_residual))),
        lowest=np.minimum(known.lowest, np.min(x, axis=0, initial=np.inf)),
        highest=np.maximum(known.highest, np.max(x, axis=0, initial=-np.inf)),
        squared_error=np.asarray(known.squared_error + np.sum(precision * np.square(error))),
        noise_trace=np.asarray(known.noise_trace + np.sum(precision * features.residual)),
        log_correction=known.log_correction,
        log_correction_error=known.log_correction_error,
        pareto_k=known.pareto_k,
    )
