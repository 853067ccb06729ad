"""Lists of nodes for schedulers, from the verdict of a scan."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from cclmark.base.printable import plain
from cclmark.document.exporter import Exporter
from cclmark.journal.schema import Footer, Header
from cclmark.work.sizes import in_ranges
from cclmark_fleet.scan.figures import ScanFigures, fault_words, figures_of
from cclmark_fleet.scan.fleet_verdict import LINK, RAIL, SWITCH
from cclmark_fleet.scan.result import ScanResult

_HOST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,250}[A-Za-z0-9])?", re.ASCII)
_NUMBERED = re.compile(r"(.*?)(\d{1,9})", re.ASCII)


def excluded(figures: ScanFigures) -> tuple[dict[str, str], list[str]]:
    """The nodes to leave out, each with the reason, and what no list of nodes removes.

    A link, a rail and a switch are no nodes. Names that are no host names are in no list.
    """
    nodes: dict[str, str] = {}
    rest = []
    for fault in figures.judgement.faults:
        name = fault.where[0].partition("/")[0] if fault.where else ""
        is_node = fault.blames and fault.kind not in (LINK, RAIL, SWITCH)
        if is_node and _HOST.fullmatch(name):
            nodes.setdefault(name, fault_words(fault))
        else:
            rest.append(fault_words(fault))
    return nodes, rest


def host_list(names: Sequence[str]) -> str:
    """``node[3,7-9]``, as ``sbatch --exclude`` has it, in the order of the names."""
    groups: dict[tuple[str, int], list[int]] = {}
    others = []
    for name in names:
        found = _NUMBERED.fullmatch(name)
        if found is None:
            others.append(name)
        else:
            groups.setdefault((found[1], len(found[2])), []).append(int(found[2]))
    words = []
    for (prefix, width), numbers in groups.items():
        ordered = sorted(set(numbers))
        if len(ordered) == 1:
            words.append(f"{prefix}{ordered[0]:0{width}}")
        elif width == 1 or str(ordered[0]).zfill(width) == str(ordered[0]):
            words.append(f"{prefix}[{in_ranges(ordered)}]")
        else:
            words.append(f"{prefix}[{','.join(f'{one:0{width}}' for one in ordered)}]")
    return ",".join([*words, *others])


class NodeList(Exporter[ScanResult]):
    """The nodes to leave out, for Slurm or Kubernetes; comments say why."""

    def __init__(self, *, drains: bool) -> None:
        """``drains``: commands of kubectl; otherwise a list for ``sbatch --exclude``."""
        self._drains = drains
        self._results: list[ScanResult] = []

    def begin(self, header: Header) -> str:
        """Returns nothing."""
        self._header = header
        return ""

    def add(self, result: ScanResult) -> str:
        """Keeps the result."""
        self._results.append(result)
        return ""

    def end(self, footer: Footer | None) -> str:
        """Returns the list."""
        nodes, rest = excluded(figures_of(self._header, self._results))
        if self._drains:
            lines = [f"# not in this list: {plain(text)}" for text in rest]
            for name, reason in nodes.items():
                node = shlex.quote(name)
                lines += [
                    f"# {plain(reason)}",
                    f"kubectl cordon {node}",
                    f"kubectl drain {node} --ignore-daemonsets --delete-emptydir-data",
                ]
            return "\n".join([*lines, ""]) or "\n"
        return f"{host_list([*nodes])}\n"
