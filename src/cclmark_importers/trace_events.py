"""Reads the events of a JSON trace piece by piece: traces of long runs are larger than memory.

A trace is an object with a long array `traceEvents` and few other members, or only that array. It
is decoded in pieces that end between two events. A place between `}` and `{` may also be within a
string or an inner array; then the piece before it is not complete JSON, and an earlier place is
tried. Whatever decodes as a list of complete events ends between two events, because JSON has no
ambiguous prefix.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, TypeVar

import msgspec

from cclmark.base.errors import UsageError

_GZIP = b"\x1f\x8b"
_PIECE_BYTES = 8 << 20
_MOST_BYTES = 64 << 30  # of a trace after decompression
_MOST_WITHOUT_END = 256 << 20  # of one event, or of the members around the events
_EVENTS = re.compile(rb'"traceEvents"\s*:\s*\[')
_LONGEST_EVENTS = 64  # bytes of that text, with white space
_BETWEEN = re.compile(rb"\}\s*,\s*(?=\{)")
_WINDOW_BYTES = 1 << 16  # at the end of a piece, in which places between events are tried
_MOST_PLACES = 16  # that are tried
_PLACE = re.compile(r"\(byte (\d+)\)")
_TRUNCATED, _TRAILING = "truncated", "trailing"


class TraceEvent(msgspec.Struct):
    """An event of a trace. ``ts`` and ``dur`` are microseconds; some events lack them."""

    ph: str = ""
    cat: str = ""
    name: str = ""
    ts: float | str | None = None
    dur: float | str | None = None
    args: msgspec.Raw = msgspec.Raw(b"")


class Members(msgspec.Struct):
    """The members of a trace, with its last events."""

    traceEvents: list[TraceEvent]  # noqa: N815 - Kineto's name
    distributedInfo: dict[str, Any] = {}  # noqa: N815 - Kineto's name
    deviceProperties: list[dict[str, Any]] = []  # noqa: N815 - Kineto's name
    host_name: str = ""


_MEMBERS = msgspec.json.Decoder(Members)
_LIST = msgspec.json.Decoder(list[TraceEvent])
_Event = TypeVar("_Event")


@dataclass(frozen=True)
class TraceTool:
    """The program that writes traces. ``completes``: when a file is complete, for a message."""

    name: str
    completes: str


_TORCH = TraceTool("torch.profiler", "it is complete only when export_chrome_trace has returned")


def is_compressed(content: bytes) -> bool:
    """Whether a file that begins so is compressed by gzip."""
    return content.startswith(_GZIP)


def pieces_of(file: BinaryIO, name: str) -> Iterator[bytes]:
    """The content of a file, decompressed. Raises UsageError if it is damaged or too large."""
    read, total = 0, 0
    unpacked = None
    while content := file.read(_PIECE_BYTES):
        if read == 0 and is_compressed(content):
            unpacked = zlib.decompressobj(wbits=31)
        read += len(content)
        while content:
            piece = content
            if unpacked is not None:
                try:
                    piece = unpacked.decompress(content, _PIECE_BYTES)
                except zlib.error as error:
                    raise UsageError(
                        f"{name}: the compressed file is damaged ({error}): copy it again"
                    ) from None
            content = b"" if unpacked is None else unpacked.unconsumed_tail
            total += len(piece)
            if total > _MOST_BYTES:
                raise UsageError(f"{name}: the trace is larger than {_MOST_BYTES >> 30} GiB")
            if piece:
                yield piece
    if unpacked is not None and not unpacked.eof:
        raise UsageError(
            f"{name}: the compressed file is cut off after {read} bytes: copy it again"
        )


@dataclass
class _Position:
    """How much of a trace is decoded, for messages."""

    name: str
    tool: TraceTool
    offset: int = 0
    lines: int = 0

    def advance(self, content: bytes) -> None:
        self.offset += len(content)
        self.lines += content.count(b"\n")

    def damage(self, error: Exception, content: bytes, added: int) -> UsageError:
        """Where the JSON is cut off or damaged. ``added``: bytes before ``content``."""
        if isinstance(error, msgspec.ValidationError):
            return UsageError(f"{self.name} is not a trace of {self.tool.name}: {error}")
        place = _PLACE.search(f"{error}")
        at_end = place is not None and int(place[1]) - added >= len(content)  # within a number
        if _TRUNCATED in str(error) or (at_end and _TRAILING not in str(error)):
            self.advance(content)
            return UsageError(
                f"{self.name}: the trace is cut off after {self.offset} bytes, in line "
                f"{self.lines + 1}: {self.tool.completes}. Export or copy it again"
            )
        text = _PLACE.sub(lambda place: f"(byte {self.offset + int(place[1]) - added})", f"{error}")
        return UsageError(f"{self.name}: the trace is damaged: {text}. Export or copy it again")


def read_events(
    pieces: Iterator[bytes], name: str, add: Callable[[list[TraceEvent]], None]
) -> Members:
    """Calls ``add`` with all events of a trace, in their order, and returns its members.

    ``args`` of an event are valid until ``add`` returns; ``traceEvents`` of the result is empty.
    Raises UsageError if the trace is damaged, cut off, or has no events.
    """
    position = _Position(name, _TORCH)
    head, rest = _head(pieces, position)
    rest = _without_events(rest, pieces, position, _LIST, add)
    begin = b'{"traceEvents":['
    tail = _decoded(_MEMBERS, begin, rest, position) if head is not None else _whole(rest, position)
    add(tail.traceEvents)
    return Members(
        [],
        tail.distributedInfo or (head.distributedInfo if head is not None else {}),
        tail.deviceProperties or (head.deviceProperties if head is not None else []),
        tail.host_name or (head.host_name if head is not None else ""),
    )


def read_array(
    pieces: Iterator[bytes],
    name: str,
    tool: TraceTool,
    decoder: msgspec.json.Decoder[list[_Event]],
    add: Callable[[list[_Event]], None],
) -> None:
    """Calls ``add`` with all events of a trace that is an array, in their order.

    Parts that ``decoder`` leaves undecoded are valid until ``add`` returns. Raises UsageError if
    the trace is damaged, cut off, or no array.
    """
    position = _Position(name, tool)
    begin = b""
    for piece in pieces:
        begin += piece
        if begin.strip():
            break
    rest = begin.lstrip()
    if rest and not rest.startswith(b"["):
        raise UsageError(f"{name} is not a trace of {tool.name}: it is no JSON array")
    begin = begin[: len(begin) - len(rest)] + rest[:1]
    position.advance(begin)
    rest = _without_events(rest[1:], pieces, position, decoder, add)
    add(_decoded(decoder, b"[" if begin.strip() else b"", rest, position))


def _without_events(
    rest: bytes,
    pieces: Iterator[bytes],
    position: _Position,
    decoder: msgspec.json.Decoder[list[_Event]],
    add: Callable[[list[_Event]], None],
) -> bytes:
    """Reads all pieces, and returns what follows the last place between two events."""
    ended = False
    for piece in pieces:
        rest += piece
        if not ended:
            found, length, ended = _before_last_place(rest, position, decoder)
            if found:
                add(found)
                position.advance(rest[:length])
                rest = rest[length:]
        _require_end(rest, position)
    return rest


def _head(pieces: Iterator[bytes], position: _Position) -> tuple[Members | None, bytes]:
    """The members before the events, and what follows; None and all if there are no events."""
    content, searched = b"", 0
    for piece in pieces:
        content += piece
        for match in _EVENTS.finditer(content, max(0, searched - _LONGEST_EVENTS)):
            try:  # the text may be within a string or an inner object
                head = _MEMBERS.decode(content[: match.end()] + b"]}")
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                continue
            position.advance(content[: match.end()])
            return head, content[match.end() :]
        searched = len(content)
        _require_end(content, position)
    return None, content


def _require_end(content: bytes, position: _Position) -> None:
    if len(content) > _MOST_WITHOUT_END:
        raise UsageError(
            f"{position.name}: the trace is damaged: more than {_MOST_WITHOUT_END >> 20} MiB from "
            f"byte {position.offset} on contain no complete event. Export or copy it again"
        )


def _before_last_place(
    content: bytes, position: _Position, decoder: msgspec.json.Decoder[list[_Event]]
) -> tuple[list[_Event], int, bool]:
    """The events before the last place between two events, the bytes up to the next event, and
    whether the array ends within ``content``. Without a place there are no events.
    """
    window = max(0, len(content) - _WINDOW_BYTES)
    places = [*_BETWEEN.finditer(content, window)] or [*_BETWEEN.finditer(content)]
    for place in reversed(places[-_MOST_PLACES:]):
        piece = content[: place.start() + 1]
        try:
            return decoder.decode(b"[" + piece + b"]"), place.end(), False
        except msgspec.ValidationError as error:
            raise position.damage(error, piece, 1) from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            if _TRAILING in str(error):
                return [], 0, True
            if _TRUNCATED not in str(error):
                raise position.damage(error, piece, 1) from None
    return [], 0, False


def _decoded(
    decoder: msgspec.json.Decoder[_Event], begin: bytes, content: bytes, position: _Position
) -> _Event:
    try:
        return decoder.decode(begin + content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise position.damage(error, content, len(begin)) from None


def _whole(content: bytes, position: _Position) -> Members:
    """A document in which no array of events begins: other JSON, or cut off before it."""
    return _decoded(_MEMBERS, b"", content, position)
