"""The repetition of a step that is kept, and the medians that a replay is compared with."""

import json
from collections import Counter

import msgspec
import pytest
from msgspec.structs import replace

from cclmark.base.errors import UsageError
from cclmark.journal.journal_file import Journal
from cclmark.journal.schema import Profile
from cclmark.profile.observed import (
    ObservedCall,
    ObservedGroup,
    ObservedOperation,
    ObservedProcess,
)
from cclmark.profile.profile_assembly import assembled_profile
from cclmark.work.variants import DEFAULT
from cclmark_programs.replay.document import errors_of, table_of_replays
from cclmark_programs.replay.figures import summaries_of_replays
from cclmark_programs.replay.plan import OriginalStep, Replay
from cclmark_programs.replay.program_step import step_of
from cclmark_programs.replay.result import ReplayResult

US = 1000
STEP_US = 1000
# Of an all_reduce and an all_gather, in each repetition: the middle one is untypical.
TYPICAL = (200, 100)
LONG = [TYPICAL] * 4 + [(900, 600)] + [TYPICAL] * 4


def process_of(rank, times_us, steps_us=None, *, late=0, group="g"):
    """A rank whose step is an all_reduce and, 100 µs after it, an all_gather.

    ``times_us``: of both kernels, for each repetition. ``steps_us``: how long each takes.
    ``late``: the number of repetitions before the first one that is listed.
    """
    operations = [
        ObservedOperation(group, name, "nccl", "float32", 256, 1024, calls=len(times_us))
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
    groups = {group: ObservedGroup(group, "world", 2, rank)}
    return ObservedProcess(rank, "host", rank, "nccl", groups, operations, calls)


def journal_of(*processes):
    assembled = assembled_profile("plug-in", processes)
    return Journal(header=None, results=assembled.results, profile=assembled.profile)


def of_both(times, steps_us=None):
    """Two ranks with the same times."""
    return journal_of(*(process_of(rank, times, steps_us) for rank in (0, 1)))


def times_us(window):
    return [round(one.time_s * 1e6) for one in window]


def test_an_untypical_middle_step_is_not_the_one_that_is_kept():
    steps_us = [STEP_US] * 4 + [1700] + [STEP_US] * 4
    profile = of_both(LONG, steps_us).profile
    assert [times_us(window) for window in profile.window] == [[200, 100]] * 2
    assert profile.repetitions.compared == 9
    assert profile.repetitions.communication_s == pytest.approx([300e-6] * 2)
    assert profile.repetitions.span_s == pytest.approx([400e-6] * 2)
    assert profile.repetitions.communication_deviation == 0.0


DRIFTING = [(200 + number, 100) for number in range(9)]


@pytest.mark.parametrize(
    ("times", "steps_us", "kept"),
    [
        # An untypical length of a step counts too.
        (DRIFTING, [STEP_US] * 4 + [3000] + [STEP_US] * 4, [203, 100]),
        # Of kernels that take as long together the middle ones are kept.
        ([(100 + number, 100 - number) for number in range(9)], None, [104, 96]),
        # A step with unknown times is not kept.
        ([TYPICAL] * 4 + [(0, 100)] + [(210, 100)] * 4, None, [200, 100]),
    ],
)
def test_the_step_that_is_kept(times, steps_us, kept):
    profile = of_both(times, steps_us).profile
    assert [times_us(window) for window in profile.window] == [kept] * 2


def test_ranks_that_differ_in_opposite_directions_are_no_typical_step():
    """The mean of the ranks is that of all other steps."""
    late = [(300, 100)] * 4 + [(50, 100)] + [(300, 100)] * 4
    early = [(300, 100)] * 4 + [(550, 100)] + [(300, 100)] * 4
    profile = journal_of(process_of(0, late), process_of(1, early)).profile
    assert [times_us(window) for window in profile.window] == [[300, 100]] * 2


def test_the_step_is_the_same_on_ranks_that_list_other_ones():
    """Rank 1 lists its calls from the third repetition on."""
    times = [(100 + 10 * number, 100 - 10 * number) for number in range(9)]
    profile = journal_of(process_of(0, times), process_of(1, times[2:], late=2)).profile
    assert times_us(profile.window[0]) == times_us(profile.window[1])
    assert profile.repetitions.compared == 7


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


@pytest.mark.parametrize("odd", range(4))
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


def test_as_many_repetitions_without_messages_are_no_parts():
    """Rank 1 has eight times as many collectives of another group."""
    other = [TYPICAL] * 72
    profile = journal_of(process_of(0, LONG), process_of(1, other, group="other")).profile
    assert [one.steps for one in profile.processes] == [8, 71]


def test_without_any_times_the_length_decides():
    steps_us = [STEP_US] * 4 + [3000] + [STEP_US] * 4
    journal = of_both([(0, 0)] * 9, steps_us)
    window = journal.profile.window[0]
    assert [round(one.begin_s * 1e6) for one in window] == [0, 100]
    assert journal.profile.repetitions.communication_s == []
    assert journal.profile.repetitions.step_deviation == 0.0
    assert step_of(journal, "p").original.communication_s == ()


def test_ranks_without_a_common_repetition_keep_their_middle():
    times = [(100 + number, 100 - number) for number in range(5)]
    processes = [process_of(number, times, late=late) for number, late in enumerate((0, 3, 6))]
    profile = journal_of(*processes).profile
    assert [times_us(window) for window in profile.window] == [[102, 98]] * 3
    assert profile.repetitions is None


def test_marked_steps_are_the_length_of_the_last_repetition_too():
    """The first one of three takes long, as the first steps of programs do."""
    processes = [
        process_of(rank, [(900, 600), TYPICAL, TYPICAL], [5000, 800, 800]) for rank in (0, 1)
    ]
    for one in processes:
        one.steps = [(0, 5000 * US), (5000 * US, 5800 * US), (5800 * US, 6600 * US)]
    profile = journal_of(*processes).profile
    assert [times_us(window) for window in profile.window] == [[200, 100]] * 2
    assert profile.repetitions.step_deviation == 0.0
    for one in processes:
        one.steps = [(0, 9000 * US)]
    assert journal_of(*processes).profile.repetitions.step_deviation > 0.1


def test_ranks_that_do_not_repeat_keep_their_calls():
    whole, short = process_of(0, LONG), process_of(1, [TYPICAL])
    profile = journal_of(whole, short).profile
    assert [times_us(window) for window in profile.window] == [[200, 100]] * 2
    assert profile.repetitions is None


def test_the_program_is_compared_by_medians_of_its_steps():
    # Every step is different: the communication of the ranks is 300, 320, ... 460 µs.
    found = step_of(of_both([(200 + 20 * number, 100) for number in range(9)]), "p")
    assert found.original.communication_s == pytest.approx((380e-6,) * 2)
    assert found.original.span_s == pytest.approx((480e-6,) * 2)
    assert found.original.step_s == pytest.approx((1000e-6,) * 2)
    assert found.original.steps == 9
    assert found.original.quartiles_s == pytest.approx((340e-6, 420e-6))
    assert found.original.tail_s == pytest.approx(520e-6)
    assert not any("typical" in one for one in found.remarks)


def test_a_program_without_a_typical_step_is_stated():
    found = step_of(of_both([(100, 100), (900, 100)] * 5), "p")
    (text,) = [one for one in found.remarks if "typical" in one]
    assert text.startswith("no step of the program is typical")
    assert "differs from them by 67 % in communication and 0 % in its length" in text


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
    times = [*DRIFTING]
    times[4] = (900, 600)
    found = step_of(of_both(times), "p")
    replay = Replay(DEFAULT, 0, "shm", 2, "p", "", 2, 1, "keep", found.original)
    spans_s, communication_s = [[500e-6] * 3] * 2, [[406e-6] * 3] * 2
    result = ReplayResult(0, replay, "ok", span_s=spans_s, communication_s=communication_s)
    (summary,) = summaries_of_replays([result])
    row, first = table_of_replays([summary]).rows[0], next(errors_of([summary]))
    assert row == ["the program (median of 9 steps)", "0.305", "0.405", "", "1.000"]
    assert first.sentence == (
        "replay against program: communication +33.1 %, step +9.5 % (medians of 9 steps of the "
        "program; half of them have 0.302 to 0.307 ms of communication)"
    )
    communication, step = first.evidence
    assert communication.value / communication.limit == pytest.approx(1.331, abs=1e-3)
    assert (step.name, step.comparison, step.limit) == ("step_ms", ">", pytest.approx(1.0))
    alone = OriginalStep((4e-4,), (3e-4,), (1e-3,))
    one = replace(replay, original=alone)
    (summary,) = summaries_of_replays([replace(result, replay=one)])
    assert table_of_replays([summary]).rows[0][0] == "the program"
    assert "median" not in next(errors_of([summary])).sentence


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
