"""The references that results are compared with by default, read when a row first requires one."""

from __future__ import annotations

import sys
from collections.abc import Collection

from cclmark.base.errors import UsageError
from cclmark.base.printable import plain
from cclmark.references.reference import Reference


def usual_references(kinds: Collection[str]) -> list[Reference]:
    """Returns the references of these device kinds, for commands without references of their own.

    If the user's files cannot be read, reports that and returns the others: a broken file must not
    make such a command fail.
    """
    from cclmark.references.reference_store import load_references, shipped_references

    try:
        return load_references(kinds=kinds)
    except UsageError as error:
        print(f"cclmark: your references are not used: {plain(str(error))}", file=sys.stderr)
        return shipped_references(kinds)
