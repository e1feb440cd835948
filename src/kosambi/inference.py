"""`kosambi.infer`: from a prior, a likelihood and data to a posterior, with every part chosen or given."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import jax
import numpy as np
from jaxtyping import Int

from kosambi._core.errors import InputError, as_count, as_inputs, check_key, is_traced
from kosambi._core.precision import public
from kosambi._core.progress import Clock, Interruption, Progress
from kosambi._core.types import Array, ArrayLike, Key
from kosambi.basis import AbstractBasis, InducingBasis, NystromBasis, PointBasis, RitzBasis, inducing
from kosambi.kernels import AbstractKernel
from kosambi.learning.selection import ladder, select_inducing
from kosambi.likelihoods import AbstractLikelihood
from kosambi.posterior import Posterior
from kosambi.priors import AbstractPrior, GaussianProcess, GaussianRandomElement
from kosambi.samplers import AbstractSampler, sample
from kosambi.target import Target

BASES: dict[str, type[AbstractBasis]] = {
    "point": PointBasis,
    "ritz": RitzBasis,
    "nystrom": NystromBasis,
    "inducing": InducingBasis,
}
ENOUGH = 0.999
"""Share of the prior variance at the data that the inducing points chosen by default explain, unless they are many."""


@public
def infer(
    key: Key,
    prior: AbstractPrior | AbstractKernel,
    likelihood: AbstractLikelihood,
    x: ArrayLike,
    y: ArrayLike,
    *,
    num_inducing: int | str | None = None,
    inducing_points: str | ArrayLike = "greedy",
    basis: str | type[AbstractBasis] | AbstractBasis = "auto",
    potential: str = "projected",
    weights: ArrayLike | None = None,
    sampler: str | AbstractSampler = "auto",
    num_particles: int = 100,
    initial: ArrayLike | None = None,
    background: float | None = None,
    precision: str = "float64",
    progress: bool | None = None,
    on_interrupt: str = "raise",
) -> Posterior:
    """The posterior over functions: prior, inducing points, basis, target, sampler, in one call.

    Arguments:
        key: a JAX random key.
        prior: a prior; a kernel stands for `GaussianProcess(kernel)`.
        likelihood: what an observation costs.
        x: (N, D), the inputs.
        y: (N,), the observations.
        num_inducing: M, at most N. When None as many greedy points as explain 99.9 % of the prior variance at the data,
            at most 4√N (but 64 are always allowed, and never more than 1024). "auto" takes as many as predictions can
            use, says in `posterior.selection` why, and takes longer; see `select_inducing`.
        inducing_points: "greedy", "kmeans", "uniform", or the points themselves, (M, D).
        basis: "auto" ("point" for a `GaussianProcess`, "ritz" for a `GaussianRandomElement`), "point", "ritz",
            "nystrom", "inducing", a basis class, or a finished basis.
        potential: "projected" (the paper's), "optimal" or "auto"; see `Target`.
        weights: (N,), how often each datum counts.
        sampler: "auto", a name or an object from `kosambi.samplers`; see `sample`.
        num_particles: J.
        initial: where the particles begin; see `sample`.
        background: the share, between 0 and 1, of a broad background that is mixed into the measure of a
            `GaussianRandomElement`; see `GaussianRandomElement.with_background`.
        precision: "float64", or "float32" for the steps of the sampler.
        progress: whether to show a progress line; None shows it on a terminal.
        on_interrupt: what Ctrl-C does, "raise" or "return"; see `sample`.

    >>> import jax, numpy as np, kosambi as ko
    >>> x = np.linspace(-3.0, 3.0, 100)[:, None]
    >>> y = (np.sin(2 * x[:, 0]) > 0).astype(float)
    >>> posterior = ko.infer(jax.random.key(0), ko.kernels.Matern52(variance=4.0), ko.likelihoods.Bernoulli(), x, y)
    >>> posterior.report.converged
    True
    >>> posterior.predict([[0.8], [-0.8]]).probability.round(0)
    array([1., 0.])
    """
    if is_traced((key, prior, x, y)):
        raise InputError("`infer` compiles its own loops and cannot run inside `jit`. Call it outside.")
    key_points, key_sample = jax.random.split(check_key(key))
    clock = Clock()
    x = as_inputs("x", x)
    if not isinstance(likelihood, AbstractLikelihood):
        raise InputError(
            f"`infer` needs a likelihood from `kosambi.likelihoods` third. Got {type(likelihood).__name__}. "
            "A cost of your own is `Custom(cost)`."
        )
    # Before anything is computed, so that a wrong argument is heard of at once.
    Interruption(on_interrupt)
    observations = likelihood.check(y)
    chosen_prior = _with_background(_as_prior(prior), background)
    selection = None
    if isinstance(num_inducing, str):
        _check_automatic(num_inducing, inducing_points, basis)
        selection = select_inducing(chosen_prior, likelihood, x, observations, weights=weights, progress=progress)
        num_inducing, inducing_points = None, x[selection.indices]
    with Progress(progress) as show:
        show.update("inducing points and basis")
        chosen_basis = _as_basis(key_points, chosen_prior, x, num_inducing, inducing_points, basis, background)
        target = Target(chosen_basis, likelihood, x, observations, potential, weights=weights)
    particles, report = sample(
        key_sample,
        target,
        sampler,
        num_particles,
        initial=initial,
        precision=precision,
        progress=progress,
        on_interrupt=on_interrupt,
    )
    notes = () if selection is None or selection.is_enough else (str(selection),)
    report = dataclasses.replace(
        report,
        seconds=clock.seconds,
        compile_seconds=clock.compile_seconds,
        warnings=(*notes, *report.warnings),
    )
    posterior = Posterior(target, particles, report)
    posterior.selection = selection
    return posterior


def _as_prior(prior: object) -> AbstractPrior:
    if isinstance(prior, AbstractPrior):
        return prior
    if isinstance(prior, AbstractKernel):
        return GaussianProcess(prior)
    raise InputError(
        f"`infer` needs a prior or a kernel second. Got {type(prior).__name__}. "
        "For example `kosambi.kernels.Matern52(lengthscale=0.5)`."
    )


def _check_automatic(num_inducing: str, inducing_points: Any, basis: Any) -> None:
    if num_inducing != "auto":
        raise InputError(f'`num_inducing` must be a whole number, "auto" or None. Got {num_inducing!r}.')
    if not (isinstance(inducing_points, str) and inducing_points == "greedy"):
        raise InputError(
            '`num_inducing="auto"` takes points in greedy order. Leave out `inducing_points`, or give a number.'
        )
    if isinstance(basis, AbstractBasis):
        raise InputError("A finished `basis` has its inducing points. Leave out `num_inducing`.")


def _with_background(prior: AbstractPrior, background: float | None) -> AbstractPrior:
    if background is None:
        return prior
    if not isinstance(prior, GaussianRandomElement):
        raise InputError(
            f"`background` is for a `GaussianRandomElement`. A `{type(prior).__name__}` has its full variance "
            "everywhere. Leave it out."
        )
    return prior.with_background(background)


def _as_basis(
    key: Key,
    prior: AbstractPrior,
    x: Array,
    num_inducing: int | None,
    inducing_points: Any,
    basis: Any,
    background: float | None,
) -> AbstractBasis:
    if isinstance(basis, AbstractBasis):
        if num_inducing is not None or not (isinstance(inducing_points, str) and inducing_points == "greedy"):
            raise InputError(
                "A finished `basis` has its inducing points. Leave out `num_inducing` and `inducing_points`."
            )
        if background is not None:
            raise InputError("A finished `basis` has its prior. Leave out `background`, or pass a basis class.")
        if basis.prior is not prior:
            raise InputError("`basis` was made for another prior. Pass `basis.prior` as the prior, or a basis class.")
        return basis
    if isinstance(basis, str) and basis == "auto":
        basis = RitzBasis if isinstance(prior, GaussianRandomElement) else PointBasis
    elif isinstance(basis, str) and basis in BASES:
        basis = BASES[basis]
    elif not (isinstance(basis, type) and issubclass(basis, AbstractBasis)):
        names = ", ".join(f'"{name}"' for name in ("auto", *BASES))
        raise InputError(f"`basis` must be one of {names}, a basis class, or a finished basis. Got {basis!r}.")
    return basis(prior, _as_points(key, prior, x, num_inducing, inducing_points))


def _as_points(key: Key, prior: AbstractPrior, x: Array, num_inducing: int | None, how: Any) -> Array:
    if not isinstance(how, str):
        if num_inducing is not None:
            raise InputError("`inducing_points` were given, so `num_inducing` has no use. Leave out one of the two.")
        return as_inputs("inducing_points", how, x.shape[1])
    if num_inducing is not None:
        num_inducing = as_count("num_inducing", num_inducing, at_most=x.shape[0], limit_name="the number of rows of x")
    if how == "greedy" and num_inducing is not None:
        return x[inducing.greedy_variance(prior, x, num_inducing)]
    if how not in ("greedy", "kmeans", "uniform"):
        raise InputError(
            f'`inducing_points` must be "greedy", "kmeans", "uniform", or points of shape (M, D). Got {how!r}.'
        )
    indices = _enough(prior, x) if num_inducing is None else np.arange(num_inducing)
    if how == "greedy":
        return x[indices]
    number = len(indices)
    return x[inducing.kmeans(key, x, number) if how == "kmeans" else inducing.uniform(key, x, number)]


def _enough(prior: AbstractPrior, x: Array) -> Int[np.ndarray, " M"]:
    """Greedy points that explain nearly all prior variance at the data, or as many as are allowed."""
    most = min(x.shape[0], max(64, math.ceil(4 * math.sqrt(x.shape[0]))), 1024)
    path = inducing.greedy_path(prior, x, most)
    enough = np.flatnonzero(path.residual_trace <= (1.0 - ENOUGH) * path.prior_trace)
    if not enough.size:
        return path.indices
    # Rounded up to one of a few sizes, so that data of the same shape compile nothing again.
    return path.indices[: next(size for size in ladder(len(path.indices)) if size > enough[0])]
