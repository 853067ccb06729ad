"""Stored texts of what tests compose. UPDATE_GOLDEN=1 rewrites them: read the diff."""

import dataclasses
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from cclmark import __version__
from cclmark.base.errors import CclmarkError

GOLDEN = Path(__file__).parent / "golden"
_NOTHING: tuple[object, ...] = ((), [], {}, "", None, False)
_LEFT_OUT = ("embedded", "file_name")
_MOST = 32  # values of a line
_MOST_ENTRIES = 12  # of a list
_SHOWN = 5  # of those of a longer one


def require_golden(name: str, text: str) -> None:
    """Compares ``text`` with the stored one."""
    stored = GOLDEN / name
    if os.environ.get("UPDATE_GOLDEN"):
        stored.parent.mkdir(parents=True, exist_ok=True)
        stored.write_text(text, encoding="utf-8")
    assert text == stored.read_text(encoding="utf-8"), f"UPDATE_GOLDEN=1 rewrites {name}"


def require_stated(name: str, found: Mapping[str, object]) -> None:
    """Compares what is stated of each of ``found``, with a line for each of its texts or rows."""
    lines: list[str] = []
    for title, value in found.items():
        texts = value if isinstance(value, list | tuple) else [value]
        lines += [title, *(f"    {one}".rstrip() for text in texts for one in _stated(text))]
    require_golden(name, "\n".join([*lines, ""]))


def _stated(value: object) -> list[str]:
    if isinstance(value, list | tuple):
        return [" | ".join(map(str, value))]
    return str(value).split("\n")


def require_outcomes(path: Path, outcome: Callable[[str], str]) -> None:
    """Compares what becomes of each input in ``path``, a line, with the indented lines below it."""
    stored = path.read_text(encoding="utf-8")
    found = []
    for line in stored.splitlines():
        if not line.startswith("    "):
            found.append(line)
            if line and not line.startswith("#"):
                found += [f"    {one}".rstrip() for one in outcome(line).splitlines()]
    text = "".join(f"{line}\n" for line in found)
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), f"UPDATE_GOLDEN=1 rewrites {path.name}"


def refusal(refused: Callable[..., object], *arguments: object) -> str:
    """The error with which ``refused`` refuses the arguments, else what it returns."""
    try:
        return str(refused(*arguments))
    except (CclmarkError, ValueError) as error:
        return f"{type(error).__name__}: {error}"


def outline(value: object, *, hover: bool = False) -> str:
    """What dataclasses hold, a line for each field; long lists are shortened.

    ``hover``: also the texts on the points of charts.
    """
    left_out = _LEFT_OUT if hover else (*_LEFT_OUT, "hover")
    text = "\n".join(_lines(value, "", left_out)).replace(
        f"cclmark {__version__}.", "cclmark VERSION."
    )
    return f"{text}\n"


def _lines(value: object, indent: str, left_out: Sequence[str]) -> Iterator[str]:
    if dataclasses.is_dataclass(value):
        named = [(one.name, getattr(value, one.name)) for one in dataclasses.fields(value)]
    elif isinstance(value, msgspec.Struct):
        named = [(name, getattr(value, name)) for name in value.__struct_fields__]
    elif isinstance(value, Mapping):
        named = [(str(name), own) for name, own in value.items()]
    else:
        assert isinstance(value, Sequence)
        yield from _entries(value, indent, left_out)
        return
    for name, own in named:
        if name in left_out or own in _NOTHING:
            continue
        if (flat := _flat(own)) is not None:
            yield f"{indent}{name}: {flat}".rstrip()
        else:
            yield f"{indent}{name}:"
            yield from _lines(own, f"{indent}  ", left_out)


def _entries(values: Sequence[object], indent: str, left_out: Sequence[str]) -> Iterator[str]:
    number = len(values)
    shown = number if number <= _MOST_ENTRIES else _SHOWN
    for value in values[:shown]:
        if (flat := _flat(value)) is not None:
            yield f"{indent}- {flat}".rstrip()
        else:
            kind = "" if isinstance(value, Sequence | Mapping) else type(value).__name__
            yield f"{indent}- {kind}".rstrip()
            yield from _lines(value, f"{indent}  ", left_out)
    if shown < number:
        yield f"{indent}… {number - shown - 1} more …"
        yield from _entries(values[-1:], indent, left_out)


def _flat(value: object) -> str | None:
    """The value in one line; None for what has parts."""
    if value is None or isinstance(value, int):
        return "-" if value is None else str(value)
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, str):
        return repr(value) if "\n" in value else value
    if not isinstance(value, Sequence) or any(_flat(one) is None for one in value):
        return None
    texts = [_flat(one) or "" for one in value if isinstance(one, str | int | float | None)]
    if len(texts) < len(value):
        return None
    if len(texts) > _MOST:
        texts = [*texts[:_SHOWN], f"… {len(texts) - _SHOWN - 1} more …", texts[-1]]
    return " | ".join(texts)
