"""Journals: JSON lines, appended one by one, readable whatever interrupted the writer."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import BinaryIO, NoReturn

import msgspec

from cclmark.errors import OutputError, UsageError
from cclmark.results.schema import (
    SCHEMA_VERSION,
    CaseResult,
    CheckResult,
    Condition,
    Footer,
    Header,
    Line,
    TransferResult,
)

_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(Line)


class _Typed(msgspec.Struct):
    """What every line has, whatever else is wrong with it."""

    type: str


class _AnyLine(_Typed):
    """What every schema has in its lines, older and newer ones."""

    schema_version: int = 0


_TYPED_DECODER = msgspec.json.Decoder(_Typed)
_ANY_DECODER = msgspec.json.Decoder(_AnyLine)
# What may be a number too long to reckon with. Two expressions, each of which begins with a set of
# characters: as one they take three times as long, more than decoding does.
_LONG_INTEGER = re.compile(rb"[:\[,]\s*-?\d{19}")
_LONG_EXPONENT = re.compile(rb"[eE]\+?\d\d")
# The last field of a line: of the line without it. One from which it was taken out, as by whoever
# edits a journal, counts as it stands.
_CHECKSUM = re.compile(rb',"crc32":"([0-9a-f]{8})"\}\s*$')
_HEADER = b'{"type":"header"'
_MOST_OF_HEADER_BYTES = 16 << 20
_UTF8_MARK = b"\xef\xbb\xbf"  # some editors put it before what they save
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
# How compressed files begin, and what undoes it.
_COMPRESSED = {
    b"\x1f\x8b": "gunzip",
    b"\x28\xb5\x2f\xfd": "unzstd",
    b"\xfd7zXZ": "unxz",
    b"BZh": "bunzip2",
    b"PK\x03\x04": "unzip",
}
_TOO_SMALL = re.compile(r"expected `int` >= (-?\d+)")
_MOST = 1e100  # of anything; its square is still a number


class JournalWriter:
    """Appends lines to a new file. What was written survives the death of this process."""

    def __init__(self, path: Path, option: str = "--journal FILE") -> None:
        """Creates ``path``; ``option`` names another one, for messages.

        A file that an interrupted run has left before its header was complete is taken over. Raises
        UsageError when ``path`` cannot be created, or holds anything else.
        """
        self._option = option
        try:
            self._file = _created(path)
        except OSError as error:
            raise UsageError(
                f"cannot write the journal {path}: {error.strerror}. "
                f"Choose another place with {option}."
            ) from None
        self.path = path
        self._has_results = False

    def write(self, line: Line) -> None:
        """Adds one line, with its checksum. Raises OutputError when the disk is full or gone."""
        content = _ENCODER.encode(line)
        try:
            rest = memoryview(b'%s,"crc32":"%08x"}\n' % (content[:-1], zlib.crc32(content)))
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            held = "It holds the results so far; choose" if self._has_results else "Choose"
            raise OutputError(
                f"cannot write the journal {self.path}: {error.strerror}. {held} another place "
                f"with {self._option}."
            ) from None
        self._has_results |= not isinstance(line, Header)

    def close(self, *, keep: bool) -> None:
        """Closes the file; ``keep`` False removes one that never got a header."""
        if not keep:  # before its lock is released, so that no other run takes over a removed file
            self.path.unlink(missing_ok=True)
        self._file.close()


def _created(path: Path) -> BinaryIO:
    """The new file, locked as long as it is open. Raises OSError."""
    try:
        file = path.open("xb", buffering=0)
    except FileExistsError:
        return _taken_over(path)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:  # another run has taken it over in this moment
        file.close()
        raise _taken() from None
    except OSError:
        pass  # a file system without locks
    return file


def _taken_over(path: Path) -> BinaryIO:
    """A file that holds nothing but the beginning of a header, and that no other run writes to.

    Raises FileExistsError for any other.
    """
    if path.is_symlink() or not path.is_file():
        raise _taken()
    file = path.open("r+b", buffering=0)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        begun = file.read(_MOST_OF_HEADER_BYTES)
        whole = b"\n" in begun or len(begun) == _MOST_OF_HEADER_BYTES
        removed = os.fstat(file.fileno()).st_nlink == 0
        if whole or removed or begun[: len(_HEADER)] != _HEADER[: len(begun)]:
            raise _taken()
        file.seek(0)
        file.truncate()
    except OSError:
        file.close()
        raise _taken() from None
    return file


def _taken() -> FileExistsError:
    return FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))


@dataclass
class Journal:
    """A journal as read. ``footer`` is None when the run did not end by itself.

    ``damaged_lines`` counts lines that could not be read, such as the one in flight at a crash, and
    those that belong to no run or to another one: behind a footer or a second header, of devices
    that the header does not name.
    """

    header: Header
    results: list[CaseResult] = field(default_factory=list)
    transfers: list[TransferResult] = field(default_factory=list)
    checks: list[CheckResult] = field(default_factory=list)
    conditions: list[Condition] = field(default_factory=list)
    footer: Footer | None = None
    damaged_lines: int = 0


def read_journal(path: Path) -> Journal:
    """Reads a journal, whole or cut short.

    Raises UsageError when the file cannot be read, is no journal, or is of a newer schema.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    return parse_journal(content.splitlines(), str(path))


def parse_journal(lines: Iterable[bytes], name: str) -> Journal:
    """As read_journal, from lines. ``name`` is for messages.

    A line that is damaged is left out; one that says what cannot be (ranks: -1) was made so, and
    is refused with its number.
    """
    journal: Journal | None = None
    damaged = 0
    ended = False
    for number, line in enumerate(_unmarked(lines), start=1):
        if not line.strip():
            continue
        entry = _entry(line, f"{name}:{number}")
        if journal is None:
            _refuse_newer(line, name)
            # Without a header nothing else can be read: a damaged one is better than none.
            header = entry or _decoded(line)
            if not isinstance(header, Header):
                _refuse(line, name)
            journal = Journal(header)
            damaged += entry is None
        elif entry is None or ended or not _fits(entry, len(journal.header.devices)):
            damaged += 1
        elif isinstance(entry, Header):
            damaged += 1
            ended = entry != journal.header
        elif isinstance(entry, CaseResult):
            journal.results.append(entry)
        elif isinstance(entry, TransferResult):
            journal.transfers.append(entry)
        elif isinstance(entry, CheckResult):
            journal.checks.append(entry)
        elif isinstance(entry, Condition):
            journal.conditions.append(entry)
        else:
            journal.footer = entry
            ended = True
    if journal is None:
        raise UsageError(f"{name} is empty: not a journal of cclmark")
    journal.damaged_lines = damaged
    return journal


def _entry(line: bytes, place: str) -> Line | None:
    """What the line says; None where it is damaged. Raises UsageError for what cannot be."""
    if not _is_sound(line):
        return None
    entry = _decoded(line)
    if entry is None:
        _refuse_impossible(line, place)
    return entry


def _unmarked(lines: Iterable[bytes]) -> Iterator[bytes]:
    """The lines of a file, without the mark that an editor put before the first."""
    rest = iter(lines)
    yield from (line.removeprefix(_UTF8_MARK) for line in islice(rest, 1))
    yield from rest


def _fits(entry: Line, devices: int) -> bool:
    """Whether the devices of a pair or a copy are such as the header names."""
    places: tuple[int, ...] = ()
    if isinstance(entry, CaseResult):
        places = entry.case.pair or ()
    elif isinstance(entry, TransferResult):
        places = tuple(place for flow in entry.transfer.flows for place in flow)
        if not places:
            return False
    return all(0 <= place < devices for place in places)


def is_readable(entry: Line, header: Header) -> bool:
    """Whether a journal that begins with ``header`` can hold ``entry`` so that readers find it."""
    try:
        again = _decoded(_ENCODER.encode(entry))
    except (ValueError, OverflowError, RecursionError):
        return False
    return again == entry and _fits(entry, len(header.devices))


def _is_sound(line: bytes) -> bool:
    """Whether a line is what was written, as far as its checksum tells."""
    found = _CHECKSUM.search(line)
    if found is None:
        return True
    return zlib.crc32(line[: found.start()] + b"}") == int(found[1], 16)


def _decoded(line: bytes) -> Line | None:
    """What the line says; None where it is damaged."""
    try:
        entry: Line = _DECODER.decode(line)
        if _LONG_INTEGER.search(line) or _LONG_EXPONENT.search(line):
            json.loads(line, parse_int=_within_64_bits, parse_float=_sensible)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
    return entry


def _within_64_bits(text: str) -> int:
    """Nobody wrote a larger one, and nobody can reckon with it. Raises ValueError."""
    number = int(text)
    if not -(1 << 63) <= number < 1 << 63:
        raise ValueError(f"{number} takes more than 64 bits")
    return number


def _sensible(text: str) -> float:
    """Raises ValueError for a number with which nobody can reckon."""
    number = float(text)
    if not abs(number) <= _MOST:
        raise ValueError(f"{number} is absurd")
    return number


def _refuse_newer(line: bytes, name: str) -> None:
    """Raises UsageError when the line is the header of a schema that is yet to come."""
    try:
        version = _ANY_DECODER.decode(line).schema_version
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return
    if version > SCHEMA_VERSION:
        raise UsageError(
            f"{name} has schema {version}, newer than {SCHEMA_VERSION}: update cclmark"
        )


def _fault(line: bytes) -> tuple[str, str]:
    """What is wrong with a line of JSON, and in which of its fields; empty where it is no JSON."""
    try:
        _DECODER.decode(line)
    except msgspec.ValidationError as error:
        what, _, place = str(error).partition(" - at `")
        return what[:1].lower() + what[1:], place.rstrip("`").removeprefix("$").removeprefix(".")
    except (msgspec.DecodeError, ValueError, RecursionError):
        pass
    return "", ""


def _refuse_impossible(line: bytes, place: str) -> None:
    """Raises UsageError when the line holds a number that is smaller than any that there can be."""
    what, field = _fault(line)
    found = _TOO_SMALL.fullmatch(what)
    if found is not None:
        raise UsageError(
            f"{place}: {field} is less than {found[1]}, which cannot be: correct the line, or "
            "take it out"
        )


def _refuse_field(line: bytes, name: str) -> None:
    """Raises UsageError when the line is a header but for one of its fields."""
    try:
        kind = _TYPED_DECODER.decode(line).type
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return
    what, field = _fault(line)
    if kind == "header" and what:
        at = f"{field}: " if field else ""
        raise UsageError(
            f"{name}:1: the header is wrong: {at}{what}. Without it nothing of the journal can be "
            "used"
        )


def _refuse(line: bytes, name: str) -> NoReturn:
    """Raises UsageError for a first line that is no header."""
    _refuse_field(line, name)
    if not line.startswith(_HEADER):
        raise UsageError(f"{name} is not a journal of cclmark: {_begins(line)}")
    whole = line.rstrip().endswith(b"}")
    raise UsageError(
        f"{name}: its first line, the header, is "
        + ("damaged" if whole else f"incomplete: cut off after {len(line)} bytes")
        + ". Without it nothing of the journal can be used"
    )


def _begins(line: bytes) -> str:
    """What a file that is no journal looks like."""
    for sign, undone_by in _COMPRESSED.items():
        if line.startswith(sign):
            return f"it is compressed: {undone_by} it first"
    if line.startswith(_UTF16_MARKS):
        return "it is UTF-16: save it as UTF-8"
    begins = line[:40].decode(errors="ignore")
    if not begins.replace("\t", " ").isprintable() or len(begins.encode()) < len(line[:40]) - 3:
        return "it is binary"
    return (
        f"it begins with {begins!r}. If another tool printed it, or cclmark with --format, make a "
        "journal of it with cclmark import FILE"
    )
