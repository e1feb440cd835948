"""The sampler contract, for those that move particles by a Markov chain which leaves the posterior unchanged.

A sampler works in a `Frame`, where the Laplace law is standard normal, on all J particles at once:

    init(key, frame, v)        -> State, Work     a state at v; may tune itself, and says what that cost
    step(key, frame, state)    -> State, Info     one transition
    adapt(frame, state, info)  -> State           called after each step of the adaptation phase only
    finish(state)              -> State           called when that phase is over

`State` holds what the next step needs, tuning included; `Info` what a diagnostic may read. All are traced: no
Python runs inside the loop. To write another sampler, subclass `AbstractMarkovSampler` and pass an instance to
`kosambi.sample`; the runner brings starting points, diagnostics, stopping and progress.

Draws of coordinates: what a sampler returns.
"""

from __future__ import annotations

import abc
import sys
import warnings
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from jaxtyping import Bool, Float, Int

from kosambi._core.errors import ConvergenceWarning, InputError, as_float_array, check_finite
from kosambi._core.precision import Module, public
from kosambi._core.types import Array, ArrayLike, Key
from kosambi.target import Target
from kosambi.target.modes import Frame


class State(Protocol):
    """What every state has; each sampler adds its own fields."""

    whitened: Float[Array, "J K"]
    potential: Float[Array, " J"]

    @property
    def step_size(self) -> Array:
        """The length of a step at present."""


class Info(NamedTuple):
    """What one transition did."""

    acceptance: Float[Array, " J"]
    """The probability with which each proposal was accepted."""
    divergent: Bool[Array, " J"]
    """Whether a proposal had a potential that is not finite, or was given up by its integrator."""
    gradients: Int[Array, ""]
    """Gradient evaluations a particle."""


class Work(NamedTuple):
    """What was spent before the first step."""

    steps: Int[Array, ""]
    gradients: Int[Array, ""]


class AbstractSampler(Module):
    """Anything that `kosambi.sample` can run."""

    name: ClassVar[str]


class AbstractMarkovSampler(AbstractSampler):
    """A Markov chain that leaves exp(−V) unchanged; see the module docstring for what to implement."""

    num_adaptation_steps: ClassVar[int]
    """Steps of an adaptation phase; it is repeated while `needs_more_adaptation`."""

    max_steps: Array
    """The runner stops here, converged or not."""
    initial: str | Array
    """Where the chains begin: "laplace", "prior", or coordinates u of shape (J, M)."""

    @abc.abstractmethod
    def init(self, key: Key, frame: Frame, v: Float[Array, "J K"]) -> tuple[Any, Work]:
        """A state at v."""

    @abc.abstractmethod
    def step(self, key: Key, frame: Frame, state: Any) -> tuple[Any, Info]:
        """One transition of all particles."""

    @abc.abstractmethod
    def adapt(self, frame: Frame, state: Any, info: Info) -> Any:
        """Improve the tuning after a step of the adaptation phase."""

    def finish(self, state: Any) -> Any:
        """The state to sample with, when an adaptation phase is over."""
        return state

    def needs_more_adaptation(self, acceptance: float, step_size: float) -> bool:
        """Whether the mean acceptance at the end of an adaptation phase asks for another one."""
        del acceptance, step_size
        return False


class Notes:
    """Warnings of a run: given to the user at once, and kept for the report."""

    def __init__(self) -> None:
        self.texts: tuple[str, ...] = ()

    def add(self, text: str, category: type[Warning] = ConvergenceWarning) -> None:
        """Warn and remember."""
        self.texts += (text,)
        # Shown at the first caller outside of kosambi.
        frame, level = sys._getframe(), 1
        while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] in _OUR_FRAMES:
            frame, level = frame.f_back, level + 1
        warnings.warn(text, category, stacklevel=level)


_OUR_FRAMES = ("kosambi", "jaxtyping")


def as_initial(value: str | ArrayLike, names: tuple[str, ...]) -> str | Array:
    """One of the known laws, or a finite array."""
    if isinstance(value, str):
        if value not in names:
            known = ", ".join(f'"{name}"' for name in names)
            raise InputError(f"`initial` must be one of {known} or an array of coordinates. Got {value!r}.")
        return value
    array = as_float_array("initial", value)
    check_finite("initial", array)
    return array


def check_initial_shape(initial: Array, num_particles: int, shape: tuple[int, ...]) -> None:
    """Refuse starting coordinates that are not one u a particle."""
    if initial.shape != (num_particles, *shape):
        raise InputError(
            f"`initial` must have shape {(num_particles, *shape)}: one u for each of the particles. "
            f"Got shape {np.shape(initial)}."
        )


class GaussianLaw(Module):
    """A normal law of the whitened coordinates, where the posterior is one: N(mean, root rootᵀ)."""

    mean: Float[Array, " M"]
    root: Float[Array, "M M"]


class Particles(Module):
    """J draws of the coordinates u, one a row.

    `sample` makes them. Coordinates from elsewhere become particles with `Particles.from_coordinates`.
    """

    coordinates: Float[Array, "J M *C"]
    """u_j."""
    whitened: Float[Array, "J M *C"]
    """w_j = L⁻¹u_j, in which the prior is standard normal."""
    law: GaussianLaw | None = None
    """The law that the draws come from, when it is known in closed form."""

    @staticmethod
    @public
    def from_coordinates(target: Target, coordinates: ArrayLike) -> Particles:
        """Particles from coordinates u of shape (J, M), or (J, M, C) with C latent functions.

        >>> import numpy as np, kosambi as ko
        >>> x = np.linspace(-1.0, 1.0, 20)[:, None]
        >>> basis = ko.PointBasis(ko.GaussianProcess(ko.kernels.Matern52()), x[::5])
        >>> target = ko.Target(basis, ko.likelihoods.Gaussian(0.1), x, x[:, 0])
        >>> ko.samplers.Particles.from_coordinates(target, np.zeros((3, 4))).num_particles
        3
        """
        u = np.reshape(target._checked("coordinates", coordinates), (-1, *target.shape))
        return Particles(u, target.whiten(u))

    @staticmethod
    def from_whitened(target: Target, whitened: Array, law: GaussianLaw | None = None) -> Particles:
        """Particles from flattened whitened coordinates, (J, M·C)."""
        w = np.array(whitened, dtype=np.float64).reshape(-1, *target.shape)
        if len(target.shape) == 1:
            return Particles(target.basis.colour(w), w, law)
        u = np.moveaxis(target.basis.colour(np.moveaxis(w, 2, 1)), 1, 2)
        return Particles(np.ascontiguousarray(u), w, law)

    @property
    def num_particles(self) -> int:
        """J."""
        return int(self.coordinates.shape[0])
