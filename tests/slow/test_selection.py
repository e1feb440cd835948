"""What `num_inducing="auto"` takes is enough, on real data too. Where to get them: benchmarks/problems.py."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
import problems
import selection

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", selection.NAMES)
def test_doubling_the_number_gains_little(name):
    if name != "waves" and not problems.is_available(name):
        pytest.skip(problems.where_to_get(name))
    found = selection.run(name, seed=0)
    assert found["gain_of_doubling"] < 0.02
    assert found["reason"] in ("prediction", "variance", "certificate", "full")
