"""A rule that selects an MPI library's algorithm for an operation, a group and a range of sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cclmark.base.errors import UsageError
from cclmark.kinds.tune.table_file import MOST_BYTES, MOST_RANKS
from cclmark.work.library_settings import check_value, find_setting


@dataclass(frozen=True)
class AlgorithmRule:
    """The algorithm for an operation among ``ranks``, for sizes in a range.

    ``smallest_bytes`` and ``largest_bytes`` belong to the range; None: no limit. They are sizes as
    cclmark and nccl-tests count them: for all_gather and gather the output, for reduce_scatter,
    scatter and alltoall the input. ``algorithm``: its name in the library. ``parameters``: those
    of the algorithm that differ from the library's defaults, by name.
    """

    operation: str
    ranks: int
    smallest_bytes: int
    largest_bytes: int | None
    algorithm: str
    parameters: tuple[tuple[str, int | str], ...] = ()

    @property
    def label(self) -> str:
        """The rule in a message."""
        end = "" if self.largest_bytes is None else str(self.largest_bytes)
        return f"{self.operation} among {self.ranks} ranks, {self.smallest_bytes}-{end} bytes"


def groups_of(rules: Sequence[AlgorithmRule]) -> dict[str, dict[int, list[AlgorithmRule]]]:
    """The rules by operation and number of ranks, all in ascending order, by size last.

    Raises UsageError for impossible numbers and for rules that overlap.
    """
    groups: dict[str, dict[int, list[AlgorithmRule]]] = {}
    for rule in sorted(rules, key=lambda one: (one.operation, one.ranks, one.smallest_bytes)):
        _check_numbers(rule)
        group = groups.setdefault(rule.operation, {}).setdefault(rule.ranks, [])
        if group and _end(group[-1]) >= rule.smallest_bytes:
            raise UsageError(f"the rules overlap: {group[-1].label}; {rule.label}")
        group.append(rule)
    return groups


def check_algorithm(rule: AlgorithmRule, setting_name: str, version: str) -> None:
    """Raises UsageError unless a variable of MPI can have the rule's algorithm as its value.

    ``version``: the library's own text about its version; empty: all versions are possible.
    """
    setting = find_setting("mpi", setting_name)
    if setting is None:
        raise UsageError(f"{rule.label}: {setting_name} does not apply to MPI")
    try:
        check_value(setting, rule.algorithm, version)
    except UsageError as error:
        raise UsageError(f"{rule.label}: {error}") from None


def _check_numbers(rule: AlgorithmRule) -> None:
    if not 2 <= rule.ranks <= MOST_RANKS:
        raise UsageError(f"{rule.label}: the ranks are not 2 to {MOST_RANKS}")
    if not 0 <= rule.smallest_bytes <= _end(rule) <= MOST_BYTES:
        raise UsageError(f"{rule.label}: not a range of sizes from 0 to {MOST_BYTES}")


def _end(rule: AlgorithmRule) -> int:
    return MOST_BYTES if rule.largest_bytes is None else rule.largest_bytes
