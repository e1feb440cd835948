"""A fit of a stream that is killed at random moments, beside one that is not: the same draws, and what it costs.

    python -m benchmarks.interrupted_stream --rows 500000 --task bernoulli --inducing 64 --kills 5

Rows are those of `benchmarks.stream`, and hyperparameters are given, so that nearly all of the time is that of passes.
A process fits with a checkpoint and is killed (SIGKILL) at a random moment; a second one makes the same call and ends.
`lost` is how much longer the two took together than a fit that nobody stopped, which includes importing and compiling
once more, and reading the rows before the place where the pass goes on.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

FIT = """
import resource, sys, time
import numpy as np
import kosambi as ko
from benchmarks.stream import source
task, rows, inducing, every, folder, out = *sys.argv[1:2], *map(int, sys.argv[2:4]), float(sys.argv[4]), *sys.argv[5:]
kernel = ko.kernels.Matern52(lengthscale=[1.5] * 5 + [30.0] * 3)
kind = ko.ProjectedLangevinRegressor if task == "gaussian" else ko.ProjectedLangevinClassifier
model = kind(kernel=kernel, hyperparameters=None, n_inducing=inducing, n_samples=50, progress=False)
checkpoint = None if folder == "none" else ko.Checkpoint(folder, every=every)
model.fit(source(task, rows), max_memory="4GB", checkpoint=checkpoint)
np.save(out, np.asarray(model.posterior_.particles.whitened))
stream = model.report_.stream
print(stream.passes, stream.steps, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, flush=True)
"""


def started(given, folder, out):
    numbers = given.task, str(given.rows), str(given.inducing), str(given.every)
    return subprocess.Popen(
        [sys.executable, "-c", FIT, *numbers, str(folder), str(out)], stdout=subprocess.PIPE, text=True
    )


def ended(given, folder, out):
    """Seconds of a process, and what it printed."""
    begin = time.perf_counter()
    process = started(given, folder, out)
    lines = process.communicate()[0].split()
    assert process.returncode == 0, process.returncode
    return time.perf_counter() - begin, lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--task", choices=["gaussian", "bernoulli"], default="bernoulli")
    parser.add_argument("--inducing", type=int, default=64)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--every", type=float, default=5.0)
    given = parser.parse_args()
    generator = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as place:
        folder, out = Path(place) / "fit", Path(place) / "draws.npy"
        plain, (passes, steps, peak) = ended(given, "none", out)
        truth = hashlib.sha256(np.load(out).tobytes()).hexdigest()
        whole, (*_, peak_with) = ended(given, folder, out)
        same, lost, sizes = int(hashlib.sha256(np.load(out).tobytes()).hexdigest() == truth), [], []
        for _ in range(given.kills):
            begin, process = time.perf_counter(), started(given, folder, out)
            try:
                process.wait(generator.uniform(0.1, 0.95) * plain)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
            process.communicate()
            first = time.perf_counter() - begin
            sizes.append(sum(entry.stat().st_size for entry in folder.iterdir()) if folder.exists() else 0)
            second, _ = ended(given, folder, out)
            same += hashlib.sha256(np.load(out).tobytes()).hexdigest() == truth
            lost.append(round(first + second - plain, 1))
            print(
                json.dumps({"killed_after": round(first, 1), "again": round(second, 1), "lost": lost[-1]}), flush=True
            )
        print(
            json.dumps(
                {
                    **vars(given),
                    "passes": int(passes),
                    "steps": int(steps),
                    "seconds": round(plain, 1),
                    "seconds_with": round(whole, 1),
                    "same": f"{same} of {given.kills + 1}",
                    "lost_median": float(np.median(lost)),
                    "folder_mb": round(max(sizes) / 1e6, 2),
                    "peak_gb": [round(int(number) / 1e9, 2) for number in (peak, peak_with)],
                }
            )
        )


if __name__ == "__main__":
    main()
