"""The list of kinds of work: an import and an entry each."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from cclmark.journal.journal_file import Journal, JournalReader, Line
from cclmark.journal.kind import Kind
from cclmark.journal.schema import Header
from cclmark.kinds.collective import kind as collective
from cclmark.kinds.experiment import kind as experiment
from cclmark.kinds.memory import kind as memory
from cclmark.kinds.overlap import kind as overlap
from cclmark.kinds.p2p import kind as p2p
from cclmark.kinds.pairs import kind as pairs
from cclmark.kinds.pieces import kind as pieces
from cclmark.kinds.tune import kind as tune
from cclmark_fleet.doctor import kind as doctor
from cclmark_fleet.scan import kind as scan
from cclmark_planning.need import kind as need
from cclmark_planning.predict import kind as predict
from cclmark_planning.scaling import kind as scaling
from cclmark_planning.simulate import kind as simulate
from cclmark_programs.profile import kind as profile
from cclmark_programs.replay import kind as replay
from cclmark_training import kind as train
from cclmark_training.check import kind as check
from cclmark_training.objects import kind as objects

if TYPE_CHECKING:
    from cclmark.document.report_kind import ReportKind

_KINDS = (
    collective.KIND,
    pairs.KIND,
    p2p.KIND,
    check.KIND,
    memory.KIND,
    experiment.KIND,
    tune.KIND,
    overlap.KIND,
    train.KIND,
    replay.KIND,
    profile.KIND,
    objects.KIND,
    pieces.KIND,
    need.KIND,
    predict.KIND,
    scaling.KIND,
    simulate.KIND,
    doctor.KIND,
    scan.KIND,
)
KINDS: dict[str, Kind] = {kind.name: kind for kind in _KINDS}


@cache
def _reader() -> JournalReader:
    # Not at import, because ranks read no journals.
    return JournalReader([kind.result for kind in _KINDS])


def read_journal(path: Path, *, as_written: bool = False) -> Journal:
    """Reads a journal of any kind, see JournalReader.read."""
    return _reader().read(path, as_written=as_written)


def parse_journal(lines: Iterable[bytes], name: str, *, as_written: bool = False) -> Journal:
    """Reads the lines of a journal of any kind, see JournalReader.parse."""
    return _reader().parse(lines, name, as_written=as_written)


def is_readable(entry: Line, header: Header) -> bool:
    """Whether readers of a journal with this ``header`` find ``entry`` in it."""
    return _reader().is_readable(entry, header)


def report_kind(name: str) -> ReportKind:
    """What reports have to know of the kind ``name``."""
    report: ReportKind = KINDS[name].report()
    return report
