"""Parses NCCL's variable NCCL_ALGO: the algorithms that each function may use."""

from __future__ import annotations


def allows(choice: str, operation: str, algorithm: str) -> bool | None:
    """Whether ``choice``, a value of NCCL_ALGO, allows ``operation`` to use ``algorithm``.

    The syntax is NCCL's: ``ring,tree`` for all functions, ``^nvls`` for all algorithms but that,
    followed by lists for single functions, ``ring;allreduce:tree;broadcast:^ring``. Names are not
    case-sensitive. Of two lists for one function the last applies. None if the value does not
    contain the operation, and if NCCL would reject it.
    """
    function = operation.replace("_", "")
    allowed: bool | None = None
    for place, entry in enumerate(part for part in choice.lower().split(";") if part):
        named, colon, names = entry.partition(":")
        if not colon:
            if place:
                return None
            names = named
        elif named.strip() != function:
            continue
        excluded = names.startswith("^")
        listed = [name.strip() for name in names.removeprefix("^").split(",")]
        if not any(listed):
            return None
        allowed = (algorithm in listed) != excluded
    return allowed
