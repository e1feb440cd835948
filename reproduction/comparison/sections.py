"""Lists beside the tables: kosambi and the exact process, the code of the paper, the sampler of the paper."""

from __future__ import annotations

from reproduction.comparison.paper import printed
from reproduction.comparison.plan import cell_name
from reproduction.comparison.statistics import Values, difference, mean, values
from reproduction.experiment import Found

Setting = tuple[str, str]
"""Data set and likelihood."""
NOISE = {"gaussian": "Gaussian", "student_t": "Student-t", "bernoulli": "Bernoulli"}
CODE = {
    "moments": "normal distribution with the moments of 100 draws",
    "noise": "the same, noise variance taken as its standard deviation and one draw shared by all rows",
    "joint": "moments of draws from the clipped joint matrix with the test rows in the support",
    "published": "all of these, as the code predicts",
    "published_tempered": "as the code predicts, tempered with twice the optimal factor",
    "published_conformal": "as the code predicts, conformal",
}
"""Steps from sound predictions to those of the paper's code; the first three are none that it makes."""


def say(setting: Setting) -> str:
    """Data set and likelihood in words."""
    data, likelihood = setting
    kind = "" if likelihood == "bernoulli" else f" ({NOISE[likelihood]})"
    return data.replace("_", " ") + kind


def beside_exact(found: Found, settings: list[Setting]) -> str:
    """What inducing points and another way to learn cost, where the exact process can be had."""
    lines = []
    for data, likelihood in settings:
        if likelihood != "gaussian":
            continue
        gap = difference(
            values(found, data, likelihood, "kosambi", "nll"), values(found, data, likelihood, "exact", "nll")
        )
        if gap is not None:
            error = f" ± {gap.error:.3f}" if gap.number > 1 else ""
            lines.append(f"- {say((data, likelihood))}: {gap.mean:+.3f}{error}")
    if not lines:
        return ""
    return "### kosambi minus exact GP: NLL with standard error\n\n" + "\n".join(lines)


def code_values(found: Found, data: str, likelihood: str, metric: str, method: str = "faithful") -> dict[str, Values]:
    """Scores of the published code's predictions from the recipe's draws, by variant and split."""
    cells = {
        seed: found[name]["code"]
        for seed in range(100)
        if (name := cell_name(data, likelihood, method, seed)) in found and "code" in found[name]
    }
    return {
        variant: some
        for variant in CODE
        if (some := {seed: v for seed, code in cells.items() if (v := code.get(variant, {}).get(metric)) is not None})
    }


def num_undefined(found: Found, setting: Setting, metric: str, method: str, variant: str) -> int:
    """Splits in which the code's number is not one: a density with standard deviation zero."""
    cells = [found.get(cell_name(*setting, method, seed), {}).get("code", {}).get(variant, {}) for seed in range(100)]
    return sum(metric in cell and cell[metric] is None for cell in cells)


def beside_code(found: Found, settings: list[Setting]) -> str:
    """Where the paper's figures come from: sound predictions, then those of its code, step by step."""
    head = ["data", "paper: PLS", "sound", *(name.replace("_", " ") for name in CODE)]
    lines = []
    for data, likelihood in settings:
        both, sound = printed(data, likelihood, "nll"), values(found, data, likelihood, "faithful", "nll")
        variants = code_values(found, data, likelihood, "nll")
        if not sound or both is None or not variants:
            continue
        shown = [_shown(found, (data, likelihood), v, variants.get(v, {})) for v in CODE]
        lines.append([say((data, likelihood)), f"{both[0].mean:.3f} ({both[0].deviation:.3f})", f"{mean(sound):.3f}"])
        lines[-1] += shown
    if not lines:
        return ""
    legend = "; ".join(f"*{name.replace('_', ' ')}*: {text}" for name, text in CODE.items())
    rows = [head, ["---"] * len(head), *lines]
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return (
        "### Predictions of the paper's code from the same draws: NLL\n\n"
        f"*Sound* is the column of the recipe above. {legend}. For Student-t noise the code leaves out the spread of "
        "the posterior, except in conformal intervals; its tempering was not computed for it. Which of the last three "
        "feeds the paper's table is not recorded. *Undefined*: the interval that the code takes a standard deviation "
        "from has width 0 in some splits. Where NLL is in the hundreds the learned noise is at the smallest that "
        f"GPyTorch allows (a standard deviation of 0.01), and plain intervals cover next to nothing.\n\n{table}"
    )


def diffusions(found: Found, settings: list[Setting], metric: str) -> str:
    """How the paper's sampler fared, or why it was not run."""
    lines = []
    for data, likelihood in settings:
        cell = found.get(cell_name(data, likelihood, "euler", 0))
        if cell is None:
            continue
        sound = values(found, data, likelihood, "faithful", metric).get(0)
        if metric in cell:
            how = "exact draws" if likelihood == "gaussian" else "MALA"
            beside = "" if sound is None else f", {sound:.3f} by {how}"
            # With few steps there are too few snapshots for an R̂.
            checked = "" if cell.get("r_hat") is None else f"; nested R̂ {cell['r_hat']:.3f}"
            lines.append(
                f"- {say((data, likelihood))}: {cell['steps']:,} steps of {cell['step_size']:.3g} in "
                f"{cell['seconds']:.1f} s, {metric.replace('_', ' ')} {cell[metric]:.3f}{beside}{checked}"
            )
        else:
            lines.append(f"- {say((data, likelihood))}: not run, {cell['why_not']}")
    if not lines:
        return ""
    return (
        "### The paper's sampler on the recipe's posterior\n\nEuler-Maruyama for T = 0.5 with the largest stable of "
        "the five step sizes of the paper's code, first split.\n\n" + "\n".join(lines)
    )


def _shown(found: Found, setting: Setting, variant: str, some: Values) -> str:
    undefined = num_undefined(found, setting, "nll", "faithful", variant)
    if undefined:
        return f"undefined in {undefined} of {undefined + len(some)}"
    return _short(mean(some)) if some else "–"


def _short(value: float) -> str:
    """Three digits after the point, unless there are too many before it.

    >>> _short(1.23456), _short(2.1e21)
    ('1.235', '2e+21')
    """
    return f"{value:.3f}" if abs(value) < 1e4 else f"{value:.0e}"
