"""Calls of ``cclmark.measure``, and the command lines that measure the same.

A call becomes the words of a command line, which are parsed and checked as typed ones; ``--print-
plan`` writes typed words as a call.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import PurePath
from typing import Any

import click

from cclmark.base.errors import UsageError
from cclmark.options.command import TYPED, GroupedCommand, shown_name
from cclmark.recording.caller import Caller, called_by, in_python
from cclmark.work.thresholds import meant

#: Options that calls lack: of the terminal, of a journal that is continued, of runs without end.
_OF_TERMINAL = (
    *("format", "columns", "wide", "output", "references", "resume", "quiet", "dry_run"),
    "numbers",
    *("cycles", "duration", "summary_every"),
)
_OF_TEXT = (
    "format",
    "columns",
    "wide",
    "quiet",
    "numbers",
)  # of the text that is made of the run of a call
_OF_SIZES = ("begin", "end", "factor")
_FORMS = "write SIZE, BEGIN:END or BEGIN:END:FACTOR; an empty part is the default"


def _is_of_terminal(command: GroupedCommand, name: str) -> bool:
    return name in _OF_TERMINAL and name not in command.flags_type.files


def call_options(command: GroupedCommand) -> dict[str, click.Option]:
    """The options of the command that a call has, by name; sizes by those of the command."""
    return {
        one.name or "": one
        for one in command.params
        if isinstance(one, click.Option)
        and not _is_of_terminal(command, one.name or "")
        and one.name not in ("journal", "print_plan")
    }


def named_options(command: GroupedCommand) -> dict[str, click.Option]:
    """The options that a call names: where there are ranges of sizes, ``sizes`` has three."""
    known = call_options(command)
    taken = _OF_SIZES if _has_sizes(known) else ()
    return {name: one for name, one in known.items() if name not in taken}


def argument_names(command: GroupedCommand) -> dict[str, str]:
    """The arguments of calls by the options of the command line that are the same."""
    known = {name: f"{name}=" for name in (*call_options(command), "journal", "columns")}
    if _has_sizes(known):
        known.update({name: f"the {name} of sizes=" for name in _OF_SIZES})
    options = [one for one in command.params if one.name in known]
    return {flag: known[one.name or ""] for one in options for flag in one.opts}


def _has_sizes(known: Collection[str]) -> bool:
    return {*_OF_SIZES} <= {*known}


def parsed_call(
    path: str,
    command: GroupedCommand,
    arguments: Sequence[str],
    sizes: str | int,
    options: Mapping[str, Any],
) -> tuple[list[str], Any]:
    """The command line ``cclmark PATH …`` that measures the same as a call, and its flags.

    Raises UsageError, which names what was given.
    """
    words = _call_words(path, command, arguments, sizes, options)
    with in_python(argument_names(command)):
        return words, _parsed(path, command, words, sizes, options)


def _parsed(
    path: str,
    command: GroupedCommand,
    words: list[str],
    sizes: str | int,
    options: Mapping[str, Any],
) -> Any:
    """The flags of the words. Raises UsageError."""
    typed = words[1 + len(path.split()) :]
    try:
        with called_by(Caller(words, is_silent=True)), command.make_context(path, typed) as context:
            return command.flags_from(context.params)
    except click.UsageError as error:
        given = getattr(getattr(error, "param", None), "name", "")
        text = f"measure({path!r}, …): {error.format_message()}"
        if given in options:
            text = f"{given}={options[given]!r}: {error.message}"
        elif given in _OF_SIZES:
            text = f"sizes={sizes!r}, {given}: {error.message}"
        raise UsageError(text) from None


def _call_words(
    path: str,
    command: GroupedCommand,
    arguments: Sequence[str],
    sizes: str | int,
    options: Mapping[str, Any],
) -> list[str]:
    """The command line that measures the same as a call. Raises UsageError."""
    known, named = call_options(command), named_options(command)
    for name in options:
        if name in known and name not in named:
            raise UsageError(f"measure has no option {name}, but sizes: {_FORMS}")
        if name not in known:
            hint = f'cclmark.measure_options("{path}") explains all'
            raise UsageError(f"measure has no option {name}{meant(name, named)} {hint}")
    if sizes != "" and not _has_sizes(known):
        raise UsageError(f"sizes={sizes!r}: cclmark {path} measures no range of sizes")
    words = [one for name, text in _sizes(sizes).items() for one in (known[name].opts[0], text)]
    for name, value in options.items():
        words += _option_words(known[name], value)
    if not all(isinstance(one, (str, PurePath)) for one in arguments):
        raise UsageError(f"measure({path!r}, …): its arguments are texts")
    arguments = [str(one) for one in arguments]
    takes_many = any(one.nargs == -1 for one in command.params if isinstance(one, click.Argument))
    if takes_many or any(one.startswith("-") for one in arguments):
        words += ["--", *arguments]
    else:
        words = [*arguments, *words]
    return ["cclmark", *path.split(), *words]


def _sizes(sizes: str | int) -> dict[str, str]:
    """The texts of ``8``, ``8:1G``, ``8:1G:4`` or ``8:`` by their options. Raises UsageError."""
    parts = str(sizes).split(":") if sizes != "" else []
    if not isinstance(sizes, (str, int)) or len(parts) > len(_OF_SIZES):
        raise UsageError(f"sizes={sizes!r}: {_FORMS}")
    texts = dict(zip(_OF_SIZES, parts if len(parts) != 1 else parts * 2, strict=False))
    return {name: text for name, text in texts.items() if text}


def _option_words(option: click.Option, value: Any) -> list[str]:
    """The words of an option with a value; None is its default. Raises UsageError."""
    if value is None:
        return []
    flag = next((one for one in option.opts if one.startswith("--")), option.opts[0])
    given = f"{option.name}={value!r}"
    if option.is_flag:
        if not isinstance(value, bool):
            raise UsageError(f"{given}: write True or False")
        return [flag] if value else []
    if isinstance(value, bool):
        raise UsageError(f"{given}: this option has a value, it is not on or off")
    if option.multiple:
        texts = [value] if isinstance(value, str) else value
        if not isinstance(texts, (list, tuple)) or not all(isinstance(one, str) for one in texts):
            raise UsageError(f"{given}: write a list of texts")
        return [word for text in texts for word in (flag, text)]
    return [flag, ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)]


def call_text(command: GroupedCommand, context: click.Context, flags: Any) -> str:
    """The call that measures the same as the command line of ``context``. Raises UsageError."""
    given, _, _ = command.make_parser(context).parse_args([*context.meta[TYPED]])
    entries = type(flags).__dataclass_fields__
    for name in given:
        if name not in _OF_TEXT and _is_of_terminal(command, name):
            raise UsageError(
                f"--print-plan excludes {shown_name(entries[name])}: cclmark.measure has no such "
                "option"
            )
    words = [_text(context.command_path.removeprefix("cclmark "))]
    for one in command.params:
        value = given.get(one.name or "")
        if isinstance(one, click.Argument) and isinstance(value, (str, list, tuple)):
            words += map(_text, [value] if isinstance(value, str) else value)
    if _has_sizes(call_options(command)) and not given.keys().isdisjoint(_OF_SIZES):
        words.append(f"sizes={_text(_sizes_text(*(given.get(name, '') for name in _OF_SIZES)))}")
    for name, option in named_options(command).items():
        if name in given:
            words.append(f"{name}={_argument(option, given[name])}")
    if "journal" in given:
        words.append(f"journal={_text(given['journal'])}")
    text = f"cclmark.measure({', '.join(words)})"
    is_shown = _is_of_terminal(command, "format") and flags.format != "table"
    shown = [_text(flags.format)] if is_shown else []
    if "columns" in given:
        shown.append(f"columns=[{', '.join(map(_text, flags.columns))}]")
    return f"{text}.text({', '.join(shown)})" if shown else text


def _sizes_text(begin: str, end: str, factor: str) -> str:
    if begin == end and not factor:
        return begin
    return f"{begin}:{end}:{factor}" if factor else f"{begin}:{end}"


def _argument(option: click.Option, value: Any) -> str:
    """The value of an option, as it was typed, in Python."""
    if option.multiple:
        return f"[{', '.join(map(_text, value))}]"
    if isinstance(value, bool):
        return repr(value)
    if not isinstance(value, str):  # it was given without its value
        value = str(option.flag_value)
    try:
        number = json.loads(value)
    except ValueError:
        number = None
    is_number = isinstance(number, (int, float)) and str(number) == value
    return value if is_number else _text(value)


def _text(text: str) -> str:
    """The text in double quotation marks."""
    return json.dumps(text, ensure_ascii=False)
