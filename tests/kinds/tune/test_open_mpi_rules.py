"""Rules files of Open MPI: what is written, how Open MPI looks rules up, and what is refused."""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cclmark.base.errors import UsageError
from cclmark.kinds.tune.algorithm_rule import AlgorithmRule
from cclmark.kinds.tune.open_mpi_rules import algorithms_of, read, written
from cclmark.kinds.tune.table_file import MOST_BYTES, MOST_RANKS
from examples import examples
from goldens import refusal, require_outcomes

NUMBERS = {
    **{"all_gather": 0, "all_reduce": 2, "alltoall": 3, "alltoallv": 4, "barrier": 6},
    **{"broadcast": 7, "gather": 9, "reduce": 11, "reduce_scatter": 13, "scatter": 15},
}
RULES = (
    AlgorithmRule("all_reduce", 4, 1024, 65535, "recursive_doubling"),
    AlgorithmRule("all_reduce", 4, 65536, None, "segmented_ring", (("segment_bytes", 4096),)),
    AlgorithmRule("barrier", 2, 0, None, "two_proc"),
)
TEXT = """\
# library: Open MPI 5.0.11
2  # operations
2  # allreduce
3  # numbers of ranks
0 1  # ranks, lines: bytes, algorithm, fan-out, segment bytes
0 0 0 0
4 3  # ranks, lines: bytes, algorithm, fan-out, segment bytes
0 0 0 0
1024 3 0 0  # recursive_doubling
65536 5 0 4096  # segmented_ring
5 1  # ranks, lines: bytes, algorithm, fan-out, segment bytes
0 0 0 0
6  # barrier
3  # numbers of ranks
0 1  # ranks, lines: bytes, algorithm, fan-out, segment bytes
0 0 0 0
2 1  # ranks, lines: bytes, algorithm, fan-out, segment bytes
0 5 0 0  # two_proc
3 1  # ranks, lines: bytes, algorithm, fan-out, segment bytes
0 0 0 0
"""


def test_the_text():
    comments = ["library: Open MPI 5.0.11"]
    assert written(RULES, library_version="Open MPI v5.0.11", comments=comments) == TEXT
    assert read(TEXT, "file") == list(RULES)


class OpenMpi:
    """Its reader and its search, ompi/mca/coll/tuned/coll_tuned_dynamic_{file,rules}.c of 5.0."""

    def __init__(self, text):
        self._numbers = iter(
            [int(word) for line in text.splitlines() for word in line.partition("#")[0].split()]
        )
        self.collectives = {
            next(self._numbers): [
                (next(self._numbers), [self._message() for _ in range(next(self._numbers))])
                for _ in range(next(self._numbers))
            ]
            for _ in range(next(self._numbers))
        }
        assert next(self._numbers, None) is None
        for groups in self.collectives.values():
            assert all(messages[0][0] == 0 for _, messages in groups)

    def _message(self):
        return tuple(next(self._numbers) for _ in range(4))

    def search(self, collective, ranks, size_bytes):
        """Algorithm, fan-out and segment; algorithm 0 is Open MPI's choice."""
        groups = self.collectives.get(collective)
        if not groups:
            return (0, 0, 0)
        best = groups[0]
        for group in groups:
            if group[0] > ranks:
                break
            best = group
        found = best[1][0]
        for message in best[1]:
            if message[0] > size_bytes:
                break
            found = message
        return found[1:]


@st.composite
def rule_sets(draw):
    found = []
    groups = st.one_of(st.integers(2, 9), st.just(MOST_RANKS))
    sizes = st.one_of(st.integers(0, 50), st.integers(0, MOST_BYTES))
    options = st.lists(st.sampled_from([("fan_out", 3), ("segment_bytes", 7)]), unique=True)
    for operation in draw(st.sets(st.sampled_from(sorted(NUMBERS)), min_size=1, max_size=3)):
        for ranks in draw(st.sets(groups, min_size=1, max_size=4)):
            names = [it for it in algorithms_of(operation) if it != "two_proc" or ranks == 2]
            if operation in ("alltoallv", "barrier"):
                found.append(AlgorithmRule(operation, ranks, 0, None, names[0]))
                continue
            edges = sorted(draw(st.sets(sizes, min_size=2, max_size=8)))
            for start, end in zip(edges[::2], edges[1::2], strict=False):
                limit = None if end == edges[-1] and draw(st.booleans()) else end
                selected = draw(st.sampled_from(names)), tuple(sorted(draw(options)))
                found.append(AlgorithmRule(operation, ranks, start, limit, *selected))
    return draw(st.permutations(found))


@settings(max_examples=examples(200))
@given(rule_sets(), st.data())
def test_open_mpi_finds_the_rules_and_nothing_else(rules, data):
    text = written(rules, library_version="")
    library = OpenMpi(text)
    assert set(library.collectives) == {NUMBERS[rule.operation] for rule in rules}
    near = [
        size
        for rule in rules
        for edge in (rule.smallest_bytes, rule.largest_bytes or 0)
        for size in (edge - 1, edge, edge + 1)
        if 0 <= size <= MOST_BYTES
    ]
    met = data.draw(st.sampled_from(rules))
    operation = met.operation
    ranks = data.draw(st.one_of(st.just(met.ranks), st.integers(1, 11)))
    size_bytes = data.draw(st.one_of(st.sampled_from(near), st.integers(0, MOST_BYTES)))
    expected = (0, 0, 0)
    for rule in rules:
        end = MOST_BYTES if rule.largest_bytes is None else rule.largest_bytes
        is_met = (rule.operation, rule.ranks) == (operation, ranks)
        if is_met and rule.smallest_bytes <= size_bytes <= end:
            parameters = dict(rule.parameters)
            expected = (
                algorithms_of(operation).index(rule.algorithm) + 1,
                parameters.get("fan_out", 0),
                parameters.get("segment_bytes", 0),
            )
    assert library.search(NUMBERS[operation], ranks, size_bytes) == expected


@settings(max_examples=examples(200))
@given(rule_sets())
def test_what_is_written_is_read(rules):
    # A limit that no size exceeds is none in the file.
    expected = [
        replace(it, largest_bytes=None) if it.largest_bytes == MOST_BYTES else it for it in rules
    ]
    expected.sort(key=lambda it: (it.operation, it.ranks, it.smallest_bytes))
    assert read(written(rules, library_version="5.0.11"), "file") == expected


@settings(max_examples=examples(100))
@given(st.integers(0, len(TEXT.split())))
def test_a_file_that_was_cut_off_is_refused(place):
    text = "\n".join(line.partition("#")[0] for line in TEXT.splitlines()).split()
    if place < len(text):
        with pytest.raises(UsageError, match=r"line \d+, .*: the file ends before this number"):
            read("\n".join(text[:place]), "file")


def test_wrong_lines_and_impossible_rules_are_named():
    """Of files: what is replaced in TEXT, or the whole file. Of rules: the rule, and a version."""

    def outcome(line):
        kind, *given = json.loads(line)
        if kind == "rule":
            rule, version = given
            *fields, parameters = rule if isinstance(rule[-1], list) else (*rule, [])
            rules = [AlgorithmRule(*fields, tuple(map(tuple, parameters)))]
            return refusal(partial(written, rules, library_version=version))
        if kind == "instead":
            assert TEXT.count(given[0]) >= 1
            given = [TEXT.replace(*given, 1)]
        return refusal(read, *given, "file")

    require_outcomes(Path(__file__).with_name("open_mpi_rules.txt"), outcome)


def test_rules_that_overlap_and_no_rules_are_refused():
    first = AlgorithmRule("all_reduce", 4, 0, None, "ring")
    with pytest.raises(UsageError, match=r"the rules overlap: .* 0- bytes; .* 10-20 bytes"):
        written([AlgorithmRule("all_reduce", 4, 10, 20, "ring"), first], library_version="")
    with pytest.raises(UsageError, match="there is no rule"):
        written([], library_version="")
    with pytest.raises(UsageError, match="one printable line"):
        written([first], library_version="", comments=["a\n1"])
