"""Journals in a page of ``cclmark report``: their encoding, and how they are found and checked."""

from __future__ import annotations

import bz2
import re
import zlib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import msgspec

from cclmark.base.errors import UsageError
from cclmark.base.printable import plain

JOURNALS_ID = "cclmark-journals"  # of the script element
PAGE_VERSION = 2
MOST_BYTES = 256 << 20  # of the journals of a page together: a small page may decompress to more

_MARK = f'id="{JOURNALS_ID}"'.encode()
_HTML = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*(?:<!--(?:(?!-->).)*-->\s*)*<(?:!doctype\s+html|html)\b", re.I | re.S
)
_HEAD_BYTES = 4096
_MOST_NAMED = 12  # runs in a message
_LONGEST_NAME = 60
_OWN = re.compile(rb'<meta name="generator" content="cclmark |<p>Made by cclmark \d')
_STEM = re.compile(r"\.html?#(.+)$", re.I)


class PackedJournal(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """``name``: of the run in the page. ``bz2``: the compressed lines, in base64 within JSON.

    ``zlib``: the same in version 1.
    """

    name: str
    size_bytes: Annotated[int, msgspec.Meta(ge=0, le=MOST_BYTES)]
    zlib: bytes = b""
    bz2: bytes = b""


class PackedJournals(msgspec.Struct, forbid_unknown_fields=True):
    """The content of the script element."""

    version: int
    runs: list[PackedJournal]


class _AnyVersion(msgspec.Struct):
    version: int


def pack(name: str, content: bytes) -> PackedJournal:
    """Compresses a journal for a page. Equal journals give equal bytes."""
    # A third less than zlib: lines without samples are long and much alike.
    return PackedJournal(name, len(content), bz2=bz2.compress(content))


def unpack(packed: PackedJournal, name: str) -> bytes:
    """Returns the lines of a journal. Raises UsageError, with ``name``, for damaged ones."""
    inflater = bz2.BZ2Decompressor() if packed.bz2 else zlib.decompressobj()
    try:
        content = inflater.decompress(packed.bz2 or packed.zlib, packed.size_bytes + 1)
    except (zlib.error, OSError) as error:
        raise _damaged(name, str(error)) from None
    if len(content) != packed.size_bytes or not inflater.eof or inflater.unused_data:
        raise _damaged(name, f"it does not have the stated {packed.size_bytes} bytes")
    return content


def is_page(content: bytes) -> bool:
    """Whether a file is HTML."""
    return _HTML.match(content[:_HEAD_BYTES]) is not None


def packed_in(content: bytes, name: str) -> list[PackedJournal]:
    """The journals of a page called ``name``. Raises UsageError for none, or damaged ones."""
    parts = content.split(_MARK)
    if len(parts) == 1:
        raise _without_journals(content, name)
    if len(parts) > 2:
        raise UsageError(
            f"{name} contains journals in {len(parts) - 1} places: it was edited, or several pages "
            "were joined. Use the pages one by one"
        )
    _, _, rest = parts[1].partition(b">")
    text, ended, _ = rest.partition(b"</script")
    if not ended:
        raise _cut_off(name)
    try:
        version = msgspec.json.decode(text, type=_AnyVersion).version
        if version > PAGE_VERSION:
            raise UsageError(
                f"{name} has version {version} of the format of pages, newer than {PAGE_VERSION}: "
                "update cclmark"
            )
        found = msgspec.json.decode(text, type=PackedJournals).runs
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _damaged(name, str(error)) from None
    total = sum(one.size_bytes for one in found)
    if total > MOST_BYTES:
        raise _damaged(name, f"they have {total} bytes decompressed, more than {MOST_BYTES}")
    if not found:
        raise _damaged(name, "there is none")
    return found


#: The journals of the page that was read last: commands read all runs of a page one by one.
_last: dict[tuple[str, int, int], list[PackedJournal]] = {}


def _packed(file: Path, content: bytes) -> list[PackedJournal]:
    key = str(file), len(content), zlib.crc32(content)
    if key not in _last:
        found = packed_in(content, str(file))
        _last.clear()
        _last[key] = found
    return _last[key]


def labels_of(found: list[PackedJournal]) -> list[str]:
    """Returns what follows ``PAGE#`` to choose a journal: the name of its run, else its number."""
    times = Counter(one.name for one in found)
    return [
        one.name if one.name and times[one.name] == 1 else str(number)
        for number, one in enumerate(found, start=1)
    ]


def file_of(path: Path) -> Path:
    """The file of ``FILE`` or ``PAGE#RUN``."""
    return _file_and_run(path)[0]


def stem_of(name: str) -> str:
    """The name of a run in texts: of ``PAGE.html#RUN`` the run, of a file its stem."""
    found = _STEM.search(name)
    return Path(name).stem if found is None else found[1]


def expanded(names: Iterable[str]) -> list[str]:
    """``names`` of files, with ``PAGE#RUN`` for each journal of a page with several.

    Files that cannot be read remain: reading them as journals raises the error.
    """
    found: list[str] = []
    for name in names:
        file, run = _file_and_run(Path(name))
        try:
            labels = labels_of(_packed(file, file.read_bytes())) if _begins_page(file) else []
        except (OSError, ValueError, UsageError):
            labels = []
        found += [f"{name}#{label}" for label in labels] if len(labels) > 1 and not run else [name]
    return found


def _begins_page(file: Path) -> bool:
    """Whether a file is HTML. Others than regular files, for example pipes, are not read."""
    if not file.is_file():
        return False
    with file.open("rb") as opened:
        return is_page(opened.read(_HEAD_BYTES))


def read_lines(path: Path) -> tuple[bytes, str]:
    """Returns the content of a journal, or of the journal in a page, and its name for messages.

    ``path``: a file, or ``PAGE#RUN``, with the name of a run or its number. Raises UsageError if it
    cannot be read, for a damaged page, and for a page with several journals without a choice.
    """
    file, run = _file_and_run(path)
    try:
        content = file.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}") from None
    if not is_page(content):
        if run:
            raise UsageError(f"{file} is not a page: {path} names a run of a page")
        return content, str(path)
    found = _packed(file, content)
    labels = labels_of(found)
    if run.isdecimal() and run not in labels and 0 < int(run) <= len(found):
        run = labels[int(run) - 1]
    if run not in labels and (run or len(found) > 1):
        wrong = f"none is {run!r}" if run else f"choose one, for example {file}#1"
        named = ", ".join(plain(label)[:_LONGEST_NAME] for label in labels[:_MOST_NAMED])
        raise UsageError(
            f"{file} contains {len(found)} journal{'s' * (len(found) > 1)} "
            f"({named}{', …' * (len(labels) > _MOST_NAMED)}): {wrong}"
        )
    return unpack(found[labels.index(run) if run else 0], str(path)), str(path)


def _file_and_run(path: Path) -> tuple[Path, str]:
    """Splits ``PAGE#RUN``. A file whose name contains ``#`` is a file."""
    text = str(path)
    try:
        if "#" in text and not path.exists():
            for place in (place for place, one in enumerate(text) if one == "#"):
                if Path(text[:place]).is_file():
                    return Path(text[:place]), text[place + 1 :]
    except OSError:  # for example a name that is too long
        pass
    return path, ""


def _without_journals(content: bytes, name: str) -> UsageError:
    if not content.rstrip().endswith(b"</html>"):
        return _cut_off(name)
    if _OWN.search(content) is None:
        return UsageError(
            f"{name} is a page of another program: it contains no journal of cclmark. Use a page "
            "of cclmark report, or a journal"
        )
    return UsageError(
        f"{name} is a page of cclmark without journals, for example of cclmark compare or serve, "
        "or of an older version. Use the journals"
    )


def _cut_off(name: str) -> UsageError:
    return UsageError(f"{name} is a page that is cut off before the end of its journals")


def _damaged(name: str, what: str) -> UsageError:
    return UsageError(f"{name} is a damaged page: its journals cannot be read: {what}")
