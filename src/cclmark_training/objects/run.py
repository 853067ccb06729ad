"""Object calls of a backend of torch.distributed on one rank."""

from __future__ import annotations

import gc
import pickle
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import cclmark._engine as engine
from cclmark.analysis.stopping import operations_per_batch, precision_of_rounds
from cclmark.rank.all_or_none import GRACE_S, in_step
from cclmark.rank.context import RankContext
from cclmark.rank.measure import hang, least_batch_s, measure_rounds, rounded_s, warm_up
from cclmark.rank.rank import Rank
from cclmark.rank.reserved_buffers import free_on_all
from cclmark.rank.torch_backend import ProcessGroup, cannot, one_line, synchronize
from cclmark.work.inject import RankFaults
from cclmark.work.items import items_of
from cclmark.work.sizes import format_size
from cclmark_training.objects.figures import figures_of
from cclmark_training.objects.plan import FLAG_CALL, ObjectCall, object_of
from cclmark_training.objects.result import ObjectFinding, ObjectResult, ObjectTimes
from cclmark_training.torch_loop import TorchLoop

RunOnce = Callable[[], None]

_UNTOUCHED = 0xA5  # of output tensors before the checked call
_MOST_SHOWN = 40


class ObjectBinding:
    """One call with objects and the call with the same data as a tensor, on the rank's own data.

    ``with_objects`` and ``with_tensors`` perform one call. ``pickle_own`` pickles what this rank
    sends once, ``unpickle_received`` unpickles as many bytes as this rank receives. Tensors are on
    ``place``, the memory from which the backend sends, and have their final size: they neither
    exchange sizes nor allocate.
    """

    def __init__(
        self, torch: Any, place: Any, call: ObjectCall, rank: int, ranks: int, seed: int
    ) -> None:
        self._torch = torch
        self._dist = torch.distributed
        self._place = place
        self._call = call
        self._rank = rank
        self._ranks = ranks
        self._seed = seed
        self.with_objects: RunOnce
        self.with_tensors: RunOnce
        self._sent: list[object] = []  # objects that this rank pickles in one call
        self._received: list[object] = []
        self._input: Any = None
        self._output: Any = None
        self._wanted: list[object] = []
        getattr(self, f"_{call.operation}")()
        self._pickled = [pickle.dumps(one) for one in self._wanted]

    def pickle_own(self) -> None:
        """Pickles the objects that this rank sends in one call."""
        for one in self._sent:
            pickle.dumps(one)

    def unpickle_received(self) -> None:
        """Unpickles copies of the objects that this rank receives in one call."""
        for one in self._pickled:
            pickle.loads(one)  # pickled by this object itself

    def poison(self) -> None:
        """Overwrites the outputs of both calls."""
        self._received[:] = [None] * len(self._received)
        if self._call.operation == FLAG_CALL:
            self._output.fill_(self._rank)
        elif self._output is not None:
            self._output.fill_(_UNTOUCHED)

    def wrong_object(self, corrupt: int | None) -> tuple[str, bool]:
        """Errors in the received objects, empty if nothing is.

        ``corrupt``: the element of them that is changed before the comparison; the second result
        reports whether there is such an element. Elements are bytes, numbers or the flag itself,
        counted over all objects.
        """
        received, was_corrupted = list(self._received), False
        if corrupt is not None:
            received, was_corrupted = _corrupted(received, corrupt)
        for number, (got, wanted) in enumerate(zip(received, self._wanted, strict=True)):
            if text := _difference(got, wanted):
                return f"object {number} of {len(received)}: {text}", was_corrupted
        return "", was_corrupted

    def wrong_tensor(self, corrupt: int | None) -> tuple[str, bool]:
        """The same for the output of the call with tensors, whose elements are bytes."""
        if self._output is None:
            return "", False
        got = self._output.cpu().reshape(-1).clone()
        wanted = self._wanted_tensor()
        was_corrupted = corrupt is not None and corrupt < got.numel()
        if was_corrupted:
            got[corrupt] ^= 1
        bad = (got != wanted).nonzero()
        if not len(bad):
            return "", was_corrupted
        first = int(bad[0])
        return (
            f"{len(bad)} of {got.numel()} elements wrong, first at index {first}: expected "
            f"{wanted[first].item()}, got {got[first].item()}"
        ), was_corrupted

    def _wanted_tensor(self) -> Any:
        if self._call.operation == FLAG_CALL:
            return self._torch.tensor([self._ranks - 1], dtype=self._torch.int32)
        data = bytearray().join(self._pickled)
        return self._torch.frombuffer(data, dtype=self._torch.uint8)

    def _object(self, rank: int, part: int = 0) -> object:
        return object_of(self._call, rank, self._seed, part)

    def _every_object(self) -> list[object]:
        return [self._object(rank) for rank in range(self._ranks)]

    def _tensor_of(self, value: object) -> Any:
        data = bytearray(pickle.dumps(value))
        return self._torch.frombuffer(data, dtype=self._torch.uint8).to(self._place)

    def _empty(self, objects: int = 1) -> Any:
        size = objects * self._call.size_bytes
        return self._torch.empty(size, dtype=self._torch.uint8, device=self._place)

    def _split(self, whole: Any) -> list[Any]:
        return list(whole.split(self._call.size_bytes))

    def _gathers(self) -> None:
        """The objects of all_gather_object, also for a flag."""
        own = self._object(self._rank)
        self._sent, self._wanted = [own], self._every_object()
        self._received = [None] * self._ranks
        self.with_objects = lambda: self._dist.all_gather_object(self._received, own)

    def _flag(self) -> None:
        self._gathers()
        self._output = self._torch.full((1,), self._rank, dtype=self._torch.int32).to(self._place)
        largest = self._dist.ReduceOp.MAX

        def reduced() -> None:
            self._dist.all_reduce(self._output, largest)
            # A program waits for the flag to decide by it, as all_gather_object does.
            self._output.item()

        self.with_tensors = reduced

    def _all_gather_object(self) -> None:
        self._gathers()
        self._input, self._output = self._tensor_of(self._sent[0]), self._empty(self._ranks)
        self.with_tensors = lambda: self._dist.all_gather_into_tensor(self._output, self._input)

    def _broadcast_object_list(self) -> None:
        value = self._object(0)
        is_root = self._rank == 0
        self._sent = [value] if is_root else []
        self._wanted = [] if is_root else [value]
        self._received = [] if is_root else [None]
        tensor = self._tensor_of(value) if is_root else self._empty()
        self._output = None if is_root else tensor
        objects = self._sent if is_root else self._received
        self.with_objects = lambda: self._dist.broadcast_object_list(objects, 0)
        self.with_tensors = lambda: self._dist.broadcast(tensor, 0)

    def _scatter_object_list(self) -> None:
        parts = [self._object(0, part) for part in range(self._ranks)]
        is_root = self._rank == 0
        self._sent = parts if is_root else []
        self._wanted, self._received = [parts[self._rank]], [None]
        self._output = self._empty()
        tensors = [self._tensor_of(part) for part in parts] if is_root else None
        sent = parts if is_root else None
        self.with_objects = lambda: self._dist.scatter_object_list(self._received, sent, 0)
        self.with_tensors = lambda: self._dist.scatter(self._output, tensors, 0)

    def _gather_object(self) -> None:
        own = self._object(self._rank)
        is_root = self._rank == 0
        self._sent, self._input = [own], self._tensor_of(own)
        if is_root:
            self._wanted, self._received = self._every_object(), [None] * self._ranks
            self._output = self._empty(self._ranks)
        received = self._received if is_root else None
        parts = self._split(self._output) if is_root else None
        self.with_objects = lambda: self._dist.gather_object(own, received, 0)
        self.with_tensors = lambda: self._dist.gather(self._input, parts, 0)

    def _send_object_list(self) -> None:
        peer = self._rank ^ 1
        if peer >= self._ranks:  # the last of an odd number of ranks
            self.with_objects = self.with_tensors = lambda: None
        elif self._rank < peer:
            self._sent = [self._object(self._rank)]
            self._input = self._tensor_of(self._sent[0])
            self.with_objects = lambda: self._dist.send_object_list(self._sent, peer)
            self.with_tensors = lambda: self._dist.send(self._input, peer)
        else:
            self._wanted, self._received = [self._object(peer)], [None]
            self._output = self._empty()
            self.with_objects = lambda: _discard(self._dist.recv_object_list(self._received, peer))
            self.with_tensors = lambda: _discard(self._dist.recv(self._output, peer))


def _discard(value: object) -> None:
    """Nothing: receiving functions return the sender."""


def _corrupted(received: Sequence[object], element: int) -> tuple[list[object], bool]:
    """The objects with one element changed, and whether there is such an element."""
    changed = list(received)
    for number, one in enumerate(received):
        length = len(one) if isinstance(one, bytes | list) else 1
        if element >= length:
            element -= length
            continue
        if isinstance(one, bytes):
            changed[number] = one[:element] + bytes([one[element] ^ 1]) + one[element + 1 :]
        elif isinstance(one, list):
            changed[number] = [*one[:element], -1.0, *one[element + 1 :]]
        else:
            changed[number] = not one
        return changed, True
    return changed, False


def _difference(got: object, wanted: object) -> str:
    """The difference between a received object and the sent one, empty if they are equal."""
    if type(got) is not type(wanted):
        return f"expected {type(wanted).__name__}, got {type(got).__name__}"
    if got == wanted:
        return ""
    if isinstance(got, bytes | list) and isinstance(wanted, bytes | list):
        if len(got) != len(wanted):
            return f"expected {len(wanted)} elements, got {len(got)}"
        place = next(
            i for i, pair in enumerate(zip(got, wanted, strict=True)) if pair[0] != pair[1]
        )
        return f"first wrong element at index {place}: expected {wanted[place]}, got {got[place]}"
    return f"expected {wanted!r:.{_MOST_SHOWN}}, got {got!r:.{_MOST_SHOWN}}"


_OBJECTS, _TENSORS = 0, 1  # places in _Rows


class _Rows(NamedTuple):
    """The times of one round by rank, in seconds per call."""

    objects: list[float]
    tensors: list[float]
    pickling: list[float]
    unpickling: list[float]


class ObjectRunner:
    """Measures object calls on one rank, in step with the same object on the others.

    Decisions depend only on times shared by all ranks, so all ranks decide alike.
    """

    def __init__(self, rank: Rank, torch: Any, device: Any, place: Any) -> None:
        """``device``: of the rank. ``place``: of tensors that the backend sends."""
        self._rank = rank
        self._torch = torch
        self._device = device
        self._place = place
        self._settings = rank.job.settings
        self._least_s = least_batch_s(rank.job, range(rank.job.ranks))
        job = rank.job
        self._faults = RankFaults.of_rank(self._settings.inject, job.rank, job.ranks)
        self._delay_s = self._faults.delay_s
        self.was_corrupted = False  # whether an output had the element to corrupt

    @property
    def corrupts(self) -> bool:
        """Whether this rank has an element to corrupt."""
        return self._faults.corrupt is not None

    def run(self, index: int, call: ObjectCall) -> ObjectResult:
        """Measures and checks one call. A call that the backend does not support is skipped."""
        begin_s, started_at_s = time.monotonic(), time.time()
        rank, job = self._rank, self._rank.job
        rank.enter("preparing")
        binding = ObjectBinding(
            self._torch, self._place, call, job.rank, job.ranks, self._settings.seed
        )
        runs = (
            binding.with_objects,
            binding.with_tensors,
            binding.pickle_own,
            binding.unpickle_received,
        )
        try:
            for run in runs[:2]:
                # Connects, allocates, and is refused by a backend that does not support it.
                in_step(rank.agreement, partial(self._first, run), GRACE_S)
        except engine.UnsupportedError as error:
            return ObjectResult(index, call, "skipped", str(error))
        counts = [self._warm_up(run) for run in runs]
        if index in self._faults.hangs:
            hang(rank.enter, self._settings.timeout_s)
        rounds, converged = self._rounds(runs, counts)
        findings = self._verify(binding) if self._settings.check else []
        times = ObjectTimes(
            objects_s=rounded_s([row.objects for row in rounds]),
            tensors_s=rounded_s([row.tensors for row in rounds]),
            pickling_s=rounded_s([row.pickling for row in rounds]),
            unpickling_s=rounded_s([row.unpickling for row in rounds]),
            calls=counts[_OBJECTS],
            tensor_calls=counts[_TENSORS],
        )
        return ObjectResult(
            index=index,
            call=call,
            status="wrong" if findings else "ok",
            started_at_s=started_at_s,
            duration_s=time.monotonic() - begin_s,
            converged=converged,
            times=times,
            figures=figures_of(times),
            checked=bool(self._settings.check),
            findings=findings,
        )

    def _first(self, run: RunOnce) -> None:
        with _torch_errors(unsupported=True):
            run()
            self._synchronize()

    def _synchronize(self) -> None:
        synchronize(self._torch, self._device)

    def _batch(self, run: RunOnce, count: int) -> list[float]:
        """The time of a call in seconds on every rank, from ``count`` calls in a row."""
        group = self._rank.rank_group
        self._synchronize()
        group.barrier()
        begin_s = time.perf_counter()
        if self._delay_s:
            time.sleep(self._delay_s)
        with _torch_errors():
            for _ in range(count):
                run()
            self._synchronize()
        return list(group.gather([(time.perf_counter() - begin_s) / count]))

    def _warm_up(self, run: RunOnce) -> int:
        """Calls until the times of two batches agree, and returns the length of a batch."""
        self._rank.enter("warm-up", 0)
        time_s = max(self._batch(run, 1))
        length = partial(operations_per_batch, least_s=self._least_s)

        def batch(count: int) -> tuple[float, float]:
            found_s = max(self._batch(run, count))
            return found_s, found_s * count

        return length(warm_up(self._rank.enter, time_s, length, batch)[0])

    def _rounds(self, runs: Sequence[RunOnce], counts: Sequence[int]) -> tuple[list[_Rows], bool]:
        """The rounds, and whether both medians have the requested precision.

        Each round begins with another of the four.
        """
        rounds: list[_Rows] = []

        def measure(number: int) -> float:
            self._rank.enter("timing", number)
            found: dict[int, list[float]] = {}
            elapsed_s = 0.0
            for step in range(len(runs)):
                place = (step + number) % len(runs)
                found[place] = self._batch(runs[place], counts[place])
                elapsed_s += max(found[place]) * counts[place]
            rounds.append(_Rows(*(found[place] for place in range(len(runs)))))
            return elapsed_s

        converged = measure_rounds(
            precision_of_rounds(self._settings.precision, self._settings.max_time_s),
            measure,
            lambda: ([max(row[place]) for row in rounds] for place in (_OBJECTS, _TENSORS)),
        )
        return rounds, converged

    def _verify(self, binding: ObjectBinding) -> list[ObjectFinding]:
        """One more call of each kind whose outputs are overwritten before and compared after."""
        rank, job = self._rank, self._rank.job
        rank.enter("verification")
        binding.poison()
        self._synchronize()
        rank.rank_group.barrier()
        with _torch_errors():
            binding.with_objects()
            binding.with_tensors()
            self._synchronize()
        texts: list[str] = []
        for check in (binding.wrong_object, binding.wrong_tensor):
            text, was_corrupted = check(self._faults.corrupt)
            self.was_corrupted |= was_corrupted
            texts.append(text)
        wrong = rank.rank_group.gather([float(bool(text)) for text in texts])
        return self._told(texts, [wrong[2 * one : 2 * one + 2] for one in range(job.ranks)])

    def _told(self, own: Sequence[str], wrong: Sequence[Sequence[float]]) -> list[ObjectFinding]:
        """The texts of every rank with wrong data, on rank 0; on others the places alone."""
        rank, job = self._rank, self._rank.job
        found = []
        for other in range(job.ranks):
            for place, name in enumerate(("objects", "tensors")):
                if not wrong[other][place]:
                    continue
                key = f"wrong {name} {rank.case_index} of rank {other}"
                if other == job.rank != 0:
                    rank.client.put(key, own[place].encode())
                text = own[place]
                if job.rank == 0 and other:
                    text = rank.client.get(key, self._settings.timeout_s).decode()
                found.append(ObjectFinding(other, name, text))
        return found


@contextmanager
def _torch_errors(*, unsupported: bool = False) -> Iterator[None]:
    """Raises EngineError for any error of torch, its plug-ins and pickle, which may be of any type.

    ``unsupported``: UnsupportedError if the backend reports that it does not support the call.
    """
    try:
        yield
    except Exception as error:
        if unsupported and cannot(error):
            raise engine.UnsupportedError(one_line(error)) from None
        name = "" if isinstance(error, RuntimeError) else f"{type(error).__name__}: "
        raise engine.EngineError(f"torch.distributed: {name}{one_line(error)}") from None


#: Backends that send from host memory, also in processes with accelerators.
_OF_HOST = ("gloo", "mpi")
# Copies of an object on a rank: the object, its pickle, torch's tensor, the tensor to compare with.
_OWN_COPIES = 4
# Of each received one: torch's tensor, the object, the output with tensors, and for the check the
# expected object, its pickle, both outputs as bytes and a copy of one.
_RECEIVED_COPIES = 8


def run(context: RankContext) -> None:
    """Loads torch, introduces the rank and measures the calls; rank 0 reports."""
    _ObjectLoop(context, items_of(context.rank.planned, ObjectCall)).run()


class _ObjectLoop(TorchLoop):
    def __init__(self, context: RankContext, calls: Sequence[ObjectCall]) -> None:
        super().__init__(context, calls, calls[0].backend)
        self._calls = calls

    def require(self, torch: Any) -> None:
        """Raises MissingError without numpy, which torch requires to convert Python objects."""
        try:
            torch.zeros(1).numpy()
        except RuntimeError as error:
            raise engine.MissingError(
                f"torch requires numpy for Python objects: pip install numpy ({one_line(error)})"
            ) from None

    def open(self, torch: Any, device: Any, group: ProcessGroup) -> None:
        """See TorchLoop."""
        rank = self.rank
        place = torch.device("cpu") if self.backend in _OF_HOST else device
        self._runner = ObjectRunner(rank, torch, device, place)
        here = len(self.job.ranks_here)
        self._free_bytes = free_on_all(self.context.devices[0], rank.rank_group, here)
        gc.collect()
        gc.disable()

    def measure(self, index: int) -> ObjectResult:
        """See TorchLoop. A call that does not fit into the memory is skipped."""
        call = self._calls[index]
        needed_bytes = call.size_bytes * (_OWN_COPIES + _RECEIVED_COPIES * self.job.ranks)
        if needed_bytes > self._free_bytes:
            reason = f"requires {format_size(needed_bytes)} of memory per rank; "
            reason += f"{format_size(self._free_bytes)} are free"
            return ObjectResult(index, call, "skipped", reason)
        result = self._runner.run(index, call)
        gc.collect()
        return result

    def finish(self) -> None:
        """Reports an element to corrupt that no object has."""
        if self._runner.corrupts and not self._runner.was_corrupted:
            self.rank.notice(
                f"no output of rank {self.job.rank} was corrupted: no received object contains the "
                "element"
            )
