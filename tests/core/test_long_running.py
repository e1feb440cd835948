"""A process that fits model after model keeps its memory maps and its memory within bounds."""

from __future__ import annotations

import subprocess
import sys

import pytest

from kosambi._core import programs

pytestmark = pytest.mark.skipif(programs.count_maps() is None, reason="this system does not list memory maps")

PROGRAM = """
import sys, warnings
import numpy as np
from kosambi import ProjectedLangevinClassifier, ProjectedLangevinRegressor
from kosambi._core import programs

warnings.simplefilter("ignore")

def resident():
    with open("/proc/self/statm") as numbers:
        return int(numbers.read().split()[1]) * 4096 / 2**20

generator = np.random.default_rng(0)
number = int(sys.argv[1])
shapes = [(rows, columns) for rows in range(30, 401) for columns in range(1, 13)]
chosen = generator.permutation(len(shapes))[:number]
most, early, late = 0, 0.0, 0.0
for place, at in enumerate(chosen):
    rows, columns = shapes[at]
    x = generator.normal(size=(rows, columns))
    f = np.sin(2.0 * x[:, 0])
    y = f + 0.2 * generator.standard_t(4, size=rows)
    if place % 3 == 2:
        model = ProjectedLangevinClassifier(n_samples=64, progress=False).fit(x, y > 0)
    else:
        likelihood = ("gaussian", "student_t")[place % 3]
        model = ProjectedLangevinRegressor(likelihood=likelihood, n_samples=64, progress=False).fit(x, y)
    model.predict(x[: 7 + place % 40])
    most = max(most, programs.count_maps())
    if place < number // 6:
        early = max(early, resident())
    else:
        late = max(late, resident())
    state = (place, rows, columns, programs.count_maps(), round(resident()), programs._tally.drops)
    print(*state, file=sys.stderr, flush=True)
print(most, programs._tally.drops, round(early), round(late))
"""


def run(number):
    found = subprocess.run([sys.executable, "-c", PROGRAM, str(number)], capture_output=True, text=True, check=True)
    return map(int, found.stdout.split())


@pytest.mark.slow
def test_forty_fits_of_forty_shapes():
    most, _, _, _ = run(40)
    assert most < 20_000


@pytest.mark.soak
def test_three_hundred_fits_of_three_hundred_shapes():
    most, drops, early, late = run(300)
    assert most < 20_000
    assert drops >= 1
    # What is reached in the first fifty fits is about what there is in the end.
    assert late < 1.3 * early
