"""``cclmark torch check`` with torch's own gloo, and with a backend that has known faults."""

import re
from functools import partial
from pathlib import Path

import pytest

from cclmark.rank.torch_backend import cannot
from cclmark_training.check.plan import CHECKS, RANDOM_CHECKS, checks_called, chosen_checks
from cclmark_training.check.result import CheckResult
from cclmark_training.check.torch_checks import FUNCTIONS
from fake_backends import find_fakes
from patience import waits
from refusals import require_refusals

OF_GLOO = ("torch", "check", "--backend", "gloo", "--devices", "host:2")


def verdicts(run):
    return {result.check.name: result.status for result in run.journal.of(CheckResult)}


def reasons(run):
    return {result.check.name: result.reason for result in run.journal.of(CheckResult)}


def test_every_check_has_a_function_and_every_function_is_a_check():
    assert list(FUNCTIONS) == [*CHECKS, *RANDOM_CHECKS]


def test_a_name_stands_for_all_that_begin_with_it(tag, tmp_path):
    names = [check.name for check in chosen_checks(checks_called("broadcast,barrier"), "gloo")]
    assert names == ["broadcast", "barrier"]
    assert len(checks_called("all-reduce")) > 20
    assert len(chosen_checks([], "gloo")) == len(CHECKS)
    assert [it.name for it in chosen_checks([], "gloo", random=True)][-4:] == [*RANDOM_CHECKS]
    require_refusals(Path(__file__).with_name("refused.txt"), tag, tmp_path, [])


def test_what_a_backend_cannot_do_is_told_from_what_went_wrong():
    for text, expected in {
        "monitored_barrier is only implemented for GLOO backend.": True,
        "Cannot use ReduceOp.BAND with NCCL": True,
        "Invalid scalar type": True,
        "Connection closed by peer [127.0.0.1]:24501.": False,
        "NCCL error: unhandled cuda error": False,
    }.items():
        assert cannot(RuntimeError(text)) is expected
        assert cannot(NotImplementedError(text))


@pytest.fixture
def gloo(cclmark, torch, no_leaks):
    return partial(cclmark, *OF_GLOO)


@pytest.fixture(scope="module")
def whole(cclmark_in, tmp_path_factory, torch):
    directory = tmp_path_factory.mktemp("torch")
    return cclmark_in(directory, "torch", "check", "--backend", "gloo", "-g", "3")


def test_nothing_fails_and_nearly_everything_is_there(whole):
    found = verdicts(whole)
    assert list(found) == list(CHECKS)
    assert "failed" not in found.values(), reasons(whole)
    lacking = {name for name, verdict in found.items() if verdict == "unsupported"}
    assert lacking <= {
        *("all_reduce_premul_sum", "all_reduce_float8", "all_gather_uneven"),
        *("broadcast_objects", "all_gather_objects"),  # without numpy
    }
    assert all(reasons(whole)[name] for name in lacking)
    # Without --values none are kept.
    assert not any(check.values for check in whole.journal.of(CheckResult))
    assert "rank 0 before" not in whole.out


SHOWN = """
rank 0 before all_reduce: tensor = tensor([1], float32, device='cpu')
rank 1 before all_reduce: tensor = tensor([2], float32, device='cpu')
rank 0 after all_reduce: output = tensor([3], float32, device='cpu')
rank 1 before broadcast: tensor = tensor([77, 77, 77, ..., 77, 77, 77], float32, shape 1000, device='cpu')
rank 1 before all_gather_object: obj = {'rank': 1, 'text': 'x'}
"""  # noqa: E501


def test_values_are_the_tensors_before_and_after_on_every_rank(gloo):
    only = ("--only", "all_reduce_scalar,broadcast,all_gather_objects,send_recv,sequence")
    run = gloo("--values", *only, "--inject", "corrupt:rank=1,index=2", code=1)
    # The rank goes on: the others do not wait for its next operation and fail as well.
    for check in ("broadcast", "send_recv", "sequence"):
        assert verdicts(run)[check] == "failed"
        assert re.match(r"rank 1: .*first at index 2: expected", reasons(run)[check])
    for line in SHOWN.splitlines()[1:]:
        assert f"\n{'':15}{line}\n" in run.out
    found = {check.check.name: check.values for check in run.journal.of(CheckResult)}
    texts = {(one.rank, one.moment): one.text for one in reversed(found["broadcast"])}
    sent, got, wrong = (texts[at] for at in ((0, "before"), (0, "after"), (1, "after")))
    assert sent == got != wrong
    assert wrong.startswith(sent[: sent.index(",", sent.index(",") + 1)] + ", 0, ...")
    # Two operations precede the output, so neither is named.
    assert {one.call for one in found["send_recv"] if one.moment == "after"} == {""}
    assert found["sequence"][-1].text.endswith(" more values")


def test_random_values_of_a_seed_are_shown_and_compared(gloo):
    def shown(*flags: str):
        run = gloo("--only", "random", "--values", *flags)
        assert verdicts(run) == dict.fromkeys(RANDOM_CHECKS, "ok")
        found = {
            one.check.name: {(it.rank, it.moment): it.text for it in one.values}
            for one in run.journal.of(CheckResult)
        }
        return run, found["random_min"], found["random_broadcast"]

    run, values, sent = shown("--seed", "7")
    numbers = {
        key: [float(one) for one in text[len("tensor([") : text.index("]")].split(",")]
        for key, text in values.items()
    }
    assert len(numbers) == 4
    least = [min(pair) for pair in zip(numbers[0, "before"], numbers[1, "before"], strict=True)]
    assert numbers[0, "after"] == numbers[1, "after"] == least
    assert len({*least}) == len(least)
    assert sent[1, "after"] == sent[0, "before"] != sent[1, "before"]
    assert "one verdict of all ranks, random values of seed 7" in run.out
    assert shown("--seed", "7")[1] == values
    run, others, _ = shown()
    assert others != values
    assert run.journal.header.settings.seed == 1


def test_each_check_of_a_broken_backend_has_its_verdict_and_a_rank_that_hangs_is_named(
    cclmark, tmp_path, torch
):
    find_fakes(tmp_path, "broken_backend", "over_gloo")
    run = cclmark(
        *("torch", "check", "--backend", "broken", "--import", "broken_backend"),
        *("--devices", "host:3", *waits(5)),
        *("--only", "all_reduce_sum,broadcast,reduce,all_gather,gather,all_to_all"),
        code=4,
    )
    one_wrong = "rank 1: output: 1 of 1000 wrong, first at index 0: expected "
    for check, verdict, words in (
        ("all_reduce_sum", "failed", one_wrong),
        ("broadcast", "failed", "rank 1: out of luck"),
        ("gather", "unsupported", "broken does not support gather"),
        *(("reduce", "ok", ""), ("all_gather", "ok", "")),  # a failure does not spoil the others
    ):
        assert verdicts(run)[check] == verdict
        assert words in reasons(run)[check]
    assert "all_to_all" not in verdicts(run)
    assert "rank 1 (host:1, pid " in run.message.splitlines()[0]
    assert "all_to_all with broken" in run.message.splitlines()[0]


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
def test_no_check_passes_that_nothing_was_done_for(cclmark, tmp_path):
    find_fakes(tmp_path, "idle_backend", "over_gloo")
    # 64 MiB take two thirds of the time of all checks, and are summed like fewer.
    names = [name for name in CHECKS if name != "all_reduce_large"]
    run = cclmark(
        *("torch", "check", "--backend", "idle", "--import", "idle_backend"),
        *("--devices", "host:3", "--only", ",".join(names)),
        code=1,
    )
    passed = {name for name, verdict in verdicts(run).items() if verdict == "ok"}
    assert passed == {"all_reduce_empty"}  # of which there is nothing to see
