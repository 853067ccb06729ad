"""The engine, written in C++: see engine/bind/module.cpp."""

from collections.abc import Callable, Sequence
from typing import Any

class EngineError(RuntimeError): ...
class MissingError(EngineError): ...
class UnsupportedError(EngineError): ...
class UsageError(EngineError): ...
class OutOfMemoryError(EngineError): ...
class DeadlineError(EngineError): ...
class AbortedError(EngineError): ...

def die_with_parent(parent: int, signal: int = 9) -> None: ...
def report_stack_on(signal: int, fd: int) -> None: ...
def device_count(runtime: str) -> int: ...
def open_device(runtime: str, index: int) -> Device: ...
def devices_reach(runtime: str, from_index: int, to_index: int) -> bool: ...
def open_ccl(description: CclDescription, places: CclPlaces) -> Ccl: ...
def known_shapes() -> list[str]: ...
def collectives() -> list[CollectiveInfo]: ...
def nvrtc_path() -> str: ...
def compile_for_cuda(source: str, architecture: int) -> bytes: ...
def kernel_sources() -> list[str]: ...
def room_for(operation: Operation, in_place: bool, ranks: int) -> tuple[int, int]: ...
def format_value(dtype: str, bits: int) -> str: ...

class DeviceInfo:
    runtime: str
    index: int
    name: str
    pci_bus_id: str
    architecture: int
    multiprocessors: int
    memory_bytes: int
    cache_bytes: int
    driver_version: str
    library_path: str

class Device:
    @property
    def info(self) -> DeviceInfo: ...
    def check_on_host(self, reason: str) -> None: ...
    def activate(self) -> None: ...
    def free_memory_bytes(self) -> int: ...

class RankGroupOptions:
    def __init__(
        self,
        *,
        fd: int,
        rank: int,
        size: int,
        oversubscribed: bool,
        hosts: list[int] = ...,
        value_exchange: Callable[[list[int], list[float]], list[float]] | None = None,
    ) -> None: ...

class RankGroup:
    def __init__(self, options: RankGroupOptions) -> None: ...
    def subgroup(
        self,
        fd: int,
        members: list[int],
        first_slot: int,
        value_exchange: Callable[[list[int], list[float]], list[float]] | None = None,
    ) -> RankGroup: ...
    def rest(self, resting: bool) -> None: ...
    def expect_within(self, seconds: float, doing: str) -> None: ...
    def barrier(self) -> None: ...
    def gather(self, values: list[float]) -> list[float]: ...
    def wait_elsewhere(self) -> None: ...
    def abort(self) -> None: ...
    def number_of(self, rank: int) -> int: ...
    @property
    def rank(self) -> int: ...
    @property
    def size(self) -> int: ...

class OperationCounter:
    def __init__(self, fd: int, offset: int) -> None: ...

class CclInfo:
    name: str
    version: str
    path: str
    capabilities: list[str]
    missing: list[str]
    id_bytes: int
    dtypes: list[str]
    reduced_dtypes: list[str]
    reductions: list[str]
    routes: list[tuple[str, str]]

class CollectiveInfo:
    name: str
    reduces: bool
    rooted: bool
    uneven: bool
    staged_in_place: bool
    divisible: bool
    composition: str

class Operation:
    def __init__(
        self,
        *,
        collective: str,
        dtype: str,
        reduction: str = "sum",
        root: int = 0,
        count: int,
        matrix: list[int] = ...,
    ) -> None: ...
    @property
    def collective(self) -> str: ...
    @property
    def dtype(self) -> str: ...
    @property
    def reduction(self) -> str: ...
    @property
    def root(self) -> int: ...
    @property
    def count(self) -> int: ...
    @property
    def matrix(self) -> list[int]: ...
    def output_elements(self, rank: int, ranks: int) -> int: ...

class ExchangeNames:
    alltoall: str
    alltoallv: str
    older_alltoall: str
    older_alltoallv: str
    typed_twice: bool

class SimilarCcl:
    name: str
    full_name: str
    identified_by: str

class CclDescription:
    name: str
    shape: str
    title: str
    full_name: str
    prefix: str
    files: list[str]
    variable: str
    oldest_version: int
    fp8_version: int
    fp8_architecture: int
    fp8_halved: bool
    identified_by: str
    derived: bool
    exchanges: ExchangeNames
    similar: list[SimilarCcl]
    def set_dtypes(self, codes: dict[str, int]) -> None: ...
    def set_reductions(self, codes: dict[str, int]) -> None: ...

class CclPlaces:
    chosen: str
    wheels: list[str]

class Ccl:
    @property
    def info(self) -> CclInfo: ...
    def make_id(self, ranks: int) -> bytes: ...
    def start(self, rank_group: RankGroup, device: Device) -> None: ...
    def join(
        self,
        device: Device,
        id: bytes,
        rank_group: RankGroup,
        options: Sequence[tuple[str, str]] = (),
    ) -> Communicator: ...
    def open_host_exchange(self, rank_group: RankGroup) -> HostExchange: ...

class HostExchange: ...

class Connection:
    @property
    def to(self) -> int: ...
    @property
    def transport(self) -> str: ...

class MemoryBlock:
    purpose: str
    place: str
    size_bytes: int
    used_bytes: int
    first_values: str
    address: int
    mapped: bool
    of_library: bool

class SlotTimes:
    none: SlotTimes
    executed: SlotTimes
    enqueued: SlotTimes

class SlotRecorder:
    def __init__(self, capacity: int) -> None: ...
    def clear(self) -> None: ...
    @property
    def events(self) -> bytes: ...
    @property
    def dropped(self) -> int: ...

class Communicator:
    @property
    def connections(self) -> list[Connection]: ...
    @property
    def parameters(self) -> list[tuple[str, str]]: ...
    def record_slots(self, recorder: SlotRecorder | None) -> SlotTimes: ...
    def leave(self) -> None: ...
    def check(self) -> None: ...
    def memory_statement(self) -> list[tuple[str, int]]: ...

def adapt(adapter: object) -> Communicator: ...

class Islands:
    def __init__(self, *, firsts: list[int], through_host: bool = False) -> None: ...

def join_islands(
    device: Device,
    rank_group: RankGroup,
    islands: Islands,
    *,
    own: Communicator | None = None,
    host_exchange: HostExchange | None = None,
) -> Communicator: ...
def tensor_at(address: int, count: int, device: Device) -> Any: ...

class Samples:
    host_s: list[list[float]]
    device_s: list[list[float]]
    enqueue_s: list[list[float]]

class Finding:
    wrong: int
    first_element: int
    expected_bits: int
    actual_bits: int

class VerificationResult:
    findings: list[Finding]
    compare_s: float

class Timing:
    throughput: Timing
    blocking: Timing
    graph: Timing
    per_op: Timing

class Registration:
    none: Registration
    local: Registration
    symmetric: Registration

class MemoryKind:
    plain: MemoryKind
    library: MemoryKind
    mapped: MemoryKind
    foreign: MemoryKind

class BufferKind:
    def __init__(
        self,
        registration: Registration = ...,
        memory: MemoryKind = ...,
        source: object | None = None,
    ) -> None: ...

class Batch:
    def __init__(
        self,
        *,
        timing: Timing,
        iterations: int,
        group: int = 1,
        graph_launches: int = 1,
        lead_launches: int = 0,
        graph: int = 0,
        delay_s: float = 0.0,
        warm: bool = False,
        library_barrier: bool = False,
        events: bool = False,
    ) -> None: ...

class EventReference:
    @property
    def before_ns(self) -> int: ...
    @property
    def after_ns(self) -> int: ...

class TracedOperations:
    @property
    def call_begin_ns(self) -> list[int]: ...
    @property
    def call_end_ns(self) -> list[int]: ...
    @property
    def device_begin_s(self) -> list[float]: ...
    @property
    def device_end_s(self) -> list[float]: ...
    @property
    def reference(self) -> EventReference: ...
    @property
    def complete_ns(self) -> int: ...

class HostWork:
    allocation: HostWork
    filling: HostWork
    copy_to_device: HostWork
    copy_to_host: HostWork
    comparison: HostWork
    release: HostWork

class HostPeriod:
    @property
    def work(self) -> HostWork: ...
    @property
    def begin_ns(self) -> int: ...
    @property
    def end_ns(self) -> int: ...
    @property
    def bytes(self) -> int: ...

class ClockSample:
    @property
    def before_ns(self) -> int: ...
    @property
    def device_ns(self) -> int: ...
    @property
    def after_ns(self) -> int: ...

def sample_clock(device: Device, rounds: int) -> list[ClockSample]: ...

class Place:
    @property
    def space(self) -> str: ...
    @property
    def offset_bytes(self) -> int: ...

class PlannedStep:
    @property
    def order(self) -> list[int]: ...
    @property
    def phase(self) -> str: ...
    @property
    def source(self) -> int | None: ...
    @property
    def destination(self) -> int: ...
    @property
    def size_bytes(self) -> int: ...
    @property
    def reads(self) -> Place: ...
    @property
    def writes(self) -> Place: ...
    @property
    def combines(self) -> Place | None: ...
    @property
    def medium(self) -> str: ...

class Compute:
    @property
    def work(self) -> float: ...
    @property
    def implementation(self) -> str: ...
    @property
    def path(self) -> str: ...

def adapt_compute(adapter: object) -> Compute: ...
def make_product(device: Device, order: int) -> Compute: ...
def product_bytes(device: Device, order: int) -> int: ...
def make_triad(device: Device, size_bytes: int) -> Compute: ...

class ComputeFinding:
    @property
    def wrong(self) -> int: ...
    @property
    def first_element(self) -> int: ...
    @property
    def expected(self) -> float: ...
    @property
    def actual(self) -> float: ...

class Spans:
    def __init__(self, *, count: int = 0, operations: int = 1) -> None: ...

class ConcurrentTimes:
    @property
    def communication_s(self) -> list[list[float]]: ...
    @property
    def compute_s(self) -> list[list[float]]: ...
    @property
    def enqueue_s(self) -> list[float]: ...
    @property
    def host_s(self) -> list[float]: ...

class Pieces:
    def __init__(self, *, counts: Sequence[int] = ..., grouped: bool = ...) -> None: ...

class Session:
    def __init__(
        self,
        device: Device,
        rank_group: RankGroup,
        communicator: Communicator,
        counter: OperationCounter | None = None,
    ) -> None: ...
    def reserve(self, send_bytes: int, receive_bytes: int, kind: BufferKind) -> None: ...
    def prepare(
        self, operation: Operation, in_place: bool, seed: int, pieces: Pieces | None = None
    ) -> None: ...
    @property
    def route(self) -> str: ...
    @property
    def kernel(self) -> str: ...
    def steps(self) -> list[PlannedStep]: ...
    def run(self, batch: Batch) -> Samples: ...
    def trace(self, operations: int, events: bool) -> TracedOperations: ...
    def run_beside(
        self, operations: Spans, products: Spans, compute: Compute
    ) -> ConcurrentTimes: ...
    def verify_beside(
        self, products: Spans, compute: Compute, corrupt: int | None
    ) -> VerificationResult: ...
    def check_compute(self, compute: Compute) -> ComputeFinding: ...
    def capture(self, batch: Batch) -> None: ...
    def spaces_graphs(self) -> bool: ...
    def verify(self, corrupt: int | None) -> VerificationResult: ...
    @property
    def no_graphs(self) -> str: ...
    @property
    def checked_on_host(self) -> str: ...
    def take_host_periods(self) -> list[HostPeriod]: ...
    def memory_blocks(self) -> list[MemoryBlock]: ...

class Gap:
    none: Gap
    after_previous: Gap
    after_begin: Gap

class StepCall:
    def __init__(
        self,
        *,
        communicator: int,
        stream: int,
        operation: Operation,
        gap: Gap = ...,
        gap_s: float = ...,
        after: int | None = ...,
    ) -> None: ...

class StepTimes:
    begin_s: list[float]
    end_s: list[float]
    enqueue_s: float
    host_s: float

class StepReplay:
    def __init__(
        self,
        device: Device,
        rank_group: RankGroup,
        *,
        communicators: list[Communicator],
        places: list[tuple[int, int, int]],
        calls: list[StepCall],
        seed: int,
        counter: OperationCounter | None = None,
        compute: Compute | None = None,
    ) -> None: ...
    def run(self, delay_s: float = 0.0) -> StepTimes: ...
    def verify(self, corrupt: int | None) -> list[tuple[int, int]]: ...
    def set_traffic(self, by_call: Sequence[tuple[int, float]]) -> None: ...
    def set_later(self, later_s: Sequence[float]) -> None: ...
    @property
    def most_traffic_blocks(self) -> int: ...
    @property
    def buffer_bytes(self) -> int: ...
    @property
    def checked_on_host(self) -> str: ...

class Engine:
    copy_engine: Engine
    cache_copy: Engine
    nc_copy: Engine
    bulk_copy: Engine

class FarEnd:
    device: FarEnd
    pinned: FarEnd
    pageable: FarEnd

class Flow:
    def __init__(
        self,
        *,
        from_device: int,
        to_device: int,
        runner: int,
        far: FarEnd = ...,
        to_host: bool = False,
        landing: int = 0,
        delay_s: float = 0.0,
    ) -> None: ...

class Transfer:
    def __init__(
        self,
        *,
        flows: list[Flow],
        engine: Engine = ...,
        size_bytes: int,
        offset_bytes: int = 0,
        blocks: int = 0,
        threads: int = 0,
        one_launch: bool = False,
        staged: bool = False,
    ) -> None: ...

class GateKind:
    automatic: GateKind
    stream_wait: GateKind
    host_function: GateKind
    events: GateKind

class FlowTimes:
    device_s: list[float]
    launch_s: list[float]
    call_s: list[float]
    timed_out: list[bool]
    by_host: bool

class TracedFlow:
    @property
    def call_begin_ns(self) -> list[int]: ...
    @property
    def call_end_ns(self) -> list[int]: ...
    @property
    def device_begin_s(self) -> list[float]: ...
    @property
    def device_end_s(self) -> list[float]: ...
    @property
    def reference(self) -> EventReference: ...

class TracedCopies:
    @property
    def flows(self) -> list[TracedFlow]: ...
    @property
    def gate_ns(self) -> int: ...
    @property
    def complete_ns(self) -> int: ...
    @property
    def timed_out(self) -> list[bool]: ...

class Transfers:
    def __init__(self, devices: list[Device], rank_group: RankGroup, seed: int) -> None: ...
    def choose_gate(self, kind: GateKind) -> None: ...
    @property
    def gate(self) -> GateKind: ...
    @property
    def gate_reason(self) -> str: ...
    def reserve(self, size_bytes: int, landings: int) -> None: ...
    def reserve_host(self, number: int, size_bytes: int, kind: FarEnd) -> None: ...
    def prepare(self, transfer: Transfer) -> None: ...
    def run(self, iterations: int, limit_s: float) -> FlowTimes: ...
    def trace(self, copies: int, limit_s: float) -> TracedCopies: ...
    def verify(self, corrupt: int | None, corrupted_flow: int) -> list[Finding]: ...
    def chase(self, reader: int, owner: int, accesses: int, limit_s: float) -> float: ...
    def ping_pong(self, first: int, second: int, rounds: int, limit_s: float) -> float: ...
    @property
    def devices(self) -> int: ...
    def free_memory_bytes(self) -> int: ...
    @property
    def checked_on_host(self) -> str: ...
