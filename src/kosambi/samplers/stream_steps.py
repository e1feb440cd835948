r"""Metropolis steps over a stream, each of them one pass: for draws that weights cannot carry over to all rows.

The same step as `kosambi.samplers.mala`, in the frame of the mode, w = ŵ + A v:

    v' = cos θ · v − (1 − cos θ) ∇U(v) + sin θ · ξ,   U = V − ½|v|²,

written as a rotation of (v, p) between two kicks of the momentum p, and accepted with probability exp(−ΔV − ½Δ|p|²).
Particles begin at eight of those given, as many at each, so that nested R̂ sees whether they have forgotten where.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from kosambi._core.precision import host_generator
from kosambi._core.types import Key
from kosambi.samplers.convergence import nested_r_hat, r_hat_limit
from kosambi.target.host_newton import inverse_root
from kosambi.target.stream_newton import StreamMode, StreamPotential

MAX_STEPS, LEAST_STEPS = 60, 16
"""Passes at most and at least."""
_STARTS = 8
# Steps after which the angle stays, the acceptance that it is led to, and how fast.
_ADAPTED, _WANTED, _GAIN = 8, 0.7, 1.0


class Stepped(NamedTuple):
    """Where steps over a stream ended."""

    w: Float[np.ndarray, "J K"]
    r_hat: float
    limit: float
    """What R̂ may be."""
    converged: bool
    acceptance: Float[np.ndarray, " J"]
    steps: int
    energies: Float[np.ndarray, " T"]


def steps_over(
    key: Key,
    potential: StreamPotential,
    mode: StreamMode,
    w: Float[np.ndarray, "J K"],
    tell: Callable[[str], None] = lambda _: None,
) -> Stepped:
    """Steps of J particles from w until nested R̂ is within its limit, or 60 of them."""
    generator, root = host_generator(key), inverse_root(mode.factor)
    number = max(2 * _STARTS, -(-len(w) // _STARTS) * _STARTS)
    # Particle j begins where all particles of superchain j mod 8 do.
    begun = w[np.linspace(0, len(w) - 1, _STARTS).astype(int)[np.arange(number) % _STARTS]]
    v, limit = np.linalg.solve(root, (begun - mode.w).T).T, r_hat_limit(number, _STARTS)
    value, gradient = _at(potential, mode, root, v)
    angle, accepted, counted = 1.0, np.zeros(len(v)), 0
    held: list[np.ndarray] = []
    energies = [float(np.mean(value))]
    r_hat, steps = np.inf, 0
    while steps < MAX_STEPS:
        tell(f"step {steps + 1} over all rows")
        momentum = generator.normal(size=v.shape)
        kick, turn, rest = np.tan(0.5 * angle), np.sin(angle), np.cos(angle)
        pushed = momentum - kick * (gradient - v)
        moved = rest * v + turn * pushed
        turned = rest * pushed - turn * v
        other, slope = _at(potential, mode, root, moved)
        end = turned - kick * (slope - moved)
        ratio = value - other + 0.5 * np.sum((momentum - end) * (momentum + end), axis=1)
        share = np.where(np.isfinite(ratio), np.exp(np.minimum(ratio, 0.0)), 0.0)
        is_taken = generator.uniform(size=len(v)) < share
        v, gradient = (np.where(is_taken[:, None], new, old) for new, old in ((moved, v), (slope, gradient)))
        value = np.where(is_taken, other, value)
        steps += 1
        energies.append(float(np.mean(value)))
        if steps <= _ADAPTED:
            angle = float(np.clip(angle * np.exp(_GAIN * (np.mean(share) - _WANTED)), 0.01, 0.5 * np.pi))
            continue
        accepted, counted = accepted + share, counted + 1
        held.append(v)
        if steps >= LEAST_STEPS and len(held) % 2 == 0:
            # The later half, since the earlier one remembers more.
            later = np.stack(held[len(held) // 2 // 2 * 2 :], axis=1)
            r_hat = float(np.max(nested_r_hat(later, _STARTS)))
            if r_hat <= limit:
                break
    return Stepped(
        (mode.w + v @ root.T)[: len(w)],
        r_hat,
        limit,
        bool(r_hat <= limit),
        (accepted / max(counted, 1))[: len(w)],
        steps,
        np.array(energies),
    )


def _at(
    potential: StreamPotential, mode: StreamMode, root: Float[np.ndarray, "K K"], v: Float[np.ndarray, "J K"]
) -> tuple[Float[np.ndarray, " J"], Float[np.ndarray, "J K"]]:
    value, gradient = potential.values_and_gradients(mode.w + v @ root.T)
    # No direction is known where the potential is infinite.
    return value, np.where(np.isfinite(gradient), gradient, 0.0) @ root
