"""From the rules of a search to the table and the environment that deploy them (NCCL, RCCL)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from cclmark.kinds.tune.choices import Choice, OperationPlan
from cclmark.kinds.tune.nccl_candidates import MOST_CHANNELS, TUNED_OPERATIONS, rule_of
from cclmark.kinds.tune.table_file import MOST_BYTES, Rule


@dataclass(frozen=True)
class Deployment:
    """Rules of a table, and whether they require the channels that communicators of the search had.

    A table of ``wide`` rules also contains what the library chooses by itself.
    """

    rules: Sequence[Rule]
    wide: bool = False


def deployment_of(plans: Sequence[OperationPlan], ranks: int, usual_channels: int) -> Deployment:
    """The smallest deployment of the plans.

    ``usual_channels``: the channels of a communicator by default. If a rule requires more, or was
    found with the library's own number among more, communicators get as many as in the search,
    which changes the library's choices for other sizes. The table then also contains what it
    chooses without that, from each known size up to the next one.
    """
    widens = any(
        is_wide(plan.choices[rule.variant], usual_channels) for plan in plans for rule in plan.rules
    )
    rules: list[Rule] = []
    for plan in plans:
        if plan.operation in TUNED_OPERATIONS:
            rules += _pinned(plan, ranks) if widens else _bare(plan, ranks)
    return Deployment(rules, widens)


def is_wide(choice: Choice, usual_channels: int) -> bool:
    """Whether a choice has more channels than a communicator by default, ``usual_channels``."""
    return not choice.program_changes and (choice.channels or MOST_CHANNELS) > usual_channels


def _bare(plan: OperationPlan, ranks: int) -> list[Rule]:
    """The rules alone."""
    return [
        rule_of(plan.choices[rule.variant], plan.operation, ranks, rule.low_bytes, rule.high_bytes)
        for rule in plan.rules
        if not plan.choices[rule.variant].program_changes
    ]


def _pinned(plan: OperationPlan, ranks: int) -> list[Rule]:
    """The rules, and between them what the library chooses by itself."""
    found: list[Rule] = []
    for place, size in enumerate(plan.sizes_bytes):
        last = place + 1 == len(plan.sizes_bytes)
        following = MOST_BYTES if last else plan.sizes_bytes[place + 1] - 1
        own = next((rule for rule in plan.rules if rule.covers(size)), None)
        choice = None if own is None else plan.choices[own.variant]
        low = 0 if place == 0 else size
        if own is not None and choice is not None and not choice.program_changes:
            high = following if own.covers(following + 1) and not last else size
            found.append(rule_of(choice, plan.operation, ranks, size, high))
            low = high + 1
            if place == 0 and (before := plan.usual.get(size)) is not None and size > 0:
                found.append(rule_of(before, plan.operation, ranks, 0, size - 1))
        if low <= following and (usual := plan.usual.get(size)) is not None:
            found.append(rule_of(usual, plan.operation, ranks, low, following))
    return _joined(sorted(found, key=lambda rule: rule.smallest_bytes))


def _joined(rules: Sequence[Rule]) -> list[Rule]:
    """Adjacent rules with the same choice become one."""
    found: list[Rule] = []
    for rule in rules:
        if found and _continues(found[-1], rule):
            found[-1] = replace(found[-1], largest_bytes=rule.largest_bytes)
        else:
            found.append(rule)
    return found


def _continues(before: Rule, after: Rule) -> bool:
    same = replace(after, smallest_bytes=before.smallest_bytes, largest_bytes=before.largest_bytes)
    return before == same and before.largest_bytes + 1 == after.smallest_bytes
