"""Files that describe libraries: those of cclmark, and what is said of a user's that is wrong."""

import os
import re
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cclmark import _engine as engine
from cclmark.base.errors import UsageError
from cclmark.rank.engine_values import _description_of, open_ccl
from cclmark.work import libraries
from cclmark.work.library_fields import parse_version
from cclmark.work.library_files import (
    _LOADED_SHAPES,
    SHAPES,
    Library,
    parse_library,
    read_library,
)
from cclmark.work.operations import DTYPE_BYTES, REDUCTIONS
from goldens import require_golden
from places import REPOSITORY

GOOD = """
name = "mine"
shape = "nccl"
devices = ["cuda"]
prefix = "mine"
files = ["libmine.so"]
[types]
float32 = 7
[reductions]
sum = 0
"""
TEXTS = st.text(st.characters(codec="utf-8"), max_size=40)
VALUES = st.recursive(
    st.one_of(st.booleans(), st.integers(), st.floats(), TEXTS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)


def refused(content: str | bytes) -> str:
    content = content.encode() if isinstance(content, str) else content
    with pytest.raises(UsageError) as caught:
        parse_library(content, "mine.toml")
    message = str(caught.value)
    assert message.startswith("mine.toml")
    return message.removeprefix("mine.toml").lstrip(": ")


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(GOOD)
    return path


@pytest.fixture
def nothing_added(monkeypatch):
    monkeypatch.setattr(libraries, "_added", {})


class TestShipped:
    def test_each_has_the_name_of_its_file(self):
        directory = Path(libraries.__file__).parents[1] / "libraries"
        names = {path.stem for path in directory.glob("*.toml")}
        assert names == {name.replace(":", "-") for name in libraries.shipped()}

    def test_places_in_lists_differ(self):
        places = [library.place for library in libraries.shipped().values()]
        assert len(places) == len(set(places))

    def test_no_two_are_the_natural_library_of_devices(self):
        runtimes = [it for library in libraries.shipped().values() for it in library.native_of]
        assert len(runtimes) == len(set(runtimes))

    def test_the_engine_has_code_for_their_shapes(self):
        assert set(engine.known_shapes()) == {*_LOADED_SHAPES, "shm"}
        assert set(SHAPES) == {*engine.known_shapes(), "bridge", "torch"}

    @pytest.mark.parametrize("name", list(libraries.shipped()))
    def test_the_engine_takes_what_is_said(self, name):
        library = libraries.shipped()[name]
        if library.is_loaded:
            description = _description_of(library)
            assert (description.name, description.files) == (name, library.files)
            with pytest.raises(engine.MissingError, match="/no/such/file"):
                open_ccl(name, "/no/such/file", [])


class TestAUsersFile:
    def test_it_is_read(self, file, nothing_added):
        libraries.add_library_files([file])
        assert libraries.runtimes_of("mine") == ["cuda"]
        assert libraries.names_for("cuda")[-1] == "mine"
        assert libraries.native_library("cuda") == "nccl"
        mine = libraries.added_libraries()[0]
        assert mine.variable == "CCLMARK_MINE_LIBRARY"
        assert libraries.verified("mine") == "unverified"
        assert msgspec.msgpack.decode(msgspec.msgpack.encode(mine), type=Library) == mine

    def test_paths_are_relative_to_it(self, file):
        file.write_text(GOOD.replace('"libmine.so"', '"libmine.so", "./lib/x.so", "/abs/x.so"'))
        files = read_library(file).files
        assert files == ["libmine.so", str(file.parent / "lib" / "x.so"), "/abs/x.so"]

    @pytest.mark.parametrize("name", ["nccl", "mccl", "cuda", "nvrtc", "mtrtc", "torch", "bridge"])
    def test_names_of_others_are_refused(self, file, nothing_added, name):
        file.write_text(GOOD.replace('"mine"', f'"{name}"', 1))
        with pytest.raises(UsageError, match="is already in use"):
            libraries.add_library_files([file])

    def test_a_name_twice_is_refused(self, file, nothing_added):
        with pytest.raises(UsageError, match="'mine' is in another --ccl-file too"):
            libraries.add_library_files([file, file])

    @pytest.mark.parametrize("shape", ["mpi", "shm", "bridge"])
    def test_shapes_without_a_file_of_ones_own(self, file, shape):
        file.write_text(GOOD.replace('"nccl"', f'"{shape}"'))
        with pytest.raises(UsageError, match=r"shape: .* choose from nccl, flagcx"):
            read_library(file)

    def test_only_regular_files_of_bounded_size(self, file, tmp_path):
        fifo = tmp_path / "fifo"
        os.mkfifo(fifo)
        for path in (fifo, tmp_path, Path("/dev/zero"), tmp_path / "absent"):
            with pytest.raises(UsageError, match="cannot read it"):
                read_library(path)
        file.write_text("#" * 70_000)
        with pytest.raises(UsageError, match="larger than 65536 bytes"):
            read_library(file)


#: What is replaced in GOOD, and by what.
MISTAKES = [
    ('name = "mine"', ""),
    ('"mine"', '"Mine!"'),
    ('"mine"', "3"),
    ('"nccl"', '"ncl"'),
    ('["cuda"]', '["cude"]'),
    ('["cuda"]', "[]"),
    ('["cuda"]', '["cuda"]\nnative_of = ["hip"]'),
    ('prefix = "mine"', ""),
    ('["libmine.so"]', "[]"),
    ('["libmine.so"]', '["a\\u0000"]'),
    ('["libmine.so"]', '["a"]\noldest_version = "new"'),
    ("float32 = 7", "float31 = 7"),
    ("float32 = 7", "float32 = -1"),
    ("float32 = 7", "float32 = true"),
    ("float32 = 7", ""),
    ("[types]\nfloat32 = 7", ""),
    ('prefix = "mine"', 'prefix = "mine"\ncolour = 1'),
    ("sum = 0", "sum = 0\n[exchanges]\nall = 1"),
    ("sum = 0", 'sum = 0\n[exchanges]\nalltoall = ""'),
    ('prefix = "mine"', 'prefix = "m"\nin_place_only = ["x"]'),
    ('["libmine.so"]', '["a"]\nenvironment_prefixes = [""]'),
    ('["libmine.so"]', '["a"]\nfp8_codes = "E4"'),
    ('["libmine.so"]', '["a"]\ntitle = "a\\nb"'),
    ("sum = 0", 'sum = 0\n[log]\npattern = "("'),
    ("sum = 0", 'sum = 0\n[log]\npattern = "a"'),
    ("sum = 0", "sum = 0\n[log]\npattern = '(?P<algorithm>a)(?P<colour>b)'"),
    ("sum = 0", "sum = 0\n[log]\npattern = '(?P<algorithm>a)'\nenvironment = { a = 'b' }"),
    ("sum = 0", "sum = 0\n[log]\nenvironment = { A = 'b' }"),
    ("name", "name name"),
]


def test_what_is_said_of_mistakes():
    texts = [f"{old} -> {new!r}\n  {refused(GOOD.replace(old, new, 1))}\n" for old, new in MISTAKES]
    require_golden("texts/library-mistakes.txt", "\n".join(texts))


@given(
    st.sampled_from([*Library.__struct_fields__, "else"]),
    VALUES,
    st.dictionaries(st.sampled_from([*DTYPE_BYTES, "bits"]), VALUES, max_size=3),
)
def test_any_value_of_a_field_is_taken_or_named(field, value, types):
    written = msgspec.toml.decode(GOOD) | {"types": types, field: value}
    try:
        content = msgspec.toml.encode(written)
        msgspec.toml.decode(content)
    except Exception:  # what has no TOML is no file
        return
    try:
        library = parse_library(content, "mine.toml")
    except UsageError as error:
        words = str(error)
        assert words.startswith("mine.toml: ")
        assert any(name in words for name in (field, "types"))
        assert len(words) < 1500
    else:
        assert set(library.types) <= set(DTYPE_BYTES)
        assert set(library.reductions) <= set(REDUCTIONS)


def test_versions_are_numbered_as_nccls():
    assert [parse_version(it) for it in ("", "2.7", "2.20.5", "2.28.9")] == [0, 20700, 22005, 22809]


def test_the_page_counts_the_files_of_a_new_library():
    repository = REPOSITORY
    page = (repository / "docs" / "extend" / "add-a-ccl.md").read_text()
    rows = re.findall(r"^\| has .*? \| (\d): (.*?) \|$", page, re.MULTILINE)
    counted = [(int(number), re.findall(r"`([\w/.]*[\w]\.\w+)`", files)) for number, files in rows]
    assert [number for number, _ in counted] == [1, 4]
    (_, shaped), (_, other) = counted
    assert len(other) == 4
    for file in (*shaped[:1], *other):
        directory = (repository / file).parent if "/" in file else None
        assert directory is None or directory.is_dir()
    # The engine names no library of NCCL's shape, nor does any other file of the program.
    for name in ("musa-mccl", "sunrise-pccl", "duccl", "ixccl"):
        rooms = ((repository / "engine", "*.[ch]pp"), (repository / "src" / "cclmark", "*.py"))
        files = [path for room, kind in rooms for path in room.rglob(kind)]
        naming = [path for path in files if f'"{name}"' in path.read_text()]
        assert naming == []
