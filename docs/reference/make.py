"""Writes anew the help, examples and topics of the pages here, and findings.md and fields.md.

python docs/reference/make.py
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import click

from cclmark.cli.commands import COMMANDS, load_command
from cclmark.cli.main import topic_text
from cclmark.document.columns import Column
from cclmark.document.finding_rules import FIGURES, FINDINGS
from cclmark.document.insight_words import capitalised
from cclmark.kinds.registry import KINDS, report_kind
from cclmark.report.exports import RUN_COLUMNS, STEP_COLUMNS
from cclmark.work.operations import COLLECTIVES

PAGE = Path(__file__).parent / "cli.md"
FINDINGS_PAGE = Path(__file__).parent / "findings.md"
FIELDS_PAGE = Path(__file__).parent / "fields.md"
_COLUMNS = 78  # of a terminal with 80


def commands(
    command: click.Command, context: click.Context
) -> Iterator[tuple[click.Command, click.Context]]:
    """The command, and those within it."""
    yield command, context
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from commands(inner, click.Context(inner, context, name))


def examples() -> str:
    """The examples of all commands; those of the collectives once."""
    names = [name for name in COMMANDS if name not in list(COLLECTIVES)[1:]]
    lines = []
    for name in names:
        top = load_command(name)
        for command, _ in commands(top, click.Context(top, info_name=name)):
            for line, text in getattr(command, "examples", ()):
                lines += [f"# {text}", line]
    return "\n".join(lines) + "\n"


def with_help(page: str) -> str:
    """A page with what ``cclmark help COMMAND`` prints, in its blocks of such texts."""

    def block(found: re.Match[str]) -> str:
        command = load_command(found[1])
        parent = click.Context(click.Group("cclmark"), info_name="cclmark")
        settings = {**command.context_settings, "terminal_width": _COLUMNS}
        text = command.get_help(click.Context(command, parent, found[1], **settings))
        return f"```text\n{text.rstrip()}\n```"

    return re.sub(r"```text\nUsage: cclmark (\w+) .*?```", block, page, flags=re.DOTALL)


def with_findings(page: str) -> str:
    """The page of findings with the current list at its end."""
    before, head, _ = page.partition("| id | what it says | figures |\n|---|---|---|\n")
    assert head
    figures = {one: ", ".join(f"`{name}`" for name in FIGURES.get(one, ())) for one in FINDINGS}
    rows = (f"| `{one}` | {text} | {figures[one]} |\n" for one, text in FINDINGS.items())
    return before + head + "".join(rows)


def table(columns: Iterable[Column], gauges: Mapping[str, str] = MappingProxyType({})) -> str:
    """Columns as a table, with the gauges of some of them."""
    lines = ["| field | type | unit | better | what it is |", "|---|---|---|---|---|"]
    for one in columns:
        help = f"{one.help} Gauge `{gauges[one.name]}`." if one.name in gauges else one.help
        cells = (f"`{one.name}`", one.kind, one.unit, one.direction, help)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def fields_page() -> str:
    """The page of all fields."""
    parts = [_FIELDS_HEAD, "## Of every run\n", table(RUN_COLUMNS)]
    for name in KINDS:
        kind = report_kind(name)
        fields = kind.fields
        gauges = {one.key: fields.gauge_of(one) for one in fields.all if one.gauge}
        parts += [f"## {capitalised(kind.title)}\n", table(kind.csv.columns, gauges)]
        known = [column.name for column in kind.csv.columns]
        more = [one for one in kind.exported_layout.columns if one.name not in known]
        if more:
            parts += ["`cclmark export` to CSV and Parquet also has:\n", table(more)]
        if kind.samples is not None:
            own = [one for one in kind.samples.columns if one.name not in known]
            parts += ["`--table samples`, besides those that say what was measured:\n", table(own)]
    return "\n".join([*parts, "## Steps (`--table steps`)\n", table(STEP_COLUMNS)])


_FIELDS_HEAD = """# Fields

The fields of the results of every kind of work. They are the columns of `--format csv`, of
`cclmark export --format parquet` and of the table of a page, the names that `--columns` takes, and,
where a gauge is named, those of `--format prometheus`. Those of every run, and the tables of
samples and steps, are of `cclmark export` to CSV and Parquet only:

```sh
cclmark all_reduce --devices host:2 -b 8 -e 64K -f 16 --columns size_bytes,time_us,p99_us
cclmark export run.jsonl --format parquet --columns size_bytes,time_us -O run.parquet
```

GB/s are 10^9 bytes per second. A cell without a value is empty.
"""


def with_block(page: str, heading: str, language: str, text: str) -> str:
    """The page with another content of the first such block after a heading."""
    before, found, rest = page.partition(f"\n## {heading}\n")
    assert found, heading
    fence = re.compile(rf"```{language}\n.*?```", re.DOTALL)
    return before + found + fence.sub(lambda _: f"```{language}\n{text.rstrip()}\n```", rest, 1)


def with_topics(page: str) -> str:
    """The page of the command line with the current examples and topics."""
    page = with_block(page, "Examples", "sh", examples())
    for topic in ("sizes", "exit-codes", "environment"):
        heading = topic.replace("-", " ").capitalize()
        page = with_block(page, heading, "text", topic_text(topic))
    return page


def main() -> None:
    """Writes the pages."""
    FINDINGS_PAGE.write_text(with_findings(FINDINGS_PAGE.read_text()))
    FIELDS_PAGE.write_text(fields_page())
    PAGE.write_text(with_topics(PAGE.read_text()))
    for page in PAGE.parent.glob("*.md"):
        page.write_text(with_help(page.read_text()))


if __name__ == "__main__":
    main()
