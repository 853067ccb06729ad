"""Reading and validation of the files that describe collective libraries."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from cclmark.base.errors import UsageError
from cclmark.base.files import read_regular
from cclmark.work.library_fields import (
    LONGEST_TEXT,
    WrongFieldError,
    check_choice,
    check_line,
    check_version,
    shown,
)
from cclmark.work.operations import DTYPE_BYTES, OPERATIONS, REDUCTIONS
from cclmark.work.runtimes import RUNTIMES
from cclmark.work.setting_fields import (
    Conflict,
    LibrarySetting,
    Product,
    Restricts,
    check_setting_name,
    check_settings,
)

# Shapes with their own numbers for types and reductions, then all shapes loaded from a file.
_NUMBERED_SHAPES = ("nccl", "flagcx", "hccl", "cncl", "bkcl", "oneccl")
_LOADED_SHAPES = (*_NUMBERED_SHAPES, "mpi")
SHAPES = (*_LOADED_SHAPES, "shm", "bridge", "torch")
_FP8_CODES = ("OCP", "OCP or FNUZ")
_MEMORY = ("plain", "library")

_MOST_BYTES = 64 << 10
_MOST_FILES = 16
_LARGEST_CODE = (1 << 31) - 1
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", re.ASCII)
_TORCH_NAME = re.compile(r"torch(:[a-z0-9_]+)?", re.ASCII)
_LONGEST_NAME = 32
_SYMBOL = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
#: The groups of Log.pattern.
LOG_GROUPS = ("algorithm", "function", "kernel", "protocol", "channels")
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*", re.ASCII)
_ENVIRONMENT_PREFIX = re.compile(r"[A-Z][A-Z0-9_]*_", re.ASCII)
# Patterns of msgspec's messages, for example the place ``$.exchanges.alltoall``.
_PLACE = re.compile(r" - at `\$\.?(.*)`$")
_MISSING = re.compile(r"Object missing required field `(.+?)`")
_INDEX = re.compile(r"\[\d+\]")
_UNKNOWN = re.compile(r"Object contains unknown field `(.+?)`")


class Exchanges(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The function names of an NCCL-shaped library's exchanges, without the prefix.

    A name is empty where the library has no such function. ``typed_twice``: the functions take
    separate counts and types for the sent and the received data.
    """

    alltoall: str = "AlltoAll"
    alltoallv: str = ""
    older_alltoall: str = ""
    older_alltoallv: str = ""
    typed_twice: bool = False


class Log(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What a library writes to standard output about the algorithm of an operation.

    ``environment``: the variables that make it do so. ``pattern``: a regular expression for a line
    about an algorithm, with a group ``algorithm`` and some of ``function``, ``kernel``,
    ``protocol`` and ``channels``; empty for a library that writes none.
    """

    environment: dict[str, str] = {}
    pattern: str = ""


class Tried(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Where the library was and was not tried, for docs/reference/libraries.md.

    ``hardware``: besides what the files in benchmarks/results show.
    """

    hardware: str = ""
    fake: str = ""
    missing: str = ""


class ConfigurationFiles(
    msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True
):
    """Files with lines ``NAME=VALUE`` from which the library sets variables that are not set.

    ``variable``: the variable that names the user's file, which is ``user`` if it is not set.
    ``system``: the file read after it. A leading ``~`` is the home directory.
    """

    variable: str = ""
    user: str = ""
    system: str = ""


class Inherits(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Another library whose settings this one inherits; settings of this file replace them.

    ``same_versions``: the library has the other one's versions. ``loads``: it loads the other one,
    which reads its own configuration files.
    """

    settings_of: str = ""
    same_versions: bool = False
    loads: bool = False


class Library(
    msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, kw_only=True
):
    """The description of a library. docs/extend/add-a-ccl.md explains every field.

    ``types`` and ``reductions``: the library's own numbers by the names in work.operations.
    """

    name: str
    shape: str
    title: str = ""
    vendor: str = ""
    place: int = 1000
    devices: list[str] = []
    native_of: list[str] = []
    also_called: str = ""
    prefix: str = ""
    files: list[str] = []
    wheel_files: list[str] = []
    environment_files: list[str] = []
    oldest_version: str = ""
    fp8_since: str = ""
    fp8_architecture: int = 0
    fp8_codes: str = "OCP"
    identified_by: str = ""
    indistinct: bool = False
    derived: bool = False
    environment_prefixes: list[str] = []
    plug_ins: str = ""
    in_place_only: list[str] = []
    memory: str = "plain"
    verified: str = "unverified"
    assumed: str = ""
    types: dict[str, int] = {}
    reductions: dict[str, int] = {}
    exchanges: Exchanges = Exchanges()
    log: Log = Log()
    tried: Tried = Tried()
    configuration: ConfigurationFiles = ConfigurationFiles()
    inherits: Inherits = Inherits()
    settings: list[LibrarySetting] = []

    @property
    def written_title(self) -> str:
        """The name in its vendor's spelling: ``RCCL``."""
        return self.title or self.name

    @property
    def full_name(self) -> str:
        """The name with the vendor: ``AMD's RCCL``."""
        if not self.vendor:
            return self.written_title
        return f"{self.vendor}'{'' if self.vendor.endswith('s') else 's'} {self.written_title}"

    @property
    def variable(self) -> str:
        """The environment variable that overrides the library's file."""
        return f"CCLMARK_{self.name.upper().replace('-', '_')}_LIBRARY"

    @property
    def is_loaded(self) -> bool:
        """Whether the engine loads the library from a file."""
        return self.shape in _LOADED_SHAPES


# The structs of tables, by their place.
_STRUCTS: dict[str, type[msgspec.Struct]] = {
    "exchanges": Exchanges,
    "log": Log,
    "tried": Tried,
    "configuration": ConfigurationFiles,
    "inherits": Inherits,
    "settings": LibrarySetting,
    "settings.restricts": Restricts,
    "settings.conflicts": Conflict,
    "settings.product": Product,
}


def read_library(path: Path) -> Library:
    """The library that a user's file describes.

    Relative library paths that contain a ``/`` are relative to the directory of the file. Raises
    UsageError with the file, the field, the error and the allowed values.
    """
    try:
        content = read_regular(path, _MOST_BYTES)
    except OSError as error:
        raise UsageError(f"--ccl-file {path}: cannot read it: {error.strerror}") from None
    except ValueError:  # a NUL in the path
        raise UsageError("--ccl-file: not a path") from None
    library = parse_library(content, f"--ccl-file {path}")
    if library.shape not in _NUMBERED_SHAPES:
        allowed = ", ".join(_NUMBERED_SHAPES)
        raise UsageError(
            f"--ccl-file {path}: shape: {library.shape!r} is not supported for user libraries: "
            f"choose from {allowed}"
        )
    files = [str(path.absolute().parent / file) if "/" in file else file for file in library.files]
    return msgspec.structs.replace(library, files=files)


def parse_library(content: bytes, source: str) -> Library:
    """Parses a description. ``source``: its origin, for messages. Raises UsageError."""
    try:
        written = msgspec.toml.decode(content)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise UsageError(f"{source} is not TOML: {error}") from None
    try:
        for table, known in (("types", DTYPE_BYTES), ("reductions", REDUCTIONS)):
            _check_codes(table, written.get(table, {}), list(known))
        library = msgspec.convert(written, Library)
        _check(library)
    except msgspec.ValidationError as error:
        raise UsageError(f"{source}: {_explained(str(error))}") from None
    except WrongFieldError as error:
        raise UsageError(f"{source}: {error}") from None
    return library


def _check_codes(table: str, codes: Any, known: Sequence[str]) -> None:
    if not isinstance(codes, Mapping):
        raise WrongFieldError(
            table, "is not a table", f"write [{table}] and NAME = NUMBER below it"
        )
    for name, code in codes.items():
        if name not in known:
            raise WrongFieldError(
                table, f"unknown {shown(name)}", f"choose from {', '.join(known)}"
            )
        if type(code) is not int or not 0 <= code <= _LARGEST_CODE:
            raise WrongFieldError(
                f"{table}.{name}",
                f"{shown(code)} is not a valid code",
                f"write an integer from 0 to {_LARGEST_CODE}",
            )


def _check(library: Library) -> None:
    check_choice("shape", library.shape, SHAPES)
    pattern = _TORCH_NAME if library.shape == "torch" else _NAME
    if not pattern.fullmatch(library.name) or len(library.name) > _LONGEST_NAME:
        raise WrongFieldError(
            "name",
            f"{shown(library.name)} is not a library name",
            f"write at most {_LONGEST_NAME} lower-case letters and digits, beginning with a "
            "letter, separated by single -",
        )
    if library.also_called and not _NAME.fullmatch(library.also_called):
        raise WrongFieldError(
            "also_called", shown(library.also_called), "write it in the form of name"
        )
    _check_texts(library)
    _check_lists(library)
    _check_versions(library)
    check_choice("fp8_codes", library.fp8_codes, _FP8_CODES)
    check_choice("memory", library.memory, _MEMORY)
    if library.is_loaded:
        _check_symbol("prefix", library.prefix)
        if not library.files:
            raise WrongFieldError("files", "is empty", "list at least one file of the library")
    if library.shape in _NUMBERED_SHAPES:
        for field in ("devices", "types", "reductions"):
            if not getattr(library, field):
                raise WrongFieldError(field, "is empty", "list at least one")
    if library.identified_by:
        _check_symbol("identified_by", library.identified_by)
    if library.indistinct and len(library.devices) != 1:
        raise WrongFieldError("indistinct", "requires exactly one runtime", "list one in devices")
    names = msgspec.structs.asdict(library.exchanges)
    _check_symbol("exchanges.alltoall", names["alltoall"])
    for field in ("alltoallv", "older_alltoall", "older_alltoallv"):
        if names[field]:
            _check_symbol(f"exchanges.{field}", names[field])
    _check_log(library.log)
    _check_configuration(library.configuration)
    if library.inherits.settings_of and not _NAME.fullmatch(library.inherits.settings_of):
        raise WrongFieldError(
            "inherits.settings_of",
            f"{shown(library.inherits.settings_of)} is not a library name",
            "write the name of a library of cclmark",
        )
    check_settings(library.settings)


def _check_configuration(files: ConfigurationFiles) -> None:
    if files.variable:
        check_setting_name("configuration.variable", files.variable)
    for field in ("user", "system"):
        check_line(f"configuration.{field}", getattr(files, field))


def _check_log(log: Log) -> None:
    for name, value in log.environment.items():
        if not _VARIABLE.fullmatch(name) or not value.isprintable():
            raise WrongFieldError(
                "log.environment",
                f"{shown(name)} = {shown(value)} is not a variable with a value",
                "write a name of capital letters, digits and _, and printable characters",
            )
    if not log.pattern and not log.environment:
        return
    try:
        groups = set(re.compile(log.pattern).groupindex)
    except (re.error, RecursionError, OverflowError):
        groups = set()
    if "algorithm" not in groups or not groups <= set(LOG_GROUPS):
        raise WrongFieldError(
            "log.pattern",
            f"{shown(log.pattern)} is not a pattern for a line",
            "write a regular expression with a group (?P<algorithm>...), and for others choose "
            f"from {', '.join(LOG_GROUPS)}",
        )


def _check_texts(library: Library) -> None:
    texts = {field: getattr(library, field) for field in ("title", "vendor", "verified", "assumed")}
    for table in ("tried",):
        values = msgspec.structs.asdict(getattr(library, table))
        texts |= {f"{table}.{field}": text for field, text in values.items()}
    for field, text in texts.items():
        check_line(field, text)


def _check_lists(library: Library) -> None:
    for field in ("devices", "native_of"):
        for runtime in getattr(library, field):
            check_choice(field, runtime, RUNTIMES)
    for runtime in library.native_of:
        check_choice("native_of", runtime, library.devices)
    for operation in library.in_place_only:
        check_choice("in_place_only", operation, list(OPERATIONS))
    for field in ("files", "wheel_files", "environment_files"):
        files = getattr(library, field)
        if len(files) > _MOST_FILES:
            raise WrongFieldError(
                field, f"has {len(files)} entries", f"write at most {_MOST_FILES}"
            )
        for file in files:
            if not file or not file.isprintable() or len(file) > LONGEST_TEXT:
                raise WrongFieldError(
                    field, f"{shown(file)} is not a file name", "write a path or a name"
                )
    for prefix in library.environment_prefixes:
        if not _ENVIRONMENT_PREFIX.fullmatch(prefix):
            raise WrongFieldError(
                "environment_prefixes",
                f"{shown(prefix)} is not a prefix of variables",
                "write capital letters and digits, ending with _, for example NCCL_",
            )


def _check_versions(library: Library) -> None:
    for field in ("oldest_version", "fp8_since"):
        check_version(field, getattr(library, field))
    if not 0 <= library.fp8_architecture <= _LARGEST_CODE:
        raise WrongFieldError(
            "fp8_architecture", f"{library.fp8_architecture}", "write 90 for 9.0, or 0 for any"
        )


def _check_symbol(field: str, value: str) -> None:
    if not _SYMBOL.fullmatch(value) or len(value) > LONGEST_TEXT:
        raise WrongFieldError(
            field, f"{shown(value)} is not part of a C name", "write letters, digits and _"
        )


def _explained(text: str) -> str:
    """A validation error of msgspec, rewritten with the field first."""
    where = _PLACE.search(text)
    what = text[: where.start()] if where else text
    place = where[1] if where else ""
    if found := _MISSING.search(what):
        return f"{'.'.join(filter(None, [place, found[1]]))}: is missing"
    if found := _UNKNOWN.search(what):
        known = _STRUCTS.get(_INDEX.sub("", place), Library).__struct_fields__
        field = ".".join(filter(None, [place, shown(found[1])]))
        return f"{field}: unknown field: choose from {', '.join(known)}"
    return f"{place}: {what[:1].lower()}{what[1:]}"
