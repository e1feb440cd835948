"""When draws agree with a reference, references to agree with, and how many steps a linear diffusion would take."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import kosambi as ko

MEAN_TOLERANCE = 0.15
DEVIATION_TOLERANCE = 0.10


class Gap(NamedTuple):
    """The largest difference over all latent values."""

    mean: float
    """In standard deviations of the reference."""
    deviation: float
    """Of the standard deviation, relative to that of the reference."""

    @property
    def agrees(self) -> bool:
        return self.within(1.0, 1.0)

    def within(self, mean_part: float, deviation_part: float) -> bool:
        """Whether it takes no more than these parts of what is tolerated."""
        return self.mean <= mean_part * MEAN_TOLERANCE and self.deviation <= deviation_part * DEVIATION_TOLERANCE


class Latents(NamedTuple):
    """Means and standard deviations of f(x_n) less the prior mean, (N,) each."""

    means: np.ndarray
    deviations: np.ndarray

    @staticmethod
    def of(target: ko.Target, whitened: np.ndarray) -> Latents:
        values = whitened @ target.basis.whitened_mean(target.x).T
        return Latents(values.mean(axis=0), values.std(axis=0, ddof=1))

    def gap(self, reference: Latents) -> Gap:
        mean = np.abs(self.means - reference.means) / reference.deviations
        return Gap(float(mean.max()), float(np.abs(self.deviations / reference.deviations - 1.0).max()))


def reference(target: ko.Target, num_particles: int = 2000, rounds: int = 5) -> tuple[Latents, Gap]:
    """Metropolis-adjusted draws pooled over rounds that continue each other, and how far their halves differ.

    Each round is a converged run by itself, with an adaptation of its own, so that rounds are as good as independent;
    the first only serves to begin the second.
    """
    initial, pooled = None, []
    for key in jax.random.split(jax.random.key(100), rounds):
        particles, report = ko.sample(key, target, ko.samplers.MALA(), num_particles, initial=initial, progress=False)
        assert report.converged, "the reference has not converged"
        initial = particles.coordinates
        pooled.append(particles.whitened)
    half = (rounds + 1) // 2
    first, second = (Latents.of(target, np.concatenate(part)) for part in (pooled[1:half], pooled[half:]))
    return Latents.of(target, np.concatenate(pooled[1:])), first.gap(second)


def nuts(target: ko.Target, num_chains: int = 4, num_draws: int = 1000, num_warmup: int = 500) -> Latents:
    """BlackJAX's NUTS in whitened coordinates, knowing nothing but the potential."""
    import blackjax

    deviations = np.sqrt(target.basis.eigenvalues)

    def log_density(w: jax.Array) -> jax.Array:
        return -target.potential(w * deviations)

    def chain(key: jax.Array, start: jax.Array) -> jax.Array:
        warmup_key, key = jax.random.split(key)
        warmup = blackjax.window_adaptation(blackjax.nuts, log_density, is_mass_matrix_diagonal=False)
        (state, parameters), _ = warmup.run(warmup_key, start, num_warmup)
        step = blackjax.nuts(log_density, **parameters).step

        def one(state, key):  # type: ignore[no-untyped-def]
            state = step(key, state)[0]
            return state, state.position

        return jax.lax.scan(one, state, jax.random.split(key, num_draws))[1]

    with jax.enable_x64(True):
        start_key, key = jax.random.split(jax.random.key(200))
        starts = jax.random.normal(start_key, (num_chains, target.basis.size))
        # One after the other: side by side every chain would wait for the longest trajectory.
        run = jax.jit(lambda keys, starts: jax.lax.map(lambda pair: chain(*pair), (keys, starts)))
        draws = run(jax.random.split(key, num_chains), jnp.asarray(starts))
    return Latents.of(target, np.asarray(draws).reshape(-1, target.basis.size))


class LinearDiffusion:
    """Euler-Maruyama on the Laplace law, whose means and variances after k steps are known in closed form.

    Gives estimates only: the posterior is not normal, and far from the mode it pulls differently.
    """

    def __init__(self, target: ko.Target) -> None:
        modes = ko.target.find_modes(jax.random.key(0), target)
        self.mode = ko.samplers.Particles.from_whitened(target, modes.positions[:1]).coordinates[0]
        # The Hessian in u: w = u @ inverse_root, and in w it is (A Aᵀ)⁻¹.
        whitener = np.linalg.solve(modes.roots[0], target.inverse_root.T)
        self.rates, axes = np.linalg.eigh(whitener.T @ whitener)
        self.starts = {"normal": np.eye(len(axes)), "prior": axes.T @ target.basis.covariance @ axes}
        self.functions = target.basis.conditional_mean(target.x) @ axes
        self.distance = self.mode @ axes
        self.newton_iterations = int(modes.iterations[0])

    @property
    def slowest_time(self) -> float:
        return float(1.0 / self.rates[0])

    def steps_to_agree(self, step: float, start: str, num_particles: int, at_most: float = 1e8) -> int | None:
        """The first number of steps, to 3 %, whose law agrees with the Laplace law; None when bias forbids it."""
        # Two standard errors are left for the noise of the particles, of which the law itself has none.
        error = np.sqrt(1.0 / num_particles)
        room = 1.0 - 2.0 * error / MEAN_TOLERANCE, 1.0 - np.sqrt(2.0) * error / DEVIATION_TOLERANCE
        if step * self.rates[-1] >= 2.0:
            return None
        law = Latents(self.functions @ self.distance, np.sqrt(self.functions**2 @ (1.0 / self.rates)))
        if not self._after(int(at_most), step, start).gap(law).within(*room):
            return None
        for num_steps in np.unique(np.geomspace(1.0, at_most, 600).astype(int)):
            if self._after(int(num_steps), step, start).gap(law).within(*room):
                return int(num_steps)
        return None

    def _after(self, num_steps: int, step: float, start: str) -> Latents:
        kept = (1.0 - step * self.rates) ** num_steps
        # 2h(1 + r² + r⁴ + ...) with r = 1 − hκ; as the number of steps grows, 1/(κ(1 − hκ/2)).
        noise = (1.0 - kept**2) / (self.rates * (1.0 - 0.5 * step * self.rates))
        covariance = kept[:, None] * self.starts[start] * kept + np.diag(noise)
        variances = np.sum((self.functions @ covariance) * self.functions, axis=1)
        return Latents(self.functions @ ((1.0 - kept) * self.distance), np.sqrt(variances))
