"""What a plan of a network says, and the fields of its results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import cast

from cclmark.base.printable import plain
from cclmark.document.blocks import (
    Block,
    Document,
    Evidence,
    Facts,
    Finding,
    HeadFigure,
    RunContent,
    Table,
    TableColumn,
    table_of,
)
from cclmark.document.case_fields import status_fields
from cclmark.document.chart_model import ChartCurve, Level, Lines, Mark
from cclmark.document.fields import Field, Fields
from cclmark.document.insight_words import amount
from cclmark.document.report_kind import ComputedFigure, ComputedFigures, report_of_formulas
from cclmark.document.text import (
    BYTES_PER_GB,
    counted,
    figure,
    longer_words,
    percent_words,
    three_digits,
    time_words,
)
from cclmark.journal.schema import Header
from cclmark.work.accelerators import GBIT
from cclmark.work.sizes import format_size
from cclmark_planning.need.figures import (
    NOT_ENOUGH,
    NetworkStep,
    asked,
    communication_share,
    is_enough,
    message_seconds,
    network_bytes,
    node_bytes,
    slow_down,
    step_on,
    steps_on_networks,
    tokens_per_s,
    trained_model,
    varied,
)
from cclmark_planning.need.result import NeedResult
from cclmark_planning.scale.memory import most_memory_bytes
from cclmark_planning.scale.step import AMPLE, INFINITE_BPS, StepTime
from cclmark_planning.scale.traffic import GROUPS, GroupTraffic

_CHART_POINTS = 49
_GROUPS_IN_WORDS = {
    **{"tp": "tensor parallelism", "cp": "context parallelism", "dp": "replicas"},
    **{"ep": "experts", "pp": "the pipeline"},
}
_RATES_NOTE = (
    "Rates are line rates in one direction. A node's is that of all of its interfaces together."
)


def _gbit(bps: float) -> str:
    return three_digits(bps / GBIT)


def _rate_text(bps: float | None, per_node: int = 1) -> str:
    """A line rate in Gb/s; ``any`` for 0, ``none`` for None."""
    return "none" if bps is None else _gbit(bps * per_node) if bps else "any"


def _gpus_per_token(one: NeedResult) -> float:
    return one.need.job.devices / one.need.job.tokens


def _rate(key: str, help: str, name: str) -> Field:
    def value(one: NeedResult) -> float | None:
        bps = None if one.needed is None else getattr(one.needed, name)
        return None if bps is None else bps / GBIT

    return Field(key, help, value, direction="lower")


FIELDS = Fields(
    [
        Field("model", "Model that is trained.", "need.job.model.name", "text"),
        Field("gpus", "GPUs of the job.", "need.job.devices", "int"),
        Field("nodes", "Nodes of the job.", "need.job.nodes", "int"),
        Field(
            "layout",
            "How the GPUs divide the work.",
            lambda one: one.need.job.layout.describe(),
            "text",
        ),
        Field("batch", "Sequences of a step.", "need.job.batch", "int"),
        Field("sequence", "Tokens of a sequence.", "need.job.sequence", "int"),
        Field("variant", "Difference from the job that was asked for.", "need.variant", "text"),
        *status_fields("reason", "status"),
        Field("compute_ms", "Compute of a step on a GPU.", lambda one: one.compute_s or None),
        _rate(
            "needed_gbit",
            "Line rate of a GPU to other nodes from which on a step takes at most the allowed "
            "share longer than on an ideal network; 0 for any rate, empty if at none.",
            "bps",
        ),
        _rate(
            "ample_gbit",
            "Line rate of a GPU to other nodes above which a step becomes less than 1 % shorter.",
            "ample_bps",
        ),
        _rate(
            "exposed_gbit",
            "Line rate from which on exposed communication takes at most the allowed share of a "
            "step; empty if it takes more at any rate.",
            "exposed_bps",
        ),
        Field(
            "harmless_latency_us",
            "Latency of a transfer between nodes that lengthens a step by 1 %.",
            "needed.latency_s",
        ),
        Field(
            "network_bytes",
            "What a GPU sends to other nodes in a step.",
            lambda one: network_bytes(one) if one.is_measured else None,
        ),
        Field(
            "node_bytes",
            "What a GPU sends within its node in a step.",
            lambda one: node_bytes(one) if one.is_measured else None,
        ),
        Field("step_ms", "Step on the judged network.", "judged.step_s"),
        Field(
            "token_us",
            "Time of a GPU for a token on the judged network: step x GPUs / tokens.",
            lambda one: one.judged and one.judged.step_s * _gpus_per_token(one),
        ),
        Field(
            "slow_down_percent",
            "How much longer than on an ideal network a step on the judged network takes.",
            lambda one: one.judged and slow_down(one, one.judged) * 100,
        ),
        Field(
            "exposed_percent",
            "Share of exposed communication in a step on the judged network.",
            lambda one: one.judged and one.judged.exposed_share * 100,
        ),
    ],
)


def document_of_need(run: RunContent) -> Document:
    """Composes everything that a plan says."""
    results = cast("Sequence[NeedResult]", run.results)
    own = asked(results)
    largest = own[-1] if own else None
    findings = [*_missing(results)]
    if largest is not None and largest.needed is not None:
        findings += _findings(largest)
    return Document(
        "Needed network",
        method_of_need(run.header),
        [*_blocks(results)],
        findings,
        notes=[_RATES_NOTE] if own else [],
        head_figures=[*_head_figures(largest)] if largest is not None else [],
    )


def _head_figures(largest: NeedResult) -> Iterator[HeadFigure]:
    """The needed line rates of a GPU, and what it sends to other nodes in a step."""
    needed, share = largest.needed, largest.need.share
    if needed is None:
        return
    of = f"of a GPU, {amount(largest.need.job.devices, 'GPU')}"
    rates = {
        f"step at most {share * 100:.3g} % longer": needed.bps,
        f"more brings < {AMPLE * 100:.3g} %": needed.ample_bps,
    }
    for label, bps in rates.items():
        if bps:
            yield HeadFigure(label, _gbit(bps), "Gb/s", of)
    value, unit = format_size(round(network_bytes(largest))).split()
    yield HeadFigure("sent to other nodes", value, unit, "by a GPU in a step")
    value, unit = time_words(largest.compute_s).split()
    yield HeadFigure("compute", value, unit, "of a step")


def method_of_need(header: Header) -> str:
    """Describes in a line how the figures were obtained."""
    return (
        "formulas: the messages that model and layout determine, compute at a constant rate; "
        "nothing is measured"
    )


def _blocks(results: Sequence[NeedResult]) -> Iterator[Block]:
    own = [one for one in asked(results) if one.needed is not None]
    if not own:
        return
    largest = own[-1]
    yield Facts([*_facts(largest, own)])
    yield _counts_table(own)
    steps = [*steps_on_networks(largest)]
    if steps:
        yield _networks_table(largest, steps)
        if largest.needed is not None and largest.needed.ample_bps:
            yield _chart(largest)
    if largest.traffic:
        yield _messages_table(largest)
    others = [one for one in varied(results) if one.needed is not None]
    if others:
        yield _variants_table(largest, others)


def _facts(largest: NeedResult, own: Sequence[NeedResult]) -> Iterator[tuple[str, str]]:
    need, job = largest.need, largest.need.job
    yield "model", job.model.describe()
    yield "layout", job.layout.describe() or "one GPU"
    grows = len({one.need.job.batch for one in own}) > 1
    batch = f"{job.batch:,} sequences of {job.sequence:,} tokens{' on all GPUs' * grows}"
    yield "batch", f"{batch}, {amount(job.micro_batches, 'micro-batch', 'micro-batches')} of a GPU"
    words = [job.framework, job.precision, f"gradients of {counted(job.gradient_bytes, 'byte')}"]
    words += ["recomputation"] * job.recompute
    words += ["gradients reduced after the last micro-batch"] * job.holds
    words += ["activations scattered between stages"] * job.scatters
    yield "messages", ", ".join(words)
    for one in need.assumptions:
        yield one.name, f"{one.figure} ({one.source})"


def _pair(bps: float | None, per_node: int) -> str:
    """A line rate of a GPU and of its node in Gb/s."""
    text = _rate_text(bps)
    return text if not bps or per_node == 1 else f"{text} / {_gbit(bps * per_node)}"


def _rate_column(head: str, name: str) -> TableColumn:
    return TableColumn(
        head, lambda one: _pair(getattr(one.needed, name), one.need.job.per_node), ">"
    )


def _latency_text(one: NeedResult) -> str:
    assert one.needed is not None
    return "any" if one.needed.latency_s is None else time_words(one.needed.latency_s)


def _needs_columns(share: float) -> list[TableColumn]:
    allowed, ample = f"{share * 100:.3g} %", f"{AMPLE * 100:.3g} %"
    return [
        TableColumn("compute", lambda one: time_words(one.compute_s), ">"),
        TableColumn("sent to nodes", lambda one: format_size(round(network_bytes(one))), ">"),
        _rate_column(f"Gb/s for ≤ {allowed} slower", "bps"),
        _rate_column(f"more brings < {ample}", "ample_bps"),
        _rate_column(f"Gb/s for ≤ {allowed} exposed", "exposed_bps"),
    ]


def _counts_table(own: Sequence[NeedResult]) -> Table:
    share = own[-1].need.share

    def judged(one: NeedResult) -> str:
        return "" if one.judged is None else percent_words(slow_down(one, one.judged))

    def is_over(one: NeedResult) -> bool:
        return one.judged is not None and slow_down(one, one.judged) > share

    columns = [
        TableColumn("GPUs", lambda one: f"{one.need.job.devices:,}", ">"),
        TableColumn("nodes", lambda one: f"{one.need.job.nodes:,}", ">"),
        *_needs_columns(share),
        TableColumn("harmless latency", _latency_text, ">"),
        TableColumn(
            "slower on --network", judged, ">", look=lambda one: "look" if is_over(one) else ""
        ),
    ]
    notes = [
        "Gb/s: of a GPU / of its node. Slower: than on an ideal network between nodes, of an "
        "infinite rate and without latency",
        "more brings: line rate above which a step becomes less than that shorter",
        "exposed: as a share of a step, also communication within nodes. none: at no rate, any: at "
        "every rate",
        f"harmless latency: of a transfer between nodes; lengthens a step by {AMPLE * 100:.3g} %",
    ]
    return table_of("needed network between nodes", columns, own, notes=notes)


def _networks_table(largest: NeedResult, steps: Sequence[NetworkStep]) -> Table:
    job = largest.need.job

    def used_flops(one: NetworkStep) -> str:
        return f"{job.operations / (one.step.step_s * job.devices) / 1e12:.4g}"

    columns = [
        TableColumn("node", lambda one: _gbit(one.bps * job.per_node), ">"),
        TableColumn("GPU", lambda one: _gbit(one.bps), ">"),
        TableColumn("step", lambda one: time_words(one.step.step_s), ">"),
        TableColumn("slower by", lambda one: percent_words(slow_down(largest, one.step)), ">"),
        TableColumn("exposed", lambda one: percent_words(one.step.exposed_share), ">"),
        TableColumn("all messages", lambda one: percent_words(communication_share(one.step)), ">"),
        TableColumn("tokens/s/GPU", lambda one: figure(tokens_per_s(largest, one.step)), ">"),
        TableColumn("TFLOP/s/GPU", used_flops, ">"),
        TableColumn(
            "", lambda one: one.word, look=lambda one: "look" if one.word == NOT_ENOUGH else ""
        ),
    ]
    notes = [
        "all messages: their time, hidden or not, as a share of a step",
        f"a GPU that never waits computes {largest.need.flops / 1e12:.4g} TFLOP/s"
        + ("; TFLOP/s/GPU do not count what is computed twice" if job.recompute else ""),
    ]
    title = f"a step of {job.devices:,} GPUs on networks, line rates in Gb/s"
    return table_of(title, columns, steps, notes=notes)


def _messages_table(largest: NeedResult) -> Table:
    job = largest.need.job

    def time(one: GroupTraffic) -> str:
        seconds = message_seconds(one, largest)
        return "-" if seconds is None else time_words(seconds)

    columns = [
        TableColumn("group", lambda one: one.group),
        TableColumn("ranks", lambda one: f"{one.ranks:,}", ">"),
        TableColumn("nodes", lambda one: f"{one.nodes:,}", ">"),
        TableColumn("operation", lambda one: one.operation),
        TableColumn("purpose", lambda one: one.purpose),
        TableColumn("calls", lambda one: f"{one.messages:,.0f}", ">"),
        TableColumn("size", lambda one: format_size(round(one.size_bytes)), ">"),
        TableColumn("sent in node", lambda one: format_size(round(one.node_bytes)), ">"),
        TableColumn("sent to nodes", lambda one: format_size(round(one.network_bytes)), ">"),
        TableColumn("takes", time, ">"),
        TableColumn("beside", lambda one: one.window or "nothing"),
    ]
    stage = f" of stage {largest.stage}" if job.layout.pp > 1 else ""
    on = "the network of --network" if largest.need.network.bps else "a network of an ample rate"
    return table_of(
        f"messages of a GPU{stage} in a step",
        columns,
        sorted(largest.traffic, key=lambda one: -one.network_bytes),
        notes=[
            "size: as nccl-tests counts it; sent: what the GPU sends within its node and to other "
            "nodes in all calls",
            f"takes: all calls on {on}; beside: the compute that can hide them",
        ],
    )


def _variants_table(largest: NeedResult, others: Sequence[NeedResult]) -> Table:
    columns = [
        TableColumn("job", lambda one: one.need.variant or "as asked"),
        *_needs_columns(largest.need.share),
        TableColumn("memory", lambda one: _gigabytes(most_memory_bytes(one.need.job)), ">"),
        TableColumn(
            "best tokens/s/GPU", lambda one: figure(tokens_per_s(one, one.needed.without)), ">"
        ),
    ]
    of = largest.need.memory_bytes
    notes = [
        "best: on an ideal network between nodes; memory: what a GPU holds at least"
        + (f", of {_gigabytes(of)}" if of else "")
    ]
    title = f"what changes the need of {largest.need.job.devices:,} GPUs"
    return table_of(title, columns, [largest, *others], notes=notes)


def _chart(largest: NeedResult) -> Lines:
    """The exposed share and its parts by the line rate."""
    needed, need = largest.needed, largest.need
    assert needed is not None
    low, high = (needed.bps or needed.ample_bps) / 5, needed.ample_bps * 4
    if need.network.bps:
        low, high = min(low, need.network.bps / 2), max(high, need.network.bps * 2)
    rates = [low * (high / low) ** (place / (_CHART_POINTS - 1)) for place in range(_CHART_POINTS)]
    steps = [step_on(largest, bps) for bps in rates]
    x = [bps * need.job.per_node / GBIT for bps in rates]
    series = [
        ChartCurve("all groups", x, [one.exposed_share * 100 for one in steps]),
        *(
            ChartCurve(
                _GROUPS_IN_WORDS[group],
                x,
                [one.exposed_by_group.get(group, 0.0) / one.step_s * 100 for one in steps],
                colour=number,
                dashed=True,
            )
            for number, group in enumerate(GROUPS, start=1)
            if any(one.exposed_by_group.get(group) for one in steps)
        ),
    ]
    marks = (
        [Mark("judged", need.network.bps * need.job.per_node / GBIT)] if need.network.bps else []
    )
    return Lines(
        key="exposed-by-line-rate",
        title=f"exposed communication of {need.job.devices:,} GPUs",
        says="The share of a step that is exposed communication, by the line rate of a node.",
        x_title="line rate of a node, Gb/s",
        x_kind="log",
        y_title="share of a step, %",
        series=series,
        levels=[Level("allowed", need.share * 100)],
        marks=marks,
    )


def _rate_words(bps: float, per_node: int) -> str:
    """A line rate in words: ``83.3 Gb/s (667 for a node)``."""
    node = f" ({_gbit(bps * per_node)} for a node)" if per_node > 1 else ""
    return f"{_gbit(bps)} Gb/s{node}"


def _missing(results: Sequence[NeedResult]) -> Iterator[Finding]:
    """The jobs without figures, with the reason."""
    for one in results:
        if one.needed is None:
            text = f"{one.need.describe()}: {one.status}{f': {one.reason}' if one.reason else ''}"
            yield Finding("not-measured", "look", plain(text))


def _findings(result: NeedResult) -> Iterator[Finding]:
    need, needed = result.need, result.needed
    assert needed is not None
    job, share = need.job, need.share
    at = amount(job.devices, "GPU")
    advice = ""
    compute = next((one for one in need.assumptions if one.name == "compute"), None)
    if compute is not None and not compute.measured:
        how = "assumed" if compute.source.startswith("assumed") else "not measured"
        advice = (
            f"The rate of compute is {how}. `cclmark train --model {trained_model(job.model)}` "
            "measures it on a few GPUs, and --measured takes its journal."
        )
    ideal = "than on an ideal network between nodes"
    if not network_bytes(result):
        text = f"{at} {'sends' if job.devices == 1 else 'send'} nothing to other nodes in a step"
        yield Finding("network-not-used", "note", text, advice=advice)
    elif needed.bps is None:
        slower = step_on(result, INFINITE_BPS).step_s / needed.without.step_s - 1
        yield Finding(
            "no-rate-enough",
            "look",
            f"{at}: no line rate is enough: with latencies between nodes alone, a step takes "
            f"{longer_words(slower)} without them, and {percent_words(share)} longer is allowed",
            evidence=(Evidence.of("slow_down_percent", slower, at, share),),
        )
    else:
        rate = "any rate is enough"
        if needed.bps:
            rate = f"{_rate_words(needed.bps, job.per_node)} to other nodes are needed"
        yield Finding(
            "needed-network",
            "note",
            f"{at}: {rate} for each, so that a step takes at most {percent_words(share)} longer "
            f"{ideal}; above {_rate_words(needed.ample_bps, job.per_node)}, more brings less than "
            f"{AMPLE * 100:.3g} %",
            advice=advice,
            evidence=(
                Evidence.of("needed_gbit", needed.bps, at),
                Evidence.of("ample_gbit", needed.ample_bps, at),
            ),
        )
    held = most_memory_bytes(job)
    if need.memory_bytes and held > need.memory_bytes:
        yield Finding(
            "does-not-fit",
            "look",
            f"{at} of {_gigabytes(need.memory_bytes)}: the job takes at least {_gigabytes(held)} "
            "of each, for parameters, gradients, optimizer and activations",
            advice="Divide the job further: --parallel with zero=3, or a larger tp or pp; or "
            "recompute activations, or lower --micro-batch.",
            evidence=(Evidence.of("memory_bytes", held, at, need.memory_bytes),),
        )
    if result.judged is not None and network_bytes(result):
        yield _judgement(result, result.judged)
    exposed = needed.without.exposed_share
    if exposed > share:
        yield Finding(
            "exposed-within-nodes",
            "look",
            f"on an ideal network between nodes, too, exposed communication takes "
            f"{percent_words(exposed)} of a step of {at}, most of it of "
            f"{_largest_part(needed.without)}",
            evidence=(Evidence.of("exposed_percent", exposed, at, share),),
        )


def _gigabytes(size_bytes: float) -> str:
    return f"{size_bytes / BYTES_PER_GB:.0f} GB"


def _judgement(result: NeedResult, judged: StepTime) -> Finding:
    need, at = result.need, amount(result.need.job.devices, "GPU")
    slower = slow_down(result, judged)
    enough = is_enough(result)
    part = "" if enough else f", most of which is of {_largest_part(judged)}"
    return Finding(
        "network-enough" if enough else "network-not-enough",
        "good" if enough else "look",
        f"{at} with {_rate_words(need.network.bps, need.job.per_node)} each: a step takes "
        f"{time_words(judged.step_s)}, {longer_words(slower)} on an ideal network between nodes, "
        f"and {percent_words(need.share)} longer is allowed; exposed communication takes "
        f"{percent_words(judged.exposed_share)} of it{part}",
        evidence=(Evidence.of("slow_down_percent", slower, at, need.share),),
    )


def _largest_part(step: StepTime) -> str:
    """The group with the most exposed communication, in words."""
    parts = step.exposed_by_group
    return _GROUPS_IN_WORDS[max(GROUPS, key=lambda group: parts.get(group, 0.0))]


def _headline(results: Sequence[NeedResult]) -> str:
    """What the largest job needs; empty without figures."""
    own = [one for one in asked(results) if one.needed is not None]
    if not own or own[-1].needed is None:
        return ""
    return next(_findings(own[-1])).sentence


def _titled(results: Sequence[NeedResult]) -> str:
    """The models."""
    return f"Network for {', '.join(dict.fromkeys(one.need.job.model.name for one in results))}"


def _inputs(results: Sequence[NeedResult]) -> Iterator[tuple[str, str]]:
    """What the jobs of a run are, and what their figures stand on."""
    own = asked(results)
    if own:
        need = own[-1].need
        yield from _facts(own[-1], own)
        yield "GPUs of a node", f"{need.job.per_node}"
        yield "allowed", f"a step {need.share * 100:.3g} % longer"
        rate = _rate_words(need.network.bps, need.job.per_node) if need.network.bps else "none"
        yield "judged network", rate


def _compared() -> ComputedFigures:
    """By what two plans are compared: the same numbers of GPUs, and the same variants."""
    fields = {one.key: one for one in FIELDS.all}

    def figure_of(
        key: str, title: str, text: Callable[[NeedResult], str], *, is_time: bool = False
    ) -> ComputedFigure:
        def shown(one: NeedResult) -> str:
            return text(one) if one.needed is not None else one.status

        return ComputedFigure(fields[key], title, shown, is_time)

    def rate(name: str) -> Callable[[NeedResult], str]:
        return lambda one: _rate_text(getattr(one.needed, name))

    def of_step(text: Callable[[NeedResult, StepTime], str]) -> Callable[[NeedResult], str]:
        return lambda one: "-" if one.judged is None else text(one, one.judged)

    return ComputedFigures(
        figures=[
            figure_of("needed_gbit", "needed, Gb/s of a GPU", rate("bps")),
            figure_of("ample_gbit", "ample, Gb/s of a GPU", rate("ample_bps")),
            figure_of("exposed_gbit", "for the exposed share, Gb/s of a GPU", rate("exposed_bps")),
            figure_of("harmless_latency_us", "harmless latency", _latency_text),
            figure_of(
                "network_bytes",
                "sent to other nodes in a step",
                lambda one: format_size(round(network_bytes(one))),
            ),
            figure_of(
                "node_bytes",
                "sent within the node in a step",
                lambda one: format_size(round(node_bytes(one))),
            ),
            figure_of("compute_ms", "compute of a step", lambda one: time_words(one.compute_s)),
            figure_of(
                "step_ms",
                "step on the judged network",
                of_step(lambda one, step: time_words(step.step_s)),
            ),
            figure_of(
                "token_us",
                "time of a GPU for a token there",
                of_step(lambda one, step: time_words(step.step_s * _gpus_per_token(one))),
                is_time=True,
            ),
            figure_of(
                "exposed_percent",
                "exposed communication of that step",
                of_step(lambda one, step: percent_words(step.exposed_share)),
            ),
        ],
        key=lambda one: (one.need.job.devices, one.need.variant),
        words=lambda one: " with ".join(
            filter(None, [amount(one.need.job.devices, "GPU"), one.need.variant])
        ),
        is_main=lambda one: not one.need.variant,
        inputs=_inputs,
        without_time="judge a network on both sides, cclmark need --network",
    )


REPORT = report_of_formulas(
    "jobs",
    "needed network",
    FIELDS,
    document_of_need,
    method_of_need,
    _compared(),
    headline=_headline,
    titled=_titled,
    counted=asked,
)
