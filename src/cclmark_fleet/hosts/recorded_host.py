"""Recorded hosts: the answers of a probe in a file, without names and addresses that identify.

The file is JSON, compressed by gzip or not, so nothing is unpacked on the host that reads it.
"""

from __future__ import annotations

import gzip
import hashlib
import re
import secrets
import time
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import msgspec

from cclmark.base.errors import UsageError
from cclmark.base.files import read_regular
from cclmark.base.printable import plain
from cclmark_fleet.hosts.host_probe import MISSING, Probe, Reading

FORMAT = "cclmark-host"
VERSION = 1
_MOST_FILE, _MOST_DECODED, _MOST_TEXT = 16 << 20, 64 << 20, 1 << 20
_VERBS = ("read", "list", "resolve", "space", "run", "clock", "packages", "measure")

Answers = dict[str, dict[str, Reading | str]]


class RecordedHost(msgspec.Struct, omit_defaults=True):
    """What a host answered. ``answers``: by verb and subject, a text or a reading; ``later``: those
    that differ ``interval_s`` later. What is not in them was missing on the host.

    ``checks``: the ids of the checks that asked; others cannot be judged. ``name``: replaced.
    """

    format: str
    version: int
    name: str
    checks: list[str]
    answers: Answers
    later: Answers = {}
    environment: dict[str, str] = {}
    interval_s: Annotated[float, msgspec.Meta(ge=0, le=1e6)] = 0.0
    recorded_at: str = ""
    cclmark: str = ""


class RecordedProbe(Probe):
    """Answers from a recorded host."""

    def __init__(self, host: RecordedHost) -> None:
        self.host = host
        self.interval_s = host.interval_s

    @property
    def environment(self) -> Mapping[str, str]:
        """The recorded variables."""
        return self.host.environment

    def wait(self, interval_s: float, began_s: float) -> None:
        """Begins the later moment at once."""
        self.moment = 1

    def ask(self, verb: str, subject: str) -> Reading:
        """The recorded answer; what was not recorded is missing."""
        places = (self.host.later, self.host.answers) if self.moment else (self.host.answers,)
        for place in places:
            if (found := place.get(verb, {}).get(subject)) is not None:
                return Reading(found) if isinstance(found, str) else found
        if verb == "resolve" and self._is_above(f"{subject.rstrip('/')}/"):
            return Reading(subject)
        return Reading(error=MISSING)

    def _is_above(self, path: str) -> bool:
        """Whether recorded files or directories are at or below ``path``."""
        answers = self.host.answers
        return any(
            f"{one}/".startswith(path) and not (isinstance(answer, Reading) and answer.error)
            for verb in ("read", "list")
            for one, answer in answers.get(verb, {}).items()
        )


class ProbeRecorder(Probe):
    """Answers as another probe does, and keeps the answers."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._kept: tuple[Answers, Answers] = ({}, {})

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables of the other probe."""
        return self._probe.environment

    def wait(self, interval_s: float, began_s: float) -> None:
        """Waits as the other probe does."""
        self._probe.wait(interval_s, began_s)
        self.moment, self.interval_s = self._probe.moment, self._probe.interval_s

    def ask(self, verb: str, subject: str) -> Reading:
        """The answer of the other probe."""
        found = self._probe.ask(verb, subject)
        if found.error != MISSING:
            first = self._kept[0].get(verb, {}).get(subject)
            answer = found if found.error or found.code else found.text
            if not self.moment or first != answer:
                self._kept[self.moment].setdefault(verb, {})[subject] = answer
        return found

    def recorded(self, hostname: str, checks: Sequence[str], cclmark: str) -> RecordedHost:
        """What was answered so far, anonymised. ``hostname``: the name to replace."""
        home = self.environment.get("HOME", "")
        anonymous = Anonymiser(hostname, secrets.token_bytes(16), home)
        answers, later = (_anonymous_answers(one, anonymous) for one in self._kept)
        return RecordedHost(
            *(FORMAT, VERSION, anonymous.name, [*checks], answers, later),
            {name: anonymous.text(value) for name, value in self.environment.items()},
            self.interval_s,
            time.strftime("%Y-%m-%d", time.gmtime()),
            cclmark,
        )


def _anonymous_answers(answers: Answers, anonymous: Anonymiser) -> Answers:
    def changed(answer: Reading | str) -> Reading | str:
        if isinstance(answer, str):
            return anonymous.text(answer)
        return Reading(anonymous.text(answer.text), answer.error, answer.code)

    return {
        verb: {anonymous.text(subject): changed(answer) for subject, answer in own.items()}
        for verb, own in answers.items()
    }


_HEX = "[0-9a-fA-F]"
# Shapes that identify a host: each is replaced by digits of the same number. The order matters.
_SHAPES = (
    rf"\b{_HEX}{{8}}(?:-{_HEX}{{4}}){{3}}-{_HEX}{{12}}\b",  # UUIDs
    rf"(?<![\w:])(?:{_HEX}{{2}}:){{19}}{_HEX}{{2}}(?![\w:])",  # addresses of InfiniBand
    rf"(?<![\w:])(?:{_HEX}{{2}}[:-]){{5}}{_HEX}{{2}}(?![\w:])",  # addresses of Ethernet
    rf"(?<![\w:])(?:{_HEX}{{4}}:){{7}}{_HEX}{{4}}(?![\w:])",  # GIDs
    rf"(?<![\w:])(?:{_HEX}{{4}}:){{3}}{_HEX}{{4}}(?![\w:.])",  # GUIDs
    rf"\b0x{_HEX}{{16}}\b",
    rf"\b{_HEX}{{32,64}}\b",  # of machines, containers and jobs
    rf"(?<![\w:.])(?:{_HEX}{{1,4}}:){{1,6}}:?(?:{_HEX}{{1,4}}:){{0,5}}{_HEX}{{1,4}}(?![\w:.])",
)
_IPV6 = re.compile(_SHAPES[-1])
_IDENTIFYING = re.compile("|".join(f"(?:{one})" for one in _SHAPES[:-1]))
_IPV4 = re.compile(r"(?<![\w.-])(?:\d{1,3}\.){3}\d{1,3}(?![\w.-])")
_SERIAL = re.compile(r"((?:Serial Number|S/N|serial)\s*[:=]\s*)([\w/-]+)")
_HOME = re.compile(r"(/(?:home|Users|scratch|data)/)[^/\s:\"']+")
_NO_HOSTS = ("0.0.0.0", "127.", "255.")
_ZERO = re.compile(r"[0:.x-]+|fe80:[0:]*", re.ASCII)


class Anonymiser:
    """Replaces what identifies a host, equal texts by equal ones. ``salt``: of this recording.

    ``home``: the directory of the user, which may be outside the usual places.
    """

    def __init__(self, hostname: str, salt: bytes, home: str = "") -> None:
        self._salt = salt
        self._home = home.rstrip("/") if home.startswith("/") and home != "/root" else ""
        self.name = f"host-{self._digits(hostname, 6)}"
        names = sorted({hostname, hostname.partition(".")[0]} - {"", "localhost"}, key=len)
        words = "|".join(re.escape(one) for one in reversed(names) if len(one) > 1)
        self._names = re.compile(rf"(?<![\w.-])(?:{words})(?![\w-])") if words else None

    def text(self, text: str) -> str:
        """``text`` without names, serial numbers and addresses."""
        if self._home and self._home in text:
            text = re.sub(rf"{re.escape(self._home)}(?![\w.-])", "/home/user", text)
        if self._names is not None:
            text = self._names.sub(self.name, text)
        text = _SERIAL.sub(lambda found: found[1] + self._replaced(found[2]), text)
        text = _IDENTIFYING.sub(lambda found: self._replaced(found[0]), text)
        text = _IPV6.sub(lambda found: self._ipv6(found[0]), text)
        text = _IPV4.sub(lambda found: self._ipv4(found[0]), text)
        return _HOME.sub(r"\1user", text)

    def _digits(self, text: str, count: int) -> str:
        found = hashlib.sha256(self._salt + text.lower().encode(errors="replace")).hexdigest()
        return (found * (count // len(found) + 1))[:count]

    def _replaced(self, text: str) -> str:
        """Other digits in the places of digits and letters, but for parts that are all zero."""
        if _ZERO.fullmatch(text) or text in ("N/A", "Unknown"):
            return text
        if text.lower().startswith("0x"):
            return text[:2] + self._digits(text, len(text) - 2)
        fresh = iter(self._digits(text, len(text)))
        mapped = "0000:0000:0000:0000:0000:ffff:"
        keep = len(mapped) if text.lower().startswith(mapped) else 0
        keep = keep or (20 if text.lower().startswith("fe80:0000:0000:0000:") else 0)
        rest = "".join(next(fresh) if one.isalnum() else one for one in text[keep:])
        return text[:keep] + rest

    def _ipv4(self, text: str) -> str:
        octets = text.split(".")
        if text.startswith(_NO_HOSTS) or any(int(one) > 255 for one in octets):
            return text
        found = self._digits(text, 6)
        return ".".join(["10", *(str(int(found[at : at + 2], 16)) for at in (0, 2, 4))])

    def _ipv6(self, text: str) -> str:
        return f"fd00::{self._digits(text, 4)}" if "::" in text and len(text) > 5 else text


def write_recorded(path: Path, host: RecordedHost) -> None:
    """Writes the file of a recorded host. Raises UsageError."""
    content = gzip.compress(msgspec.json.encode(host), mtime=0)
    try:
        path.write_bytes(content)
    except OSError as error:
        raise UsageError(f"--record {plain(str(path))}: {error.strerror}") from None


def read_recorded(path: Path) -> RecordedHost:
    """Reads and checks the file of a recorded host. Raises UsageError."""
    name = plain(str(path))
    try:
        return parse_recorded(read_regular(path, _MOST_FILE))
    except OSError as error:
        raise UsageError(f"--from {name}: {error.strerror}") from None
    except UsageError as error:
        raise UsageError(f"--from {name}: {error}") from None


def parse_recorded(content: bytes) -> RecordedHost:
    """Decodes the content of such a file. Raises UsageError."""
    if content[:2] == b"\x1f\x8b":
        content = _decompressed(content)
    try:
        host = msgspec.json.decode(content, type=RecordedHost)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        hint = "write one with: cclmark doctor --record FILE"
        raise UsageError(f"not a recorded host ({plain(str(error))}): {hint}") from None
    if host.format != FORMAT or not 1 <= host.version <= VERSION:
        raise UsageError(
            f"format {plain(host.format)[:40]} {host.version} is unknown: this version reads "
            f"{FORMAT} {VERSION}"
        )
    for answers in (host.answers, host.later):
        _check(answers)
    return host


def _decompressed(content: bytes) -> bytes:
    """The content of a gzip file that is complete and not too large. Raises UsageError."""
    inflater = zlib.decompressobj(31)
    with suppress(zlib.error):
        found = inflater.decompress(content, _MOST_DECODED)
        if inflater.unconsumed_tail:
            raise UsageError(f"it expands to more than {_MOST_DECODED >> 20} MiB")
        if inflater.eof:
            return found
    raise UsageError("it is truncated or damaged: copy or record it again")


def _check(answers: Answers) -> None:
    """Raises UsageError for verbs, paths and texts that no recording has."""
    for verb, own in answers.items():
        if verb not in _VERBS:
            raise UsageError(f"the verb {plain(verb)[:40]!r} is unknown")
        for subject, answer in own.items():
            text = answer if isinstance(answer, str) else answer.text
            if len(text) > _MOST_TEXT:
                raise UsageError(f"{plain(subject)[:80]} has more than {_MOST_TEXT >> 20} MiB")
            if verb in ("run", "clock", "packages", "measure"):
                continue
            paths = [subject, *([text] if verb == "resolve" and text else [])]
            for path in paths:
                if not path.startswith("/") or ".." in path.split("/") or "\0" in path:
                    raise UsageError(
                        f"{plain(path)[:80]!r} is not an absolute path without '..': only paths of "
                        "the recorded host are valid"
                    )
