"""Several processes for one fit, on one machine or on several, with JAX's own distributed runtime.

    kosambi.parallel.initialize("10.0.0.1:8476", num_processes=4, process_id=0)
    source = kosambi.parallel.distributed(kosambi.sources.ParquetSource("rows.parquet", target="y"))
    posterior = kosambi.infer(key, prior, likelihood, source)

Every process runs the same program and reads its own rows. Sums over rows are added over the processes, and all of them
end with the same posterior, which is that of one process but for the order of sums.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
import signal
import sys
from typing import Any

import jax
import numpy as np

from kosambi._core.checks import as_count
from kosambi._core.groups import Group
from kosambi._core.writing import versions
from kosambi.errors import HostError, InputError
from kosambi.sources import AbstractRowSource, SharedSource

_LOOPBACK = re.compile(r"^(localhost|127\.[0-9.]+|\[::1\]):\d+$")
_HANDLER = ctypes.CFUNCTYPE(None, ctypes.c_int)
_kept_handler: object = None


class Hosts(Group):
    """The processes that `jax.distributed` knows."""

    def __init__(self) -> None:
        super().__init__(jax.process_index(), jax.process_count())

    def everyones(self, own: np.ndarray) -> np.ndarray:
        """By JAX's own collectives: NCCL between GPUs, Gloo between CPUs."""
        from jax.experimental import multihost_utils

        try:
            return np.asarray(multihost_utils.process_allgather(own))
        except Exception as error:
            self._is_over = True
            reason = str(error).strip().splitlines()[0]
            raise HostError(
                f"Process {self.index} of {self.count} has lost another process of this run, which has ended or cannot "
                f"be reached ({reason}). See what the others printed last, and start all of them again; with a "
                "checkpoint they go on from there."
            ) from error


_group: Hosts | None = None


def processes() -> Group:
    """The processes of this run; one where `initialize` was not called.

    >>> processes().count
    1
    """
    global _group
    if _group is None or (_group.index, _group.count) != (jax.process_index(), jax.process_count()):
        _group = Hosts()
    return _group


def initialize(
    coordinator: str | None = None,
    num_processes: int | None = None,
    process_id: int | None = None,
    *,
    heartbeat_timeout: int = 30,
    start_timeout: int = 300,
) -> None:
    """Begin a run of several processes; called in each of them, before anything is computed.

    Under SLURM, Open MPI, and in an indexed job of Kubernetes, JAX finds the first three arguments by itself. The
    versions of Python, JAX, NumPy, SciPy and kosambi must be the same everywhere. A process that dies ends the others
    with a message, at once where they wait for it, and otherwise after `heartbeat_timeout` seconds.

    Arguments:
        coordinator: "HOST:PORT" of process 0, which the others can reach.
        num_processes: how many there are.
        process_id: the number of this one, from 0.
        heartbeat_timeout: seconds without a sign of life after which a process is taken for dead.
        start_timeout: seconds to wait until all processes have come.

    Raises:
        InputError: the arguments are not enough, or processes have different versions.
        HostError: the others did not come.
    """
    given = {"coordinator": coordinator, "num_processes": num_processes, "process_id": process_id}
    if coordinator is not None:
        if not re.fullmatch(r".+:\d{1,5}", coordinator):
            raise InputError(f'`coordinator` must be "HOST:PORT" of process 0. Got {coordinator!r}.')
        if None in given.values():
            missing = next(name for name, value in given.items() if value is None)
            raise InputError(f"With `coordinator` give `num_processes` and `process_id` too. `{missing}` is missing.")
        number = as_count("num_processes", num_processes)
        if not isinstance(process_id, int) or not 0 <= process_id < number:
            raise InputError(f"`process_id` must be a number from 0 to {number - 1}. Got {process_id!r}.")
    elif num_processes is not None or process_id is not None:
        raise InputError("`num_processes` and `process_id` need `coordinator`, the address of process 0. Give it too.")
    config: Any = jax.config
    if not config.jax_cpu_collectives_implementation:
        config.update("jax_cpu_collectives_implementation", "gloo")
    # Signals are kosambi's business, or its caller's.
    config.update("jax_enable_preemption_service", False)
    _speak_when_aborted(heartbeat_timeout)
    # By default JAX listens on all addresses of the machine.
    is_local = coordinator is not None and _LOOPBACK.match(coordinator)
    try:
        jax.distributed.initialize(
            coordinator,
            num_processes,
            process_id,
            initialization_timeout=as_count("start_timeout", start_timeout),
            heartbeat_timeout_seconds=as_count("heartbeat_timeout", heartbeat_timeout),
            shutdown_timeout_seconds=heartbeat_timeout,
            coordinator_bind_address=coordinator if is_local else None,
        )
    except (ValueError, TypeError) as error:
        raise InputError(
            f"JAX does not know the processes of this run: {error} Where no SLURM, Open MPI or Kubernetes says "
            "so, give `coordinator`, `num_processes` and `process_id`."
        ) from error
    except RuntimeError as error:
        if "must be called before" in str(error) or "only be called once" in str(error):
            raise InputError(
                f"`initialize` must be called once, and before anything is computed with JAX: {error}"
            ) from error
        raise HostError(f"The processes of this run did not find each other: {error}") from error
    known = versions()
    names = ("kosambi", "jax", "jaxlib", "numpy", "scipy")
    facts: dict[str, object] = {f"the version of {name}": known.get(name) for name in names}
    facts |= {"the version of python": platform.python_version(), "the kind of device": jax.default_backend()}
    facts["the number of devices of a process"] = jax.local_device_count()
    processes().check_same(facts, "Install the same everywhere, and give each process as many devices.")


def distributed(source: AbstractRowSource) -> SharedSource:
    """A source whose rows the processes of this run share; each reads its own.

    All processes must give the same source: the same file, or a copy of it, with the same columns. What differs is
    refused, with the process where it does. In one process all rows are its own, so that a program runs with and
    without others.

    Arguments:
        source: from `kosambi.sources`.

    >>> import jax, numpy as np, kosambi as ko
    >>> x = np.linspace(-1.0, 1.0, 500)[:, None]
    >>> source = ko.parallel.distributed(ko.sources.ArraySource(x, np.sin(3.0 * x[:, 0])))
    >>> kernel, noise = ko.kernels.Matern52(), ko.likelihoods.Gaussian(0.1)
    >>> posterior = ko.infer(jax.random.key(0), kernel, noise, source, num_inducing=8)
    >>> posterior.report.stream.num_rows
    500
    """
    shared = SharedSource(source, processes())
    with shared.group.together():
        shared.group.check_same(shared.facts(), "Give all of them the same data, and start them again.")
    return shared


def _speak_when_aborted(heartbeat_timeout: int) -> None:
    """Let a process say why it ends where JAX's runtime ends it, which is by `abort` and after pages of its own.

    JAX hands no other notice of a lost process to Python. The handler runs in the thread that aborts.
    """
    if sys.platform == "win32":
        return
    text = (
        f"Error: this process ends, because another process of the run has ended or cannot be reached (no sign of life "
        f"for {heartbeat_timeout} s, or a connection that broke). JAX's lines above say which. Start all of them "
        "again; with a checkpoint they go on from there.\n"
    ).encode()

    def speak(number: int) -> None:
        del number
        os.write(2, text)
        os._exit(1)

    global _kept_handler
    # As long as the process lives: the system keeps no reference.
    _kept_handler = _HANDLER(speak)
    library = ctypes.CDLL(None)
    library.signal.argtypes, library.signal.restype = [ctypes.c_int, _HANDLER], ctypes.c_void_p
    library.signal(int(signal.SIGABRT), _kept_handler)
