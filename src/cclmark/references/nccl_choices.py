"""What NCCL's variable NCCL_ALGO says: which algorithms each function may use."""

from __future__ import annotations


def allows(choice: str, operation: str, algorithm: str) -> bool | None:
    """Whether ``choice``, a value of NCCL_ALGO, leaves ``operation`` that algorithm.

    The syntax is NCCL's: ``ring,tree`` for all functions, ``^nvls`` for all but that, and lists for
    single functions behind it, ``ring;allreduce:tree;broadcast:^ring``. Names of any case, and of
    two lists for one function the last counts. None where it says nothing of the operation, and
    where NCCL would refuse it.
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
