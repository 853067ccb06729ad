import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cclmark.base.errors import UsageError
from cclmark.cli.suite.run import check_sizes, read_suite, shipped_suites
from cclmark.suites.suite import chosen_commands, parse_suite, with_baselines
from cclmark.work.thresholds import SizeRange, parse_bound
from goldens import require_outcomes

GOOD = Path(__file__).with_name("good.toml").read_text()


def parsed(text=GOOD):
    return parse_suite(text.encode(), "suites/good.toml", Path("suites"))


def refused(text):
    with pytest.raises(UsageError) as caught:
        parsed(text)
    message = str(caught.value)
    assert message.startswith("suites/good.toml")
    return message


def test_a_suite_is_read():
    suite = parsed()
    assert (suite.name, suite.title) == ("good", "A title")
    large, p2p = suite.commands
    assert large.arguments == ("all_reduce", "-b", "8", "-e", "1G")
    assert (large.kind, large.tags, large.repeats) == ("collective", ("quick", "links"), 3)
    assert large.timeout_s == 600
    share, time = large.thresholds
    assert (share.metric.name, share.bound.value, share.bound.of) == ("busbw", 0.75, "limit")
    assert (time.metric.name, time.bound.value, time.bound.of) == ("time", 2.0, "")
    assert share.where == time.where == (("dtype", ("float32",)),)
    assert share.sizes == SizeRange(1 << 20, 1 << 30)
    assert (p2p.name, p2p.arguments) == ("p2p", ("p2p", "-p", "uniBw"))
    assert p2p.thresholds[0].pairs == ((0, 1), (1, 0))
    assert p2p.thresholds[0].describe() == "bandwidth at least 1 GB/s: CE, pair 0-1, pair 1-0"


def test_a_mistake_is_named_with_its_place_and_what_was_meant():
    def message(line):
        old, new = json.loads(line)
        assert old in GOOD
        return refused(GOOD.replace(old, new, 1))

    require_outcomes(Path(__file__).with_name("mistakes.txt"), message)


def test_what_is_no_text_or_has_no_command_is_refused():
    with pytest.raises(UsageError, match="is not TOML"):
        parse_suite(b"\xff\xfe", "x.toml", Path())
    assert "missing key `command`" in refused("")
    assert "no [[command]]" in refused("command = []")


def test_commands_are_chosen_by_name_and_by_tag():
    suite = parsed()
    assert [one.name for one in chosen_commands(suite, [], ["quick"]).commands] == ["large"]
    assert [one.name for one in chosen_commands(suite, ["p2p"], []).commands] == ["p2p"]
    with pytest.raises(UsageError, match="did you mean 'large'"):
        chosen_commands(suite, ["larg"], [])
    with pytest.raises(UsageError, match="--tag: the suite has no 'slow'"):
        chosen_commands(suite, [], ["slow"])
    with pytest.raises(UsageError, match="no command"):
        chosen_commands(suite, ["p2p"], ["quick"])


def test_baselines_and_thresholds_need_each_other():
    held = parsed(GOOD.replace("75 % of limit", "0.95 of baseline"))
    with pytest.raises(UsageError, match="has no baseline for 'busbw at least 0"):
        with_baselines(held, {})
    assert with_baselines(held, {"large": Path("x")}).commands[0].baseline == Path("x")
    with pytest.raises(UsageError, match="uses its baseline"):
        with_baselines(parsed(), {"large": Path("x")})
    with pytest.raises(UsageError, match="did you mean 'large'"):
        with_baselines(held, {"lage": Path("x")})
    beside = GOOD.replace('name = "large"', 'name = "large"\nbaseline = "old/good.jsonl"')
    assert parsed(beside).commands[0].baseline == Path("suites/old/good.jsonl")


@given(st.text(max_size=30))
def test_whatever_is_written_gives_a_bound_above_zero_or_one_error(text):
    try:
        bound = parse_bound(text, bandwidth=True, references=("limit", "baseline"))
    except UsageError as error:
        assert str(error)
    else:
        assert 0 < bound.value < math.inf


#: Words of command lines by values of thresholds.
WORDS = {"unidirectional": "uniBw", "bidirectional": "biBw", "pinned": "host", "near": "host"}


@pytest.mark.parametrize("name", sorted(shipped_suites()))
def test_every_threshold_of_a_shipped_suite_is_of_what_its_command_measures(name):
    """Without --only it measures all operations."""
    suite = read_suite(name)
    assert suite.title
    assert suite.description
    assert any(one.thresholds for one in suite.commands)
    check_sizes(suite)
    for one in suite.commands:
        line = " ".join(one.arguments)
        for threshold in one.thresholds:
            chosen = [own for key, own in threshold.where if key != "operation" or "--only" in line]
            chosen += [[threshold.metric.name]] if threshold.metric.name == "latency" else []
            assert all(WORDS.get(value, value) in line for own in chosen for value in own)


def test_a_file_of_the_users_own_is_read_and_one_that_is_not_there_is_named(tmp_path):
    (tmp_path / "mine.toml").write_text(GOOD)
    assert read_suite(str(tmp_path / "mine.toml")).name == "mine"
    with pytest.raises(UsageError, match="did you mean 'nvlink'"):
        read_suite("nvlnk")
    with pytest.raises(UsageError, match="cannot read"):
        read_suite(str(tmp_path))
    with pytest.raises(UsageError, match="cannot read"):
        read_suite("\0")
