"""Several outputs: against dense NumPy, and beside one fit for each output on energy (heating and cooling loads).

python -m benchmarks.outputs --out outputs.json [--splits 5] [--averages]

* dense: mean, joint covariance and evidence of a linear model of coregionalisation with missing cells, given
  hyperparameters, and the same by NumPy from one matrix of all observed cells: largest differences.
* energy: 768 rows, two targets of the same eight inputs, random 90/10 splits. The mean over test rows of the joint log
  density of both targets, in nats, of the two outputs together, and of a fit for each: with the most probable
  hyperparameters (as the outputs together have), and with --averages also averaged over them, which takes minutes.
  "half": half of the training rows lack one of the two outputs, which one is left to chance.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path

import jax
import numpy as np

import kosambi as ko
from benchmarks import problems
from reproduction.store import describe

NAMES = ("energy_heating", "energy_cooling")


def dense() -> dict[str, float]:
    """Largest differences from NumPy."""
    generator, k = np.random.default_rng(0), ko.kernels
    x, new = generator.normal(size=(60, 2)), generator.normal(size=(20, 2))
    y = np.column_stack([np.sin(x[:, 0]), np.cos(x[:, 1]), x[:, 0]]) + 0.2 * generator.normal(size=(60, 3))
    y[generator.uniform(size=y.shape) < 0.3] = np.nan
    loadings = generator.normal(size=(3, 2))
    shared = k.Coregionalization(loadings, [0.1, 0.2, 0.3]) * k.Matern52([1.0, 2.0], active_dims=[0, 1])
    kernel = shared + k.Coregionalization([[0.5], [-0.4], [0.1]]) * k.SquaredExponential(0.7, active_dims=[0, 1])
    noise = np.array([0.1, 0.2, 0.4])
    posterior = ko.infer(jax.random.key(0), kernel, ko.likelihoods.Gaussian(noise), x, y, num_inducing="all")
    joint = ko.outputs.predict(posterior, new)
    # By NumPy, from the definition.
    at = [(n, p) for n in range(60) for p in range(3) if not np.isnan(y[n, p])]
    observed = np.array([y[cell] for cell in at])

    def covariance(first: list[tuple[np.ndarray, int]], second: list[tuple[np.ndarray, int]]) -> np.ndarray:
        return np.array([[_covariance(loadings, *one, *other) for other in second] for one in first])

    cells = [(x[n], p) for n, p in at]
    gram = covariance(cells, cells) + np.diag(noise[[p for _, p in at]] ** 2)
    mean, within = np.empty((20, 3)), np.empty((20, 3, 3))
    for i, row in enumerate(new):
        wanted = [(row, p) for p in range(3)]
        cross = covariance(wanted, cells)
        mean[i] = cross @ np.linalg.solve(gram, observed)
        within[i] = covariance(wanted, wanted) - cross @ np.linalg.solve(gram, cross.T)
    sign, determinant = np.linalg.slogdet(gram)
    evidence = -0.5 * (observed @ np.linalg.solve(gram, observed) + determinant + len(at) * np.log(2.0 * np.pi))
    assert sign > 0
    return {
        "mean": float(np.max(np.abs(joint.mean - mean))),
        "covariance": float(np.max(np.abs(joint.latent_covariance - within))),
        "evidence": abs(float(posterior.log_evidence) - float(evidence)),
    }


def _covariance(loadings: np.ndarray, x: np.ndarray, p: int, z: np.ndarray, q: int) -> float:
    distance = np.sqrt(5.0 * np.sum(((x - z) / np.array([1.0, 2.0])) ** 2))
    matern = (1.0 + distance + distance**2 / 3.0) * np.exp(-distance)
    own = (0.1, 0.2, 0.3)[p] if p == q else 0.0
    other = (0.5, -0.4, 0.1)[p] * (0.5, -0.4, 0.1)[q] * np.exp(-0.5 * np.sum((x - z) ** 2) / 0.49)
    return float((loadings[p] @ loadings[q] + own) * matern + other)


def energy(split: int, lacks: bool, alone: tuple[str, ...]) -> dict[str, object]:
    """Scores of one split."""
    (x, heating), (other, cooling) = (problems.read(name) for name in NAMES)
    assert np.array_equal(x, other)
    y, generator = np.column_stack([heating, cooling]), np.random.default_rng(split)
    order = generator.permutation(len(x))
    test, train = order[: len(x) // 10], order[len(x) // 10 :]
    seen = y[train].copy()
    if lacks:
        some = generator.permutation(len(train))[: len(train) // 2]
        seen[some, generator.integers(0, 2, len(some))] = np.nan
    found: dict[str, object] = {"split": split, "half": lacks}
    for name in alone:
        began, total = time.perf_counter(), np.zeros(len(test))
        for p in range(2):
            own = ~np.isnan(seen[:, p])
            model = ko.ProjectedLangevinRegressor(hyperparameters=name).fit(x[train][own], seen[own, p])
            total += model.predict_log_density(x[test], y[test, p])
        found[f"alone, {name}"], found[f"alone, {name}, seconds"] = float(total.mean()), time.perf_counter() - began
    began = time.perf_counter()
    model = ko.ProjectedLangevinRegressor().fit(x[train], seen)
    found["together"] = float(model.predict_log_density(x[test], y[test]).mean())
    found["together, seconds"] = time.perf_counter() - began
    found["errors"] = np.sqrt(np.mean(np.square(model.predict(x[test]) - y[test]), axis=0)).tolist()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("outputs.json"))
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--averages", action="store_true")
    options = parser.parse_args()
    alone = ("evidence", "average") if options.averages else ("evidence",)
    result: dict[str, object] = {**describe(), "dense": dense(), "energy": []}
    print("largest differences from NumPy:", result["dense"], flush=True)
    missing = [name for name in NAMES if not problems.is_available(name)]
    for name in missing:
        print(problems.where_to_get(name))
    rows: list[dict[str, object]] = []
    keys, cases = [*(f"alone, {name}" for name in alone), "together"], {False: "all cells", True: "half of the rows"}
    for split in range(options.splits) if not missing else ():
        for lacks, case in cases.items():
            with warnings.catch_warnings():
                # Noise at its bound, for example; scores are what counts here.
                warnings.simplefilter("ignore")
                rows.append(energy(split, lacks, alone))
            text = ", ".join(f"{key} {rows[-1][key]:.3f} ({rows[-1][f'{key}, seconds']:.0f} s)" for key in keys)
            print(f"split {split}, {case}: {text}", flush=True)
    for lacks, case in cases.items() if rows else ():
        own = np.array([[row[key] for key in keys] for row in rows if row["half"] == lacks])
        for key, column in zip(keys, own.T, strict=True):
            gain = own[:, -1] - column
            print(
                f"{case}, {key}: {column.mean():.3f} nats a row; together better by {gain.mean():.3f} ± "
                f"{gain.std() / np.sqrt(max(len(gain) - 1, 1)):.3f}, in {int(np.sum(gain > 0))} of {len(gain)} splits"
            )
    result["energy"] = rows
    options.out.write_text(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
