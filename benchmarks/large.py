"""Many rows: kosambi's neighbours beside GPyTorch's sparse variational process and GPBoost, and how cost grows with N.

python -m benchmarks.large --out large.json [--tables rivals growth] [--only kin40k] [--methods kosambi svgp ...]

* rivals: kin40k, protein, covtype (two classes), nycflights (Student-t noise) and bike_hour (counts, negative
  binomial), nine tenths of the rows (`default_rng(0).permutation`) and as many test rows as are left, 4000 at most.
  kosambi: the estimators with their defaults. coordinates: the same without neighbours, where `--methods` names it.
  svgp: GPyTorch's with 1024 points (`reproduction.comparison.variational`), which has as long as kosambi took in this
  run, or `--limit` seconds. GPBoost: its Vecchia approximation, and the one with inducing points
  (`gp_approx="full_scale_vecchia"`), Matérn-5/2 with a lengthscale for each column, defaults otherwise; it takes no
  limit of time, and is stopped after `--patience` times as long. Each in a new process with nothing compiled: seconds
  of the fit, test NLL of the standardised target (of the counts as they are), RMSE or share of wrong labels, coverage
  of 95 % intervals, highest memory.
* growth: kosambi's defaults on simulated data with eight columns, N from 10³ to 10⁶: seconds, memory, the slope of
  log seconds over log N above 10⁴, and a picture beside the JSON.

Rivals that are not installed are left out, and named.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import resource
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import scipy.stats

import kosambi as ko
from benchmarks.learning import LARGE, measure, rows_of
from kosambi import ProjectedLangevinRegressor
from kosambi.calibration import label_scores, number_scores
from reproduction.comparison import variational
from reproduction.comparison.data import Part
from reproduction.comparison.scores import normal_latent
from reproduction.store import describe

METHODS = {
    "kosambi": "kosambi",
    "coordinates": "kosambi",
    "svgp": "gpytorch",
    "gpboost_vecchia": "gpboost",
    "gpboost_vif": "gpboost",
}
"""What is compared, and the package that it needs."""
USUAL = [method for method in METHODS if method != "coordinates"]
CASES = (*LARGE, ("nycflights", "student_t"), ("bike_hour", "negative_binomial"))
POINTS = 1024
"""Of the sparse variational process."""
GPBOOST = {
    "labels": "bernoulli_logit",
    "gaussian": "gaussian",
    "student_t": "t",
    "negative_binomial": "negative_binomial",
}
"""Its names of the likelihoods."""
APPROXIMATIONS = {"gpboost_vecchia": "vecchia", "gpboost_vif": "full_scale_vecchia"}
NODES = 200
"""Values of f in a prediction with Student's noise."""
GROWTH = (1_000, 10_000, 100_000, 1_000_000)
COLUMNS, NOISE = 8, 0.3


def split(name: str) -> tuple[Part, Part]:
    """Training and test rows, as `benchmarks.learning` has them, with standardised columns."""
    x, y = rows_of(name)
    order = np.random.default_rng(0).permutation(len(y))
    number = int(0.9 * len(y))
    train, test = order[:number], order[number : number + 4000]
    mean, deviation = x[train].mean(axis=0), x[train].std(axis=0)
    x = (x - mean) / np.where(deviation > 0, deviation, 1.0)
    return Part(x[train], y[train]), Part(x[test], y[test])


def rival(name: str, likelihood: str, method: str, limit: float) -> dict[str, Any]:
    """Seconds and scores of another library."""
    train, test = split(name)
    is_binary, is_count = likelihood == "labels", likelihood == "negative_binomial"
    location, scale = (0.0, 1.0) if is_binary or is_count else (float(np.mean(train.y)), float(np.std(train.y)))
    train = Part(train.x, (train.y - location) / scale)
    target = (test.y - location) / scale
    began = time.perf_counter()
    if method == "svgp":
        noise = "bernoulli" if is_binary else likelihood
        variational.use_same_machine()
        trained = variational.as_practitioner(train, noise, POINTS, 0, limit)
        seconds = time.perf_counter() - began
        found = variational.predictor(trained, noise)(test.x)
        if is_binary:
            return {"seconds": seconds, **of_labels(np.asarray(found.probability), target)}
        if is_count:
            return {"seconds": seconds, "nll": -float(np.mean(found.log_density(target)))}
        scores = number_scores(target, found.mean, found.log_density(target), found.interval(0.95))
        return {"seconds": seconds, **renamed(scores)}
    import gpboost

    model = gpboost.GPModel(
        gp_coords=train.x,
        cov_function="matern_ard",
        cov_fct_shape=2.5,
        likelihood=GPBOOST[likelihood],
        gp_approx=APPROXIMATIONS[method],
    )
    model.fit(y=train.y)
    seconds = time.perf_counter() - began
    if is_count or likelihood == "student_t":
        latent = model.predict(gp_coords_pred=test.x, predict_var=True, predict_response=False)
        numbers = model.get_aux_pars(format_pandas=False)
    if is_count:
        # Its number is the size r of a variance μ + μ²/r.
        counts = ko.likelihoods.NegativeBinomial(1.0 / float(numbers[0]))
        found = normal_latent(counts, latent["mu"], np.sqrt(latent["var"]))
        return {"seconds": seconds, "nll": -float(np.mean(found.log_density(target)))}
    if likelihood == "student_t":
        noise, degrees = numbers
        return {"seconds": seconds, **of_tails(latent["mu"], np.sqrt(latent["var"]), noise, degrees, target)}
    found = model.predict(gp_coords_pred=test.x, predict_var=not is_binary, predict_response=True)
    if is_binary:
        return {"seconds": seconds, **of_labels(np.asarray(found["mu"]), target)}
    return {"seconds": seconds, **of_numbers(np.asarray(found["mu"]), np.sqrt(found["var"]), target)}


def of_numbers(mean: np.ndarray, deviation: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Scores of normal predictions."""
    half = scipy.stats.norm.ppf(0.975) * deviation
    density = scipy.stats.norm.logpdf(y, mean, deviation)
    return renamed(number_scores(y, mean, density, (mean - half, mean + half)))


def of_tails(mean: np.ndarray, deviation: np.ndarray, noise: float, degrees: float, y: np.ndarray) -> dict[str, float]:
    """Scores of normal predictions of f under Student's noise, by a mixture of `NODES` values of f for each row."""
    nodes = scipy.stats.norm.ppf((np.arange(NODES) + 0.5) / NODES)
    values = mean[:, None] + deviation[:, None] * nodes
    density = np.log(np.mean(scipy.stats.t.pdf(y[:, None], degrees, values, noise), axis=1))

    def quantile(level: float) -> np.ndarray:
        reach = np.abs(scipy.stats.t.ppf(level, degrees, scale=noise)) + 10.0 * deviation
        low, high = mean - reach, mean + reach
        for _ in range(60):
            middle = 0.5 * (low + high)
            is_below = np.mean(scipy.stats.t.cdf(middle[:, None], degrees, values, noise), axis=1) < level
            low, high = np.where(is_below, middle, low), np.where(is_below, high, middle)
        return high

    return renamed(number_scores(y, mean, density, (quantile(0.025), quantile(0.975))))


def renamed(found: dict[str, Any]) -> dict[str, float]:
    """Scores of real numbers by the names that are used here."""
    return {ours: found[name].value for ours, name in (("nll", "nll"), ("error", "rmse"), ("coverage", "coverage"))}


def of_labels(chance: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Scores of probabilities of the larger of two labels."""
    found = label_scores((y == np.max(y)).astype(int), np.stack([1.0 - chance, chance], axis=1))
    return {"nll": found["log_loss"].value, "error": 1.0 - found["accuracy"].value}


def grown(number: int) -> dict[str, Any]:
    """A fit of so many simulated rows: a smooth function of eight columns, a draw from a process, and noise."""
    generator = np.random.default_rng(0)
    x = generator.uniform(-1.0, 1.0, (number + 2000, COLUMNS))
    # A thousand random waves with the spectrum of a squared exponential kernel.
    waves, phases = generator.normal(size=(COLUMNS, 1000)), generator.uniform(0.0, 2.0 * np.pi, 1000)
    f = np.concatenate([np.cos(part @ waves + phases) @ np.full(1000, np.sqrt(2e-3)) for part in np.array_split(x, 64)])
    y = f + NOISE * generator.normal(size=len(f))
    model = ProjectedLangevinRegressor()
    began = time.perf_counter()
    model.fit(x[:number], y[:number])
    seconds = time.perf_counter() - began
    mean, deviation = model.predict(x[number:], return_std=True)
    return {
        "rows": number,
        "seconds": seconds,
        "points": model.posterior_.basis.size,
        "neighbors": getattr(model.posterior_.target.neighborhood, "num_neighbors", 0),
        **of_numbers(mean, deviation, y[number:]),
        "error_of_f": float(np.sqrt(np.mean(np.square(mean - f[number:])))),
    }


def one(case: list[str]) -> dict[str, Any]:
    """What a new process measures."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if case[0] == "growth":
            found = grown(int(case[1]))
        elif METHODS[case[2]] == "kosambi":
            found = measure(case[0], case[1], 10**9, 1, n_neighbors="auto" if case[2] == "kosambi" else 0)[0]
        else:
            found = rival(case[0], case[1], case[2], float(case[3]))
    return found | {"gigabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20}


def in_new_process(*case: object, most: float | None = None) -> dict[str, Any]:
    """What `one` measures, in `most` seconds."""
    command = [sys.executable, "-m", "benchmarks.large", "--one", *map(str, case)]
    environment = os.environ | {"KOSAMBI_COMPILATION_CACHE": "off"}
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=most)
    except subprocess.TimeoutExpired:
        return {"failed": f"not ended after {most:.0f} s"}
    if done.returncode:
        return {"failed": done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"exit {done.returncode}"}
    return json.loads(done.stdout.splitlines()[-1])


def draw_growth(found: list[dict[str, Any]], path: Path) -> None:
    """Seconds and memory over N, both logarithmic."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.0, 3.2), layout="constrained")
    rows = [each["rows"] for each in found]
    for axes, what in zip(figure.subplots(1, 2), ("seconds", "gigabytes"), strict=True):
        axes.loglog(rows, [each[what] for each in found], "o-")
        axes.set(xlabel="rows", ylabel=what)
        axes.grid(which="both", alpha=0.3)
    figure.savefig(path, dpi=150)


def compare(options: argparse.Namespace) -> list[dict[str, Any]]:
    """All methods on all data sets."""
    results = []
    for name, likelihood in [case for case in CASES if options.only in case[0]]:
        limit = options.limit
        # First, because it says how long SVGP may take.
        for method in sorted(options.methods, key=list(METHODS).index):
            if importlib.util.find_spec(METHODS[method]) is None:
                print(f"{name:<10}{method:<17}left out: pip install {METHODS[method]}", flush=True)
                continue
            if method == "svgp" and not limit:
                print(f"{name:<10}{method:<17}left out: `--limit`, or a fit of kosambi, says how long", flush=True)
                continue
            most = options.patience * limit if METHODS[method] == "gpboost" and limit else None
            found = {"data": name, "method": method} | in_new_process(name, likelihood, method, limit, most=most)
            results.append(found)
            if "failed" in found:
                print(f"{name:<10}{method:<17}failed: {found['failed']}", flush=True)
                continue
            if method == "kosambi" and options.limit == 0.0:
                limit = found["seconds"]
            error = found.get("error", np.nan)
            print(
                f"{name:<10}{method:<17}{found['seconds']:8.1f} s  NLL {found['nll']:8.4f}  error {error:.4f} "
                f" coverage {found.get('coverage', np.nan):.3f}  {found['gigabytes']:.1f} GB",
                flush=True,
            )
    return results


def grow(options: argparse.Namespace) -> dict[str, Any]:
    """Cost against N."""
    found = []
    for number in [number for number in GROWTH if number <= options.most]:
        found.append(in_new_process("growth", number))
        print(found[-1], flush=True)
    done = [each for each in found if "failed" not in each]
    large = [(np.log(each["rows"]), np.log(each["seconds"])) for each in done if each["rows"] >= 10_000]
    slope = float(np.polyfit(*np.array(large).T, 1)[0]) if len(large) > 1 else np.nan
    print(f"log seconds over log N above 10^4: {slope:.2f}")
    if options.out and done:
        draw_growth(done, options.out.with_suffix(".png"))
    return {"fits": found, "slope": slope}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--tables", nargs="+", default=["rivals", "growth"], choices=["rivals", "growth"])
    parser.add_argument("--only", default="", help="data sets with this in their name")
    parser.add_argument("--methods", nargs="+", default=USUAL, choices=list(METHODS))
    parser.add_argument("--limit", type=float, default=0.0, help="seconds of svgp; as many as kosambi took when 0")
    parser.add_argument("--patience", type=float, default=3.0, help="how many times as long GPBoost may take")
    parser.add_argument("--most", type=int, default=GROWTH[-1], help="rows of the largest fit of the growth")
    parser.add_argument("--one", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(one(options.one)))
        return
    result: dict[str, Any] = describe()
    if "rivals" in options.tables:
        result["rivals"] = compare(options)
    if "growth" in options.tables:
        result["growth"] = grow(options)
    if options.out:
        options.out.write_text(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
