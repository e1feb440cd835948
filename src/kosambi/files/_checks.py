"""Whether the numbers of an object are such that its constructor would have made it, and its parts fit together.

Constructors are asked by being called; what they make is compared with what the file holds and thrown away. An object
keeps the bits of its file, since another machine may round a sum in another order.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np

from kosambi.basis import AbstractBasis, PointBasis, PointResidual, RitzBasis
from kosambi.files._estimators import SavedEstimator
from kosambi.files._registry import FaultError, fields_of, names
from kosambi.kernels import AbstractKernel
from kosambi.likelihoods import AbstractLikelihood, Custom, CustomJoint, Gaussian
from kosambi.likelihoods.quadrature import EVALUATIONS, Rule
from kosambi.posterior import AveragedDraws, Posterior
from kosambi.priors import AbstractPrior
from kosambi.priors.functions.draws import FunctionDraws
from kosambi.priors.measures import AbstractMeasure, MixtureMeasure, PointMeasure
from kosambi.samplers import Particles
from kosambi.target import Target
from kosambi.target.corrected_term import CorrectedTerm
from kosambi.target.data_terms import FactorisedTerm, JointTerm, QuadraticTerm
from kosambi.target.marginal_term import MarginalTerm

# Arguments of constructors that are kept under other names.
_KEPT_AS: Mapping[str, str] = {
    "cost": "function",
    "loss": "function",
    "is_density": "declared_density",
    "is_convex": "declared_convex",
}
# Weights are scaled to sum to one, and to scale them again moves the last digits.
_ROUNDING = 1e-9


def check_object(made: Any) -> None:
    """Raise `FaultError` unless `made`, whose fields fit their annotations, is one that kosambi could have made."""
    if type(made) not in names():
        _check_custom(made)
        return
    if isinstance(made, AbstractKernel | AbstractLikelihood | AbstractMeasure | AbstractPrior):
        _check_constructor(made)
    problem = _problem(made)
    if problem is not None:
        raise FaultError(f"`{type(made).__name__}`: {problem}")


def _check_custom(made: Any) -> None:
    """A class of the user's has its own checks, where it follows Equinox's custom for them."""
    for cls in reversed(type(made).__mro__):
        check = vars(cls).get("__check_init__")
        if check is not None:
            try:
                check(made)
            except Exception as error:
                raise FaultError(f"`{type(made).__name__}` refuses its numbers: {error}") from error


def _check_constructor(made: Any) -> None:
    cls = type(made)
    fields = {name: getattr(made, name) for name in fields_of(cls)}
    listed: tuple[Any, ...] = ()
    named: dict[str, Any] = {}
    for name, parameter in list(inspect.signature(cls.__init__).parameters.items())[1:]:
        kept = _KEPT_AS.get(name, name)
        if kept not in fields:
            return
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            listed = fields[kept]
        else:
            named[name] = fields[kept]
    try:
        again = cls(*listed, **named)
    except Exception as error:
        raise FaultError(f"`{cls.__name__}` refuses its numbers: {error}") from error
    for name, value in fields.items():
        if not _same(value, getattr(again, name)):
            raise FaultError(f"`{cls.__name__}.{name}` is {value!r}, which its constructor would not leave so")


def _same(stored: Any, made: Any) -> bool:
    if isinstance(stored, np.ndarray):
        alike = isinstance(made, np.ndarray) and stored.shape == made.shape and stored.dtype == made.dtype
        return alike and bool(np.allclose(stored, made, rtol=_ROUNDING, atol=0.0))
    if isinstance(stored, tuple):
        return isinstance(made, tuple) and len(stored) == len(made) and all(map(_same, stored, made))
    return stored is made or (type(stored) is type(made) and bool(stored == made))


def _alike(first: Any, second: Any) -> bool:
    """Whether two objects are one, or copies of one, as `jax.tree.map` makes them."""
    if first is second:
        return True
    if type(first) is not type(second):
        return False
    if isinstance(first, np.ndarray):
        return first.dtype == second.dtype and first.shape == second.shape and first.tobytes() == second.tobytes()
    if dataclasses.is_dataclass(first):
        return all(_alike(getattr(first, name), getattr(second, name)) for name in fields_of(type(first)))
    return bool(first == second)


def _problem(made: Any) -> str | None:
    """What does not fit between the parts of an object."""
    if isinstance(made, AbstractPrior | FunctionDraws):
        return _mean_problem(made.mean) or (_draws_problem(made) if isinstance(made, FunctionDraws) else None)
    if isinstance(made, Rule):
        is_list = np.ndim(made.weights) == 1 and np.ndim(made.nodes) in (1, 2) and len(made.nodes) == len(made.weights)
        known = f"its evaluation must be one of {EVALUATIONS}, and is {made.evaluation!r}"
        return "nodes and weights must be as many" if not is_list else None if made.evaluation in EVALUATIONS else known
    if isinstance(made, MixtureMeasure):
        return _mixture_problem(made)
    if isinstance(made, AbstractBasis):
        return _basis_problem(made)
    if isinstance(made, QuadraticTerm):
        return None if np.shape(made.constant) == () else "its constant must be a number"
    if isinstance(made, Particles):
        fits = made.distribution is None or made.distribution.mean.shape == made.whitened.shape[1:]
        return _not_finite(made, "whitened") if fits else "the distribution has another size than the particles"
    if isinstance(made, Target):
        return _target_problem(made)
    if isinstance(made, Posterior):
        fits = made.particles.whitened.shape[1:] == made.target.shape
        return None if fits else f"particles must have the target's shape {made.target.shape}"
    return made.problem if isinstance(made, SavedEstimator) else None


def _mean_problem(mean: Any) -> str | None:
    is_number = isinstance(mean, np.ndarray) and mean.dtype == np.float64 and mean.shape == ()
    return None if is_number or callable(mean) else "its mean must be a number or a callable"


def _draws_problem(draws: FunctionDraws) -> str | None:
    if isinstance(draws, AveragedDraws):
        total = sum(part.num_draws for part in draws.parts)
        fits = sorted(draws.order) == list(range(total)) and total > 0
        fits = fits and all(part.num_columns == draws.num_columns for part in draws.parts)
        return None if fits else "its order must name every draw of its parts once"
    counts = {part.num_draws for part in draws.parts}
    if len(counts) != 1 or draws.num_latents < 1 or draws.num_columns < 1 or counts.pop() % draws.num_latents:
        return "its parts must have one number of draws, and that a multiple of its latent functions"
    return None


def _mixture_problem(measure: MixtureMeasure) -> str | None:
    weights = measure.weights
    if weights.dtype != np.float64 or weights.shape != (len(measure.components),) or not weights.size:
        return "it needs one weight per component"
    if not (np.all(weights >= 0) and abs(np.sum(weights) - 1.0) < 1e-6):
        return "its weights must not be negative and sum to one"
    columns = {component.num_columns for component in measure.components}
    return None if len(columns) == 1 else f"its components have {sorted(columns)} columns"


def _not_finite(made: Any, *fields: str) -> str | None:
    """Which of some arrays holds NaN or infinity: predictions would be NaN, and nothing would say why."""
    for name in fields:
        value = getattr(made, name, None)
        if isinstance(value, np.ndarray) and value.dtype.kind == "f" and not np.all(np.isfinite(value)):
            return f"its {name} must be finite, and {int(np.sum(~np.isfinite(value)))} of the numbers are not"
    return None


def _basis_problem(basis: AbstractBasis) -> str | None:
    if (problem := _not_finite(basis, *fields_of(type(basis)))) is not None:
        return problem
    tolerance = basis.tolerance  # type: ignore[attr-defined]
    if tolerance.shape != () or tolerance.dtype != np.float64:
        return "its tolerance must be a number"
    columns = basis.inducing_points.shape[1]
    if basis.prior.num_columns not in (None, columns):
        return f"its prior is for {basis.prior.num_columns} columns and its inducing points have {columns}"
    try:
        basis.prior.check_columns(columns)
    except ValueError as error:
        return str(error)
    measure = getattr(basis.prior, "measure", None)
    support = measure.points.shape[0] if isinstance(measure, PointMeasure) else None
    if isinstance(basis.remainder, PointResidual) and basis.remainder.loading.shape != (support, basis.size):
        return "its residual has another size than the measure and the basis"
    wanted: int | None = None
    if isinstance(basis, RitzBasis):
        wanted = basis.inducing_points.shape[0] if support is None else support
    elif isinstance(basis, PointBasis):
        wanted = support
    projection = getattr(basis, "projection", None)
    rows = None if projection is None else projection.shape[0]
    return None if rows == wanted else f"its projection must have {wanted} rows, and has {rows}"


def _neighborhood_problem(target: Target) -> str | None:
    rows = target.neighborhood
    if rows is None:
        has_term = isinstance(target.term, MarginalTerm)
        return "its neighbours are missing" if target.kind == "neighbors" or has_term else None
    fits = target.kind == "neighbors" and rows.x.shape == target.x.shape and rows.num_neighbors >= 0
    fits = fits and rows.psi.shape[1] == target.basis.size and rows.scales.shape[0] == target.x.shape[1]
    is_usual = np.all(np.isfinite(rows.scales) & (rows.scales > 0)) and np.all(rows.precision >= 0)
    return None if fits and is_usual else "its neighbours belong to another basis or other data"


def _target_problem(target: Target) -> str | None:
    size, likelihood, term = target.basis.size, target.likelihood, target.term
    if (problem := _not_finite(target, "x", "inverse_root")) is not None:
        return problem
    if target.kind not in ("projected", "optimal", "neighbors"):
        return f"its potential must be projected, optimal or neighbors, and is {target.kind!r}"
    if (problem := _neighborhood_problem(target)) is not None:
        return problem
    if (known := target.stream) is not None and known.lowest.shape != target.x.shape[1:]:
        return "what it knows of all rows belongs to other data"
    if target.x.shape[1] != target.basis.inducing_points.shape[1] or target.inverse_root.shape[0] != size:
        return "data and basis have different sizes"
    if isinstance(term, QuadraticTerm):
        fits = isinstance(likelihood, Gaussian) and term.root.shape[1] == size
        fits = fits and likelihood.row_noise.shape in ((), target.y.shape)  # type: ignore[attr-defined]
    else:
        if isinstance(term, CorrectedTerm):
            if target.stream is None or term.centre.shape[0] != int(np.prod(target.shape)):
                return "its data term belongs to a stream that is missing"
            term = term.rows
        assert isinstance(term, FactorisedTerm | JointTerm | MarginalTerm)
        fits = term.psi.shape == (len(target.x), size) and _alike(term.likelihood, likelihood)
    if not fits:
        return "its data term belongs to another basis, likelihood or data"
    if isinstance(likelihood, Custom | CustomJoint) or type(likelihood) not in names():
        # To try the user's function would be to compile it.
        return None
    try:
        likelihood.check(target.y)
    except ValueError as error:
        return str(error)
    return None
