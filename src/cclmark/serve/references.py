"""How pages come by references."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from cclmark.results.reference import Reference

# Gives the references of devices of some kinds, as ReferenceNotes asks for them.
Load = Callable[[Collection[str]], Sequence[Reference]]
