"""What holds for the evidence of every finding."""

import math
import operator
from collections.abc import Iterable, Mapping

from cclmark.document.blocks import Finding
from cclmark.document.finding_rules import FIGURES
from cclmark.kinds.registry import report_kind

#: Figures that are no field: shares, ratios, differences and sums of fields.
DERIVED = {
    *("of_link_limit_percent", "of_reference_percent", "latency_of_reference"),
    *("of_cases_percent", "of_alone_percent", "at_once_ratio", "noise_percent", "margin_percent"),
    *("speed_up", "least_speed_up", "most_speed_up"),
    *("ratio", "combined_rate", "loss_difference", "above_reference_ms"),
    *("communication_percent", "exposed_percent", "idle_percent"),
    *("busy_percent", "pcie_bytes", "nvlink_bytes"),
    *("library_pss_bytes", "changed_bytes", "wrong", "compute_slow_down", "share_percent"),
    "error_percent",
    "step_ms",
    "exposed_percent",
}
#: Rules of which some sentences state no figure: reasons, what was not done, or a text of a check.
SOMETIMES = {
    "prediction-error",
    *("launch-bound", "limited-figures", "memory-of-library", "nothing-faster", "pairs-at-once"),
    *("not-converged", "replay-beside-program", "wrong-data", "drift", "default-kept", "no-gain"),
    *("sm-cost", "smallest-value", "fleet-verdict"),
}
#: Rules whose sentences state no figure of a run, only numbers of cases, reasons and names.
WITHOUT_FIGURES = {
    *("cases-not-compared", "cases-not-judged", "checks-passed", "checks-undecided"),
    *("choice-of-library", "data-checked", "data-not-checked", "definitions-differ", "differences"),
    *("ended-early", "failed-cases", "failed-checks", "figures-left-out", "inconclusive-cases"),
    *("failed-host-check", "harmful-difference", "hosts-differ", "no-fault-found"),
    *("library-message", "methods-differ", "missing-calls", "more-pairs", "no-case-judged"),
    *("no-device-times", "noise-between-runs", "not-measured", "nothing-found", "notice"),
    *("nothing-to-compare-with", "pairs-alike", "program-failed", "restricted-by-environment"),
    *("shared-processors", "skipped-cases", "unknown-choice", "unusual-path"),
    *("variant-without-effect", "artifact-withheld", "failing-settings", "nothing-to-choose"),
    *("search-ended", "no-proof", "uncertain-value", "network-not-used", "nothing-said"),
    *("two-nodes-alone", "faster-algorithm", "algorithm-not-seen", "does-not-fit"),
    *(
        "fleet-budget",
        "fleet-dip",
        "fleet-early",
        "fleet-marginal",
        "fleet-once",
        "fleet-without-floors",
    ),
}
_COMPARED = {"<": operator.lt, "=": operator.eq, ">": operator.gt}


def fields_of(kind: str) -> dict[str, str]:
    """The units of the fields of a kind, in tables and on pages."""
    report = report_kind(kind)
    layouts = [report.csv, report.exported_layout]
    columns = [*report.page_columns, *(column for one in layouts for column in one.columns)]
    return {column.name: column.unit for column in columns}


def require_evidence(found: Iterable[Finding], fields: Mapping[str, str]) -> None:
    """Fails unless each finding has the figures of its rule in their units.

    ``fields``: the units of those of the kind.
    """
    for one in found:
        names = {figure.name for figure in one.evidence}
        assert names <= {*FIGURES.get(one.id, ())}, one
        assert names <= DERIVED | {*fields}, one
        assert names or one.id not in FIGURES or one.id in SOMETIMES, one
        for figure in one.evidence:
            assert math.isfinite(figure.value), one
            assert figure.unit or figure.name == "loss_difference", one
            assert fields.get(figure.name, "") in ("", figure.unit), one
            assert (figure.limit is None) == (not figure.comparison), one
            if figure.limit is not None:
                assert _COMPARED[figure.comparison](figure.value, figure.limit), one
        if one.gain is not None:
            assert one.gain.unit == "times as fast"
            assert math.isfinite(one.gain.value)
            low, high = one.gain.low, one.gain.high
            assert low is None or 1 < low <= one.gain.value <= high, one
