"""The interface of formats: the beginning, one result at a time, the end.

During a run, an exporter receives each result at once, so that it is shown before the next case
starts; results of a journal are passed in the same way. It returns text and has no other effect.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Generic, TypeVar

from cclmark.base.printable import printable
from cclmark.document.verdict import JOURNAL
from cclmark.journal.schema import Condition, Explanation, Footer, Header, Paths, Profile

ResultT = TypeVar("ResultT")


class Exporter(ABC, Generic[ResultT]):
    """Converts results of one kind to one format. What a format does not show is ignored."""

    #: Whether explanations are shown after all results; otherwise each is shown with its result.
    explains_at_end = False
    #: The path of the run's journal, ready for a shell.
    journal_path = JOURNAL

    @abstractmethod
    def begin(self, header: Header) -> str:
        """Returns the text before the first result."""

    @abstractmethod
    def add(self, result: ResultT) -> str:
        """Returns the text for one more result. Cases of one size are adjacent."""

    @abstractmethod
    def end(self, footer: Footer | None) -> str:
        """Returns the end of the text; ``footer`` is None if the run's end is missing."""

    def whole(self, header: Header, results: Iterable[ResultT], footer: Footer | None) -> str:
        """Returns the text of a run whose results are known at once, safe to print."""
        pieces = [self.begin(printable(header))]
        pieces += [self.add(printable(result)) for result in results]
        return "".join([*pieces, self.end(printable(footer))])

    def notices(self) -> list[str]:
        """Returns, after the end, the findings for which the text has no place."""
        return []

    def explain(self, explanation: Explanation) -> None:
        """Receives the explanation of the results of a case."""

    def connect(self, paths: Paths) -> None:
        """Receives how a library connects the ranks."""

    def observe(self, condition: Condition) -> None:
        """Receives the condition of a device after a case."""

    def profile(self, profile: Profile) -> None:
        """Receives, before the text begins, what a profile contains besides its operations."""
