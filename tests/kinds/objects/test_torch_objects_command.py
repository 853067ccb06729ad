"""``cclmark torch objects`` with torch's own gloo, and with backends that have known faults."""

from functools import partial
from pathlib import Path

import pytest

from cclmark_training.objects.figures import figures_of
from cclmark_training.objects.result import ObjectResult
from fake_backends import find_fakes
from patience import waits
from refusals import require_refusals

OBJECTS = ("torch", "objects", "--backend", "gloo", "--max-time", "0.02")
LIST = ("all_gather_object", "broadcast_object_list", "scatter_object_list", "gather_object")


def test_nonsense_is_refused_before_anything_starts(tag, tmp_path, torch):
    require_refusals(Path(__file__).with_name("refused.txt"), tag, tmp_path, [])


def test_every_call_is_measured_and_checked(cclmark, torch, no_leaks):
    """With three ranks: the last one has no partner to send to."""
    run = cclmark(*OBJECTS, "-g", "3", "-b", "10", "-e", "3000", "-f", "300")
    results = run.journal.of(ObjectResult)
    assert [one.call.operation for one in results] == ["flag", *(*LIST, "send_object_list")]
    assert [one.call.size_bytes for one in results] == [4, *[3000] * 5]
    assert {(one.status, one.checked) for one in results} == {("ok", True)}
    for one in results:
        assert len(one.times.objects_s) >= 7
        assert {len(row) for row in (*one.times.objects_s, *one.times.tensors_s)} == {3}
        assert one.figures == figures_of(one.times)
        assert one.figures.pickling_s > 0
    assert "flag: all_gather_object of a bool, all_reduce of an int32 · gloo, 3 ranks" in run.out
    assert " s for 1000 calls\n" in run.out
    assert "gather_object and gather · bytes, gloo, 3 ranks" in run.out
    assert "6 of 6 measured; 6 checked, 0 wrong" in run.out


@pytest.fixture
def two(cclmark, torch, no_leaks):
    return partial(cclmark, *OBJECTS, "-g", "2")


def test_corruption_of_objects_and_tensors_is_found_on_the_rank(two):
    run = two("-e", "64", "--inject", "corrupt:rank=1,index=3", code=1)
    wrong = {
        one.call.operation: [(found.rank, found.of) for found in one.findings]
        for one in run.journal.of(ObjectResult)
        if one.status == "wrong"
    }
    both = [(1, "objects"), (1, "tensors")]
    # Rank 1 receives nothing in a gather, and a flag has no element 3.
    assert wrong == dict.fromkeys((*LIST[:3], "send_object_list"), both)
    (broadcast,) = (
        one for one in run.journal.of(ObjectResult) if one.call.operation == "broadcast_object_list"
    )
    text = broadcast.findings[0].text
    assert text.startswith("object 0 of 1: first wrong element at index 3: expected ")


def test_without_a_check_nothing_is_compared_and_a_fault_without_effect_is_reported(two):
    run = two("-c", "0", "--only", "flag")
    assert not run.journal.of(ObjectResult)[0].checked
    assert "1 of 1 measured; 0 checked, 0 wrong" in run.out
    run = two("--only", "flag", "--inject", "corrupt:rank=1,index=3")
    assert "no output of rank 1 was corrupted" in run.err


@pytest.fixture
def of_fake(cclmark, torch, tmp_path):
    """Runs calls with a backend that has known faults."""
    names = (f"{name}_backend" for name in ("broken", "idle", "copying"))
    find_fakes(tmp_path, *names, "over_gloo")
    words = ("--devices", "host:2", "-e", "64", "--max-time", "0.02", *waits(10))

    def run(backend, only, code):
        fake = ("--backend", backend, "--import", f"{backend}_backend", "--only", only)
        return cclmark("torch", "objects", *fake, *words, code=code)

    return run


def test_what_one_rank_refuses_and_what_is_no_object_end_the_run_with_the_reason(of_fake):
    message = of_fake("broken", "broadcast", 4).message
    assert "torch.distributed: out of luck" in message
    assert "Traceback" not in message
    message = of_fake("idle", "all_gather_object", 4).message
    assert "failed during preparing of all_gather_object 64 B with idle" in message


def test_a_call_without_support_is_skipped_with_the_reason(of_fake):
    run = of_fake("copying", "flag,gather", 3)
    assert {one.status for one in run.journal.of(ObjectResult)} == {"skipped"}
    assert "skipped: " in run.out
