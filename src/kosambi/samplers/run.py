r"""`kosambi.sample`: particles from a target, by any sampler, with a report; in closed form where there is one.

For a Gaussian likelihood, c(y, f) = (y − f)²/2σ², both potentials are quadratic in the whitened coordinates,

    V(w) = ½|Rw − q|² + ½|w|² + constant,   so   w ~ N(H⁻¹Rᵀq, H⁻¹),   H = I + RᵀR,

and J draws cost one factorisation of an M×M matrix. RᵀR is the normal matrix of the data, R and q come from a QR
factorisation, so that no digits are lost to squaring (`data_terms.QuadraticTerm`). All other samplers iterate, each in
a module of its own.
"""

from __future__ import annotations

from typing import Any, ClassVar

import jax
import numpy as np
from jax.sharding import Mesh

from kosambi._core.checks import as_count, check_key, is_traced
from kosambi._core.linalg import one_blas_thread
from kosambi._core.meshes import PARTICLES, Spec, check_mesh, filled, put
from kosambi._core.precision import compiled, host_generator, public
from kosambi._core.progress import Clock, Interruption, Progress
from kosambi._core.types import Array, ArrayLike, Key
from kosambi.errors import InputError
from kosambi.parallel.terms import check_term
from kosambi.samplers import euler_maruyama, stochastic_gradient, tempering
from kosambi.samplers import markov as _markov
from kosambi.samplers.base import AbstractMarkovSampler, AbstractSampler, as_initial, is_even
from kosambi.samplers.convergence import R_HAT_LIMIT
from kosambi.samplers.euler_maruyama import EulerMaruyama
from kosambi.samplers.hmc import HMC
from kosambi.samplers.mala import MALA
from kosambi.samplers.precisions import Precision, as_precision
from kosambi.samplers.report import GaussianDistribution, Particles, Report, report_of
from kosambi.samplers.starts import evenly
from kosambi.samplers.stochastic_gradient import StochasticGradient
from kosambi.samplers.tempering import Tempering
from kosambi.target import Target
from kosambi.target.data_terms import QuadraticTerm
from kosambi.target.least_squares import MANY


class Exact(AbstractSampler):
    """Independent draws in closed form, for `Gaussian` likelihoods with one known noise or one per observation.

    >>> import jax, numpy as np, kosambi as ko
    >>> x = np.linspace(-1.0, 1.0, 50)[:, None]
    >>> basis = ko.PointBasis(ko.GaussianProcess(ko.kernels.Matern52()), x[::10])
    >>> target = ko.Target(basis, ko.likelihoods.Gaussian(0.1), x, np.sin(3 * x[:, 0]))
    >>> particles, report = ko.sample(jax.random.key(0), target, ko.samplers.Exact(), num_particles=100)
    >>> report.steps, report.r_hat, particles.distribution.mean.shape
    (0, 1.0, (5,))
    """

    name: ClassVar[str] = "exact"

    @staticmethod
    def applies_to(target: Target) -> bool:
        """Whether the potential is quadratic, or a constant, since there are no coordinates."""
        return isinstance(target.term, QuadraticTerm) or not target.basis.size


def is_for_closed_form(sampler: object) -> bool:
    """Whether closed forms may take the place of steps: nothing else was asked for.

    >>> is_for_closed_form("auto"), is_for_closed_form("mala")
    (True, False)
    """
    return isinstance(sampler, Exact) or (isinstance(sampler, str) and sampler in ("auto", Exact.name))


_KINDS = (MALA, HMC, Exact, EulerMaruyama, Tempering, StochasticGradient)
BY_NAME: dict[str, type[AbstractSampler]] = {kind.name: kind for kind in _KINDS}
LARGEST_FOR_TEMPERING = 50_000
"""Rows times coordinates up to which "auto" may take `Tempering` by itself."""
LARGEST_TRACE = 1e9
"""Of the normal matrix of the data up to which it is formed: seven digits are left at least."""
_PRODUCTS = 10
# Far from small numbers, which fold into the keys that splitting gives.
_SECOND_RUN = 2**30


@public
def sample(
    key: Key,
    target: Target,
    sampler: str | AbstractSampler = "auto",
    num_particles: int = 100,
    *,
    initial: ArrayLike | Particles | None = None,
    precision: str = "float64",
    progress: bool | None = None,
    on_interrupt: str = "raise",
    mesh: Any = None,
) -> tuple[Particles, Report]:
    """Draw `num_particles` particles from exp(−V), and report how that went.

    Arguments:
        key: a JAX random key.
        target: the potential V.
        sampler: "auto", "mala", "hmc", "exact", "euler_maruyama", "tempering", "stochastic_gradient", or an object from
            `kosambi.samplers`.
            "auto" takes `Exact` for a Gaussian likelihood, `Tempering` where f and −f explain the data equally well,
            and `MALA` for all others; where its particles then sit in modes between which they do not pass,
            `Tempering` draws again. `report.ladder.reason` says why it did.
        num_particles: J.
        initial: coordinates u, (J, M), where the particles begin, or a starting distribution known to the sampler by
            name; None leaves it to the sampler. `Particles` of a similar target with the same coordinates are a warm
            start: any number of them, drawn in towards the mode where this target makes them impossible; samplers that
            need no start, which "auto" may take, go without it.
        precision: of the steps: "float64"; "float32", with all its digits in products on every device; or "tf32", with
            those that an accelerator multiplies fastest (11 bits on NVIDIA's). The mode is found in float64.
        progress: whether to show a progress line; None shows it on a terminal.
        on_interrupt: "raise" lets the `KeyboardInterrupt` of Ctrl-C pass. "return" returns the particles as they are
            then, with a report that says so; an interruption before there are any is raised in either case.
        mesh: from `kosambi.parallel.mesh`: rows and particles on several devices, for closed forms, `MALA`, `HMC`,
            `EulerMaruyama` and samplers of your own. Draws are the same on every mesh but for rounding. Give it to
            `Target` as well, for what is computed of rows before there are particles; `infer` does.

    Returns:
        `Particles` with `coordinates` (J, M), and a `Report`. A run that has not converged warns, and so does one that
        was interrupted.

    >>> import jax, numpy as np, kosambi as ko
    >>> x = np.linspace(-1.0, 1.0, 50)[:, None]
    >>> basis = ko.PointBasis(ko.GaussianProcess(ko.kernels.Matern52()), x[::10])
    >>> target = ko.Target(basis, ko.likelihoods.Poisson(), x, np.arange(50.0) // 10)
    >>> particles, report = ko.sample(jax.random.key(0), target, num_particles=200)
    >>> particles.coordinates.shape, report.sampler, report.converged
    ((200, 5), 'mala', True)
    """
    if not isinstance(target, Target):
        raise InputError(f"`sample` needs a `kosambi.Target`. Got {type(target).__name__}.")
    if is_traced((key, target)):
        raise InputError("`sample` compiles its own loops and cannot run inside `jit`. Call it outside.")
    key = check_key(key)
    num_particles = as_count("num_particles", num_particles)
    digits = as_precision(precision)
    # A start or a precision that was asked for is for a sampler that knows them.
    is_free = initial is None or isinstance(initial, Particles)
    may_temper = is_free and digits.is_double and _is_affordable(target)
    chosen = _as_sampler(sampler, target, may_temper)
    if not target.basis.size and not isinstance(chosen, Exact):
        raise InputError(
            f"This target has no coordinates, so there is nothing for `{type(chosen).__name__}` to draw: neighbours "
            'say everything. Use sampler="auto", or take inducing points.'
        )
    if isinstance(chosen, Tempering) and not digits.is_double:
        raise InputError(f'`Tempering` works in float64. Leave out `precision="{precision}"`.')
    if mesh is not None:
        check_mesh(mesh)
        _check_for_mesh(chosen, target, digits)
        may_temper = False
    start = _as_start(chosen, target, initial, num_particles)
    may_switch = isinstance(sampler, str) and sampler == "auto" and may_temper
    clock, stop = Clock(), Interruption(on_interrupt)
    with Progress(progress) as display, one_blas_thread(target.basis.size), digits.entered():
        if isinstance(chosen, Exact):
            particles, report = draw_exactly(key, target, num_particles, clock, mesh)
        elif isinstance(chosen, EulerMaruyama):
            particles, report = euler_maruyama.run(
                key, target, chosen, start, num_particles, display, clock, digits, stop, mesh
            )
        elif isinstance(chosen, StochasticGradient):
            particles, report = stochastic_gradient.run(
                key, target, chosen, start, num_particles, display, clock, digits, stop
            )
        elif isinstance(chosen, Tempering):
            particles, report = tempering.run(
                key, target, chosen, num_particles, display, clock, _reason(sampler), stop
            )
        elif isinstance(chosen, AbstractMarkovSampler):
            particles, report = _markov.run(
                key, target, chosen, start, num_particles, display, clock, digits, may_switch, stop, mesh
            )
            if may_switch and report.basins > 1 and not report.converged:
                reason = f"the particles of {report.sampler} sat in {report.basins} modes and did not pass between them"
                again = jax.random.fold_in(key, _SECOND_RUN)
                particles, report = tempering.run(
                    again, target, Tempering(), num_particles, display, clock, reason, stop
                )
        else:
            raise InputError(f"`sample` cannot run a `{type(chosen).__name__}`. Subclass `AbstractMarkovSampler`.")
    return particles, report


def _check_for_mesh(sampler: AbstractSampler, target: Target, precision: Precision) -> None:
    """Refuse what does not run on several devices."""
    check_sampler(sampler)
    if not precision.is_double:
        raise InputError(f'`mesh` works in float64. Leave out `precision="{precision.name}"`.')
    check_term(target.term)


def check_sampler(sampler: object) -> None:
    """Refuse a sampler, or the name of one, that does not run on several devices."""
    kind = BY_NAME.get(sampler) if isinstance(sampler, str) else type(sampler)
    if kind is not None and issubclass(kind, Tempering | StochasticGradient):
        raise InputError(
            f"`mesh` is for closed forms and for steps of `MALA`, `HMC`, `EulerMaruyama` or a sampler of your own. "
            f"`{kind.__name__}` runs on one device. Leave out `mesh`, or choose the sampler."
        )


def _as_sampler(sampler: object, target: Target, may_temper: bool) -> AbstractSampler:
    if isinstance(sampler, AbstractSampler):
        return sampler
    if isinstance(sampler, str) and sampler == "auto":
        if Exact.applies_to(target):
            return Exact()
        return Tempering() if may_temper and is_even(target) else MALA()
    if isinstance(sampler, str) and sampler in BY_NAME:
        return BY_NAME[sampler]()
    names = ", ".join(f'"{name}"' for name in ("auto", *BY_NAME))
    raise InputError(f"`sampler` must be one of {names} or an object from `kosambi.samplers`. Got {sampler!r}.")


def _reason(sampler: object) -> str:
    return "f and -f explain the data equally well" if isinstance(sampler, str) and sampler == "auto" else "asked for"


def _is_affordable(target: Target) -> bool:
    """Whether a thousand replicas can be moved thousands of times in about a minute."""
    # A value of the cost takes as long as ten products; the optimal potential has one at each node.
    further = _PRODUCTS * (target.num_nodes - 1)
    return target.x.shape[0] * (int(np.prod(target.shape)) + further) <= LARGEST_FOR_TEMPERING


def _as_start(
    sampler: AbstractSampler, target: Target, initial: ArrayLike | Particles | None, num_particles: int
) -> str | Array | Particles:
    """The start given to `sample`, or else to the sampler."""
    if isinstance(initial, Particles):
        if np.shape(initial.whitened)[1:] != target.shape:
            raise InputError(
                f"`initial` are particles with coordinates of shape {np.shape(initial.whitened)[1:]}, but the target's "
                f"have {target.shape}. Give particles of a target with the same basis."
            )
        if isinstance(sampler, EulerMaruyama):
            return np.asarray(initial.coordinates)[evenly(initial.num_particles, num_particles)]
        return "laplace" if isinstance(sampler, Exact | Tempering) else initial
    if isinstance(sampler, Exact | Tempering):
        if initial is not None:
            raise InputError(
                f"`{type(sampler).__name__}` draws from the posterior without a start, so `initial` has no meaning. "
                "Leave it out."
            )
        return "laplace"
    if initial is None:
        return sampler.initial  # type: ignore[attr-defined]
    return as_initial(
        initial, ("normal", "prior", "laplace") if isinstance(sampler, EulerMaruyama) else ("laplace", "prior")
    )


def draw_exactly(
    key: Key, target: Target, num_particles: int, clock: Clock, mesh: Mesh | None = None
) -> tuple[Particles, Report]:
    """The posterior distribution of the coordinates, and draws from it."""
    if not Exact.applies_to(target):
        raise InputError(
            f"`Exact` needs a `Gaussian` likelihood, whose posterior is normal. Got "
            f'`{type(target.likelihood).__name__}`. Use sampler="auto".'
        )
    if isinstance(target.term, QuadraticTerm) and target.basis.size:
        found = _posterior(target.term)
        noise = host_generator(key).normal(size=(num_particles, found.mean.shape[0]))
        w = found.mean + (noise @ found.root.T if mesh is None else _coloured(mesh, noise, found.root))
        misfit = w @ target.term.root.T - target.term.aim
        energy = 0.5 * float(np.mean(np.sum(np.square(misfit), axis=1) + np.sum(np.square(w), axis=1)))
        energy += float(target.term.constant)
    else:
        found, w = GaussianDistribution(np.zeros(0), np.zeros((0, 0))), np.zeros((num_particles, 0))
        energy = float(target.potential(np.zeros(0)))
    report = report_of(
        target,
        clock,
        Exact.name,
        converged=True,
        r_hat=1.0,
        r_hat_limit=R_HAT_LIMIT,
        r_hat_by_coordinate=np.ones(found.mean.shape[0]),
        ess=float(num_particles),
        ess_tail=float(num_particles),
        acceptance_by_particle=np.ones(num_particles),
        energy=np.array([energy]),
        energy_steps=np.zeros(1, dtype=np.int64),
        r_hat_trace=np.ones(1),
    )
    return Particles.from_whitened(target, w, found), report


def _coloured(mesh: Mesh, noise: np.ndarray, root: np.ndarray) -> np.ndarray:
    """Deviations from the mean, those of each particle on its devices."""
    own = put(filled(noise, mesh.shape[PARTICLES]), mesh, Spec(PARTICLES))
    return np.asarray(_product(own, put(np.ascontiguousarray(root.T), mesh, Spec())))[: len(noise)]


@compiled
def _product(noise: Array, turned: Array) -> Array:
    return noise @ turned


def _posterior(term: QuadraticTerm) -> GaussianDistribution:
    """With LAPACK from NumPy, for which nothing is compiled for a number of points."""
    from scipy.linalg import qr, solve_triangular  # here, because it doubles what `import kosambi` adds to `import jax`

    root, aim = np.asarray(term.root), np.asarray(term.aim)
    size = root.shape[1]
    with one_blas_thread(size):
        found = _by_cholesky(root, aim) if size >= MANY else None
        if found is not None:
            return found
        # The factor of I + RᵀR from a QR of [R; I]: its smallest eigenvalues keep all their digits.
        basis, upper = qr(np.concatenate([root, np.eye(size)]), mode="economic", check_finite=False)
        # The one with a positive diagonal, as Cholesky's: draws do not turn with the signs of R's rows.
        signs = np.where(np.diag(upper) < 0.0, -1.0, 1.0)
        basis, upper = basis * signs, upper * signs[:, None]
        mean = solve_triangular(upper, basis[: len(root)].T @ aim, lower=False, check_finite=False)
        inverse = solve_triangular(upper, np.eye(size), lower=False, check_finite=False)
    return GaussianDistribution(mean, np.ascontiguousarray(inverse))


def _by_cholesky(root: np.ndarray, aim: np.ndarray) -> GaussianDistribution | None:
    """A tenth of the work of a QR; None where too many digits would be lost to squaring.

    No eigenvalue of I + RᵀR is below one, and its entries are right to the machine precision of the largest.
    """
    from scipy.linalg import blas, lapack

    normal = blas.dsyrk(1.0, root.T, lower=1)
    normal[np.diag_indices_from(normal)] += 1.0
    if np.trace(normal) > LARGEST_TRACE:
        return None
    factor, failed = lapack.dpotrf(normal, lower=1, overwrite_a=1, clean=1)
    if failed:
        return None
    mean = lapack.dpotrs(factor, root.T @ aim, lower=1)[0].ravel()
    inverse, _ = lapack.dtrtri(factor, lower=1, overwrite_c=1)
    return GaussianDistribution(mean, np.ascontiguousarray(inverse.T))
