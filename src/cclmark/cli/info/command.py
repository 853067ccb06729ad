"""``cclmark info``: the devices and libraries of this machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from cclmark.options.command import OUTPUT, changed, flag
from cclmark.options.groups import LibraryDescriptionOptions, LibraryFileOptions


@dataclass
class InfoFlags(LibraryFileOptions, LibraryDescriptionOptions):
    """The options of ``cclmark info``."""

    usual: ClassVar = ("all", "ccls", "json")
    examples: ClassVar = [
        ("cclmark info", "Devices, links and libraries of this machine."),
        ("cclmark info --all", "Also addresses, functions, and the files that were searched."),
        ("cclmark info --ccls --json", "Only the libraries, as JSON."),
    ]

    ccl_path: str = changed(
        LibraryFileOptions,
        "ccl_path",
        help="NCCL's file; for other libraries set CCLMARK_RCCL_LIBRARY and so on.",
    )
    ccls: bool = flag(
        "--ccls",
        title=OUTPUT,
        help="Only the libraries, with their operations, types and the systems on which they were "
        "tried.",
    )
    all: bool = flag(
        "--all",
        title=OUTPUT,
        help="Every device, the functions of libraries, and why others are not available.",
    )
    json: bool = flag("--json", title=OUTPUT, help="Print JSON.")
