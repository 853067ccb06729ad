"""``cclmark torch objects`` with torch's own gloo, and with backends that have known faults."""

from pathlib import Path

import pytest

from cclmark_training.objects.figures import figures_of
from cclmark_training.objects.result import ObjectResult
from fake_backends import find_fakes
from patience import waits
from refusals import require_refusals

OBJECTS = ("torch", "objects", "--backend", "gloo", "--max-time", "0.02")
LIST = ("all_gather_object", "broadcast_object_list", "scatter_object_list", "gather_object")


def of_call(run, name):
    return [result for result in run.journal.of(ObjectResult) if result.call.operation == name]


def test_nonsense_is_refused_before_anything_starts(tag, tmp_path, torch):
    require_refusals(Path(__file__).with_name("refused.txt"), tag, tmp_path, [])


@pytest.mark.usefixtures("torch", "no_leaks")
class TestGloo:
    @pytest.fixture(scope="class")
    @staticmethod
    def whole(cclmark_in, tmp_path_factory, torch):
        """Three ranks: the last one has no partner to send to."""
        place = tmp_path_factory.mktemp("objects")
        return cclmark_in(place, *OBJECTS, "-g", "3", "-b", "10", "-e", "3000", "-f", "300")

    def test_every_call_is_measured_and_checked(self, whole):
        results = whole.journal.of(ObjectResult)
        assert [one.call.operation for one in results] == ["flag", *(*LIST, "send_object_list")]
        assert [one.call.size_bytes for one in results] == [4, *[3000] * 5]
        assert {(one.status, one.checked) for one in results} == {("ok", True)}
        for one in results:
            assert len(one.times.objects_s) >= 7
            assert {len(row) for row in (*one.times.objects_s, *one.times.tensors_s)} == {3}
            assert one.figures == figures_of(one.times)
            assert one.figures.pickling_s > 0

    def test_the_table_shows_the_flag_as_scripts_do(self, whole):
        assert (
            "flag: all_gather_object of a bool, all_reduce of an int32 · gloo, 3 ranks" in whole.out
        )
        assert " s for 1000 calls\n" in whole.out
        assert "gather_object and gather · bytes, gloo, 3 ranks" in whole.out
        assert "6 of 6 measured; 6 checked, 0 wrong" in whole.out

    def test_corruption_of_objects_and_tensors_is_found_on_the_rank(self, cclmark):
        fault = ("--inject", "corrupt:rank=1,index=3")
        run = cclmark(*OBJECTS, "-g", "2", "-e", "64", *fault, code=1)
        wrong = {
            one.call.operation: [(found.rank, found.of) for found in one.findings]
            for one in run.journal.of(ObjectResult)
            if one.status == "wrong"
        }
        both = [(1, "objects"), (1, "tensors")]
        # Rank 1 receives nothing in a gather, and a flag has no element 3.
        assert wrong == dict.fromkeys((*LIST[:3], "send_object_list"), both)
        (found, *_) = of_call(run, "broadcast_object_list")[0].findings
        assert found.text.startswith("object 0 of 1: first wrong element at index 3: expected ")

    def test_a_fault_that_affects_nothing_is_reported(self, cclmark):
        fault = ("--inject", "corrupt:rank=1,index=3")
        run = cclmark(*OBJECTS, "-g", "2", "--only", "flag", *fault)
        assert "no output of rank 1 was corrupted" in run.err

    def test_without_a_check_nothing_is_compared(self, cclmark):
        run = cclmark(*OBJECTS, "-g", "2", "-c", "0", "--only", "flag")
        assert not run.journal.of(ObjectResult)[0].checked
        assert "1 of 1 measured; 0 checked, 0 wrong" in run.out

    def test_missing_calls_are_measured_later(self, cclmark, cut):
        sizes = ("-b", "100", "-e", "100", "--content", "numbers")
        command = (*OBJECTS, "-g", "2", *sizes, "--only", "flag,gather")
        first = cclmark(*command)
        run = cclmark(*command, "--resume", cut(first, 2))
        assert [one.index for one in run.journal.of(ObjectResult)] == [0, 1]
        assert run.journal.of(ObjectResult)[0] == first.journal.of(ObjectResult)[0]
        assert [one.call.content for one in run.journal.of(ObjectResult)] == ["flag", "numbers"]
        assert 90 < run.journal.of(ObjectResult)[1].call.size_bytes <= 100

    def test_a_rank_that_hangs_is_named(self, cclmark):
        fault = ("--inject", "hang:rank=1,case=1", *waits(3))
        run = cclmark(*OBJECTS, "-g", "2", "-e", "64", "--only", "flag,gather", *fault, code=4)
        assert [one.call.operation for one in run.journal.of(ObjectResult)] == ["flag"]
        assert "gather_object 64 B with gloo" in run.message


@pytest.mark.usefixtures("torch")
class TestFaults:
    @pytest.fixture(autouse=True)
    @staticmethod
    def found(tmp_path):
        names = (f"{name}_backend" for name in ("broken", "idle", "copying"))
        find_fakes(tmp_path, *names, "over_gloo")

    def of(self, cclmark, backend, *flags, code):
        return cclmark(
            *("torch", "objects", "--backend", backend, "--import", f"{backend}_backend"),
            *("--devices", "host:2", "-e", "64", "--max-time", "0.02", *flags, *waits(10)),
            code=code,
        )

    def test_wrong_data_of_the_tensor_call_are_found(self, cclmark):
        run = self.of(cclmark, "broken", "--only", "flag", code=1)
        (found,) = run.journal.of(ObjectResult)[0].findings
        assert (found.rank, found.of) == (1, "tensors")
        assert found.text.endswith("first at index 0: expected 1, got 2")

    def test_a_call_that_one_rank_refuses_ends_the_run_with_its_reason(self, cclmark):
        run = self.of(cclmark, "broken", "--only", "broadcast", code=4)
        assert "torch.distributed: out of luck" in run.message
        assert "Traceback" not in run.message

    def test_bytes_that_are_no_object_end_the_run_with_the_reason(self, cclmark):
        run = self.of(cclmark, "idle", "--only", "all_gather_object", code=4)
        assert "failed during preparing of all_gather_object 64 B with idle" in run.message

    def test_a_call_without_support_is_skipped_with_the_reason(self, cclmark):
        run = self.of(cclmark, "copying", "--only", "flag,gather", code=3)
        assert {one.status for one in run.journal.of(ObjectResult)} == {"skipped"}
        assert "skipped: " in run.out
