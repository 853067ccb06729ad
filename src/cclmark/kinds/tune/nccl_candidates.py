"""The variants that a search tries for NCCL and RCCL: cells of the library's table of choices.

Each is a tuner table with one choice for all sizes, loaded as the result will be. Communicators get
as many channels as any table may request, because a tuner can only reduce their number: all of the
process by NCCL_MIN_CTAS, or where the program may be changed, one alone by its options.
"""

from __future__ import annotations

from collections.abc import Iterable

from cclmark.kinds.tune.choices import Candidates, Choice
from cclmark.kinds.tune.search import Space
from cclmark.kinds.tune.table_file import MOST_BYTES, Rule, RuleTable
from cclmark.plan.library_fields import find_version, parse_version

#: The operations for which NCCL asks a tuner.
TUNED_OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce")
TABLE, ANYWHERE, PLUG_IN = "CCLMARK_TUNER_TABLE", "CCLMARK_TUNER_ANYWHERE", "NCCL_TUNER_PLUGIN"
MIN_CTAS = "NCCL_MIN_CTAS"
#: Channels that the communicators of candidates have.
MOST_CHANNELS = 64
#: The options of a communicator that give it as many. Without a maximum, NCCL refuses a minimum.
MIN_OPTION, MAX_OPTION = "minCTAs", "maxCTAs"
_OPTIONS_SINCE = "2.17"
_MOST_CHANNELS_SINCE, _MOST_CHANNELS_BEFORE = "2.25", 32
_ALGORITHMS = {"all_reduce": ("ring", "tree")}
_USUAL_ALGORITHMS = ("ring",)
_PROTOCOLS = ("ll", "ll128", "simple")
# 0: the library's own choice. A search begins with few of them, and tries the values between.
_CHANNELS = (1, 2, 4, 8, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64)
_FIRST_CHANNELS = (0, 32)
_SYMMETRIC, _LOCAL = "symmetric", "local"


def wide_options(version: str) -> dict[str, str]:
    """The options that give a communicator as many channels as the library supports.

    ``version``: the library's. Empty if it is older than the options, or unknown.
    """
    encoded, own = find_version(version)
    if not own or encoded < parse_version(_OPTIONS_SINCE):
        return {}
    is_new = encoded >= parse_version(_MOST_CHANNELS_SINCE)
    most = str(MOST_CHANNELS if is_new else _MOST_CHANNELS_BEFORE)
    return {MIN_OPTION: most, MAX_OPTION: most}


def rule_of(
    choice: Choice, operation: str, ranks: int, smallest_bytes: int, largest_bytes: int
) -> Rule:
    """The rule of a table on one node."""
    return Rule(
        operation,
        ranks,
        1,
        smallest_bytes,
        largest_bytes,
        choice.algorithm,
        choice.protocol,
        choice.channels,
    )


def candidates_of(
    operation: str, usual_channels: int, *, app_changes: bool, memory: str = ""
) -> Candidates:
    """The candidates of an operation.

    ``usual_channels``: of a communicator by default. The search begins with as many too, or the
    next smaller number, because such choices can be deployed without a setting that gives
    communicators more.
    ``app_changes``: also registered buffers, which the program has to allocate itself, and if
    ``memory`` is a kind of memory, buffers of that kind. Empty if nothing can be tuned that way.
    """
    found: dict[int, Choice] = {}
    coordinates: dict[int, tuple[int, ...]] = {}
    first = []
    begin = {*_FIRST_CHANNELS, max((one for one in _CHANNELS if one <= usual_channels), default=0)}
    if operation in TUNED_OPERATIONS:
        for row, algorithm in enumerate(_ALGORITHMS.get(operation, _USUAL_ALGORITHMS)):
            for column, protocol in enumerate(_PROTOCOLS):
                for place, channels in enumerate((0, *_CHANNELS)):
                    number = len(found) + 1
                    found[number] = Choice(algorithm, protocol, channels)
                    # The library's own choice has no place among the numbers of channels.
                    if channels:
                        coordinates[number] = (row, column, place)
                    if channels in begin:
                        first.append(number)
    if app_changes:
        changes = [Choice(registration=_SYMMETRIC), Choice(registration=_LOCAL)]
        changes += [Choice(memory=memory)] if memory else []
        for choice in changes:
            number = len(found) + 1
            found[number] = choice
            first.append(number)
    return Candidates(found, first, Space(coordinates, (False, False, True)))


def table_of(choice: Choice, operations: Iterable[str], ranks: int, library: str) -> RuleTable:
    """A table with one choice for all sizes of the operations that can have it.

    Its conditions are not those of this machine: it requires CCLMARK_TUNER_ANYWHERE.
    """
    rules = [
        rule_of(choice, operation, ranks, 0, MOST_BYTES)
        for operation in operations
        if operation in TUNED_OPERATIONS
        and choice.algorithm in _ALGORITHMS.get(operation, _USUAL_ALGORITHMS)
    ]
    return RuleTable(library, "0.0.1", "candidate of a search", None, rules)
