"""Rules files of Open MPI: what is written, how Open MPI looks rules up, and what is refused."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cclmark.base.errors import UsageError
from cclmark.kinds.tune.algorithm_rule import AlgorithmRule
from cclmark.kinds.tune.open_mpi_rules import algorithms_of, read, written
from cclmark.kinds.tune.table_file import MOST_BYTES, MOST_RANKS
from examples import examples

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
    for operation in draw(st.sets(st.sampled_from(sorted(NUMBERS)), min_size=1, max_size=3)):
        for ranks in draw(
            st.sets(st.one_of(st.integers(2, 9), st.just(MOST_RANKS)), min_size=1, max_size=4)
        ):
            names = [it for it in algorithms_of(operation) if it != "two_proc" or ranks == 2]
            if operation in ("alltoallv", "barrier"):
                found.append(AlgorithmRule(operation, ranks, 0, None, names[0]))
                continue
            sizes = st.one_of(st.integers(0, 50), st.integers(0, MOST_BYTES))
            edges = sorted(draw(st.sets(sizes, min_size=2, max_size=8)))
            for start, end in zip(edges[::2], edges[1::2], strict=False):
                limit = None if end == edges[-1] and draw(st.booleans()) else end
                parameters = draw(
                    st.lists(st.sampled_from([("fan_out", 3), ("segment_bytes", 7)]), unique=True)
                )
                found.append(
                    AlgorithmRule(
                        *(operation, ranks, start, limit, draw(st.sampled_from(names))),
                        tuple(sorted(parameters)),
                    )
                )
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


def normal(rule):
    """A limit that no size exceeds is none in the file."""
    if rule.largest_bytes != MOST_BYTES:
        return rule
    return AlgorithmRule(
        *(rule.operation, rule.ranks, rule.smallest_bytes, None), rule.algorithm, rule.parameters
    )


@settings(max_examples=examples(200))
@given(rule_sets())
def test_what_is_written_is_read(rules):
    expected = [normal(rule) for rule in rules]
    expected.sort(key=lambda it: (it.operation, it.ranks, it.smallest_bytes))
    assert read(written(rules, library_version="5.0.11"), "file") == expected


@settings(max_examples=examples(200))
@given(st.text(alphabet="0123456789 \n#-ax", max_size=60))
def test_any_text_is_read_or_refused(text):
    try:
        rules = read(text, "file")
    except UsageError as error:
        assert str(error).startswith("file: line ")
    else:
        assert all(rule.ranks >= 2 for rule in rules)


@settings(max_examples=examples(100))
@given(st.integers(0, len(TEXT.split())))
def test_a_file_that_was_cut_off_is_refused(place):
    text = "\n".join(line.partition("#")[0] for line in TEXT.splitlines()).split()
    if place < len(text):
        with pytest.raises(UsageError, match=r"line \d+, .*: the file ends before this number"):
            read("\n".join(text[:place]), "file")


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("1024 3", "1024 99", "line 9, algorithm: '99' is not a number from 0 to 6"),
        ("1024 3", "0x400 3", "line 9, bytes: '0x400' is not a number from 1 to"),
        ("1024 3", "-1024 3", "line 9, bytes: '-1024' is not"),
        ("65536 5", "1024 5", "line 10, bytes: '1024' is not a number from 1025 to"),
        ("5 1  # r", "7 1  # r", "line 7: these rules for 4 ranks hold for more ranks too"),
        ("2  # operations", "rule-file-version-2\n2", "line 2: only files of version 1"),
        ("6  # barrier", "2  # again", "line 13: there are rules for all_reduce before"),
        ("6  # barrier", "5  # alltoallw", "line 13: rules for the operation with id 5 are not"),
        ("4 3  # r", "4 4  # r", "line 11, bytes: '5' is not a number from 65537 to"),
    ],
)
def test_a_wrong_line_is_named(before, after, message):
    assert TEXT.count(before) >= 1
    with pytest.raises(UsageError, match=f"^file: {re.escape(message)}"):
        read(TEXT.replace(before, after, 1), "file")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1\n2 2\n4 1\n0 1 0 0\n5 1\n0 0 0 0\n", "line 3: these rules for 4 ranks hold for fewer"),
        ("1\n2 2\n0 1\n0 0 0 0\n4 1\n0 1 0 0\n", "hold for more ranks too: a line for 5 ranks"),
        ("1\n2 1\n0 1\n0 1 0 0\n", "line 4: there is a rule for 0 ranks"),
        ("1 2 1 0 1 0 0 0 0\n7\n", "line 2: '7' is behind the last rule"),
    ],
)
def test_a_rule_that_also_holds_for_other_ranks_is_refused(text, message):
    with pytest.raises(UsageError, match=message):
        read(text, "file")


@pytest.mark.parametrize(
    ("rule", "version", "message"),
    [
        (("all_reduce", 4, 0, 1, "ignore"), "", "'ignore' is not the name of an algorithm"),
        (("all_reduce", 4, 0, 1, "4"), "", "'4' is not the name of an algorithm"),
        (("all_reduce", 4, 0, 1, "rings"), "", "rings"),
        (("all_gather", 4, 0, 1, "sparbit"), "4.1.6", "sparbit"),
        (("all_gather", 4, 0, 1, "two_proc"), "", "two_proc is for 2 ranks"),
        (("barrier", 4, 0, 1, "tree"), "", "Open MPI has no sizes for barrier"),
        (("sendrecv", 4, 0, 1, "ring"), "", "no rules for sendrecv"),
        (("all_reduce", 1, 0, 1, "ring"), "", "the ranks are not 2 to"),
        (("all_reduce", 4, 2, 1, "ring"), "", "not a range of sizes"),
        (("all_reduce", 4, -1, 1, "ring"), "", "not a range of sizes"),
        (("all_reduce", 4, 0, 1 << 63, "ring"), "", "not a range of sizes"),
        (("all_reduce", 4, 0, 1, "ring", (("k", 2),)), "", "'k' is not fan_out or segment_bytes"),
        (("all_reduce", 4, 0, 1, "ring", (("fan_out", -1),)), "", "fan_out is not a number"),
        (("all_reduce", 4, 0, 1, "ring", (("fan_out", "2"),)), "", "fan_out is not a number"),
        (("all_reduce", 4, 0, 1, "ring"), "Open MPI v6.0.0", "Open MPI 6"),
    ],
)
def test_a_rule_that_the_file_cannot_express_is_refused(rule, version, message):
    with pytest.raises(UsageError) as error:
        written([AlgorithmRule(*rule)], library_version=version)
    assert message in str(error.value)


def test_rules_that_overlap_and_no_rules_are_refused():
    first = AlgorithmRule("all_reduce", 4, 0, None, "ring")
    with pytest.raises(UsageError, match=r"the rules overlap: .* 0- bytes; .* 10-20 bytes"):
        written([AlgorithmRule("all_reduce", 4, 10, 20, "ring"), first], library_version="")
    with pytest.raises(UsageError, match="there is no rule"):
        written([], library_version="")
    with pytest.raises(UsageError, match="one printable line"):
        written([first], library_version="", comments=["a\n1"])
