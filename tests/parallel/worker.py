"""One process of several, for the tests beside it: `worker.py ADDRESS COUNT INDEX WORK DATA OUT [CHECKPOINT ANSWER]`.

WORK is "gaussian" or "bernoulli"; "busy" and "waiting" say "begun", after which process 1 does nothing, and process 0
waits for it or for nothing. "fit" learns hyperparameters too, keeps a checkpoint, and is killed after so many answers.
"""

from __future__ import annotations

import os
import signal
import sys
import time

import numpy as np


def fitted(source, out: str, checkpoint: str, answer: int) -> None:
    """A classifier whose checkpoint is written at every answer."""
    import kosambi as ko
    from kosambi._core.journal import Book
    from kosambi.sources import sweeps

    add, found = Book.add, 0

    def counted(*arguments):
        nonlocal found
        found += 1
        if found == answer:
            os.kill(os.getpid(), signal.SIGKILL)
        add(*arguments)

    Book.add, sweeps.STRETCH = counted, 0.0
    model = ko.ProjectedLangevinClassifier(kernel="matern52", n_inducing=8, n_samples=16, progress=False)
    model.fit(source, checkpoint=ko.Checkpoint(checkpoint, every=1e-9))
    new = np.random.default_rng(5).normal(size=(20, 2))
    np.savez(out, predicted=model.predict_proba(new), particles=model.posterior_.particles.whitened, answers=found)


def main(
    address: str, count: str, index: str, work: str, data: str, out: str, checkpoint: str = "", answer: str = "0"
) -> None:
    import jax

    import kosambi as ko

    if int(count) > 1:
        ko.parallel.initialize(address, int(count), int(index), heartbeat_timeout=10, start_timeout=120)
    kind = ko.sources.ParquetSource if data.endswith("parquet") else ko.sources.CSVSource
    source = ko.parallel.distributed(kind(data, target="y"))
    if work in ("busy", "waiting"):
        print("begun", flush=True)
        time.sleep(300 if work == "busy" or index == "1" else 0)
    if work == "fit":
        fitted(source, out, checkpoint, int(answer))
        return
    likelihood = ko.likelihoods.Bernoulli() if work == "bernoulli" else ko.likelihoods.Gaussian(0.3)
    kernel = ko.kernels.Matern52(lengthscale=[1.0, 2.0])
    posterior = ko.infer(jax.random.key(0), kernel, likelihood, source, num_inducing=10, num_particles=16)
    found = posterior.predict(np.random.default_rng(5).normal(size=(20, 2)))
    np.savez(
        out,
        mean=found.mean,
        variance=found.variance,
        particles=posterior.particles.whitened,
        evidence=posterior.log_evidence.value if work == "gaussian" else 0.0,
        rows=posterior.report.stream.num_rows,
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
