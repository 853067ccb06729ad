"""What an installation brings: the files of the wheel, and what it requires."""

import re
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

PARTS = ("fleet", "importers", "planning", "programs", "serve", "training")
CCLMARK = metadata.distribution("cclmark")
PACKAGES = {"cclmark", *(f"cclmark_{part}" for part in PARTS)}
SUFFIXES = {".css", ".j2", ".js", ".py", ".pyi", ".toml", ".txt", ".typed"}
MOST_MB = 60


def files_of_wheel():
    compiled_by_pip = {"__pycache__"}
    return [file for file in CCLMARK.files if not compiled_by_pip & set(file.parts)]


def test_packages_contain_code_data_and_two_libraries():
    inside = [file for file in files_of_wheel() if file.parts[0] in PACKAGES]
    libraries = [file for file in inside if file.suffix == ".so"]
    assert {file.parts[0] for file in inside} == PACKAGES
    assert sorted(file.name.partition(".")[0] for file in libraries) == [
        "_engine",
        "libcclmark_plugin",
    ]
    assert [str(file) for file in inside if file.suffix not in {*SUFFIXES, ".so"}] == []


def test_nothing_lies_beside_the_packages():
    outside = [file for file in files_of_wheel() if file.parts[0] not in PACKAGES]
    commands = {file.name for file in outside if file.parts[-2] == "bin"}
    about = [file for file in outside if file.parts[-2] != "bin"]
    assert commands == {"cclmark", "p2pBandwidthLatencyTest"}
    assert {re.sub(r"-.*\.", ".", file.parts[0]) for file in about} == {"cclmark.dist-info"}
    assert "licenses/LICENSE" in {"/".join(file.parts[1:]) for file in about}


def plain_requirements(name):
    """Distributions that pip installs with this one where no extra is named."""
    for text in metadata.requires(name) or []:
        requirement = Requirement(text)
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            yield requirement.name.lower()


def test_a_plain_installation_is_small():
    """Pictures, databases and timelines are extras."""
    needed = ["cclmark"]
    for name in needed:
        needed += [other for other in plain_requirements(name) if other not in needed]
    assert set(needed) - {"tomli"} == {
        *("cclmark", "click", "jinja2", "markupsafe", "msgspec", "nvidia-ml-py", "pyzmq")
    }
    paths = [Path(file.locate()) for name in needed for file in metadata.files(name)]
    installed = sum(path.stat().st_size for path in paths if path.exists())
    assert installed < MOST_MB * 1_000_000
