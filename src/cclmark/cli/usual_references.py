"""The references that results are held against unasked. Read when the first row asks for one."""

from __future__ import annotations

import sys
from collections.abc import Collection

from cclmark.errors import UsageError
from cclmark.report.text import plain
from cclmark.results.reference import Reference


def usual_references(kinds: Collection[str]) -> list[Reference]:
    """Those of devices of these kinds; where the user's cannot be read, the others, which is said.

    For commands that nobody asked for references: a broken file must not take their result.
    """
    from cclmark.results.references import load_references, shipped_references

    try:
        return load_references(kinds=kinds)
    except UsageError as error:
        print(f"cclmark: your references are not used: {plain(str(error))}", file=sys.stderr)
        return shipped_references(kinds)
