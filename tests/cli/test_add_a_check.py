"""docs/extend/add-a-check.md, applied to a copy of the package: the new check judges hosts."""

import json
import re

import pytest
from msgspec import toml

from extending import blocks_of, copy_of_package, require_style, run_copy
from host_cases import Case
from places import REPOSITORY
from recorded_hosts import base

PAGE = REPOSITORY / "docs" / "extend" / "add-a-check.md"
LIST = "src/cclmark_fleet/hosts/checks/__init__.py"


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """A copy of the package to which the page was applied, which follows the rules of the code."""
    root = copy_of_package(tmp_path_factory.mktemp("extended"))
    (check, (text,)), (listed, (imported, line)) = blocks_of(PAGE)
    assert listed == LIST
    assert not (REPOSITORY / check).exists()
    (root / check.removeprefix("src/")).write_text(text)
    file = root / LIST.removeprefix("src/")
    old = file.read_text()
    for place, addition in (("\n#: In the order of lists", f"\n{imported}"), (")\nIDS:", line)):
        assert old.count(place) == 1
        old = old.replace(place, f"{addition}{place}")
    file.write_text(old)
    require_style(root, [check], "tests/repository/test_names.py")
    return root


def judged(package, folder, host, code):
    """The outcome of the check on a host, as JSON has it."""
    path = folder / "host.json"
    document = host.document()
    path.write_text(json.dumps(document | {"checks": [*document["checks"], "swap"]}))
    (folder / "run.jsonl").unlink(missing_ok=True)
    words = ("doctor", "--from", "host.json", "--only", "swap", "--format", "json", "--quiet")
    text = run_copy(package, folder, *words, "--journal", "run.jsonl", code=code)
    ((outcome,),) = [one["outcomes"] for one in json.loads(text)["hosts"]]
    return outcome


def test_the_new_check_fails_passes_and_cannot_tell(package, tmp_path):
    (block,) = re.findall(r"^```toml\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    rows = [Case("swap", number, row) for number, row in enumerate(toml.decode(block)["swap"])]
    assert [one.state for one in rows] == ["fail", "pass"]
    failed, passed = (
        judged(package, tmp_path, one.recording(), code=int(one.state == "fail")) for one in rows
    )
    assert (failed["state"], failed["signals"][0]["seen"]) == ("fail", "4096 MiB used")
    assert failed["remedies"][0]["step"] == "setting"
    assert passed["state"] == "pass"
    unknown = judged(package, tmp_path, base(), code=0)
    assert (unknown["state"], unknown["needs"]) == ("unknown", "swapon --show")
