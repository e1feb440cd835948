"""How far steps are from the two matrix products that they consist of, on the device that there is.

python -m benchmarks.roofline --out roofline.json

For N rows, M coordinates and J particles, labels with a logit link, rows in memory of the device: milliseconds of

    products    f = wψᵀ and fψ, in a loop of known length
    gradient    V and ∇V in the frame of the mode, as MALA takes them
    langevin    a step of Euler-Maruyama, with its noise and one look at the particles for every block of steps
    mala        a step of MALA, with its noise, decision and sums for convergence

and the ratio of each to the products. `--parts` takes the largest shape to pieces. Compilation is not in the times; it
is what most of a run of this script is spent on.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import kosambi as ko
from kosambi._core.precision import lift
from kosambi.samplers import chains, segments
from kosambi.samplers.diffusion import Diffusion, begin, block_length
from kosambi.samplers.normal_frames import lifted
from kosambi.samplers.precisions import PRECISIONS, Precision
from kosambi.target.data_terms import FactorisedTerm
from reproduction.store import describe

ON_CPU = ((100, 10, 100), (2000, 64, 128), (16_384, 128, 256))
ON_ACCELERATOR = ((100, 10, 100), (8192, 128, 512), (131_072, 320, 1024))
STEP = 1e-10
COLUMNS = ("products", "gradient", "langevin", "mala")


def problem(size: tuple[int, int, int]) -> Any:
    """As much of a target as frames are made of, and its normal approximation at w = 0 in the place of a mode."""
    num_rows, num_coordinates, _ = size
    rng = np.random.default_rng(0)
    psi = rng.normal(size=(num_rows, num_coordinates)) / num_coordinates**0.5
    y = (rng.uniform(size=num_rows) < 0.5).astype(float)
    term = FactorisedTerm(ko.likelihoods.Bernoulli(), psi, y, np.zeros(num_rows), None, None, None)
    factor = np.linalg.cholesky(np.eye(num_coordinates) + 0.25 * psi.T @ psi)
    root = np.linalg.inv(factor).T
    modes = SimpleNamespace(
        positions=np.zeros((1, num_coordinates)), roots=root[None], potentials=np.array([num_rows * np.log(2.0)])
    )
    return SimpleNamespace(term=term, shape=(num_coordinates,), x=psi), modes


def best(run: Callable[[], Any], seconds: float) -> tuple[float, float]:
    """Seconds of the fastest call within a budget, and of the first, which compiles."""
    start = time.perf_counter()
    jax.block_until_ready(run())
    first, times = time.perf_counter() - start, []
    end = time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        jax.block_until_ready(run())
        times.append(time.perf_counter() - start)
    return min(times), first


def turns(size: tuple[int, int, int]) -> int:
    """Of a loop that takes some milliseconds at least."""
    return int(np.clip(2**33 // int(np.prod(size)), 4, 512))


def looped(function: Callable[[jax.Array], jax.Array], number: int) -> Callable[[jax.Array], jax.Array]:
    """The function applied to what it gave before, compiled."""

    def run(a: jax.Array) -> jax.Array:
        return jax.lax.scan(lambda a, _: (function(a), None), a, None, length=number)[0]

    return jax.jit(run)


def milliseconds(size: tuple[int, int, int], precision: Precision, seconds: float) -> dict[str, Any]:
    """All columns of one row of the table."""
    target, modes = problem(size)
    num_coordinates, num_particles = size[1:]
    number = turns(size)
    found: dict[str, Any] = {"shape": size, "precision": precision.name}
    compiling = {}
    with jax.enable_x64(True), precision.entered():
        psi = lift(target.term.psi, precision.dtype)
        w = jnp.zeros((num_particles, num_coordinates), precision.dtype)
        once = looped(lambda w: w + 1e-12 * ((w @ psi.T) @ psi), number)
        taken, compiling["products"] = best(lambda: once(w), seconds)
        found["products"] = 1e3 * taken / number

        frame = chains.padded_frame(target, modes, num_particles, precision=precision)
        found["frame"] = f"{type(frame).__name__} {getattr(frame, 'spread', frame.root).dtype}"
        frame = lifted(frame, precision)
        v = jnp.zeros((num_particles, len(frame.mode)), precision.dtype)

        def down(v: jax.Array) -> jax.Array:
            _, value, gradient = frame.value_and_gradient(v)
            return v - 1e-12 * gradient + 0.0 * value[:, None].astype(v.dtype)

        both = looped(down, number)
        taken, compiling["gradient"] = best(lambda: both(v), seconds)
        found["gradient"] = 1e3 * taken / number

        moving = Diffusion(
            lift(target.term, precision.dtype),
            jnp.ones(num_coordinates, precision.dtype),
            None,
            None,
            jnp.eye(num_coordinates, dtype=precision.dtype),
        )
        path, key = begin(moving, w), jax.random.key(0)
        blocks = int(np.clip(number / block_length(w.shape), 2, segments.MAX_BLOCKS))
        steps = np.asarray(10**9), np.asarray(blocks)
        step_size = np.asarray(STEP, precision.dtype)
        taken, compiling["langevin"] = best(lambda: segments.advance(moving, key, path, step_size, *steps), seconds)
        found["langevin"] = 1e3 * taken / (blocks * block_length(w.shape))

        sampler = _without_start(ko.samplers.MALA(step_size=0.1))
        # Filled up to eight superchains of equal size, as in a run.
        chain = jnp.zeros((-(-num_particles // 8) * 8, v.shape[1]), v.dtype)
        segment = lift(chains.begin(sampler, frame, key, chain, 8)[0])
        flags = (np.asarray(16), np.asarray(10**9), np.asarray(False), np.asarray(False))
        done: list[int] = []

        def mala() -> Any:
            moved = chains.advance(sampler, frame, key, segment, *flags)
            done.append(int(moved.step))
            return moved

        taken, compiling["mala"] = best(mala, seconds)
        found["mala"] = 1e3 * taken / done[-1]
    found["ratios"] = {name: found[name] / found["products"] for name in COLUMNS[1:]}
    found["first_call_seconds"] = compiling
    return found


def _without_start(sampler: ko.samplers.MALA) -> ko.samplers.MALA:
    import equinox as eqx

    return eqx.tree_at(lambda s: s.initial, sampler, None)


def parts(size: tuple[int, int, int], precision: Precision, seconds: float) -> Iterator[tuple[str, float]]:
    """What the products are slowed down by: slopes between them, blocks of rows, noise."""
    target, _ = problem(size)
    num_rows, num_coordinates, num_particles = size
    number = turns(size)
    with jax.enable_x64(True), precision.entered():
        term = lift(target.term, precision.dtype)
        w = jnp.zeros((num_particles, num_coordinates), precision.dtype)
        psi, y = term.psi, term.y

        def timed(function: Callable[[jax.Array], jax.Array]) -> float:
            run = looped(function, number)
            return 1e3 * best(lambda: run(w), seconds)[0] / number

        yield "first product", timed(lambda w: w + 1e-12 * (w @ psi.T)[:, :num_coordinates])
        ones = jnp.ones((num_particles, num_rows), precision.dtype)
        yield "second product", timed(lambda w: w + 1e-12 * ((ones + w[0, 0]) @ psi))
        yield "tanh between", timed(lambda w: w - 1e-12 * ((0.5 * jnp.tanh(0.5 * (w @ psi.T)) + (0.5 - y)) @ psi))
        yield "sigmoid between", timed(lambda w: w - 1e-12 * ((jax.nn.sigmoid(w @ psi.T) - y) @ psi))
        yield "gradient of the term", timed(lambda w: w - 1e-12 * term.gradient(w))
        yield "value and gradient of the term", timed(_both(term))
        for power in (22, 24, 26):

            def in_blocks(w: jax.Array, rows: int = max(1, 2**power // num_particles)) -> jax.Array:
                def one(pieces: Any) -> jax.Array:
                    block, labels = pieces
                    return (0.5 * jnp.tanh(0.5 * (w @ block.T)) + (0.5 - labels)) @ block

                # Counted in a way that no device makes larger.
                blocks = num_rows // min(rows, num_rows)
                split = (psi.reshape(blocks, -1, num_coordinates), y.reshape(blocks, -1))
                total = jax.lax.scan(lambda s, p: (s + one(p), None), jnp.zeros_like(w), split)[0]
                return w - 1e-12 * total

            if num_particles * num_rows > 2**power and num_rows % max(1, 2**power // num_particles) == 0:
                yield f"tanh, blocks of 2^{power} values", timed(in_blocks)
        shape = (16, *w.shape)
        noise = jax.jit(lambda key: jax.random.normal(key, (int(np.prod(shape)),), jnp.float32).reshape(shape))
        key = jax.random.key(0)
        yield "noise of a step", 1e3 * best(lambda: noise(key), seconds)[0] / 16


def _both(term: FactorisedTerm) -> Callable[[jax.Array], jax.Array]:
    def down(w: jax.Array) -> jax.Array:
        value, gradient = term.value_and_gradient(w)
        return w - 1e-12 * gradient + 0.0 * value[:, None]

    return down


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=0.3, help="length of one timing")
    parser.add_argument("--precisions", default="tf32,float32,float64", help="which, with commas between")
    parser.add_argument("--shape", action="append", help="N,M,J in the place of the usual ones; may be repeated")
    parser.add_argument("--parts", action="store_true", help="also take the last shape to pieces")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    usual = ON_CPU if jax.default_backend() == "cpu" else ON_ACCELERATOR
    shapes = [tuple(map(int, text.split(","))) for text in options.shape] if options.shape else usual
    record: dict[str, Any] = {"rows": [], "parts": {}, "device": str(jax.devices()[0]), **describe()}
    print(f"{record['device']}, JAX {jax.__version__}; milliseconds, and ratios to the two products")
    print(f"{'N, M, J':>20} {'precision':>9}", *(f"{name:>16}" for name in COLUMNS), "  frame, seconds to compile")
    for size in shapes:
        for name in options.precisions.split(","):
            row = milliseconds(size, PRECISIONS[name], options.seconds)  # type: ignore[arg-type]
            record["rows"].append(row)
            cells = [f"{row['products']:16.4f}"]
            cells += [f"{row[column]:9.4f} {row['ratios'][column]:5.2f}x" for column in COLUMNS[1:]]
            spent = sum(row["first_call_seconds"].values())
            text = ", ".join(map(str, size))
            print(f"{text:>20} {name:>9}", *cells, f"  {row['frame']}, {spent:.1f}", flush=True)
    for name in options.precisions.split(",") if options.parts else ():
        print(f"{shapes[-1]}, {name}:")
        record["parts"][name] = {}
        for what, taken in parts(shapes[-1], PRECISIONS[name], options.seconds):  # type: ignore[arg-type]
            record["parts"][name][what] = taken
            print(f"  {what:34} {taken:9.4f}", flush=True)
    if options.out:
        options.out.write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
