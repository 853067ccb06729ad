"""Trainings: shapes, memory, figures, losses side by side. Nothing here needs torch."""

import itertools
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from cclmark.document.naming import NamedRun
from cclmark.journal.journal_file import Journal
from cclmark.journal.resume import outline_of
from cclmark.journal.schema import DeviceDescription, Header, Machine
from cclmark.report.exports import replayed
from cclmark.report.run_page import sections_of
from cclmark.work.models import MODELS, find_model
from cclmark.work.variants import DEFAULT, LIBRARY, PROCESS, Assignment, Variant
from cclmark_training import document as documents
from cclmark_training import plan as plans
from cclmark_training.choices import PARALLELISMS, RECIPE_NAMES
from cclmark_training.command import MODEL_NAMES
from cclmark_training.figures import figures_of, groups_of, summaries_of, total_peak
from cclmark_training.layout import DIMENSIONS, MeshLayout, parse_layout
from cclmark_training.memory import memory_of, shortage, what_fits
from cclmark_training.recipes import RECIPES, differences
from cclmark_training.result import GroupCalls, ReplicaCheck, StepTimeline, TrainingResult
from goldens import outline, refusal, require_golden, require_outcomes
from samples import usual_settings

GIB = 1 << 30
H100 = "NVIDIA H100 80GB HBM3"
STAGES = {"parallel": "combined", "layout": MeshLayout(pp=2, dp=2), "ranks": 4, "microbatches": 2}
OTHER = {
    "variant": Variant((Assignment(LIBRARY, "torch:flagcx", PROCESS),)),
    "ccl": "torch:flagcx",
}


def training(model="gpt2-254m", layers=0, **changes) -> plans.Training:
    shape = find_model(model, None)
    usual = {
        **{"variant": DEFAULT, "round": 0, "ccl": "torch:nccl", "parallel": "ddp", "ranks": 2},
        **{"batch": 4, "sequence": 512, "dtype": "bfloat16", "optimizer": "adamw"},
        **{"model": shape.with_layers(layers) if layers else shape, "learning_rate": 3e-4},
    }
    return plans.Training(**{**usual, **changes})


def timeline_ms(*parts, alone_ms=()):
    """The parts of a step by rank: all, communication, what of it is exposed, compute."""
    seconds = [[round(part / 1e3, 6) for part in own] for own in (*parts, alone_ms)]
    return StepTimeline(3, *seconds)


def result(number=0, *, step_ms=18.6, **changes) -> TrainingResult:
    usual = ([18.7, 18.6], [3, 4], [0.7, 1.6], [17.6, 16.7])
    fields = {
        "training": training(round=number),
        "status": "ok",
        "losses": [10.8, 9.0, 8.0],
        "step_s": [[step_ms / 1e3] * 12, [(step_ms - 0.1) / 1e3] * 12],
        "alone_s": [[16.9e-3] * 12, [16.0e-3] * 12],
        "timeline": timeline_ms(*usual, alone_ms=[16.7, 15.9]),
        "estimated_bytes": 4 * GIB,
        "check": ReplicaCheck(254_053_376),
    }
    return TrainingResult(number, **{**fields, **changes})


def device(rank, name=H100):
    return DeviceDescription(rank, "h", "cuda", rank, name, 80 * GIB, pid=1)


def values_of(text, lists):
    """Fields in words: ``uneven=3,1 ranks=2``, of which ``lists`` are tuples."""
    found = {}
    for word in text.split():
        name, _, value = word.partition("=")
        if name == "layout":
            found |= {"parallel": "combined", name: parse_layout(value)}
        elif name in lists:
            found[name] = plans.parse_microbatches(value)
        else:
            found[name] = int(value) if value.isdigit() else value
    return found


def batches(text):
    layout, _, given = text.partition(" ")
    return plans.BatchOptions(**values_of(given, ["microbatches"])).of(parse_layout(layout))


def given_in(text):
    return training(**values_of(text, ["uneven"]))


def advice(of, text, **options):
    free, _, words = text.partition(" ")
    return of(given_in(words), int(free) << 20, **options)


def sizes(text):
    one = given_in(text)
    numbers = f"{one.sequences} sequences, {one.micro_batch} at once, {one.global_batch} in all"
    return f"{one.tokens} tokens, {numbers}"


def recipe(text):
    """The differences of a training that is checked, and what is printed of them."""
    of_recipe = {"by_sequence": True, "sequence": 4096, "learning_rate": 1e-5}
    words = f"{text} model=llama3-8b recipe=flagscale-llama3-8b"
    one = replace(given_in(words), **of_recipe)
    plans.check_training(one)
    (summary,) = summaries_of([result(training=one)], [])
    return "\n".join([f"differs: {[*differences(one)]}", *documents.model_lines(summary.training)])


def test_what_is_read_and_refused_and_advised():
    """An estimate that does not fit is refused with what would fit."""
    read = {
        "advice": lambda text: " | ".join(advice(what_fits, text)),
        "shortage": partial(advice, shortage),
        "on-host": partial(advice, shortage, on_host=True),
        "training": lambda text: plans.check_training(given_in(text)),
        "layout": parse_layout,
        "batches": batches,
        "microbatches": plans.parse_microbatches,
        "dtype": plans.dtype_called,
        "model": lambda text: find_model(text, None),
        "sizes": sizes,
        "equal": lambda text: given_in(text).comparable_ranks,
        "recipe": recipe,
        "peak": lambda text: total_peak([text] * 2),
    }

    def outcome(line):
        subject, _, text = line.partition(" ")
        return refusal(read[subject], text)

    require_outcomes(Path(__file__).with_name("inputs.txt"), outcome)


def test_the_names_in_the_help_are_those_of_the_models_and_recipes():
    assert (tuple(MODELS), tuple(RECIPES)) == (MODEL_NAMES, RECIPE_NAMES)


def test_operations_of_a_token():
    # GPT-2 without positions, biases and norms: 12 layers of 12 d^2, and the output head.
    width, layers, vocabulary = 768, 12, 50257
    weights = layers * 12 * width**2 + vocabulary * width
    expected = 6 * weights + 12 * layers * width * 1024
    assert MODELS["gpt2"].operations_per_token(1024) == expected
    assert MODELS["mixtral-8x7b"].multiplied_parameters == pytest.approx(12.75e9, rel=0.001)


def test_a_variant_may_name_another_library():
    planned = plans.trainings_of(training(), [DEFAULT, OTHER["variant"]], 2)
    libraries = ("torch:nccl", "torch:flagcx")
    assert [(one.round, one.ccl) for one in planned] == [*itertools.product((0, 1), libraries)]


@given(st.builds(MeshLayout, **dict.fromkeys(DIMENSIONS, st.integers(1, 4))))
def test_each_rank_has_a_place_of_its_own(layout):
    assert layout.ranks == layout.tp * layout.pp * layout.replicas
    places = [layout.place_of(rank) for rank in range(layout.ranks)]
    assert [layout.rank_at(*place) for place in places] == [*range(layout.ranks)]
    assert places == sorted(places)  # tensor ranks are neighbours
    assert places[-1] == (layout.pp - 1, layout.replicas - 1, layout.tp - 1)


def test_calls_by_group_are_those_of_the_rank_that_sends_most():
    calls = [
        GroupCalls("tp", 2, "all_reduce", [2, 2, 2, 2], [100, 100, 300, 300]),
        GroupCalls("tp", 2, "all_gather", [1, 1, 0, 0], [80, 80, 0, 0]),
        GroupCalls("pp", 2, "send", [3, 3, 3, 3], [30, 30, 30, 30]),
    ]
    layout = {**STAGES, "layout": MeshLayout(tp=2, pp=2)}
    one = result(training=training(**layout), groups=calls)
    tensor, pipeline = groups_of(one)
    # An all-reduce over two ranks sends as much as its message, an all_gather the half.
    assert (tensor.group, tensor.sent_bytes, pipeline.sent_bytes) == ("tp", 300, 30)
    assert tensor.calls == {"all_reduce": (2, 300)}
    columns = {field.key: field.cell(one) for field in documents.FIELDS.all}
    sent = [columns[f"{group}sent_bytes"] for group in ("", "tp_", "pp_", "dp_")]
    assert sent == [330, 300, 30, None]
    assert columns["parallel"] == "tp=2,pp=2"


def test_states_are_exact():
    parameters = 254_053_376
    need = memory_of(training())
    assert need.parameters == need.buffers == 2 * parameters
    assert need.optimizer == 4 * parameters
    assert memory_of(training(optimizer="sgd")).optimizer == 0
    assert memory_of(training(parallel="zero1")).optimizer == 2 * parameters
    sharded = memory_of(training(parallel="fsdp"))
    assert sharded.parameters == parameters
    # The root unit stays gathered: the embedding, the positions and the last norm.
    assert sharded.buffers == 2 * ((50257 + 1024) * 1024 + 2 * 1024)
    # Without known activations, the update requires most.
    update = memory_of(training(compiled=True))
    assert (update.activations, update.gradients) == (0, 2 * parameters)
    # Mixed types double the states and add copies.
    mixed = memory_of(training(dtype="mixed"))
    assert (mixed.parameters, mixed.optimizer) == (4 * parameters, 8 * parameters)
    assert mixed.copies == 2 * MODELS["gpt2-254m"].multiplied_parameters
    of_shards = memory_of(training(parallel="fsdp", dtype="mixed"))
    assert (of_shards.copies, of_shards.buffers) == (0, sharded.buffers)


def test_activations_of_gpt2_are_34_bytes_less_dropout_masks():
    # Korthikanti et al., arXiv 2205.05198: 34 s b h bytes per layer, of which 2 are masks of
    # dropout; the quadratic part does not exist with a fused attention.
    one, more = (memory_of(training(layers=layers)).activations for layers in (1, 2))
    assert more - one == 32 * 4 * 512 * 1024


def test_a_stage_holds_the_microbatches_between_their_passes():
    # The first of four stages holds four microbatches of any number, the last one's logits are
    # those of one.
    base = training(parallel="pp", ranks=4, batch=32, dtype="float32")
    base = replace(base, model=replace(base.model, vocabulary=512))
    few, many = (memory_of(replace(base, microbatches=number)) for number in (8, 32))
    assert few.activations == pytest.approx(4 * many.activations)
    assert few.gradients == few.parameters
    text = shortage(replace(base, microbatches=4), few.total)
    assert "--microbatches 8" in text
    assert "--dtype bfloat16" in text
    assert "8 devices" in what_fits(replace(base, microbatches=8), few.total - 1)


def changed(one: plans.Training, text: str) -> plans.Training:
    """The training with the options of a text."""
    words = text.split()
    for option, value in zip(words[::2], words[1::2], strict=True):
        name = option.removeprefix("--")
        if name == "layers":
            changes = {"model": one.model.with_layers(int(value))}
        else:
            changes = {name: int(value) if value.isdigit() else value}
        one = replace(one, **changes)
    return one


SHAPES = [
    training(model, sequence=64, batch=batch, ranks=ranks, dtype=dtype, parallel=parallel)
    for model in ("gpt2-254m", "llama3.2-1b")
    for batch in (2, 3)
    for ranks, parallel in ((1, "none"), (2, "ddp"), (2, "zero1"), (2, "tp"), (4, "fsdp"))
    for dtype in ("float32", "bfloat16")
] + [training(batch=8, parallel="pp", microbatches=parts, sequence=64) for parts in (2, 4, 8)]


@given(st.sampled_from(SHAPES), st.integers(1, 1 << 12))
def test_what_is_advised_is_possible_and_fits(one, share):
    limit = memory_of(one).total * share >> 12
    found = what_fits(one, limit)
    for text in found:
        number, _, word = text.partition(" ")
        other = replace(one, ranks=int(number)) if word == "devices" else changed(one, text)
        plans.check_training(other)
        assert memory_of(other).total <= limit
    assert len(set(found)) == len(found)


def of_timeline(*parts):
    """Without a step alone, the timeline decides which rank counts."""
    return [result(alone_s=[], timeline=timeline_ms(*parts))]


ROUNDS = ((20, 9, 1), (22, 3, 8), (30, 6, 2))
FIGURES = {
    "of the rank that computes longest": [result()],
    "without a timeline": [result(timeline=None)],
    "the rank that waits least counts": of_timeline([18, 18.1], [3, 4], [1.6, 0.7], [16, 17]),
    # The first stage waits for the last one, but its communication is less exposed.
    "of stages": of_timeline([30] * 3, [9] * 3, [2, 9, 4], [8, 8, 25]),
    "the parts of several rounds add up": [
        result(number, timeline=timeline_ms([all_ms] * 2, [9] * 2, [out_ms] * 2, [own_ms] * 2))
        for number, (all_ms, own_ms, out_ms) in enumerate(ROUNDS)
    ],
    "losses in repetitions and side by side": [
        result(0),
        result(1, losses=[10.8, 9.0, 8.0 + 1e-3]),
        result(0, training=training(**OTHER), losses=[10.8, 9.5, 8.25, 7.0]),
    ],
}


def test_figures():
    found = {}
    for name, results in FIGURES.items():
        summaries = summaries_of(results, [])
        first = figures_of(results[0])
        of_variants = [
            {"figures": one.figures, "repetition": one.repetition, "beside": one.beside_default}
            for one in summaries
        ]
        losses = [one.sentence for one in documents.losses_of(summaries)]
        of_round = {"first round": first, "cost_s": first.cost_s}
        found[name] = {**of_round, "variants": of_variants, "losses": losses}
    require_golden("texts/trainings-figures.txt", outline(found))
    assert figures_of(TrainingResult(0, training(), "died")) is None


def test_rates_and_share_of_the_peak():
    devices, unheard = [device(0), device(1)], [device(0), device(1, "Unheard Of 9000")]
    (one,) = summaries_of([result()], devices)
    assert one.tokens_per_s == pytest.approx(4096 / 18.6e-3)
    expected = 4096 * MODELS["gpt2-254m"].operations_per_token(512) / 18.6e-3 / 2 / 989.4e12
    assert one.share_of_peak == pytest.approx(expected)
    (one,) = summaries_of([result()], unheard)
    assert one.share_of_peak is None
    assert one.peak_reason == ("the peak rate of Unheard Of 9000 is unknown; --peak TFLOPS sets it")
    (one,) = summaries_of([result(training=training(peak_flops=2 * 989.4e12))], unheard)
    assert one.share_of_peak == pytest.approx(expected / 2)
    (text,) = documents.peak_lines([one])
    assert text == "MFU of the peak, 1978.8 TFLOP/s for each device (given by --peak)"


def run_of(results, *, runtime="cuda", names=(H100,) * 2, **settings) -> NamedRun:
    machine = Machine("h", "6", "x86_64", "", 8, 1 << 30, "3.12")
    devices = [replace(device(rank, name), runtime=runtime) for rank, name in enumerate(names)]
    plan = outline_of([one.training for one in results], 2, 2)
    fields = (1, "0", "", [], machine, devices, [], [], {}, usual_settings(**settings))
    return NamedRun("a", Journal(header=Header(*fields, plan=plan), results=results))


def compared(rounds, default_ms, other_ms, *, drift_ms=1.0):
    """Rounds of two libraries, in which steps become longer."""
    return [
        result(number, step_ms=step_ms + drift_ms * number, training=training(round=number, **own))
        for number in range(rounds)
        for step_ms, own in ((default_ms, {}), (other_ms, OTHER))
    ]


def wrong():
    """What is wrong comes before the ratios and the remarks."""
    first, *others = compared(2, 10.0, 15.0, drift_ms=0.0)
    return [replace(first, status="wrong", reason="ranks differ"), *others]


def idle(**changes):
    timeline = timeline_ms([36] * 2, [3] * 2, [1] * 2, [17] * 2)
    return [result(step_ms=34.0, timeline=timeline, training=training(**changes))]


LONG_NAME = Variant(tuple(Assignment(f"NCCL_{name}", "x" * 30, PROCESS) for name in "AB"))
REPORT = "rank 1 failed during loading the library\n  no backend odd\n  rank 0: waiting"
UNEVEN = {
    **{"layout": MeshLayout(tp=2, dp=2), "parallel": "combined", "ranks": 4, "by_sequence": True},
    **{"batch": 6, "microbatches": 3, "uneven": (3, 1), "recipe": "flagscale-llama3-8b"},
}
SHARES = ([6, 6, 2, 2], [3 << 20, 3 << 20, 1 << 20, 1 << 20])
LAYOUT = result(
    training=training("llama3-8b", **UNEVEN),
    alone_s=[],
    timeline=None,
    training_s=12.5,
    groups=[
        GroupCalls("dp", 2, "all_reduce", [1] * 4, [8 << 20] * 4),
        GroupCalls("tp", 2, "all_gather", *SHARES),
        GroupCalls("tp", 2, "reduce_scatter", *SHARES),
    ],
)
MIXED = training("tiny-moe", dtype="mixed", balance_weight=0.01)
#: The results, and what else of the run is not usual.
TEXTS = {
    "usual": ([result()], {}),
    "on-host": (idle(), {"runtime": "host"}),
    # The headline qualifies what is of longer steps.
    "long-profile": ([result(step_ms=12.0)], {}),
    "unlike-devices": ([result()], {"names": (H100, "NVIDIA H100 PCIe")}),
    "mixed": ([result(training=MIXED)], {}),
    "layout": ([LAYOUT], {}),
    "failed": ([TrainingResult(0, training(), "skipped", "rank 1 failed", report=REPORT)], {}),
    "long-name": ([result(0), result(0, training=training(variant=LONG_NAME))], {}),
    "wrong.table": (wrong(), {}),
    "wrong.markdown": (wrong(), {}),
    # Two rounds have no interval but the reason.
    **{f"{rounds}-rounds": (compared(rounds, 18.0, 20.0), {}) for rounds in (2, 3)},
    # The remedy of idle devices is possible.
    "idle-ddp": (idle(), {}),
    "idle-compiled": (idle(compiled=True), {}),
    "idle-pp": (idle(parallel="pp"), {}),
}


@pytest.mark.parametrize("name", TEXTS)
def test_texts(name):
    results, of_run = TEXTS[name]
    run = run_of(results, **of_run)
    format = "markdown" if name.endswith(".markdown") else "table"
    text = "".join(replayed(run.journal, format))
    below = text[text.index("\n\n") :]
    require_golden(f"texts/trainings-{name}.txt", f"{documents.headline_of_trainings(run)}{below}")


def test_the_method_names_what_is_compared():
    layouts = map(parse_layout, ("tp=2,dp=2", "tp=2,pp=2", "tp=2,fsdp=2", "pp=2,fsdp=2"))
    lines = [
        documents.method_of_trainings(
            run_of([result(training=training(**changes))], check=check).journal.header
        )
        for changes in (
            *({"parallel": parallel} for parallel in PARALLELISMS),
            *({**STAGES, "layout": layout} for layout in layouts),
        )
        for check in (True, False)
    ]
    require_golden("texts/trainings-methods.txt", "\n".join([*lines, ""]))


def test_a_page_has_the_parts_of_steps_and_the_losses():
    """Compute and exposed communication may together be longer than the profiled step."""
    other = result(1, training=training(**OTHER), timeline=None, losses=[])
    short = StepTimeline(3, [18e-3] * 2, [2e-3] * 2, [2e-3] * 2, [17e-3] * 2)
    of_trainings = partial(sections_of, documents.document_of_trainings, "train")
    sections = [
        of_trainings([run_of(results)])
        for results in ([result(0), other], [result(timeline=short)])
    ]
    require_golden("pages/trainings.txt", outline(sections))
    assert of_trainings([run_of([])]) == []
