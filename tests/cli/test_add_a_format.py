"""docs/extend/add-a-format.md, applied to a copy of the package."""

import shutil

import pytest

from extending import blocks_of, copy_of_package, run_copy
from places import REPOSITORY, TESTS

PAGE = REPOSITORY / "docs" / "extend" / "add-a-format.md"
SAMPLE = TESTS / "golden" / "sample.jsonl"


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    root = copy_of_package(tmp_path_factory.mktemp("extended"))
    pages = blocks_of(PAGE)
    assert len(pages) == 2
    for path, blocks in pages:
        file = root / path.removeprefix("src/")
        if not file.exists():
            (block,) = blocks
            file.write_text(block)
            continue
        function, line = blocks
        text = file.read_text()
        for place, addition in (("CASE_FORMATS: ", f"{function}\n\n"), ("}\n", line)):
            assert text.count(f"\n{place}") == 1
            text = text.replace(f"\n{place}", f"\n{addition}{place}")
        file.write_text(text)
    return root


def test_the_new_format_is_exported_and_offered(package, tmp_path):
    shutil.copy(SAMPLE, tmp_path / "a.jsonl")
    text = run_copy(package, tmp_path, "export", "a.jsonl", "--format", "sizes")
    assert text.startswith("# ")
    assert "all_reduce " in text
    flags = ("--devices", "host:2", "-b", "8", "-e", "8", "-n", "1", "--journal", "b.jsonl")
    shown = run_copy(package, tmp_path, "all_reduce", *flags, "--format", "sizes")
    assert "all_reduce 8 0.0" in shown
