"""The record of this kind of work."""

from __future__ import annotations

from cclmark.kinds.objects.plan import OBJECTS, ObjectCall
from cclmark.kinds.objects.result import ObjectResult
from cclmark.results.kind import Kind

KIND = Kind(
    OBJECTS,
    ObjectCall,
    ObjectResult,
    "objects",
    __package__,
)
