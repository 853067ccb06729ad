"""Groups of options, and commands that have them.

A group is a dataclass: each field is an option with the field's default, and its value is stored
under the field's name. A command lists its groups as the bases of a dataclass, and takes over
single options with another text or default by ``changed``. The options of the groups in
``without`` are no options of the command: their fields keep the defaults. The options named in
``unlisted`` are not in its help. ``options/click_command.py`` creates the click command.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from difflib import get_close_matches
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from cclmark.base.errors import UsageError
from cclmark.options.printed_help import SaysHelp
from cclmark.work.sizes import format_size

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from cclmark.recording.recorder import Recorded

# The titles of the sections of a help text, in their order.
SELECTION = "Selection"
INPUT = "Input"
SIZES = "Sizes"
OPERATION = "Operation"
JOB = "Training job"
WHERE = "Devices and libraries"
METHOD = "Method"
SERVER = "Server"
OUTPUT = "Output"
_TITLES = (SELECTION, INPUT, SIZES, OPERATION, JOB, WHERE, METHOD, SERVER, OUTPUT, "Other")
#: How a help text names what JOURNAL may be: for commands that read all runs of a page, and one.
JOURNALS = (
    "JOURNAL: a journal; or PAGE.html, a page of cclmark report, for all of its runs, and "
    "PAGE.html#RUN for one of them."
)
JOURNAL = (
    "JOURNAL: a journal; or PAGE.html, a page of cclmark report with one run, and PAGE.html#RUN "
    "for a run of several."
)

_UNCHANGED: Any = object()
_LEAST_ALIKE = 0.65  # of an option and the one that may be meant
_SCREEN_OF_OPTIONS, _NARROW, _LONG, _WHOLE = 12, 26, 60, 1000
TYPED = "cclmark.typed"  # in the context of a command: its words


def option(*names: str, default: Any = None, title: str = "", **settings: Any) -> Any:
    """A dataclass field that becomes a click option.

    ``title``: of its section of the help, by default the ``title`` of the class.
    """
    metadata = {"names": names, "title": title, "settings": settings}
    if settings.get("multiple") or isinstance(default, list):
        return field(default_factory=lambda: list(default or ()), metadata=metadata)
    return field(default=default, metadata=metadata)


def flag(*names: str, **settings: Any) -> Any:
    """An option without a value, which is off unless it is given."""
    return option(*names, default=False, is_flag=True, **settings)


def argument(metavar: str, *, is_optional: bool = False, **settings: Any) -> Any:
    """A dataclass field that becomes a click argument; empty if it is missing.

    Without ``required`` its type, or the command, reports a missing one, with the possible values.
    """
    shown = f"[{metavar}]" if is_optional else metavar
    settings = {"metavar": shown, "required": False, **settings}
    if not is_optional and not settings["required"] and "nargs" not in settings:
        settings["default"] = ""
    return field(default=() if "nargs" in settings else "", metadata={"argument": settings})


def changed(
    group: type[Any],
    name: str,
    default: Any = _UNCHANGED,
    *,
    add: tuple[str, ...] = (),
    drop: tuple[str, ...] = (),
    shown: str = "",
    title: str = "",
    **settings: Any,
) -> Any:
    """The option ``name`` of a group with another default, other names or another help text.

    ``shown``: the default as the help shows it. ``title``: another section of the help.
    """
    original = group.__dataclass_fields__[name]
    names = (*add, *(word for word in original.metadata["names"] if word not in drop))
    settings = {**original.metadata["settings"], **settings}
    if shown:
        text = re.sub(r" \[[^]]*\]\.$", "", settings["help"]).rstrip(".")
        settings["help"] = f"{text} [{shown}]."
    title = title or original.metadata["title"] or titles_of(group)[name]
    if default is _UNCHANGED:
        default = default_of(original)
    return option(*names, default=default, title=title, **settings)


def default_of(entry: Field[Any]) -> Any:
    """The default of an option."""
    return entry.default if entry.default_factory is MISSING else entry.default_factory()


def options_of(flags_type: type[Any], *, listed: bool = False) -> dict[str, Field[Any]]:
    """The options and arguments of a command, by name. ``listed``: only those in its help."""
    entries: Mapping[str, Field[Any]] = flags_type.__dataclass_fields__
    left_out = [entry for group in getattr(flags_type, "without", ()) for entry in fields(group)]
    unlisted = getattr(flags_type, "unlisted", ()) if listed else ()
    return {
        name: entry
        for name, entry in entries.items()
        if entry.metadata
        and all(entry is not one for one in left_out)
        and name not in unlisted
        and not (listed and entry.metadata.get("settings", {}).get("hidden"))
    }


@dataclass(frozen=True)
class Excludes:
    """Two options that cannot be given together.

    ``why``: the reason, for the message. ``values``: those of the other option, any without.
    """

    option: str
    other: str
    why: str = ""
    values: tuple[str, ...] = ()

    def objection(self, flags: object, shown: Mapping[str, str]) -> str:
        """What is wrong with the options, empty if nothing is."""
        if not (_is_given(flags, self.option) and _is_met(flags, self.other, self.values)):
            return ""
        other = _with_values(shown[self.other], self.values)
        if not self.why:
            return f"{shown[self.option]} and {other} exclude each other"
        return f"{shown[self.option]} excludes {other}: {self.why}"


@dataclass(frozen=True)
class Requires:
    """An option that requires another one.

    ``values``: those of the other option, any without. ``why``: the reason, for the message.
    ``alternative``: an option that does as well as the other one.
    """

    option: str
    other: str
    values: tuple[str, ...] = ()
    why: str = ""
    alternative: str = ""

    def objection(self, flags: object, shown: Mapping[str, str]) -> str:
        """What is wrong with the options, empty if nothing is."""
        if not _is_given(flags, self.option) or _is_met(flags, self.other, self.values):
            return ""
        if self.alternative and _is_given(flags, self.alternative):
            return ""
        value = getattr(flags, self.other)
        text = f"{shown[self.option]} requires {_with_values(shown[self.other], self.values)}"
        text += f" or {shown[self.alternative]}" if self.alternative else ""
        text += f", not {value}" if self.values and value else ""
        return text + (f": {self.why}" if self.why else "")


@dataclass(frozen=True)
class Distinct:
    """An option ``NAME=VALUE`` that may be repeated, each time with another name."""

    option: str

    def objection(self, flags: object, shown: Mapping[str, str]) -> str:
        """What is wrong with the options, empty if nothing is."""
        names = [name for name, _ in getattr(flags, self.option)]
        twice = next((name for name in names if names.count(name) > 1), "")
        return f"{shown[self.option]} {twice} is given twice" if twice else ""


@dataclass(frozen=True)
class Ascending:
    """Two sizes, the first of which is not above the other one where both are known."""

    option: str
    other: str

    def objection(self, flags: object, shown: Mapping[str, str]) -> str:
        """What is wrong with the options, empty if nothing is."""
        low, high = getattr(flags, self.option), getattr(flags, self.other)
        if low is None or high is None or low <= high:
            return ""
        of = f"of {format_size(low)} must not be above {shown[self.other]} of {format_size(high)}"
        return f"{shown[self.option]} {of}"


OptionRule: TypeAlias = Excludes | Requires | Distinct | Ascending
OptionRules: TypeAlias = tuple[OptionRule, ...]


def _is_given(flags: object, name: str) -> bool:
    """Whether an option has another value than its default."""
    return bool(getattr(flags, name) != default_of(options_of(type(flags))[name]))


def given_of(flags: DataclassInstance, names: Collection[str]) -> list[str]:
    """Those of the options ``names`` that have another value than their default, for messages."""
    entries = options_of(type(flags))
    return [shown_name(entries[one]) for one in names if one in entries and _is_given(flags, one)]


def _is_met(flags: object, name: str, values: tuple[str, ...]) -> bool:
    return getattr(flags, name) in values if values else _is_given(flags, name)


def _with_values(shown: str, values: tuple[str, ...]) -> str:
    """An option with its values: ``--format table or markdown``."""
    *first, last = values or ("",)
    return f"{shown} {', '.join(first)} or {last}" if first else f"{shown} {last}".rstrip()


def rules_of(flags_type: type[Any], known: Collection[str]) -> list[OptionRule]:
    """The rules of a command and of its groups, as far as they are on the options ``known``."""
    found = (rule for one in flags_type.__mro__ for rule in vars(one).get("rules", ()))
    return [
        rule
        for rule in dict.fromkeys(found)
        if rule.option in known and getattr(rule, "other", rule.option) in known
    ]


def check_together(flags: DataclassInstance) -> None:
    """Raises UsageError for options that exclude or require each other."""
    shown = {name: shown_name(entry) for name, entry in options_of(type(flags)).items()}
    for rule in rules_of(type(flags), shown):
        if objection := rule.objection(flags, shown):
            raise UsageError(objection)


def shown_name(entry: Field[Any]) -> str:
    """The option in messages: ``-i (--step)``."""
    if "argument" in entry.metadata:
        return str(entry.metadata["argument"]["metavar"].rpartition(" ")[2])
    names = entry.metadata["names"]
    long = next((name for name in names if name.startswith("--")), "")
    return f"{names[0]} ({long})" if long and long != names[0] else names[0]


def with_rules(text: str, name: str, rules: Sequence[OptionRule], short: Mapping[str, str]) -> str:
    """Returns the help of an option, and what it is not accepted with."""
    excluded = [one for one in rules if isinstance(one, Excludes)]
    others = [_with_values(short[one.other], one.values) for one in excluded if one.option == name]
    # With a reason or values, the help of the first option is enough.
    others += [
        short[one.option] for one in excluded if one.other == name and not (one.why or one.values)
    ]
    if others:
        text += f" Not together with: {', '.join(others)}."
    needed = [
        _with_values(short[one.other], one.values)
        for one in rules
        if isinstance(one, Requires) and one.option == name
    ]
    return text + (f" Requires {' and '.join(needed)}." if needed else "")


def _screen_record(option: click.Option, ctx: click.Context) -> tuple[str, str]:
    """Two names of an option, and the first part of its help with the default."""
    shown, _ = option.get_help_record(ctx) or ("", "")
    value = shown.rpartition(", ")[2].partition(" ")[2]
    value = value if len(value) < _LONG else str(option.name).upper()
    short = [name for name in option.opts if not name.startswith("--")][:1]
    long = [name for name in option.opts if name.startswith("--")][:1]
    text = str(getattr(option, "said", option.help))
    first = re.split(r"(?<=\.) (?=[A-Z])|; | \[", text)[0].removesuffix(".")
    default = "".join(re.findall(r" \[[^]]*\]", text)[:1])
    return f"{', '.join([*short, *long])} {value}".rstrip(), f"{first}{default}."


class GroupedCommand(SaysHelp):
    """A command whose help lists its options in groups, and that recognises flags of the peers.

    ``run`` does its work with its flags, values of ``flags_type``.
    """

    flags_type: type[Any] = object
    run: Action

    def __init__(
        self, *args: Any, elsewhere: Mapping[str, str] = MappingProxyType({}), **settings: Any
    ) -> None:
        super().__init__(*args, **settings)
        self._elsewhere = elsewhere

    @property
    def measures(self) -> bool:
        """Whether it measures into a journal, as cclmark.measure does."""
        return hasattr(self.flags_type, "print_plan")

    def flags_from(self, values: Mapping[str, Any]) -> Any:
        """The flags of parsed values. Raises UsageError for options that exclude each other."""
        # click collects the values of an option that may be repeated in a tuple.
        entries = options_of(self.flags_type)
        lists = (name for name in entries if entries[name].default_factory is not MISSING)
        flags = self.flags_type(**{**values, **{name: list(values[name]) for name in lists}})
        check_together(flags)
        return flags

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parses the flags; rejects a flag of another tool and names the replacement."""
        ctx.meta[TYPED] = [*args]
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if error.option_name in self._elsewhere:
                hint = self._elsewhere[error.option_name]
                raise click.UsageError(f"{error.message.rstrip('.')}. {hint}", ctx) from None
            known = [name.lstrip("-") for name in error.possibilities or ()]
            close = get_close_matches(error.option_name.lstrip("-"), known, cutoff=_LEAST_ALIKE)
            raise click.NoSuchOption(
                error.option_name, possibilities=[f"--{name}" for name in close], ctx=error.ctx
            ) from None

    def format_screen(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the first options in the order of use."""
        options = [one for one in self.params if isinstance(one, click.Option) and not one.hidden]
        if options:
            with formatter.section("Options"):
                shown = options[:_SCREEN_OF_OPTIONS]
                formatter.write_dl([_screen_record(one, ctx) for one in shown], _NARROW)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes a section for each title."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and isinstance(parameter, click.Option):
                sections.setdefault(getattr(parameter, "title", "Other"), []).append(record)
        for title in _TITLES:
            if title in sections:
                with formatter.section(title):
                    formatter.write_dl(sections[title])


class CommandGroup(GroupedCommand, click.Group):
    """Several commands in the order in which they were added, and options in groups."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of the commands."""
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Lists each command with its complete first sentence, which click would truncate."""
        rows = [(name, one.get_short_help_str(_WHOLE)) for name, one in self.commands.items()]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def format_screen(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the options and the commands."""
        super().format_screen(ctx, formatter)
        self.format_commands(ctx, formatter)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the options and the commands."""
        super().format_options(ctx, formatter)
        self.format_commands(ctx, formatter)


#: What a command does with its flags. Returns the exit code, None for 0, or how a run ended. Raises
#: CclmarkError before anything is started or written if the flags are invalid.
Action: TypeAlias = "Callable[..., Recorded | int | None]"


def titles_of(flags_type: type[Any]) -> dict[str, str]:
    """The titles of the groups of all options, in the order of the groups."""
    titles: dict[str, str] = {}
    for base in flags_type.__bases__:
        for name, title in titles_of(base).items():
            titles.setdefault(name, title)
    for name in getattr(flags_type, "__dataclass_fields__", {}):
        titles.setdefault(name, vars(flags_type).get("title", ""))
    return titles
