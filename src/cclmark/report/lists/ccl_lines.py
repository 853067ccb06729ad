"""The output of ``cclmark info --ccls``."""

from __future__ import annotations

from collections.abc import Sequence

from cclmark.plan.operations import DTYPE_BYTES
from cclmark.printable import plain
from cclmark.results.schema import CclReport


def ccls_text(reports: Sequence[CclReport]) -> str:
    """Returns a paragraph for each library, available ones first."""
    lines: list[str] = []
    for report in sorted(reports, key=lambda one: bool(one.reason)):
        lines += ["", *_lines(report)]
    return "\n".join(lines[1:])


def _lines(report: CclReport) -> list[str]:
    head = f"{plain(report.name)}, for devices of {' and '.join(report.runtimes)}"
    if report.reason:
        first, *others = map(plain, report.reason.splitlines())
        lines = [f"{head}: not found", f"  reason      {first}"]
        lines += [f"              {other.strip()}" for other in others]
        return [*lines, *_verified(report)]
    lines = [f"{head}: {plain(report.version)}", f"  path        {plain(report.path)}"]
    by_route: dict[str, list[str]] = {}
    for operation, route in report.routes.items():
        by_route.setdefault(route, []).append(operation)
    for number, (route, operations) in enumerate(by_route.items()):
        label = "operations" if number == 0 else ""
        lines.append(f"  {label:10}  {plain(route)}: {' '.join(map(plain, operations))}")
    if report.in_place_only:
        lines.append(f"              in place only: {' '.join(report.in_place_only)}")
    if report.dtypes:
        alike = report.reduced_dtypes == report.dtypes
        of_types = "" if alike else f" of {_types(report.reduced_dtypes)}"
        lines.append(f"  types       {_types(report.dtypes)}")
        lines.append(f"  reductions  {' '.join(report.reductions)}{of_types}")
    else:
        lines.append(
            "  types       as supported by the library; other types are skipped with its error"
        )
    lines.append(f"  id          {f'{report.id_bytes} bytes' if report.id_bytes else 'none'}")
    for label, names in (("has", report.has), ("lacks", report.lacks)):
        if names:
            lines.append(f"  {label:10}  {', '.join(map(plain, names))}")
    return [*lines, *_verified(report)]


def _verified(report: CclReport) -> list[str]:
    return [f"  verified    {plain(report.verified)}"] if report.verified else []


def _types(names: Sequence[str]) -> str:
    return "all" if set(names) == set(DTYPE_BYTES) else " ".join(map(plain, names))
