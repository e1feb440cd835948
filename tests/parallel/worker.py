"""One process of several, for tests/parallel/test_hosts.py: `worker.py ADDRESS COUNT INDEX LIKELIHOOD DATA OUT`."""

from __future__ import annotations

import sys

import numpy as np


def main(address: str, count: str, index: str, name: str, data: str, out: str) -> None:
    import jax

    import kosambi as ko

    if int(count) > 1:
        ko.parallel.initialize(address, int(count), int(index), heartbeat_timeout=10, start_timeout=60)
    source = ko.sources.ParquetSource(data, target="y") if data.endswith("parquet") else ko.sources.CSVSource(
        data, target="y"
    )
    kernel = ko.kernels.Matern52(lengthscale=[1.0, 2.0])
    likelihood = {"gaussian": ko.likelihoods.Gaussian(0.3), "bernoulli": ko.likelihoods.Bernoulli()}[name]
    posterior = ko.infer(
        jax.random.key(0), kernel, likelihood, ko.parallel.distributed(source), num_inducing=12, num_particles=24
    )
    new = np.random.default_rng(5).normal(size=(20, 2))
    found = posterior.predict(new)
    np.savez(
        out,
        mean=found.mean,
        variance=found.variance,
        evidence=posterior.log_evidence.value,
        particles=posterior.particles.whitened,
        rows=posterior.report.stream.num_rows,
        inducing=posterior.basis.inducing_points,
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
