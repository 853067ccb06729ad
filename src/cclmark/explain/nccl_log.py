"""Log lines of NCCL and FlagCX about choices and connections.

Lines about choices appear on rank 0 of a communicator, with NCCL_DEBUG=INFO and the subsystem
TUNING. Lines about connections appear on every rank, each with its own, with the subsystems in
``SUBSYSTEMS`` and with FLAGCX_DEBUG=INFO. Their format is not documented; the expressions match
NCCL 2.18 to 2.32, RCCL, whose lines end with the communicator, and FlagCX 0.7 to 0.13.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from cclmark.base.printable import plain
from cclmark.explain.operation import COPY_ENGINE, Operation
from cclmark.explain.paths import (
    CHUNK_BYTES,
    COLLECTIVE_CHANNELS,
    FLAGCX_CLUSTERS,
    FLAGCX_SINGLE,
    INFINIBAND,
    MESSAGE_CHANNELS,
    MESSAGE_CHANNELS_PER_PEER,
    PEER_ACCESS,
    RankPaths,
    Route,
)
from cclmark.explain.plugin_log import ALGORITHMS, PROTOCOLS

_NAMED = re.compile(
    r"NCCL INFO (?P<function>\w+): (?P<bytes>\d+) Bytes -> Algo (?P<algorithm>\w+) proto "
    r"(?P<protocol>\w+) channel\{Lo\.\.Hi\}=\{(?P<low>\d+)\.\.(?P<high>\d+)\}"
)
_NUMBERED = re.compile(
    r"NCCL INFO (?:(?P<function>\w+): )?(?P<bytes>\d+) Bytes -> Algo (?P<algorithm>\d+) proto "
    r"(?P<protocol>\d+) time"
)
_SYMMETRIC = re.compile(
    r"NCCL INFO (?P<function>\w+) \[Symmetric\]: (?P<bytes>\d+) Bytes -> Kernel (?P<kernel>\w+) "
    r"nchannels (?P<channels>\d+)"
)
_COPY_ENGINE = re.compile(
    r"NCCL INFO (?P<function>\w+) \[Copy Engine\]: (?P<bytes>\d+) Bytes -> (?P<copies>\w+)"
)


_REGISTRATION = re.compile(
    r"NCCL INFO .*\brank \d+ - (?:IPC|NET|NVLS|COLLNET) (?:reuse|register(?:ing)?) "
)
#: Words for schema.Explanation.registered: buffers that the program registered, that the library
#: registered itself while a graph was captured, and neither.
BY_CALL, BY_GRAPH, NOT_REGISTERED = "by call", "by graph", "no"


def has_registration(text: str) -> bool:
    """Whether NCCL registered buffers, or used registered ones (NCCL_DEBUG_SUBSYS=REG)."""
    return _REGISTRATION.search(text) is not None


def operations_in(text: str) -> list[Operation]:
    """The operations in lines of NCCL's log, in their order; ``count`` is in bytes."""
    return [one for one in map(_operation, text.splitlines()) if one is not None]


def _operation(line: str) -> Operation | None:
    if found := _NAMED.search(line):
        channels = int(found["high"]) - int(found["low"]) + 1
        return _chosen(found, found["algorithm"].upper(), found["protocol"].upper(), channels)
    if found := _NUMBERED.search(line):
        algorithm, protocol = int(found["algorithm"]), int(found["protocol"])
        if algorithm < len(ALGORITHMS) and protocol < len(PROTOCOLS):
            return _chosen(found, ALGORITHMS[algorithm], PROTOCOLS[protocol], 0)
    if found := _SYMMETRIC.search(line):
        return _chosen(found, found["kernel"], "", int(found["channels"]), "symmetric")
    if found := _COPY_ENGINE.search(line):
        return _chosen(found, found["copies"], "", 0, COPY_ENGINE)
    return None


def _chosen(
    found: re.Match[str], algorithm: str, protocol: str, channels: int, kernel: str = ""
) -> Operation:
    """The operation of a line. ``kernel``: its kind, if that is not the algorithm's name."""
    return Operation(
        function=found["function"] or "",
        datatype="",
        count=int(found["bytes"]),
        peer=-1,
        kernel=kernel or algorithm.lower().replace("_", " "),
        algorithm=algorithm,
        protocol=protocol,
        channels=channels,
    )


#: The value of NCCL_DEBUG_SUBSYS with which NCCL writes these lines.
SUBSYSTEMS = ("INIT", "ENV", "GRAPH", "P2P", "SHM", "NET")

_MOST_MESSAGES = 20  # kept of one rank
_MOST_TEXT = 300  # characters of a parameter or message

_ROUTE = re.compile(
    r"NCCL INFO (?:Channel|Ring) (?P<channel>\d+)(?:/\d+)? : (?P<first>\d+)\[\w+\] -> "
    r"(?P<second>\d+)\[\w+\] (?:\[(?:send|receive)\] )?via (?P<transport>\S.*)$"
)
_RING = re.compile(r"NCCL INFO Ring (\d+) : (\d+) -> (\d+) -> (\d+)")
_TREE = re.compile(r"\[(\d+)\] -?\d+/-?\d+/-?\d+->(\d+)->(-?\d+)(?=\s|$)")
_ONE_TREE = re.compile(r"NCCL INFO Tree (\d+) : (-?\d+) -> (\d+) -> -?\d+/-?\d+/-?\d+")
_TREES = re.compile(r"NCCL INFO Trees (\[.*)$")
_COMMUNICATOR = re.compile(r"NCCL INFO (?:comm \w+ )?rank \d+ nRanks (\d+) nNodes (\d+)")
_WARNING = re.compile(r"(?:NCCL|FLAGCX) WARN (.*)$")
_NETWORK_PART = re.compile(r"^(NET/[^/]+)/(\d+)(\(\d+\))?")
_COMMUNICATOR_END = re.compile(r" comm 0x\w+.*$")
_SET = re.compile(r"NCCL INFO (\w*CCL_\w+) set (?:by environment )?to (.*?)\.?$")


def paths_in(text: str) -> RankPaths:
    """Returns what lines of NCCL's log contain. Other lines and lines that are cut off are left."""
    found = RankPaths()
    channels: dict[tuple[int, int, str], set[int]] = {}
    devices: dict[tuple[int, int, str], dict[str, None]] = {}
    messages: dict[str, None] = {}
    communicators: dict[int, None] = {}
    # NCCL cuts the line with all trees after 1,023 characters, and may change these before it.
    single_trees: dict[int, tuple[int, int]] = {}
    for line in text.splitlines():
        if route := _ROUTE.search(line):
            transport, device = _transport(route["transport"])
            key = (int(route["first"]), int(route["second"]), transport)
            channels.setdefault(key, set()).add(int(route["channel"]))
            devices.setdefault(key, {}).update({device: None} if device else {})
        elif ring := _RING.search(line):
            found.ring_next[int(ring[1])] = (int(ring[3]), int(ring[4]))
        elif trees := _TREES.search(line):
            for channel, rank, parent in _TREE.findall(trees[1]):
                found.tree_parent[int(channel)] = (int(rank), int(parent))
        elif tree := _ONE_TREE.search(line):
            single_trees[int(tree[1])] = (int(tree[3]), int(tree[2]))
        elif created := _COMMUNICATOR.search(line):
            communicators[int(created[1])] = None
            found.parameters["nodes"] = created[2]
        elif warning := _WARNING.search(line):
            messages[plain(warning[1])[:_MOST_TEXT]] = None
        else:
            found.parameters.update(_parameters(line))
    found.routes = [
        Route(*key, len(of), sorted(devices[key])) for key, of in sorted(channels.items())
    ]
    found.tree_parent = {**single_trees, **found.tree_parent}
    found.communicators = list(communicators)
    found.messages = list(messages)[:_MOST_MESSAGES]
    return found


def _transport(text: str) -> tuple[str, str]:
    """Separates the name of a transport from the number of its network device, empty if none."""
    name = _COMMUNICATOR_END.sub("", plain(text)).strip()
    part = _NETWORK_PART.match(name)
    if part is None:
        return name, ""
    through_another_rank = "/PXN" if part[3] else ""
    return part[1] + through_another_rank + name[part.end() :], part[2]


def _parameters(line: str) -> Iterator[tuple[str, str]]:
    if found := _SET.search(line):
        yield found[1], plain(found[2])[:_MOST_TEXT]
        return
    for expression, values in _FACTS:
        if found := expression.search(line):
            yield from values(found)
            return


_Values = Callable[[re.Match[str]], list[tuple[str, str]]]
_FACTS: tuple[tuple[re.Pattern[str], _Values], ...] = (
    (
        re.compile(
            r"NCCL INFO (\d+) coll channels, (?:\d+ collnet channels, )?(\d+) nvls channels, "
            r"(\d+) p2p channels, (\d+) p2p channels per peer"
        ),
        lambda found: [
            (COLLECTIVE_CHANNELS, found[1]),
            ("channels of NVLS", found[2]),
            (MESSAGE_CHANNELS, found[3]),
            (MESSAGE_CHANNELS_PER_PEER, found[4]),
        ],
    ),
    (
        re.compile(r"NCCL INFO P2P Chunksize set to (\d+)"),
        lambda found: [(CHUNK_BYTES, found[1])],
    ),
    (
        re.compile(
            r"FLAGCX INFO rank = \d+, .*nclusters = (\d+),.* has_single_rank_homo_comm = (\d)"
        ),
        lambda found: [
            (FLAGCX_CLUSTERS, found[1]),
            (FLAGCX_SINGLE, "yes" if found[2] == "1" else "no"),
        ],
    ),
    (
        re.compile(r"NCCL INFO Using network (\S+)"),
        lambda found: [("network", plain(found[1])[:_MOST_TEXT])],
    ),
    (
        re.compile(r"NCCL INFO NET/(IB|Socket) : Using *(.*?) *(?:\[RO\])? *(?:; OOB.*)?$"),
        lambda found: [(f"devices of {found[1]}", plain(found[2])[:_MOST_TEXT] or "none")],
    ),
    (
        re.compile(r"NCCL INFO NET/IB : No device found"),
        lambda _: [(INFINIBAND, "none")],
    ),
    (
        re.compile(r"NCCL INFO (P2P is disabled between connected GPUs \d+ and \d+)"),
        lambda found: [(PEER_ACCESS, plain(found[1]))],
    ),
)
