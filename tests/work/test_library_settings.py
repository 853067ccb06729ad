import json
import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from cclmark.base.errors import UsageError
from cclmark.base.files import shipped_toml_files
from cclmark.journal.schema import HostDescription, Machine
from cclmark.options.varied import check_settings, environment_with, possible_variants
from cclmark.rank.effective_settings import effective_values
from cclmark.work import libraries
from cclmark.work import library_settings as settings
from cclmark.work.library_fields import find_version
from cclmark.work.library_files import ConfigurationFiles, Inherits, parse_library
from cclmark.work.library_settings import check_value, is_kept, parse_list, settings_of
from cclmark.work.operations import OPERATIONS
from cclmark.work.setting_fields import LibrarySetting
from cclmark.work.variants import PROCESS, Assignment, Variant
from goldens import refusal, require_outcomes
from places import REPOSITORY

HERE = Path(__file__).parent
LIBRARY = (HERE / "mine.toml").read_text()
GOOD = """
[[settings]]
name = "MINE_LEVEL"
effect = "The level."
form = "choice"
values = ["low", "high"]
"""
NUMBER = GOOD.replace('"choice"\nvalues = ["low", "high"]', '"integer"')
OFF = {"NCCL_NVLS_ENABLE": "0"}
SHIPPED = libraries.shipped()


def setting_in(content: str) -> LibrarySetting:
    [setting] = parse_library((LIBRARY + content).encode(), "mine.toml").settings
    return setting


def known(ccl: str, name: str) -> LibrarySetting:
    setting = settings.find_setting(ccl, name)
    assert setting is not None
    return setting


@pytest.fixture
def nothing_added(monkeypatch):
    monkeypatch.setattr(libraries, "_added", {})


@pytest.mark.parametrize("ccl", [ccl for ccl in SHIPPED if libraries.listed_settings(SHIPPED[ccl])])
def test_what_shipped_settings_state_is_possible(ccl):
    """Values, defaults, and other settings that they name; journals contain all of them."""
    prefixes = tuple(SHIPPED[ccl].environment_prefixes)
    for setting in libraries.listed_settings(SHIPPED[ccl]):
        assert setting.name.startswith(prefixes)
        assert setting.option or "communicator option" not in setting.deployed_by
        restricting = [value for one in setting.restricts for value in one.values]
        for value in filter(None, [*setting.values, setting.default, *restricting]):
            check_value(setting, value, "")
        for name, values in setting.requires.items():
            for value in values:
                check_value(known(ccl, name), value, "")
        for conflict in setting.conflicts:
            check_value(known(ccl, conflict.variable), conflict.set_to, "")
        for name in filter(None, [setting.at_least_of, setting.at_most_of]):
            assert known(ccl, name).form == "integer"
        if setting.product:
            assert known(ccl, setting.product.variable).product


def test_settings_are_the_last_part_of_a_shipped_file():
    """Libraries are read without them, up to the first one."""
    for path in shipped_toml_files("libraries"):
        whole = parse_library(path.read_bytes(), path.name)
        assert SHIPPED[whole.name] == replace(whole, settings=[])
        assert libraries.listed_settings(SHIPPED[whole.name]) == whole.settings


@pytest.mark.parametrize("ccl", ["nccl", "rccl", "flagcx", "torch:nccl"])
def test_multicast_is_never_switched_on_where_it_is_off(ccl):
    multicast, algorithm = known(ccl, "NCCL_NVLS_ENABLE"), known(ccl, "NCCL_ALGO")
    for zero in ("0", "00", "0x0", " 0"):
        assert is_kept(multicast, {"NCCL_NVLS_ENABLE": zero})
    assert "not overridden" in refusal(check_value, multicast, "1", "", OFF)
    check_value(multicast, "0", "", OFF)
    for value in ("NVLS", "ring,nvlstree", "ring;allreduce:NVLS"):
        assert "NCCL_NVLS_ENABLE=0 is set" in refusal(check_value, algorithm, value, "", OFF)
    for value in ("ring", "^nvls", "^NVLS,nvlstree"):
        check_value(algorithm, value, "", OFF)
    check_value(algorithm, "NVLS", "", {})
    assert not is_kept(multicast, {"NCCL_NVLS_ENABLE": "2"})


def test_restricted_operations_of_multicast_are_those_of_the_table():
    [restriction] = known("nccl", "NCCL_NVLS_ENABLE").restricts
    multicast = {name for name, row in OPERATIONS.items() if row.multicast}
    assert set(restriction.operations) == multicast


def test_libraries_inherit_settings():
    for library in SHIPPED.values():
        if below := library.inherits.settings_of:
            assert SHIPPED[below].inherits == Inherits()  # of one level
    assert settings_of("torch:nccl") == settings_of("nccl") != []
    names = {ccl: [one.name for one in settings_of(ccl)] for ccl in ("nccl", "rccl", "mpi")}
    assert {one.name for one in settings_of("torch:mpi")} == {*names["mpi"]}
    # torch reports the version of NCCL only.
    assert find_version("2.11.0 with NCCL 2.28.9") == (22809, "2.28.9")
    assert not any(one.since or one.value_since for one in settings_of("torch:mpi"))
    # Settings are replaced in their place.
    assert len(names["rccl"]) == len(set(names["rccl"]))
    assert [name for name in names["rccl"] if name in names["nccl"]] == names["nccl"]


def test_a_users_library_may_inherit_from_a_shipped_one_only(tmp_path, nothing_added):
    file = tmp_path / "mine.toml"
    for name in ("no-such", "mine"):
        file.write_text(LIBRARY + f'[inherits]\nsettings_of = "{name}"\n')
        with pytest.raises(UsageError, match=f"inherits.settings_of: '{name}' is not a library"):
            libraries.add_library_files([file])
    file.write_text(LIBRARY + '[inherits]\nsettings_of = "nccl"\n' + GOOD)
    libraries.add_library_files([file])
    names = [one.name for one in settings_of("mine")]
    assert names == ["MINE_LEVEL", *(one.name for one in settings_of("nccl"))]
    check_value(known("mine", "NCCL_WIN_ENABLE"), "1", "1.0")


def test_wrong_fields_of_settings_are_named():
    def message(line):
        *old, new = json.loads(line)
        text = GOOD.replace(*old, new, 1) if old else f"{NUMBER}\n{new}\n"
        assert text != GOOD
        return refusal(setting_in, text)

    require_outcomes(HERE / "wrong_settings.txt", message)
    with pytest.raises(UsageError, match=r"settings.name: 'MINE_LEVEL' is listed 2 times"):
        parse_library((LIBRARY + GOOD + GOOD).encode(), "mine.toml")


def test_which_values_are_possible():
    """Each line: the library, the setting, the value, the version, and what is set."""

    def outcome(line):
        ccl, name, value, *more = json.loads(line)
        setting = known(ccl, name)
        return refusal(lambda: check_value(setting, value, *(more or [""])) or "possible")

    require_outcomes(HERE / "setting_values.txt", outcome)
    plain = replace(known("nccl", "NCCL_ALGO"), per_operation_since="")
    assert "not supported" in refusal(check_value, plain, "allreduce:ring", "")


def test_which_values_are_possible_together():
    """Each line: the library, the values, the version, and what is inherited."""

    def outcome(line):
        given = json.loads(line)
        return refusal(lambda: settings.check_combination(*given) or "possible")

    require_outcomes(HERE / "setting_combinations.txt", outcome)


FACTS = {
    "list": parse_list,
    "number": lambda ccl, name, text: settings.number_of(known(ccl, name), text),
    "absence": lambda ccl, name, version: settings.absence_of(known(ccl, name), version),
    "requires": lambda ccl, name, others: settings.missing_requirements(known(ccl, name), others),
    "unknown": settings.unknown_setting_notice,
    "refused as unknown": settings.unknown_setting_refusal,
    "select": lambda *given: [one.name for one in settings.algorithm_settings(*given)],
    "files": lambda ccl: [one.system for one in settings.configuration_files_of(ccl)],
    "requires new processes": settings.requires_new_processes,
}


def test_what_is_known_of_settings():
    def fact(line):
        kind, *arguments = json.loads(line)
        return repr(FACTS[kind](*arguments))

    require_outcomes(HERE / "setting_facts.txt", fact)


@pytest.fixture
def files(nothing_added, tmp_path):
    """The files of the user and of the system, in which MINE_LEVEL may be set."""
    user, system = tmp_path / "user.conf", tmp_path / "system.conf"
    library = parse_library((LIBRARY + GOOD + 'default = "low"').encode(), "mine.toml")
    places = ConfigurationFiles("MINE_FILE", str(user), str(system))
    libraries.add_libraries([replace(library, configuration=places)])
    return user, system


def test_the_first_place_of_a_setting_applies(files):
    def value(**environment: str) -> tuple[str, str]:
        [value], notices = effective_values("mine", "", environment)
        assert notices == []
        return value.value, value.source

    user, system = files
    assert value() == ("low", "default")
    system.write_text("MINE_LEVEL=c\n")
    assert value() == ("c", str(system))
    user.write_text("# MINE_LEVEL=x\n#\nMINE_LEVEL=b\nMINE_LEVEL=d\nMINE_LEVEL\n")
    assert value() == ("b", str(user))
    other = user.with_name("other.conf")
    other.write_bytes(b"\xff\nMINE_LEVEL=a=1")
    assert value(MINE_FILE=str(other)) == ("a=1", str(other))
    assert value(MINE_LEVEL="", MINE_FILE=str(other)) == ("", "environment")


def test_configuration_files_that_cannot_be_read(files):
    _, system = files
    _, notices = effective_values("mine", "", {"MINE_FILE": "/no/such/file"})
    assert notices == ["MINE_FILE=/no/such/file: No such file or directory"]
    os.mkfifo(system)
    _, notices = effective_values("mine", "", {})
    assert notices == [f"{system}: cannot read it: not a regular file"]


@pytest.mark.parametrize(
    ("own", "environment", "expected"),
    [
        ("low", {}, ("low", "default", "")),
        ("high", {}, ("high", "library", "")),
        ("high", {"MINE_LEVEL": "1"}, ("high", "environment", "")),
        (None, {}, ("", "", "unknown to this library")),
    ],
)
def test_what_the_library_itself_reports(files, own, environment, expected):
    [value], _ = effective_values("mine", "", environment, lambda setting: own)
    assert (value.value, value.source, value.absence) == expected


def test_the_page_of_a_new_library_is_valid():
    page = (REPOSITORY / "docs" / "extend" / "add-a-ccl.md").read_text()
    fields = page.partition("### Settings")[2]
    example = fields.partition("```toml\n")[2].partition("```")[0]
    assert setting_in(example).name == "EXAMPLE_MAX_CHANNELS"
    for field in LibrarySetting.__struct_fields__:
        assert f"`{field}`" in fields, field


def host_with(**environment):
    machine = Machine("node", "Linux", "6.1", "EPYC", 64, 1 << 30)
    return HostDescription(machine, "identity", environment)


def test_settings_with_an_effect_between_hosts_are_compared_there():
    hosts = [host_with(), host_with()]
    varied = [("NCCL_IB_QPS_PER_CONNECTION", ["1", "2"])]
    assert check_settings(varied, "nccl", hosts=hosts) == []
    with pytest.raises(UsageError, match=r"between hosts only.*noise"):
        check_settings(varied, "nccl", hosts=hosts[:1])


def test_what_is_never_overridden_on_any_host_is_overridden_on_none(monkeypatch):
    monkeypatch.setenv("NCCL_NVLS_ENABLE", "1")
    monkeypatch.setenv("NCCL_DEBUG", "WARN")
    monkeypatch.delenv("NCCL_IB_HCA", raising=False)
    hosts = [host_with(), host_with(**OFF, NCCL_DEBUG="INFO", NCCL_IB_HCA="mlx5")]
    found = environment_with("nccl", hosts)
    assert (found["NCCL_NVLS_ENABLE"], found["NCCL_DEBUG"]) == ("0", "WARN")
    assert "NCCL_IB_HCA" not in found
    assert environment_with("nccl", hosts[:1])["NCCL_NVLS_ENABLE"] == "1"
    with pytest.raises(UsageError, match="NCCL_NVLS_ENABLE=0 is set in the environment"):
        check_settings([("NCCL_NVLS_ENABLE", ["1"])], "nccl", hosts=hosts)
    varied = [Variant((Assignment("NCCL_ALGO", "NVLSTree", PROCESS),))]
    with pytest.raises(UsageError, match="NVLS"):
        possible_variants(varied, "nccl", hosts=hosts)


def test_no_variables_of_a_variant_override_what_is_kept():
    """As ranks check them, each in its own environment, and train the files of --artifact."""
    settings.check_overrides({**OFF, "NCCL_ALGO": "Ring", "MINE": "1"}, OFF)
    settings.check_overrides({"NCCL_NVLS_ENABLE": "1", "NCCL_ALGO": "NVLS"}, {})
    for variables in ({"NCCL_NVLS_ENABLE": "1"}, {"NCCL_ALGO": "Ring,NVLSTree"}):
        with pytest.raises(UsageError, match="NCCL_NVLS_ENABLE=0"):
            settings.check_overrides(variables, OFF)
