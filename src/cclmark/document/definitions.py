"""The definitions of the figures of several runs: each tool has its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from cclmark.document.insight_words import listed
from cclmark.results.schema import Header

_OWN = "the median over samples of the slowest rank unless the method says otherwise"

# The tools of each definition of a time, in the order of the runs.
Definitions = Mapping[str, list[str]]


def tool_of(header: Header) -> str:
    """Returns the tool that measured a run, with its version if it is another tool."""
    return "cclmark" if header.imported is None else header.imported.source


def definition_of(header: Header) -> str:
    """Returns the definition of a run's times in words; empty if the journal has none."""
    return _OWN if header.imported is None else header.imported.figure


def definitions_of(headers: Iterable[Header]) -> Definitions:
    """Returns the tools by definition. Runs without a definition are left out."""
    found: dict[str, list[str]] = {}
    for header in headers:
        if definition := definition_of(header):
            tools = found.setdefault(definition, [])
            if (tool := tool_of(header)) not in tools:
                tools.append(tool)
    return found


def definition_lines(definitions: Definitions) -> list[str]:
    """Returns a sentence for each definition: its tools, and what a time is."""
    return [f"{listed(tools)}: a time is {words}" for words, tools in definitions.items()]
