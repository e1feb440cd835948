"""The estimators' defaults on all data sets of the paper, against what docs/results says of an earlier version.

python -m benchmarks.against_results --out against.json [--splits 5] [--only boston] [--jobs 1]

Gaussian and Student-t noise for the regression sets, labels for the others; splits of the protocol, each fit in a new
process with nothing compiled. Test NLL (log loss) of the standardised target, coverage of plain 95 % intervals, seconds
of a fit, and the difference from the same split in `docs/results/*.json` (the method "kosambi", defaults).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from kosambi import ProjectedLangevinClassifier, ProjectedLangevinRegressor
from reproduction.comparison.data import load
from reproduction.store import describe

RESULTS = Path(__file__).parents[1] / "docs" / "results"


def cases() -> dict[tuple[str, str], dict[int, float]]:
    """The score of each split by data set and likelihood, as the results have it."""
    found: dict[tuple[str, str], dict[int, float]] = {}
    for experiment, score in (("regression", "nll"), ("classification", "log_loss")):
        for cell in json.loads((RESULTS / f"{experiment}.json").read_text())["cells"].values():
            what = cell["arguments"]
            if what.get("method") == "kosambi":
                key = what["data"], what["likelihood"]
                found.setdefault(key, {})[what["seed"]] = cell["result"][score]
    return dict(sorted(found.items()))


def measured(name: str, likelihood: str, seed: int) -> dict[str, float]:
    """A fit of one split."""
    split = load(name, seed)
    train, test = split.train, split.test
    is_binary = likelihood == "bernoulli"
    model: Any = ProjectedLangevinClassifier() if is_binary else ProjectedLangevinRegressor(likelihood)
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(train.x, train.y)
    found = {"seconds": time.perf_counter() - began, "rows": float(len(train.y))}
    found["nll"] = -float(np.mean(model.predict_log_density(test.x, test.y)))
    if not is_binary:
        found["nll"] -= float(np.log(np.std(train.y)))
        low, high = model.predict_interval(test.x, 0.95)
        found["coverage"] = float(np.mean((low <= test.y) & (test.y <= high)))
    return found


def in_new_process(*case: object) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.against_results", "--one", *map(str, case)]
    environment = os.environ | {"KOSAMBI_COMPILATION_CACHE": "off"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--only", nargs="+", default=[], help="data sets; all when none are named")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        name, likelihood, seed = options.one
        print(json.dumps(measured(name, likelihood, int(seed))))
        return
    result: dict[str, Any] = describe() | {"fits": {}}
    with ThreadPoolExecutor(options.jobs) as pool:
        for (name, likelihood), before in cases().items():
            if options.only and name not in options.only:
                continue
            seeds = sorted(before)[: options.splits]
            found = list(pool.map(lambda seed, case=(name, likelihood): in_new_process(*case, seed), seeds))
            result["fits"][f"{name} {likelihood}"] = dict(zip(seeds, found, strict=True))
            away = np.array([each["nll"] - before[seed] for seed, each in zip(seeds, found, strict=True)])
            error = np.std(away, ddof=1) / np.sqrt(len(away)) if len(away) > 1 else np.nan
            means = {key: np.mean([each.get(key, np.nan) for each in found]) for key in ("nll", "coverage", "seconds")}
            print(
                f"{name:<16}{likelihood:<11}NLL {means['nll']:8.4f}  {np.mean(away):+.4f} ± {error:.4f}, most "
                f"{np.max(away):+.4f}  coverage {means['coverage']:.3f}  {means['seconds']:.1f} s",
                flush=True,
            )
    if options.out:
        options.out.write_text(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
