"""``cclmark plugin``: the path of the NCCL plug-in, and the contents of its logs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import click

from cclmark.options.command import argument


@dataclass
class PluginFlags:
    """The arguments of ``cclmark plugin``."""

    examples: ClassVar = [
        (
            'NCCL_PROFILER_PLUGIN="$(cclmark plugin)" python train.py',
            "A program with the plug-in: each process writes a log.",
        ),
        ("cclmark plugin", "The path of the plug-in."),
        ("cclmark plugin cclmark-*.cclmlog", "What the logs contain."),
    ]
    about: ClassVar = (
        "Each process of the program writes one log, cclmark-HOST-PID.cclmlog (with -2 and so "
        "on if the file exists), of at most 128 MiB. "
        "Variables: CCLMARK_PLUGIN_LOG, the beginning of the path of the logs; "
        "CCLMARK_PLUGIN_EVENTS=steps, also kernel channels and network steps, which Python reads "
        "(cclmark.explain.plugin_log.read_plugin_log); "
        "CCLMARK_PLUGIN_RECORDS, the maximum number of events (128 bytes each). "
        "CCLMARK_PLUGIN_PROFILER and CCLMARK_PLUGIN_TUNER, other plug-ins that are called too. "
        'NCCL_TUNER_PLUGIN="$(cclmark plugin)" adds the times that NCCL predicts, and with '
        "CCLMARK_TUNER_TABLE=/path it applies the rules of a tuner table.\n\n"
        "Exit codes: 0; 1 if ranks of a communicator ran different collectives; 2 if a file cannot "
        "be read or is not a log; 3 if a log contains no operation or lacks events, or if the "
        "plug-in is missing."
    )

    logs: tuple[Path, ...] = argument("[LOG...]", nargs=-1, type=click.Path(path_type=Path))
