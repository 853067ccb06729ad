"""The tensors of a check before and after its operations, for ``torch check --values``.

A recorder wraps the functions of torch.distributed that a check calls. Before each call it keeps
the ends of the call's tensors; the comparison of an output gives it the tensor after the call.
Copies of the ends are made on the device, in the order of its stream, so that a check is not
synchronised more than without a recorder. Texts are created when the check has ended.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

from cclmark.kinds.check.result import CheckedValue

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
