r"""What twice as many neighbours would change, for draws whose residual near data inform.

With Δ = V_2m − V_m on draws from Π_m the formula of the certificate is that of KL(Π_m, Π_2m); with Gaussian noise both
are normal, and it has a closed form. It says how far the coordinates w would move. What is predicted also depends on
the neighbours of the new input, so beside it stands a check that needs no theory: the mean log density of some rows,
each given the sites of the others near it, with no neighbours, m and 2m. Sites have seen the observations of their own
rows only, and w has seen all of them, which for many rows is next to nothing.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Float, Int

from kosambi._core.checks import as_count
from kosambi.posterior.certificate import Certificate, divergence_estimate, doubts, origin_notes
from kosambi.posterior.importance import smoothed_weights
from kosambi.posterior.residual_facts import ResidualFacts
from kosambi.samplers import Particles, Report
from kosambi.target import Target
from kosambi.target.bounds import DivergenceBounds
from kosambi.target.data_terms import QuadraticTerm
from kosambi.target.neighborhood import Near, other_rows

NUM_ROWS = 1000
"""Rows, at most, whose log densities are compared."""


def certify_neighbors(
    target: Target,
    particles: Particles,
    *,
    report: Report | None = None,
    reweighting: Certificate | None = None,
    num_nodes: int | None = None,
) -> Certificate:
    """The distance from the distribution with twice as many neighbours, and what they predict of rows of the data."""
    assert target.neighborhood is not None
    if num_nodes is not None:
        as_count("num_nodes", num_nodes)
        target = target.with_potential("neighbors", num_nodes=num_nodes)
    notes = origin_notes(report, reweighting, particles)
    more = with_doubled_neighbors(target, num_nodes)
    assert target.neighborhood is not None
    assert more.neighborhood is not None
    number = target.neighborhood.num_neighbors
    u, quadrature = particles.coordinates, 0.0
    with np.errstate(invalid="ignore"):
        delta = np.asarray(more.potential(u)) - np.asarray(target.potential(u))
    weights, pareto_k = smoothed_weights(-delta)
    is_closed = isinstance(target.term, QuadraticTerm) and isinstance(more.term, QuadraticTerm)
    if is_closed:
        divergence, error = gaussian_divergence(target.term, more.term), 0.0  # type: ignore[arg-type]
    else:
        divergence, error = divergence_estimate(delta)
        quadrature = float(np.max(np.asarray(more.quadrature_error(u)) + np.asarray(target.quadrature_error(u))))
    rows, w = some_rows(target), np.asarray(particles.whitened)
    asked = [(0, target), (number, target)]
    if more is not target:
        asked.append((more.neighborhood.num_neighbors, more))
    can_score = target.likelihood.is_density and len(rows) > 0
    found = Certificate(
        divergence=divergence,
        standard_error=error,
        bounds=DivergenceBounds(None, None, None, "none is known where near data inform the residual"),
        full_bound=None,
        **ResidualFacts.of(target)._asdict(),
        pareto_k=pareto_k,
        weights=weights,
        quadrature_error=quadrature,
        notes=tuple(notes),
        num_neighbors=number,
        num_compared=more.neighborhood.num_neighbors,
        scores=np.array([(m, left_out_score(one, w, rows, m)) for m, one in asked]) if can_score else None,
    )
    return found if is_closed else dataclasses.replace(found, notes=(*notes, *doubts(target, found)))


def with_doubled_neighbors(target: Target, num_nodes: int | None = None) -> Target:
    """The same model and data with 2m neighbours (two where there are none), and sites that suit them.

    Where all rows are neighbours already, it is the target itself.
    """
    assert target.neighborhood is not None
    if target.neighborhood.is_all:
        return target
    number = 2 * max(1, target.neighborhood.num_neighbors)
    return target.with_potential("neighbors", num_nodes=num_nodes, num_neighbors=number)


def gaussian_divergence(one: QuadraticTerm, other: QuadraticTerm) -> float:
    """KL between the normal distributions exp(−V) of two least-squares terms."""
    from scipy.linalg import cho_factor, cho_solve

    parts = []
    for term in (one, other):
        root = np.asarray(term.root)
        curvature = root.T @ root
        curvature[np.diag_indices_from(curvature)] += 1.0
        factor = cho_factor(curvature, lower=True)
        mean = cho_solve(factor, root.T @ np.asarray(term.aim))
        parts.append((curvature, factor, mean, 2.0 * float(np.sum(np.log(np.diagonal(factor[0]))))))
    (_, first, mean, size), (curvature, _, other_mean, other_size) = parts
    away = other_mean - mean
    trace = float(np.trace(cho_solve(first, curvature)))
    return 0.5 * (trace - len(mean) + float(away @ curvature @ away) + size - other_size)


def left_out_score(target: Target, w: Float[np.ndarray, "J M"], rows: Int[np.ndarray, " T"], number: int) -> float:
    """Mean log density of some rows given the sites of the `number` others nearest to each, and draws of w.

    Arguments:
        target: with neighbours.
        w: whitened draws; what they leave open is taken for normal.
        rows: numbers of the rows.
        number: neighbours of each.
    """
    return left_out_scores(target, w, rows, [number])[0]


def left_out_scores(
    target: Target, w: Float[np.ndarray, "J M"], rows: Int[np.ndarray, " T"], numbers: list[int]
) -> list[float]:
    """`left_out_score` for several numbers of neighbours, which are looked for once."""
    near = target.neighborhood
    assert near is not None
    x, weights = np.asarray(target.x), None if target.weights is None else np.asarray(target.weights)
    some = [number for number in numbers if not (near.is_all and number >= len(x))]
    index = other_rows(x, weights, np.asarray(near.scales), max(some), rows) if some else np.empty((len(rows), 0), int)
    y, likelihood, found = np.asarray(target.y)[rows], target.likelihood.at_rows(rows), []
    for number in numbers:
        if number in some:
            # Farther rows have no share, so that one shape serves all numbers.
            share = np.broadcast_to(np.arange(index.shape[1]) < number, index.shape).astype(np.float64)
            given = near.conditional(target.basis, x[rows], Near(index, share))
        else:
            given = near.left_out(target.basis, rows)
        mean, spread = given.offset + given.psi @ w.mean(axis=0), np.var(w @ given.psi.T, axis=0)
        density = likelihood.log_predictive_density(y, mean, np.sqrt(given.variance + spread))
        found.append(float(np.mean(np.asarray(density))))
    return found


def scores_beside(target: Target, w: Float[np.ndarray, "J M"]) -> Float[np.ndarray, "A 2"] | None:
    """Numbers of neighbours, none, half, as they are and twice as many, with `left_out_score` of each.

    Sites stay as they are. None where there is nothing to compare.
    """
    near, rows = target.neighborhood, some_rows(target)
    if near is None or near.is_all or not near.num_neighbors or not target.likelihood.is_density or not len(rows):
        return None
    numbers = sorted({0, near.num_neighbors // 2, near.num_neighbors, min(2 * near.num_neighbors, len(target.y) - 1)})
    return np.column_stack([numbers, left_out_scores(target, w, rows, numbers)]).astype(np.float64)


def some_rows(target: Target) -> Int[np.ndarray, " T"]:
    """Evenly spaced rows that count."""
    weights = None if target.weights is None else np.asarray(target.weights)
    counted = np.arange(len(target.y)) if weights is None else np.flatnonzero(weights > 0)
    return counted[np.unique(np.linspace(0, len(counted) - 1, min(len(counted), NUM_ROWS)).round().astype(int))]
