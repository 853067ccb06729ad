"""``cclmark torch check`` with torch's own gloo, and with a backend that has known faults."""

import csv
import signal
from pathlib import Path

import pytest

from cclmark.report.exports import replayed
from cclmark_training.check.plan import CHECKS, RANDOM_CHECKS, checks_called, chosen_checks
from cclmark_training.check.result import CheckResult
from examples import exhaustive
from fake_backends import find_fakes
from patience import waits
from refusals import require_refusals

SOON_S = 20.0
_NO_SECOND_GROUP = """
import sys

if "cclmark.rank_process" in sys.orig_argv:
    from cclmark.rank.torch_backend import ProcessGroup

    make = ProcessGroup.make

    def once(group):
        if group._made:
            raise RuntimeError("out of ports")
        make(group)

    ProcessGroup.make = once
"""

OF_GLOO = ("torch", "check", "--backend", "gloo", "--devices", "host:2")


def verdicts(run):
    return {result.check.name: result.status for result in run.journal.of(CheckResult)}


def reasons(run):
    return {result.check.name: result.reason for result in run.journal.of(CheckResult)}


class TestWithoutTorch:
    def test_every_check_has_a_function_and_every_function_is_a_check(self):
        from cclmark_training.check.torch_checks import FUNCTIONS

        assert list(FUNCTIONS) == [*CHECKS, *RANDOM_CHECKS]

    def test_a_name_stands_for_all_that_begin_with_it(self):
        names = [check.name for check in chosen_checks(checks_called("broadcast,barrier"), "gloo")]
        assert names == ["broadcast", "barrier"]
        assert len(checks_called("all-reduce")) > 20
        assert len(chosen_checks([], "gloo")) == len(CHECKS)
        assert [it.name for it in chosen_checks([], "gloo", random=True)][-4:] == [*RANDOM_CHECKS]

    def test_nonsense_is_refused_before_anything_starts(self, tag, tmp_path):
        require_refusals(Path(__file__).with_name("refused.txt"), tag, tmp_path, [])

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("monitored_barrier is only implemented for GLOO backend.", True),
            ("Cannot use ReduceOp.BAND with NCCL", True),
            ("Invalid scalar type", True),
            ("Connection closed by peer [127.0.0.1]:24501.", False),
            ("NCCL error: unhandled cuda error", False),
        ],
    )
    def test_what_a_backend_cannot_do_is_told_from_what_went_wrong(self, text, expected):
        from cclmark.rank.torch_backend import cannot

        assert cannot(RuntimeError(text)) is expected
        assert cannot(NotImplementedError(text))


@pytest.mark.usefixtures("torch", "no_leaks")
class TestGloo:
    @pytest.fixture(scope="class")
    @staticmethod
    def whole(cclmark_in, tmp_path_factory, torch):
        return cclmark_in(
            tmp_path_factory.mktemp("torch"), "torch", "check", "--backend", "gloo", "-g", "3"
        )

    def test_nothing_fails_and_nearly_everything_is_there(self, whole):
        found = verdicts(whole)
        assert list(found) == list(CHECKS)
        assert "failed" not in found.values(), reasons(whole)
        lacking = {name for name, verdict in found.items() if verdict == "unsupported"}
        assert lacking <= {
            *("all_reduce_premul_sum", "all_reduce_float8", "all_gather_uneven"),
            *("broadcast_objects", "all_gather_objects"),  # without numpy
        }
        assert all(reasons(whole)[name] for name in lacking)

    def test_the_table_says_so(self, whole):
        assert whole.out.count("\n  pass ") == list(verdicts(whole).values()).count("ok")
        assert "0 FAIL" in whole.out
        assert "torch:gloo" in whole.out
        assert "Warning" not in whole.err
        rows = [*csv.DictReader("".join(replayed(whole.journal, "csv")).splitlines())]
        assert [row["check"] for row in rows] == list(CHECKS)
        words = {"ok": "pass", "unsupported": "unsupported"}
        assert [row["verdict"] for row in rows] == [words[one] for one in verdicts(whole).values()]
        markdown = "".join(replayed(whole.journal, "markdown"))
        assert "| pass | all_reduce_sum | all_reduce, sum |  |" in markdown

    def test_corruption_on_one_rank_is_found_wherever_there_is_an_output(self, cclmark):
        """The rank goes on: the others do not wait for its next operation and fail as well."""
        only = (
            "all_reduce_sum,sub_groups_at_once,broadcast,all_gather,send_recv,all_to_all,sequence"
        )
        fault = ("--inject", "corrupt:rank=1,index=3")
        run = cclmark(*OF_GLOO, "--only", only, *fault, code=1)
        assert set(verdicts(run).values()) == {"failed"}
        for reason in reasons(run).values():
            assert reason.startswith("rank 1: ")
            assert "first at index 3: expected" in reason
            assert "more rank" not in reason

    def test_values_are_the_tensors_before_and_after_on_every_rank(self, cclmark):
        only = ("--only", "all_reduce_scalar,broadcast,all_gather_objects,send_recv,sequence")
        fault = ("--inject", "corrupt:rank=1,index=2")
        run = cclmark(*OF_GLOO, "--values", *only, *fault, code=1)
        for line in (
            "rank 0 before all_reduce: tensor = tensor([1], float32, device='cpu')",
            "rank 1 before all_reduce: tensor = tensor([2], float32, device='cpu')",
            "rank 0 after all_reduce: output = tensor([3], float32, device='cpu')",
            "rank 1 before broadcast: tensor = tensor([77, 77, 77, ..., 77, 77, 77], float32, "
            "shape 1000, device='cpu')",
            "rank 1 before all_gather_object: obj = {'rank': 1, 'text': 'x'}",
        ):
            assert f"\n{'':15}{line}\n" in run.out
        found = {check.check.name: check.values for check in run.journal.of(CheckResult)}
        sent, got, wrong = (
            next(one.text for one in found["broadcast"] if (one.rank, one.moment) == place)
            for place in ((0, "before"), (0, "after"), (1, "after"))
        )
        assert sent == got != wrong
        assert wrong.startswith(sent[: sent.index(",", sent.index(",") + 1)] + ", 0, ...")
        # Two operations precede the output, so neither is named.
        assert {one.call for one in found["send_recv"] if one.moment == "after"} == {""}
        assert found["sequence"][-1].text.endswith(" more values")

    def test_random_values_of_a_seed_are_shown_and_compared(self, cclmark):
        def shown(*flags: str):
            run = cclmark(*OF_GLOO, "--only", "random", "--values", *flags)
            assert verdicts(run) == dict.fromkeys(RANDOM_CHECKS, "ok")
            found = {one.check.name: one.values for one in run.journal.of(CheckResult)}
            return run, {(it.rank, it.moment): it.text for it in found["random_min"]}, found

        run, values, found = shown("--seed", "7")
        numbers = {
            key: [float(one) for one in text[len("tensor([") : text.index("]")].split(",")]
            for key, text in values.items()
        }
        assert len(numbers) == 4
        least = [min(pair) for pair in zip(numbers[0, "before"], numbers[1, "before"], strict=True)]
        assert numbers[0, "after"] == numbers[1, "after"] == least
        assert len({*least}) == len(least)
        sent = {(it.rank, it.moment): it.text for it in found["random_broadcast"]}
        assert sent[1, "after"] == sent[0, "before"] != sent[1, "before"]
        assert "one verdict of all ranks, random values of seed 7" in run.out
        assert shown("--seed", "7")[1] == values
        run, others, _ = shown()
        assert others != values
        assert run.journal.header.settings.seed == 1

    def test_without_values_nothing_is_kept(self, whole):
        assert not any(check.values for check in whole.journal.of(CheckResult))
        assert "rank 0 before" not in whole.out

    def test_a_group_that_cannot_be_created_again_ends_the_run(self, cclmark, tmp_path):
        (tmp_path / "sitecustomize.py").write_text(_NO_SECOND_GROUP)
        only, fault = ("--only", "broadcast,all_reduce_sum"), ("--inject", "corrupt:rank=1,index=3")
        run = cclmark(*OF_GLOO, *only, *fault, code=4, env={"PYTHONPATH": str(tmp_path)})
        for words in ("failed, torch cannot create the process group again: ", "out of ports"):
            assert words in run.message
        assert run.journal.footer.exit_code == 4

    def test_a_rank_that_dies_ends_the_run(self, background):
        run = background(*OF_GLOO, *waits(30))
        pids = run.wait_for_ranks(results=1)
        run.signal(pids[1], signal.SIGKILL)
        ended = run.finish(SOON_S)
        assert ended.code == 4
        assert "was killed by SIGKILL" in ended.message
        assert ended.journal.of(CheckResult)


@pytest.mark.usefixtures("torch")
class TestBroken:
    @pytest.fixture(scope="class")
    @staticmethod
    def whole(cclmark_in, tmp_path_factory, torch):
        return cclmark_in(
            find_fakes(tmp_path_factory.mktemp("broken"), "broken_backend", "over_gloo"),
            *("torch", "check", "--backend", "broken", "--import", "broken_backend"),
            *("--devices", "host:3", *waits(5)),
            *("--only", "all_reduce_sum,broadcast,reduce,all_gather,gather,all_to_all"),
            code=4,
        )

    @pytest.mark.parametrize(
        ("check", "verdict", "words"),
        [
            (
                *("all_reduce_sum", "failed"),
                "rank 1: output: 1 of 1000 wrong, first at index 0: expected ",
            ),
            ("broadcast", "failed", "rank 1: out of luck"),
            ("gather", "unsupported", "broken does not support gather"),
            # A failure does not spoil what comes after.
            ("reduce", "ok", ""),
            ("all_gather", "ok", ""),
        ],
    )
    def test_each_check_has_its_verdict(self, whole, check, verdict, words):
        assert verdicts(whole)[check] == verdict
        assert words in reasons(whole)[check]

    def test_a_rank_that_hangs_in_an_operation_is_named(self, whole):
        assert "all_to_all" not in verdicts(whole)
        assert "rank 1 (host:1, pid " in whole.message.splitlines()[0]
        assert "all_to_all with broken" in whole.message.splitlines()[0]


@pytest.mark.usefixtures("torch")
def test_a_backend_that_moves_nothing_fails_with_any_number_of_ranks(cclmark, tmp_path):
    """With 8 ranks as with 3: numbers that repeat by a small prime would hide it."""
    find_fakes(tmp_path, "copying_backend", "over_gloo")
    run = cclmark(
        *("torch", "check", "--backend", "copying", "--import", "copying_backend"),
        *("--devices", "host:8", "--only", "all_to_all,all_to_all_single,reduce_scatter"),
        code=1,
    )
    assert set(verdicts(run).values()) == {"failed"}


@pytest.mark.usefixtures("torch")
@pytest.mark.parametrize("ranks", [3, *map(exhaustive, (2, 4))])
def test_no_check_passes_that_nothing_was_done_for(cclmark, tmp_path, ranks):
    find_fakes(tmp_path, "idle_backend", "over_gloo")
    # 64 MiB take two thirds of the time of all checks, and are summed like fewer.
    names = [name for name in CHECKS if ranks != 3 or name != "all_reduce_large"]
    run = cclmark(
        *("torch", "check", "--backend", "idle", "--import", "idle_backend"),
        *("--devices", f"host:{ranks}", "--only", ",".join(names)),
        code=1,
    )
    passed = {name for name, verdict in verdicts(run).items() if verdict == "ok"}
    assert passed == {"all_reduce_empty"}  # of which there is nothing to see


@pytest.mark.usefixtures("torch")
def test_a_fault_that_shows_nowhere_is_told_or_refused(cclmark):
    one = (*OF_GLOO, "--only", "all_reduce_sum")
    run = cclmark(*one, "--inject", "corrupt:rank=1,index=99999999")
    assert "no output of rank 1 was corrupted" in run.err
    run = cclmark(*one, "--inject", "hang:rank=1,case=0", code=2)
    assert "checks support only the faults corrupt and delay" in run.err


@pytest.mark.usefixtures("torch")
def test_a_plug_in_that_cannot_be_imported_is_named(cclmark):
    run = cclmark("torch", "check", "--backend", "flagcx", "--devices", "host:2", code=3)
    assert "the module flagcx, which provides backend flagcx, cannot be imported" in run.err
    run = cclmark("torch", "check", "--backend", "nix", "--devices", "host:2", code=3)
    assert "has no backend nix, only" in run.err
    assert "--import MODULE" in run.err
    run = cclmark("torch", "check", "--backend", "cpu:gloo,cuda:nccl", code=2)
    assert "run the command with --backend gloo and then with --backend nccl" in run.err
