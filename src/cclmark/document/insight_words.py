"""Phrases of findings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain
from typing import TypeAlias

from cclmark.base.printable import plain
from cclmark.document.blocks import Evidence, Finding
from cclmark.document.text import BYTES_PER_GB
from cclmark.journal.item_results import CaseResult, TransferResult
from cclmark.journal.journal_file import Journal
from cclmark.journal.schema import Summary
from cclmark.work.libraries import all_libraries
from cclmark.work.operations import OPERATIONS

MOST_NAMED = 3

#: A text, the name of what it applies to, and the figures that it follows from.
Remark: TypeAlias = tuple[str, str, tuple[Evidence, ...]]


def of_all_ranks(journal: Journal) -> list[CaseResult]:
    """Returns the results of collectives of all ranks, not of single pairs."""
    return [one for one in journal.cases if one.case.pair is None]


def on_host_alone(journal: Journal) -> bool:
    """Whether no accelerator takes part."""
    devices = journal.header.devices
    return bool(devices) and all(device.runtime == "host" for device in devices)


def device_words(journal: Journal, rank: int) -> str:
    """Returns `` (cuda:2 of host)``, empty for a rank with an unknown device."""
    for device in journal.header.devices:
        if device.rank == rank and device.runtime:
            return f" ({device.runtime}:{device.index} of {device.host})"
    return ""


def described(result: CaseResult | TransferResult) -> str:
    """Describes the measured item."""
    return result.item.describe()


def rate_words(summary: Summary | None) -> str:
    """Formats the bus bandwidth in GB/s."""
    return "?" if summary is None else f"{summary.busbw_bytes_per_s / BYTES_PER_GB:.1f}"


def amount(number: int, one: str, several: str = "") -> str:
    """Returns 1 case, 2 cases."""
    return f"{number:,} {one if number == 1 else several or one + 's'}"


def listed(words: Sequence[str], of: int | None = None) -> str:
    """Returns a, b and c; ``of`` is the total number of items."""
    more = (of or 0) - len(words)
    parts = [*words, f"{more} more"] if more > 0 else list(words)
    return " and ".join(filter(None, [", ".join(parts[:-1]), parts[-1]])) if parts else ""


def limits_of(remarks: Iterable[Remark], most: int | None = None) -> list[Finding]:
    """Returns a finding ``text: names`` on what limits figures for each text of a remark.

    ``most``: names of a finding, of which the others are counted. Safe to print.
    """
    found: dict[str, dict[str, tuple[Evidence, ...]]] = {}
    for text, name, evidence in remarks:
        found.setdefault(text, {})[name] = evidence
    return [
        Finding(
            "limited-figures",
            "look",
            plain(f"{text}: {listed([*names][:most], len(names))}"),
            evidence=tuple(chain.from_iterable([*names.values()][:MOST_NAMED])),
        )
        for text, names in found.items()
    ]


def capitalised(text: str) -> str:
    """Returns the text with a capital letter. Libraries, operations and other names keep theirs."""
    word = text.split(" ", 1)[0].rstrip(":,")
    is_name = word in OPERATIONS or word in all_libraries()
    is_word = word.isalpha() and word.islower() and not is_name
    return text[0].upper() + text[1:] if is_word else text


def sentence(text: str) -> str:
    """Returns the text with a capital letter, see capitalised, and a full stop."""
    return ended(capitalised(text))


def ended(text: str) -> str:
    """Returns the text with a full stop."""
    return text if text.endswith((".", "!", "?")) else f"{text}."


def in_sentences(one: Finding) -> Finding:
    """Returns the finding with its subject and advice in sentences, as pages have it."""
    text = f"{one.subject}: {one.sentence}" if one.subject else one.sentence
    advice = sentence(one.advice) if one.advice else ""
    return replace(one, sentence=sentence(text), subject="", advice=advice, is_outcome=False)


def first_line(text: str) -> str:
    """Returns the first line, without a following report."""
    return text.split("\n", 1)[0]
