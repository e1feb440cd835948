"""How fast the residual variance R_M = ∫ (r − φᵀΛφ)(x, x) dν falls with M, the inducing points, in one dimension.

The M leading eigenfunctions leave the least that M coordinates can: Σ_{m>M} λ_m, the eigenvalues of r under ν. With a
uniform ν and a Matérn-(l+½) kernel they fall as m^{−(2l+2)} if the kernel is r itself, and as m^{−(4l+4)} if it is k of
a `GaussianRandomElement`, whose eigenvalues are the squares. So the best R_M falls as M^{−(2l+1)} and M^{−(4l+3)}.
With a squared exponential kernel and a normal ν they are geometric, with a known ratio B (Rasmussen and Williams 2006,
section 4.3.1): B^M and B^{2M}.

Inducing points are equally spaced, ends included, for a uniform ν, and zeros of the eigenfunction of index M for a
normal one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float

import kosambi as ko
from reproduction._distances import Line, fit_line, power_law

MATERN = (ko.kernels.Matern12, ko.kernels.Matern32, ko.kernels.Matern52)
LENGTHSCALE = 1.0
NORMAL_REACH = 8.0
NOISE = {"element": 1e-22, "process": 1e-10}
"""Below this part of the prior variance R_M is lost in rounding: a sum of squares has all digits, a difference not."""


def rate(prior: str, order: int | None, sizes: list[int], num_points: int) -> dict[str, Any]:
    """R_M for each M, beside the least possible.

    Arguments:
        prior: "element" (the kernel is k) or "process" (the kernel is r).
        order: l of a Matérn-(l+½) kernel; None for a squared exponential one.
        sizes: M.
        num_points: of the fine grid that stands for ν.
    """
    points, weights = _measure(order, num_points)
    kind = ko.kernels.SquaredExponential if order is None else MATERN[order]
    kernel = kind(LENGTHSCALE, 1.0, active_dims=None)
    measure = ko.measures.points(points, weights)
    given: Any = ko.GaussianRandomElement(kernel, measure) if prior == "element" else ko.GaussianProcess(kernel)
    best = least_remainders(given, kernel, points, weights, sizes)
    whole = float(weights @ np.asarray(given.variance(points)))
    remainders, clean = [], []
    for size, least in zip(sizes, best, strict=True):
        # No point is dropped before rounding makes it useless; the default tolerances are for speed and stability.
        basis: Any = (
            ko.RitzBasis(given, _inducing(order, size), tolerance=1e-14)
            if prior == "element"
            else ko.PointBasis(given, _inducing(order, size), tolerance=1e-15)
        )
        remainders.append(float(weights @ np.asarray(basis.residual_variance(points))))
        resolved = remainders[-1] > NOISE[prior] * whole and remainders[-1] > 0.999 * least
        clean.append(bool(resolved and basis.report.dropped == 0))
    return {
        "prior": prior,
        "order": order,
        "sizes": sizes,
        "remainder": remainders,
        "best": best,
        "clean": clean,
        "prior_variance": whole,
    }


def least_remainders(
    prior: Any, kernel: Any, points: Float[np.ndarray, "S 1"], weights: Float[np.ndarray, " S"], sizes: list[int]
) -> list[float]:
    """Σ_{m>M} λ_m of r under the measure of weighted points, for each M."""
    root = np.sqrt(weights)
    values = np.linalg.eigvalsh(root[:, None] * np.asarray(kernel(points)) * root)[::-1]
    # Squares keep digits that the eigenvalues of r itself would not have.
    values = np.square(values) if isinstance(prior, ko.GaussianRandomElement) else np.maximum(values, 0.0)
    return [float(np.sum(values[size:])) for size in sizes]


def theory(prior: str, order: int | None) -> float:
    """The exponent of M for a Matérn kernel, the change of log R_M with each M for a squared exponential one.

    >>> theory("element", 1), theory("process", 1)
    (-7.0, -3.0)
    """
    if order is not None:
        return float(-(4 * order + 3) if prior == "element" else -(2 * order + 1))
    # ν = N(0, 1), in the notation of Rasmussen and Williams.
    a, b = 0.25, 0.5 / LENGTHSCALE**2
    ratio = b / (a + b + np.sqrt(a**2 + 2 * a * b))
    return float((2 if prior == "element" else 1) * np.log(ratio))


def fitted(found: dict[str, Any], what: str = "remainder", at_least: int = 0) -> Line | None:
    """The line through the clean part, in the units of `theory`; None if fewer than three points are clean."""
    sizes, values = np.array(found["sizes"]), np.array(found[what], dtype=float)
    used = np.array(found["clean"], dtype=bool) & (sizes >= at_least)
    if used.sum() < 3:
        return None
    if found["order"] is None:
        return fit_line(sizes[used].astype(float), np.log(values[used]))
    return power_law(sizes[used], values[used])


def _measure(order: int | None, num_points: int) -> tuple[Float[np.ndarray, "S 1"], Float[np.ndarray, " S"]]:
    middles = (np.arange(num_points) + 0.5) / num_points
    if order is not None:
        return middles[:, None], np.full(num_points, 1.0 / num_points)
    points = NORMAL_REACH * (2.0 * middles - 1.0)
    density = np.exp(-0.5 * points**2)
    return points[:, None], density / density.sum()


def _inducing(order: int | None, size: int) -> Float[np.ndarray, "M 1"]:
    if order is not None:
        return np.linspace(0.0, 1.0, size)[:, None]
    a, b = 0.25, 0.5 / LENGTHSCALE**2
    # The eigenfunction of index M is a Hermite polynomial of √(2c) x times a positive function.
    zeros, _ = np.polynomial.hermite.hermgauss(size)
    return (zeros / np.sqrt(2.0 * np.sqrt(a**2 + 2 * a * b)))[:, None]
