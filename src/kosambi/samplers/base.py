"""The sampler contract, for those that move particles by a Markov chain which leaves the posterior unchanged.

A sampler works in a `Frame`, where the Laplace approximation is standard normal, on all J particles at once:

    init(key, frame, v)        -> State, Work     a state at v; may tune itself, and says what that cost
    step(key, frame, state)    -> State, Info     one transition
    adapt(frame, state, info)  -> State           called after each step of the adaptation phase only
    finish(state)              -> State           called when that phase is over

`State` holds what the next step needs, tuning included; `Info` what a diagnostic may read. All are traced: no
Python runs inside the loop. To write another sampler, subclass `AbstractMarkovSampler` and pass an instance to
`kosambi.sample`; the runner brings starting points, diagnostics, stopping and progress.
"""

from __future__ import annotations

import abc
import sys
import warnings
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from jaxtyping import Bool, Float, Int

from kosambi._core.checks import as_float_array, check_finite
from kosambi._core.parameters import Configurable
from kosambi._core.types import Array, ArrayLike, Key
from kosambi.errors import ConvergenceWarning, InputError
from kosambi.samplers.remainder import RemainderFrame
from kosambi.target import Target
from kosambi.target.modes import Frame

AnyFrame = Frame | RemainderFrame
"""V in the coordinates of the Laplace approximation; both have the same methods."""


class State(Protocol):
    """What the state of every Markov sampler has; each adds the fields that its next step needs.

    `whitened` may be left out where there is `v`, the coordinates of the frame, (J, K): then it is made from these for
    the steps that are looked at.
    """

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
    """Gradient evaluations per particle."""


class Work(NamedTuple):
    """What was spent before the first step."""

    steps: Int[Array, ""]
    gradients: Int[Array, ""]


class AbstractSampler(Configurable):
    """Anything that `kosambi.sample` can run: the settings of a sampler, without any state of a run."""

    name: ClassVar[str]
    """By which `sample(..., sampler=name)` finds it, and which its report shows."""


class AbstractMarkovSampler(AbstractSampler):
    """A Markov chain that leaves exp(−V) unchanged; see the module docstring for what to implement."""

    num_adaptation_steps: ClassVar[int]
    """Steps of an adaptation phase; it is repeated while `needs_more_adaptation`."""
    needs_gradients_only: ClassVar[bool] = False
    """Whether nothing is asked of the frame but `value_and_gradient`, and the state has the coordinates as `v`."""

    max_steps: Array
    """The runner stops here, converged or not."""
    initial: str | Array
    """Where the chains begin: "laplace", "prior", or coordinates u of shape (J, M)."""

    @abc.abstractmethod
    def init(self, key: Key, frame: AnyFrame, v: Float[Array, "J K"]) -> tuple[Any, Work]:
        """The state of J chains at v, (J, K), in the coordinates of the frame, and the work that went into it.

        Traced once. A sampler that tunes itself as a whole, without `adapt`, does so here.
        """

    @abc.abstractmethod
    def step(self, key: Key, frame: AnyFrame, state: Any) -> tuple[Any, Info]:
        """One transition of all J particles that leaves exp(−V) unchanged, and what it did.

        Traced inside the compiled loop, so without Python control flow on values; `key` is new for each step.
        """

    @abc.abstractmethod
    def adapt(self, frame: AnyFrame, state: Any, info: Info) -> Any:
        """The state with better tuning after a step of the adaptation phase; the particles stay where they are.

        Traced. Draws of this phase are thrown away, since tuning on the past does not leave exp(−V) unchanged.
        """

    def finish(self, state: Any) -> Any:
        """The state to sample with when an adaptation phase is over, its tuning final; traced."""
        return state

    def retuned(self, state: Any) -> Any | None:
        """A state with tuning of another kind, which is adapted once more; None where that of `state` will do."""
        del state
        return None

    def tuned_like(self, state: Any, other: Any) -> Any:
        """`state`, of a run in a new frame, with the tuning of a state in another; it is adapted once more."""
        del other
        return state

    def needs_more_adaptation(self, acceptance: float, step_size: float) -> bool:
        """Whether the mean acceptance of a finished phase, with steps of this size, asks for another adaptation."""
        del acceptance, step_size
        return False


class Notes:
    """Warnings of a run: given to the user at once, and kept for the report."""

    def __init__(self) -> None:
        self.texts: tuple[str, ...] = ()

    def add(self, text: str, category: type[Warning] = ConvergenceWarning) -> None:
        """Warn and remember."""
        self.texts += (text,)
        warn_user(text, category)


_OUR_FRAMES = ("kosambi", "jaxtyping")


def warn_user(text: str, category: type[Warning]) -> None:
    """Warn as the first caller outside of kosambi sees it, however deep inside it this is."""
    frame, level = sys._getframe(), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] in _OUR_FRAMES:
        frame, level = frame.f_back, level + 1
    warnings.warn(text, category, stacklevel=level)


def as_initial(value: str | ArrayLike, names: tuple[str, ...]) -> str | Array:
    """The name of a known starting distribution, or a finite array of coordinates."""
    if isinstance(value, str):
        if value not in names:
            known = ", ".join(f'"{name}"' for name in names)
            raise InputError(f"`initial` must be one of {known} or an array of coordinates. Got {value!r}.")
        return value
    array = as_float_array("initial", value)
    check_finite("initial", array)
    return array


def check_initial_shape(initial: Array, num_particles: int, shape: tuple[int, ...]) -> None:
    """Refuse starting coordinates that are not one u per particle."""
    if initial.shape != (num_particles, *shape):
        raise InputError(
            f"`initial` must have shape {(num_particles, *shape)}: one u for each of the particles. "
            f"Got shape {np.shape(initial)}."
        )


def is_even(target: Target) -> bool:
    """Whether f and −f are equally probable given the data."""
    return bool(target.likelihood.is_even) and not np.any(np.asarray(target.basis.prior.mean_at(target.x)))
