"""Where the choice of a library changes from one size to the next."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from cclmark.results.item_results import CaseResult
from cclmark.results.schema import Explanation


@dataclass(frozen=True)
class ChoiceChange:
    """Two consecutive sizes of which the library chose a different kernel or protocol."""

    before: CaseResult
    after: CaseResult

    @property
    def size_bytes(self) -> int:
        """The first size with the new choice."""
        return self.after.case.size_bytes

    @property
    def words(self) -> str:
        """Both choices: ``ring LL → ring LL128``."""
        return f"{_explained(self.before).choice} → {_explained(self.after).choice}"

    @property
    def short(self) -> str:
        """Only what differs: ``LL → LL128``, or both choices if the kernel differs."""
        first, second = _explained(self.before), _explained(self.after)
        if first.kernel == second.kernel and first.protocol and second.protocol:
            return f"{first.protocol} → {second.protocol}"
        return self.words


def _explained(result: CaseResult) -> Explanation:
    assert result.explanation is not None
    return result.explanation


def choice_changes(results: Iterable[CaseResult]) -> list[ChoiceChange]:
    """Returns the changes between consecutive sizes; results that are not explained are left out.

    ``results``: of one operation, library, type, root and placement.
    """
    explained = sorted(
        (one for one in results if one.explanation is not None and one.explanation.choice),
        key=lambda one: one.case.size_bytes,
    )
    return [
        ChoiceChange(before, after)
        for before, after in pairwise(explained)
        if _explained(before).choice != _explained(after).choice
    ]
