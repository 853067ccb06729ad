"""The CSV files of NCCL's example tuner and of RCCL's tuner."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_table_file import RULES, TABLE

from cclmark.errors import UsageError
from cclmark.tune.table_file import MOST_BYTES, OPERATIONS, PROTOCOLS, Rule
from cclmark.tune.tuner_csv import nccl_csv, rccl_csv, read_csv
from examples import examples

TEXT = """\
# for nccl 2.28.9 on NVIDIA H200, 18 NVLinks
# for the example tuner of NCCL 2.30.3 or newer: older ones crash at a line that matches
# operations and sizes without a line run on one channel: add lines for all that a program uses
# collective,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks,numPipeOps,regBuff
allgather,0,9223372036854775807,ring,simple,32,1,2,-1,-1
allreduce,0,1023,tree,ll,0,1,2,-1,-1
allreduce,1024,4194304,ring,ll128,16,1,2,-1,-1
allreduce,1024,1024,collnet_chain,simple,256,2,16,-1,-1
reducescatter,64,128,nvls,simple,1,1,8,-1,-1
"""


def test_the_text_is_what_both_tuners_read():
    assert nccl_csv(TABLE) == TEXT
    amd = replace(TABLE, library="rccl", device="AMD Instinct MI300X", nvlinks=None)
    head, _, lines = rccl_csv(amd).partition("\n")
    assert head == "# for rccl 2.28.9 on AMD Instinct MI300X, any number of NVLinks"
    assert lines == TEXT.split("\n", 3)[3].replace("ll,0,", "ll,-1,")


def test_rules_of_another_library_are_not_written():
    with pytest.raises(UsageError, match="the rules are of nccl, not of rccl"):
        rccl_csv(TABLE)
    with pytest.raises(UsageError, match="the rules are of rccl, not of nccl"):
        nccl_csv(replace(TABLE, library="rccl"))


def test_lines_stay_shorter_than_the_buffers_of_both_tuners():
    text = nccl_csv(replace(TABLE, device="x" * 240))
    assert max(map(len, text.splitlines())) == 254
    assert read_csv(text, "file", "nccl") == list(RULES)


def test_optional_columns_and_blanks_are_read():
    text = "\n  # comment\n allreduce , 1,2,ring,\tll,-1,1,2\nallreduce,3,4,ring,ll,5,1,2,-1\n"
    assert read_csv(text, "file", "rccl") == [
        Rule("all_reduce", 2, 1, 1, 2, "ring", "ll", 0),
        Rule("all_reduce", 2, 1, 3, 4, "ring", "ll", 5),
    ]


LINE = "allreduce,0,1023,ring,ll,4,1,2,-1,-1"


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("allreduce", "all_reduce", "collective: 'all_reduce' is not allgather, allreduce"),
        ("ring", "Ring", "algorithm: 'Ring' is not tree, ring"),
        ("ll", "LL", "collective: 'aLLreduce' is not "),
        (",ll", ",ll64", "protocol: 'll64' is not ll, ll128, simple"),
        (",0,", ",1K,", "min_bytes: '1K' is not a number from 0 to 9223372036854775807"),
        (",0,", ",-1,", "min_bytes: '-1' is not a number from 0 to"),
        (",0,", ",,", "min_bytes: '' is not a number from 0 to"),
        (",4,1,2", ",-1,1,2", "channels: -1 does not keep the library's choice, 0 does"),
        (",4,1,2", ",257,1,2", "channels: '257' is not a number from -1 to 256"),
        (",4,1,2", ",4,-1,2", "nNodes: '-1' is not a number from 1 to"),
        (",4,1,2", ",4,1,-1", "nRanks: '-1' is not a number from 2 to"),
        (",-1,-1", ",4,-1", "numPipeOps: '4' is not -1"),
        (",-1,-1", ",-1,1", "regBuff: '1' is not -1"),
        (",4,1,2,-1,-1", "", "8 to 10 columns are required, this line has 5"),
        (",-1,-1", ",-1,-1,any", "8 to 10 columns are required, this line has 11"),
        ("1023", "1023" + " " * 256, "it is longer than 254 characters"),
    ],
)
def test_what_a_tuner_would_misread_is_refused_with_its_line(old, new, problem):
    text = f"# one\n{LINE.replace(old, new, 1)}\n"
    with pytest.raises(UsageError) as raised:
        read_csv(text, "file", "nccl")
    assert str(raised.value).startswith(f"file: line 2: {problem}")


def test_each_tuner_has_another_number_that_keeps_the_channels():
    with pytest.raises(UsageError, match=r"line 1: channels: 0 does not keep .* choice, -1 does"):
        read_csv(LINE.replace(",4,", ",0,"), "file", "rccl")
    (kept,) = read_csv(LINE.replace(",4,", ",0,"), "file", "nccl")
    assert [kept] == read_csv(LINE.replace(",4,", ",-1,"), "file", "rccl")
    assert kept.channels == 0


@given(
    rules=st.lists(
        st.builds(
            Rule,
            operation=st.sampled_from(OPERATIONS),
            ranks=st.integers(2, 1 << 20),
            nodes=st.integers(1, 2),
            smallest_bytes=st.integers(0, 1 << 20),
            largest_bytes=st.integers(1 << 20, MOST_BYTES),
            algorithm=st.just("ring"),
            protocol=st.sampled_from(PROTOCOLS),
            channels=st.integers(0, 256),
        ),
        max_size=5,
    )
)
@settings(max_examples=examples(200))
def test_what_is_written_is_read(rules):
    table = replace(TABLE, rules=rules)
    assert read_csv(nccl_csv(table), "file", "nccl") == rules
    assert read_csv(rccl_csv(replace(table, library="rccl")), "file", "rccl") == rules
