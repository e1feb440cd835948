"""The kernel contract, and the algebra of kernels: sums, products, and numbers as constant kernels.

A kernel implements two plain JAX methods, `pairwise` and `pointwise`, and gets checked, compiled float64 calls
(`kernel(x, z)`, `kernel.diagonal(x)`) and arithmetic (`+`, `*`, scaling by a number) from here. A kernel that wants
prior draws by random features is an `AbstractStationary` or has `finite_features` (see
`kosambi.priors.functions.features`).
"""

from __future__ import annotations

import abc
import functools
import numbers
import operator
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from kosambi._core.checks import as_inputs, as_positive, finite_rows
from kosambi._core.parameters import Configurable
from kosambi._core.precision import public, with_fields
from kosambi._core.types import Array, ArrayLike
from kosambi.errors import InputError
from kosambi.kernels.tiles import diagonal, gram


class AbstractKernel(Configurable):
    """A symmetric positive semi-definite function k(x, z) of two inputs.

    Subclass it for a kernel of your own: parameters are fields, `pairwise` and `pointwise` are plain JAX.
    """

    supports: ClassVar[Mapping[str, str]] = {}
    """Which values a parameter can take where it is learned: "positive" (unless said otherwise), "real", "unit"
    (between 0 and 1), "increasing", or "fixed" for one that is never learned."""

    name: ClassVar[str | None] = None
    """What a class of your own is called in files: set it in the body, and `kosambi.load(path, custom={name: cls})`."""

    # NumPy scalars on the left (`np.float64(2) * kernel`) must leave the operation to `__rmul__`.
    __array_ufunc__ = None

    @abc.abstractmethod
    def pairwise(self, x: Float[Array, "N D"], z: Float[Array, "M D"]) -> Float[Array, "N M"]:
        """The Gram matrix k(x_n, z_m), traceable, for checked inputs."""

    @abc.abstractmethod
    def pointwise(self, x: Float[Array, "N D"]) -> Float[Array, " N"]:
        """The diagonal k(x_n, x_n) in O(N), traceable, for checked inputs."""

    def check_columns(self, num_columns: int) -> None:
        """Raise `InputError` if inputs with `num_columns` columns do not fit the parameters."""

    def check_inputs(self, x: Float[np.ndarray, "N D"]) -> None:
        """Raise `InputError` if these inputs, which are concrete and finite, are none that the kernel is for."""
        self.check_columns(x.shape[1])

    @property
    def min_columns(self) -> int:
        """The smallest number of input columns that fits the parameters."""
        return 1

    @public
    def __call__(self, x: ArrayLike, z: ArrayLike | None = None) -> Float[Array, "N M"]:
        """The Gram matrix, (N, M), of `x` (N, D) against `z` (M, D), or against itself.

        >>> import kosambi as ko
        >>> ko.kernels.Linear()([[1.0, 2.0]], [[3.0, 4.0], [0.0, 1.0]])
        array([[11.,  2.]])
        """
        x = as_inputs("x", x, allow_empty=True)
        z = x if z is None else as_inputs("z", z, x.shape[1], allow_empty=True)
        self.check_columns(x.shape[1])
        return finite_rows(type(self).__name__, gram(self, x, z), x)

    @public
    def diagonal(self, x: ArrayLike) -> Float[Array, " N"]:
        """The prior variances k(x_n, x_n), (N,), without the rest of the Gram matrix.

        >>> import kosambi as ko
        >>> ko.kernels.Linear().diagonal([[1.0, 2.0], [3.0, 4.0]])
        array([ 5., 25.])
        """
        x = as_inputs("x", x, allow_empty=True)
        self.check_columns(x.shape[1])
        return finite_rows(type(self).__name__, diagonal(self, x), x)

    @property
    def takes_factor(self) -> bool:
        """Whether `with_factor` gives the kernel times the number: it does where there is a variance to take it up."""
        return False

    def with_factor(self, factor: float) -> AbstractKernel:
        """The kernel times a positive number by other variances, in the same form; parts without one stay."""
        del factor
        return self

    def __add__(self, other: object) -> AbstractKernel:
        # `sum([k1, k2])` starts from the number 0, which is no kernel.
        return self if isinstance(other, int) and other == 0 else Sum.of(self, other)

    def __radd__(self, other: object) -> AbstractKernel:
        return self if isinstance(other, int) and other == 0 else Sum.of(other, self)

    def __mul__(self, other: object) -> Product:
        return Product.of(self, other)

    def __rmul__(self, other: object) -> Product:
        return Product.of(other, self)


def is_number(value: object) -> bool:
    """Whether `value` can scale a kernel: a real number or an array without axes."""
    if isinstance(value, jax.Array | np.ndarray):
        return value.ndim == 0
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


class AbstractFinite(AbstractKernel):
    """A kernel k(x, z) = a(x)·a(z) with a finite feature vector a."""

    @abc.abstractmethod
    def finite_features(self, x: Float[Array, "N D"]) -> Float[Array, "N P"]:
        """a(x), (N, P)."""


class AbstractScalable(AbstractKernel):
    """A kernel that is a variance times something; it has a field `variance`."""

    if TYPE_CHECKING:
        # For type checkers only: as a field of this class it would come before those of every kernel.
        variance: Array

    @property
    def takes_factor(self) -> bool:
        """The variance takes it up."""
        return True

    def with_factor(self, factor: float) -> AbstractKernel:
        """The same kernel with another variance."""
        return with_fields(self, variance=np.asarray(self.variance * factor))


class Constant(AbstractFinite, AbstractScalable):
    """The same number for every pair: an unknown level. Multiplying a kernel by a number makes one of these.

    Arguments:
        variance: of the level, in squared units of f.

    >>> import kosambi as ko
    >>> ko.kernels.Constant(variance=3.0)([[0.0]], [[5.0]])
    array([[3.]])
    """

    variance: Array

    def __init__(self, variance: ArrayLike = 1.0) -> None:
        self.variance = as_positive("Constant(variance=...)", variance)

    def finite_features(self, x: Float[Array, "N D"]) -> Float[Array, "N P"]:
        """√variance."""
        return jnp.broadcast_to(jnp.sqrt(self.variance), (x.shape[0], 1))

    def pairwise(self, x: Float[Array, "N D"], z: Float[Array, "M D"]) -> Float[Array, "N M"]:
        """The variance, N × M times."""
        return jnp.broadcast_to(self.variance, (x.shape[0], z.shape[0]))

    def pointwise(self, x: Float[Array, "N D"]) -> Float[Array, " N"]:
        """The variance, N times."""
        return jnp.broadcast_to(self.variance, (x.shape[0],))


class AbstractCombination(AbstractKernel):
    """Several kernels on the same inputs. Nested combinations of the same sort are flattened."""

    symbol: ClassVar[str]
    """What stands between the parts where the combination is written."""

    kernels: tuple[AbstractKernel, ...]

    def __init__(self, *kernels: object) -> None:
        if not kernels:
            raise InputError(f"`{type(self).__name__}` needs at least one kernel. Got none.")
        flat: list[AbstractKernel] = []
        for kernel in kernels:
            if not isinstance(kernel, AbstractKernel):
                raise InputError(
                    f"`{type(self).__name__}` combines kernels. Got {kernel!r}. "
                    "Use kernels or positive numbers, as in `2.0 * kernel_1 + kernel_2`."
                )
            flat.extend(kernel.kernels if isinstance(kernel, type(self)) else (kernel,))
        self.kernels = tuple(flat)

    def __repr__(self) -> str:
        if len(self.kernels) == 1:
            return f"{type(self).__name__}({self.kernels[0]!r})"
        # A sum inside a product needs brackets, a product inside a sum does not.
        texts = (
            f"({part!r})" if isinstance(part, Sum) and len(part.kernels) > 1 else repr(part) for part in self.kernels
        )
        return f" {self.symbol} ".join(texts)

    def _arguments(self) -> dict[str, Any]:
        return {str(i): kernel for i, kernel in enumerate(self.kernels)}

    def _with_arguments(self, values: dict[str, Any]) -> Any:
        return type(self).of(*values.values())

    @classmethod
    def of(cls, *parts: Any) -> Any:
        """The combination of kernels and positive numbers, in the order given."""
        return cls(*(Constant(part) if is_number(part) else part for part in parts))

    def check_columns(self, num_columns: int) -> None:
        """Ask every part."""
        for kernel in self.kernels:
            kernel.check_columns(num_columns)

    def check_inputs(self, x: Float[np.ndarray, "N D"]) -> None:
        """Ask every part."""
        for kernel in self.kernels:
            kernel.check_inputs(x)

    @property
    def min_columns(self) -> int:
        """The smallest number of input columns that fits every part."""
        return max(kernel.min_columns for kernel in self.kernels)

    @property
    def takes_factor(self) -> bool:
        """Whether every part does."""
        return all(kernel.takes_factor for kernel in self.kernels)

    def with_factor(self, factor: float) -> AbstractKernel:
        """Every part times the number."""
        return with_fields(self, kernels=tuple(kernel.with_factor(factor) for kernel in self.kernels))


class Sum(AbstractCombination):
    """k₁ + k₂ + …: a sum of independent functions. Written `kernel_1 + kernel_2`.

    >>> import kosambi as ko
    >>> kernel = ko.kernels.Linear() + ko.kernels.Constant(2.0)
    >>> kernel([[1.0]], [[3.0]])
    array([[5.]])
    """

    symbol: ClassVar[str] = "+"

    def pairwise(self, x: Float[Array, "N D"], z: Float[Array, "M D"]) -> Float[Array, "N M"]:
        """Σ_i k_i(x, z)."""
        return functools.reduce(operator.add, (kernel.pairwise(x, z) for kernel in self.kernels))

    def pointwise(self, x: Float[Array, "N D"]) -> Float[Array, " N"]:
        """Σ_i k_i(x, x)."""
        return functools.reduce(operator.add, (kernel.pointwise(x) for kernel in self.kernels))


class Product(AbstractCombination):
    """k₁ · k₂ · …. Written `kernel_1 * kernel_2`, or `2.0 * kernel`.

    >>> import kosambi as ko
    >>> kernel = 2.0 * ko.kernels.Linear() * ko.kernels.Linear()
    >>> kernel([[1.0]], [[3.0]])
    array([[18.]])
    """

    symbol: ClassVar[str] = "*"

    def pairwise(self, x: Float[Array, "N D"], z: Float[Array, "M D"]) -> Float[Array, "N M"]:
        """Π_i k_i(x, z)."""
        return functools.reduce(operator.mul, (kernel.pairwise(x, z) for kernel in self.kernels))

    def pointwise(self, x: Float[Array, "N D"]) -> Float[Array, " N"]:
        """Π_i k_i(x, x)."""
        return functools.reduce(operator.mul, (kernel.pointwise(x) for kernel in self.kernels))

    @property
    def takes_factor(self) -> bool:
        """Whether one of the parts does."""
        return any(kernel.takes_factor for kernel in self.kernels)

    def with_factor(self, factor: float) -> AbstractKernel:
        """The first part that has a variance times the number."""
        for i, part in enumerate(self.kernels):
            if part.takes_factor:
                return with_fields(self, kernels=(*self.kernels[:i], part.with_factor(factor), *self.kernels[i + 1 :]))
        return self


def scaled(kernel: AbstractKernel, factor: float) -> AbstractKernel:
    """The kernel times a positive number: with other variances, or as a product where a part has none.

    >>> import kosambi as ko
    >>> float(ko.kernels.scaled(ko.kernels.Matern52(variance=2.0), 3.0).variance)
    6.0
    """
    # Parts without a variance would keep their size.
    return kernel.with_factor(factor) if kernel.takes_factor else factor * kernel
