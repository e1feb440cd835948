"""Posteriors with several modes: shares of the modes and the evidence, beside tempered SMC and MALA.

python -m benchmarks.modes --out modes.json [--seeds 0 1 2] [--problems bounded changing large shift] [--smc 3]

* bounded, changing, large: counts with the squared link, f bounded away from zero or with sign changes. f and −f are
  equally probable, so the share of particles that are positive at one input is ½; `Tempering` does not use that here.
  "worst" is how far the minimum below a particle is above the lowest one, in nats.
* shift: y shifted by s for all data or for none (s = 15σ): log-odds in closed form.

BlackJAX's `adaptive_tempered_smc` has as many particles and as many gradients: its MALA steps at each temperature are
as many as make up for the number of temperatures, which 20 steps at each tell beforehand; it is run for as many seeds
as `--smc` says.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

import kosambi as ko
from reproduction.store import describe

# Rows, inducing points, whether f changes its sign, lengthscale.
SQUARES = {
    "bounded": (300, 12, False, 1.0),
    "changing": (300, 20, True, 1.0),
    "large": (600, 24, True, 0.7),
    "largest": (1000, 32, True, 0.5),
    "largest bounded": (1000, 12, False, 1.0),
}
ODDS = (-2.0, 0.0, 0.8, 3.0)


def squared_link(num_rows: int, num_inducing: int, changes: bool, lengthscale: float) -> ko.Target:
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(-3.0, 3.0, (num_rows, 1)), axis=0)
    f = 2.0 * np.sin(1.2 * x[:, 0]) if changes else 2.5 + np.sin(1.5 * x[:, 0])
    prior = ko.GaussianProcess(ko.kernels.SquaredExponential(lengthscale, variance=6.0))
    points = x[ko.inducing.greedy_variance(prior, x, num_inducing)]
    counts = rng.poisson(f**2).astype(float)
    return ko.Target(ko.PointBasis(prior, points), ko.likelihoods.Poisson("square"), x, counts)


def shift(log_odds: float) -> tuple[ko.Target, float]:
    """Data half-way between both modes, with the probability of a shift that gives these log-odds."""
    rng = np.random.default_rng(1)
    noise, size = 0.1, 1.5
    x = np.linspace(-2.0, 2.0, 40)[:, None]
    prior = ko.GaussianProcess(ko.kernels.SquaredExponential(0.8, variance=1.0))
    basis = ko.PointBasis(prior, x[::4])
    psi = np.asarray(basis.whitened_mean(x))
    covariance = psi @ psi.T + noise**2 * np.eye(40)
    y = rng.multivariate_normal(np.zeros(40), covariance) * 0.3 + 0.5 * size
    normal = stats.multivariate_normal(np.zeros(40), covariance)
    without = normal.logpdf(y - size) - normal.logpdf(y)
    # N log(α/(1 − α)) + log-odds of the data = what is wanted.
    alpha = 1.0 / (1.0 + np.exp(-(log_odds - without) / 40.0))
    return ko.Target(basis, ko.likelihoods.ShiftMixture(size, alpha, noise), x, y), log_odds


def positive(target: ko.Target, w: np.ndarray) -> np.ndarray:
    f = w @ np.asarray(target.basis.whitened_mean(target.x)).T
    return f[:, np.argmax(np.mean(np.abs(f), axis=0))] > 0


def smc(key: Any, target: ko.Target, num_particles: int, num_steps: int) -> tuple[np.ndarray, int]:
    """BlackJAX: adaptive temperatures, MALA steps of a length that suits the posterior; particles and temperatures."""
    import blackjax
    import blackjax.smc.resampling as resampling

    def log_likelihood(w: Any) -> Any:
        return -target.term.value(w[None])[0]

    def log_prior(w: Any) -> Any:
        return -0.5 * jnp.sum(jnp.square(w))

    curvature = np.linalg.eigvalsh(np.asarray(target.whitened_curvature(jnp.asarray(np.ones(target.shape)))))
    sampler = blackjax.adaptive_tempered_smc(
        log_prior,
        log_likelihood,
        blackjax.mala.build_kernel(),
        blackjax.mala.init,
        {"step_size": jnp.asarray([1.0 / float(curvature[-1])])},
        resampling.systematic,
        target_ess=0.7,
        num_mcmc_steps=num_steps,
    )
    key_start, key_run = jax.random.split(key)
    state = sampler.init(jax.random.normal(key_start, (num_particles, int(np.prod(target.shape)))))
    step, rounds = jax.jit(sampler.step), 0
    while state.tempering_param < 1.0 and rounds < 200:
        state, _ = step(jax.random.fold_in(key_run, rounds), state)
        rounds += 1
    return np.asarray(state.particles), rounds


def squares(name: str, seeds: list[int], num_smc: int) -> dict[str, Any]:
    target = squared_link(*SQUARES[name])
    found: dict[str, list[Any]] = {"tempering": [], "smc": []}
    rounds = 1
    if num_smc:
        with jax.enable_x64(True):
            _, rounds = smc(jax.random.key(0), target, 200, 20)
    seconds, gradients, worst = [], [], []
    smc_seconds, smc_gradients = [], []
    for seed in seeds:
        began = time.perf_counter()
        particles, report = ko.sample(
            jax.random.key(seed), target, ko.samplers.Tempering(symmetry=False), num_particles=200, progress=False
        )
        seconds.append(time.perf_counter() - began)
        gradients.append(report.gradient_evaluations)
        found["tempering"].append(int(positive(target, np.asarray(particles.whitened)).sum()))
        potentials = ko.Posterior(target, particles, report).modes().potentials
        worst.append(float(np.max(potentials) - np.min(potentials)))
        if len(smc_seconds) == num_smc:
            continue
        with jax.enable_x64(True):
            began = time.perf_counter()
            drawn, now = smc(jax.random.key(seed), target, 200, max(1, report.gradient_evaluations // rounds))
        found["smc"].append(int(positive(target, drawn).sum()))
        smc_seconds.append(time.perf_counter() - began)
        smc_gradients.append(now * max(1, report.gradient_evaluations // rounds))
    total = int(np.sum(found["tempering"]))
    return {
        "positive of 200 by seed": found["tempering"],
        "p (two-sided binomial)": float(stats.binomtest(total, 200 * len(seeds)).pvalue),
        "smc, positive of 200 by seed": found["smc"],
        "smc, seconds": [round(s, 1) for s in smc_seconds],
        "smc, gradients a particle": smc_gradients,
        "seconds": [round(s, 1) for s in seconds],
        "gradients a particle": gradients,
        "worst": max(worst),
        "swap rate at least": float(np.min(report.ladder.swap_rates)),
        "temperatures": len(report.ladder.betas),
        "barrier": report.ladder.barrier,
        "log evidence": [report.ladder.log_evidence.value, report.ladder.log_evidence.standard_error],
    }


def shifts() -> dict[str, Any]:
    found = {}
    for wanted in ODDS:
        target, closed = shift(wanted)
        sampler = ko.samplers.Tempering(max_iterations=100_000)
        particles, report = ko.sample(jax.random.key(0), target, sampler, num_particles=5000, progress=False)
        f = np.asarray(particles.whitened) @ np.asarray(target.basis.whitened_mean(target.x)).T
        share = float(np.mean(np.mean(f, axis=1) < 0.0))
        found[f"{wanted}"] = {
            "log-odds": float(np.log(share / (1.0 - share))),
            "closed": closed,
            "seconds": report.seconds,
        }
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=None)
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(10)))
    parser.add_argument("--smc", type=int, default=3)
    parser.add_argument("--problems", nargs="+", default=[*SQUARES, "shift"])
    arguments = parser.parse_args()
    results: dict[str, Any] = {"machine": describe("blackjax")}
    for name in arguments.problems:
        results[name] = shifts() if name == "shift" else squares(name, arguments.seeds, arguments.smc)
        print(name, json.dumps(results[name]), flush=True)
        if arguments.out is not None:
            arguments.out.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
