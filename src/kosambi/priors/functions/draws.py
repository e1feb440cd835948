"""Functions drawn at random, as callables and pytrees: evaluate anywhere, twice with the same answer."""

from __future__ import annotations

import abc
import warnings
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from kosambi._core.checks import as_inputs, finite_rows, is_traced
from kosambi._core.linalg import host_blocks
from kosambi._core.precision import Module, at_rest, compiled, lift, public, warn_once_if_single
from kosambi._core.types import Array, ArrayLike
from kosambi.errors import DomainWarning, InputError
from kosambi.priors.base import evaluate_mean
from kosambi.priors.functions.expansions import AbstractExpansion, FourierExpansion

# Values of one block of rows in a call with concrete inputs, which are computed one after the other.
_VALUES_AT_ONCE = 2**22


class AbstractCorrection(Module):
    """What is added to draws where something is known that they have not seen."""

    @abc.abstractmethod
    def evaluate(self, draws: FunctionDraws, x: Float[Array, "N D"]) -> Float[Array, "J N"]:
        """What is added at the rows of `x` to the draws, given without it; traceable."""

    @abc.abstractmethod
    def select(self, indices: Int[np.ndarray, " L"]) -> AbstractCorrection:
        """That of some of the draws, by number."""


class FunctionDraws(Module):
    """J random functions: `draws(x)` gives their values, (J, N), the same at every call and on any subset.

    With C latent functions a draw, values are (J, N, C). A part of the draws, `draws[3]` or `draws[:10]`, is again
    `FunctionDraws`, and a loop over `draws` goes through them one by one. Under `jit` and `grad` a call is plain JAX.

    Arguments:
        mean: what is added to every draw, a number or a callable from (N, D) to (N,).
        parts: independent expansions whose values add up, of J·C functions, the C of one draw next to each other.
        num_columns: D, the number of input columns.
        num_latents: C.
        correction: what is added to them where near data are known, if anything; for one latent function.

    >>> import jax, numpy as np, kosambi as ko
    >>> prior = ko.GaussianProcess(ko.kernels.Matern52(lengthscale=0.5))
    >>> draws = prior.draw(jax.random.key(0), num_draws=3)
    >>> x = np.linspace(0.0, 1.0, 5)[:, None]
    >>> draws(x).shape, draws[1](x).shape
    ((3, 5), (1, 5))
    >>> bool(np.allclose(draws(x)[:, 2:4], draws(x[2:4]), rtol=0, atol=1e-12))
    True
    """

    mean: Any
    parts: tuple[AbstractExpansion, ...]
    num_columns: int = eqx.field(static=True)
    num_latents: int = eqx.field(static=True, default=1)
    correction: AbstractCorrection | None = None

    @property
    def num_draws(self) -> int:
        """J, the number of functions."""
        return self.parts[0].num_draws // self.num_latents

    def __len__(self) -> int:
        return self.num_draws

    @public
    def __getitem__(self, which: Any) -> FunctionDraws:
        indices = np.atleast_1d(np.arange(self.num_draws)[which])
        rows = (indices[:, None] * self.num_latents + np.arange(self.num_latents)).ravel()
        parts = tuple(part.select(rows) for part in self.parts)
        correction = None if self.correction is None else self.correction.select(rows)
        return FunctionDraws(self.mean, parts, self.num_columns, self.num_latents, correction)

    @public
    def __call__(self, x: ArrayLike) -> Float[Array, "J N *C"]:
        """The values of all draws at the rows of `x` (N, D), mean included."""
        x = self._checked(x)
        values = _add_mean(self._centred(x), evaluate_mean(self.mean, x))
        return self._shaped(finite_rows("draws", values, x, axis=1))

    @public
    def centred(self, x: ArrayLike) -> Float[Array, "J N *C"]:
        """The values of all draws at the rows of `x` without the prior mean: draws with mean zero."""
        x = self._checked(x)
        return self._shaped(finite_rows("draws", self._centred(x), x, axis=1))

    def _checked(self, x: ArrayLike) -> Array:
        array = as_inputs("x", x, allow_empty=True)
        if array.shape[1] != self.num_columns:
            raise InputError(
                f"`x` has {array.shape[1]} columns, but these functions were drawn for {self.num_columns}. "
                f"Pass inputs with {self.num_columns} columns, or draw with `num_columns={array.shape[1]}`."
            )
        return array

    def _shaped(self, values: Float[Array, "L N"]) -> Float[Array, "J N *C"]:
        if self.num_latents == 1:
            return values
        split = values.reshape(self.num_draws, self.num_latents, values.shape[1])
        return jnp.moveaxis(split, 1, 2) if is_traced(values) else np.ascontiguousarray(np.moveaxis(split, 1, 2))

    def _centred(self, x: Array) -> Array:
        values = self._without_correction(x)
        if self.correction is None or x.shape[0] == 0:
            return values
        plain = FunctionDraws(self.mean, self.parts, self.num_columns, self.num_latents)
        return values + self.correction.evaluate(plain, x)

    def _without_correction(self, x: Array) -> Array:
        size = self.num_draws * self.num_latents
        if x.shape[0] == 0:
            return np.empty((size, 0))
        if is_traced((self, x)):
            warn_once_if_single("A function draw is evaluated")
            return _evaluate(self.parts, x)
        self._warn_beyond_window(np.asarray(x))
        block = max(1, _VALUES_AT_ONCE // max(1, size))
        if x.shape[0] <= block:
            return at_rest(_evaluate(self.parts, x))
        # One block after the other into an array of the host, so that nothing as large as the result is held twice.
        parts, values = lift(self.parts), np.empty((size, x.shape[0]))
        for rows in host_blocks(x.shape[0], block):
            values[:, rows] = _evaluate(parts, x[rows])
        return values

    def _warn_beyond_window(self, x: np.ndarray) -> None:
        windows = [p.window for p in self.parts if isinstance(p, FourierExpansion) and p.window is not None]
        if windows and np.any(np.ptp(x, axis=0) > (smallest := np.min(windows, axis=0))):
            column = int(np.argmax(np.ptp(x, axis=0) / smallest))
            warnings.warn(
                f"Inputs lie farther apart (column {column}: {np.ptp(x[:, column]):.3g}) than functions were drawn "
                f"for ({smallest[column]:.3g}): beyond that a draw repeats with its sign turned. Each value by itself "
                "is right. Draw with `posterior.functions(key, domain=[low, high])`.",
                DomainWarning,
                stacklevel=5,
            )


@compiled
def _evaluate(parts: tuple[AbstractExpansion, ...], x: Array) -> Array:
    total = parts[0].evaluate(x)
    for part in parts[1:]:
        total = total + part.evaluate(x)
    return total


def _add_mean(values: Array, mean: Array) -> Array:
    """In place where that can be: values and mean are new arrays."""
    if is_traced((values, mean)):
        return values + mean
    values += mean
    return values
