"""JSON: one document with the complete content of the journal."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import Any

import msgspec

from cclmark.analysis.device_conditions import ConditionFigures
from cclmark.document.blocks import SEVERITY_ORDER, Document, Finding, RunContent
from cclmark.document.conditions import with_conditions
from cclmark.document.exporter import Exporter
from cclmark.document.naming import NamedRun
from cclmark.document.reference_notes import ReferenceNotes
from cclmark.document.report_kind import Reduce, Reduction
from cclmark.document.soundness import of_completeness
from cclmark.document.verdict import verdict_of
from cclmark.journal.item_results import Result
from cclmark.journal.journal_file import Journal
from cclmark.journal.sample_times import TEXTS, SampleTimes
from cclmark.journal.schema import Condition, Footer, Header, Paths, Profile


class JsonExporter(Exporter[Result]):
    """``{"header": …, "cases": […], "footer": …}`` in base units, with the names of the schema.

    Every field is present, even with its default value. NaN and infinities, which JSON does not
    support, are null. ``footer`` is null if the end of the run is missing. A soak also has
    ``conditions``, a run with explanations ``paths``, a profile of a program
    ``profile``. At the end are the ``findings``, the most severe first, and the
    ``verdict``. Findings are null with the
    reason in ``findings_error`` if the journal contradicts itself.
    """

    def __init__(
        self,
        listed_as: str,
        compose: Callable[[RunContent], Document],
        references: ReferenceNotes | None = None,
        *,
        headline: Callable[[NamedRun], str] = lambda run: "",
        keeps_samples: bool = True,
        reduction: Reduce = lambda header: None,
    ) -> None:
        """``listed_as``: the name of the list of results. ``compose``: the document of a run.

        ``keeps_samples``: whether the document is composed from raw samples too. ``reduction``
        and ``headline``: as those of ReportKind.
        """
        self._headline = headline
        self._listed_as = listed_as
        self._compose = compose
        self._references = references or ReferenceNotes()
        self._keeps_samples = keeps_samples
        self._reduce = reduction
        self._reduction: Reduction | None = None
        self._header: Header | None = None
        self._results: list[Any] = []
        self._own_profile: Profile | None = None
        self._separator = "\n"
        self._conditions: list[str] = []
        self._condition_figures = ConditionFigures()
        self._paths: list[Paths] = []
        self._profile = ""

    def begin(self, header: Header) -> str:
        """Returns the document up to its first case."""
        self._header = header
        self._reduction = self._reduce(header)
        self._is_endless = header.settings.cycles == 0
        return f'{{"header": {encode(header)},\n"{self._listed_as}": ['

    def add(self, result: Result) -> str:
        """Returns one result, on one line."""
        is_kept = not self._is_endless if self._reduction is None else self._reduction.add(result)
        if is_kept:
            self._results.append(result if self._keeps_samples else without_samples(result))
        separator, self._separator = self._separator, ",\n"
        return separator + encode(result)

    def observe(self, condition: Condition) -> None:
        """Stores the condition of a device for the end of the document."""
        self._conditions.append(encode(condition))
        self._condition_figures.add(condition)

    def connect(self, paths: Paths) -> None:
        """Stores the paths of a library for the end of the document."""
        self._paths.append(paths)

    def profile(self, profile: Profile) -> None:
        """Stores what a profile contains besides its operations for the end of the document."""
        self._own_profile = profile
        self._profile = f'"profile": {encode(profile)},\n'

    def end(self, footer: Footer | None) -> str:
        """Returns the rest of the document."""
        lists = _list("conditions", self._conditions) + _list("paths", [*map(encode, self._paths)])
        lists += self._profile
        return f'\n],\n{lists}"footer": {encode(footer)}{self._findings(footer)}}}\n'

    def _findings(self, footer: Footer | None) -> str:
        assert self._header is not None
        if self._reduction is None and self._is_endless:
            return ',\n"findings": null'
        content = RunContent(
            *(self._header, self._results, footer, self._references, self._own_profile),
            paths=self._paths,
            conditions=self._condition_figures,
            reduction=self._reduction,
        )
        try:
            document = with_conditions(self._compose(content), content)
            journal = Journal(self._header, self._results, footer=footer)
            missing = of_completeness(journal, [], with_end=not document.states_end)
            stated = sorted(
                [*document.findings, *missing], key=lambda one: SEVERITY_ORDER[one.severity]
            )
            found = [encode(_stated(one)) for one in stated]
            verdict = verdict_of(document, NamedRun("", journal), self._headline)
            can_rerun = self._header.is_of_cclmark
            command, purpose = verdict.next_step(can_rerun=can_rerun)
            verdict = replace(verdict, command=command, purpose=purpose)
        except (LookupError, ArithmeticError, ValueError, AssertionError) as error:
            reason = encode(f"{type(error).__name__}: {error}")
            return f',\n"findings": null,\n"findings_error": {reason}'
        joined = ",\n".join(found)
        return f',\n"findings": [{joined}],\n"verdict": {encode(asdict(verdict))}'


def without_samples(result: Any) -> Any:
    """Returns a result without raw samples, which are the largest part of it."""
    changes: dict[str, Any] = {"samples": None}
    if (device := getattr(result, "device", None)) is not None:
        changes["device"] = msgspec.structs.replace(device, samples=None)
    return msgspec.structs.replace(result, **changes)


def _stated(one: Finding) -> dict[str, Any]:
    """A finding without what only renderers need."""
    names = ("id", "severity", "sentence", "subject", "advice", "commands")
    found = {name: getattr(one, name) for name in names}
    return found | {
        "evidence": [asdict(figure) for figure in one.evidence],
        "gain": None if one.gain is None else asdict(one.gain),
    }


def _list(name: str, entries: Sequence[str]) -> str:
    joined = ",\n".join(entries)
    return f'"{name}": [\n{joined}\n],\n' if entries else ""


def encode(value: object) -> str:
    """Encodes ``value`` as JSON, with every field of every structure."""
    try:
        return _ENCODER.encode(value)
    except ValueError:  # a number that JSON does not support
        text = json.dumps(value, default=_spelled)
        return _ENCODER.encode(json.loads(text, parse_constant=lambda name: None))


def _spelled(value: object) -> object:
    if isinstance(value, msgspec.Struct):
        names = value.__struct_fields__
        if isinstance(value, SampleTimes):
            names = tuple(name for name in names if name not in TEXTS)
        return {name: getattr(value, name) for name in names}
    if isinstance(value, Sequence):
        return [*value]
    raise TypeError(f"the schema has no {type(value).__name__}")


_ENCODER = json.JSONEncoder(allow_nan=False, default=_spelled)
