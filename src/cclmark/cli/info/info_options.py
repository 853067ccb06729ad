"""The options of ``cclmark info``."""

from __future__ import annotations

from dataclasses import dataclass

from cclmark.cli.options import OUTPUT, LibraryFlags, changed, option


@dataclass
class InfoFlags(LibraryFlags):
    """The options of ``cclmark info``."""

    ccl_path: str = changed(
        LibraryFlags.__dataclass_fields__["ccl_path"],
        help="NCCL's file; for other libraries set CCLMARK_RCCL_LIBRARY and so on.",
    )
    ccls: bool = option(
        OUTPUT,
        "--ccls",
        default=False,
        is_flag=True,
        help="Only the libraries, with their operations, types and the systems on which they were "
        "tried.",
    )
    json: bool = option(OUTPUT, "--json", default=False, is_flag=True, help="Print JSON.")
