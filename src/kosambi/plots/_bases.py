"""What a basis holds, and how many inducing points were taken."""

from __future__ import annotations

import numpy as np

from kosambi.basis import AbstractBasis
from kosambi.errors import InputError
from kosambi.learning.selected import Selection
from kosambi.plots.style import BLACK, BLUE, Axes, as_axes
from kosambi.posterior import Posterior


def spectrum(basis: AbstractBasis | Posterior, axes: Axes | None = None, *, mark_size: bool = False) -> Axes:
    """The prior variances of a basis in decreasing order, on a logarithmic scale.

    They are the eigenvalues of the covariance operator for `NystromBasis` and `RitzBasis`, and those of the covariance
    of the coordinates for other bases.

    Arguments:
        basis: a basis, or a posterior, whose basis is taken.
        axes: where to draw; a new figure when None. For several bases draw into the same and call `axes.legend()`.
        mark_size: whether to mark M, the number of coordinates. Where a posterior is given and its inducing points were
            chosen by `num_inducing="auto"`, the label says what share of the prior variance at the data is unexplained.

    >>> import numpy as np, kosambi as ko
    >>> x = np.linspace(-1.0, 1.0, 30)[:, None]
    >>> basis = ko.PointBasis(ko.GaussianProcess(ko.kernels.Matern52()), x[::6])
    >>> ko.plots.spectrum(basis, mark_size=True).get_legend_handles_labels()[1]
    ['PointBasis', 'M = 5']
    """
    found = basis.selection if isinstance(basis, Posterior) else None
    basis = basis.basis if isinstance(basis, Posterior) else basis
    if not isinstance(basis, AbstractBasis):
        raise InputError(f"`plots.spectrum` needs a basis or a posterior. Got {type(basis).__name__}.")
    if not basis.size:
        raise InputError(
            "This basis has no coordinates, so there are no eigenvalues to draw: neighbours say everything."
        )
    values, of = getattr(basis, "eigenvalues", None), ""
    if values is None:
        values, of = np.linalg.eigvalsh(np.asarray(basis.covariance))[::-1], " of Cov(u)"
    # The rest is rounding, of either sign.
    kept = values > len(values) * np.finfo(np.float64).eps * values[0]
    axes = as_axes(axes, (4.8, 3.2))
    axes.plot(
        1 + np.flatnonzero(kept), values[kept], color=BLUE, lw=0.8, marker="o", ms=3.5, label=type(basis).__name__
    )
    axes.set(xlabel="m", ylabel=f"eigenvalue{of}", yscale="log")
    if mark_size:
        axes.axvline(len(values), color=BLACK, lw=0.9, ls=":", label=_size_in_words(len(values), found))
        axes.legend(fontsize="small", frameon=False, loc="lower left", bbox_to_anchor=(0.0, 1.0))
    return axes


def _size_in_words(size: int, found: Selection | None) -> str:
    if found is None or found.num_inducing not in found.sizes:
        return f"M = {size}"
    share = float(found.residual_share[np.flatnonzero(found.sizes == found.num_inducing)[0]])
    return f"M = {size}: {100 * share:.2g} % of the prior variance unexplained"


def selection(selection: Selection | Posterior, axes: Axes | None = None) -> Axes:
    """What each number of inducing points that was tried achieves, and the number that was taken.

    The leave-one-out score, or the share of the prior variance unexplained where there is no score.

    Arguments:
        selection: from `select_inducing`, or a posterior from `infer(num_inducing="auto")`.
        axes: where to draw; new when None.

    >>> import numpy as np, kosambi as ko
    >>> x = np.linspace(-3.0, 3.0, 200)[:, None]
    >>> prior = ko.GaussianProcess(ko.kernels.SquaredExponential(0.7))
    >>> found = ko.select_inducing(prior, ko.likelihoods.Gaussian(0.1), x, np.sin(2 * x[:, 0]))
    >>> ko.plots.selection(found).get_xlabel()
    'inducing points M'
    """
    found = selection.selection if isinstance(selection, Posterior) else selection
    if not isinstance(found, Selection):
        raise InputError(
            f"`plots.selection` needs a selection. Got {type(selection).__name__}"
            + (' without one. Use `infer(num_inducing="auto")`.' if found is None else ". Use `select_inducing`.")
        )
    tried = found.sizes > 0
    if not np.any(tried):
        raise InputError("No number of inducing points was tried: all rows were taken at once.")
    axes = as_axes(axes, (4.8, 3.2))
    has_score = bool(np.any(np.isfinite(found.score)))
    axes.plot(found.sizes[tried], (found.score if has_score else found.residual_share)[tried], "o-", markersize=4)
    # None of them has no place on a logarithmic axis.
    mark = axes.axvline if found.num_inducing else lambda _, **style: axes.plot([], [], **style)
    mark(found.num_inducing, color="C3", linestyle=":", label=f"{found.num_inducing}: {found.reason}")
    axes.set(
        xlabel="inducing points M",
        ylabel="leave-one-out score [nats]" if has_score else "unexplained prior variance",
        xscale="log",
        yscale="linear" if has_score else "log",
    )
    axes.legend(frameon=False)
    return axes
