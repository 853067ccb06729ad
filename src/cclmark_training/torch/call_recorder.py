"""Which operations a step calls in which group of ranks, with the bytes of their messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from cclmark._engine import RankGroup
from cclmark_training.choices import EXPERT
from cclmark_training.layout import MESH, TIED
from cclmark_training.plan import Training
from cclmark_training.result import GroupCalls

# Beginnings of the names of torch's operators, c10d's and those of functional collectives. What
# receives is not listed: its message is that of a send.
_OPERATIONS = {
    "allreduce": "all_reduce",
    "all_reduce": "all_reduce",
    "allgather": "all_gather",
    "_allgather": "all_gather",
    "all_gather": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "_reduce_scatter": "reduce_scatter",
    "alltoall": "alltoall",
    "all_to_all": "alltoall",
    "broadcast": "broadcast",
    "send": "send",
}
_NAMES = tuple(dict.fromkeys(_OPERATIONS.values()))
_GROUPS = (*MESH, EXPERT, TIED)


class CallRecorder(TorchDispatchMode):
    """Counts the calls of a step by group and operation, and the bytes of their messages.

    ``found``: for each name of a group in torch and operation, the calls and bytes. The size of a
    message is that of nccl-tests: the larger one of input and output, so all parts together for an
    all_gather or a reduce_scatter. It sees calls of Python and of C++, such as those of
    DistributedDataParallel in the backward pass.
    """

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[tuple[str, str], tuple[int, int]] = {}

    def __torch_dispatch__(
        self,
        function: Any,
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Executes an operator and counts it if it communicates."""
        # Its operators on local tensors follow. Importing it takes other trainings a second.
        if any(one.__name__ == "DTensor" for one in types):
            return NotImplemented
        outcome = function(*args, **(kwargs or {}))
        if function.namespace in ("c10d", "_c10d_functional"):
            self._count(function, args, outcome)
        return outcome

    def _count(self, function: Any, args: tuple[Any, ...], outcome: Any) -> None:
        name = function._opname
        operation = next((own for begin, own in _OPERATIONS.items() if name.startswith(begin)), "")
        group = _group_in(args)
        if not (operation and group):
            return
        # Each argument is a tensor, or a list of tensors of one message.
        sizes = [_bytes_of(one) for one in (*args, outcome)]
        calls, size_bytes = self.found.get((group, operation), (0, 0))
        self.found[group, operation] = (calls + 1, size_bytes + max(sizes))


def _bytes_of(argument: Any) -> int:
    tensors = [one for one in tree_leaves(argument) if isinstance(one, Tensor)]
    return sum(one.numel() * one.element_size() for one in tensors)


def _group_in(args: tuple[Any, ...]) -> str:
    """The name of the group among the arguments: an object of c10d, the last text elsewhere."""
    for one in args:
        if isinstance(one, torch.ScriptObject):
            try:
                return str(dist.ProcessGroup.unbox(one).group_name)
            except RuntimeError:  # another object, for example a kind of reduction
                continue
    return next((one for one in reversed(args) if isinstance(one, str)), "")


def calls_of(
    recorder: CallRecorder, groups: Mapping[str, str], training: Training, rank_group: RankGroup
) -> list[GroupCalls]:
    """What ``recorder`` has counted on all ranks, a collective call.

    ``groups``: the names of this rank's groups in torch, and of what they serve.
    """
    keys = [(group, name) for group in _GROUPS for name in _NAMES]
    counted = dict.fromkeys(keys, (0, 0))
    for (group, name), (calls, size_bytes) in recorder.found.items():
        key = (groups.get(group, ""), name)
        if key in counted:
            counted[key] = (counted[key][0] + calls, counted[key][1] + size_bytes)
    words = [float(word) for key in keys for word in counted[key]]
    gathered = rank_group.gather(words)
    by_rank = [gathered[at : at + len(words)] for at in range(0, len(gathered), len(words))]
    found = []
    for place, (group, name) in enumerate(keys):
        numbers = [int(own[2 * place]) for own in by_rank]
        sizes = [int(own[2 * place + 1]) for own in by_rank]
        if any(numbers):
            found.append(GroupCalls(group, training.ranks_of(group), name, numbers, sizes))
    return found
