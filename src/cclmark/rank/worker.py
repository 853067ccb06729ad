"""One rank: opens its device, joins the communicator, measures the cases and reports results.

Started by the launcher as ``python -m cclmark.rank_process`` with its job on standard input, or by
an mpirun with the file that contains the jobs of all ranks.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

import cclmark._engine as engine
from cclmark.base.errors import CclmarkError, MissingError, RefusedError
from cclmark.base.signals import STACK_SIGNAL
from cclmark.rank.context import RankContext, keep_to
from cclmark.rank.rank import Rank
from cclmark.rank.rank_binding import RankBinding
from cclmark.rendezvous.client import Client
from cclmark.rendezvous.messages import Failed, Finished, Job, JobsFile
from cclmark.work.libraries import add_libraries

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from threading import Thread

    from cclmark.journal.kind import Kind
    from cclmark.rank.instruments import Instruments

_LINGERING_S = 10.0
_JOBS_S = 30.0  # for the jobs of ranks that an mpirun starts before their process has the order
_POLL_S = 0.02
_TRACE_LINGER_MS = 120_000  # a trace may have 100 MB
_RANK_VARIABLES = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK")  # set by mpiruns
_OF_MPIRUNS = ("OMPI_", "PMI", "PRTE_", "MPI_", "MPIR_", "HYD")


def _opened(runtime: str, index: int) -> engine.Device:
    """Opens a device. Raises EngineError, which says how to measure without it."""
    try:
        return engine.open_device(runtime, index)
    except (engine.UnsupportedError, engine.MissingError):
        raise
    except engine.EngineError as error:
        raise engine.EngineError(
            f"{error}: {runtime}:{index} cannot be used; cclmark info lists the devices that can, "
            "which --devices selects"
        ) from None


def _instruments(rank: Rank) -> Instruments:
    """The instruments of a rank that does not measure; the others do not import them."""
    from cclmark.rank.instruments import Instruments

    libraries = {item.ccl for item in rank.planned}
    return Instruments(rank.job.ranks, libraries, steps=rank.job.traced_operations > 0)


class Worker:
    """The life of one rank."""

    def __init__(
        self,
        job: Job,
        client: Client,
        loading: Thread | None,
        kind: Kind,
        *,
        under_mpirun: bool,
    ) -> None:
        """``loading``: a thread that loads the runtime of the device. ``kind``: of the job."""
        self.job = job
        self._loading = loading
        self._kind = kind
        self._inherited = dict(os.environ)
        os.environ.update(job.environment)
        add_libraries(job.libraries)
        self._under_mpirun = under_mpirun
        self._binding = RankBinding(job)
        self.rank = Rank(job, client, kind)
        self._instruments = (
            _instruments(self.rank) if job.explain or job.traced_operations else None
        )

    def run(self) -> None:
        """Opens the devices and does all the work of the rank. Raises the errors of every step."""
        job = self.job
        self.rank.enter("opening the device")
        if job.environment:
            from cclmark.work.library_settings import check_overrides

            check_overrides(job.environment, self._inherited)
        self._wait_for_runtime()
        self._binding.bind_early()
        if self._binding.is_default:
            keep_to(set(job.processors))
        for library in ("nvrtc", "cublaslt"):
            wheels = ":".join(job.ccl_wheels.get(library, []))
            os.environ.setdefault(f"CCLMARK_{library.upper()}_WHEELS", wheels)
        devices = [_opened(job.runtime, index) for index in job.device_indices]
        if job.settings.check_on == "host":
            for device in devices:
                device.check_on_host("--check-on host")
        self._binding.bind_to_devices([device.info.pci_bus_id for device in devices])
        if (job.settings.conditions or job.settings.duration_s) and self._instruments is None:
            self._read_conditions_of(devices)
        context = RankContext(self.rank, devices, self._binding, self._instruments)
        assert self._kind.runner is not None
        self._kind.runner()(context)

    def _read_conditions_of(self, devices: Sequence[engine.Device]) -> None:
        from cclmark.rank.condition_readers import (
            ConditionReaders,  # only in runs that ask for them
        )

        try:
            self.rank.conditions = ConditionReaders(devices, self.job.rank * len(devices))
        except MissingError as error:
            if self.job.rank == 0:
                self.rank.notice(f"device conditions unknown: {error}")

    def _wait_for_runtime(self) -> None:
        """Waits for the runtime, before variables are set: a driver reads them in its thread.

        Meanwhile that thread receives the request for stacks, since it may hang. The deadline of
        the phase ends the wait.
        """
        if self._loading is not None:
            signal.pthread_sigmask(signal.SIG_BLOCK, {STACK_SIGNAL})
            self._loading.join()
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {STACK_SIGNAL})

    def fail(self, error: BaseException) -> None:
        """Reports the error to the launcher and ends the other ranks' waits."""
        self.rank.fail(_kind(error), str(error) or type(error).__name__)

    def finish(self) -> None:
        """Reports success to the launcher."""
        self.rank.client.send(Finished(self.job.rank, self.job.token, self.rank.phases_s))

    def leave(self, status: int) -> None:
        """Ends the process without teardown.

        Called while a caught error still keeps the session alive, since its destruction would wait
        for an operation that may never complete.
        """
        if self.job.traced_operations:
            self.rank.client.close(_TRACE_LINGER_MS)
        else:
            self.rank.client.close()
        if status != 0 and self._under_mpirun:
            # An mpirun ends all ranks as soon as one fails, so the launcher first gets time to
            # examine them.
            time.sleep(_LINGERING_S)
        elif self._under_mpirun:
            import ctypes

            # MPICH signs off from its mpirun in an exit handler; otherwise all ranks are killed.
            ctypes.CDLL(None).exit(status)
        os._exit(status)


def _kind(error: BaseException) -> str:
    if isinstance(error, engine.AbortedError):
        return "aborted"
    if isinstance(error, engine.DeadlineError):
        return "timeout"
    if isinstance(error, RefusedError):
        return "refused"
    if isinstance(error, engine.UsageError):
        return "usage"
    if isinstance(error, (engine.MissingError, engine.UnsupportedError)):
        return "missing"
    return "error"


def _job_on_standard_input() -> Job:
    job = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=Job)
    engine.die_with_parent(job.parent_pid)
    return job


def _job_in(files: Sequence[str]) -> Job:
    """The job of this rank, from the file of its process among ``files``, see MpiStart.

    A path alone is the file of this rank, which is debugged or has its variables already. The
    launcher's files are opened through /proc, since an mpirun does not pass descriptors on.
    """
    engine.die_with_parent(os.getppid())
    numbers = [int(os.environ[name]) for name in _RANK_VARIABLES if name in os.environ]
    if not numbers and "=" in files[0]:
        raise OSError(f"the mpirun sets none of {', '.join(_RANK_VARIABLES)}")
    firsts = [(int(first or 0), path) for first, _, path in (one.rpartition("=") for one in files)]
    path = max(one for one in firsts if one[0] <= (numbers or [0])[0])[1]
    found = _jobs_in(path)
    if found.environment and "=" in files[0]:
        own = [sys.executable, "-m", "cclmark.rank_process", path]
        given = {name: text for name, text in os.environ.items() if name.startswith(_OF_MPIRUNS)}
        os.execve(own[0], own, {**given, **found.environment})
    job = next((one for one in found.jobs if one.debugger or one.rank == numbers[0]), None)
    if job is None:
        raise OSError(f"{path} has none for rank {numbers[0]}")
    os.sched_setaffinity(0, os.sched_getaffinity(job.parent_pid))
    opened = f"/proc/{job.parent_pid}/fd"
    job.rank_group_fd = os.open(f"{opened}/{job.rank_group_fd}", os.O_RDWR)
    job.board_fd = os.open(f"{opened}/{job.board_fd}", os.O_RDWR)
    if job.stack_fd >= 0:
        job.stack_fd = os.open(f"{opened}/{job.stack_fd}", os.O_RDWR)
    return job


def _answer_with_stacks(fd: int) -> None:
    """Installs the handlers that write the stack on request, even inside a call that hangs."""
    faulthandler.register(STACK_SIGNAL, fd, all_threads=False)
    engine.report_stack_on(STACK_SIGNAL, fd)  # calls the handler above, then adds native frames


def _jobs_in(path: str) -> JobsFile:
    """The jobs in a file of the launcher, as soon as they are there. Raises OSError."""
    deadline_s = time.monotonic() + _JOBS_S
    while True:
        if "cclmark-job" not in str(Path(path).readlink()):
            raise OSError(f"{path}: the process that offered it has exited")
        try:
            return msgspec.msgpack.decode(Path(path).read_bytes(), type=JobsFile)
        except msgspec.DecodeError:
            if time.monotonic() > deadline_s:
                raise
            time.sleep(_POLL_S)


def run_rank(jobs: Sequence[str], loading: Thread | None, kinds: Mapping[str, Kind]) -> None:
    """Runs the job of this rank: from a file of ``jobs``, or from standard input.

    The files are for an mpirun, or for this rank alone if it is debugged. ``loading``: see Worker.
    ``kinds``: all by name.

    Exits without teardown, since vendors' exit handlers may hang.
    """
    # The supervisor reports the signal. An exception in the middle of a call would be less clear.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # blocked by start_rank
    try:
        job = _job_in(jobs) if jobs else _job_on_standard_input()
    except msgspec.DecodeError:
        os._exit(1)  # the launcher exited while it wrote the job, and reports the reason itself
    except OSError as error:
        print(f"cclmark: cannot find the job of this rank: {error}", flush=True)
        os._exit(1)
    if job.stack_fd >= 0:
        _answer_with_stacks(job.stack_fd)
    client = Client(job)  # one for each rank: the server refuses a second one
    try:
        by_mpirun = (bool(jobs) and not job.debugger) or job.mpi
        worker = Worker(job, client, loading, kinds[job.kind], under_mpirun=by_mpirun)
    except (engine.EngineError, MemoryError, OSError) as error:
        client.send(Failed(job.rank, job.token, "error", str(error), "start-up", -1))
        client.close()
        os._exit(1)
    try:
        worker.run()
        worker.finish()
        worker.leave(0)
    except (engine.EngineError, CclmarkError, MemoryError, OSError) as error:
        worker.fail(error)
        worker.leave(1)
    except Exception as error:
        import traceback

        worker.fail(RuntimeError(f"{type(error).__name__}: {error}\n{traceback.format_exc()}"))
        worker.leave(1)
