"""Steps of trainings and of profiled programs in the same columns, from traces with known sums."""

import dataclasses

import msgspec
import pytest
from msgspec.structs import replace

from cclmark.analysis.steps import steps_of_profile
from cclmark.journal.journal_file import Journal
from cclmark.journal.schema import ProcessTimeline, Profile, ProfileProcess
from cclmark.report.exports import export_content, replayed
from cclmark.work.models import MODELS
from cclmark.work.variants import DEFAULT
from cclmark_importers.importers import TraceFile, import_traces
from cclmark_importers.run import Origin
from cclmark_programs.profile.document import program_of
from cclmark_training.plan import Training
from cclmark_training.result import StepTimeline, TrainingResult
from goldens import outline, require_golden, require_stated
from kineto_events import collective, kernel, trace

MS = 1000  # microseconds
STEPS = 7
STEP_MS, LATE_MS = 14, 20


TRAINED = TrainingResult(
    index=0,
    training=Training(
        **{"variant": DEFAULT, "round": 0, "ccl": "torch:nccl", "model": MODELS["gpt2-254m"]},
        **{"parallel": "ddp", "ranks": 2, "batch": 4, "sequence": 512, "dtype": "bfloat16"},
        **{"optimizer": "adamw", "learning_rate": 3e-4},
    ),
    status="ok",
    losses=[10.8, 9.0],
    step_s=[[18.6e-3] * 12, [18.5e-3] * 12],
    alone_s=[[16.9e-3] * 12, [16.0e-3] * 12],
    timeline=StepTimeline(
        **{"steps": 3, "step_s": [18.7e-3, 18.6e-3], "communication_s": [3e-3, 4e-3]},
        **{"exposed_s": [0.7e-3, 1.6e-3], "compute_s": [17.6e-3, 16.7e-3]},
    ),
)


def annotation(number, stream, begin_us, time_us, category="gpu_user_annotation"):
    """A mark of a step; on the device Kineto writes one for each stream with kernels of it."""
    event = {"ph": "X", "cat": category, "name": f"ProfilerStep#{number}", "pid": 0}
    return {**event, "tid": stream, "ts": begin_us, "dur": time_us}


def events_of(rank, steps=STEPS):
    """Steps of 14 ms, the last one of 20 ms on rank 1.

    In each 10 ms of compute, 6 ms of communication of which 4 are hidden, and 2 ms without any
    work. On rank 1 one millisecond more of communication is exposed instead of idle, which is a
    copy between devices. The last step of rank 1 is idle for 6 ms more.
    """
    events = []
    for number in range(steps):
        at = number * STEP_MS * MS
        is_late = rank == 1 and number == steps - 1
        time_us = (LATE_MS if is_late else STEP_MS) * MS
        events += [
            kernel("gemm", at, 6 * MS),
            kernel("gemm", at + 6 * MS, 3 * MS),
            kernel("elementwise", at + 5 * MS, 2 * MS, 9),  # beside others: it counts once
            collective("allreduce", at + 5 * MS, 6 * MS, 1 << 20, Seq=number),
            kernel("adam", at + 11 * MS, 1 * MS),
            annotation(number, 7, at, time_us),
            annotation(number, 20, at + 5 * MS, 6 * MS),
            annotation(number, 1, at, 9 * MS, "user_annotation"),
        ]
        if rank == 1:
            copy = kernel("Memcpy PtoP (Device -> Device)", at + 12 * MS, 1 * MS, 21)
            events.append({**copy, "cat": "gpu_memcpy"})
    return events


def imported(*each):
    files = [
        TraceFile(f"t{rank}.json", trace(events, rank), Origin(f"t{rank}.json", "d", 0.0, [], "0"))
        for rank, events in enumerate(each)
    ]
    return import_traces(files, "kineto")


@pytest.fixture(scope="module")
def profiled():
    return imported(events_of(0), events_of(1))


@pytest.fixture(scope="module")
def trained(profiled):
    header = replace(profiled.header, imported=None, run_id="of the training")
    return Journal(header=header, results=[TRAINED], footer=profiled.footer)


def test_each_step_of_each_rank_is_kept(profiled):
    first, second = (one.timeline for one in profiled.profile.processes)
    times = [[ms * 1e-3] * STEPS for ms in (14, 6, 2, 10)]
    assert first == ProcessTimeline(*times)
    assert second.step_s == [14e-3] * (STEPS - 1) + [20e-3]
    # A copy between devices is communication, as in trainings.
    parts = (second.communication_s, second.exposed_s, second.compute_s)
    assert parts == tuple([ms * 1e-3] * STEPS for ms in (7, 3, 10))


def profile_of(*timelines, source="plug-in", **more):
    processes = [
        ProfileProcess(rank, "h", 1, 1, 1, timeline=one and ProcessTimeline(*one), **more)
        for rank, one in enumerate(timelines)
    ]
    return Profile(source, processes=processes)


OLD_MEDIANS = {"steps": 9, "step_s": 0.25, "step_communication_s": 0.125}
COMMUNICATION = [([10e-3, 12e-3], [4e-3, 5e-3]), ([11e-3, 11e-3], [3e-3, 4e-3])]
PROFILES = {
    "only communication": profile_of(*COMMUNICATION),
    "different numbers of steps": profile_of(([1.0] * 7,), ([2.0] * 6,), ([],)),
    "medians of an older version": profile_of(None, None, **OLD_MEDIANS),
    **{f"no steps: {one}": profile_of(None, source=one) for one in ("plug-in", "kineto")},
    "no steps: execution-trace": profile_of(None, source="execution-trace"),
    "lists of different lengths": profile_of(([1.0, 1.0], [0.5], [0.5], [0.5])),
}


def test_known_sums_of_steps(profiled):
    """The slowest rank of each step counts; the parts are those of rank 0, which waits least."""
    profiles = {"two ranks": profiled.profile, **PROFILES}
    found = {name: outline(steps_of_profile(one)).splitlines() for name, one in profiles.items()}
    require_stated("words/steps.txt", found)
    old = b'{"rank": 0, "host": "h", "pid": 1, "calls": 1, "listed": 1, "steps": 3, "step_s": 0.5}'
    assert msgspec.json.decode(old, type=ProfileProcess).timeline is None


@pytest.mark.parametrize("format", ["table", "csv"])
def test_texts_have_the_columns_of_trainings(profiled, format):
    """The reason why the plug-in knows only some of them is stated once."""
    header, profile = replace(profiled.header, imported=None), profile_of(*COMMUNICATION[:1] * 2)
    plug_in = dataclasses.replace(profiled, header=header, profile=profile)
    texts = ["".join(replayed(journal, format)) for journal in (profiled, plug_in)]
    if format != "csv":
        texts = [text[text.index("steps, parts in ms") :] for text in texts]
    require_golden(f"texts/steps.{format}.txt", "\n\n".join(texts))


STEPS_CSV = """\
run_id,started_at,host,device,source,kind,variant,work,ccl,ranks,status,reason,step_ms,step_low_ms,\
step_high_ms,profiled_ms,compute_ms,exposed_ms,idle_ms,hidden_ms,communication_ms,timed_steps
of the training,1970-01-01T00:00:00.000+00:00,,process,cclmark 0,train,,gpt2-254m with ddp,\
torch:nccl,2,ok,,18.6,18.6,18.6,18.7,17.6,0.7,0.4,2.3,3,12
{run},1970-01-01T00:00:00.000+00:00,,process,torch.profiler,profile,,t0.json and 1 more,nccl,2,ok,,\
14,14,20,14,10,2,2,4,6,7
"""


def test_several_kinds_are_one_table(trained, profiled):
    text = export_content([("a", trained), ("b", profiled)], "csv", "steps").decode()
    assert text == STEPS_CSV.format(run=profiled.header.run_id)


@pytest.mark.parametrize(
    ("words", "program"),
    [
        ("profile -- torchrun --nproc-per-node 8 train.py", "torchrun --nproc-per-node 8 train.py"),
        ("profile --calls 5 --logs=logs python profile", "python profile"),
        ("profile --read logs", "logs"),
        ("", ""),
    ],
)
def test_the_program_of_a_command(profiled, words, program):
    header = replace(profiled.header, imported=None, command=["cclmark", *words.split()])
    assert program_of(header) == program
