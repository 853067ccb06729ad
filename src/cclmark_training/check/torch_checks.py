"""The checks of torch.distributed: each calls an operation and compares its output."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from cclmark.rank.torch_backend import synchronize
from cclmark.work.torch_devices import TORCH_DEVICES
from cclmark_training.check.plan import ALL_CHECKS
from cclmark_training.check.result import CheckedValue

_SHOWN_WHOLE = 8  # a longer tensor is shown by its ends
_END = 3
_MOST_OF_LIST = 4
_MOST_VALUES = 6  # of a check on one rank: so many before operations, and so many after them
_MOST_TEXT = 200
_RECORDED = (
    *("all_reduce", "broadcast", "reduce", "all_gather", "all_gather_into_tensor", "gather"),
    *("scatter", "reduce_scatter", "reduce_scatter_tensor", "all_to_all", "all_to_all_single"),
    *("send", "recv", "isend", "irecv", "all_gather_object", "broadcast_object_list"),
)
_OBJECTS = ("obj", "object_list")  # the names of arguments with Python objects


class ValueRecorder:
    """The values of one check after another on one rank."""

    def __init__(self, torch: Any, rank: int) -> None:
        self._torch = torch
        self._rank = rank
        self._calls: set[str] = set()  # since outputs were last compared
        self._is_compared = False
        self._left_out = 0
        self._kept: list[tuple[str, str, str, Callable[[], str]]] = []

    def called(self, call: str) -> None:
        """Records the name of an operation that is called."""
        if self._is_compared:
            self._calls.clear()
            self._is_compared = False
        self._calls.add(call)

    def before(self, call: str, name: str, value: Any) -> None:
        """Keeps an argument of a call."""
        self._keep("before", call, name, value)

    def after(self, name: str, value: Any) -> None:
        """Keeps an output that is compared, with the operation if only one was called before."""
        self._is_compared = True
        self._keep("after", next(iter(self._calls)) if len(self._calls) == 1 else "", name, value)

    def take(self) -> list[CheckedValue]:
        """The values since the last call of this function, as texts."""
        values = [
            CheckedValue(self._rank, moment, call, name, text())
            for moment, call, name, text in self._kept
        ]
        if self._left_out:
            values.append(CheckedValue(self._rank, "", "", "", f"{self._left_out} more values"))
        self._kept, self._left_out = [], 0
        self._calls.clear()
        return values

    def _keep(self, moment: str, call: str, name: str, value: Any) -> None:
        parts = list(_parts(self._torch, name, value))
        for part_name, part in parts[:_MOST_OF_LIST]:
            if sum(one[0] == moment for one in self._kept) < _MOST_VALUES:
                self._kept.append((moment, call, part_name, _text_of(self._torch, part)))
            else:
                self._left_out += 1
        self._left_out += max(0, len(parts) - _MOST_OF_LIST)


class RecordingDist:
    """``torch.distributed`` whose operations report their tensors to a recorder first."""

    def __init__(self, torch: Any, recorder: ValueRecorder) -> None:
        self._torch = torch
        self._dist = torch.distributed
        self._recorder = recorder

    def __getattr__(self, name: str) -> Any:
        """The member of torch.distributed, wrapped if it is an operation with tensors."""
        member = getattr(self._dist, name)
        if name not in _RECORDED:
            return member
        signature = inspect.signature(member)

        def call(*arguments: Any, **named: Any) -> Any:
            self._recorder.called(name)
            bound = signature.bind(*arguments, **named).arguments
            for parameter, value in bound.items():
                if parameter in _OBJECTS or _is_tensor(self._torch, value):
                    self._recorder.before(name, parameter, value)
            return member(*arguments, **named)

        call.operation = member  # type: ignore[attr-defined]
        return call

    def P2POp(self, operation: Any, tensor: Any, peer: int) -> Any:  # noqa: N802 - torch's name
        """An operation of a batch; torch compares the function with its own."""
        function = getattr(operation, "operation", operation)
        self._recorder.called("batch_isend_irecv")
        self._recorder.before(f"{function.__name__} with rank {peer}", "tensor", tensor)
        return self._dist.P2POp(function, tensor, peer)


def _is_tensor(torch: Any, value: Any) -> bool:
    """Whether a value is a tensor or a list of tensors."""
    first = value[0] if isinstance(value, list) and value else value
    return isinstance(first, torch.Tensor)


def _parts(torch: Any, name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, list) and _is_tensor(torch, value):
        for number, part in enumerate(value):
            yield f"{name}[{number}]", part
    else:
        yield name, value


def _text_of(torch: Any, value: Any) -> Callable[[], str]:
    """A function that returns the text of a value as it is now."""
    if not isinstance(value, torch.Tensor):
        shown = repr(value)
        return lambda: shown if len(shown) <= _MOST_TEXT else shown[: _MOST_TEXT - 1] + "…"
    flat = value.detach().reshape(-1)
    count = flat.numel()
    whole = count <= _SHOWN_WHOLE
    ends = [flat.clone()] if whole else [flat[:_END].clone(), flat[-_END:].clone()]
    shape = "x".join(map(str, value.shape))
    words = [str(value.dtype).removeprefix("torch.")]
    words += [] if whole else [f"shape {shape}"]
    words.append(f"device='{value.device}'")

    def text() -> str:
        parts = [", ".join(map(_number, end.cpu().tolist())) for end in ends]
        return f"tensor([{', ..., '.join(parts)}], {', '.join(words)})"

    return text


def _number(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


_COUNT = 1000
# Constants of a 32-bit hash: odd numbers without a pattern.
_SPREAD, _APART, _STIR, _WORD = 0x9E3779B1, 0x85EBCA6B, 0x2C1B3C6D, 0xFFFFFFFF
_AVERAGED = 1024  # averages are compared with a resolution of 1/1024
_MOST_VALUE = 13  # integers up to 16 are exact in 8-bit floats
_RANDOM = 1 << 12
_RANDOM_COUNT = 4
_LARGE = 16 << 20  # elements of 4 bytes
_PIECE = 1 << 15  # elements that are generated at once
_FACTOR = 3.0
_LATE_S = 0.2
# Backends that match messages by order only: they support neither tags nor unknown senders.
_IN_ORDER = {"flagcx", "ccl", *(one.backend for one in TORCH_DEVICES.values())} - {"gloo"}


class NotThereError(Exception):
    """The backend does not support the operation, and an attempt might hang."""


@dataclass(eq=False)
class World:
    """The context of a check.

    ``_corrupt``: the element to falsify in every output, or None. ``seed``: of random values.
    ``_recorder``: keeps the tensors before and after the operations, or None. ``mismatch``: the
    first output that differs from the expected one, as text. A rank with a wrong output continues
    with the check, because the others would wait in vain for its next operation.
    """

    torch: Any
    backend: str
    rank: int
    size: int
    device: Any
    _corrupt: int | None = None
    _recorder: ValueRecorder | None = None
    seed: int = 0
    falsified = False  # whether an output had that element
    mismatch = ""

    def __post_init__(self) -> None:
        self.dist = self.torch.distributed
        if self._recorder is not None:
            self.dist = RecordingDist(self.torch, self._recorder)

    def values(self, number: int, count: int = _COUNT, dtype: Any = None) -> Any:
        """A sequence of small integers for ``number``, of which every reduction is exact.

        The sequences of two numbers are neither equal nor shifted copies of each other.
        """
        torch = self.torch
        values = torch.empty(count, dtype=dtype or torch.float32)
        # The steps need eight bytes per element, which stay in a cache for some elements.
        for begin in range(0, count, _PIECE):
            mixed = torch.arange(begin, min(begin + _PIECE, count), dtype=torch.int64)
            mixed.mul_(_SPREAD).add_((number + 1) * _APART).bitwise_and_(_WORD)
            mixed.bitwise_xor_(mixed >> 15)
            mixed.mul_(_STIR).bitwise_and_(_WORD).bitwise_right_shift_(16)
            mixed.remainder_(_MOST_VALUE).add_(1)
            values[begin : begin + _PIECE] = mixed
        return values.to(self.device)

    def empty(self, count: int = _COUNT, dtype: Any = None) -> Any:
        """A tensor for an output, filled with a value that no output contains."""
        return self.torch.full((count,), 77, dtype=dtype or self.torch.float32, device=self.device)

    def random_values(self) -> Any:
        """Random values from 0 to 1 for every rank, as rows, which depend on the seed.

        They are multiples of 2^-12, so that the sum over 4096 ranks is exact in every order.
        """
        torch = self.torch
        generator = torch.Generator().manual_seed(self.seed)
        whole = torch.randint(0, _RANDOM, (self.size, _RANDOM_COUNT), generator=generator)
        return (whole.to(torch.float32) / _RANDOM).to(self.device)

    def all_values(self, count: int = _COUNT, dtype: Any = None) -> list[Any]:
        """The ``values`` of every rank."""
        return [self.values(rank, count, dtype) for rank in range(self.size)]

    def total(self, ranks: list[int] | None = None, count: int = _COUNT, dtype: Any = None) -> Any:
        """The sum of ``values`` over ``ranks``, by default over all ranks."""
        torch = self.torch
        result = torch.zeros(count, dtype=dtype or torch.float32, device=self.device)
        for rank in range(self.size) if ranks is None else ranks:
            result += self.values(rank, count, dtype)
        return result

    def expect(self, got: Any, wanted: Any, what: str = "output") -> None:
        """Keeps a mismatch with the first wrong index if a tensor differs from ``wanted``."""
        torch = self.torch
        synchronize(torch, self.device)
        if self._corrupt is not None and got.numel() > self._corrupt:
            self.falsified = True
            got = got.clone()
            flat = got.reshape(-1)
            flat[self._corrupt] = 0 if flat[self._corrupt] != 0 else 1
            got = flat.reshape(got.shape)
        if self._recorder is not None:
            self._recorder.after(what, got)
        if got.shape != wanted.shape or got.dtype != wanted.dtype:
            self.mismatched(
                f"{what}: {tuple(got.shape)} of {got.dtype}, expected {tuple(wanted.shape)} of "
                f"{wanted.dtype}"
            )
            return
        bad = (got != wanted).reshape(-1).nonzero()
        if len(bad):
            place = int(bad[0])
            self.mismatched(
                f"{what}: {len(bad)} of {got.numel()} wrong, first at index {place}: expected "
                f"{wanted.reshape(-1)[place].item()}, got {got.reshape(-1)[place].item()}"
            )

    def expect_objects(self, got: list[object], wanted: list[object]) -> None:
        """Keeps a mismatch if received objects differ from ``wanted``."""
        if self._recorder is not None:
            self._recorder.after("object_list", got)
        if got != wanted:
            self.mismatched(f"expected {wanted}, got {got}")

    def mismatched(self, what: str) -> None:
        """Keeps the first difference of a check."""
        self.mismatch = self.mismatch or what

    def reduced(self, operation: Any, combine: Callable[[Any], Any], dtype: Any = None) -> None:
        """Compares one all_reduce with ``combine`` of the stacked inputs of all ranks.

        The inputs are ones and twos, so that sums and products over many ranks are exact in every
        type.
        """
        inputs = [self.values(rank, dtype=self.torch.int64) % 2 + 1 for rank in range(self.size)]
        stacked = self.torch.stack(inputs).to(dtype or self.torch.float32)
        x = stacked[self.rank].clone()
        self.dist.all_reduce(x, operation)
        self.expect(x, combine(stacked).to(x.dtype))


_Check = Callable[[World], None]


def _fold(function: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    def combine(stacked: Any) -> Any:
        result = stacked[0]
        for row in stacked[1:]:
            result = function(result, row)
        return result

    return combine


def _reduced(operation: str, combine: Callable[[Any], Any], dtype: str = "float32") -> _Check:
    return lambda w: w.reduced(
        getattr(w.dist.ReduceOp, operation), combine, getattr(w.torch, dtype)
    )


def _bitwise(name: str) -> _Check:
    return lambda w: w.reduced(
        getattr(w.dist.ReduceOp, f"B{name.upper()}"),
        _fold(getattr(w.torch, f"bitwise_{name}")),
        w.torch.int32,
    )


def _total(stacked: Any) -> Any:
    return stacked.sum(0)


_all_reduce_sum = _reduced("SUM", _total)
_all_reduce_min = _reduced("MIN", lambda stacked: stacked.amin(0))
_all_reduce_max = _reduced("MAX", lambda stacked: stacked.amax(0))
_all_reduce_prod = _reduced("PRODUCT", lambda stacked: stacked.prod(0), "float64")
_all_reduce_band, _all_reduce_bor, _all_reduce_bxor = map(_bitwise, ("and", "or", "xor"))
_all_reduce_float64 = _reduced("SUM", _total, "float64")
_all_reduce_float16 = _reduced("SUM", _total, "float16")
_all_reduce_bfloat16 = _reduced("SUM", _total, "bfloat16")
_all_reduce_complex64 = _reduced("SUM", _total, "complex64")
_all_reduce_int8 = _reduced("SUM", _total, "int8")
_all_reduce_uint8 = _reduced("SUM", _total, "uint8")
_all_reduce_int32 = _reduced("SUM", _total, "int32")
_all_reduce_int64 = _reduced("SUM", _total, "int64")


def _all_reduce_avg(w: World) -> None:
    x = w.values(w.rank) * w.size
    w.dist.all_reduce(x, w.dist.ReduceOp.AVG)
    # A backend may multiply by 1/n first, which is not exact for every n.
    w.expect((x * _AVERAGED).round() / _AVERAGED, w.total())


def _all_reduce_premul_sum(w: World) -> None:
    # Torch's public function for this operation has a leading underscore.
    operation = w.dist._make_nccl_premul_sum(_FACTOR)
    x = w.values(w.rank)
    w.dist.all_reduce(x, operation)
    w.expect(x, w.total() * _FACTOR)


def _all_reduce_float8(w: World) -> None:
    # Sums of such numbers may be inexact with many ranks, but the maximum is always exact.
    x = w.values(w.rank, dtype=w.torch.float8_e4m3fn)
    w.dist.all_reduce(x, w.dist.ReduceOp.MAX)
    w.expect(x.float(), w.torch.stack(w.all_values()).amax(0))


def _all_reduce_bool(w: World) -> None:
    inputs = [w.values(rank, dtype=w.torch.int64) % 3 == 0 for rank in range(w.size)]
    x = inputs[w.rank].clone()
    w.dist.all_reduce(x, w.dist.ReduceOp.MAX)
    w.expect(x, w.torch.stack(inputs).any(0))


def _all_reduce_large(w: World) -> None:
    x = w.values(w.rank, _LARGE)
    w.dist.all_reduce(x)
    w.expect(x, w.total(count=_LARGE))


def _all_reduce_scalar(w: World) -> None:
    x = w.torch.tensor(float(w.rank + 1), device=w.device)
    w.dist.all_reduce(x)
    w.expect(x, w.torch.tensor(w.size * (w.size + 1) / 2, device=w.device))


def _all_reduce_empty(w: World) -> None:
    x = w.values(w.rank, 0)
    w.dist.all_reduce(x)
    w.expect(x, w.values(0, 0))


def _all_reduce_strided(w: World) -> None:
    whole = w.values(w.rank, 40 * 50).reshape(40, 50)
    x = whole.t()
    w.dist.all_reduce(x)
    w.expect(x, w.total(count=40 * 50).reshape(40, 50).t())


def _all_reduce_offset(w: World) -> None:
    whole = w.values(w.rank, 100)
    untouched = whole.clone()
    w.dist.all_reduce(whole[3:90])
    w.expect(whole[3:90], w.total(count=100)[3:90])
    w.expect(whole[:3], untouched[:3], "elements before the slice")
    w.expect(whole[90:], untouched[90:], "elements after the slice")


def _all_reduce_async(w: World) -> None:
    tensors = [w.values(w.rank, _COUNT + k) for k in range(5)]
    handles = [w.dist.all_reduce(x, async_op=True) for x in tensors]
    for handle in reversed(handles):
        handle.wait()
    for k, x in enumerate(tensors):
        w.expect(x, w.total(count=_COUNT + k), f"output {k}")


def _sub_group(w: World) -> None:
    members = list(range(0, w.size, 2)) if w.size > 2 else [0, 1]
    group = w.dist.new_group(members)
    x = w.values(w.rank)
    if w.rank in members:
        w.dist.all_reduce(x, group=group)
    w.expect(x, w.total(members) if w.rank in members else w.values(w.rank))


def _sub_groups_at_once(w: World) -> None:
    middle = max(2, (w.size + 1) // 2)  # the output of a single rank would be its input
    halves = [list(range(middle)), list(range(middle, w.size))]
    groups = [w.dist.new_group(half) for half in halves if half]
    number = 0 if w.rank < middle else 1
    x = w.values(w.rank)
    for _ in range(3):
        x = w.values(w.rank)
        w.dist.all_reduce(x, group=groups[number])
    w.expect(x, w.total(halves[number]))


def _nested_groups(w: World) -> None:
    outer = list(range(max(2, w.size - 1)))
    inner = outer[:1] + outer[-1:] if len(outer) > 1 else outer
    in_outer, in_inner = w.dist.new_group(outer), w.dist.new_group(inner)
    x = w.values(w.rank)
    if w.rank in outer:
        w.dist.all_reduce(x, group=in_outer)
        w.expect(x, w.total(outer), "output of the outer group")
    if w.rank in inner:
        y = w.values(w.rank)
        w.dist.all_reduce(y, group=in_inner)
        w.expect(y, w.total(sorted(set(inner))), "output of the inner group")
    z = w.values(w.rank)
    w.dist.all_reduce(z)
    w.expect(z, w.total(), "output of the world afterwards")


def _broadcast(w: World) -> None:
    for root in range(w.size):
        x = w.values(w.rank) if w.rank == root else w.empty()
        w.dist.broadcast(x, root)
        w.expect(x, w.values(root), f"output from root {root}")


def _broadcast_async(w: World) -> None:
    tensors = [w.values(root) if w.rank == root else w.empty() for root in range(w.size)]
    handles = [w.dist.broadcast(x, root, async_op=True) for root, x in enumerate(tensors)]
    for handle in handles:
        handle.wait()
    for root, x in enumerate(tensors):
        w.expect(x, w.values(root), f"output from root {root}")


def _needs_numpy(w: World) -> None:
    """Raises NotThereError without numpy, which torch requires to convert Python objects."""
    try:
        w.torch.zeros(1).numpy()
    except RuntimeError as error:
        raise NotThereError(f"torch requires numpy for Python objects: {error}") from None


def _broadcast_objects(w: World) -> None:
    _needs_numpy(w)
    sent: list[object] = [{"a": [1, 2]}, "text", None]
    got: list[object] = list(sent) if w.rank == 0 else [0, 0, 0]
    w.dist.broadcast_object_list(got, 0, device=w.device)
    w.expect_objects(got, sent)


def _reduce(w: World) -> None:
    for root in range(w.size):
        x = w.values(w.rank)
        w.dist.reduce(x, root)
        if w.rank == root:
            w.expect(x, w.total(), f"output at root {root}")


def _gathered(count: Callable[[int], int]) -> _Check:
    """``count``: the number of elements of a rank."""

    def check(w: World) -> None:
        got = [w.empty(count(rank)) for rank in range(w.size)]
        w.dist.all_gather(got, w.values(w.rank, count(w.rank)))
        for rank, x in enumerate(got):
            w.expect(x, w.values(rank, count(rank)), f"part of rank {rank}")

    return check


_all_gather = _gathered(lambda rank: _COUNT)
_all_gather_uneven = _gathered(lambda rank: 10 + rank)


def _all_gather_into_tensor(w: World) -> None:
    got = w.empty(_COUNT * w.size)
    w.dist.all_gather_into_tensor(got, w.values(w.rank))
    w.expect(got, w.torch.cat(w.all_values()))


def _all_gather_objects(w: World) -> None:
    _needs_numpy(w)
    got: list[object] = [None] * w.size
    w.dist.all_gather_object(got, {"rank": w.rank, "text": "x" * w.rank})
    wanted: list[object] = [{"rank": rank, "text": "x" * rank} for rank in range(w.size)]
    w.expect_objects(got, wanted)


def _gather(w: World) -> None:
    for root in range(w.size):
        got = [w.empty() for _ in range(w.size)] if w.rank == root else None
        w.dist.gather(w.values(w.rank), got, root)
        for rank, x in enumerate(got or []):
            w.expect(x, w.values(rank), f"part of rank {rank} at root {root}")


def _scatter(w: World) -> None:
    for root in range(w.size):
        x = w.empty()
        parts = [w.values(root * w.size + rank) for rank in range(w.size)]
        w.dist.scatter(x, parts if w.rank == root else None, root)
        w.expect(x, w.values(root * w.size + w.rank), f"output from root {root}")


def _scattered(count: Callable[[int], int]) -> _Check:
    """``count``: the number of elements of a rank."""

    def check(w: World) -> None:
        x = w.empty(count(w.rank))
        w.dist.reduce_scatter(
            x, [w.values(w.rank * w.size + to, count(to)) for to in range(w.size)]
        )
        w.expect(x, _sum_of(w, _own_parts(w), count(w.rank)))

    return check


_reduce_scatter = _scattered(lambda rank: _COUNT)
_reduce_scatter_uneven = _scattered(lambda rank: 10 + rank)


def _reduce_scatter_tensor(w: World) -> None:
    x = w.empty()
    w.dist.reduce_scatter_tensor(x, w.torch.cat(_parts_of(w)))
    w.expect(x, _sum_of(w, _own_parts(w), _COUNT))


def _parts_of(w: World) -> list[Any]:
    """The parts of this rank for each rank."""
    return [w.values(w.rank * w.size + to) for to in range(w.size)]


def _own_parts(w: World) -> list[int]:
    """The numbers of the parts of each rank for this rank."""
    return [rank * w.size + w.rank for rank in range(w.size)]


def _sum_of(w: World, numbers: list[int], count: int) -> Any:
    return w.torch.stack([w.values(number, count) for number in numbers]).sum(0)


def _all_to_all(w: World) -> None:
    got = [w.empty() for _ in range(w.size)]
    w.dist.all_to_all(got, _parts_of(w))
    for rank, (x, number) in enumerate(zip(got, _own_parts(w), strict=True)):
        w.expect(x, w.values(number), f"part of rank {rank}")


def _all_to_all_single(w: World) -> None:
    got = w.empty(_COUNT * w.size)
    w.dist.all_to_all_single(got, w.torch.cat(_parts_of(w)))
    w.expect(got, w.torch.cat([w.values(number) for number in _own_parts(w)]))


def _all_to_all_uneven(w: World) -> None:
    sent = [w.values(w.rank * w.size + to, 5 + w.rank + 2 * to) for to in range(w.size)]
    counts = [5 + rank + 2 * w.rank for rank in range(w.size)]
    got = w.empty(sum(counts))
    w.dist.all_to_all_single(got, w.torch.cat(sent), counts, [len(part) for part in sent])
    wanted = [w.values(rank * w.size + w.rank, count) for rank, count in enumerate(counts)]
    w.expect(got, w.torch.cat(wanted))


def _needs_matching(w: World, reason: str) -> None:
    if w.backend in _IN_ORDER:
        raise NotThereError(f"{w.backend}: {reason}")


def _neighbours(w: World) -> tuple[int, int]:
    return (w.rank - 1) % w.size, (w.rank + 1) % w.size


def _send_recv(w: World) -> None:
    left, right = _neighbours(w)
    x = w.empty()
    # In some backends send waits for the receiver: rank 0 sends first, the others receive first.
    if w.rank == 0:
        w.dist.send(w.values(0), right)
        w.dist.recv(x, left)
    else:
        w.dist.recv(x, left)
        w.dist.send(w.values(w.rank), right)
    w.expect(x, w.values(left))


def _send_recv_tags(w: World) -> None:
    _needs_matching(w, "messages are matched by their order, not by tags")
    left, right = _neighbours(w)
    sent = [w.dist.isend(w.values(w.rank + tag, 100 + tag), right, tag=tag) for tag in (1, 2)]
    got = {tag: w.empty(100 + tag) for tag in (2, 1)}
    for tag, x in got.items():
        w.dist.recv(x, left, tag=tag)
    for handle in sent:
        handle.wait()
    for tag, x in got.items():
        w.expect(x, w.values(left + tag, 100 + tag), f"message of tag {tag}")


def _isend_irecv(w: World) -> None:
    left, right = _neighbours(w)
    from_left, from_right = w.empty(), w.empty(_COUNT + 1)
    handles = w.dist.batch_isend_irecv(
        [
            w.dist.P2POp(w.dist.isend, w.values(w.rank), right),
            w.dist.P2POp(w.dist.irecv, from_left, left),
        ]
    )
    handles += w.dist.batch_isend_irecv(
        [
            w.dist.P2POp(w.dist.isend, w.values(w.rank, _COUNT + 1), left),
            w.dist.P2POp(w.dist.irecv, from_right, right),
        ]
    )
    for handle in handles:
        handle.wait()
    w.expect(from_left, w.values(left), "from the left")
    w.expect(from_right, w.values(right, _COUNT + 1), "from the right")


def _batch_isend_irecv(w: World) -> None:
    got = {rank: w.empty() for rank in range(w.size) if rank != w.rank}
    operations = []
    for rank, x in got.items():
        operations.append(w.dist.P2POp(w.dist.isend, w.values(w.rank * w.size + rank), rank))
        operations.append(w.dist.P2POp(w.dist.irecv, x, rank))
    for handle in w.dist.batch_isend_irecv(operations):
        handle.wait()
    for rank, x in got.items():
        w.expect(x, w.values(rank * w.size + w.rank), f"from rank {rank}")


def _recv_any_source(w: World) -> None:
    _needs_matching(w, "a receiver must specify the sender")
    if w.rank:
        w.dist.send(w.values(w.rank), 0)
        return
    came = set()
    for _ in range(w.size - 1):
        x = w.empty()
        source = w.dist.recv(x)
        w.expect(x, w.values(source), f"from rank {source}")
        came.add(source)
    if came != set(range(1, w.size)):
        w.mismatched(f"messages came from {sorted(came)}, expected one of each other rank")


def _barrier(w: World) -> None:
    w.dist.all_reduce(w.values(w.rank))  # so that all ranks start at about the same time
    synchronize(w.torch, w.device)
    begin_s = time.monotonic()
    if w.rank == w.size - 1:
        time.sleep(_LATE_S)
    w.dist.barrier()
    synchronize(w.torch, w.device)
    if w.size > 1 and time.monotonic() - begin_s < _LATE_S / 2:
        w.mismatched("left the barrier before the last rank came")


def _monitored_barrier(w: World) -> None:
    w.dist.monitored_barrier()


def _sequence(w: World) -> None:
    outputs: list[tuple[Any, Any]] = []
    handles = []
    for k in range(40):
        x, kind, root = w.values(w.rank + k), k % 4, k % w.size
        if kind == 0:
            handles.append(w.dist.all_reduce(x, async_op=True))
            outputs.append((x, _sum_of(w, [rank + k for rank in range(w.size)], _COUNT)))
        elif kind == 1:
            handles.append(w.dist.broadcast(x, root, async_op=True))
            outputs.append((x, w.values(root + k)))
        elif kind == 2:
            got = [w.empty() for _ in range(w.size)]
            handles.append(w.dist.all_gather(got, x, async_op=True))
            outputs += [(part, w.values(rank + k)) for rank, part in enumerate(got)]
        else:
            handles.append(w.dist.reduce(x, root, async_op=True))
            if w.rank == root:
                outputs.append((x, _sum_of(w, [rank + k for rank in range(w.size)], _COUNT)))
    for handle in handles:
        handle.wait()
    for number, (got_one, wanted) in enumerate(outputs):
        w.expect(got_one, wanted, f"output {number}")


def _random(operation: str, combine: Callable[[Any], Any]) -> _Check:
    def check(w: World) -> None:
        inputs = w.random_values()
        x = inputs[w.rank].clone()
        w.dist.all_reduce(x, getattr(w.dist.ReduceOp, operation))
        w.expect(x, combine(inputs))

    return check


_random_min = _random("MIN", lambda stacked: stacked.amin(0))
_random_max = _random("MAX", lambda stacked: stacked.amax(0))
_random_sum = _random("SUM", _total)


def _random_broadcast(w: World) -> None:
    inputs = w.random_values()
    x = inputs[w.rank].clone()
    w.dist.broadcast(x, 0)
    w.expect(x, inputs[0])


#: The functions above by their names, which are those of the checks.
FUNCTIONS: dict[str, _Check] = {name: globals()[f"_{name}"] for name in ALL_CHECKS}
