"""What a journal holds. One definition, versioned; every reader and writer uses it."""

from __future__ import annotations

import msgspec

from cclmark.plan.cases import Case
from cclmark.plan.checks import Check
from cclmark.plan.counts import Count
from cclmark.plan.islands import Island
from cclmark.plan.outline import Outline
from cclmark.plan.transfers import Transfer

SCHEMA_VERSION = 4


class DeviceDescription(msgspec.Struct, omit_defaults=True):
    """One rank's device. ``max_clock_hz``: of its multiprocessors, 0 where it is unknown.

    ``processors``: those that the rank's process may run on when measuring begins, as the kernel
    writes lists (``0-7,64-71``); empty where it is unknown.
    """

    rank: Count
    host: str
    runtime: str
    index: int
    name: str
    memory_bytes: int
    pid: int = 0
    pci_bus_id: str = ""
    uuid: str = ""
    numa_node: int = -1
    architecture: int = 0
    multiprocessors: int = 0
    driver_version: str = ""
    runtime_path: str = ""
    max_clock_hz: float = 0.0
    processors: str = ""


class Link(msgspec.Struct, omit_defaults=True):
    """A way from one device to others. ``rate_bytes_per_s`` is one link's, in one direction."""

    device: int
    kind: str
    count: int
    rate_bytes_per_s: float
    version: str = ""


class Relation(msgspec.Struct, omit_defaults=True):
    """How two devices are connected.

    ``kind`` is a sign of the topology matrix (NV18, PIX, SYS …, see report.topology), ``hops`` the
    length of the shortest path over direct connections (0: none, None: nobody says) and
    ``limit_bytes_per_s`` what the connection carries in one direction (0: unknown).
    """

    first: int
    second: int
    kind: str
    hops: int | None = None
    limit_bytes_per_s: float = 0.0


class LibraryDescription(msgspec.Struct, omit_defaults=True):
    """A collective library as it was loaded."""

    name: str
    version: str
    path: str
    capabilities: list[str] = []
    missing: list[str] = []


class CclReport(msgspec.Struct):
    """What a library can do, without measuring it.

    ``reason``: why it is not there, empty for one that is. ``routes``: how each operation is done,
    by its name. ``in_place_only``: operations without an output of their own. ``id_bytes``: what
    rank 0 hands to the others, 0 for nothing. No ``dtypes``: found out when it is measured.
    """

    name: str
    runtimes: list[str]
    verified: str
    reason: str = ""
    version: str = ""
    path: str = ""
    id_bytes: int = 0
    dtypes: list[str] = []
    reduced_dtypes: list[str] = []
    reductions: list[str] = []
    routes: dict[str, str] = {}
    in_place_only: list[str] = []
    has: list[str] = []
    lacks: list[str] = []


class Machine(msgspec.Struct, omit_defaults=True):
    """The host that the run was started on."""

    hostname: str
    system: str
    kernel: str
    processor: str
    processors: int
    memory_bytes: int
    numa_nodes: int = 1
    python: str = ""
    vendor_driver: str = ""


class HostDescription(msgspec.Struct, omit_defaults=True):
    """One of the hosts of a run.

    ``identity`` tells hosts apart that share a name, and namespaces of one machine;
    ``environment`` is what libraries read. ``clock_ahead_s``: its time of day beside the first's.
    """

    machine: Machine
    identity: str
    environment: dict[str, str]
    clock_ahead_s: float = 0.0


class Settings(msgspec.Struct, omit_defaults=True):
    """How the cases were measured. Of ``step_bytes`` and ``factor`` the one not used is 0.

    ``weights``: the rows of the matrix that ``pattern`` names. ``duration_s``: of a soak;
    ``cycles`` is 0 then. ``bind``: empty for the default, ``none``, ``numa``, or the processors of
    every rank, ``ranks:0=0-7;1=8-15`` (see plan.binding).
    """

    begin_bytes: Count
    end_bytes: Count
    step_bytes: Count
    factor: float
    timing: str
    across_ranks: str
    precision: float
    max_time_s: float
    timeout_s: float
    iterations: Count | None
    warmup: Count | None
    group: Count
    graph_launches: Count
    check: int
    cycles: Count
    registration: str
    seed: int
    inject: list[str] = []
    pattern: str = "uniform"
    one_by_one: bool = False
    islands: list[Island] = []
    through_host: bool = False
    weights: list[list[float]] = []
    duration_s: float = 0.0
    cache: str = "cold"
    barrier: str = "own"
    clock: str = "auto"
    bind: str = ""


class Predecessor(msgspec.Struct, omit_defaults=True):
    """Another run's journal. ``carried``: how many of its results this journal holds too."""

    run_id: str
    path: str
    carried: int = 0


class Imported(msgspec.Struct, omit_defaults=True):
    """Where the results of a journal come from that another tool measured.

    ``ranks`` is the largest number that took part, also where their devices are not known.
    ``file`` is the name without its directory, ``file_date`` when it was last written (ISO 8601,
    empty for what came through a pipe), ``command`` that of the tool. What a text does not tell is
    empty. ``figure``: what its times are, in words.
    ``hosts`` is how many they were on, 0 where neither the text nor the user told.
    """

    tool: str
    format: str
    version: str = ""
    file: str = ""
    file_date: str = ""
    command: list[str] = []
    figure: str = ""
    ranks: int = 0
    hosts: Count = 0

    @property
    def source(self) -> str:
        """The tool and its version, for a sentence."""
        return f"{self.tool} {self.version}".rstrip()


class Header(msgspec.Struct, tag="header", omit_defaults=True):
    """The first line of a journal. ``planned_cases`` is of one cycle; 0 where nobody noted it.

    ``launcher``: what started the processes, empty where cclmark did, and ``launched`` how many, 0
    where nobody noted it. ``hosts``: all of them, none
    where ``machine`` and ``environment`` are those of the only one; else of the first rank's.
    ``directory``: where ``command`` was typed. ``continues`` is the run whose results this one
    completes, ``repeats`` the one that it is to be compared with. ``imported``: of results that
    another tool measured; what its text does not tell is absent here, or empty, or 0.
    """

    schema_version: int
    cclmark_version: str
    started_at: str
    command: list[str]
    machine: Machine
    devices: list[DeviceDescription]
    links: list[Link]
    libraries: list[LibraryDescription]
    environment: dict[str, str]
    settings: Settings
    notices: list[str] = []
    run_id: str = ""
    relations: list[Relation] = []
    planned_cases: Count = 0
    launcher: str = ""
    hosts: list[HostDescription] = []
    plan: Outline | None = None
    directory: str = ""
    continues: Predecessor | None = None
    repeats: Predecessor | None = None
    launched: Count = 0
    imported: Imported | None = None


class Samples(msgspec.Struct):
    """Seconds per operation, as [sample][rank]. NaN is stored as null: there was no such clock."""

    host_s: list[list[float]]
    device_s: list[list[float | None]]
    enqueue_s: list[list[float]]
    operations_per_sample: Count


class Summary(msgspec.Struct, omit_defaults=True):
    """Statistics over the samples of one case, after the ranks were combined.

    ``time_s`` is the median. ``half_width`` is that of the median's 95 % confidence interval, as a
    share of the median; None with too few samples. ``slowest_rank`` is None unless one stands out.
    """

    clock: str
    time_s: float
    min_s: float
    p95_s: float
    p99_s: float
    max_s: float
    cv: float
    samples: Count
    algbw_bytes_per_s: float
    busbw_bytes_per_s: float
    half_width: float | None = None
    slowest_rank: int | None = None
    late_rank: int | None = None


class Finding(msgspec.Struct):
    """What the check found wrong on one rank: values as a person reads them."""

    rank: int
    wrong: int
    first_element: int
    expected: str
    actual: str


class Verification(msgspec.Struct, omit_defaults=True):
    """The outcome of checking every element of every rank's output.

    ``time_s`` is all of it: filling inputs, poisoning the output, one operation, the comparison;
    ``compare_s`` the comparison alone, on the slowest device.
    """

    wrong: Count
    findings: list[Finding] = []
    where: str = "device"
    time_s: float = 0.0
    compare_s: float = 0.0


class DeviceTime(msgspec.Struct, omit_defaults=True):
    """The time of a case's operations when they are replayed from a graph.

    Measured with ``--timing auto`` where enqueuing an operation takes the host as long as the
    operation takes the device: the case's own summary is then the cost of a call, and this one is
    the time that the devices need.
    """

    samples: Samples
    summary: Summary
    converged: bool = True


class CaseResult(msgspec.Struct, tag="case", omit_defaults=True):
    """A case and what came of it. ``status``: ok, wrong, skipped, timeout or died, with the reason.

    ``device`` is present where launches determine the time of ``summary``; ``device_reason`` says
    why it is absent although they do.

    ``started_at_s`` is seconds since 1970 on rank 0's clock. Of a case of one pair, ``beside`` says
    how many other pairs were measured at the same time, and ``at_once_ratio`` why: how long that
    pair took beside them over how long it took alone, with a message of another size. ``report``:
    of a case that hung, what every rank was doing. ``route`` is empty where nobody knows, as of
    what another tool measured.
    """

    index: Count
    case: Case
    status: str
    reason: str = ""
    route: str = "native"
    cycle: Count = 0
    warmup_batches: Count = 0
    converged: bool = True
    started_at_s: float = 0.0
    duration_s: float = 0.0
    samples: Samples | None = None
    summary: Summary | None = None
    device: DeviceTime | None = None
    device_reason: str = ""
    verification: Verification | None = None
    beside: Count = 0
    at_once_ratio: float | None = None
    report: str = ""

    @property
    def item(self) -> Case:
        """What was measured."""
        return self.case


class Condition(msgspec.Struct, tag="condition", omit_defaults=True):
    """A rank's device after a case of a soak. What the system does not tell is None.

    ``clock_hz`` is that of a device's multiprocessors, or of the host's processors that the rank
    may use; ``reasons`` say why it is not higher. ``throttle_count``: how often those processors
    were throttled for their heat since the host began. ``at_s`` is seconds since 1970.
    """

    rank: int
    index: int
    cycle: int
    at_s: float
    clock_hz: float | None = None
    memory_clock_hz: float | None = None
    temperature_c: float | None = None
    power_w: float | None = None
    reasons: list[str] = []
    throttle_count: int | None = None


class TransferSamples(msgspec.Struct):
    """Seconds per copy, as [sample][flow]: on the device's clock, and of the host's call."""

    device_s: list[list[float]]
    call_s: list[list[float]]
    copies_per_sample: Count


class TransferSummary(msgspec.Struct, omit_defaults=True):
    """Statistics over the samples of one transfer.

    ``time_s`` is the median time of one copy of the slowest flow, or the latency;
    ``flow_bytes_per_s`` the median bandwidth of each flow and ``bytes_per_s`` that of all together:
    all bytes over the time of the slowest flow. Both are absent for a latency.
    """

    time_s: float
    min_s: float
    max_s: float
    samples: Count
    call_s: float | None = None
    bytes_per_s: float = 0.0
    flow_bytes_per_s: list[float] = []
    half_width: float | None = None


class TransferResult(msgspec.Struct, tag="transfer", omit_defaults=True):
    """A transfer and what came of it. ``status``: ok, wrong, skipped or timeout, with the reason.

    A finding's ``rank`` is the number of the flow; ``hung``: of the flows of which nothing
    arrived in time.
    """

    index: Count
    transfer: Transfer
    status: str
    reason: str = ""
    converged: bool = True
    started_at_s: float = 0.0
    duration_s: float = 0.0
    samples: TransferSamples | None = None
    summary: TransferSummary | None = None
    verification: Verification | None = None
    hung: list[int] = []

    @property
    def item(self) -> Transfer:
        """What was measured."""
        return self.transfer


class CheckResult(msgspec.Struct, tag="check", omit_defaults=True):
    """A check of a framework's backend and its verdict on all ranks together.

    ``status``: ok, unsupported (on every rank, with the reason) or failed (with the first rank that
    did, and why).
    """

    index: Count
    check: Check
    status: str
    reason: str = ""
    started_at_s: float = 0.0
    duration_s: float = 0.0

    @property
    def item(self) -> Check:
        """What was tried."""
        return self.check


class Footer(msgspec.Struct, tag="footer", omit_defaults=True):
    """The last line of a journal of a run that ended by itself."""

    ended_at: str
    exit_code: int
    duration_s: float
    message: str = ""
    phases_s: dict[str, float] = {}


Result = CaseResult | TransferResult | CheckResult
Line = Header | Result | Condition | Footer
