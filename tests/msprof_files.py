"""Files in the form of msprof's timelines.

The format follows msprof's documents, its writers and their tests; no file comes from a machine.
Stages are those that HCCL's mesh within a host has for each operation: what one rank copies within
itself, and with all others, as a share of the message. A message that exceeds the buffer passes in
slices.
"""

import json

BEGIN_NS = 1_717_575_960_213_957_957
LOCAL, LINK = 400e9, 19e9  # bytes per second
NO_NOTIFY, WITHIN = "18446744073709551615", 0xFFFFFFFF
ROOT = 0

#: By operation: stages of a rank. With whom, whether it reduces, and the share of the message:
#: of all, or of the part of one rank.
WHOLE, PART = "whole", "part"
COPY, REDUCE = "Memcpy", "Reduce_Inline"
MESH = {
    "allGather": [("self", COPY, PART), ("self and all", COPY, PART)],
    "allReduce": [
        ("self", COPY, PART),
        ("all", REDUCE, PART),
        ("self", COPY, PART),
        ("all", COPY, PART),
    ],
    "reduceScatter": [("self", COPY, PART), ("all", REDUCE, PART), ("self", COPY, PART)],
    "alltoall": [("self", COPY, WHOLE), ("self", COPY, PART), ("all", COPY, PART)],
}
ROOTED = {
    "broadcast": (
        [("self", COPY, WHOLE), ("all", COPY, PART)],
        [("root", COPY, PART), ("all", COPY, PART), ("self", COPY, WHOLE)],
    ),
    "reduce": (
        [
            *(("self", COPY, WHOLE), ("all", REDUCE, PART), ("self", COPY, PART)),
            *(("all", COPY, PART), ("self", COPY, WHOLE)),
        ],
        [("self", COPY, WHOLE), ("all", REDUCE, PART), ("self", COPY, PART)],
    ),
}


def stages_for(operation, rank):
    if operation in MESH:
        return MESH[operation]
    return ROOTED[operation][rank != ROOT]


def text_us(time_ns):
    """Microseconds with all digits, as msprof writes moments: a text."""
    return f"{time_ns // 1000}.{time_ns % 1000:03}"


class Timeline:
    """The events of one device. ``rank``: of it in its group of ``ranks``."""

    def __init__(self, rank, ranks, *, row="Communication"):
        self.rank, self.ranks, self.now_ns, self.row = rank, ranks, BEGIN_NS, row
        self.device = rank % 8
        self.events, self.tasks, self.operations = [], [], []
        self.signals = {}

    def process(self, name, order, threads=()):
        pid = self.pid(order)
        label = {"labels": f"NPU {self.device}"}
        for kind, arguments in (
            ("process_name", {"name": name}),
            ("process_labels", label),
            ("process_sort_index", {"sort_index": order}),
        ):
            self.events.append({"name": kind, "pid": pid, "tid": 0, "ph": "M", "args": arguments})
        for tid, thread in enumerate(threads):
            named = {"pid": pid, "tid": tid, "ph": "M"}
            self.events.append({"name": "thread_name", **named, "args": {"name": thread}})
            self.events.append({"name": "thread_sort_index", **named, "args": {"sort_index": tid}})

    def pid(self, order):
        return (10085 << 10) + (order << 5) + self.device

    def task(self, name, plane, begin_ns, length_ns, peer, size, *, notify=NO_NOTIFY):
        local = peer is None
        copies = name in (COPY, REDUCE)
        arguments = {
            "notify_id": notify,
            "duration estimated(us)": length_ns / 1000,
            "stream id": 3 + plane,
            "task id": len(self.tasks),
            "context id": 0,
            "task type": name,
            "src rank": self.rank,
            "dst rank": WITHIN if local else peer,
            "transport type": "SDMA" if copies else "LOCAL",
            "size(Byte)": size,
            "data type": "FP32" if name == REDUCE else "INVALID_TYPE",
            "link type": ("ON_CHIP" if local else "HCCS") if copies else "INVALID_TYPE",
            "bandwidth(GB/s)": size / length_ns if copies else 0.0,
            "model id": WITHIN,
        }
        place = {"pid": self.pid(16), "tid": plane + 1, "ts": text_us(begin_ns)}
        times = {**place, "dur": length_ns / 1000, "ph": "X"}
        self.tasks.append({"name": name, **times, "args": arguments})

    def stage(self, peers, name, size):
        """Tasks that run at the same time; those of signals surround tasks with others."""
        local_ns, link_ns = (max(1000, round(size / rate * 1e9)) for rate in (LOCAL, LINK))
        begin_ns = self.now_ns
        if any(peer is not None for peer in peers):
            begin_ns += 1500
        end_ns = begin_ns
        for peer in peers:
            if peer is None:
                self.task(name, 0, begin_ns, local_ns, None, size)
                end_ns = max(end_ns, begin_ns + local_ns)
                continue
            plane = 1 + (peer - self.rank) % self.ranks
            self._signal("Notify_Record", plane, begin_ns - 1400, 20, peer)
            self._signal("Notify_Wait", plane, begin_ns - 1300, 1200, peer)
            self.task(name, plane, begin_ns, link_ns, peer, size)
            end_ns = max(end_ns, begin_ns + link_ns)
        self.now_ns = end_ns + 500

    def _signal(self, name, plane, begin_ns, length_ns, peer):
        ends = (self.rank, peer) if name == "Notify_Record" else (peer, self.rank)
        number = self.signals[(name, peer)] = self.signals.get((name, peer), 0) + 1
        notify = 1000 * (ends[0] * self.ranks + ends[1]) + number
        self.task(name, plane, begin_ns, length_ns, peer, 0, notify=str(notify))

    def operation(self, name, size, buffer=1 << 62):
        """An operation of ``size`` bytes, all parts together."""
        begin_ns = self.now_ns
        others = [rank for rank in range(self.ranks) if rank != self.rank]
        left = size
        while left:
            slice_size = min(left, buffer)
            for with_whom, task, share in stages_for(name, self.rank):
                peers = {
                    "self": [None],
                    "all": others,
                    "self and all": [None, *others],
                    "root": [ROOT],
                }[with_whom]
                self.stage(peers, task, slice_size // (1 if share == WHOLE else self.ranks))
            left -= slice_size
        arguments = {
            "rank_size": self.ranks,
            "connection_id": 2762 + len(self.operations),
            "model id": WITHIN,
            "data_type": "FP32",
            "alg_type": "MESH-RING-NHR",
            "count": size // 4,
            "relay": "no",
            "retry": "no",
        }
        number = len(self.operations)
        self.operations.append(
            {
                **{"name": f"hcom_{name}__674_{number}_1", "pid": self.pid(16), "tid": 0},
                **{"ts": text_us(begin_ns), "dur": (self.now_ns - begin_ns) / 1000, "ph": "X"},
                "args": arguments,
            }
        )
        self.now_ns += 20_000

    def counters(self):
        """Readings of HBM and HCCS while the operations ran."""
        self.process("HBM", 24)
        for number, at_ns in enumerate(range(BEGIN_NS, self.now_ns, 1_000_000)):
            for name, rate in (("Read", 1000.0 + number), ("Write", 2000.0 + number)):
                place = {"pid": self.pid(24), "tid": 0, "ts": text_us(at_ns), "ph": "C"}
                series = {f"{name}(MB/s)": rate}
                self.events.append({"name": f"HBM 255/{name}", **place, "args": series})
        self.process("HCCS", 23)
        place = {"pid": self.pid(23), "tid": 0, "ts": text_us(BEGIN_NS), "ph": "C"}
        for name in ("Rx", "Tx"):
            self.events.append({"name": name, **place, "args": {f"{name}(MB/s)": 512.5}})

    def _event(self, name, order, dur, args):
        place = {"pid": self.pid(order), "tid": 2, "ts": text_us(BEGIN_NS), "dur": dur, "ph": "X"}
        self.events.append({"name": name, **place, "args": args})

    def whole(self):
        """All events, with rows that are not communication."""
        found, self.events = self.events, []
        self.process("CANN", 14)
        self._event("hcom_broadcast_", 14, 30.5, {"Mode": "launch", "level": "node"})
        self.process("Ascend Hardware", 15)
        self._event("AivKernel", 15, 3.0, {"Stream Id": 2, "Task Type": "AI_CORE"})
        planes = [f"Plane {plane}" for plane in range(self.ranks + 1)]
        self.process(self.row, 16, ["Group 16898834563344171674 Communication", *planes])
        return [*self.events, *self.tasks, *self.operations, *found]


def timeline(rank, *, ranks=4, operations=("broadcast",), size=1 << 20, buffer=1 << 62, **more):
    """The timeline of a rank that ran these operations."""
    made = Timeline(rank, ranks, **more)
    for name in operations:
        made.operation(name, size, buffer)
    made.counters()
    return made.whole()


def content(events, *, indent=None):
    """The file, as msprof writes it: an array in one line."""
    separators = (",", ":") if indent is None else None
    return json.dumps(events, separators=separators, indent=indent).encode()


def write(directory, ranks, **more):
    """Writes a file for each rank."""
    directory.mkdir(parents=True, exist_ok=True)
    paths = [directory / f"msprof_{rank}.json" for rank in range(ranks)]
    for rank, path in enumerate(paths):
        path.write_bytes(content(timeline(rank, ranks=ranks, **more)))
    return paths
