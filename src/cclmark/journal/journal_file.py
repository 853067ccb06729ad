"""Journals: JSON lines, appended one by one, readable after any interruption of the writer."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, TypeVar, Union

import msgspec

from cclmark.base.errors import EmptyError, OutputError, UsageError
from cclmark.base.printable import plain, printable
from cclmark.journal.item_results import CaseResult, ProfileResult, Result, TransferResult
from cclmark.journal.page_journals import read_lines
from cclmark.journal.sample_times import with_stored_samples
from cclmark.journal.schema import (
    SCHEMA_VERSION,
    Condition,
    Explanation,
    Footer,
    Header,
    Paths,
    Profile,
    Settings,
    Trace,
)
from cclmark.journal.summaries import complete, with_short_summaries
from cclmark.work.items import COLLECTIVE, PROFILE

Line = Header | Result | Condition | Explanation | Paths | Trace | Profile | Footer
_Observed = Condition | Explanation | Paths | Trace | Profile
ResultType = TypeVar("ResultType")
_ENCODER = msgspec.json.Encoder()


class _Typed(msgspec.Struct):
    """The field that every line has, even an invalid one."""

    type: str


class _AnyLine(_Typed):
    """The fields that lines of every schema have, older and newer."""

    schema_version: int = 0


_TYPED_DECODER = msgspec.json.Decoder(_Typed)
_ANY_DECODER = msgspec.json.Decoder(_AnyLine)
# Numbers that may be too long to compute with, found in a line with 0 for every digit, ':' for what
# precedes a value, 'e' for 'E', and without white space and '+': regular expressions take several
# times as long as decoding.
_SHAPE = bytes.maketrans(b"123456789,[E", b"000000000::e")
_LEFT_OUT = b" \t\r\n+"
_LONG_INTEGER = b":" + 19 * b"0"
_LONG_NEGATIVE = b":-" + 19 * b"0"
_LONG_EXPONENT = b"e00"
# The last field of a line: the checksum of the line without it. A line without this field, for
# example in an edited journal, is accepted unchecked.
_CHECKSUM_BEGIN = b',"crc32":"'
_CHECKSUM = re.compile(rb',"crc32":"([0-9a-f]{8})"\}\s*$')
HEADER_BEGIN = b'{"type":"header"'
_MOST_OF_HEADER_BYTES = 16 << 20
_UTF8_MARK = b"\xef\xbb\xbf"  # some editors write it at the start of a file
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
# The first bytes of compressed files, and the program that decompresses them.
_COMPRESSED = {
    b"\x1f\x8b": "gunzip",
    b"\x28\xb5\x2f\xfd": "unzstd",
    b"\xfd7zXZ": "unxz",
    b"BZh": "bunzip2",
    b"PK\x03\x04": "unzip",
}
_TOO_SMALL = re.compile(r"expected `int` >= (-?\d+)")
_UNKNOWN_WORD = re.compile(r"invalid enum value ('.*')", re.DOTALL)
_LONGEST_WORD = 40
_MOST = 1e100  # of any value; its square is still finite


class JournalWriter:
    """Appends lines to a new file. Written lines survive the death of this process."""

    def __init__(self, path: Path, option: str = "--journal FILE") -> None:
        """Creates ``path``; messages name ``option`` as the way to choose another file.

        Takes over a file that an interrupted run has left before its header was complete. Raises
        UsageError if ``path`` cannot be created, or has other content.
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
        self._settings: Settings | None = None

    def write(self, line: Line) -> None:
        """Appends one line with its checksum. Raises OutputError if the disk is full or missing."""
        if isinstance(line, Header):
            self._settings = line.settings
        try:
            rest = memoryview(_encoded(line, self._settings))
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
        """Closes the file; ``keep`` False removes a file without a header."""
        if not keep:  # before its lock is released, so that no other run takes over a removed file
            self.path.unlink(missing_ok=True)
        self._file.close()


def _encoded(line: Line, settings: Settings | None) -> bytes:
    """Returns a line of a journal whose header has these settings, None for the header."""
    if settings is not None and hasattr(line, "item"):
        line = with_short_summaries(line, settings)
    return with_checksum(_ENCODER.encode(_without_defaults(with_stored_samples(line))))


@cache
def _defaults(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """The defaults of a struct that are numbers or texts."""
    fields = msgspec.structs.fields(kind)
    return {one.name: one.default for one in fields if isinstance(one.default, int | float | str)}


def _without_defaults(value: Any) -> Any:
    """A value in whose structs each default is the object that msgspec recognises by identity."""
    if isinstance(value, list | tuple):
        if not value or isinstance(value[0], int | float | str):
            return value
        return type(value)(map(_without_defaults, value))
    if not isinstance(value, msgspec.Struct):
        return value
    changes: dict[str, Any] = {}
    defaults = _defaults(type(value))
    for name in value.__struct_fields__:
        own = getattr(value, name)
        default = defaults.get(name)
        is_default = own == default and type(own) is type(default)
        found = default if is_default else _without_defaults(own)
        if found is not own:
            changes[name] = found
    return msgspec.structs.replace(value, **changes) if changes else value


def with_checksum(content: bytes) -> bytes:
    """Returns a line of a journal, of which ``content`` is the JSON object."""
    return b'%s,"crc32":"%08x"}\n' % (content[:-1], zlib.crc32(content))


def without_checksum(line: bytes) -> bytes | None:
    """Returns the JSON object of a line without a line end; None if the line was changed."""
    place = line.rfind(_CHECKSUM_BEGIN)
    found = _CHECKSUM.match(line, place) if place >= 0 else None
    if found is None:
        return line
    content = line[:place] + b"}"
    return content if zlib.crc32(content) == int(found[1], 16) else None


def _created(path: Path) -> BinaryIO:
    """Creates the file, which is locked while it is open. Raises OSError."""
    try:
        file = path.open("xb", buffering=0)
    except FileExistsError:
        return _taken_over(path)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:  # another run has just taken it over
        file.close()
        raise _taken() from None
    except OSError:
        pass  # a file system without locks
    return file


def _taken_over(path: Path) -> BinaryIO:
    """Opens an unfinished header that no run writes to. Raises FileExistsError for other files."""
    if path.is_symlink() or not path.is_file():
        raise _taken()
    file = path.open("r+b", buffering=0)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        begun = file.read(_MOST_OF_HEADER_BYTES)
        whole = b"\n" in begun or len(begun) == _MOST_OF_HEADER_BYTES
        removed = os.fstat(file.fileno()).st_nlink == 0
        if whole or removed or begun[: len(HEADER_BEGIN)] != HEADER_BEGIN[: len(begun)]:
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
    """A journal as read. ``footer`` is None if the run did not end by itself.

    ``results`` are of one kind of work. ``damaged_lines`` counts unreadable lines, for example the
    line being written at a crash, lines whose fields contradict each other, and lines of no run or
    of another one: after a footer or a second header, of devices that the header does not contain,
    or of another kind of work. ``unknown_words`` describes the words in other lines that are left
    out, which a newer version of cclmark may have written: ``parallel 'cp'``, by line.
    """

    header: Header
    results: list[Result] = field(default_factory=list)
    conditions: list[Condition] = field(default_factory=list)
    paths: list[Paths] = field(default_factory=list)
    traces: list[Trace] = field(default_factory=list)
    profile: Profile | None = None
    footer: Footer | None = None
    damaged_lines: int = 0
    unknown_words: list[str] = field(default_factory=list)

    @property
    def unread_lines(self) -> int:
        """The number of lines that are left out."""
        return self.damaged_lines + len(self.unknown_words)

    @property
    def kind(self) -> str:
        """The name of the kind of its results in KINDS; of collectives where there is none."""
        if self.profile is not None:
            return PROFILE
        return self.results[0].item.kind if self.results else COLLECTIVE

    @property
    def cases(self) -> list[CaseResult]:
        """The results of collectives, between all ranks or of pairs."""
        return [result for result in self.results if isinstance(result, CaseResult)]

    @property
    def transfers(self) -> list[TransferResult]:
        """The results of copies."""
        return [result for result in self.results if isinstance(result, TransferResult)]

    @property
    def timed(self) -> list[CaseResult | TransferResult]:
        """The results that can be compared with those of other runs."""
        return [one for one in self.results if isinstance(one, CaseResult | TransferResult)]

    @property
    def profiled(self) -> list[ProfileResult]:
        """The calls of programs, from ``cclmark profile`` and imported traces."""
        return self.of(ProfileResult)

    def of(self, result: type[ResultType]) -> list[ResultType]:
        """The results of one type."""
        return [one for one in self.results if isinstance(one, result)]

    @property
    def lines(self) -> Iterator[Line]:
        """The lines of a file that is read as this journal."""
        yield self.header
        if self.profile is not None:
            yield self.profile
        for lines in (self.results, self.conditions, self.paths, self.traces):
            yield from lines  # explanations are in results
        if self.footer is not None:
            yield self.footer

    def encoded(self) -> bytes:
        """The content of this file, in the schema of today."""
        header = msgspec.structs.replace(self.header, schema_version=SCHEMA_VERSION)
        journal, settings = replace(self, header=header), header.settings
        try:
            return b"".join(_encoded(line, settings) for line in journal.lines)
        except UnicodeEncodeError:  # lone surrogates: journals that are read have none
            return b"".join(_encoded(line, settings) for line in map(printable, journal.lines))


class JournalReader:
    """Reads journals with results of known kinds."""

    def __init__(self, results: Sequence[type[Any]]) -> None:
        """``results``: the types of results, see journal.kind.Kind."""
        lines = (Header, *results, Condition, Explanation, Paths, Trace, Profile, Footer)
        self._decoder: msgspec.json.Decoder[Line] = msgspec.json.Decoder(Union[lines])  # noqa: UP007 - of a tuple

    def read(self, path: Path, *, as_written: bool = False) -> Journal:
        """Reads a journal, complete or truncated.

        All texts in it are printable (see ``cclmark.base.printable``), unless ``as_written``, for
        commands and settings that are to be used again.

        ``path`` may be a page with one journal, or ``PAGE#RUN``, see journal.page_journals.

        Raises UsageError if the file cannot be read, is not a journal, or has a newer schema.
        """
        content, name = read_lines(path)
        return self.parse(content.splitlines(), name, as_written=as_written)

    def parse(self, lines: Iterable[bytes], name: str, *, as_written: bool = False) -> Journal:
        """As ``read``, from lines. ``name`` is for messages.

        Damaged lines are skipped; a line with an impossible value (ranks: -1) was written that way,
        and is rejected with its number. Raises EmptyError without a line, or only part of one.
        """
        cleaned = _unchanged if as_written else _printable
        journal: Journal | None = None
        damaged = 0
        ended = False
        unknown: list[str] = []
        observed: list[_Observed] = []
        rest = enumerate(_unmarked(lines), start=1)
        for number, line in rest:
            if not line.strip():
                continue
            entry = cleaned(self._entry(line, f"{name}:{number}"), line)
            if journal is None:
                _refuse_newer(line, name)
                # No other line can be read without a header: a damaged one is better than none.
                header = entry or cleaned(self._decoded(line), line)
                if not isinstance(header, Header):
                    self._refuse(line, name, is_last=not any(one.strip() for _, one in rest))
                journal = Journal(header)
                damaged += entry is None
            elif entry is None and not ended and (word := self._unknown_word(line)):
                unknown.append(word)
            elif entry is None or ended or not _fits(entry, len(journal.header.devices)):
                damaged += 1
            elif isinstance(entry, Header):
                damaged += 1
                ended = entry != journal.header
            elif isinstance(entry, Condition | Explanation | Paths | Trace | Profile):
                observed.append(entry)
            elif isinstance(entry, Footer):
                journal.footer = entry
                ended = True
            elif _belongs(entry, journal) and complete(entry, journal.header.settings):
                journal.results.append(entry)
            else:
                damaged += 1
        if journal is None:
            raise EmptyError(f"{name} is empty: not a journal of cclmark", name, "it is empty")
        journal.damaged_lines = damaged
        journal.unknown_words = unknown
        _attach(observed, journal)
        return journal

    def is_readable(self, entry: Line, header: Header) -> bool:
        """Whether readers of a journal with this ``header`` find ``entry`` in it."""
        try:
            again = self._decoded(_ENCODER.encode(entry))
        except (ValueError, OverflowError, RecursionError):
            return False
        return again == entry and _fits(entry, len(header.devices))

    def _entry(self, line: bytes, place: str) -> Line | None:
        """Decodes a line; None if it is damaged. Raises UsageError for impossible values."""
        if without_checksum(line) is None:
            return None
        entry = self._decoded(line)
        if entry is None:
            self._refuse_impossible(line, place)
        return entry

    def _decoded(self, line: bytes) -> Line | None:
        """Decodes a line; None if it is damaged."""
        try:
            entry: Line = self._decoder.decode(line)
            if _may_have_long_numbers(line):
                json.loads(line, parse_int=_within_64_bits, parse_float=_sensible)
        except (msgspec.DecodeError, ValueError, RecursionError):
            return None
        return entry

    def _fault(self, line: bytes) -> tuple[str, str]:
        """Returns the error in a line of JSON, and its field; empty if it is not JSON."""
        try:
            self._decoder.decode(line)
        except msgspec.ValidationError as error:
            what, _, place = str(error).partition(" - at `")
            return what[:1].lower() + what[1:], place.rstrip("`").removeprefix("$").removeprefix(
                "."
            )
        except (msgspec.DecodeError, ValueError, RecursionError):
            pass
        return "", ""

    def _unknown_word(self, line: bytes) -> str:
        """Returns the field and the word of a sound line that no enumeration has; else empty."""
        what, field = self._fault(line) if without_checksum(line) is not None else ("", "")
        found = _UNKNOWN_WORD.fullmatch(what)
        return (
            "" if found is None else f"{field.rpartition('.')[2]} {plain(found[1])[:_LONGEST_WORD]}"
        )

    def _refuse_impossible(self, line: bytes, place: str) -> None:
        """Raises UsageError if the line holds a number below its field's minimum."""
        what, field = self._fault(line)
        found = _TOO_SMALL.fullmatch(what)
        if found is not None:
            raise UsageError(
                f"{place}: {field} is less than {found[1]}: correct the line, or remove it"
            )

    def _refuse_field(self, line: bytes, name: str) -> None:
        """Raises UsageError if the line is a header except for one of its fields."""
        try:
            kind = _TYPED_DECODER.decode(line).type
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return
        what, field = self._fault(line)
        if kind == "header" and what:
            at = f"{field}: " if field else ""
            raise UsageError(
                f"{name}:1: the header is wrong: {at}{what}. Without it the journal cannot be used"
            )

    def _refuse(self, line: bytes, name: str, *, is_last: bool) -> NoReturn:
        """Raises UsageError for a first line that is not a header, EmptyError if it is cut off."""
        self._refuse_field(line, name)
        if not line.startswith(HEADER_BEGIN):
            raise UsageError(f"{name} is not a journal of cclmark: {_begins(line)}")
        whole = line.rstrip().endswith(b"}")
        what = "its first line, the header, is "
        what += "damaged" if whole else f"incomplete: cut off after {len(line)} bytes"
        message = f"{name}: {what}. Without it the journal cannot be used"
        raise UsageError(message) if whole or not is_last else EmptyError(message, name, what)


def _attach(observed: Iterable[_Observed], journal: Journal) -> None:
    """Adds the lines that are not results, and to each result what the library did."""
    explanations: dict[int, Explanation] = {}
    for one in observed:
        if isinstance(one, Condition):
            journal.conditions.append(one)
        elif isinstance(one, Paths):
            journal.paths.append(one)
        elif isinstance(one, Trace):
            journal.traces.append(one)
        elif isinstance(one, Profile):
            # Results refer to the groups and processes of one profile.
            journal.damaged_lines += journal.profile is not None
            journal.profile = journal.profile or one
        else:
            explanations[one.index] = one
    for result in journal.results:
        if (found := explanations.get(result.index)) is not None:
            result.explain(found)


def _unchanged(entry: Line | None, line: bytes) -> Line | None:
    return entry


def _printable(entry: Line | None, line: bytes) -> Line | None:
    """``entry`` with printable texts. Most lines have no others, which is quick to detect."""
    if line.isascii() and b"\\" not in line and b"\x7f" not in line:
        return entry
    return printable(entry)


def _unmarked(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yields the lines of a file, without an editor's byte order mark."""
    rest = iter(lines)
    yield from (line.removeprefix(_UTF8_MARK) for line in islice(rest, 1))
    yield from rest


def _fits(entry: Line, devices: int) -> bool:
    """Whether the fields of a line agree, and the devices of a result are in the header."""
    if isinstance(entry, Profile):
        return entry.is_consistent
    return isinstance(entry, Header | Condition | Explanation | Paths | Trace | Footer) or (
        entry.is_consistent and entry.item.is_within(devices)
    )


def _belongs(result: Result, journal: Journal) -> bool:
    """Whether a result is of the kind of those before it."""
    return not journal.results or type(result) is type(journal.results[0])


def _may_have_long_numbers(line: bytes) -> bool:
    """Returns false only if every integer has fewer than 19 digits, and every positive exponent
    fewer than two. Numbers within texts count, too.
    """
    shape = line.translate(_SHAPE, _LEFT_OUT)
    return _LONG_INTEGER in shape or _LONG_NEGATIVE in shape or _LONG_EXPONENT in shape


def _within_64_bits(text: str) -> int:
    """Parses an integer. Raises ValueError beyond 64 bits, which no writer writes."""
    number = int(text)
    if not -(1 << 63) <= number < 1 << 63:
        raise ValueError(f"{number} takes more than 64 bits")
    return number


def _sensible(text: str) -> float:
    """Parses a float. Raises ValueError for a number too large to compute with."""
    number = float(text)
    if not abs(number) <= _MOST:
        raise ValueError(f"{number} is absurd")
    return number


def _refuse_newer(line: bytes, name: str) -> None:
    """Raises UsageError if the line is the header of a newer schema."""
    try:
        version = _ANY_DECODER.decode(line).schema_version
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return
    if version > SCHEMA_VERSION:
        raise UsageError(
            f"{name} has schema {version}, newer than {SCHEMA_VERSION}: update cclmark"
        )


def _begins(line: bytes) -> str:
    """Describes a file that is not a journal."""
    for sign, undone_by in _COMPRESSED.items():
        if line.startswith(sign):
            return (
                f"it is compressed: {undone_by} it first. Traces of torch.profiler are read by "
                "cclmark import, compressed ones too"
            )
    if line.startswith(_UTF16_MARKS):
        return "it is UTF-16: save it as UTF-8"
    begins = line[:40].decode(errors="ignore")
    if not begins.replace("\t", " ").isprintable() or len(begins.encode()) < len(line[:40]) - 3:
        return "it is binary"
    return (
        f"it begins with {begins!r}. For output of another tool, or of cclmark with --format, use "
        "cclmark import FILE"
    )
