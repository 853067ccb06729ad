"""The options of ``cclmark.measure``, and the calls and command lines that mean the same."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import click

from cclmark.base.errors import UsageError
from cclmark.kinds.collective.command import OF_TERMINAL, MeasureOptions, OperationFlags
from cclmark.options.case_request import device_count
from cclmark.options.command import check_together, default_of, parameters_of
from cclmark.options.types import Size
from cclmark.work.operations import ALL_ROOTS, COLLECTIVES
from cclmark.work.runtimes import NamedDevices
from cclmark.work.sizes import size_text
from cclmark.work.thresholds import meant

OF_SIZES = ("begin", "end", "factor")
_FORMS = "write SIZE, BEGIN:END or BEGIN:END:FACTOR; an empty END is the default"


@cache
def measure_parameters() -> dict[str, click.Option]:
    """The options of the command of a collective that concern the measurement, by name."""
    found = (one for one in parameters_of(MeasureOptions) if isinstance(one, click.Option))
    return {one.name or "": one for one in found if one.name not in OF_TERMINAL}


def checked_call(
    operations: Sequence[str], sizes: str | int, options: Mapping[str, Any]
) -> tuple[list[str], OperationFlags]:
    """The operations and the flags of a measurement. Raises UsageError."""
    known = measure_parameters()
    for name in options:
        if name in OF_SIZES:
            raise UsageError(f"measure has no option {name}, but sizes: {_FORMS}")
        if name not in known:
            others = [other for other in known if other not in OF_SIZES]
            raise UsageError(
                f"measure has no option {name}{meant(name, others)} cclmark.measure_options() "
                "explains all"
            )
    names = list(operations) or list(COLLECTIVES)
    for name in names:
        if name not in COLLECTIVES:
            raise UsageError(
                f"unknown operation {name!r}{meant(str(name), COLLECTIVES)} Choose from "
                f"{', '.join(COLLECTIVES)}"
            )
    values = {
        name: _value(known[name], text, f"sizes={sizes!r}, {name}")
        for name, text in _sizes(sizes).items()
    }
    values |= {name: _value(known[name], value) for name, value in options.items()}
    flags = OperationFlags(**values)
    check_together(flags)
    return names, flags


def _sizes(sizes: str | int) -> dict[str, str]:
    """The texts of ``8``, ``8:1G``, ``8:1G:4`` or ``8:`` by their options. Raises UsageError."""
    parts = str(sizes).split(":") if sizes != "" else []
    if not isinstance(sizes, (str, int)) or len(parts) > 3 or not all([*parts[:1], *parts[2:]]):
        raise UsageError(f"sizes={sizes!r}: {_FORMS}")
    texts = dict(zip(OF_SIZES, parts if len(parts) != 1 else parts * 2, strict=False))
    return {name: text for name, text in texts.items() if text}


def _value(option: click.Option, value: Any, given: str = "") -> Any:
    """The value of an option as a command line has it. Raises UsageError."""
    given = given or f"{option.name}={value!r}"
    if value is None:
        return option.get_default(click.Context(click.Command("measure")))
    if option.is_flag:
        if not isinstance(value, bool):
            raise UsageError(f"{given}: write True or False")
        return value
    if isinstance(value, bool):
        raise UsageError(f"{given}: this option has a value, it is not on or off")
    try:
        if option.multiple:
            texts = [value] if isinstance(value, str) else value
            if not isinstance(texts, Sequence) or not all(isinstance(one, str) for one in texts):
                raise UsageError(f"{given}: write a list of texts")
            return [option.type.convert(one, option, None) for one in texts]
        if isinstance(value, (list, tuple)):
            value = ",".join(map(str, value))
        return option.type.convert(str(value), option, None)
    except click.BadParameter as error:
        raise UsageError(f"{given}: {error.message}") from None


def command_of(names: Sequence[str], sizes: str | int, options: Mapping[str, Any]) -> list[str]:
    """The command that measures the same as a call."""
    known = measure_parameters()
    words = ["cclmark", names[0] if len(names) == 1 else "collectives"]
    words += [] if len(names) == 1 else ["--only", ",".join(names)]
    for name, text in _sizes(sizes).items():
        words += [known[name].opts[0], text]
    for name, value in options.items():
        flag = next(one for one in reversed(known[name].opts) if one.startswith("-"))
        values = value if known[name].multiple and not isinstance(value, str) else [value]
        for one in values:
            if known[name].is_flag:
                words += [flag] if one else []
            elif one is not None:
                text = ",".join(map(str, one)) if isinstance(one, (list, tuple)) else str(one)
                words += [flag, text]
    return words


def call_text(names: Sequence[str], flags: MeasureOptions) -> str:
    """The call that measures the same as a command line."""
    known = measure_parameters()
    words = [] if list(names) == list(COLLECTIVES) else [*map(_literal, names)]
    if sizes := _sizes_text(flags):
        words.append(f"sizes={_literal(sizes)}")
    flags.count = device_count(flags)
    entries = type(flags).__dataclass_fields__
    for name, option in known.items():
        value = getattr(flags, name)
        if name not in OF_SIZES and value != default_of(entries[name]):
            words.append(f"{name}={_literal(_spelt(option, value))}")
    if flags.journal is not None:
        words.append(f"journal={_literal(str(flags.journal))}")
    text = f"cclmark.measure({', '.join(words)})"
    return text if flags.format == "table" else f'{text}.text("{flags.format}")'


def _literal(value: Any) -> str:
    """The value in Python, texts in double quotation marks."""
    if isinstance(value, list):
        return f"[{', '.join(map(_literal, value))}]"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def _sizes_text(flags: MeasureOptions) -> str:
    end = flags.end
    if end is None and flags.like is not None and flags.devices.runtime != "host":
        end = flags.like.end_bytes
    factor = "" if flags.factor is None else f":{flags.factor:g}"
    if flags.begin == end and not factor:
        return size_text(flags.begin)
    if flags.begin == MeasureOptions.begin and end is None and not factor:
        return ""
    return f"{size_text(flags.begin)}:{'' if end is None else size_text(end)}{factor}"


def _spelt(option: click.Option, value: Any) -> Any:
    """The value as it is written in a call."""
    if option.multiple:
        return ["=".join(one) if isinstance(one, tuple) else one for one in value]
    if isinstance(option.type, Size):
        return size_text(value)
    if option.name == "root" and value == ALL_ROOTS:
        return "all"
    if isinstance(value, NamedDevices):
        return value.text
    return ",".join(value) if isinstance(value, list) else value
