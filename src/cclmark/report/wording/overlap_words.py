"""Sentences and cells on overlaps, shared by all formats."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cclmark.analysis.overlap_summaries import OverlapSummary, SlowDown
from cclmark.analysis.ratio import RatioEstimate
from cclmark.plan.cases import Case
from cclmark.plan.operations import moves_data
from cclmark.plan.sizes import format_size
from cclmark.plan.work_beside import MATMUL
from cclmark.printable import plain
from cclmark.report.wording.text import BYTES_PER_GB, counted, format_time_us
from cclmark.results.kinds import OverlapResult
from cclmark.results.schema import Header

_TERA = 1e12
_PRECISE = 100.0  # smaller rates are printed with three digits
_IN_TURNS = 1.05  # a smaller sum of the remaining rates is no gain over executing in turns
_FEW = 0.5  # a smaller share of the operations that count is reported


def method_of_overlaps(header: Header) -> str:
    """Describes in a line how overlaps were measured."""
    check = "outputs of both checked" if header.settings.check else "outputs not checked"
    return (
        "each alone and both at once in every round, operations that ran entirely beside the other "
        f"work, slowest rank, {check}"
    )


def grouped(summaries: Iterable[OverlapSummary]) -> list[list[OverlapSummary]]:
    """The summaries of each series of cases."""
    groups: dict[str, list[OverlapSummary]] = {}
    for one in summaries:
        groups.setdefault(group_title(one), []).append(one)
    return list(groups.values())


def group_title(one: OverlapSummary) -> str:
    """The collective and the work beside it: the title of a group."""
    return f"{one.case.series().group_words()}, beside {one.work.describe()}"


def computed_by(summaries: Iterable[OverlapSummary]) -> list[str]:
    """The software that computes, with its file."""
    found = (f"{one.implementation}  {one.implementation_path}".rstrip() for one in summaries)
    return [plain(text) for text in dict.fromkeys(found) if text]


def size_text(case: Case) -> str:
    """The size of a case: ``1 MiB``."""
    return format_size(case.size_bytes) if moves_data(case.operation) else "-"


def rate_unit(one: OverlapSummary) -> str:
    """The unit of the compute's rate."""
    return "TFLOP/s" if one.work.name == MATMUL else "GB/s"


def rate_text(rate: float | None, one: OverlapSummary) -> str:
    """The rate of the compute in its unit."""
    if rate is None:
        return "-"
    value = rate / (_TERA if one.work.name == MATMUL else BYTES_PER_GB)
    return f"{value:.3g}" if value < _PRECISE else f"{value:.1f}"


def bandwidth_text(bytes_per_s: float | None) -> str:
    """A bus bandwidth in GB/s."""
    return "-" if bytes_per_s is None else f"{bytes_per_s / BYTES_PER_GB:.2f}"


def time_text(slow_down: SlowDown | None) -> str:
    """The time alone in microseconds."""
    return "-" if slow_down is None else format_time_us(slow_down.alone_s)


def slow_down_text(slow_down: SlowDown | None) -> str:
    """The slow-down with its interval: ``1.18 (1.16 to 1.20)``."""
    if slow_down is None:
        return "-"
    if slow_down.estimate is None:
        return f"{slow_down.ratio:.3f}"
    return ratio_text(slow_down.estimate)


def ratio_text(estimate: RatioEstimate | None) -> str:
    """A ratio with its interval: ``1.18 (1.16 to 1.20)``."""
    if estimate is None:
        return "-"
    return f"{estimate.ratio:.3f} ({estimate.low:.3f} to {estimate.high:.3f})"


def head_of(one: OverlapSummary) -> list[str]:
    """The titles of the columns of ``cells_of``."""
    return [
        *("size", "variant", "alone µs", "busbw", "beside busbw", "slow-down (95 %)"),
        *(f"compute {rate_unit(one)}", "slow-down (95 %)"),
    ]


def cells_of(one: OverlapSummary) -> list[str]:
    """The cells of a line."""
    if one.communication is None:
        what = "WRONG" if one.status == "wrong" else one.status
        return [size_text(one.case), plain(one.variant.describe()), what, *["-"] * 5]
    return [
        size_text(one.case),
        plain(one.variant.describe()),
        time_text(one.communication),
        bandwidth_text(one.busbw_alone),
        bandwidth_text(one.busbw_beside),
        slow_down_text(one.communication),
        rate_text(one.rate_alone, one),
        slow_down_text(one.compute),
    ]


def against_title(group: Sequence[OverlapSummary]) -> str:
    """The title of the table of ``against_rows``."""
    usual = next((one.usual for one in group if one.usual is not None), group[0].variant)
    return f"both at once: times over those of {plain(usual.describe())} in the same rounds (95 %)"


AGAINST_HEAD = ("size", "variant", "collective", "compute")


def against_rows(group: Sequence[OverlapSummary]) -> list[list[str]]:
    """The cells of the variants that are compared with the default; empty without any."""
    return [
        [
            size_text(one.case),
            plain(one.variant.describe()),
            ratio_text(one.communication.against_usual),
            ratio_text(one.compute.against_usual),
        ]
        for one in group
        if one.communication is not None
        and one.compute is not None
        and one.communication.against_usual is not None
    ]


def remarks_of(summaries: Sequence[OverlapSummary]) -> list[str]:
    """What was wrong, failed or skipped, is bound by launches, or is based on few operations."""
    found: dict[str, list[str]] = {}
    for one in summaries:
        place = f"{one.variant.describe()} {size_text(one.case)}"
        for text in _remarks(one):
            found.setdefault(text, []).append(place)
    return [plain(f"{text}: {', '.join(dict.fromkeys(places))}") for text, places in found.items()]


def _remarks(one: OverlapSummary) -> list[str]:
    texts = []
    if one.status not in ("ok", "wrong"):
        texts.append(f"{one.status}: {one.reason}")
    if one.left_out:
        texts.append(
            f"in {one.left_out} of {counted(one.rounds, 'round')} no operation ran entirely beside "
            "the other work: these rounds are left out"
        )
    if one.launch_bound:
        texts.append(
            "launches set the time of the collective alone, so that its slow-down is a lower limit"
        )
    if one.compute_launch_bound:
        texts.append(
            "launches set the time of the compute alone, so that its slow-down is a lower limit"
        )
    if one.together_launch_bound:
        texts.append(
            "launches set the times of both at once, so that the slow-downs contain the cost of "
            "launches on the host"
        )
    if one.communication is not None and min(one.evaluated) < _FEW:
        texts.append("less than half of the operations ran entirely beside the other work")
    if one.combined_rate is not None and one.combined_rate < _IN_TURNS:
        texts.append("together they took as long as one after the other: executed in turns")
    return texts


def share_text(summaries: Sequence[OverlapSummary]) -> str:
    """The share of the operations that counts; empty without figures."""
    known = [one.evaluated for one in summaries if one.communication is not None]
    if not known:
        return ""
    sent, computed = min(one[0] for one in known), min(one[1] for one in known)
    return (
        f"at least {sent:.0%} of the collectives and {computed:.0%} of the compute operations ran "
        "entirely beside the other work and count"
    )


def alone_text(summaries: Sequence[OverlapSummary]) -> str:
    """Explains the time alone, which is not that of a sweep; empty without figures."""
    known = [one.alone_operations for one in summaries if one.alone_operations]
    if not known:
        return ""
    numbers = " to ".join(str(one) for one in dict.fromkeys((min(known), max(known))))
    return (
        f"alone: the mean of {numbers} collectives in a row, as many as beside the compute, of the "
        "slowest rank; a sweep reports the median of longer batches, in which a small message may "
        "take less time"
    )


def wrong_lines(results: Iterable[OverlapResult]) -> list[str]:
    """A line for each rank with wrong data: of the collective, or of the compute."""
    lines = []
    for result in results:
        checked = result.verification.findings if result.verification is not None else []
        for name, findings in (
            ("the collective", checked),
            ("the compute", result.compute_findings),
        ):
            for one in findings:
                lines.append(
                    f"wrong data of {name} in {result.overlap.describe()}: rank {one.rank}: "
                    f"{one.wrong} wrong elements, the first is {one.first_element}: expected "
                    f"{one.expected}, actual {one.actual}"
                )
    return [plain(line) for line in lines]
