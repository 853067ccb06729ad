"""The function type by which pages load references."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from cclmark.references.reference import Reference

# Returns the references of some device kinds, as ReferenceNotes requests them.
Load = Callable[[Collection[str]], Sequence[Reference]]
