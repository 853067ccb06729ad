"""The table of operations: it is the engine's, and nothing else knows their names."""

import re

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from cclmark import _engine as engine
from cclmark.work.cases import Case
from cclmark.work.operations import OPERATIONS
from places import REPOSITORY

ENGINE = {row.name: row for row in engine.collectives()}
PAGE = REPOSITORY / "docs" / "extend" / "add-a-collective.md"
MOST_FILES = 6
# An operation's name beside == or !=, or alone in a collection that something is looked for in.
NAMES = "|".join(OPERATIONS)
COMPARED = re.compile(rf'(?:operation|name|collective)\S* (?:==|!=|in|not in) \(?"({NAMES})"')
# What NCCL does for all_reduce alone; the figure that people know by heart; which of two devices is
# the root, in words; what a foreign text may leave open; the only operation of DDP's buckets.
COMPARING = {
    "kinds/pieces/plan.py",
    "references/matching.py",
    "kinds/collective/findings.py",
    "kinds/pairs/document.py",
    "document/device_labels.py",
    "kinds/collective/charts.py",
}
COLUMNS = ("reduces", "rooted", "uneven", "staged_in_place", "divisible", "composition")
SWITCH = re.compile(r"switch \([\w.\->]*collective\) \{")


def test_both_tables_have_the_same_rows():
    assert list(ENGINE) == list(OPERATIONS)
    for name, row in OPERATIONS.items():
        for column in COLUMNS:
            assert getattr(row, column) == getattr(ENGINE[name], column), (name, column)


@given(st.sampled_from(list(OPERATIONS)), st.integers(1, 6), st.integers(0, 1000), st.data())
def test_outputs_have_as_many_elements_as_the_engine_says(name, ranks, count, data):
    row = OPERATIONS[name]
    ranks = 2 if row.of_two else ranks
    rank, root = (data.draw(st.integers(0, ranks - 1)) for _ in range(2))
    cells = st.integers(0, 100)
    matrix = data.draw(st.lists(cells, min_size=ranks**2, max_size=ranks**2)) if row.uneven else []
    case = Case(name, "shm", ranks, "float32", 0, count, False, matrix=tuple(matrix))
    case = replace(case, root=root if row.rooted else None)
    operation = engine.Operation(
        collective=name, dtype="float32", root=root, count=count, matrix=matrix
    )
    assert case.output_elements(rank) == operation.output_elements(rank, ranks)


def test_no_other_file_of_the_program_asks_for_names():
    source = REPOSITORY / "src" / "cclmark"
    # What other tools mean by an operation is not ours to define.
    files = (path for path in source.rglob("*.py") if "torch_check" not in path.name)
    found = {str(path.relative_to(source)) for path in files if COMPARED.search(path.read_text())}
    assert found <= COMPARING


def exhaustive(text: str) -> bool:
    """Whether there is a switch over collectives without a default, which the compiler checks."""
    for start in SWITCH.finditer(text):
        depth, end = 1, start.end()
        while depth:
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
        if "default:" not in text[start.end() : end]:
            return True
    return False


def test_the_page_lists_every_file_and_few():
    listed = re.findall(r"^\d\. `([^`]+)`", PAGE.read_text(), re.MULTILINE)
    assert len(listed) <= MOST_FILES
    assert all((REPOSITORY / path).is_file() for path in listed)
    sources = [path for kind in ("*.cpp", "*.hpp") for path in (REPOSITORY / "engine").rglob(kind)]
    checked = {
        str(path.relative_to(REPOSITORY)) for path in sources if exhaustive(path.read_text())
    }
    assert checked
    assert checked <= set(listed)
    assert "-Werror=switch" in (REPOSITORY / "CMakeLists.txt").read_text()
