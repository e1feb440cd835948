"""How long until the answer is there? kosambi beside GPyTorch's sparse variational process with as many points.

python -m benchmarks.rivals --out rivals.json [--only concrete] [--seeds 1] [--limit 60]

On the data of the paper, with M = √N points for both. kosambi: the estimators with their defaults but for the number of
points, from a cold start, all compilation counted. SVGP: as in `reproduction.comparison.variational`, with its stopping
rule and time limit; counted until it first has its own final test NLL plus 0.01, scored every 50 steps, which is not
counted. Each pair is run in one new process, one after the other, and the ratio is of these two.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from reproduction.comparison import methods, scores, variational
from reproduction.comparison.data import CLASSIFICATION, REGRESSION, load, standardised
from reproduction.store import describe

CLOSE = 0.01
"""Nats per observation from its final NLL at which SVGP counts as done."""
CASES = [(data, noise) for data in REGRESSION for noise in ("gaussian", "student_t")]
CASES += [(data, "bernoulli") for data in CLASSIFICATION]


def race(data: str, likelihood: str, seed: int, limit: float) -> dict[str, Any]:
    """Seconds and test NLL of both."""
    split = load(data, seed)
    methods._import_all("svgp")
    number = methods.root(split)
    key = "log_loss" if likelihood == "bernoulli" else "nll"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        own = methods.measure(data, likelihood, "kosambi_root", seed)
        path = variational_path(split, likelihood, number, seed, limit, key)
    seconds, values = np.array(path).T
    return {
        "data": data,
        "likelihood": likelihood,
        "seed": seed,
        "M": number,
        "kosambi_seconds": own["seconds"],
        "kosambi_nll": own[key],
        "svgp_seconds": float(seconds[np.argmax(values <= values[-1] + CLOSE)]),
        "svgp_all_seconds": float(seconds[-1]),
        "svgp_nll": float(values[-1]),
    }


def variational_path(
    split: Any, likelihood: str, number: int, seed: int, limit: float, key: str
) -> list[tuple[float, float]]:
    """Seconds of training, and the test NLL then."""
    train, test = standardised(split).train, split.test
    mean, deviation = split.train.x.mean(axis=0), split.train.x.std(axis=0)
    new = (test.x - mean) / np.where(deviation > 0, deviation, 1.0)
    path: list[tuple[float, float]] = []

    def look(seconds: float, trained: variational.Trained) -> None:
        found = variational.predictor(trained, likelihood)(new)
        if likelihood == "bernoulli":
            value = scores.of_labels(methods._probability(found), test.y)[key]
        else:
            value = -float(np.mean(found.log_density(test.y)))
        path.append((seconds, value))

    began = time.perf_counter()
    variational.as_practitioner(train, likelihood, number, seed, limit, look)
    if not path:
        raise RuntimeError(f"SVGP took no {variational.WATCHED} steps in {time.perf_counter() - began:.0f} s.")
    return path


def in_new_process(*case: Any) -> dict[str, Any]:
    """With nothing compiled, and no cache on disk."""
    command = [sys.executable, "-m", "benchmarks.rivals", "--one", *map(str, case)]
    environment = os.environ | {"KOSAMBI_COMPILATION_CACHE": "off"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", default="", help="data sets with this in their name")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--limit", type=float, default=60.0)
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        data, likelihood, seed, limit = options.one
        print(json.dumps(race(data, likelihood, int(seed), float(limit))))
        return
    result: dict[str, Any] = describe() | {"limit": options.limit, "races": []}
    for data, likelihood in [case for case in CASES if options.only in case[0]]:
        for seed in range(options.seeds):
            found = in_new_process(data, likelihood, seed, options.limit)
            result["races"].append(found)
            own, other = found["kosambi_seconds"], found["svgp_seconds"]
            print(
                f"{data:<15}{likelihood:<11}M {found['M']:>3}  kosambi {own:6.1f} s {found['kosambi_nll']:8.4f}   "
                f"SVGP {other:6.1f} s (of {found['svgp_all_seconds']:.0f}) {found['svgp_nll']:8.4f}   "
                f"ratio {other / own:.2f}",
                flush=True,
            )
    for title, kinds in (("Gaussian", ("gaussian",)), ("others", ("student_t", "bernoulli"))):
        ratios = [r["svgp_seconds"] / r["kosambi_seconds"] for r in result["races"] if r["likelihood"] in kinds]
        if ratios:
            mean = float(np.exp(np.mean(np.log(ratios))))
            print(f"{title}: SVGP / kosambi {mean:.2f} (geometric mean of {len(ratios)})")
            result[f"ratio_{title.lower()}"] = mean
    if options.out:
        options.out.write_text(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
