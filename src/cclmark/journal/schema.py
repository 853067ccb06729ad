"""The schema of a journal: one versioned definition, used by every reader and writer."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import msgspec

from cclmark.explain.paths import Route
from cclmark.journal.sample_times import SampleTimes
from cclmark.work.counts import Count, Elapsed
from cclmark.work.islands import Island
from cclmark.work.items import Value
from cclmark.work.transfers import Gate

SCHEMA_VERSION = 6
#: The timing of runs that are computed from formulas.
FORMULAS = "formulas"


def time_text(seconds: float | None = None) -> str:
    """A time of day of headers and footers: UTC, ISO 8601. ``seconds``: since 1970 [now]."""
    now = datetime.now(timezone.utc)
    moment = now if seconds is None else datetime.fromtimestamp(seconds, timezone.utc)
    return moment.isoformat(timespec="milliseconds")


class DeviceDescription(msgspec.Struct, omit_defaults=True):
    """One rank's device. ``max_clock_hz``: of its multiprocessors, 0 if unknown.

    ``processors``: the processors that the rank's process may run on when measuring begins, in the
    kernel's list format (``0-7,64-71``); empty if unknown.

    ``pci_path``: the host bridge and the bridges above the device, the outermost first; ``near``:
    the processors near the device, in the same format. Both are empty if unknown.
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
    pci_path: list[str] = []
    near: str = ""


class Link(msgspec.Struct, omit_defaults=True):
    """A connection from one device to others. ``rate_bytes_per_s``: of one link and direction."""

    device: int
    kind: str
    count: int
    rate_bytes_per_s: float
    version: str = ""


class Relation(msgspec.Struct, omit_defaults=True):
    """How two devices are connected.

    ``kind`` is a symbol of the topology matrix (NV18, PIX, SYS …, see journal.topology), ``hops``
    the length of the shortest path over direct connections (0: no path, None: unknown),
    ``limit_bytes_per_s`` the capacity of the connection in one direction (0: unknown), with two
    hops that of all routes together, and ``links`` the number of the vendor's links between the
    two (0: none, or unknown).
    """

    first: int
    second: int
    kind: str
    hops: int | None = None
    limit_bytes_per_s: float = 0.0
    links: int = 0


class LibraryDescription(msgspec.Struct, omit_defaults=True):
    """A loaded library. ``memory``: of its buffers (work.libraries.MEMORY_KINDS), or empty."""

    name: str
    version: str
    path: str
    capabilities: list[str] = []
    missing: list[str] = []
    memory: str = ""


class CclReport(msgspec.Struct):
    """The abilities of a library, without a measurement.

    ``reason``: why it is not available, empty if it is. ``routes``: the route of each operation, by
    name. ``in_place_only``: operations without an output of their own. ``id_bytes``: the size of
    the id that rank 0 sends to the others, 0 for none. Empty ``dtypes``: determined when it is
    measured.
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


class NetworkInterface(msgspec.Struct, omit_defaults=True):
    """A network interface of a host: a port of an InfiniBand or RoCE device, or another one.

    ``kind``: InfiniBand, RoCE, Ethernet, or empty. ``state``: as the kernel names it, ``active`` or
    ``up`` if it works. ``rate_bits_per_s``: 0 if unknown. ``interfaces``: the names of the same
    port for TCP/IP. ``pci_path``: as for devices.
    """

    name: str
    kind: str = ""
    pci_bus_id: str = ""
    numa_node: int = -1
    rate_bits_per_s: float = 0.0
    state: str = ""
    interfaces: list[str] = []
    pci_path: list[str] = []


class Machine(msgspec.Struct, omit_defaults=True):
    """The host on which the run was started.

    ``cache_bytes``: the sizes of its last-level caches together, 0 if unknown.
    """

    hostname: str
    system: str
    kernel: str
    processor: str
    processors: int
    memory_bytes: int
    numa_nodes: int = 1
    python: str = ""
    vendor_driver: str = ""
    cache_bytes: int = 0
    interfaces: list[NetworkInterface] = []


class HostDescription(msgspec.Struct, omit_defaults=True):
    """One of the hosts of a run.

    ``identity`` distinguishes hosts with the same name, and namespaces of one machine;
    ``environment`` holds the variables that libraries read. ``clock_ahead_s``: its time of day
    minus the first host's.
    """

    machine: Machine
    identity: str
    environment: dict[str, str]
    clock_ahead_s: float = 0.0


class Settings(msgspec.Struct, omit_defaults=True):
    """How the cases were measured. The unused one of ``step_bytes`` and ``factor`` is 0.

    ``weights``: the rows of the matrix that ``pattern`` names. ``duration_s``: of a soak, for which
    ``cycles`` is 0. ``bind``: empty for the default, ``none``, ``numa``, or the processors of
    every rank, ``ranks:0=0-7;1=8-15`` (see work.binding). ``values``: whether the tensors of checks
    are reported. ``config``: options of the communicators, by the library's names. ``triangle``:
    whether only the upper triangles of matrices of pairs are measured. ``memory``: as requested
    (work.libraries.memory_of), empty where it was not recorded or plays no role. ``gate``: of
    copies, as requested (work.transfers.GATES), empty for the best that works. ``check_on``:
    ``host``, or empty for devices whose kernels can be compiled. ``conditions``: whether devices
    are read after each item, as in a soak.
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
    values: bool = False
    config: dict[str, str] = {}
    triangle: bool = False
    memory: str = ""
    gate: Gate = ""
    check_on: str = ""
    conditions: bool = False


def settings_without_sweep(timing: str, timeout_s: float, **changes: Any) -> Settings:
    """The settings of a run whose items are no sweep of cases. ``changes``: further ones."""
    usual: dict[str, Any] = {
        **{"begin_bytes": 0, "end_bytes": 0, "step_bytes": 0, "factor": 0.0},
        **{"across_ranks": "max", "precision": 0.0, "max_time_s": 0.0},
        **{"iterations": None, "warmup": None, "group": 1, "graph_launches": 1},
        **{"check": 1, "cycles": 1, "registration": "none", "seed": 0},
    }
    return Settings(**{**usual, "timing": timing, "timeout_s": timeout_s, **changes})


class Predecessor(msgspec.Struct, omit_defaults=True):
    """Another run's journal. ``carried``: the number of its results that this journal holds too."""

    run_id: str
    path: str
    carried: int = 0


class Imported(msgspec.Struct, omit_defaults=True):
    """The origin of a journal's results that another tool measured.

    ``ranks`` is the largest number that took part, also if their devices are unknown. ``file`` is
    the name without its directory, ``file_date`` the time of its last modification (ISO 8601, empty
    for a pipe), ``command`` the tool's. Unknown fields are empty. ``figure`` describes its times.

    ``hosts`` is the number of hosts, 0 if neither the text nor the user specified it.
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


class Outline(msgspec.Struct):
    """The values in a plan by field, and a digest of the whole plan."""

    digest: str
    values: dict[str, list[Value]]


class Header(msgspec.Struct, tag="header", omit_defaults=True):
    """The first line of a journal. ``planned_cases`` is of one cycle; 0 if not recorded.

    ``launcher``: the launcher of the processes, empty for cclmark itself, and ``launched`` their
    number, 0 if not recorded. ``hosts``: all hosts, empty for a single host. ``machine`` and
    ``environment`` are those of the single host, or of the first rank's host. ``directory``: where
    ``command`` was typed. ``continues`` is the run whose results this one completes, ``repeats``
    the run to compare this one with. ``imported``: of results that another tool measured; unknown
    fields of such a header are absent, empty or 0.
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

    @property
    def is_of_cclmark(self) -> bool:
        """Whether cclmark measured it: another tool did not, and formulas did not compute it."""
        return self.imported is None and self.settings.timing != FORMULAS


class Samples(SampleTimes, omit_defaults=True):
    """Seconds per operation, as [sample][rank]. NaN is stored as null: there was no such clock."""

    host_s: list[list[float]] = []
    device_s: list[list[float | None]] = []
    enqueue_s: list[list[float]] = []
    operations_per_sample: Count = 1


class Summary(msgspec.Struct, omit_defaults=True):
    """Statistics over the samples of one case, after the ranks were combined.

    ``time_s`` is the median by the ``clock``; a line has no more where readers compute the other
    figures from its samples (journal.summaries). ``half_width`` is half the width of the median's
    95 % confidence interval, as a share of the median; None with too few samples. ``spread`` is
    the interquartile range over the median, None if unknown; ``outliers`` the number of samples far
    above the third quartile (base.statistics.outlier_limit), ``outlier_span`` the shares of the
    samples before the first and the last of them. ``slowest_rank`` is None unless one rank is
    clearly slowest.
    """

    clock: str
    time_s: float
    min_s: float = 0.0
    p95_s: float = 0.0
    p99_s: float = 0.0
    max_s: float = 0.0
    samples: Count = 0
    algbw_bytes_per_s: float = 0.0
    busbw_bytes_per_s: float = 0.0
    half_width: float | None = None
    spread: float | None = None
    outliers: Count = 0
    outlier_span: tuple[float, float] | None = None
    slowest_rank: int | None = None
    late_rank: int | None = None


class WrongOutput(msgspec.Struct):
    """A wrong element that the check found on one rank, with human-readable values."""

    rank: int
    wrong: int
    first_element: int
    expected: str
    actual: str


class Verification(msgspec.Struct, omit_defaults=True):
    """The outcome of checking every element of every rank's output.

    ``time_s`` is the whole check: filling inputs, poisoning the output, one operation, the
    comparison; ``compare_s`` the comparison alone, on the slowest device.
    """

    wrong: Count
    findings: list[WrongOutput] = []
    where: str = "device"
    time_s: float = 0.0
    compare_s: float = 0.0


class DeviceTime(msgspec.Struct, omit_defaults=True):
    """The time of a case's operations when they are replayed from a graph.

    Measured with ``--timing auto`` if the host needs as long to enqueue an operation as the device
    to run it: the case's own summary is then the cost of a call, and this one the devices' time.
    ``samples``: None in a page that has journals without raw samples.
    """

    samples: Samples | None
    summary: Summary
    converged: bool = True


class Condition(msgspec.Struct, tag="condition", omit_defaults=True):
    """The state of a device after an item. Unknown values are None.

    ``clock_hz`` is the clock of a device's multiprocessors, or of the host's processors that the
    rank may use; ``reasons`` are the reasons why it is not higher. ``throttle_count``: how often
    those processors were thermally throttled since the host booted. ``at_s`` is seconds since 1970.

    Since the reading before: ``busy_share`` is the share of the time in which a device ran a
    kernel, copies not included, or in which those processors were not idle; the others are what
    all NVLinks of a device carried (without overhead), and its PCIe link, as its driver counts.
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
    busy_share: float | None = None
    nvlink_sent_bytes: int | None = None
    nvlink_received_bytes: int | None = None
    pcie_sent_bytes: int | None = None
    pcie_received_bytes: int | None = None


class Explanation(msgspec.Struct, tag="explanation", omit_defaults=True):
    """What the library did for a case, observed in a separate pass after the timed one.

    ``index``: of the case. ``algorithm`` and ``protocol`` as the library names them, empty if
    unknown or if there is none; several, with a comma, if the operation used several. ``channels``:
    the largest number, 0 if unknown. ``kernel``: ring, tree, symmetric, send/recv and others.
    ``source``: plug-in, log, engine, variables (an algorithm that settings select, not observed),
    or unknown with the ``reason``, which may also describe differences between the ranks.
    ``predicted_s``: the library's own predictions in seconds, by ``ALGORITHM PROTOCOL``. ``rule``:
    the rule of a tuner table that decided, ``line 9 of /path``; empty if none did.
    ``is_doubtful``: ranks observed different operations, or one of them nothing although the
    library ran the case; ``reason`` describes it. ``ignored``: for each setting that the library
    reports to have no effect, by its name, the reason. ``registered``: whether the library used
    registered buffers (explain.nccl_log.BY_CALL, BY_GRAPH or NOT_REGISTERED), empty if that was not
    observed.
    """

    index: Count
    source: str = "unknown"
    kernel: str = ""
    algorithm: str = ""
    protocol: str = ""
    channels: Count = 0
    reason: str = ""
    predicted_s: dict[str, float] = {}
    rule: str = ""
    is_doubtful: bool = False
    ignored: dict[str, str] = {}
    registered: str = ""

    @property
    def choice(self) -> str:
        """The kernel with its protocol, for a sentence: ``ring LL128``; empty if unknown."""
        return f"{self.kernel} {self.protocol}".strip()

    @property
    def choice_with_channels(self) -> str:
        """The same with the channels: ``ring LL128 × 16``."""
        return f"{self.choice} × {self.channels}" if self.choice and self.channels else self.choice


class Ring(msgspec.Struct, frozen=True):
    """A ring: the ranks in the order in which data pass, from rank 0, and its channels' number."""

    ranks: list[int]
    channels: Count = 0


class Tree(msgspec.Struct, frozen=True):
    """A tree: the parent of every rank, -1 for the root, and the number of its channels."""

    parents: list[int]
    channels: Count = 0


class Paths(msgspec.Struct, tag="paths", omit_defaults=True):
    """How a library connects the ranks of its communicator, observed as explanations are.

    ``source``: log, engine, or unknown with the ``reason``. ``routes``: each connection in one
    direction that was used. ``rings`` and ``trees``: those that the library has created, also if no
    case uses them. ``parameters``: variables that are set, and facts, by name; ``others``: the
    effective values of all other variables, as far as the library lists them. ``messages``: its own
    warnings. ``network_devices``: InfiniBand and RoCE devices of the ranks' hosts, which Linux
    lists.
    """

    ccl: str
    source: str = "unknown"
    reason: str = ""
    routes: list[Route] = []
    rings: list[Ring] = []
    trees: list[Tree] = []
    parameters: dict[str, str] = {}
    others: dict[str, str] = {}
    messages: list[str] = []
    network_devices: list[str] = []


class TracedStage(msgspec.Struct, omit_defaults=True):
    """A part of a traced run. ``begin_s``: after the first stage of any rank began.

    ``size_bytes``: of the memory that it allocates, fills or moves, 0 if it has no such size.
    """

    name: str
    begin_s: float
    time_s: float
    size_bytes: Count = 0


class Trace(msgspec.Struct, tag="trace", omit_defaults=True):
    """A timeline that ``cclmark trace`` wrote of the measured item.

    ``file``: its name as it was given, empty if it could not be written. ``format``: perfetto or
    chrome. ``operations``: the number of traced ones. ``stages``: of each rank, or of each device
    of a transfer, by number. ``summary``: the lines that were printed.
    """

    file: str
    format: str
    operations: Count
    stages: dict[Count, list[TracedStage]] = {}
    summary: list[str] = []


class TransferSamples(SampleTimes, omit_defaults=True):
    """Seconds per copy, as [sample][flow]: on the device's clock, and in the host's call.

    ``launch_s``: the most of ``device_s`` that was waiting for launches; empty if there was none.
    """

    device_s: list[list[float]] = []
    call_s: list[list[float]] = []
    copies_per_sample: Count = 1
    launch_s: list[list[float]] = []


class TransferSummary(msgspec.Struct, omit_defaults=True):
    """Statistics over the samples of one transfer.

    ``time_s`` is the median time of one copy of the slowest flow, or the latency;
    ``flow_bytes_per_s`` is the median bandwidth of each flow and ``bytes_per_s`` the total: all
    bytes over the time of the slowest flow. Both are absent for a latency. In imported results they
    are those that the tool printed; one total for several flows has no ``flow_bytes_per_s``.
    ``launch_s``: the most of ``time_s`` that was waiting for launches.
    """

    time_s: float
    min_s: float
    max_s: float
    samples: Count
    call_s: float | None = None
    bytes_per_s: float = 0.0
    flow_bytes_per_s: list[float] = []
    half_width: float | None = None
    launch_s: float = 0.0


class ProfileGroup(msgspec.Struct, omit_defaults=True):
    """A group of ranks that communicate: a communicator, or a process group of a framework.

    ``identity``: the library's or framework's own, by which ranks name the same group. ``ranks``:
    the process of every rank of the group, by its number in ``Profile.processes``; None for a rank
    that was not profiled.
    """

    name: str
    identity: str
    ranks: list[Count | None]


class ProcessTimeline(msgspec.Struct, omit_defaults=True):
    """What runs in consecutive steps of a process, in seconds: a value for each step.

    ``step_s``: from the begin of a step to the begin of the next one. ``communication_s``:
    something communicates, hidden or not; ``exposed_s``: something communicates or waits for other
    ranks, and nothing computes; ``compute_s``: something computes. In the rest nothing runs. Lists
    are empty if they are unknown.
    """

    step_s: list[Elapsed]
    communication_s: list[Elapsed] = []
    exposed_s: list[Elapsed] = []
    compute_s: list[Elapsed] = []


class ProfileProcess(msgspec.Struct, omit_defaults=True):
    """A process of a profiled program.

    ``rank``: of its launcher, else its number. ``span_s``: from its first call to the end of its
    last one. ``communication_s``: how long at least one operation ran; ``compute_s``: how long at
    least one other kernel ran; ``exposed_s``: how long operations ran and no other kernel did.
    ``steps``: of training, with ``step_s``, the median time between their begins; ``timeline``: of
    those steps that are listed. Unknown values are None. ``calls``: of all operations; ``listed``:
    those whose times are known one by one, of which ``communication_s`` and all times of waiting
    are computed. ``note``: what is missing, in words.
    """

    rank: Count
    host: str
    pid: int
    calls: Count
    listed: Count
    span_s: Elapsed = 0.0
    communication_s: Elapsed | None = None
    compute_s: Elapsed | None = None
    exposed_s: Elapsed | None = None
    step_calls: Count = 0
    steps: Count = 0
    step_s: Elapsed | None = None
    step_communication_s: Elapsed | None = None
    library: str = ""
    note: str = ""
    timeline: ProcessTimeline | None = None


class ProfiledCall(msgspec.Struct, omit_defaults=True, gc=False):
    """A call in the order of a process: the number of its result, then times in seconds.

    ``begin_s``: after the first call of the window; ``time_s``: of its kernel, 0 if unknown.
    ``stream``: the number of its stream in the order of their first use, -1 if unknown.
    ``peer``: of a message, -1 otherwise. ``beside_s``: how long other kernels ran meanwhile, None
    if they are not part of the profile.
    """

    index: Count
    begin_s: Elapsed
    time_s: Elapsed
    stream: int = -1
    peer: int = -1
    beside_s: float | None = None


class ProfileRepetitions(msgspec.Struct, omit_defaults=True):
    """The repetitions of the step of which ``Profile.window`` is the most typical one.

    ``compared``: their number. ``step_deviation``, ``communication_deviation``: of the one in the
    window, the sum of the differences of the processes from their medians, over the sum of the
    medians. ``communication_s`` and ``span_s``: the median of each process, of the time in which at
    least one call ran and of that from the begin of the first call to the end of the last one.
    ``communication_quartiles_s``: the lower and the upper one, of the mean of the processes. Lists
    are empty if unknown.
    """

    compared: Count
    step_deviation: Elapsed = 0.0
    communication_deviation: Elapsed = 0.0
    communication_s: list[Elapsed] = []
    span_s: list[Elapsed] = []
    communication_quartiles_s: list[Elapsed] = []


class Profile(msgspec.Struct, tag="profile", omit_defaults=True):
    """Contents of a profile besides its operations.

    ``source``: plug-in, kineto, or execution trace. ``wall_s``: of the program, 0 if unknown, and
    ``program_exit_code`` its exit code, negative for a signal. ``window``: consecutive calls of
    each process that represent the program: one step if its steps are known, the same one on all
    ranks. ``repetitions``: None if unknown. ``notes``: what is missing, in words.
    """

    source: str
    wall_s: float = 0.0
    program_exit_code: int | None = None
    groups: list[ProfileGroup] = []
    processes: list[ProfileProcess] = []
    window: list[list[ProfiledCall]] = []
    repetitions: ProfileRepetitions | None = None
    notes: list[str] = []

    @property
    def is_consistent(self) -> bool:
        """Whether lists by process have its processes, lists by step the same steps."""
        number = len(self.processes)
        timelines = [one.timeline for one in self.processes if one.timeline is not None]
        known = self.repetitions
        return (
            len(self.window) in (0, number)
            and all(one is None or one < number for group in self.groups for one in group.ranks)
            and all(
                len(values) in (0, len(one.step_s))
                for one in timelines
                for values in (one.communication_s, one.exposed_s, one.compute_s)
            )
            and (
                known is None
                or (
                    len(known.communication_quartiles_s) in (0, 2)
                    and all(
                        len(one) in (0, number) for one in (known.communication_s, known.span_s)
                    )
                )
            )
        )


class ProfiledChoice(msgspec.Struct, omit_defaults=True):
    """What the library chose for some of the calls of an operation. ``channels``: 0 if unknown."""

    kernel: str
    protocol: str
    channels: Count
    calls: Count


class ProfileFigures(msgspec.Struct, omit_defaults=True):
    """Figures of one operation in one process. Times are seconds; unknown ones are None.

    ``process``: its number in ``Profile.processes``. ``calls``: all, of which ``unreported`` were
    called but not reported as executed, and ``timed`` have a time, ``total_s`` together;
    ``median_s`` is of the listed ones. ``bytes``: of all calls, as ``size_bytes`` counts.
    ``wait_s``: how much longer its kernels ran than those of the rank that arrived last, in
    ``compared`` calls; in ``last`` of them it was that rank. ``exposed_s``: how long the operations
    ran while no other kernel did.
    """

    process: Count
    calls: Count
    bytes: Count
    unreported: Count = 0
    timed: Count = 0
    total_s: float | None = None
    median_s: float | None = None
    least_s: float | None = None
    most_s: float | None = None
    wait_s: float | None = None
    compared: Count = 0
    last: Count = 0
    exposed_s: float | None = None


class Footer(msgspec.Struct, tag="footer", omit_defaults=True):
    """The last line of a journal, present if the run ended by itself.

    ``message``: why it ended early. ``problems``: what was observed incompletely after the
    measurement, by a trace or by explanations. ``found``: the result of an adaptive run, of tune or
    of a bisection, as data whose type the room of the kind defines; ``conclusion``: the same as
    lines, in journals of older versions.
    """

    ended_at: str
    exit_code: int
    duration_s: float
    message: str = ""
    phases_s: dict[str, float] = {}
    problems: list[str] = []
    conclusion: list[str] = []
    found: dict[str, Any] = {}
