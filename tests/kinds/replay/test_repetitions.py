"""The repetition of a step that is kept, and the medians that a replay is compared with."""

import json
from collections import Counter

import msgspec
import pytest
from msgspec.structs import replace

from cclmark.base.errors import UsageError
from cclmark.journal.journal_file import Journal
from cclmark.journal.schema import Profile
from cclmark.profile.observed import ObservedCall, ObservedGroup, ObservedOperation, ObservedProcess
from cclmark.profile.profile_assembly import assembled_profile
from cclmark.work.variants import DEFAULT
from cclmark_programs.replay.document import errors_of, table_of_replays
from cclmark_programs.replay.figures import summaries_of_replays
from cclmark_programs.replay.plan import OriginalStep, Replay
from cclmark_programs.replay.program_step import step_of
from cclmark_programs.replay.result import ReplayResult
from goldens import outline, require_golden

US = 1000
STEP_US = 1000
# Of an all_reduce and an all_gather, in each repetition: the middle one is untypical.
TYPICAL = (200, 100)


def around(middle, other=TYPICAL):
    return [other] * 4 + [middle] + [other] * 4


LONG = around((900, 600))
DRIFTING = [(200 + number, 100) for number in range(9)]


def process_of(rank, times_us, steps_us=None, *, late=0):
    """A rank whose step is an all_reduce and, 100 µs after it, an all_gather.

    ``times_us``: of both kernels, for each repetition. ``steps_us``: how long each takes.
    ``late``: the number of repetitions before the first one that is listed.
    """
    operations = [
        ObservedOperation("g", name, "nccl", "float32", 256, 1024, calls=len(times_us))
        for name in ("all_reduce", "all_gather")
    ]
    calls = []
    at_ns = (1 + 50 * rank) * US
    for number, (first_us, second_us) in enumerate(times_us):
        second_ns = at_ns + (first_us + 100) * US
        for place, begin_ns, time_us in ((0, at_ns, first_us), (1, second_ns, second_us)):
            end_ns = begin_ns + time_us * US if time_us else 0
            begins_ns = begin_ns if time_us else 0
            calls.append(ObservedCall(place, number + late, begin_ns, begins_ns, end_ns, 0))
        at_ns += (steps_us[number] if steps_us else STEP_US) * US
    groups = {"g": ObservedGroup("g", "world", 2, rank)}
    return ObservedProcess(rank, "host", rank, "nccl", groups, operations, calls)


def journal_of(*processes):
    assembled = assembled_profile("plug-in", processes)
    return Journal(header=None, results=assembled.results, profile=assembled.profile)


def of_both(times, steps_us=None):
    """Two ranks with the same times."""
    return journal_of(*(process_of(rank, times, steps_us) for rank in (0, 1)))


def marked(*steps_us):
    """Processes that mark steps. The first of three takes long, as first steps of programs do."""
    processes = [
        process_of(rank, [(900, 600), TYPICAL, TYPICAL], [5000, 800, 800]) for rank in (0, 1)
    ]
    for one in processes:
        one.steps = [(begin * US, end * US) for begin, end in steps_us]
    return journal_of(*processes)


def times_us(window):
    return [round(one.time_s * 1e6) for one in window]


CROSSED = [(100 + 10 * number, 100 - 10 * number) for number in range(9)]
EQUAL_SUMS = [(100 + number, 100 - number) for number in range(9)]
UNEQUAL_STEPS = [STEP_US] * 4 + [3000] + [STEP_US] * 4
STEPS = {
    "an untypical middle step is not the one that is kept": of_both(
        LONG, [STEP_US] * 4 + [1700] + [STEP_US] * 4
    ),
    "an untypical length of a step counts too": of_both(DRIFTING, UNEQUAL_STEPS),
    "of kernels that take as long together the middle ones are kept": of_both(EQUAL_SUMS),
    "a step with unknown times is not kept": of_both([TYPICAL] * 4 + [(0, 100)] + [(210, 100)] * 4),
    # The mean of the ranks is that of all other steps.
    "ranks that differ in opposite directions are no typical step": journal_of(
        process_of(0, around((50, 100), (300, 100))), process_of(1, around((550, 100), (300, 100)))
    ),
    # Rank 1 lists its calls from the third repetition on.
    "the step is the same on ranks that list other ones": journal_of(
        process_of(0, CROSSED), process_of(1, CROSSED[2:], late=2)
    ),
    "without any times the length decides": of_both([(0, 0)] * 9, UNEQUAL_STEPS),
    "ranks without a common repetition keep their middle": journal_of(
        *(process_of(rank, EQUAL_SUMS[:5], late=3 * rank) for rank in range(3))
    ),
    "ranks that do not repeat keep their calls": journal_of(
        process_of(0, LONG), process_of(1, [TYPICAL])
    ),
    "marked steps are the length of the last repetition too": marked(
        (0, 5000), (5000, 5800), (5800, 6600)
    ),
    # Every step is different: the communication of the ranks is 300, 320, ... 460 µs.
    "the program is compared by medians of its steps": of_both(
        [(200 + 20 * number, 100) for number in range(9)]
    ),
    "a program without a typical step": of_both([(100, 100), (900, 100)] * 5),
}


def replayed(journal):
    """What a replay takes of a profile, or why it takes nothing."""
    try:
        found = step_of(journal, "p")
    except UsageError as error:
        return {"refused": str(error)}
    tail = {"tail_s": found.original.tail_s}
    return {"original": found.original, **tail, "remarks": found.remarks}


def test_the_step_that_is_kept():
    kept = {
        name: {
            "steps": [one.steps for one in journal.profile.processes],
            "begins_us": [round(one.begin_s * 1e6) for one in journal.profile.window[0]],
            **{
                f"times_us of rank {rank}": times_us(own)
                for rank, own in enumerate(journal.profile.window)
            },
            "repetitions": journal.profile.repetitions,
            "replay": replayed(journal),
        }
        for name, journal in STEPS.items()
    }
    require_golden("texts/replay-repetitions.txt", outline(kept))


FIRST_STAGE = ("send", "send", "recv", "send", "recv", "send", "recv", "recv")  # 1F1B
LAST_STAGE = ("recv", "send") * 4


def stage(rank, order, odd):
    """A stage of a pipeline of two in nine steps of 2 ms, in which the kernels become longer.

    The first ``odd`` messages of both directions have another type, as those of shapes have.
    """
    operations = [
        ObservedOperation("g", name, "nccl", dtype, 8, 32, calls=36)
        for dtype in ("float32", "int64")
        for name in ("send", "recv")
    ]
    calls = []
    for number in range(9):
        of_name = Counter()
        for place, name in enumerate(order):
            is_odd = not number and of_name[name] < odd
            of_name[name] += 1
            begin_ns = (1 + number * 2000 + place * 100 + 7 * rank) * US
            own = ("send", "recv").index(name) + 2 * is_odd
            end_ns = begin_ns + (50 + number) * US
            calls.append(ObservedCall(own, 0, begin_ns, begin_ns, end_ns, 0, 1 - rank))
    groups = {"g": ObservedGroup("g", "pp", 2, rank)}
    return ObservedProcess(rank, "host", rank, "nccl", groups, operations, calls)


@pytest.mark.parametrize("odd", [0, 3])
def test_microbatches_of_the_last_stage_are_joined_to_steps(odd):
    """It repeats two calls four times in each step."""
    profile = journal_of(stage(0, FIRST_STAGE, odd), stage(1, LAST_STAGE, odd)).profile
    assert [one.step_calls for one in profile.processes] == [8, 8]
    assert [one.steps for one in profile.processes] == ([8, 8] if not odd else [7, 7])
    assert [one.step_s for one in profile.processes] == pytest.approx([2e-3, 2e-3])
    first, last = (Counter(times_us(window)) for window in profile.window)
    assert (first & last).total() >= 6  # the first stage may begin its step within that of the last
    if not odd:
        assert first == last
        assert len(first) == 1


def earlier(journal, own_us):
    """The journal as earlier versions wrote it: without figures of all repetitions."""
    content = msgspec.to_builtins(journal.profile)
    del content["repetitions"]
    for window in content["window"]:
        for call, time_us in zip(window, own_us, strict=True):
            call["time_s"] = time_us * 1e-6
        window[1]["begin_s"] = (own_us[0] + 100) * 1e-6
    profile = msgspec.convert(json.loads(json.dumps(content)), Profile)
    return Journal(header=None, results=journal.results, profile=profile)


def test_a_profile_of_an_earlier_version_is_compared_by_its_median():
    journal = of_both(LONG)
    found = step_of(earlier(journal, (900, 600)), "p")
    assert found.original.communication_s == pytest.approx((300e-6,) * 2)
    assert found.original.steps == 8
    text = " ".join(found.remarks)
    assert "the profile does not contain the first to last of all steps" in text
    assert "the step that is replayed is not typical" in text
    assert "its communication differs by 400 % from their median" in text
    usual = step_of(earlier(journal, TYPICAL), "p")
    assert "not typical" not in " ".join(usual.remarks)


def test_the_printed_error_is_that_of_the_medians():
    """The replay takes a third longer than the steps of the program, and less than the middle."""
    found = step_of(of_both([*DRIFTING[:4], (900, 600), *DRIFTING[5:]]), "p")
    replay = Replay(DEFAULT, 0, "shm", 2, "p", "", 2, 1, "keep", found.original)
    times = {"span_s": [[500e-6] * 3] * 2, "communication_s": [[406e-6] * 3] * 2}

    def printed(replay):
        summaries = summaries_of_replays([ReplayResult(0, replay, "ok", **times)])
        return table_of_replays(summaries).rows[0], next(errors_of(summaries))

    row, first = printed(replay)
    assert row == ["the program (median of 9 steps)", "0.305", "0.405", "", "1.000"]
    assert first.sentence == (
        "replay against program: communication +33.1 %, step +9.5 % (medians of 9 steps of the "
        "program; half of them have 0.302 to 0.307 ms of communication)"
    )
    communication, step = first.evidence
    assert communication.value / communication.limit == pytest.approx(1.331, abs=1e-3)
    assert (step.name, step.comparison, step.limit) == ("step_ms", ">", pytest.approx(1.0))
    alone = OriginalStep((4e-4,), (3e-4,), (1e-3,))
    row, first = printed(replace(replay, original=alone))
    assert row[0] == "the program"
    assert "median" not in first.sentence


@pytest.mark.parametrize(
    "values",
    [{"communication_s": [1.0]}, {"span_s": [1e9, 1.0]}, {"communication_quartiles_s": [1.0]}],
)
def test_damaged_figures_are_refused(values):
    journal = of_both(LONG)
    known = replace(journal.profile.repetitions, **values)
    profile = replace(journal.profile, repetitions=known)
    with pytest.raises(UsageError, match="damaged"):
        step_of(Journal(header=None, results=journal.results, profile=profile), "p")
