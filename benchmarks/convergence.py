"""Gradients and seconds until draws agree with a reference: sampler "auto" beside the paper's Euler-Maruyama.

python -m benchmarks.convergence --out convergence.json

Draws agree when, with J particles, the mean of every latent value f(x_n) is within 0.15 standard deviations of the
reference and its standard deviation within 10 %. With J = 1000, Monte Carlo noise is 0.03 and 2 % for one value, and
stays inside those limits for the largest of thousands. The reference is 8000 Metropolis-adjusted draws from a run that
goes on long after convergence; on the synthetic problem it is checked against BlackJAX's NUTS.

"auto" is run as it comes, five times: it stops by its own diagnostic, and whether its draws agree then is counted.
Numbers are medians, seconds those of runs that find everything compiled. Its search for the mode is in the seconds.

Euler-Maruyama begins at the paper's standard normal coordinates, or at the prior where that diverges. It is run at
several parts of its stable limit, in stretches that grow geometrically, each looked at for agreement, which
a second run of as many steps at one go must confirm; that one gives the seconds, and the best step size counts. This
favours it: nobody has the reference to stop by. Long steps inflate
variances by 1/(1 − hκ/2) in directions of curvature κ, so steps near the limit are often too biased. Where time runs
out, how far the most promising step got is a lower bound, marked >. "estimate" is never a measurement: the steps that
the same diffusion would take on the Laplace law, where they have a closed form; about a logarithm of the distance from
start to mode times 1/(hκ) for the smallest κ.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import jax
import numpy as np

import kosambi as ko
from benchmarks import problems
from benchmarks.agreement import DEVIATION_TOLERANCE, MEAN_TOLERANCE, Latents, LinearDiffusion, nuts, reference
from reproduction.store import describe

PARTS_OF_LIMIT = (0.8, 0.4, 0.3, 0.2, 0.1)
STARTS = ("normal", "prior")
FIRST_STRETCH, GROWTH = 16, 0.25
AUTO_RUNS = 5
# Of the time left, for each step in turn: the first is the most promising one.
FIRST_SHARE = 2 / 3


def run_auto(target: ko.Target, truth: Latents, num_particles: int) -> dict[str, Any]:
    gradients, seconds, gaps = [], [], []
    for key in jax.random.split(jax.random.key(1), AUTO_RUNS):
        particles, report = ko.sample(key, target, "auto", num_particles, progress=False)
        gradients.append(report.gradient_evaluations)
        seconds.append(report.seconds)
        gaps.append(Latents.of(target, particles.whitened).gap(truth))
    return {
        "sampler": report.sampler,
        "gradients": float(np.median(gradients)),
        "gradients_of_each": gradients,
        # The first run compiles.
        "first_seconds": seconds[0],
        "seconds": float(np.median(seconds[1:])),
        "agreed": sum(gap.agrees for gap in gaps),
        "runs": AUTO_RUNS,
        "largest_mean_gap": max(gap.mean for gap in gaps),
        "largest_deviation_gap": max(gap.deviation for gap in gaps),
    }


def diffuse(
    key: jax.Array, target: ko.Target, step: float, num_steps: int, initial: Any, num_particles: int
) -> tuple[ko.samplers.Particles, Any]:
    sampler = ko.samplers.EulerMaruyama(step, num_steps, initial=initial)
    with warnings.catch_warnings():
        # Stretches are too short to converge by themselves, and agreement is judged here.
        warnings.simplefilter("ignore", ko.errors.ConvergenceWarning)
        return ko.sample(key, target, sampler, num_particles, progress=False)


def try_step(
    target: ko.Target, truth: Latents, step: float, start: str, num_particles: int, seconds: float, at_most: float
) -> dict[str, Any]:
    """Steps until agreement, or as many as fit into `seconds` and into `at_most`, more than which is of no use."""
    key, initial, steps, begun = jax.random.key(2), start, 0, time.perf_counter()
    found: dict[str, Any] = {"step": step, "start": start, "agrees": False, "diverged": False}
    worked = 0.0
    while (left := seconds - (time.perf_counter() - begun)) > 0 and steps < at_most:
        stretch = max(FIRST_STRETCH, int(GROWTH * steps))
        stretch = int(min(stretch, at_most - steps, left * steps / worked + 1 if worked else stretch))
        try:
            particles, report = diffuse(jax.random.fold_in(key, steps), target, step, stretch, initial, num_particles)
        except ko.errors.DivergenceError:
            return found | {"diverged": True, "steps": steps + stretch}
        steps, initial = steps + stretch, particles.coordinates
        worked += report.seconds - report.compile_seconds
        gap = Latents.of(target, particles.whitened).gap(truth)
        found |= {"steps": steps, "mean_gap": gap.mean, "deviation_gap": gap.deviation}
        # Many looks will meet luck sooner or later, so the same steps have to agree with other noise as well.
        if gap.agrees:
            particles, report = diffuse(jax.random.key(steps), target, step, steps, start, num_particles)
            found["agrees"] = Latents.of(target, particles.whitened).gap(truth).agrees
        if found["agrees"]:
            return found | {"seconds": report.seconds - report.compile_seconds}
    return found | {"seconds": worked}


def run_euler_maruyama(
    target: ko.Target, truth: Latents, linear: LinearDiffusion, num_particles: int, budget: float
) -> dict[str, Any]:
    limit = ko.samplers.EulerMaruyama().stable_limit(target, linear.mode)
    estimates = {part: linear.steps_to_agree(part * limit, STARTS[0], num_particles) for part in PARTS_OF_LIMIT}
    # The most promising first: the others then need not go on for longer than it took.
    order = sorted(PARTS_OF_LIMIT, key=lambda part: estimates[part] or np.inf)
    tries, at_most, end = [], np.inf, time.perf_counter() + budget
    for i, part in enumerate(order):
        for start in STARTS:
            left = end - time.perf_counter()
            share = left if i + 1 == len(order) else FIRST_SHARE * left
            found = try_step(target, truth, part * limit, start, num_particles, share, at_most)
            tries.append(found | {"part_of_limit": part, "estimate": estimates[part]})
            if not found["diverged"]:
                break
        if found["agrees"]:
            at_most = found["steps"] - 1
    return summarise(tries) | {"stable_limit": limit, "slowest_time": linear.slowest_time, "tries": tries}


def summarise(tries: list[dict[str, Any]]) -> dict[str, Any]:
    """The best step that agrees; where none does, how far the most promising one got."""
    agreeing = [one for one in tries if one["agrees"]]
    if agreeing:
        best = min(agreeing, key=lambda one: one["steps"])
        return {"agrees": True, "gradients": best["steps"], "seconds": best["seconds"], "best": best}
    alive = [one for one in tries if not one["diverged"] and "steps" in one]
    best = min(alive or tries, key=lambda one: one["estimate"] or np.inf)
    reached = (
        {"gradients": best["steps"], "seconds": best["seconds"]} if alive else {"gradients": None, "seconds": None}
    )
    return {"agrees": False, **reached, "best": best}


def compare(name: str, num_particles: int, budget: float) -> dict[str, Any]:
    target = problems.build(name)
    linear = LinearDiffusion(target)
    truth, halves = reference(target)
    result: dict[str, Any] = {
        "problem": name,
        "rows": len(target.y),
        "num_inducing": target.basis.size,
        "smallest_eigenvalue": float(target.basis.eigenvalues[-1]),
        "newton_iterations": linear.newton_iterations,
        "reference_halves": halves._asdict(),
    }
    if name == "synthetic":
        result["nuts"] = nuts(target).gap(truth)._asdict()
    auto = run_auto(target, truth, num_particles)
    found = run_euler_maruyama(target, truth, linear, num_particles, budget)
    estimate = found["best"]["estimate"]
    ratios: dict[str, Any] = {"is_lower_bound": not found["agrees"], "gradients": None, "seconds": None}
    if found["gradients"]:
        ratios |= {key: found[key] / auto[key] for key in ("gradients", "seconds")}
    if estimate:
        ratios["gradients_estimate"] = estimate / auto["gradients"]
        if found["gradients"]:
            ratios["seconds_estimate"] = estimate / found["gradients"] * ratios["seconds"]
    return result | {"auto": auto, "euler_maruyama": found, "ratios": ratios}


HEADER = (
    f"{'problem':<11}{'N':>5}{'M':>4}{'lambda_M':>9} |{'auto: grad':>11}{'s':>7}{'agreed':>7} |"
    f"{'EM: start':>10}{'h/limit':>8}{'grad':>9}{'s':>8}{'estimate':>10} |{'ratio: grad':>12}{'s':>7}{'estimate':>10}"
)


def row(result: dict[str, Any]) -> str:
    auto, found, ratios = result["auto"], result["euler_maruyama"], result["ratios"]
    best, sign = found["best"], "" if found["agrees"] else ">"

    def number(value: float | None, mark: str = "", digits: int = 0) -> str:
        return "-" if value is None else f"{mark}{value:.{digits}f}"

    return (
        f"{result['problem']:<11}{result['rows']:>5}{result['num_inducing']:>4}{result['smallest_eigenvalue']:>9.1e} |"
        f"{number(auto['gradients']):>11}{auto['seconds']:>7.2f}{auto['agreed']:>5}/{auto['runs']} |"
        f"{best['start']:>10}{best['part_of_limit']:>8}{number(found['gradients'], sign):>9}"
        f"{number(found['seconds'], sign, 2):>8}{number(best['estimate'], '~'):>10} |"
        f"{number(ratios['gradients'], sign, 1):>12}{number(ratios['seconds'], sign, 1):>7}"
        f"{number(ratios.get('gradients_estimate'), '~', 1):>10}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", nargs="+", choices=problems.NAMES, default=problems.NAMES)
    parser.add_argument("--budget", type=float, default=60.0, help="seconds for Euler-Maruyama, a problem")
    parser.add_argument("--num-particles", type=int, default=1000, help="far fewer would fail by noise alone")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    results = []
    print(HEADER, flush=True)
    for name in options.problems:
        if not problems.is_available(name):
            print(problems.where_to_get(name), flush=True)
            continue
        results.append(compare(name, options.num_particles, options.budget))
        print(row(results[-1]), flush=True)
        if "nuts" in results[-1]:
            print("  reference against NUTS: largest gap {mean:.3f} sd, {deviation:.1%}".format(**results[-1]["nuts"]))
    print("> lower bound: no agreement within the budget.  ~ estimate from the Laplace law, not measured;")
    print("- where its bias leaves no room for the noise of the particles, so that agreement takes some luck.")
    record = {
        "criterion": {"mean_in_deviations": MEAN_TOLERANCE, "deviation": DEVIATION_TOLERANCE},
        "num_particles": options.num_particles,
        "budget_seconds": options.budget,
        "results": results,
        **describe("blackjax"),
    }
    if options.out:
        options.out.write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
