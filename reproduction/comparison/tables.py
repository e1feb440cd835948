"""The page of an experiment: a table for each metric, times, and what follows from them."""

from __future__ import annotations

from reproduction.comparison import verdicts
from reproduction.comparison.data import CLASSIFICATION, REGRESSION
from reproduction.comparison.methods import LABELS
from reproduction.comparison.paper import printed
from reproduction.comparison.statistics import Values, deviation, difference, holm, mean, speed, stars, values
from reproduction.experiment import Found

NUMBERS = {"nll": "Negative log likelihood", "mae": "Mean absolute error", "crps": "CRPS"}
WIDTHS = {
    "width": "Average width of conformal 95 % intervals, coverage in per cent",
    "plain_width": "Average width of plain 95 % intervals, coverage in per cent",
}
SHARES = {
    "log_loss": "Log loss",
    "auc": "Area under the curve, per cent",
    "accuracy": "Accuracy, per cent",
    "brier": "Brier's score (the CRPS of a label)",
}
LARGER_IS_BETTER = ("auc", "accuracy")
NOISE = {"gaussian": "Gaussian", "student_t": "Student-t", "bernoulli": "Bernoulli"}
RIVALS = ("svgp_paper", "svgp", "svgp_512", "exact", "laplace", "logistic")

_LEGEND = """Means over splits, with standard deviations in brackets, of the test rows (splits 80/10/10 as in the
paper's code, its seeds 0 to 4). The first two columns are as printed in the paper, whose splits are not known; the
others were run here, all in the same splits. **Bold** is the best mean of those run here. Stars belong to the better of
kosambi (defaults) and the rival with the best mean: a paired t-test over splits, corrected by Holm for the rows of the
table, at 95 % (\\*) or 99 % (\\*\\*). A dash: not run, or nothing that can be compared."""
_METHODS = """*kosambi, paper's recipe*: random element with the empirical measure, hyperparameters of an exact process,
Nyström coordinates on int(√N) points, inputs not scaled, drawn exactly or by MALA. *The same, code's
start*: the kernel is searched for from the start of the paper's code alone (0.693 for every lengthscale),
which for inputs that are not scaled may lie where the likelihood is flat. *kosambi* and *kosambi,
M = √N*: the estimators with their defaults, with the number of inducing points chosen or given. *SVGP as in
the paper*: GPyTorch, the covariance r with kernel and points of the recipe kept, three learning rates of
plain gradient descent with a third of the time limit each, the lowest final training loss kept; noise
starts at its learned value, and matrices that stay the same are computed once, which GPyTorch would do in
each step. *SVGP*: GPyTorch, Matérn-5/2 with a lengthscale for each column, everything learned by Adam
(0.01, batches of 1024) until 500 steps no longer lower the loss by 0.001, or the time limit; M = √N or M =
512 (N where that is less)."""


def regression(found: Found) -> str:
    """Markdown of the regressions."""
    likelihoods = ("gaussian", "student_t")
    notes = (
        "The target has training mean 0 and standard deviation 1. NLL is the mean negative log predictive density, "
        "noise and uncertainty of f integrated; CRPS is closed for Gaussian noise and from 2,000 draws for Student-t. "
        "Conformal intervals are corrected on the validation rows. *exact GP*: Matérn-5/2, by its marginal "
        "likelihood, up to "
        "2,500 training rows. The narrowest intervals are bold whatever they cover."
    )
    parts = [_LEGEND, _METHODS, notes, _settings(found)]
    for likelihood in likelihoods:
        parts += [_metric(found, REGRESSION, likelihood, name, title) for name, title in NUMBERS.items()]
        parts += [_metric(found, REGRESSION, likelihood, name, title) for name, title in WIDTHS.items()]
    parts += [_seconds(found, REGRESSION, likelihood) for likelihood in likelihoods]
    return _joined([*parts, *verdicts.regression(found)])


def classification(found: Found) -> str:
    """Markdown of the classifications."""
    notes = (
        "GPyTorch's labels have a probit link, kosambi's a logit one. *scikit-learn GP*: Laplace's approximation, one "
        "lengthscale, up to 2,500 training rows; it and logistic regression have standardised inputs. 723 of the 1,025 "
        "rows of heart occur several times, so that test rows are among the training rows."
    )
    parts = [_LEGEND, _METHODS, notes, _settings(found)]
    parts += [_metric(found, CLASSIFICATION, "bernoulli", name, title) for name, title in SHARES.items()]
    parts.append(_seconds(found, CLASSIFICATION, "bernoulli"))
    return _joined([*parts, *verdicts.classification(found)])


def _settings(found: Found) -> str:
    """The time limit and the subsets that were used, and whether some methods have fewer splits."""
    limits = sorted({float(cell["limit"]) for cell in found.values() if isinstance(cell.get("limit"), int | float)})
    subsets = sorted({int(cell["subsets"]) for cell in found.values() if isinstance(cell.get("subsets"), int)})
    parts = []
    if limits:
        parts.append(f"Time limit of a fit by SVGP: {' or '.join(f'{limit:g}' for limit in limits)} s.")
    if subsets:
        parts.append(
            "The recipe's kernel of a large data set is averaged over "
            f"{' or '.join(map(str, subsets))} subsets of neighbours (in the paper 10, for labels 5)."
        )
    if found and not any(name.split("-")[0] in ("energy_heating", "diabetes") for name in found):
        parts.append(
            "This is the quick scale: fewer data sets, two splits, one for Student-t noise and for two of the rivals. "
            "Differences between methods with different splits mean little."
        )
    return " ".join(parts)


def _joined(parts: list[str]) -> str:
    return "\n\n".join(part.strip() for part in parts if part.strip()) + "\n"


def _metric(found: Found, names: tuple[str, ...], likelihood: str, metric: str, title: str) -> str:
    rows = {name: _row(found, name, likelihood, metric) for name in names}
    rows = {name: row for name, row in rows.items() if row}
    if not rows:
        return ""
    methods = [method for method in LABELS if any(method in row for row in rows.values())]
    marks = _marks(rows, metric)
    has_printed = any(printed(name, likelihood, metric) for name in rows)
    head = ["data", *(["paper: PLS", "paper: SVGP"] if has_printed else []), *(LABELS[method] for method in methods)]
    lines = []
    for name, row in rows.items():
        cells = [_plain(name)]
        if has_printed:
            both = printed(name, likelihood, metric)
            cells += [_number(p.mean, p.deviation, metric) for p in both] if both else ["–", "–"]
        best = _best(row, list(row), metric)
        for method in methods:
            if method not in row:
                cells.append("–")
                continue
            spread = deviation(row[method]) if len(row[method]) > 1 else None
            text = _number(mean(row[method]), spread, metric)
            text = f"**{text}**" if method == best else text
            cells.append(text + marks.get((name, method), "") + _coverage(found, name, likelihood, method, metric))
        lines.append(cells)
    return f"### {title}, {NOISE[likelihood]}\n\n{_markdown(head, lines)}"


def _row(found: Found, data: str, likelihood: str, metric: str) -> dict[str, Values]:
    row = {method: values(found, data, likelihood, method, metric) for method in LABELS}
    return {method: some for method, some in row.items() if some}


def _marks(rows: dict[str, dict[str, Values]], metric: str) -> dict[tuple[str, str], str]:
    """Stars of kosambi against its best rival, under (data set, method)."""
    tests = []
    for name, row in rows.items():
        rival = _best(row, [method for method in RIVALS if method in row], metric)
        if rival is None or "kosambi" not in row:
            continue
        gap = difference(row["kosambi"], row[rival])
        if gap is not None and gap.number > 1:
            sign = -1.0 if metric in LARGER_IS_BETTER else 1.0
            tests.append((name, "kosambi" if sign * gap.mean < 0 else rival, gap.p_value))
    corrected = holm([p for _, _, p in tests])
    return {(name, method): stars(p).replace("*", "\\*") for (name, method, _), p in zip(tests, corrected, strict=True)}


def _best(row: dict[str, Values], among: list[str], metric: str) -> str | None:
    if not among:
        return None
    sign = -1.0 if metric in LARGER_IS_BETTER else 1.0
    return min(among, key=lambda method: sign * mean(row[method]))


def _coverage(found: Found, data: str, likelihood: str, method: str, metric: str) -> str:
    if metric not in WIDTHS:
        return ""
    some = values(found, data, likelihood, method, metric.replace("width", "coverage"))
    return f", {100 * mean(some):.0f}" if some else ""


def _number(centre: float, spread: float | None, metric: str) -> str:
    digits = 2 if metric in LARGER_IS_BETTER or "width" in metric else 3
    return f"{centre:.{digits}f} ({'–' if spread is None else f'{spread:.{digits}f}'})"


def _seconds(found: Found, names: tuple[str, ...], likelihood: str) -> str:
    """Seconds of a fit, and how many times as long the variational fits take."""
    rows = {name: _row(found, name, likelihood, "seconds") for name in names}
    rows = {name: row for name, row in rows.items() if row}
    if not rows:
        return ""
    methods = [method for method in LABELS if any(method in row for row in rows.values())]
    pairs = [("svgp", "kosambi_root"), ("svgp_512", "kosambi"), ("svgp_paper", "faithful")]
    head = ["data", "M of kosambi", *(LABELS[method] for method in methods)]
    head += [f"{LABELS[slow]} / {LABELS[fast]}" for slow, fast in pairs]
    lines = []
    for name, row in rows.items():
        number = values(found, name, likelihood, "kosambi", "M")
        cells = [_plain(name), f"{mean(number):.0f}" if number else "–"]
        for method in methods:
            stopped = values(found, name, likelihood, method, "converged")
            late = " ⏱" if stopped and not all(stopped.values()) and method.startswith("svgp") else ""
            cells.append(f"{mean(row[method]):.1f}{late}" if method in row else "–")
        for slow, fast in pairs:
            ratio = speed(found, name, likelihood, slow, fast)
            cells.append("–" if ratio is None else f"{ratio:.2g}")
        lines.append(cells)
    title = f"### Seconds of a fit, {NOISE[likelihood]}"
    legend = (
        "From a cold start, compilation included, on one core each where the machine has several; learning of the "
        "recipe's hyperparameters counts for both methods that use them. ⏱: at least one split was stopped by the time "
        "limit. Seconds may be means over several machines; ratios are of the splits that both methods did on the "
        "same kind of machine; above 1: kosambi is faster. With its defaults kosambi was timed on a GPU that fifteen "
        "fits shared, each with one core: its seconds are far above those of a machine of its own."
    )
    return f"{title}\n\n{legend}\n\n{_markdown(head, lines)}"


def _plain(name: str) -> str:
    return name.replace("_", " ")


def _markdown(head: list[str], lines: list[list[str]]) -> str:
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows)
