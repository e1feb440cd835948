"""`infer` in a fresh process: how long a user waits for the first answer."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

SCRIPT = """
import time
import jax
import numpy as np
import kosambi as ko

jax.config.update("jax_enable_x64", {switch})
rng = np.random.default_rng(0)
x = rng.uniform(-3.0, 3.0, (1000, 1))
f = 2.0 * np.sin(0.35 * np.pi * x[:, 0] ** 2)
y = (rng.uniform(size=1000) < 1.0 / (1.0 + np.exp(-f))).astype(float)
kernel = ko.kernels.SquaredExponential(lengthscale=0.35, variance=4.0)
start = time.perf_counter()
posterior = ko.infer(jax.random.key(0), kernel, ko.likelihoods.Bernoulli(), x, y)
seconds = time.perf_counter() - start
assert posterior.report.converged
grid = np.linspace(-3.5, 3.5, 50)[:, None]
p, draws = posterior.predict(grid), posterior.functions(jax.random.key(1))(grid)
np.savez({out!r}, seconds=seconds, mean=p.mean, variance=p.variance, probability=p.probability, draws=draws)
"""


@pytest.mark.slow
def test_the_first_answer_comes_in_eight_seconds_and_is_the_same_with_the_switch_off_and_on(tmp_path):
    results = []
    for switch in (False, True):
        out = tmp_path / f"{switch}.npz"
        subprocess.run([sys.executable, "-W", "error", "-c", SCRIPT.format(switch=switch, out=str(out))], check=True)
        results.append(np.load(out))
    off, on = results
    assert min(off["seconds"], on["seconds"]) < 8.0
    for name in ("mean", "variance", "probability", "draws"):
        np.testing.assert_allclose(off[name], on[name], rtol=0, atol=1e-10)
