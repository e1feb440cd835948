"""From a source of rows to a posterior, with no more than blocks and a sample of the rows in memory.

Passes over all rows: one for counts, ranges and the sample (`kosambi.sources.survey`); with Gaussian noise one more,
from which the posterior follows in closed form. With other likelihoods some for the mode and the curvature there
(`kosambi.target.stream_newton`), after which draws are made with the sample (`CorrectedTerm`), and one more that weighs
them by the potential of all rows. Where weights cannot do that, Metropolis steps follow, each of them a pass.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float

from kosambi._core.groups import Group
from kosambi._core.linalg import one_blas_thread
from kosambi._core.precision import with_fields
from kosambi._core.process_memory import peak
from kosambi._core.programs import split
from kosambi._core.progress import Clock, Progress
from kosambi._core.types import Key
from kosambi.basis import AbstractBasis
from kosambi.errors import ConvergenceWarning, InputError
from kosambi.likelihoods import AbstractLikelihood, CustomJoint, Gaussian
from kosambi.posterior import Posterior
from kosambi.posterior.importance import LARGEST_PARETO_K, smoothed_weights, systematic
from kosambi.samplers import MALA, AbstractSampler, EulerMaruyama, Particles, Report, StreamReport, Tempering, sample
from kosambi.samplers.base import warn_user
from kosambi.samplers.stream_steps import Stepped, steps_over
from kosambi.sources import Survey
from kosambi.sources.memory import Plan
from kosambi.target import FactorisedTerm, Target
from kosambi.target.corrected_term import corrected
from kosambi.target.modes import find_modes
from kosambi.target.stream import StreamFacts, gaussian_sums
from kosambi.target.stream_newton import StreamMode, StreamPotential, derivatives_of, search_stream

EVEN = 2.0
"""Times the mean weight that no draw's may exceed for weights to be trusted without a tail to judge."""


def check_streamable(likelihood: AbstractLikelihood) -> None:
    """Refuse what has no sum over rows, or more than one mode that a stream would not see."""
    name, reason = type(likelihood).__name__, None
    if isinstance(likelihood, CustomJoint):
        reason = "its loss is of all rows together"
    elif likelihood.num_rows is not None:
        reason = "it has a number for each row; give the source weights instead, 1/noise² in units of one noise"
    elif likelihood.is_even:
        reason = "f and −f explain the data equally well, and only one of the two would be drawn"
    if reason is not None:
        raise InputError(
            f"Rows that are read in blocks cannot have `{name}`: {reason}. Give arrays, and leave `max_memory` out."
        )


def infer_rows(
    key: Key,
    basis: AbstractBasis,
    likelihood: AbstractLikelihood,
    found: Survey,
    plan: Plan,
    *,
    potential: str,
    sampler: str | AbstractSampler,
    num_particles: int,
    progress: bool | None,
    clock: Clock,
    reason: str = "",
) -> Posterior:
    """The posterior of all rows of a survey.

    Arguments:
        key: a JAX random key.
        basis: the coordinates.
        likelihood: what a row costs.
        found: the first pass.
        plan: how many rows are held at once.
        potential: "auto", "projected" or "optimal"; "auto" looks at the sample.
        sampler: for likelihoods other than `Gaussian`.
        num_particles: J.
        progress: whether to show a progress line.
        clock: that has run since the first pass began.
        reason: why rows are read in blocks, for the report.
    """
    rows, group = found.sample, found.stream.source.group
    basis, likelihood = _agreed(group, "the model", (basis, likelihood))
    # The rows of the sample, each with the weight of those that it stands for.
    few = Target(basis, likelihood, rows.x, rows.y, potential, weights=rows.weights * found.factor)
    ends = (found.num_rows, found.factor, found.lowest, found.highest)
    if isinstance(likelihood, Gaussian):
        with Progress(progress) as show, one_blas_thread():
            show.update("summing up all rows")
            is_optimal = few.kind == "optimal"
            whole = gaussian_sums(basis, likelihood, found.stream, plan.block_rows, is_optimal, found.total_weight)
        facts = whole.sums.facts(*ends, squared_error=whole.squared_error, noise_trace=whole.noise_trace)
        target = _of_all_rows(few, whole.term, facts)
        particles, report = sample(key, target, sampler, num_particles, progress=progress)
        particles = _agreed(group, "draws", particles)
        report = _with_stream(report, found, plan, clock, reason, -np.inf, float(num_particles))
        return Posterior(target, particles, report)
    chosen = _as_sampler(sampler)
    key_mode, key_draw, key_weigh, key_steps = split(key, 4)
    with Progress(progress) as show, one_blas_thread():
        whole_potential, few = _with_rule(few, found, plan, potential == "optimal")
        (start,) = group.agreed("where the search begins", np.asarray(find_modes(key_mode, few).positions)[0])
        mode = search_stream(whole_potential, start, show.update)
        sums = whole_potential.count()
        assert isinstance(few.term, FactorisedTerm)
        here = derivatives_of(few.term, mode.w)
    term = corrected(few.term, mode.w, here[:3], mode.here[:3], mode.factor)
    target = _of_all_rows(few, term, sums.facts(*ends))
    particles, report = sample(key_draw, target, chosen, num_particles, progress=progress)
    particles = _agreed(group, "draws", particles)
    with Progress(progress) as show, one_blas_thread():
        show.update("weighing the draws by all rows")
        w = np.asarray(particles.whitened).reshape(num_particles, -1)
        exact = whole_potential.values(w)
        (log_weights,) = group.agreed("weights", np.asarray(target.potential(particles.coordinates)) - exact)
        weights, pareto_k = smoothed_weights(log_weights)
        target = _of_all_rows(few, term, sums.facts(*ends, **_correction(log_weights, pareto_k)))
        worth = float(1.0 / np.sum(np.square(weights)))
        notes: tuple[str, ...] = () if mode.converged else (_unsettled(mode),)
        if np.max(weights) * num_particles < EVEN or pareto_k < LARGEST_PARETO_K:
            taken = systematic(key_weigh, weights)
            particles = Particles(particles.coordinates[taken], particles.whitened[taken])
            accepted = np.asarray(report.acceptance_by_particle)[taken]
            report = dataclasses.replace(report, acceptance_by_particle=accepted)
            steps = 0
        else:
            stepped = steps_over(key_steps, whole_potential, mode, w, show.update)
            particles, steps = Particles.from_whitened(target, stepped.w), stepped.steps
            report, more = _stepped(report, stepped)
            notes += more
    for text in notes:
        warn_user(text, ConvergenceWarning)
    report = dataclasses.replace(report, warnings=(*report.warnings, *notes))
    report = dataclasses.replace(report, converged=report.converged and mode.converged)
    return Posterior(target, particles, _with_stream(report, found, plan, clock, reason, pareto_k, worth, steps))


def _agreed(group: Group, what: str, tree: Any) -> Any:
    """What the first process has in the place of this one's arrays: machines differ in the last digits."""
    if group.count == 1:
        return tree
    arrays, rest = eqx.partition(tree, lambda leaf: isinstance(leaf, np.ndarray | jax.Array))
    leaves, structure = jax.tree.flatten(arrays)
    return eqx.combine(jax.tree.unflatten(structure, group.agreed(what, *leaves)), rest)


def _as_sampler(sampler: str | AbstractSampler) -> AbstractSampler | str:
    if isinstance(sampler, str) and sampler == "auto":
        return MALA()
    if sampler in ("tempering", "euler_maruyama") or isinstance(sampler, Tempering | EulerMaruyama):
        raise InputError(
            f"Rows as a stream are drawn around one mode, exactly, which `sampler={sampler!r}` is not for. Use "
            'sampler="auto".'
        )
    return sampler


def _with_rule(few: Target, found: Survey, plan: Plan, is_asked: bool) -> tuple[StreamPotential, Target]:
    """The potential of all rows, and the sample's with the same quadrature rule."""
    term = few.term
    assert isinstance(term, FactorisedTerm)
    options = (few.basis, few.likelihood, found.stream, plan.block_rows)
    whole = StreamPotential(*options, term.rule)
    if term.rule is not None and is_asked:
        # A rule that suits the largest residual of all rows, which is rarely that of a row of the sample.
        largest = np.sqrt(np.array([whole.count().largest]))
        rule, sums = few.likelihood.rule(largest), whole.sums
        whole = StreamPotential(*options, rule)
        whole.sums = sums
        few = with_fields(few, term=with_fields(term, rule=rule))
    return whole, few


def _of_all_rows(few: Target, term: Any, facts: StreamFacts) -> Target:
    return eqx.tree_at(lambda t: (t.term, t.stream), few, (term, facts), is_leaf=lambda v: v is None)


def _correction(log_weights: Float[np.ndarray, " J"], pareto_k: float) -> dict[str, Any]:
    """log mean exp(log weights), which carries the evidence over to all rows, and its standard error."""
    finite = np.where(np.isfinite(log_weights), log_weights, -np.inf)
    top = float(np.max(finite))
    weights = np.exp(finite - top)
    mean = float(np.mean(weights))
    error = float(np.std(weights) / mean / np.sqrt(len(weights)))
    trusted = not pareto_k > LARGEST_PARETO_K
    return {
        "log_correction": float(np.log(mean)) + top,
        "log_correction_error": error if trusted else np.nan,
        "pareto_k": float(pareto_k),
    }


def _unsettled(mode: StreamMode) -> str:
    return (
        f"The search for the mode of all rows was given up after {mode.passes} passes, where a further step would "
        f"lower the potential by {mode.decrement:.2g}. Look at the scale of the kernel and for outliers in y."
    )


def _stepped(report: Report, stepped: Stepped) -> tuple[Report, tuple[str, ...]]:
    """The report of steps over all rows, and what is to be said of them."""
    report = dataclasses.replace(
        report,
        converged=stepped.converged,
        r_hat=stepped.r_hat,
        r_hat_limit=stepped.limit,
        acceptance=float(np.mean(stepped.acceptance)),
        acceptance_by_particle=stepped.acceptance,
        steps=report.steps + stepped.steps,
        gradient_evaluations=report.gradient_evaluations + stepped.steps + 1,
        energy=stepped.energies,
        energy_steps=np.arange(len(stepped.energies)),
        r_hat_trace=np.full(len(stepped.energies), np.nan),
    )
    if stepped.converged:
        return report, ()
    return report, (
        f"Not converged after {stepped.steps} steps over all rows: nested R-hat {stepped.r_hat:.4f}, limit "
        f"{stepped.limit:.6g}. Give more memory, so that the sample is larger, or take fewer inducing points.",
    )


def _with_stream(
    report: Report,
    found: Survey,
    plan: Plan,
    clock: Clock,
    reason: str,
    pareto_k: float,
    worth: float,
    steps: int = 0,
) -> Report:
    stream = StreamReport(
        num_rows=found.num_rows,
        sample_rows=len(found.sample.y),
        block_rows=plan.block_rows,
        passes=found.stream.passes,
        seconds=float(sum(found.stream.seconds)),
        max_memory=plan.max_memory,
        peak_memory=peak(),
        pareto_k=float(pareto_k),
        effective_draws=worth,
        steps=steps,
        reason=reason,
    )
    return dataclasses.replace(report, stream=stream, seconds=clock.seconds, compile_seconds=clock.compile_seconds)
