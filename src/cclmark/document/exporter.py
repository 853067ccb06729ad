"""The interface of formats: the beginning, one result at a time, the end.

During a run, an exporter receives each result at once, so that it is shown before the next case
starts; results of a journal are passed in the same way. It returns text and has no other effect.
"""

from __future__ import annotations

from typing import Protocol, TypeVar, runtime_checkable

from cclmark.journal.schema import Condition, Explanation, Footer, Header, Paths, Profile

Result_contra = TypeVar("Result_contra", contravariant=True)


class Exporter(Protocol[Result_contra]):
    """Converts results of one kind to one format. Each method returns text, possibly empty."""

    def begin(self, header: Header) -> str:
        """Returns the text before the first result."""
        ...

    def add(self, result: Result_contra) -> str:
        """Returns the text for one more result. Cases of one size are adjacent."""
        ...

    def end(self, footer: Footer | None) -> str:
        """Returns the end of the text; ``footer`` is None if the run's end is missing."""
        ...


@runtime_checkable
class Explains(Protocol):
    """An exporter that shows explanations after all results; the others show them with a result."""

    def explain(self, explanation: Explanation) -> None:
        """Receives the explanation of the results of a case."""
        ...


@runtime_checkable
class Connects(Protocol):
    """An exporter that shows how libraries connect the ranks."""

    def connect(self, paths: Paths) -> None:
        """Receives the paths of a library."""
        ...


@runtime_checkable
class Observer(Protocol):
    """An exporter that uses the conditions of devices."""

    def observe(self, condition: Condition) -> None:
        """Receives the condition of a device after a case."""
        ...


@runtime_checkable
class HasNotices(Protocol):
    """An exporter whose text has no place for some findings: they are printed as notices."""

    def notices(self) -> list[str]:
        """Returns these findings after the end of the text."""
        ...


@runtime_checkable
class Profiles(Protocol):
    """An exporter that shows what a profile contains besides its operations."""

    def profile(self, profile: Profile) -> None:
        """Receives it before the text begins."""
        ...
