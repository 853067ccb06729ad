"""Trainings: shapes, memory, figures, losses side by side. Nothing here needs torch."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from cclmark.base.errors import UsageError
from cclmark.document.naming import NamedRun
from cclmark.journal.journal_file import Journal
from cclmark.journal.schema import DeviceDescription, Header, Machine
from cclmark.report.exports import replayed
from cclmark.report.run_page import sections_of
from cclmark.work.accelerators import find_accelerator
from cclmark.work.intervals import length_of, union_of, without
from cclmark.work.models import MODELS, find_model
from cclmark.work.outline import outline_of
from cclmark.work.variants import DEFAULT, LIBRARY, PROCESS, Assignment, Variant
from cclmark_training.choices import PARALLELISMS, RECIPE_NAMES
from cclmark_training.command import MODEL_NAMES
from cclmark_training.document import (
    FIELDS,
    cells_of,
    document_of_trainings,
    head_of,
    headline_of_trainings,
    losses_of,
    method_of_trainings,
    model_lines,
    peak_lines,
    remarks_of,
)
from cclmark_training.figures import figures_of, groups_of, summaries_of, total_peak
from cclmark_training.layout import DIMENSIONS, MeshLayout, parse_layout
from cclmark_training.memory import memory_of, shortage, what_fits
from cclmark_training.plan import (
    BatchOptions,
    Training,
    check_training,
    dtype_called,
    parse_microbatches,
    trainings_of,
)
from cclmark_training.recipes import RECIPES, differences
from cclmark_training.result import GroupCalls, ReplicaCheck, StepTimeline, TrainingResult
from goldens import outline, require_golden
from samples import usual_settings

GIB = 1 << 30
EXPERTS = {"parallel": "ep", "model": MODELS["mixtral-8x7b"]}
STAGES = {"parallel": "combined", "layout": MeshLayout(pp=2, dp=2), "ranks": 4, "microbatches": 2}
LIBRARY_VARIANT = Variant((Assignment(LIBRARY, "torch:flagcx", PROCESS),))


def training(model="gpt2-254m", **changes) -> Training:
    usual = Training(
        variant=DEFAULT,
        round=0,
        ccl="torch:nccl",
        model=find_model(model, None) if isinstance(model, str) else model,
        parallel="ddp",
        ranks=2,
        batch=4,
        sequence=512,
        dtype="bfloat16",
        optimizer="adamw",
        learning_rate=3e-4,
    )
    return replace(usual, **changes)


def result(number=0, *, step_ms=18.6, **changes) -> TrainingResult:
    fields = {
        "index": number,
        "training": training(round=number),
        "status": "ok",
        "losses": [10.8, 9.0, 8.0],
        "step_s": [[step_ms / 1e3] * 12, [(step_ms - 0.1) / 1e3] * 12],
        "alone_s": [[16.9e-3] * 12, [16.0e-3] * 12],
        "timeline": StepTimeline(
            steps=3,
            step_s=[18.7e-3, 18.6e-3],
            communication_s=[3e-3, 4e-3],
            exposed_s=[0.7e-3, 1.6e-3],
            compute_s=[17.6e-3, 16.7e-3],
            compute_alone_s=[16.7e-3, 15.9e-3],
        ),
        "estimated_bytes": 4 * GIB,
        "check": ReplicaCheck(254_053_376),
    }
    return TrainingResult(**{**fields, **changes})


def device(rank, name="NVIDIA H100 80GB HBM3"):
    return DeviceDescription(
        rank=rank, host="h", runtime="cuda", index=rank, name=name, memory_bytes=80 * GIB, pid=1
    )


class TestShapes:
    def test_the_names_in_the_help_are_those_of_the_models(self):
        assert tuple(MODELS) == MODEL_NAMES
        with pytest.raises(UsageError, match="unknown model: choose from tiny, "):
            find_model("gpt5", None)

    def test_operations_of_a_token(self):
        # GPT-2 without positions, biases and norms: 12 layers of 12 d^2, and the output head.
        width, layers, vocabulary = 768, 12, 50257
        weights = layers * 12 * width**2 + vocabulary * width
        expected = 6 * weights + 12 * layers * width * 1024
        assert MODELS["gpt2"].operations_per_token(1024) == expected
        assert MODELS["mixtral-8x7b"].multiplied_parameters == pytest.approx(12.75e9, rel=0.001)

    def test_tokens_of_a_step(self):
        assert training().tokens == 2 * 4 * 512
        assert training(parallel="tp").tokens == 4 * 512

    @pytest.mark.parametrize(
        ("changes", "text"),
        [
            ({"sequence": 2048}, "has a context of 1024 tokens"),
            ({"parallel": "none"}, "--parallel none trains on one rank, but there are 2"),
            ({"ranks": 1}, "--parallel ddp requires two ranks or more"),
            ({"parallel": "tp", "ranks": 3}, "3 ranks cannot share 16 key and value heads"),
            (
                {"parallel": "tp", "model": MODELS["mixtral-8x7b"]},
                "tp does not support experts",
            ),
            ({"parallel": "ep"}, "gpt2-254m has no experts"),
            (
                {"parallel": "ep", "model": MODELS["mixtral-8x7b"], "ranks": 3},
                "over 3 ranks, but mixtral-8x7b has 8 experts",
            ),
            ({"parallel": "pp", "microbatches": 1}, "1 microbatches are fewer than 2 stages"),
            ({"parallel": "pp", "microbatches": 3}, "does not divide the batch of 4 sequences"),
            (
                {"parallel": "pp", "microbatches": 4, "model": MODELS["gpt2"].with_layers(1)},
                "1 layers are fewer than 2 stages",
            ),
            ({"balance_weight": 0.01}, "--balance-loss requires experts, and gpt2-254m has none"),
            ({"microbatches": 3}, "3 does not divide the batch of 4 sequences"),
            ({"uneven": (3, 1, 1)}, "3,1,1 has 3 numbers, but ddp over 2 ranks has 2 replicas"),
            (
                {**EXPERTS, "microbatches": 2, "uneven": (2, 1)},
                "with ep all ranks exchange rows in each microbatch",
            ),
            (
                {**STAGES, "microbatches": 4, "uneven": (4, 1)},
                "pp=2,dp=2: 1 microbatches are fewer than 2 stages",
            ),
            ({**STAGES, "ranks": 6}, "pp=2,dp=2 has 4 ranks, but there are 6: the product"),
            (
                {**STAGES, "layout": MeshLayout(tp=2), "ranks": 8},
                "tp=2 has 2 ranks, but there are 8: add dp=4 or fsdp=4",
            ),
            ({"by_sequence": True}, "--sequence-parallel requires tensor parallelism"),
            (
                {"parallel": "tp", "by_sequence": True, "sequence": 511},
                "2 ranks cannot share 511 tokens equally",
            ),
            ({"compiled": True, "parallel": "fsdp"}, "--compile is supported with none, ddp and"),
            (
                {"dtype": "mixed", "parallel": "tp"},
                "mixed is supported with none, ddp, zero1, fsdp and layouts with fsdp, not tp",
            ),
        ],
    )
    def test_what_is_not_possible_is_refused(self, changes, text):
        with pytest.raises(UsageError, match=text):
            check_training(training(**changes))

    def test_types(self):
        assert dtype_called("bf16") == dtype_called("bfloat16") == "bfloat16"
        with pytest.raises(UsageError, match="choose from bfloat16, float32, mixed, bf16, fp32"):
            dtype_called("int8")

    def test_a_variant_may_name_another_library(self):
        planned = trainings_of(training(), [DEFAULT, LIBRARY_VARIANT], 2)
        assert [(one.round, one.ccl) for one in planned] == [
            (0, "torch:nccl"),
            (0, "torch:flagcx"),
            (1, "torch:nccl"),
            (1, "torch:flagcx"),
        ]


class TestLayouts:
    def test_a_layout_as_users_write_it(self):
        found = parse_layout(" tp=2, pp=3,dp=4,fsdp=1")
        assert found == MeshLayout(tp=2, pp=3, dp=4)
        assert found.describe() == "tp=2,pp=3,dp=4"
        assert (found.ranks, found.replicas) == (24, 4)

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("tp2", "'tp2' is not DIMENSION=RANKS"),
            ("tp=0", "'tp=0' is not DIMENSION=RANKS"),
            ("tp=x", "is not DIMENSION=RANKS"),
            ("cp=2", "'cp' is no dimension: choose from tp, pp, dp, fsdp"),
            ("tp=2,tp=4", "contains tp twice"),
            ("dp=2,fsdp=2", "both data parallel: choose dp=4 or fsdp=4"),
        ],
    )
    def test_what_is_no_layout(self, text, message):
        with pytest.raises(UsageError, match=message):
            parse_layout(text)

    @given(st.builds(MeshLayout, **dict.fromkeys(DIMENSIONS, st.integers(1, 4))))
    def test_each_rank_has_a_place_of_its_own(self, layout):
        places = [layout.place_of(rank) for rank in range(layout.ranks)]
        assert [layout.rank_at(*place) for place in places] == [*range(layout.ranks)]
        assert places == sorted(places)  # tensor ranks are neighbours
        assert places[-1] == (layout.pp - 1, layout.replicas - 1, layout.tp - 1)

    def test_sequences_of_unequal_replicas(self):
        one = training(batch=6, microbatches=3, uneven=(3, 1))
        assert one.sequences == [6, 2]
        assert (one.micro_batch, one.global_batch) == (2, 8)
        assert one.tokens == 8 * 512

    def test_ranks_that_hold_equal_parameters(self):
        stages = replace(training(**STAGES), layout=MeshLayout(tp=2, pp=2))
        assert stages.comparable_ranks == (0, 1, 2, 3)  # the tied embedding
        assert replace(stages, model=MODELS["llama3-8b"]).comparable_ranks == ()
        three = replace(stages, layout=MeshLayout(tp=2, pp=3), ranks=6)
        assert three.comparable_ranks == (0, 1, 4, 5)
        assert replace(three, layout=MeshLayout(pp=3, dp=2)).comparable_ranks == (0, 1, 2, 3, 4, 5)
        assert replace(stages, layout=MeshLayout(pp=2, fsdp=2)).comparable_ranks == ()


class TestBatches:
    @pytest.mark.parametrize(
        ("given", "layout", "found"),
        [
            (BatchOptions(), MeshLayout(dp=2), (4, 0, ())),
            (BatchOptions(batch=8), MeshLayout(pp=2), (8, 8, ())),
            (BatchOptions(batch=8, microbatches=(2,)), MeshLayout(pp=2), (8, 2, ())),
            (BatchOptions(whole=16, micro=2), MeshLayout(tp=2, dp=2), (8, 4, ())),
            (BatchOptions(whole=16, micro=8), MeshLayout(dp=2), (8, 0, ())),
            (BatchOptions(micro=2, microbatches=(3,)), MeshLayout(fsdp=4), (6, 3, ())),
            (BatchOptions(microbatches=(8,)), MeshLayout(dp=2), (8, 8, ())),
            (BatchOptions(microbatches=(3, 1)), MeshLayout(dp=2), (3, 3, (3, 1))),
            (BatchOptions(whole=8, microbatches=(3, 1)), MeshLayout(dp=2), (6, 3, (3, 1))),
        ],
    )
    def test_of_each_replica(self, given, layout, found):
        assert given.of(layout) == found

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            (BatchOptions(whole=7), "--global-batch 7 is not a multiple of the 2 replicas"),
            (
                BatchOptions(batch=4, whole=4),
                "--batch 4 of 2 replicas contradicts --global-batch 4",
            ),
            (BatchOptions(batch=4, micro=3), "--micro-batch 3 does not divide the 4 sequences"),
            (
                BatchOptions(batch=4, micro=2, microbatches=(4,)),
                "does not divide the 4 sequences of a replica into 4 microbatches",
            ),
            (BatchOptions(batch=4, microbatches=(3, 1)), "--batch is the same for all replicas"),
            (BatchOptions(whole=9, microbatches=(3, 1)), "9 is not 4 microbatches of 2 sequences"),
        ],
    )
    def test_contradictions(self, given, message):
        with pytest.raises(UsageError, match=message):
            given.of(MeshLayout(dp=2))

    def test_numbers_of_microbatches(self):
        assert parse_microbatches("3, 1") == (3, 1)
        for text in ("", "3,", "0", "99999", "1.5", "123456"):
            with pytest.raises(UsageError):
                parse_microbatches(text)


class TestRecipes:
    def test_the_names_in_the_help_are_those_of_the_recipes(self):
        assert tuple(RECIPES) == RECIPE_NAMES

    def test_what_differs_is_named(self):
        whole = training(
            *("llama3-8b",),
            parallel="combined",
            layout=MeshLayout(tp=4, pp=2, fsdp=2),
            ranks=16,
            by_sequence=True,
            batch=1024,
            microbatches=1024,
            sequence=4096,
            dtype="mixed",
            learning_rate=1e-5,
            recipe="flagscale-llama3-8b",
        )
        check_training(whole)
        assert [*differences(whole)] == []
        other = replace(
            *(whole,),
            model=whole.model.with_layers(4),
            layout=MeshLayout(tp=2, pp=2),
            ranks=4,
            batch=8,
            microbatches=8,
            dtype="bfloat16",
        )
        assert [*differences(other)] == [
            *("4 of 32 layers", "tp=2 instead of 4", "global batch 8 instead of 2048"),
            "type bfloat16 instead of mixed",
        ]
        (summary,) = summaries_of([result(training=other)], [])
        layers, memory, recipe = model_lines(summary.training)
        assert memory.startswith("memory of a rank: at least ")
        assert layers.startswith("4 of the 32 layers of llama3-8b: times, bytes and memory are not")
        assert "examples/llama3/conf/train/8b.yaml): 4 of 32 layers, tp=2 instead of 4" in recipe


class TestCallsByGroup:
    CALLS = (
        GroupCalls("tp", 2, "all_reduce", [2, 2, 2, 2], [100, 100, 300, 300]),
        GroupCalls("tp", 2, "all_gather", [1, 1, 0, 0], [80, 80, 0, 0]),
        GroupCalls("pp", 2, "send", [3, 3, 3, 3], [30, 30, 30, 30]),
    )

    def test_figures_are_those_of_the_rank_that_sends_most(self):
        layout = {**STAGES, "layout": MeshLayout(tp=2, pp=2)}
        one = result(training=training(**layout), groups=list(self.CALLS))
        tensor, pipeline = groups_of(one)
        # An all-reduce over two ranks sends as much as its message, an all_gather the half.
        assert (tensor.group, tensor.sent_bytes) == ("tp", 300)
        assert tensor.calls == {"all_reduce": (2, 300)}
        assert pipeline.sent_bytes == 30
        columns = {field.key: field.cell(one) for field in FIELDS.all}
        assert columns["sent_bytes"] == 330
        assert (columns["tp_sent_bytes"], columns["pp_sent_bytes"]) == (300, 30)
        assert columns["dp_sent_bytes"] is None
        assert columns["parallel"] == "tp=2,pp=2"


class TestMemory:
    def test_states_are_exact(self):
        need = memory_of(training())
        parameters = 254_053_376
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
        assert update.activations == 0
        assert update.gradients == 2 * parameters

    def test_mixed_types_double_the_states_and_add_copies(self):
        usual, mixed = memory_of(training()), memory_of(training(dtype="mixed"))
        assert mixed.parameters == 2 * usual.parameters
        assert mixed.optimizer == 2 * usual.optimizer
        assert mixed.copies == 2 * MODELS["gpt2-254m"].multiplied_parameters
        sharded = memory_of(training(parallel="fsdp", dtype="mixed"))
        assert sharded.copies == 0
        assert sharded.buffers == memory_of(training(parallel="fsdp")).buffers

    def test_a_stage_holds_the_microbatches_between_their_passes(self):
        # The first of four stages holds four microbatches of any number, the last one's logits
        # are those of one.
        model = replace(MODELS["gpt2-254m"], vocabulary=512)
        base = training(model=model, parallel="pp", ranks=4, batch=32, dtype="float32")
        few, many = (memory_of(replace(base, microbatches=number)) for number in (8, 32))
        assert few.activations == pytest.approx(4 * many.activations)
        assert few.gradients == few.parameters
        text = shortage(replace(base, microbatches=4), few.total)
        assert "--microbatches 8" in text
        assert "--dtype bfloat16" in text
        more = replace(base, microbatches=8)
        assert "8 devices" in what_fits(more, few.total - 1)

    def test_activations_of_gpt2_are_34_bytes_less_dropout_masks(self):
        # Korthikanti et al., arXiv 2205.05198: 34 s b h bytes per layer, of which 2 are masks of
        # dropout; the quadratic part does not exist with a fused attention.
        one, more = (
            memory_of(training(model=MODELS["gpt2-254m"].with_layers(layers))).activations
            for layers in (1, 2)
        )
        assert more - one == 32 * 4 * 512 * 1024

    @pytest.mark.parametrize("parallel", [name for name in PARALLELISMS if name != "none"])
    def test_more_layers_and_sequences_require_more(self, parallel):
        model = MODELS["mixtral-8x7b" if parallel == "ep" else "llama3-8b"]
        few = training(parallel=parallel, model=model.with_layers(4), microbatches=4)
        many = training(parallel=parallel, model=model, microbatches=4)
        large = training(parallel=parallel, model=model, batch=256, microbatches=4)
        assert memory_of(few).total < memory_of(many).total < memory_of(large).total

    def test_what_would_fit_fits_and_one_more_does_not(self):
        one = training(model=MODELS["llama3-8b"], sequence=1024, batch=2)
        limit = 60 * GIB
        assert memory_of(one).total > limit
        found = dict(text.split() for text in what_fits(one, limit))
        layers = int(found["--layers"])
        at_most, more = (
            memory_of(replace(one, model=one.model.with_layers(number))).total
            for number in (layers, layers + 1)
        )
        assert at_most <= limit < more
        assert list(found) == ["--parallel", "--layers"]
        text = shortage(one, limit)
        assert "llama3-8b, 32 layers, 8,030,261,248 parameters, ddp over 2 ranks" in text
        assert "requires at least" in text
        assert text.endswith(
            "60 GiB are free: it fits by this estimate with --parallel zero1, or with --layers "
            f"{layers}"
        )

    def test_a_combination_that_is_refused_is_not_proposed(self):
        one = training(model=MODELS["llama3-8b"], sequence=1024, compiled=True)
        limit = memory_of(replace(one, parallel="fsdp")).total
        assert memory_of(replace(one, parallel="zero1")).total > limit
        assert what_fits(one, limit)
        assert not any("fsdp" in text for text in what_fits(one, limit))
        plain = replace(one, compiled=False, batch=1)
        limit = memory_of(replace(plain, parallel="fsdp")).total
        assert "--parallel fsdp" in what_fits(plain, limit)

    def test_both_may_have_to_be_smaller(self):
        one = training(model=MODELS["gpt2-xl"], batch=64, sequence=1024, dtype="float32")
        best, nearest = what_fits(one, 4 * GIB)
        assert best.startswith("--parallel fsdp --dtype bfloat16 --batch 1 --layers ")
        assert nearest.startswith("--batch 1 --layers ")
        assert int(best.split()[-1]) > int(nearest.split()[-1])
        assert what_fits(one, GIB // 8) == []
        assert "choose a smaller --model or --vocabulary" in shortage(one, GIB // 8)


def changed(one: Training, text: str) -> Training:
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
    training(model=name, sequence=64, batch=batch, ranks=ranks, dtype=dtype, parallel=parallel)
    for name in ("gpt2-254m", "llama3.2-1b")
    for batch in (2, 3)
    for ranks, parallel in ((1, "none"), (2, "ddp"), (2, "zero1"), (2, "tp"), (4, "fsdp"))
    for dtype in ("float32", "bfloat16")
] + [
    training(model="gpt2-254m", batch=8, ranks=2, parallel="pp", microbatches=parts, sequence=64)
    for parts in (2, 4, 8)
]


class TestAdvice:
    """What the refusal of a training advises."""

    def test_several_changes_together_where_none_suffices(self):
        one = training(model="llama3-8b", sequence=1024, dtype="float32")
        text = shortage(one, 11 * GIB, on_host=True)
        assert text.endswith(
            "it fits by this estimate with --parallel fsdp --dtype bfloat16 --batch 1 --layers 7, "
            "or with --parallel fsdp --batch 1 --layers 1"
        )
        assert "devices" not in text

    @given(st.sampled_from(SHAPES), st.integers(1, 1 << 12))
    def test_it_is_possible_and_fits(self, one, share):
        limit = memory_of(one).total * share >> 12
        found = what_fits(one, limit)
        for text in found:
            number, _, word = text.partition(" ")
            other = replace(one, ranks=int(number)) if word == "devices" else changed(one, text)
            check_training(other)
            assert memory_of(other).total <= limit
        assert len(set(found)) == len(found)

    @given(st.sampled_from(SHAPES), st.integers(1, 1 << 12))
    def test_something_is_advised_if_anything_fits(self, one, share):
        limit = min(memory_of(one).total * share >> 12, memory_of(one).total - 1)

        def fits(parallel, dtype, batch, layers):
            other = replace(
                one,
                parallel=parallel,
                dtype=dtype,
                batch=batch,
                model=one.model.with_layers(layers),
            )
            return memory_of(other).total <= limit

        if one.parallel == "pp":
            return
        parallels = {one.parallel, *(["fsdp"] if one.ranks > 1 else [])}
        options = list(itertools.product(parallels, {one.dtype, "bfloat16"}, (1, one.batch - 1)))
        found = [text for text in what_fits(one, limit) if "devices" not in text]
        whole = any(fits(*some, one.model.layers) for some in options)
        fewer = any(fits(*some, 1) for some in options)
        first = found[0] if found else ""
        assert ("--layers" not in first and "--sequence" not in first and bool(first)) == whole
        if fewer and not whole:
            assert "--layers" in first
            assert "--sequence" not in first
            # No other change keeps more layers.
            layers = changed(one, first).model.layers
            assert layers + 1 == one.model.layers or not any(
                fits(*some, layers + 1) for some in options
            )

    @pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
    def test_more_devices_only_where_they_lower_the_memory_of_each(self, parallel):
        one = training(model="llama3-8b", parallel=parallel, sequence=1024)
        limit = 40 * GIB
        found = [text for text in what_fits(one, limit) if "devices" in text]
        assert found == (["4 devices"] if parallel == "fsdp" else [])
        assert not [text for text in what_fits(one, limit, on_host=True) if "devices" in text]

    def test_fewer_sequences_of_a_pipeline_have_as_many_microbatches(self):
        one = training(model="llama3-8b", parallel="pp", ranks=4, batch=8, microbatches=8)
        least = replace(one, batch=5, microbatches=5)
        found = what_fits(one, memory_of(least).total)
        assert found[0] == "--batch 5 --microbatches 5"

    def test_replicas_of_a_layout_may_share_their_parameters(self):
        one = training(**STAGES)
        found = what_fits(one, memory_of(replace(one, layout=MeshLayout(pp=2, fsdp=2))).total)
        assert found[0] == "--layout pp=2,fsdp=2"

    def test_shorter_sequences_where_nothing_else_suffices(self):
        one = training(model="llama3.2-1b", sequence=131072)
        assert what_fits(one, 75 * GIB) == ["--batch 1 --sequence 16384"]


SPANS = st.lists(
    st.tuples(st.integers(0, 60), st.integers(1, 20)).map(lambda one: (one[0], sum(one)))
)


class TestTimeline:
    @given(SPANS, SPANS)
    def test_what_nothing_covers_is_counted_once(self, some, others):
        def at(spans, moment):
            return any(begin <= moment < end for begin, end in spans)

        moments = range(90)
        united = union_of(some)
        assert length_of(united) == sum(at(some, moment) for moment in moments)
        assert all(one[1] < other[0] for one, other in itertools.pairwise(united))
        alone = sum(at(some, one) and not at(others, one) for one in moments)
        assert length_of(without(united, union_of(others))) == alone


class TestFigures:
    def test_they_are_those_of_the_rank_that_computes_longest(self):
        found = figures_of(result())
        assert found.step_s == pytest.approx(18.6e-3)
        assert found.alone_s == pytest.approx(16.9e-3)
        assert found.rank == 0
        assert found.exposed_s == pytest.approx(0.7e-3)
        assert found.hidden_s == pytest.approx(2.3e-3)
        assert found.slow_down_s == pytest.approx(0.9e-3)
        assert found.cost_s == pytest.approx(1.7e-3)
        assert found.compute_s == pytest.approx(17.6e-3)
        assert found.idle_s == pytest.approx(18.7e-3 - 17.6e-3 - 0.7e-3)

    @pytest.mark.parametrize(
        ("step_ms", "communication_ms", "exposed_ms", "compute_ms", "rank"),
        [
            # The rank that waits least counts.
            ([18, 18.1], [3, 4], [1.6, 0.7], [16, 17], 1),
            # The first stage waits for the last one, but its communication is less exposed.
            ([30] * 3, [9] * 3, [2, 9, 4], [8, 8, 25], 2),
            # Noise of compute decides nothing.
            ([30] * 2, [9] * 2, [2, 9], [19, 20], 0),
        ],
    )
    def test_without_a_step_alone_the_timeline_decides(
        self, step_ms, communication_ms, exposed_ms, compute_ms, rank
    ):
        parts = (step_ms, communication_ms, exposed_ms, compute_ms)
        timeline = StepTimeline(3, *([part / 1e3 for part in own] for own in parts))
        found = figures_of(result(alone_s=[], timeline=timeline))
        assert found.rank == rank
        assert found.exposed_s * 1e3 == pytest.approx(exposed_ms[rank])
        assert found.compute_s * 1e3 == pytest.approx(compute_ms[rank])
        idle_ms = step_ms[rank] - compute_ms[rank] - exposed_ms[rank]
        assert found.idle_s * 1e3 == pytest.approx(idle_ms)
        assert found.cost_s is found.slow_down_s is None

    def test_without_a_timeline_the_step_is_known(self):
        found = figures_of(result(timeline=None))
        assert found.exposed_s is found.idle_s is None
        assert found.cost_s == pytest.approx(1.7e-3)
        assert figures_of(TrainingResult(0, training(), "died")) is None

    def test_rates_and_share_of_the_peak(self):
        (one,) = summaries_of([result()], [device(0), device(1)])
        assert one.tokens_per_s == pytest.approx(4096 / 18.6e-3)
        expected = 4096 * MODELS["gpt2-254m"].operations_per_token(512) / 18.6e-3 / 2 / 989.4e12
        assert one.share_of_peak == pytest.approx(expected)
        mixed = result(training=training(dtype="mixed"))
        assert summaries_of([mixed], [device(0), device(1)])[0].share_of_peak == one.share_of_peak
        (one,) = summaries_of([result()], [device(0), device(1, "Unheard Of 9000")])
        assert one.share_of_peak is None
        assert (
            one.peak_reason == "the peak rate of Unheard Of 9000 is unknown; --peak TFLOPS sets it"
        )
        unknown = next(remarks_of([one]))
        assert unknown.severity == "unknown"
        assert cells_of(one, [one])[head_of([one]).index("MFU")] == "unknown"
        given = result(training=training(peak_flops=2 * 989.4e12))
        (one,) = summaries_of([given], [device(0), device(1, "Unheard Of 9000")])
        assert one.share_of_peak == pytest.approx(expected / 2)
        (text,) = peak_lines([one])
        assert text == "MFU of the peak, 1978.8 TFLOP/s for each device (given by --peak)"

    @pytest.mark.parametrize(
        ("name", "rate"),
        [
            ("NVIDIA H100 80GB HBM3", 989.4e12),
            ("NVIDIA H100 PCIe", 756e12),
            ("NVIDIA H200", 989.4e12),
            ("NVIDIA A100-SXM4-80GB", 312e12),
            ("NVIDIA B200", 2250e12),
        ],
    )
    def test_names_of_devices(self, name, rate):
        assert find_accelerator(name).peak_flops == rate
        total, sources = total_peak([name] * 2)
        assert total == 2 * rate
        assert sources.count("datasheet") == 1

    @pytest.mark.parametrize("name", ["NVIDIA GeForce", "NVIDIA H100 80GB HBM3 MIG 1g.10gb"])
    def test_names_of_other_devices(self, name):
        assert find_accelerator(name) is None

    def test_compute_alone_that_is_known_of_one_rank_only_is_ignored(self):
        timeline = result().timeline
        timeline.compute_alone_s = [15.9e-3]
        found = figures_of(result(timeline=timeline, alone_s=[[16e-3] * 12, [17e-3] * 12]))
        assert found.rank == 1
        assert found.slow_down_s is None

    def test_the_parts_of_several_rounds_add_up(self):
        parts = [(20e-3, 9e-3, 1e-3), (22e-3, 3e-3, 8e-3), (30e-3, 6e-3, 2e-3)]
        rounds = [
            result(number, timeline=StepTimeline(3, [all_s] * 2, [9e-3] * 2, [out] * 2, [own] * 2))
            for number, (all_s, own, out) in enumerate(parts)
        ]
        (one,) = summaries_of(rounds, [])
        assert (one.figures.profiled_s, one.figures.compute_s, one.figures.exposed_s) == parts[1]
        assert one.figures.idle_s == pytest.approx(11e-3)

    def test_variants_are_compared_within_rounds(self):
        results = []
        for number, step_ms in enumerate((10.0, 20.0, 40.0)):
            results.append(result(number, step_ms=step_ms))
            other = training(round=number, variant=LIBRARY_VARIANT, ccl="torch:flagcx")
            results.append(result(number, step_ms=1.5 * step_ms, training=other))
        default, other = summaries_of(results, [])
        assert default.ratio is None
        assert other.ratio.ratio == pytest.approx(1.5)
        assert other.figures.step_s == pytest.approx(30e-3)

    def test_losses_side_by_side_and_in_repetitions(self):
        variant = training(variant=LIBRARY_VARIANT, ccl="torch:flagcx")
        results = [
            result(0),
            result(1, losses=[10.8, 9.0, 8.0 + 1e-3]),
            result(0, training=variant, losses=[10.8, 9.5, 8.25, 7.0]),
        ]
        summaries = summaries_of(results, [])
        assert summaries[0].repetition == pytest.approx(1e-3)
        beside = summaries[1].beside_default
        assert (beside.steps, beside.at) == (3, 2)
        assert beside.largest == pytest.approx(0.5)
        assert (beside.last, beside.default_last) == (8.25, 8.0)
        assert [*losses_of(summaries)][1].sentence == (
            "losses of torch:flagcx and torch:nccl over 3 steps: largest difference 0.5, at step "
            "2; last 8.250000 and 8.000000"
        )


def run_of(
    results, *, runtime="cuda", names=("NVIDIA H100 80GB HBM3",) * 2, **settings
) -> NamedRun:
    machine = Machine("h", "6", "x86_64", "", 8, 1 << 30, "3.12")
    devices = [replace(device(rank, name), runtime=runtime) for rank, name in enumerate(names)]
    plan = outline_of([one.training for one in results], 2, 2)
    header = Header(
        *(1, "0", "", [], machine, devices, [], [], {}, usual_settings(**settings)), plan=plan
    )
    return NamedRun("a", Journal(header=header, results=results))


def compared(rounds, default_ms, other_ms, *, drift_ms=1.0):
    """Rounds of two libraries, in which steps become longer."""
    return [
        one
        for number in range(rounds)
        for one in (
            result(number, step_ms=default_ms + drift_ms * number),
            result(
                number,
                step_ms=other_ms + drift_ms * number,
                training=training(round=number, variant=LIBRARY_VARIANT, ccl="torch:flagcx"),
            ),
        )
    ]


def wrong():
    """What is wrong comes before the ratios and the remarks."""
    first, *others = compared(2, 10.0, 15.0, drift_ms=0.0)
    return [replace(first, status="wrong", reason="ranks differ"), *others]


IDLE = StepTimeline(3, [36e-3] * 2, [3e-3] * 2, [1e-3] * 2, [17e-3] * 2)
LONG = Variant(tuple(Assignment(f"NCCL_{name}", "x" * 30, PROCESS) for name in "AB"))
REPORT = "rank 1 failed during loading the library\n  no backend odd\n  rank 0: waiting"
MIXED = {"dtype": "mixed", "balance_weight": 0.01}
LAYOUT = result(
    training=training(
        *("llama3-8b",),
        parallel="combined",
        layout=MeshLayout(tp=2, dp=2),
        ranks=4,
        by_sequence=True,
        batch=6,
        microbatches=3,
        uneven=(3, 1),
        recipe="flagscale-llama3-8b",
    ),
    alone_s=[],
    timeline=None,
    training_s=12.5,
    groups=[
        GroupCalls("dp", 2, "all_reduce", [1] * 4, [8 << 20] * 4),
        GroupCalls("tp", 2, "all_gather", [6, 6, 2, 2], [3 << 20, 3 << 20, 1 << 20, 1 << 20]),
        GroupCalls("tp", 2, "reduce_scatter", [6, 6, 2, 2], [3 << 20, 3 << 20, 1 << 20, 1 << 20]),
    ],
)
#: The results, and what else of the run is not usual.
TEXTS = {
    "usual": ([result()], {}),
    "on-host": ([result(step_ms=34.0, timeline=IDLE)], {"runtime": "host"}),
    # The headline qualifies what is of longer steps.
    "long-profile": ([result(step_ms=12.0)], {}),
    "unlike-devices": ([result()], {"names": ("NVIDIA H100 80GB HBM3", "NVIDIA H100 PCIe")}),
    "mixed": ([result(training=training("tiny-moe", **MIXED))], {}),
    "layout": ([LAYOUT], {}),
    "failed": ([TrainingResult(0, training(), "skipped", "rank 1 failed", report=REPORT)], {}),
    "long-name": ([result(0), result(0, training=training(variant=LONG))], {}),
    "wrong.table": (wrong(), {}),
    "wrong.markdown": (wrong(), {}),
    # Two rounds have no interval but the reason.
    **{f"{rounds}-rounds": (compared(rounds, 18.0, 20.0), {}) for rounds in (1, 2, 3)},
    # The remedy of idle devices is possible.
    **{
        f"idle-{name}": ([result(step_ms=34.0, timeline=IDLE, training=training(**changes))], {})
        for name, changes in {
            "ddp": {},
            "compiled": {"compiled": True},
            **{parallel: {"parallel": parallel} for parallel in ("fsdp", "ep", "pp")},
        }.items()
    },
}


@pytest.mark.parametrize("name", TEXTS)
def test_texts(name):
    results, of_run = TEXTS[name]
    run = run_of(results, **of_run)
    format = "markdown" if name.endswith(".markdown") else "table"
    text = "".join(replayed(run.journal, format))
    below = text[text.index("\n\n") :]
    require_golden(f"texts/trainings-{name}.txt", f"{headline_of_trainings(run)}{below}")


LAYOUTS = ("tp=2,dp=2", "tp=2,pp=2", "tp=2,fsdp=2", "pp=2,fsdp=2")


def test_the_method_names_what_is_compared():
    lines = [
        method_of_trainings(
            run_of([result(training=training(**changes))], check=check).journal.header
        )
        for changes in (
            *({"parallel": parallel} for parallel in PARALLELISMS),
            *({**STAGES, "layout": parse_layout(text)} for text in LAYOUTS),
        )
        for check in (True, False)
    ]
    require_golden("texts/trainings-methods.txt", "\n".join([*lines, ""]))


def test_a_page_has_the_parts_of_steps_and_the_losses():
    """Compute and exposed communication may together be longer than the profiled step."""
    other = training(variant=LIBRARY_VARIANT, ccl="torch:flagcx")
    short = StepTimeline(3, [18e-3] * 2, [2e-3] * 2, [2e-3] * 2, [17e-3] * 2)
    sections = [
        sections_of(document_of_trainings, "train", [run_of(results)])
        for results in (
            [result(0), result(1, training=other, timeline=None, losses=[])],
            [result(timeline=short)],
        )
    ]
    require_golden("pages/trainings.txt", outline(sections))
    assert sections_of(document_of_trainings, "train", [run_of([])]) == []
