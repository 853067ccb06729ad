"""Texts of other tools, and the journals that importers create from them."""

from __future__ import annotations

from pathlib import Path

from cclmark.importing.importers import import_text
from cclmark.importing.run import Given, Origin

TEXTS = Path(__file__).parent / "foreign"
ORIGIN = Origin("a.txt", "0" * 64, 1.7e9, ["cclmark", "import", "a.txt"], "0.1.0")
#: What stored texts do not contain, for import_text's ``given``.
LACKING = {
    "osu-5.3.txt": {"ranks": 16},
    "deepep-internode.txt": {"ranks": 16},
    "hccl-test.txt": {"ranks": 8},
    "hccl-test-rank-failed.txt": {"ranks": 4},
    "nccl-tests-shortened.txt": {"ranks": 1024},
} | {
    name: {"operation": "all_reduce"}
    for name in (
        *("flagcx-a800.txt", "flagcx-a800-c550.txt", "flagcx-c550.txt", "flagcx-p800.txt"),
        *("nccl-tests-2017.txt", "rccl-tests.txt", "nccom-test.json"),
    )
}


def read(content, format=None, **given):
    """The journal of a text."""
    if isinstance(content, str):
        content = content.encode()
    return import_text(content, "a.txt", format, Given(**given), ORIGIN)[1]


def stored(name, **given):
    """The journal of a stored text."""
    return read((TEXTS / name).read_bytes(), **given)


def notices(journal):
    """All notices of a journal as one text."""
    return "\n".join(journal.header.notices)
