import json
import os
from pathlib import Path

import msgspec
import pytest

from cclmark import _engine as engine
from cclmark.base.errors import UsageError
from cclmark.rank.engine_values import _description_of, open_ccl
from cclmark.work import libraries
from cclmark.work.library_files import (
    _LOADED_SHAPES,
    SHAPES,
    Library,
    parse_library,
    read_library,
)
from cclmark.work.torch_devices import require_support, supports, torch_runtimes, usual_backend
from goldens import refusal, require_outcomes
from places import REPOSITORY

HERE = Path(__file__).parent
GOOD = (HERE / "mine.toml").read_text()


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(GOOD)
    return path


@pytest.fixture
def nothing_added(monkeypatch):
    monkeypatch.setattr(libraries, "_added", {})


def test_shipped_libraries_have_names_places_and_devices_of_their_own():
    shipped = libraries.shipped()
    directory = Path(libraries.__file__).parents[1] / "libraries"
    names = {path.stem for path in directory.glob("*.toml")}
    assert names == {name.replace(":", "-") for name in shipped}
    places = [library.place for library in shipped.values()]
    assert len(places) == len(set(places))
    natural_of = [it for library in shipped.values() for it in library.native_of]
    assert len(natural_of) == len(set(natural_of))


def test_the_engine_has_code_for_the_shapes():
    assert set(engine.known_shapes()) == {*_LOADED_SHAPES, "shm"}
    assert set(SHAPES) == {*engine.known_shapes(), "bridge", "torch"}


@pytest.mark.parametrize(
    "name", [one.name for one in libraries.shipped().values() if one.is_loaded]
)
def test_the_engine_takes_what_is_said(name):
    library = libraries.shipped()[name]
    description = _description_of(library)
    assert (description.name, description.files) == (name, library.files)
    with pytest.raises(engine.MissingError, match="/no/such/file"):
        open_ccl(name, "/no/such/file", [])


def test_a_users_file_is_read(file, nothing_added):
    libraries.add_library_files([file])
    assert libraries.runtimes_of("mine") == ["cuda"]
    assert libraries.names_for("cuda")[-1] == "mine"
    assert libraries.native_library("cuda") == "nccl"
    mine = libraries.added_libraries()[0]
    assert mine.variable == "CCLMARK_MINE_LIBRARY"
    assert libraries.verified("mine") == "unverified"
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(mine), type=Library) == mine
    # Paths are relative to it.
    file.write_text(GOOD.replace('"libmine.so"', '"libmine.so", "./lib/x.so"'))
    assert read_library(file).files == ["libmine.so", str(file.parent / "lib" / "x.so")]


def test_names_that_are_in_use_are_refused(file, nothing_added):
    with pytest.raises(UsageError, match="'mine' is in another --ccl-file too"):
        libraries.add_library_files([file, file])
    for name in ("nccl", "cuda", "nvrtc", "torch"):
        file.write_text(GOOD.replace('"mine"', f'"{name}"', 1))
        with pytest.raises(UsageError, match="is already in use"):
            libraries.add_library_files([file])


def test_shapes_without_a_file_of_ones_own(file):
    file.write_text(GOOD.replace('"nccl"', '"mpi"'))
    with pytest.raises(UsageError, match=r"shape: .* choose from nccl, flagcx"):
        read_library(file)


def test_only_regular_files_of_bounded_size_are_read(file, tmp_path):
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path / "fifo", tmp_path, Path("/dev/zero"), tmp_path / "absent"):
        with pytest.raises(UsageError, match="cannot read it"):
            read_library(path)
    file.write_text("#" * 70_000)
    with pytest.raises(UsageError, match="larger than 65536 bytes"):
        read_library(file)


def test_what_is_said_of_mistakes():
    def message(line):
        old, new = json.loads(line)
        assert old in GOOD
        return refusal(parse_library, GOOD.replace(old, new, 1).encode(), "mine.toml")

    require_outcomes(HERE / "wrong_libraries.txt", message)


def test_no_library_of_the_shape_of_nccl_is_named():
    for name in ("musa-mccl", "sunrise-pccl", "duccl", "ixccl"):
        rooms = ((REPOSITORY / "engine", "*.[ch]pp"), (REPOSITORY / "src" / "cclmark", "*.py"))
        files = [path for room, kind in rooms for path in room.rglob(kind)]
        naming = [path for path in files if f'"{name}"' in path.read_text()]
        assert naming == []


# How torch uses the devices of each runtime.


FACTS = {
    "has": torch_runtimes,
    "supports": supports,
    "is required to support": lambda *given: require_support("torch:x", *given),
    "usual": lambda runtime: usual_backend(runtime, "--backend"),
}


def test_backends_support_the_devices_that_they_are_made_for_and_unknown_ones_any():
    def fact(line):
        kind, *arguments = json.loads(line)
        return refusal(lambda: repr(FACTS[kind](*arguments)))

    require_outcomes(HERE / "torch_backends.txt", fact)
