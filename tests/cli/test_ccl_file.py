"""A library that only a user's file describes: the example of docs/extend/add-a-ccl.md."""

import json
import re

import pytest

from fake_libraries import fake_library
from places import REPOSITORY

PAGE = REPOSITORY / "docs" / "extend" / "add-a-ccl.md"
NAMED = ("--ccl-file", "example.toml", "--ccl", "example")
SMALL = ("-b", "96", "-e", "768", "-f", "8", "-n", "2", "-w", "1")


@pytest.fixture
def env(tmp_path, monkeypatch):
    """The example's file in the directory of the run, a fake library where it says, its devices."""
    fakes = fake_library("tang/libpccl.so").parent
    [example] = re.findall(r"```toml\n(# example.toml\n.*?)```", PAGE.read_text(), re.DOTALL)
    (tmp_path / "example.toml").write_text(example)
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libexample.so.1").symlink_to(fakes / "libpccl.so")
    return {
        "CCLMARK_TANG_LIBRARY": str(fakes / "libtangrt_shared.so"),
        "CCLMARK_CACHE_DIR": str(tmp_path / "cache"),
        "CCLMARK_FAKE_DEVICES": "3",
        "EXAMPLE_SETTING": "1",
    }


def test_every_operation_of_the_example_is_right(cclmark, env, tmp_path) -> None:
    run = cclmark("collectives", *NAMED, *SMALL, env=env)
    header = run.journal.header
    assert {device.runtime for device in header.devices} == {"tang"}
    [library] = header.libraries
    assert (library.name, library.version) == ("example", "1.1.0")
    assert header.environment["EXAMPLE_SETTING"] == "1"
    results = run.journal.results
    assert {result.status for result in results} == {"ok"}
    assert {result.case.operation for result in results} > {"all_reduce", "alltoallv", "barrier"}
    said = "example is known from a --ccl-file only"
    assert said in run.err
    assert any(said in notice for notice in header.notices)
    assert "tang/libpccl.so" in library.path


def test_info_lists_it(cclmark, env, without_torch) -> None:
    out = cclmark("info", "--ccls", "--json", *NAMED[:2], env=env | without_torch).out
    [report] = [one for one in json.loads(out)["ccls"] if one["name"] == "example"]
    assert (report["reason"], report["verified"]) == ("", "unverified")
    assert "example 1.1.0" in cclmark("info", *NAMED[:2], env=env).out


def test_a_type_that_it_does_not_list_is_skipped(cclmark, env) -> None:
    run = cclmark("all_reduce", *NAMED, *SMALL, "-d", "float32,fp8e4m3", env=env)
    found = {it.case.dtype: (it.status, it.reason) for it in run.journal.results}
    assert found["float32"] == ("ok", "")
    assert found["fp8e4m3"] == ("skipped", "example 1.1.0 does not support fp8e4m3")


def test_its_variable_names_another_file(cclmark, env) -> None:
    missing = {**env, "CCLMARK_EXAMPLE_LIBRARY": "/no/such/file"}
    run = cclmark("all_reduce", *NAMED, *SMALL, env=missing, code=3)
    assert "CCLMARK_EXAMPLE_LIBRARY is set to this path" in run.err


def test_an_invalid_file_ends_with_the_code_of_usage(cclmark, env, tmp_path) -> None:
    path = tmp_path / "example.toml"
    path.write_text(path.read_text().replace('shape = "nccl"', 'shape = "nicl"'))
    for command in (("all_reduce", *NAMED), ("pairs", *NAMED), ("info", *NAMED[:2])):
        run = cclmark(*command, env=env, code=2)
        assert "--ccl-file example.toml: shape: unknown 'nicl': choose from nccl" in run.err
        assert not list(tmp_path.glob("*.jsonl"))


def test_a_library_that_is_not_measured_is_refused(cclmark, env) -> None:
    run = cclmark("all_reduce", *NAMED[:2], "--devices", "host:2", *SMALL, env=env, code=2)
    assert "--ccl-file describes example, which is not measured: add --ccl example" in run.err


def test_rerun_takes_it_from_the_user_only(cclmark, env) -> None:
    first = cclmark("all_reduce", *NAMED, *SMALL, env=env).journal_path
    refused = cclmark("rerun", first, env=env, code=2)
    assert "loads code: --ccl-file=example.toml" in refused.err
    again = cclmark("rerun", first, "--", "--ccl-file", "example.toml", env=env)
    assert {result.case.ccl for result in again.journal.results} == {"example"}
