"""One rank: opens its device, joins the others, measures the cases, reports.

Started by the launcher as ``python -m cclmark.run.worker`` with its job on standard input, or by an
mpirun with the file that holds the jobs of all.
"""

from __future__ import annotations

import ctypes
import faulthandler
import gc
import os
import platform
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

import msgspec

from cclmark import _engine as engine
from cclmark.errors import CclmarkError
from cclmark.plan.inject import Injection
from cclmark.plan.libraries import BRIDGE, add_libraries, torch_backend_of
from cclmark.plan.processors import format_processors
from cclmark.rendezvous.client import Client
from cclmark.rendezvous.messages import Failed, Finished, Hello, Job
from cclmark.results.processors import device_numa_node, processors_near
from cclmark.results.schema import (
    CaseResult,
    DeviceDescription,
    LibraryDescription,
    TransferResult,
)
from cclmark.run.binding import RankBinding
from cclmark.run.libraries import Library, NativeLibrary
from cclmark.run.measure import CaseRunner
from cclmark.run.memory import free_on_all, reserve_for
from cclmark.run.opening import open_libraries, require_present
from cclmark.run.rank import Rank
from cclmark.run.soak import Soak
from cclmark.run.together import in_step
from cclmark.signals import STACK_SIGNAL

_LINGERING_S = 10.0
_RANK_VARIABLES = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK")  # what mpiruns tell


class Worker:
    """The life of one rank."""

    def __init__(self, job: Job, *, under_mpirun: bool) -> None:
        self.job = job
        add_libraries(job.libraries)
        self._under_mpirun = under_mpirun
        self._binding = RankBinding(job)
        self.rank = Rank(job)
        self._soak: Soak | None = None

    def run(self) -> None:
        """Everything from opening the device to the last result. Raises what went wrong."""
        job = self.job
        self.rank.enter("opening the device")
        self._binding.bind_early()
        if self._binding.is_default:
            _keep_to(set(job.processors))
        os.environ.setdefault("CCLMARK_NVRTC_WHEELS", ":".join(job.ccl_wheels.get("nvrtc", [])))
        devices = [engine.open_device(job.runtime, index) for index in job.device_indices]
        self._binding.bind_to_devices([device.info.pci_bus_id for device in devices])
        if job.transfers:
            self._introduce(devices, [])
            self._measure_transfers(devices)
            return
        device = devices[0]
        if job.checks:
            self._check_torch(device)
            return
        self.rank.enter("loading the library")
        names = list(dict.fromkeys(case.ccl for case in job.cases))
        # Torch first: it takes a libnccl that is there already for the one that it came with.
        order = sorted(names, key=lambda name: torch_backend_of(name) is None)
        opened = open_libraries(order, job)
        libraries = {name: opened[name] for name in names}
        self._share_processors_for(names[0])
        used = [it for library in libraries.values() for it in library.descriptions]
        self._introduce(devices, list({it.name: it for it in used}.values()))
        self._measure_all(libraries, device)
        self.rank.case_index = -1
        self.rank.enter("finished")
        # An MPI ends with its library, and has to. Errors that torch keeps from its own import hold
        # this frame, and what it names, for good.
        opened.clear()
        libraries.clear()

    def _measure_all(self, libraries: Mapping[str, Library], device: engine.Device) -> None:
        for name, library in libraries.items():
            self._share_processors_for(name)
            if self.job.in_pairs:
                from cclmark.run.pairs import PairsRunner

                assert isinstance(library, NativeLibrary)
                PairsRunner(self.rank, library.ccl, device).run()
            else:
                self._measure_with(name, library, device)

    def _share_processors_for(self, name: str) -> None:
        """Without ``--bind``, a rank of the host has a processor to itself, unless the library
        ``name`` starts threads, as torch does and what carries data between hosts: those may run
        anywhere.
        """
        threads = torch_backend_of(name) is not None or (name == BRIDGE and bool(self.job.hosts))
        self._share_processors(alone=not threads)

    def _share_processors(self, *, alone: bool) -> None:
        if self._binding.is_default and self.job.processors:
            own = set(self.job.processors) if alone else self._binding.inherited
            os.sched_setaffinity(0, own)

    def _check_torch(self, device: engine.Device) -> None:
        from cclmark.run.torch_backend import describe_backend, load_torch
        from cclmark.run.torch_check import TorchChecker

        job, backend = self.job, self.job.checks[0].backend
        self._share_processors(alone=False)
        self.rank.enter("loading the library")
        torch = load_torch(backend, job.modules)
        self._introduce([device], [describe_backend(torch, backend)])
        TorchChecker(self.rank, torch, job.runtime, device.info.index).run()
        self.rank.enter("finished")

    def _introduce(self, devices: list[engine.Device], libraries: list[LibraryDescription]) -> None:
        first = self.job.rank * len(devices)
        descriptions = [
            self._describe(device, first + number) for number, device in enumerate(devices)
        ]
        if self._binding.is_default and len(devices) == 1 and descriptions[0].pci_bus_id:
            _keep_to(processors_near(descriptions[0].pci_bus_id))
        for description in descriptions:
            description.processors = format_processors(os.sched_getaffinity(0))
        reach = []
        if self.job.transfers or self.job.in_pairs:
            runtime, indices = self.job.runtime, self.job.every_index
            reach = [
                (one, other)
                for one in range(first, first + len(devices))
                for other in range(len(indices))
                if one != other and engine.devices_reach(runtime, indices[one], indices[other])
            ]
        job, unbound = self.job, self._binding.unbound
        self.rank.client.send(Hello(job.rank, job.token, descriptions, libraries, reach, unbound))

    def _describe(self, device: engine.Device, number: int) -> DeviceDescription:
        info = device.info
        description = DeviceDescription(
            rank=number,
            host=platform.node(),
            runtime=info.runtime,
            index=info.index,
            name=info.name,
            memory_bytes=info.memory_bytes,
            pid=os.getpid(),
            pci_bus_id=info.pci_bus_id,
            architecture=info.architecture,
            multiprocessors=info.multiprocessors,
            driver_version=info.driver_version,
            runtime_path=info.library_path,
        )
        if info.pci_bus_id:
            description.numa_node = device_numa_node(info.pci_bus_id)
        return description

    def _measure_transfers(self, devices: list[engine.Device]) -> None:
        from cclmark.run.transfer import TransferRunner

        job = self.job
        self.rank.enter("allocating buffers")
        total = len(devices) * job.ranks
        injections = [Injection.parse_for_pairs(text, total) for text in job.settings.inject]
        runner = TransferRunner(
            devices,
            self.rank.team,
            job.settings,
            injections,
            self.rank.enter,
            self._binding.inherited,
        )
        if runner.checked_on_host and job.rank == 0:
            self.rank.notice(f"outputs are checked on the host: {runner.checked_on_host}")
        # Kept until the process ends: to release the memory of a copy that hangs would hang.
        self._runner = runner
        pending = job.pending or range(len(job.transfers))
        try:
            too_large = runner.reserve([job.transfers[index] for index in pending])
        except engine.UnsupportedError as error:
            raise engine.MissingError(str(error)) from None
        gc.collect()
        gc.disable()
        for index in pending:
            transfer = job.transfers[index]
            self.rank.case_index = index
            if transfer in too_large:
                result = TransferResult(index, transfer, "skipped", too_large[transfer])
            else:
                result = runner.run(index, transfer)
            if job.rank == 0:
                self.rank.report(result)
        self.rank.case_index = -1
        self.rank.enter("finished")

    def _measure_with(self, name: str, library: Library, device: engine.Device) -> None:
        job = self.job
        number = len(job.cases)
        pending = {place for place in job.pending if job.cases[place % number].ccl == name}
        if job.pending and not pending:
            return
        indices = [index for index, case in enumerate(job.cases) if case.ccl == name]
        if pending:
            left = {place % number for place in pending}
            indices = [index for index in indices if index in left]
        self.rank.enter("communicator creation")
        try:
            in_step(self.rank.agreement, partial(require_present, library))
            communicator = in_step(self.rank.agreement, partial(library.join, self.rank, device))
        except engine.UnsupportedError as error:
            self._leave_out(name, indices, pending, str(error))
            return
        try:
            self._measure_on(communicator, indices, pending, device)
        except engine.AbortedError:
            communicator.check()  # what made the others stop may be known here
            raise
        del communicator
        self.rank.leave_group()

    def _measure_on(
        self,
        communicator: engine.Communicator,
        indices: list[int],
        pending: set[int],
        device: engine.Device,
    ) -> None:
        job = self.job
        session = engine.Session(device, self.rank.team, communicator, self.rank.counter)
        self.rank.enter("allocating buffers")
        registration = getattr(engine.Registration, job.settings.registration)
        cases = [job.cases[index] for index in indices]
        free_bytes = free_on_all(device, self.rank.team, job.ranks)
        too_large = reserve_for(cases, session, self.rank.team, registration, free_bytes)
        runner = CaseRunner(
            session, self.rank.agreement, job.settings, self._injections(), self.rank.enter
        )
        if runner.checking_host == job.rank:
            self.rank.notice(f"outputs are checked on the host: {session.checked_on_host}")
        gc.collect()
        gc.disable()
        soak = self._soak_on(device)
        for index, cycle in self._rounds(indices, pending, soak):
            self.rank.case_index = index
            case = job.cases[index]
            if case in too_large:
                result = CaseResult(index, case, "skipped", too_large[case], cycle=cycle)
            else:
                result = runner.run(index, case, cycle)
            if job.rank == 0:
                self.rank.report(result)
            if soak is not None and result.status == "skipped":
                soak.given_up.add(index)
        self.rank.case_index = -1
        self.rank.enter("shutdown")
        del runner, session
        communicator.leave()

    def _leave_out(self, name: str, indices: list[int], pending: set[int], reason: str) -> None:
        """Skips the cases of a library that does not work with these devices.

        Raises MissingError where no other is measured.
        """
        job = self.job
        if all(case.ccl == name for case in job.cases):
            raise engine.MissingError(reason)
        if job.rank > 0:
            return
        for cycle in range(job.settings.cycles or 1):
            for index in indices:
                if not pending or index + cycle * len(job.cases) in pending:
                    case = job.cases[index]
                    self.rank.report(CaseResult(index, case, "skipped", reason, cycle=cycle))

    def _soak_on(self, device: engine.Device) -> Soak | None:
        """The soak of this run, with the time of one more library begun; None for other runs."""
        if self.job.settings.duration_s and self._soak is None:
            self._soak = Soak(self.rank, device)
        if self._soak is not None:
            self._soak.begin()
        return self._soak

    def _rounds(
        self, indices: list[int], pending: set[int], soak: Soak | None
    ) -> Iterator[tuple[int, int]]:
        """Each case with its cycle, until all are measured or the time of the soak is over."""
        number, cycles = len(self.job.cases), self.job.settings.cycles
        cycle = 0
        while indices and (cycles == 0 or cycle < cycles):
            for index in indices:
                if not pending or index + cycle * number in pending:
                    yield index, cycle
                    if soak is not None and soak.over_after(index, cycle):
                        return
            cycle += 1
            if soak is not None:
                indices = [index for index in indices if index not in soak.given_up]
                gc.collect()

    def _injections(self) -> list[Injection]:
        parsed = [Injection.parse(text, self.job.ranks) for text in self.job.settings.inject]
        return [injection for injection in parsed if injection.rank == self.job.rank]

    def fail(self, error: BaseException) -> None:
        """Tells the launcher what went wrong and lets the other ranks stop waiting."""
        self.rank.fail(_kind(error), str(error) or type(error).__name__)

    def finish(self) -> None:
        """Tells the launcher that all went well."""
        self.rank.client.send(Finished(self.job.rank, self.job.token, self.rank.phases_s))

    def leave(self, status: int) -> None:
        """Ends the process at once. Called while a caught error still holds the session alive: to
        destroy one whose operation never completes would wait for it.
        """
        self.rank.client.close()
        if status != 0 and self._under_mpirun:
            # An mpirun ends all others as soon as one fails: first the launcher looks at them.
            time.sleep(_LINGERING_S)
        elif self._under_mpirun:
            # MPICH says goodbye to its mpirun in an exit handler, without which all are killed.
            ctypes.CDLL(None).exit(status)
        os._exit(status)


def _kind(error: BaseException) -> str:
    if isinstance(error, engine.AbortedError):
        return "aborted"
    if isinstance(error, engine.DeadlineError):
        return "timeout"
    if isinstance(error, (engine.MissingError, engine.UnsupportedError)):
        return "missing"
    return "error"


def _keep_to(processors: set[int]) -> None:
    """Stays on the given processors, as far as this process may use them at all."""
    allowed = processors & os.sched_getaffinity(0)
    if allowed:
        with suppress(OSError):
            os.sched_setaffinity(0, allowed)


def _job_on_standard_input() -> Job:
    job = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=Job)
    engine.die_with_parent(job.parent_pid)
    return job


def _job_of_mpirun(path: str) -> Job:
    """This rank's of the jobs in ``path``. What the launcher has open is opened from there: an
    mpirun hands no files on.
    """
    engine.die_with_parent(os.getppid())
    if not _descends_from(int(Path(path).parts[2])):
        os._exit(1)  # what started this rank is gone already
    numbers = [os.environ[name] for name in _RANK_VARIABLES if name in os.environ]
    if not numbers:
        raise OSError(f"the mpirun sets none of {', '.join(_RANK_VARIABLES)}")
    job = msgspec.msgpack.decode(Path(path).read_bytes(), type=list[Job])[int(numbers[0])]
    opened = f"/proc/{job.parent_pid}/fd"
    job.team_fd = os.open(f"{opened}/{job.team_fd}", os.O_RDWR)
    job.board_fd = os.open(f"{opened}/{job.board_fd}", os.O_RDWR)
    if job.stack_fd >= 0:
        job.stack_fd = os.open(f"{opened}/{job.stack_fd}", os.O_RDWR)
    return job


def _answer_with_stacks(fd: int) -> None:
    """Lets the launcher ask where this rank is, also when it never comes back from a call."""
    faulthandler.register(STACK_SIGNAL, fd, all_threads=False)
    engine.report_stack_on(STACK_SIGNAL, fd)  # calls the one above, then adds the native stack


def _descends_from(ancestor: int) -> bool:
    """Whether this process was started by ``ancestor``, or by one that was."""
    pid = os.getpid()
    while pid > 1:
        pid = int(
            Path(f"/proc/{pid}/stat")
            .read_text(encoding="utf-8", errors="replace")
            .rpartition(")")[2]
            .split()[1]
        )
        if pid == ancestor:
            return True
    return False


def main() -> None:
    """Runs its job. Leaves without teardown: vendors' exit handlers may hang."""
    # The supervisor reports the signal: an exception in the middle of a call would say less.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        job = _job_of_mpirun(sys.argv[1]) if len(sys.argv) > 1 else _job_on_standard_input()
    except msgspec.DecodeError:
        os._exit(1)  # the launcher went away while it wrote: it says why itself
    except OSError as error:
        print(f"cclmark: this rank does not find its job: {error}", flush=True)
        os._exit(1)
    if job.stack_fd >= 0:
        _answer_with_stacks(job.stack_fd)
    try:
        worker = Worker(job, under_mpirun=len(sys.argv) > 1 or job.mpi)
    except (engine.EngineError, MemoryError, OSError) as error:
        client = Client(job)
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


if __name__ == "__main__":
    main()
