"""Predictions of labels against the truth: ROC curves, reliability, confusion."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int

from kosambi._core.checks import as_count
from kosambi._core.types import Array, ArrayLike
from kosambi.calibration.checks import PredictiveDistribution, as_held_out, as_prediction, label_probabilities
from kosambi.errors import InputError
from kosambi.plots.style import BLACK, BLUE, Axes, as_axes, class_style, plain


def roc(
    prediction: PredictiveDistribution,
    y: ArrayLike,
    axes: Axes | None = None,
    *,
    classes: Sequence[object] | None = None,
) -> Axes:
    """How many of a class are found, against how many others are taken for it, over all thresholds.

    One curve for two classes, and one a class against the rest for more, with the area under it (AUC): 1 for a perfect
    order, 0.5 for none. Classes that do not occur in y, or that nothing else occurs beside, have no curve.

    Arguments:
        prediction: of labels, `posterior.predict(x_new)` or `predict_distribution(X)` of a classifier.
        y: (N,), the labels 0, 1, … that were observed.
        axes: where to draw; a new figure when None.
        classes: what to call the labels.

    >>> import jax, numpy as np, kosambi as ko
    >>> x = np.linspace(-1.0, 1.0, 40)[:, None]
    >>> y = (x[:, 0] > 0).astype(float)
    >>> fitted = ko.infer(jax.random.key(0), ko.kernels.Matern52(), ko.likelihoods.Bernoulli(), x, y)
    >>> ko.plots.roc(fitted.predict(x), y).get_legend_handles_labels()[1]
    ['1: AUC 1.000']
    """
    from sklearn.metrics import roc_auc_score, roc_curve

    table, labels, names = _checked("roc", prediction, y, classes)
    axes = as_axes(axes, (4.0, 4.0))
    axes.plot([0, 1], [0, 1], color=BLACK, lw=0.8, ls="--")
    for k in range(table.shape[1]) if table.shape[1] > 2 else (1,):
        found = labels == k
        if found.any() and not found.all():
            wrong, right, _ = roc_curve(found, table[:, k])
            label = f"{names[k]}: AUC {roc_auc_score(found, table[:, k]):.3f}"
            axes.plot(wrong, right, lw=1.6, label=label, drawstyle="default", **class_style(k if len(names) > 2 else 0))
    axes.set(xlabel="share of others taken for it", ylabel="share of the class found", aspect="equal")
    axes.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.01))
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize="small", frameon=False, loc="lower right")
    else:
        axes.set_title("one class only: no ROC curve", fontsize="small")
    return axes


def reliability(
    prediction: PredictiveDistribution, y: ArrayLike, axes: Axes | None = None, *, num_bins: int = 10
) -> Axes:
    """How often labels came true against the probability they were given; on the diagonal both agree.

    For two classes the probability of a 1, for more that of the likeliest class. Observations are put into bins of
    equal width by that probability. Each dot has the mean probability of its bin, the share that came true with its
    95 % interval (Wilson's, for a binomial distribution), and the number of observations.

    Arguments:
        prediction: of labels, `posterior.predict(x_new)` or `predict_distribution(X)` of a classifier.
        y: (N,), the labels 0, 1, … that were observed.
        axes: where to draw; a new figure when None.
        num_bins: how many bins there are between 0 and 1.

    >>> import jax, numpy as np, kosambi as ko
    >>> x = np.linspace(-1.0, 1.0, 40)[:, None]
    >>> y = (x[:, 0] > 0).astype(float)
    >>> fitted = ko.infer(jax.random.key(0), ko.kernels.Matern52(), ko.likelihoods.Bernoulli(), x, y)
    >>> ko.plots.reliability(fitted.predict(x), y).get_xlabel()
    'probability of a 1'
    """
    table, labels, _ = _checked("reliability", prediction, y, None)
    is_binary = table.shape[1] == 2
    chance = table[:, 1] if is_binary else table.max(axis=1)
    came_true = labels == (1 if is_binary else table.argmax(axis=1))
    bins = as_count("num_bins", num_bins)
    place = np.minimum((chance * bins).astype(int), bins - 1)
    filled = np.unique(place)
    counts = np.array([np.sum(place == b) for b in filled])
    given, share = (np.array([np.mean(v[place == b]) for b in filled]) for v in (chance, came_true))
    lower, upper = wilson(share, counts)
    axes = as_axes(axes, (4.0, 4.0))
    axes.plot([0, 1], [0, 1], color=BLACK, lw=0.8, ls="--")
    reach = np.maximum([share - lower, upper - share], 0.0)
    axes.errorbar(given, share, reach, color=BLUE, ls="", marker="o", ms=4, lw=1.0, capsize=2, label="95 % interval")
    for p, s, count in zip(given, share, counts, strict=True):
        # Towards the middle, so that numbers stay inside.
        side, align = (6, "left") if p < 0.5 else (-6, "right")
        axes.annotate(str(count), (p, s), (side, -3), textcoords="offset points", fontsize=7, ha=align)
    xlabel = "probability of a 1" if is_binary else "probability of the likeliest class"
    ylabel = "share of ones" if is_binary else "share that came true"
    axes.set(xlabel=xlabel, ylabel=ylabel, xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
    axes.legend(fontsize="small", frameon=False, loc="upper left")
    return axes


def wilson(
    share: Float[np.ndarray, " B"], count: Int[np.ndarray, " B"]
) -> tuple[Float[np.ndarray, " B"], Float[np.ndarray, " B"]]:
    """Wilson's 95 % interval of a probability from the share of `count` independent trials that succeeded."""
    z = 1.959964
    middle = (share + z**2 / (2 * count)) / (1 + z**2 / count)
    reach = z / (1 + z**2 / count) * np.sqrt(share * (1 - share) / count + z**2 / (4 * count**2))
    return np.maximum(middle - reach, 0.0), np.minimum(middle + reach, 1.0)


def confusion(
    y_true: ArrayLike, y_pred: ArrayLike, classes: Sequence[object] | None = None, axes: Axes | None = None
) -> Axes:
    """How often each class was taken for each: counts, shaded by their share of the true class.

    Arguments:
        y_true: (N,), the classes that were observed, of any type that can be compared.
        y_pred: (N,), those that were predicted.
        classes: all classes in the order of rows and columns; those that occur, sorted, when None.
        axes: where to draw; a new figure when None.

    >>> import kosambi as ko
    >>> axes = ko.plots.confusion(["cat", "dog", "dog"], ["cat", "dog", "cat"])
    >>> [text.get_text() for text in axes.texts]
    ['1', '0', '1', '1']
    """
    truth, guess = np.asarray(y_true), np.asarray(y_pred)
    if truth.ndim != 1 or truth.shape != guess.shape or not len(truth):
        raise InputError(
            f"`y_true` and `y_pred` must be vectors of the same length, not empty. Got shapes {truth.shape} and "
            f"{guess.shape}."
        )
    known = np.unique(np.concatenate([truth, guess])) if classes is None else np.asarray(classes)
    if missing := sorted({str(v) for v in np.concatenate([truth, guess]) if v not in known}):
        raise InputError(f"`classes` lacks {', '.join(missing[:4])}. Name all classes, or leave it out.")
    table = np.array([[int(np.sum((truth == a) & (guess == b))) for b in known] for a in known])
    shares = table / np.maximum(table.sum(axis=1, keepdims=True), 1)
    axes = as_axes(axes, (4.0, 4.0))
    axes.pcolormesh(shares, cmap="Blues", vmin=0.0, vmax=1.0, edgecolors="white", linewidth=1.0)
    size = 10 if len(known) <= 6 else 7
    for i, j in np.ndindex(*table.shape):
        colour = "white" if shares[i, j] > 0.5 else BLACK
        axes.text(j + 0.5, i + 0.5, str(table[i, j]), ha="center", va="center", color=colour, fontsize=size)
    ticks, names = np.arange(len(known)) + 0.5, [plain(name) for name in known]
    axes.set_xticks(ticks, names, rotation=0 if len(known) <= 3 else 45, ha="center" if len(known) <= 3 else "right")
    axes.set_yticks(ticks, names)
    axes.set(xlabel="predicted", ylabel="truth", aspect="equal")
    axes.invert_yaxis()
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    return axes


def _checked(
    name: str, prediction: PredictiveDistribution, y: ArrayLike, classes: Sequence[object] | None
) -> tuple[Float[Array, "N L"], Int[np.ndarray, " N"], list[str]]:
    """Probabilities, labels as whole numbers, and names of the labels."""
    law = as_prediction(prediction)
    if law.likelihood.num_labels is None:
        raise InputError(
            f"`plots.{name}` draws labels, and `{type(law.likelihood).__name__}` has none. Use `plots.predictions` and "
            "`plots.calibration`."
        )
    labels, table = np.asarray(as_held_out(law, y)).astype(int), np.asarray(label_probabilities(law))
    names = list(range(table.shape[1])) if classes is None else list(classes)
    if len(names) != table.shape[1]:
        raise InputError(f"`classes` has {len(names)} names for {table.shape[1]} labels. Give one a label.")
    return table, labels, [plain(name) for name in names]
