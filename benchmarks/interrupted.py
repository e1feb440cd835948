"""A fit of kin8nm that is killed again and again, beside one that is not: the same predictions, and what it costs.

    KOSAMBI_DATA=data python -m benchmarks.interrupted --rows 2000 --kills 50

A process fits with a checkpoint, and is killed (SIGKILL) after a random time, as long as the fit takes at most. A
second one makes the same call, and ends. The next kill begins with no checkpoint; with `--often` one and the same fit
is killed every time. `again` are the seconds of the last fit, and `lost` is how much longer the two took together than
one that is not killed, which includes what a new process does again: reading its programs, asking known questions.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

FIT = """
import sys, time
import numpy as np
import kosambi as ko
data, rows, every, kind, folder = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), sys.argv[4], sys.argv[5]
table = np.genfromtxt(data, delimiter=",", skip_header=1)[np.random.default_rng(0).permutation(8192)]
x, y = table[:, :-1], table[:, -1]
model = ko.ProjectedLangevinClassifier() if kind == "labels" else ko.ProjectedLangevinRegressor()
y = (y > np.median(y)).astype(int) if kind == "labels" else y
checkpoint = None if folder == "none" else ko.Checkpoint(folder, every=every, stays=True)
print("begun", flush=True)
start = time.perf_counter()
model.fit(x[:rows], y[:rows], checkpoint=checkpoint)
seconds = time.perf_counter() - start
new = x[-500:]
found = model.predict_proba(new) if kind == "labels" else np.stack(model.predict(new, return_std=True))
np.save(sys.argv[6], found)
if checkpoint is not None:
    checkpoint.remove()
print(seconds, flush=True)
"""


def started(arguments, folder, out):
    data = Path(os.environ["KOSAMBI_DATA"]) / "kin8nm.csv.gz"
    numbers = str(arguments.rows), str(arguments.every), arguments.kind
    return subprocess.Popen(
        [sys.executable, "-c", FIT, str(data), *numbers, str(folder), str(out)], stdout=subprocess.PIPE, text=True
    )


def ended(process):
    """Seconds of the fit, and of the process."""
    begin = time.perf_counter()
    lines = process.communicate()[0].split()
    assert process.returncode == 0, process.returncode
    return float(lines[-1]), time.perf_counter() - begin


def digest(path):
    return hashlib.sha256(np.load(path).tobytes()).hexdigest()[:16]


def size(folder):
    return sum(entry.stat().st_size for entry in folder.iterdir()) if folder.exists() else 0


def killed(process, after):
    """Kill a process `after` seconds of its fit; whether it was still there."""
    process.stdout.readline()
    time.sleep(after)
    if process.poll() is not None:
        return False
    process.send_signal(signal.SIGKILL)
    process.communicate()
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--every", type=float, default=60.0)
    parser.add_argument("--kind", choices=["numbers", "labels"], default="numbers")
    parser.add_argument("--often", action="store_true", help="kill one fit until it ends")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    generator, begin = np.random.default_rng(arguments.seed), time.perf_counter()
    with tempfile.TemporaryDirectory() as place:
        out, folder = Path(place) / "found.npy", Path(place) / "checkpoint"
        # The first compiles, and the second is what others are compared with.
        ended(started(arguments, "none", out))
        plain = ended(started(arguments, "none", out))[0]
        truth = digest(out)
        kept = ended(started(arguments, folder, out))[0]
        print(json.dumps({"plain": plain, "with_checkpoint": kept, "same": digest(out) == truth}), flush=True)
        same, done, lost, bytes_written = 0, 0, [], 0
        while done < arguments.kills:
            after = generator.uniform(0.0, plain)
            if not killed(started(arguments, folder, out), after):
                continue
            done += 1
            bytes_written = max(bytes_written, size(folder))
            if arguments.often and done < arguments.kills:
                continue
            again = ended(started(arguments, folder, out))[0]
            lost.append(after + again - plain)
            is_same = digest(out) == truth
            same += is_same
            print(json.dumps({"after": after, "again": again, "lost": lost[-1], "same": is_same}), flush=True)
        summary = {"kills": done, "ends": len(lost), "same": same, "bytes": bytes_written}
        summary |= {"most_lost": max(lost), "seconds": time.perf_counter() - begin}
        print(json.dumps(summary))


if __name__ == "__main__":
    main()
