"""Values that several tests begin from."""

import json
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from cclmark.journal.schema import (
    DeviceDescription,
    Header,
    LibraryDescription,
    Machine,
    Settings,
)
from cclmark.rendezvous.keys import Access
from cclmark.rendezvous.messages import Job, encoded_plan

_USUAL = Settings(
    begin_bytes=8,
    end_bytes=8,
    step_bytes=0,
    factor=2,
    timing="throughput",
    across_ranks="max",
    precision=0.02,
    max_time_s=1,
    timeout_s=60,
    iterations=None,
    warmup=None,
    group=1,
    graph_launches=1,
    check=1,
    cycles=1,
    registration="none",
    seed=1,
)


def usual_settings(**changes) -> Settings:
    """How a command without options measures, but for the sizes, with ``changes``."""
    return replace(_USUAL, **changes)


def header_of(
    settings: Settings,
    *libraries: LibraryDescription,
    devices: int = 0,
    runtime: str = "cuda",
    name: str = "GPU",
    **changes,
) -> Header:
    """The header of a run of these libraries on devices of one host."""
    machine = Machine("", "", "", "", 1, 0)
    of_host = [
        DeviceDescription(rank, "host", runtime, rank, name, 1 << 30) for rank in range(devices)
    ]
    header = Header(1, "", "", [], machine, of_host, [], list(libraries), {}, settings)
    return replace(header, **changes)


def edited(journal: bytes, change: Callable[[dict[str, Any]], object]) -> bytes:
    """A journal whose lines ``change`` has altered, without checksums.

    A line for which ``change`` returns False is left out.
    """
    lines = []
    for line in journal.splitlines():
        entry = json.loads(line)
        entry.pop("crc32", None)
        if change(entry) is not False:
            lines.append(json.dumps(entry).encode())
    return b"\n".join(lines) + b"\n"


def with_header(journal: bytes, **fields) -> bytes:
    """A journal with other values in its header."""
    first, _, rest = journal.partition(b"\n")
    return edited(first, lambda header: header.update(fields)) + rest


def usual_job(**changes) -> Job:
    """The job of rank 0 of two on the host, with nothing planned and no shared memory."""
    return replace(
        Job(
            rank=0,
            ranks=2,
            parent_pid=1,
            runtime="host",
            device_indices=[0],
            every_index=[0, 1],
            processors=[],
            oversubscribed=True,
            rank_group_fd=-1,
            board_fd=-1,
            access=Access("", b"", b"", b""),
            token=b"",
            kind="collective",
            plan=encoded_plan([]),
            settings=usual_settings(),
            ccl_path="",
            ccl_wheels={},
        ),
        **changes,
    )
