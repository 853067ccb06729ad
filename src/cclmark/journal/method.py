"""The method: the settings that influence a time. Runs that differ in it are not comparable.

Duration and number of measurements are not part of it, nor whether outputs are checked. Nor is the
requested clock: every figure names its own.
"""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache

from cclmark.journal.schema import Header
from cclmark.work.binding import mode_of
from cclmark.work.libraries import BRIDGE, memory_of

# Each setting with its description; the timing is the first.
_WORDS = {
    "timing": "timed by {}",
    "across_ranks": "{} over ranks",
    "cache": "cache {}",
    "barrier": "barrier of the {}",
    "registration": "registration {}",
    "memory": "memory {}",
    "group": "groups of {}",
    "graph_launches": "{} graph launches",
    "through_host": "through the host",
    "one_by_one": "one by one",
    "bind": "binding {}",
    "config": "communicators with {}",
    "inject": "with faults: {}",
}
# The default values. auto adds a second figure to that of throughput.
_USUAL: dict[str, tuple[object, ...]] = {
    "timing": ("auto", "throughput"),
    "across_ranks": ("max",),
    "cache": ("cold",),
    "barrier": ("own",),
    "registration": ("none",),
    "memory": ("plain",),
    "group": (1,),
    "graph_launches": (1,),
    "through_host": (False,),
    "one_by_one": (False,),
    "config": ({},),
    "inject": ([],),
    "bind": ("",),
}
_MOST_OF_BINDING = 40  # characters: the processors of many ranks have a digest instead
LIBRARY_BARRIER = _WORDS["barrier"].format("library")
_ISLANDS = "islands {}"
_PATTERNS = [
    re.compile(re.escape(text).replace(r"\{\}", ".+")) for text in (*_WORDS.values(), _ISLANDS)
]


def unusual_method(header: Header, ccl: str = "") -> list[str]:
    """Describes the method's settings that are not defaults and influence the times of ``ccl``.

    Without ``ccl``, those of any library of the run. Unknown settings, for example another tool's,
    are omitted.
    """
    settings = header.settings
    words = []
    of_bridge = ccl in ("", BRIDGE)  # islands, and the way between them, shape no others' times
    for name, text in _WORDS.items():
        if name == "through_host" and not of_bridge:
            continue
        value = _memory(header, ccl) if name == "memory" else getattr(settings, name)
        if value not in (*_USUAL[name], ""):
            words.append(text.format(_in_words(name, value)))
    if settings.islands and of_bridge:
        islands = (one.describe() for one in settings.islands)
        words.append(_ISLANDS.format(",".join(islands)))
    return words


def memory_kinds(header: Header) -> dict[str, str]:
    """The memory of each library's buffers; of older journals that without a choice."""
    settings = header.settings
    return {
        one.name: one.memory
        or memory_of("", settings.timing, settings.registration, one.name, one.capabilities)
        for one in header.libraries
    }


def _memory(header: Header, ccl: str) -> str:
    """The kinds of memory of buffers besides plain, and besides what registration implies."""
    usual = {"plain"} if header.settings.registration in ("", "none") else {"plain", "library"}
    kinds = memory_kinds(header)
    found = {kinds.get(ccl, "plain")} if ccl else set(kinds.values())
    return ", ".join(sorted(found - usual))


def _in_words(name: str, value: object) -> str:
    if name == "bind" and len(text := str(value)) > _MOST_OF_BINDING:
        return f"{mode_of(text)} {hashlib.sha256(text.encode()).hexdigest()[:8]}"
    if isinstance(value, dict):
        return " ".join(f"{key}={each}" for key, each in value.items())
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def is_timing(words: str) -> bool:
    """Whether words that unusual_method returns describe the timing."""
    return _PATTERNS[0].fullmatch(words) is not None


@lru_cache(256)
def is_of_method(words: str) -> bool:
    """Whether ``words`` have a form that unusual_method returns."""
    return any(pattern.fullmatch(words) for pattern in _PATTERNS)
