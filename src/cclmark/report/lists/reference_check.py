"""A journal compared with its references, as text, Markdown, CSV and JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from cclmark.references.reference_checks import Checked, below
from cclmark.report.formats.csv_format import csv_line
from cclmark.document.markdown import escape
from cclmark.document.paint import Paint, unpainted
from cclmark.document.reference_notes import NORMAL_FROM, ReferenceNotes, share_text
from cclmark.document.text import BYTES_PER_GB, US_PER_S, counted, format_time_us

_MOST_REASONS = 6
_COLUMNS = (
    *("case", "size_bytes", "time_us", "gbps", "reference", "reference_gbps", "reference_us"),
    *("share", "exact", "judged", "remark", "by_device"),
)


@dataclass(frozen=True)
class ReferenceCheck:
    """The results of the journal ``name``. ``least_share``: the required share, None without."""

    name: str
    found: Sequence[Checked]
    notes: ReferenceNotes
    least_share: float | None = None


def check_lines(check: ReferenceCheck, paint: Paint = unpainted) -> list[str]:
    """Returns a table for each operation, the legend of the references, and the counts."""
    lines = [f"{check.name} against references"]
    for name, group in _in_groups(check.found).items():
        head = f"{'size':>10} {'time µs':>11} {'GB/s':>9} {'reference':>12} {'share':>9}"
        lines += ["", paint(name, "bold"), paint(head, "dim")]
        lines += [_row(check, one, paint) for one in group]
    lines.append("")
    lines += [paint(f"  {line}", "dim") for line in check.notes.legend()]
    lines.append(f"  {tally(check)}")
    lines += [f"  {text}" for text in (*_of_devices(check), *_reasons(check))]
    return lines


def _in_groups(found: Sequence[Checked]) -> dict[str, list[Checked]]:
    """Groups the shown results by table, in order of the tables' first results."""
    groups: dict[str, list[Checked]] = {}
    for one in found:
        if one.match is not None or one.bad:
            groups.setdefault(one.thing.group_words(), []).append(one)
    return groups


def tally(check: ReferenceCheck) -> str:
    """Counts results with a reference and judged results, and describes the range of shares."""
    least = NORMAL_FROM if check.least_share is None else check.least_share
    judged = [one.match for one in check.found if one.judged and one.match is not None]
    held = sum(one.match is not None for one in check.found)
    text = f"{counted(len(check.found), 'case')}: {held} with a reference, {len(judged)} judged"
    if judged:
        shares = [match.share for match in judged]
        text += f", {len(below(check.found, least))} of them below {percent(least)}"
        text += f"; shares from {share_text(min(shares))} to {share_text(max(shares))}"
    bad = sum(bool(one.bad) for one in check.found)
    return text + (f"; {bad} without valid figures" if bad else "")


def percent(share: float) -> str:
    """Formats a share as the user requested it: ``90%`` or ``99.5%``."""
    return f"{share * 100:.4g}%"


def check_markdown(check: ReferenceCheck) -> str:
    """Returns the counts, the low results, and all results in a folded section."""
    least = NORMAL_FROM if check.least_share is None else check.least_share
    low = below(check.found, least)
    shown = [one for group in _in_groups(check.found).values() for one in group]
    table, legend = _markdown_table(check, shown), check.notes.legend()
    parts = [f"**{escape(check.name)} against references**: {escape(tally(check))}."]
    parts += [_markdown_table(check, low)] if low else []
    parts.append(
        "\n".join(f"- {escape(line)}" for line in [*legend, *_of_devices(check), *_reasons(check)])
    )
    if shown:
        parts.append(f"<details><summary>All {len(shown)}</summary>\n\n{table}\n\n</details>")
    return "\n\n".join(part for part in parts if part) + "\n"


def check_csv(check: ReferenceCheck) -> str:
    """Returns a line for each case; GB/s are 10^9 bytes per second, a share is a fraction of 1."""
    lines = [csv_line(_COLUMNS)]
    for one in check.found:
        match = one.match
        lines.append(
            csv_line(
                [
                    one.thing.describe(),
                    one.thing.size_bytes,
                    None if one.time_s is None else one.time_s * US_PER_S,
                    None if one.bandwidth is None else one.bandwidth / BYTES_PER_GB,
                    None if match is None else match.words,
                    None if match is None else (match.bandwidth / BYTES_PER_GB or None),
                    None if match is None else match.time_s * US_PER_S,
                    None if match is None else match.share,
                    None if match is None else int(match.exact),
                    int(one.judged),
                    one.bad or one.unjudged,
                    int(one.by_device),
                ]
            )
        )
    return "".join(lines)


def check_json(check: ReferenceCheck) -> str:
    """Returns all results, in base units."""
    cases = []
    for one in check.found:
        match = one.match
        cases.append(
            {
                "what": one.thing.describe(),
                "ccl": one.thing.ccl or None,
                "size_bytes": one.thing.size_bytes,
                "time_s": one.time_s,
                "bytes_per_s": one.bandwidth,
                "judged": one.judged,
                "remark": one.bad or one.unjudged or None,
                "reference": None
                if match is None
                else {
                    "words": match.words,
                    "source": match.reference.source.name,
                    "bytes_per_s": match.bandwidth or None,
                    "time_s": match.time_s,
                    "share": match.share,
                    "by_device": match.by_device,
                    "exact": match.exact,
                    "differences": list(match.differences),
                },
            }
        )
    document = {"journal": check.name, "least_share": check.least_share, "cases": cases}
    return json.dumps(document, indent=1) + "\n"


def _row(check: ReferenceCheck, one: Checked, paint: Paint) -> str:
    size, time, rate, reference, share = _cells(check, one)
    text = f"{size:>10} {time:>11} {rate:>9} {reference:>12} {share:>9}{_flows(one)}"
    least = NORMAL_FROM if check.least_share is None else check.least_share
    style = "yellow" if check.least_share is None else "red"
    if one.bad:
        text, style = f"{text}  {one.bad}", "red"
    elif not below([one], least):
        return text if one.judged else f"{text}  not judged"
    else:
        text += "  low"
    return paint(text, style)


def _cells(check: ReferenceCheck, one: Checked) -> list[str]:
    return [
        one.thing.size_words(),
        "-" if one.time_s is None else format_time_us(one.time_s),
        "-" if not one.bandwidth else f"{one.bandwidth / BYTES_PER_GB:.2f}",
        "-" if one.match is None else one.match.figure,
        check.notes.cell(one.match),
    ]


def _flows(one: Checked) -> str:
    words = one.thing.flow_words()
    return f"  {words}" if words else ""


def _markdown_table(check: ReferenceCheck, found: Sequence[Checked]) -> str:
    lines = [
        "| case | size | time us | GB/s | reference | share | |",
        "| :--- | ---: | ---: | ---: | ---: | ---: | :--- |",
    ]
    for one in found:
        remark = one.bad or ("" if one.judged else "not judged")
        cells = [escape(f"{one.thing.group_words()}{_flows(one)}"), *_cells(check, one), remark]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _of_devices(check: ReferenceCheck) -> list[str]:
    """Says how many figures are times of the devices, which need no launches."""
    count = sum(one.by_device for one in check.found)
    return [f"{count} by the time of the device, without launches"] if count else []


def _reasons(check: ReferenceCheck) -> list[str]:
    """Counts the reasons why results were not judged, the most frequent first."""
    counts = Counter(one.unjudged for one in check.found if one.unjudged and not one.bad)
    lines = [f"{count} not judged: {reason}" for reason, count in counts.most_common()]
    more = len(lines) - _MOST_REASONS
    return lines[:_MOST_REASONS] + ([f"and {more} more reasons"] if more > 0 else [])
