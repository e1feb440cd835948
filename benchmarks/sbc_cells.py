"""The cells of `benchmarks.sbc`: every likelihood, every sampler and every exact form, and what must be rejected."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import kosambi as ko
from benchmarks.sbc_models import MODELS, NEAR, ROWS
from benchmarks.sbc_ranks import Cell

sm = ko.samplers
ALL = len(ROWS)
PROCESS = {"num_inducing": 0, "num_neighbors": ALL}
"""No coordinates: all rows inform every input."""
SOME_POINTS = {"inducing_points": ROWS[::3], "num_neighbors": ALL}
SHORT = sm.EulerMaruyama(0.01, 6000, preconditioned=True, initial="laplace")
"""Steps whose bias is a few hundredths of a variance where the posterior is narrowest."""
BATCHES = sm.StochasticGradient(4, num_steps=100, metropolis=True)
ELSEWHERE = ("Gaussian", "Poisson, square", "ShiftMixture")
"""Likelihoods whose first sampler is another than MALA."""


def _cells() -> dict[str, Cell]:
    cells = {f"mala: {name}": Cell(model) for name, model in MODELS.items() if name not in ELSEWHERE}
    cells |= {
        "exact: Gaussian": Cell(MODELS["Gaussian"], "exact"),
        "exact: Gaussian, a noise for each row": Cell(MODELS["Gaussian, a noise for each row"], "exact"),
        "exact: no coordinates, all rows near": Cell(MODELS["Gaussian"], "exact", options=PROCESS),
        "exact: 4 points, all rows near": Cell(MODELS["Gaussian"], "exact", options=SOME_POINTS),
        "exact: Matheron's rule": Cell(MODELS["Gaussian"], "exact", method="matheron"),
        "mala: Gaussian": Cell(MODELS["Gaussian"]),
        "mala: Matheron's rule, Gamma": Cell(MODELS["Gamma"], method="matheron"),
        "tempering: Poisson, square": Cell(MODELS["Poisson, square"], "tempering"),
        "tempering: ShiftMixture": Cell(MODELS["ShiftMixture"], "tempering"),
        "tempering: Bernoulli": Cell(MODELS["Bernoulli"], "tempering"),
        "tempering: HeteroscedasticGaussian": Cell(MODELS["HeteroscedasticGaussian"], "tempering"),
        "auto: ShiftMixture": Cell(MODELS["ShiftMixture"], "auto"),
        "mala: optimal potential, Bernoulli": Cell(MODELS["Bernoulli"], options={"potential": "optimal"}),
        "mala: float32, Bernoulli": Cell(MODELS["Bernoulli"], options={"precision": "float32"}),
        "exact: 6 rows after 6 others": Cell(MODELS["Gaussian"], "exact", first=6),
        "mala: 6 rows after 6 others, Poisson": Cell(MODELS["Poisson"], first=6),
    }
    for name in ("Bernoulli", "StudentT", "Exponential", "Categorical"):
        cells[f"hmc: {name}"] = Cell(MODELS[name], "hmc")
    for name in ("Bernoulli", "Gaussian"):
        cells[f"euler_maruyama: {name}"] = Cell(MODELS[name], SHORT)
    for name in ("Bernoulli", "Poisson"):
        cells[f"stochastic_gradient: {name}"] = Cell(MODELS[name], BATCHES)
    for basis in ("ritz", "nystrom", "inducing"):
        cells[f"mala: {basis} basis, Bernoulli"] = Cell(MODELS["Bernoulli"], basis=basis)
        cells[f"mala: near inputs, {basis} basis, Bernoulli"] = Cell(MODELS["Bernoulli"], basis=basis, inputs=NEAR)
    cells |= {
        "exact: near inputs, Gaussian": Cell(MODELS["Gaussian"], "exact", inputs=NEAR),
        "exact: near inputs, no coordinates": Cell(MODELS["Gaussian"], "exact", options=PROCESS, inputs=NEAR),
        "exact: near inputs, 4 points, all rows near": Cell(
            MODELS["Gaussian"], "exact", options=SOME_POINTS, inputs=NEAR
        ),
        "exact: near inputs, Matheron's rule": Cell(MODELS["Gaussian"], "exact", method="matheron", inputs=NEAR),
        "mala: near inputs, Bernoulli": Cell(MODELS["Bernoulli"], inputs=NEAR),
    }
    return cells


def halved(key: Any, posterior: ko.Posterior) -> ko.Posterior:
    """Draws with half of their distance from the mean."""
    del key
    w = np.asarray(posterior.particles.whitened)
    return _with(posterior, 0.5 * (w + w.mean(axis=0)))


def laplace(key: Any, posterior: ko.Posterior) -> ko.Posterior:
    """Draws of the normal approximation at the mode."""
    modes_key, noise_key = jax.random.split(key)
    modes = ko.target.find_modes(modes_key, posterior.target)
    noise = np.random.default_rng(np.asarray(jax.random.key_data(noise_key)))
    roots = np.asarray(modes.roots[0])
    return _with(posterior, modes.positions[0] + noise.normal(size=(posterior.num_particles, len(roots))) @ roots.T)


def one_sign(key: Any, posterior: ko.Posterior) -> ko.Posterior:
    """Draws of one of two modes that differ by the sign of f."""
    del key
    w = np.asarray(posterior.particles.whitened)
    mean = np.mean(w @ np.asarray(posterior.basis.whitened_mean(ROWS)).T, axis=1)
    return _with(posterior, w * np.sign(mean)[:, None])


def _with(posterior: ko.Posterior, w: np.ndarray) -> ko.Posterior:
    return ko.Posterior(posterior.target, sm.Particles.from_whitened(posterior.target, w), posterior.report)


def without_residual(key: Any, posterior: ko.Posterior, x: np.ndarray) -> np.ndarray:
    """What the coordinates say of f at the rows and the new input, and nothing else."""
    del key
    mean = np.asarray(posterior.prior.mean_at(x))
    w = np.asarray(posterior.particles.whitened)
    return (mean + w @ np.asarray(posterior.basis.whitened_mean(x)).T)[..., None]


def apart(key: Any, posterior: ko.Posterior, x: np.ndarray) -> np.ndarray:
    """Functions with the value of another one at the new input: right marginals, wrong joint distribution."""
    values = np.array(posterior.functions(key)(x))
    values[:, -1] = np.roll(values[:, -1], 1)
    return values[..., None]


class TooLoud(sm.MALA):
    """Steps of a fixed length with noise 1.3 times too large, always accepted."""

    def _step(self, key: Any, frame: Any, state: Any) -> Any:
        step_key, noise_key = jax.random.split(key)
        moved, info = super()._step(step_key, frame, state._replace(potential=jnp.full_like(state.potential, jnp.inf)))
        more = np.sqrt(1.3**2 - 1.0) * jnp.sin(state.step_size) * jax.random.normal(noise_key, state.v.shape)
        v = moved.v + more.astype(state.v.dtype)
        _, value, slope = frame.value_and_gradient(v)
        return moved._replace(v=v, potential=value, gradient=slope - v), info

    def adapt(self, frame: Any, state: Any, info: Any) -> Any:
        del frame, info
        return state

    def retuned(self, state: Any) -> Any:
        del state

    def needs_more_adaptation(self, acceptance: float, step_size: float) -> bool:
        del acceptance, step_size
        return False


def _changed(model: str, change: Callable[..., Any], sampler: Any = "mala") -> Cell:
    return Cell(MODELS[model], sampler, change=change)


CELLS: dict[str, Cell] = _cells()
APPROXIMATE: dict[str, Cell] = {
    f"{what}: {name}": Cell(MODELS[name], sampler, options=options)
    for what, sampler, options in (
        ("4 points, projected", "mala", {"inducing_points": ROWS[::3], "potential": "projected"}),
        ("4 points, optimal", "mala", {"inducing_points": ROWS[::3], "potential": "optimal"}),
        ("4 points, all rows near", "mala", SOME_POINTS),
        ("no coordinates, all rows near", "exact", PROCESS),
    )
    for name in ("Bernoulli", "StudentT")
}
"""What is not exact by design; ranks say how far off it is here."""
WRONG: dict[str, Cell] = {
    "noise 1.3 times too large": Cell(MODELS["Gaussian"], "exact", likelihood=ko.likelihoods.Gaussian(0.65)),
    "noise 1.3 times too large, Student t": Cell(MODELS["StudentT"], likelihood=ko.likelihoods.StudentT(3.0, 0.52)),
    "prior variance twice too large": Cell(MODELS["Gaussian"], "exact", variance=2.0),
    "counts taken for Poisson ones": Cell(MODELS["NegativeBinomial"], likelihood=ko.likelihoods.Poisson()),
    "half of the posterior deviation": _changed("Bernoulli", halved),
    "functions without the residual": Cell(MODELS["Gaussian"], "exact", values=without_residual),
    "values at two inputs from different draws": Cell(MODELS["Bernoulli"], values=apart, inputs=NEAR),
    "normal approximation at the mode": _changed("Exponential", laplace),
    "one mode of two": _changed("Poisson, square", one_sign, sm.MALA(max_steps=200)),
    "Euler-Maruyama, long steps": Cell(MODELS["Bernoulli"], sm.EulerMaruyama(0.3, 500, preconditioned=True)),
    "Euler-Maruyama, stopped early": Cell(
        MODELS["Bernoulli"], sm.EulerMaruyama(0.02, 25, preconditioned=True, initial="prior")
    ),
    "noise of steps 1.3 times too large": Cell(MODELS["Exponential"], TooLoud(step_size=1.4)),
}
