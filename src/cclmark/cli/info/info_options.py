"""The options of ``cclmark info``."""

from __future__ import annotations

from dataclasses import dataclass

from cclmark.cli.options import OUTPUT, LibraryFlags, changed, option


@dataclass
class InfoFlags(LibraryFlags):
    """The options of ``cclmark info``."""

    ccl_path: str = changed(
        LibraryFlags.__dataclass_fields__["ccl_path"],
        help="NCCL's file; others' are named by CCLMARK_RCCL_LIBRARY and the like.",
    )
    ccls: bool = option(
        OUTPUT,
        "--ccls",
        default=False,
        is_flag=True,
        help="Only the libraries, each with its operations, types and on what it was tried.",
    )
    json: bool = option(OUTPUT, "--json", default=False, is_flag=True, help="Print JSON.")
