"""The wheel is built with the same tools by make and by pip."""

import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from commands import completed
from places import REPOSITORY

try:
    import tomllib
except ModuleNotFoundError:  # before Python 3.11
    import tomli as tomllib


TOOLS = re.compile(r"^([A-Z]+_TOOLS) := (.*)$", re.MULTILINE)
MAKEFILE = (REPOSITORY / "Makefile").read_text()
PYPROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())


def test_make_has_the_tools_that_pip_requires_and_those_of_groups():
    tools = {name: words.replace('"', "").split() for name, words in TOOLS.findall(MAKEFILE)}
    # pip's build requires these two only where the machine does not have them.
    built_with = {*tools["BUILD_TOOLS"]} - {"cmake", "ninja"}
    assert built_with == {*PYPROJECT["build-system"]["requires"]}
    for variable, group in (("DOCS_TOOLS", "docs"), ("WHEEL_TOOLS", "wheels")):
        assert tools[variable] == PYPROJECT["dependency-groups"][group]


def test_ci_runs_the_test_command_of_the_readme():
    blocks = re.findall(r"^```sh\n(.*?)^```$", (REPOSITORY / "README.md").read_text(), re.M | re.S)
    commands = [line.partition("#")[0].strip() for line in blocks[0].splitlines()]
    assert commands == ["make bench", "make test"]
    assert (REPOSITORY / ".ci" / "run").read_text().splitlines()[-1] == "make test"


def test_the_citation_has_the_version():
    project = PYPROJECT["project"]
    assert f"\nversion: {project['version']}\n" in (REPOSITORY / "CITATION.cff").read_text()


def test_the_image_is_made_of_files_that_are_here():
    copies = re.findall(r"^COPY (?!--)(.*) \S+$", (REPOSITORY / "Containerfile").read_text(), re.M)
    files = [REPOSITORY / name for names in copies for name in names.split()]
    assert [file for file in files if not file.exists()] == []
    project = PYPROJECT["project"]
    assert {project["readme"], *project["license-files"]} <= {file.name for file in files}


def run(*command, **environment):
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return completed(
        command, cwd=REPOSITORY, env={**os.environ, "PATH": path, **environment}, timeout_s=120
    )


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")
def test_make_checks_for_doctest_before_it_installs_anything():
    """A compiler that always fails finds no header."""
    engine = run("make", "--dry-run", "engine-build", "CXX=false")
    assert engine.returncode == 2
    assert "install doctest" in engine.stderr
    assert engine.stdout == ""
    fakes = run("make", "--dry-run", "fakes-build", "CXX=false")
    assert fakes.returncode == 0, fakes.stderr


@pytest.mark.skipif(
    shutil.which("cmake", path=Path(sys.executable).parent) is None,
    reason="the tools of the build are not installed: make .venv/tools",
)
def test_the_fakes_are_built_without_doctest(tmp_path):
    hidden = ";".join(["/usr/include", "/usr/local/include", "/opt/include"])
    configured = run(
        *("cmake", "-G", "Ninja", "-S", ".", "-B", tmp_path, f"-DCMAKE_IGNORE_PATH={hidden}"),
        *("-DCCLMARK_TESTS=ON", "-DCCLMARK_PYTHON=OFF", "-DDOCTEST_INCLUDE="),
        CMAKE_PREFIX_PATH="",
        CMAKE_INCLUDE_PATH="",
    )
    assert configured.returncode == 0, configured.stderr
    assert "doctest was not found" in configured.stdout
    fakes = run("ninja", "-C", tmp_path, "-t", "commands", "fakes")
    assert fakes.returncode == 0, fakes.stdout
    assert "libcuda.so.1" in fakes.stdout
    tests = run("ninja", "-C", tmp_path, "engine_tests")
    assert tests.returncode != 0
    assert "install it" in tests.stdout
