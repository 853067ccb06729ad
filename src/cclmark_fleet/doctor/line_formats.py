"""Examined hosts for machines: JUnit XML for CI, gauges for Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from cclmark.document.exporter import Exporter
from cclmark.document.openmetrics import Metric, RunLabels, Series, lines_of
from cclmark_fleet.doctor.result import ExaminationResult

if TYPE_CHECKING:
    from cclmark.journal.schema import Footer, Header
    from cclmark_fleet.hosts.check import CheckOutcome


class JunitExporter(Exporter[ExaminationResult]):
    """A test suite for each host, a test for each check.

    A check that cannot tell is skipped, with its reason, as one that is not applicable.
    """

    def __init__(self) -> None:
        self._root = ElementTree.Element("testsuites", {"name": "cclmark doctor"})

    def begin(self, header: Header) -> str:
        """Empty: the document is written at the end."""
        return ""

    def add(self, result: ExaminationResult) -> str:
        """Adds a suite."""
        states = [one.state for one in result.outcomes]
        host = result.examination.host
        suite = ElementTree.SubElement(
            self._root,
            "testsuite",
            {
                "name": f"cclmark doctor {host}",
                "hostname": host,
                "tests": str(len(states)),
                "failures": str(states.count("fail")),
                "errors": str(int(not states)),
                "skipped": str(states.count("absent") + states.count("unknown")),
                "time": f"{result.duration_s:.3f}",
            },
        )
        if not states:
            case = ElementTree.SubElement(suite, "testcase", {"classname": host, "name": "doctor"})
            ElementTree.SubElement(case, "error", {"message": result.reason or result.status})
        for one in result.outcomes:
            _add_case(suite, host, one)
        return ""

    def end(self, footer: Footer | None) -> str:
        """Returns the document."""
        ElementTree.indent(self._root)
        text = ElementTree.tostring(self._root, encoding="unicode")
        return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def _add_case(suite: ElementTree.Element, host: str, one: CheckOutcome) -> None:
    case = ElementTree.SubElement(suite, "testcase", {"classname": host, "name": one.check})
    signals = [f"{it.where}: {it.seen} (limit: {it.limit})" for it in one.signals]
    if one.state == "fail":
        element = ElementTree.SubElement(case, "failure", {"message": signals[0]})
        fix = [f"{it.step}: {it.action}" for it in one.remedies]
        element.text = "\n".join([*signals, f"cost: {one.cost}", *fix, f"source: {one.source}"])
    elif one.state in ("unknown", "absent"):
        words = "cannot tell" if one.state == "unknown" else "not applicable"
        needs = f" (would tell: {one.needs})" if one.needs else ""
        text = f"{words}: {one.reason}{needs}"
        ElementTree.SubElement(case, "skipped", {"message": text})


class PrometheusExporter(Exporter[ExaminationResult]):
    """Gauges of each host and check, for node_exporter's textfile collector.

    ``set_gauges`` sets those of ``metrics`` for a host.
    """

    def __init__(
        self,
        metrics: Sequence[Metric],
        set_gauges: Callable[[Series, ExaminationResult, RunLabels], None],
    ) -> None:
        self._set_gauges = set_gauges
        self._series = Series(metrics)

    def begin(self, header: Header) -> str:
        """Empty: the text is written at the end."""
        return ""

    def add(self, result: ExaminationResult) -> str:
        """Sets the gauges of a host."""
        self._set_gauges(self._series, result, RunLabels((), (), ()))
        return ""

    def end(self, footer: Footer | None) -> str:
        """Returns the text."""
        return "".join(lines_of(self._series))
