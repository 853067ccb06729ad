"""Click commands from classes of options, see ``cclmark.options.command``."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from cclmark.base.errors import EXIT_OK, without_package
from cclmark.options.printed_help import Example
from cclmark.recording.standard_output import say

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from cclmark.recording.recorder import Recorded

from cclmark.options.command import (
    Action,
    GroupedCommand,
    default_of,
    options_of,
    rules_of,
    shown_name,
    titles_of,
    with_rules,
)

FlagsType = TypeVar("FlagsType", bound="DataclassInstance")


class GroupedOption(click.Option):
    """An option with its title. An empty value, for example of an unset variable, is rejected.

    ``said``: its help without what it excludes and requires.
    """

    def __init__(self, *args: Any, title: str, said: str, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.title, self.said = title, said

    def process_value(self, ctx: click.Context, value: Any) -> Any:
        """Converts and checks the typed value; a default may be empty."""
        empty = "" in value if isinstance(value, (list, tuple)) else value == ""
        if empty and ctx.get_parameter_source(self.name or "") is not ParameterSource.DEFAULT:
            raise click.BadParameter(
                "the value is empty, as that of an unset variable. Give a value, or leave the "
                "option out",
                ctx,
                self,
            )
        return super().process_value(ctx, value)


def imported(path: str) -> Action:
    """The function ``path``, whose module is imported when it is called."""
    module, _, name = path.rpartition(".")

    def run(*arguments: Any) -> Recorded | int | None:
        try:
            found: Action = getattr(import_module(module), name)
        except ModuleNotFoundError as error:
            raise without_package(error) from None
        return found(*arguments)

    return run


def parameters_of(flags_type: type[Any]) -> list[click.Parameter]:
    """The options and arguments of click, in the order of use, then of the groups."""
    titles = titles_of(flags_type)
    first = [name for name in getattr(flags_type, "usual", ()) if name in titles]
    entries = options_of(flags_type)
    listed = options_of(flags_type, listed=True)
    rules = rules_of(flags_type, listed)
    short = {name: shown_name(entry).partition(" ")[0] for name, entry in listed.items()}
    found: list[click.Parameter] = []
    for name in dict.fromkeys((*first, *titles)):
        entry = entries.get(name)
        if entry is None:
            continue
        if "argument" in entry.metadata:
            found.append(click.Argument([name], **entry.metadata["argument"]))
        else:
            settings = {"hidden": name not in listed, **entry.metadata["settings"]}
            if not (settings.get("multiple") or settings.get("required")):
                settings["default"] = default_of(entry)
            title, said = entry.metadata["title"] or titles[name], settings.get("help", "")
            if said and name in listed:
                settings["help"] = with_rules(said, name, rules, short)
            names = [*entry.metadata["names"], name]
            found.append(GroupedOption(names, title=title, said=said, **settings))
    return found


def elsewhere_of(flags_type: type[Any]) -> dict[str, str]:
    """The hints for options that a command lacks, by their names."""
    lacks: Mapping[type[Any], str] = getattr(flags_type, "without", {})
    return {
        name: hint
        for one in flags_type.__mro__
        for name, hint in vars(one).get("elsewhere", {}).items()
    } | {
        name: f"{why}."
        for group, why in lacks.items()
        for entry in fields(group)
        for name in entry.metadata["names"]
    }


def command(
    name: str,
    summary: str,
    flags_type: type[FlagsType],
    run: Callable[[FlagsType], Recorded | int | None],
    *,
    examples: Sequence[Example] = (),
    **settings: Any,
) -> click.Command:
    """The click command ``name``, which calls ``run`` with its flags.

    ``settings``: further ones of click's command. The class of flags may have ``examples``,
    ``about``, which follows the summary in the help, some of click's settings, and
    ``command_type``, a class of commands.
    """

    def callback(**values: Any) -> None:
        flags = made.flags_from(values)
        if getattr(flags, "print_plan", False):
            from cclmark.launch.placement import is_primary
            from cclmark.options.python_call import call_text

            text = call_text(made, click.get_current_context(), flags)
            if is_primary(os.environ):
                say(text)
            sys.exit(EXIT_OK)
        try:
            ended = run(flags)
        except BrokenPipeError:
            # Standard error is broken; click would exit with 1, which means wrong data.
            raise click.Abort from None
        sys.exit(ended if ended is None or isinstance(ended, int) else ended.exit_code)

    made: GroupedCommand = getattr(flags_type, "command_type", GroupedCommand)(
        name,
        params=parameters_of(flags_type),
        callback=callback,
        help="\n\n".join(filter(None, (summary, getattr(flags_type, "about", "")))),
        examples=examples or getattr(flags_type, "examples", ()),
        elsewhere=elsewhere_of(flags_type),
        **{
            setting: getattr(flags_type, setting)
            for setting in ("epilog", "hidden", "context_settings")
            if hasattr(flags_type, setting)
        },
        **settings,
    )
    made.flags_type, made.run = flags_type, run
    return made
