"""The arguments of `kosambi.infer` by which its parts are chosen: prior, basis, inducing points, neighbours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kosambi._core.checks import as_count, as_inputs
from kosambi._core.types import Array
from kosambi.basis import AbstractBasis, InducingBasis, NystromBasis, PointBasis, RitzBasis
from kosambi.errors import InputError
from kosambi.kernels import AbstractKernel
from kosambi.learning.num_neighbors import are_replicated, enough_neighbors
from kosambi.likelihoods import AbstractLikelihood
from kosambi.priors import AbstractPrior, GaussianProcess, GaussianRandomElement
from kosambi.target.neighbors import DEFAULT, NEIGHBORS

BASES: dict[str, Any] = {
    "point": PointBasis,
    "ritz": RitzBasis,
    "nystrom": NystromBasis,
    "inducing": InducingBasis,
}
METHODS = ("greedy", "kmeans", "uniform")
"""How inducing points are chosen among the inputs."""


def as_prior(prior: object) -> AbstractPrior:
    """The prior; a kernel stands for `GaussianProcess(kernel)`."""
    if isinstance(prior, AbstractPrior):
        return prior
    if isinstance(prior, AbstractKernel):
        return GaussianProcess(prior)
    raise InputError(
        f"`infer` needs a prior or a kernel second. Got {type(prior).__name__}. "
        "For example `kosambi.kernels.Matern52(lengthscale=0.5)`."
    )


def with_background(prior: AbstractPrior, background: float | None) -> AbstractPrior:
    """The prior with a broad background in its measure, if one was asked for."""
    if background is None:
        return prior
    if not isinstance(prior, GaussianRandomElement):
        raise InputError(
            f"`background` is for a `GaussianRandomElement`. A `{type(prior).__name__}` has its full variance "
            "everywhere. Leave it out."
        )
    return prior.with_background(background)


def finished(
    basis: AbstractBasis, prior: AbstractPrior, number: int | str, inducing_points: Any, background: float | None
) -> AbstractBasis:
    """A basis that is finished, with which no points can be asked for."""
    if number != "auto" or not (isinstance(inducing_points, str) and inducing_points == "greedy"):
        raise InputError("A finished `basis` has its inducing points. Leave out `num_inducing` and `inducing_points`.")
    if background is not None:
        raise InputError("A finished `basis` has its prior. Leave out `background`, or pass a basis class.")
    if basis.prior is not prior:
        raise InputError("`basis` was made for another prior. Pass `basis.prior` as the prior, or a basis class.")
    return basis


def as_basis_class(basis: Any, prior: AbstractPrior) -> Callable[[AbstractPrior, Array], AbstractBasis]:
    """A class of bases from its name, or from itself."""
    if isinstance(basis, str) and basis == "auto":
        return RitzBasis if isinstance(prior, GaussianRandomElement) else PointBasis
    if isinstance(basis, str) and basis in BASES:
        return BASES[basis]
    if isinstance(basis, type) and issubclass(basis, AbstractBasis):
        return basis
    names = ", ".join(f'"{name}"' for name in ("auto", *BASES))
    raise InputError(f"`basis` must be one of {names}, a basis class, or a finished basis. Got {basis!r}.")


def as_method(how: Any, number: int | str, x: Array, allow_none: bool) -> str | Array:
    """How inducing points are chosen, or the points themselves, of which there may be none if `allow_none`."""
    if isinstance(how, str):
        if how not in METHODS:
            raise InputError(
                f'`inducing_points` must be "greedy", "kmeans", "uniform", or points of shape (M, D). Got {how!r}.'
            )
        if isinstance(number, int) and number:
            as_count("num_inducing", number, at_most=x.shape[0], limit_name="the number of rows of x")
        return how
    if number != "auto":
        raise InputError("`inducing_points` were given, so `num_inducing` has no use. Leave out one of the two.")
    return as_inputs("inducing_points", how, x.shape[1], allow_empty=allow_none)


def num_neighbors_of(
    asked: int | str, potential: str, is_open: bool, prior: AbstractPrior, likelihood: AbstractLikelihood, x: Array
) -> int:
    """m, or zero for none; `is_open` says that nothing was given that would decide on the coordinates."""
    if potential not in ("auto", NEIGHBORS):
        if asked not in ("auto", 0):
            raise InputError(
                f'`num_neighbors={asked}` asks for potential="neighbors". Got potential={potential!r}. Leave out one '
                "of the two."
            )
        return 0
    if isinstance(asked, int):
        return asked
    enough = enough_neighbors(len(x), likelihood)
    if potential == NEIGHBORS:
        return enough or DEFAULT
    # The covariance of a random element takes a sum over its measure for each pair of neighbours.
    can = enough and is_open and isinstance(prior, GaussianProcess) and not are_replicated(np.asarray(x))
    return enough if can else 0
