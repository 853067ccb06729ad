"""The settings of libraries: their files, and which values are possible."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from cclmark.base.errors import UsageError
from cclmark.base.files import shipped_toml_files
from cclmark.journal.schema import HostDescription, Machine
from cclmark.options.varied import check_settings, environment_with, possible_variants
from cclmark.rank.effective_settings import effective_values
from cclmark.references.match import restrictions
from cclmark.work import libraries
from cclmark.work.library_fields import find_version
from cclmark.work.library_files import ConfigurationFiles, Inherits, Library, parse_library
from cclmark.work.library_settings import (
    absence_of,
    algorithm_settings,
    check_combination,
    check_overrides,
    check_value,
    configuration_files_of,
    find_setting,
    inactive_on_one_host,
    is_kept,
    missing_requirements,
    number_of,
    requires_new_processes,
    settings_of,
    unknown_setting_notice,
    unknown_setting_refusal,
)
from cclmark.work.operations import OPERATIONS
from cclmark.work.setting_checks import allows, parse_list
from cclmark.work.setting_fields import LibrarySetting
from cclmark.work.variants import PROCESS, Assignment, Variant
from goldens import require_golden
from places import REPOSITORY
from reports import COLLECTIVES

LIBRARY = """
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
GOOD = """
[[settings]]
name = "MINE_LEVEL"
effect = "The level."
form = "choice"
values = ["low", "high"]
"""
NUMBER = GOOD.replace('"choice"\nvalues = ["low", "high"]', '"integer"')
DYNAMIC = "OMPI_MCA_coll_tuned_use_dynamic_rules"
WITH_SETTINGS = [
    name for name, one in libraries.shipped().items() if libraries.listed_settings(one)
]


def setting_in(content: str) -> LibrarySetting:
    [setting] = parse_library((LIBRARY + content).encode(), "mine.toml").settings
    return setting


def refused(setting: LibrarySetting, value: str, version="", environment=None) -> str:
    with pytest.raises(UsageError) as caught:
        check_value(setting, value, version, environment)
    message = str(caught.value)
    shown = f"'{value}'" if not value or " " in value else value
    assert message.startswith(f"{setting.name}={shown}: ")
    return message.removeprefix(f"{setting.name}={shown}: ")


def known(ccl: str, name: str) -> LibrarySetting:
    setting = find_setting(ccl, name)
    assert setting is not None
    return setting


@pytest.fixture
def added(monkeypatch):
    """Adds a library: ``added(settings=[...])``."""
    monkeypatch.setattr(libraries, "_added", {})
    library = parse_library(LIBRARY.encode(), "mine.toml")

    def add(**fields) -> Library:
        own = replace(library, **fields)
        libraries.add_libraries([own])
        return own

    return add


class TestShipped:
    @pytest.mark.parametrize("ccl", WITH_SETTINGS)
    def test_values_and_defaults_are_possible(self, ccl):
        for setting in libraries.listed_settings(libraries.shipped()[ccl]):
            restricting = [value for one in setting.restricts for value in one.values]
            for value in filter(None, [*setting.values, setting.default, *restricting]):
                check_value(setting, value, "")

    @pytest.mark.parametrize("ccl", WITH_SETTINGS)
    def test_other_settings_that_they_name_exist(self, ccl):
        for setting in libraries.listed_settings(libraries.shipped()[ccl]):
            for name, values in setting.requires.items():
                for value in values:
                    check_value(known(ccl, name), value, "")
            for conflict in setting.conflicts:
                check_value(known(ccl, conflict.variable), conflict.set_to, "")
            for name in filter(None, [setting.at_least_of, setting.at_most_of]):
                assert known(ccl, name).form == "integer"
            if setting.product:
                assert known(ccl, setting.product.variable).product

    @pytest.mark.parametrize("ccl", WITH_SETTINGS)
    def test_journals_keep_them(self, ccl):
        prefixes = tuple(libraries.shipped()[ccl].environment_prefixes)
        for setting in libraries.listed_settings(libraries.shipped()[ccl]):
            assert setting.name.startswith(prefixes)

    @pytest.mark.parametrize("ccl", WITH_SETTINGS)
    def test_an_option_of_a_communicator_has_a_name(self, ccl):
        for setting in libraries.listed_settings(libraries.shipped()[ccl]):
            assert setting.option or "communicator option" not in setting.deployed_by

    def test_inherited_libraries_inherit_nothing_themselves(self):
        for library in libraries.shipped().values():
            if below := library.inherits.settings_of:
                assert libraries.shipped()[below].inherits == Inherits()

    def test_multicast_is_never_switched_on_where_it_is_off(self):
        off = {"NCCL_NVLS_ENABLE": "0"}
        for ccl in ("nccl", "rccl", "flagcx", "torch:nccl"):
            multicast = known(ccl, "NCCL_NVLS_ENABLE")
            assert is_kept(multicast, off)
            for value in ("1", "2"):
                assert "not overridden" in refused(multicast, value, "", off)
            check_value(multicast, "0", "", off)
            algorithm = known(ccl, "NCCL_ALGO")
            for value in ("NVLS", "ring,nvlstree", "ring;allreduce:NVLS"):
                assert "NCCL_NVLS_ENABLE=0 is set" in refused(algorithm, value, "", off)
            for value in ("ring", "^nvls", "^NVLS,nvlstree"):
                check_value(algorithm, value, "", off)
            check_value(algorithm, "NVLS", "", {})
            assert not is_kept(multicast, {"NCCL_NVLS_ENABLE": "2"})

    @pytest.mark.parametrize("zero", ["0", "00", "0x0", " 0"])
    def test_other_spellings_of_an_inherited_zero_are_kept(self, zero):
        assert is_kept(known("nccl", "NCCL_NVLS_ENABLE"), {"NCCL_NVLS_ENABLE": zero})

    def test_restricted_operations_of_multicast_are_those_of_the_table(self):
        [restriction] = known("nccl", "NCCL_NVLS_ENABLE").restricts
        multicast = {name for name, row in OPERATIONS.items() if row.multicast}
        assert set(restriction.operations) == multicast


class TestInheritance:
    def test_a_backend_of_torch_has_the_settings_of_its_library(self):
        assert settings_of("torch:nccl") == settings_of("nccl") != []
        assert {one.name for one in settings_of("torch:mpi")} == {
            one.name for one in settings_of("mpi")
        }

    def test_torch_reports_the_version_of_nccl_only(self):
        assert find_version("2.11.0 with NCCL 2.28.9") == (22809, "2.28.9")
        assert not any(one.since or one.value_since for one in settings_of("torch:mpi"))

    def test_rccl_replaces_settings_in_their_place(self):
        check_value(known("rccl", "NCCL_MAX_CTAS"), "112", "2.27.7")
        assert "out of range" in refused(known("nccl", "NCCL_MAX_CTAS"), "112", "2.27.7")
        names = [one.name for one in settings_of("rccl")]
        assert len(names) == len(set(names))
        nccl = [one.name for one in settings_of("nccl")]
        assert [name for name in names if name in nccl] == nccl

    def test_flagcx_has_other_versions_than_the_library_that_it_loads(self):
        check_value(known("flagcx", "NCCL_WIN_ENABLE"), "1", "0.13.0")
        check_value(known("flagcx", "NCCL_ALGO"), "ring;allreduce:PAT", "0.13.0")
        assert "since 2.27, this library is 2.26" in refused(
            known("rccl", "NCCL_WIN_ENABLE"), "1", "2.26"
        )

    def test_configuration_files_of_a_loaded_library_apply_too(self):
        assert [one.system for one in configuration_files_of("flagcx")] == [
            "/etc/flagcx.conf",
            "/etc/nccl.conf",
        ]
        assert [one.system for one in configuration_files_of("rccl")] == ["/etc/rccl.conf"]
        assert configuration_files_of("shm") == []

    def test_a_users_library_may_inherit(self, tmp_path, monkeypatch):
        monkeypatch.setattr(libraries, "_added", {})
        file = tmp_path / "mine.toml"
        file.write_text(LIBRARY + '[inherits]\nsettings_of = "nccl"\n' + GOOD)
        libraries.add_library_files([file])
        names = [one.name for one in settings_of("mine")]
        assert names == ["MINE_LEVEL", *(one.name for one in settings_of("nccl"))]
        check_value(known("mine", "NCCL_WIN_ENABLE"), "1", "1.0")

    @pytest.mark.parametrize("name", ["no-such", "mine"])
    def test_but_only_from_a_library_of_ours(self, tmp_path, monkeypatch, name):
        monkeypatch.setattr(libraries, "_added", {})
        file = tmp_path / "mine.toml"
        file.write_text(LIBRARY + f'[inherits]\nsettings_of = "{name}"\n')
        with pytest.raises(UsageError, match=f"inherits.settings_of: '{name}' is not a library"):
            libraries.add_library_files([file])


#: What is replaced in GOOD, and by what.
WRONG_FIELDS = [
    ('name = "MINE_LEVEL"', ""),
    ("MINE_LEVEL", "MINE LEVEL"),
    ("MINE_LEVEL", "LD_PRELOAD=x"),
    ('"The level."', '""'),
    ('"The level."', '"a\\nb"'),
    ('"choice"', '"choise"'),
    ('"choice"', "3"),
    ('"choice"', '"text"'),
    ('["low", "high"]', "[]"),
    ('"low"', '"a,b"'),
    ("values", "minimum = 1\nvalues"),
    ("values", 'scope = "run"\nvalues'),
    ("values", 'deployed_by = ["x"]\nvalues'),
    ("values", 'costs = ["time"]\nvalues'),
    ("values", 'operations = ["x"]\nvalues'),
    ("values", 'since = "new"\nvalues'),
    ("values", 'until = "2"\nvalues'),
    ("values", 'value_since = { mid = "1.0" }\nvalues'),
    ("values", 'value_since = { low = "x" }\nvalues'),
    ("values", 'per_operation_since = "1.0"\nvalues'),
    ("values", 'implementation = "x"\nvalues'),
    ("values", "requires = { A = [] }\nvalues"),
    ("values", 'requires = { "a b" = ["1"] }\nvalues'),
    ("values", "restricts = [{ }]\nvalues"),
    ("values", 'restricts = [{ words = "w", operations = ["x"] }]\nvalues'),
    ("values", 'restricts = [{ word = "w" }]\nvalues'),
    ("values", 'conflicts = [{ values = ["mid"], variable = "A", set_to = "0" }]\nvalues'),
    ("values", 'kept_values = ["\\u0007"]\nvalues'),
    ("values", "numbered = 1\nvalues"),
    ("values", "colour = 1\nvalues"),
]


def test_wrong_fields_are_named():
    texts = []
    for old, new in WRONG_FIELDS:
        assert old in GOOD
        with pytest.raises(UsageError) as caught:
            setting_in(GOOD.replace(old, new, 1))
        texts.append(f"{old} -> {new!r}\n  {caught.value}\n")
    require_golden("texts/settings-wrong-fields.txt", "\n".join(texts))


#: What is added to NUMBER.
WRONG_LIMITS = [
    "minimum = 5\nmaximum = 4",
    "maximum = 9223372036854775808",
    'maximum_before = { "x" = 4 }',
    "numbered = true",
    'at_most_of = "a b"',
    'at_least_of = "a b"',
    'product = { variable = "", maximum = 1 }',
    'product = { variable = "A" }',
    "by_size = true",
]


def test_wrong_limits_are_named():
    texts = []
    for added_text in WRONG_LIMITS:
        with pytest.raises(UsageError) as caught:
            setting_in(f"{NUMBER}\n{added_text}\n")
        texts.append(f"{added_text!r}\n  {caught.value}\n")
    require_golden("texts/settings-wrong-limits.txt", "\n".join(texts))


def test_a_setting_twice_is_refused():
    with pytest.raises(UsageError, match=r"settings.name: 'MINE_LEVEL' is listed 2 times"):
        parse_library((LIBRARY + GOOD + GOOD).encode(), "mine.toml")


class TestValues:
    @given(st.integers(-(10**6), 10**6), st.integers(-50, 50), st.integers(0, 100))
    def test_integers_within_the_limits_and_no_others(self, number, least, span):
        setting = LibrarySetting(
            name="A", effect="E.", form="integer", minimum=least, maximum=least + span
        )
        if least <= number <= least + span:
            check_value(setting, str(number), "")
        else:
            assert f"from {least} to {least + span}" in refused(setting, str(number))

    @given(st.integers(min_value=-(10**18), max_value=10**18))
    def test_sizes_are_not_negative(self, number):
        setting = LibrarySetting(name="A", effect="E.", form="size")
        if number >= 0:
            check_value(setting, str(number), "")
        else:
            assert "in bytes, of at least 0" in refused(setting, str(number))

    @pytest.mark.parametrize("value", ["4M", "1e6", "0x10", "1_000", "٣", "1.0", "-", "9" * 30])
    def test_other_spellings_of_integers(self, value):
        assert "not an integer" in refused(known("nccl", "NCCL_BUFFSIZE"), value)

    @pytest.mark.parametrize("value", ["", " 1", "1\n", "a\x00b", "\x1b[31m"])
    def test_what_is_no_value_of_any_form(self, value):
        for form in ("integer", "text"):
            setting = LibrarySetting(name="A", effect="E.", form=form)
            with pytest.raises(UsageError, match="not a value"):
                check_value(setting, value, "")

    @given(st.data())
    def test_lists_in_the_syntax_of_nccl(self, data):
        setting = known("nccl", "NCCL_ALGO")
        spelling = st.sampled_from([str.lower, str.upper, str])
        word = st.builds(lambda one, how: how(one), st.sampled_from(setting.values), spelling)
        words = st.lists(word, min_size=1, max_size=4).map(",".join)
        one = st.builds("{}{}".format, st.sampled_from(["", "^"]), words)
        operation = st.sampled_from(setting.operations)
        more = data.draw(st.lists(st.tuples(operation, one), max_size=3))
        first = data.draw(one)
        rest = [f"{name.replace('_', '')}:{listed}" for name, listed in more]
        value = ";".join([first, *rest])
        check_value(setting, value, "2.28.9")
        for name in setting.operations:
            listed = dict(more).get(name, first)
            wanted = "ring" in listed.lower().strip("^").split(",")
            assert allows(value, name, "ring") is (wanted != listed.startswith("^"))

    @pytest.mark.parametrize(
        "value", ["ring;tree", ";", "^", ",", "allreduce:", "ring, tree", ":ring", "a:b:c"]
    )
    def test_what_is_no_list(self, value):
        assert refused(known("nccl", "NCCL_ALGO"), value, "2.28.9")

    def test_what_a_refused_list_is_told(self):
        setting = known("nccl", "NCCL_ALGO")
        assert "unknown value 'rang': choose from Ring, Tree" in refused(setting, "rang")
        assert "unknown operation 'alltoall': choose from allreduce" in refused(
            setting, "ring;alltoall:ring"
        )
        plain = replace(setting, per_operation_since="")
        assert "not supported" in refused(plain, "allreduce:ring")

    def test_numbered_words(self):
        setting = known("mpi", "OMPI_MCA_coll_tuned_allreduce_algorithm")
        for value in ("ring", "4", "0"):
            check_value(setting, value, "Open MPI v5.0.11")
        for value in ("Ring", "7", "-1"):
            assert "choose from ignore, basic_linear" in refused(setting, value)

    def test_words_by_size(self):
        setting = known("oneccl", "CCL_ALLREDUCE")
        for value in (
            "ring",
            "recursive_doubling:0-8192;rabenseifner:8193-1048576;ring:1048577-max",
        ):
            check_value(setting, value, "")
        for value in ("rung", "ring:0", "ring:0-8;", "ring:max-0", "ring:-1-8"):
            assert refused(setting, value)


class TestVersions:
    @pytest.mark.parametrize(
        ("name", "value", "version", "said"),
        [
            ("NCCL_WIN_ENABLE", "1", "2.26.2", "since 2.27, this library is 2.26.2"),
            ("NCCL_ALGO", "PAT", "2.22.3", "PAT since 2.23, this library is 2.22.3"),
            ("NCCL_ALGO", "allreduce:ring", "2.23.4", "since 2.24, this library is 2.23.4"),
            (
                "NCCL_MAX_CTAS",
                "33",
                "2.24.3",
                "from 1 to 32 (to 64 since 2.25, this library is 2.24.3",
            ),
            ("NCCL_MAX_CTAS", "65", "2.25.1", "from 1 to 64"),
            ("NCCL_SHM_USE_CUDA_MEMCPY", "1", "2.30.7", "until 2.30.7, this library is 2.30.7"),
            ("NCCL_CTA_POLICY", "zero", "2.28.9", "ZERO since 2.29, this library is 2.28.9"),
        ],
    )
    def test_what_a_version_does_not_have(self, name, value, version, said):
        assert said in refused(known("nccl", name), value, version)
        if name != "NCCL_MAX_CTAS" or value != "65":
            check_value(known("nccl", name), value, "")  # unknown: all versions are possible

    @pytest.mark.parametrize(
        ("name", "value", "version"),
        [
            ("NCCL_WIN_ENABLE", "1", "2.27.3"),
            ("NCCL_ALGO", "PAT", "2.23.4+cuda12.6"),
            ("NCCL_MAX_CTAS", "64", "2.25.1"),
            ("NCCL_MAX_CTAS", "32", "2.18.5"),
            ("NCCL_SHM_USE_CUDA_MEMCPY", "1", "2.30.4"),
            ("NCCL_CTA_POLICY", "1", "2.28.9"),
            ("NCCL_ALGO", "ring", "unknown"),
        ],
    )
    def test_what_it_has(self, name, value, version):
        check_value(known("nccl", name), value, version)

    def test_implementations_of_mpi(self):
        tuned = known("mpi", "OMPI_MCA_coll_tuned_reduce_scatter_block_algorithm")
        mpich = known("mpi", "MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM")
        open_mpi, other = "Open MPI v5.0.11, package: Open MPI", "MPICH Version: 5.0.2"
        check_value(tuned, "butterfly", open_mpi)
        check_value(mpich, "ring", other)
        assert "a setting of Open MPI, this library is MPICH" in refused(tuned, "butterfly", other)
        assert "a setting of MPICH, this library is Open MPI" in refused(mpich, "ring", open_mpi)
        assert "since 4.0, this library is 3.1.6" in refused(tuned, "butterfly", "Open MPI v3.1.6")
        check_value(mpich, "ring", "Intel(R) MPI Library 2021.14")
        assert absence_of(tuned, "") == absence_of(tuned, open_mpi) == ""


class TestEnvironment:
    def test_a_requirement_that_is_set_otherwise(self):
        setting = known("mpi", "OMPI_MCA_coll_tuned_allreduce_algorithm")
        assert missing_requirements(setting, {}) == {DYNAMIC: "true"}
        for value in ("true", "1"):
            assert missing_requirements(setting, {DYNAMIC: value}) == {}
            check_value(setting, "ring", "", {DYNAMIC: value})
        assert f"no effect while {DYNAMIC}=false is set" in refused(
            setting, "ring", "", {DYNAMIC: "false"}
        )

    @pytest.mark.parametrize(
        ("ccl", "values", "said"),
        [
            ("nccl", "NCCL_MIN_CTAS=16 NCCL_MAX_CTAS=8", "NCCL_MIN_CTAS=16: above NCCL_MAX_CTAS=8"),
            ("nccl", "NCCL_MAX_CTAS=8 NCCL_MIN_CTAS=16", "NCCL_MAX_CTAS=8: below NCCL_MIN_CTAS=16"),
            (
                "nccl",
                "NCCL_SOCKET_NTHREADS=16 NCCL_NSOCKS_PERTHREAD=5",
                "NCCL_SOCKET_NTHREADS=16: times NCCL_NSOCKS_PERTHREAD=5 it exceeds 64",
            ),
            (
                "hccl",
                "HCCL_INTRA_PCIE_ENABLE=1 HCCL_INTRA_ROCE_ENABLE=1",
                "1 cannot be used while HCCL_INTRA_ROCE_ENABLE=1 is set",
            ),
            ("nccl", "NCCL_NVLS_ENABLE=0 NCCL_ALGO=NVLS", "NVLS cannot be used while"),
            ("nccl", "FOO=1 NCCL_MIN_CTAS=0", "NCCL_MIN_CTAS=0: out of range"),
            ("mpi", f"{DYNAMIC}=0 OMPI_MCA_coll_tuned_bcast_algorithm=chain", "no effect while"),
        ],
    )
    def test_values_that_are_impossible_together(self, ccl, values, said):
        chosen = dict(one.split("=") for one in values.split())
        with pytest.raises(UsageError) as caught:
            check_combination(ccl, chosen, "", {})
        assert said in str(caught.value)
        first, *others = chosen
        if not others or first == "FOO":
            return
        with pytest.raises(UsageError):  # one of them is inherited
            check_combination(ccl, {others[0]: chosen[others[0]]}, "", {first: chosen[first]})

    def test_values_that_are_possible_together(self):
        chosen = {"NCCL_MIN_CTAS": "8", "NCCL_MAX_CTAS": "8", "NCCL_ALGO": "Ring", "FOO": "x"}
        check_combination(
            "nccl", chosen, "2.28.9", {"NCCL_MIN_CTAS": "64", "NCCL_NVLS_ENABLE": "0"}
        )
        sockets = {"NCCL_SOCKET_NTHREADS": "16", "NCCL_NSOCKS_PERTHREAD": "4"}
        check_combination("nccl", sockets, "", {"NCCL_MAX_CTAS": "many"})

    def test_notices_of_unknown_variables(self):
        assert unknown_setting_notice("nccl", "NCCL_ALGO") == ""
        refusal = unknown_setting_refusal("shm", "CCLMARK_SHM_FOO")
        assert "setting of shm: cclmark settings --ccl shm lists them" in refusal
        assert unknown_setting_notice("nccl", "NCCL_ALGOS").endswith("; did you mean NCCL_ALGO?")
        notice = unknown_setting_notice("nccl", "OMP_NUM_THREADS")
        assert (
            notice == "OMP_NUM_THREADS is not a known setting of NCCL: its values are not checked"
        )
        assert "setting of shm" in unknown_setting_notice("shm", "A")

    def test_settings_that_select_an_algorithm(self):
        names = {one.name for one in algorithm_settings("nccl", "all_reduce")}
        assert names == {"NCCL_ALGO", "NCCL_PROTO"}
        assert algorithm_settings("nccl", "alltoall") == []
        for operation in ("all_reduce", "reduce_scatter", "barrier"):
            found = [one.implementation for one in algorithm_settings("mpi", operation)]
            assert found == ["Open MPI", "MPICH"]

    def test_restrictions_come_from_the_data(self, added):
        header = replace(COLLECTIVES.header, environment={"MINE_LEVEL": "LOW"})
        assert restrictions(header, "all_reduce", "mine") == []
        setting = setting_in(
            GOOD
            + 'restricts = [{ values = ["LOW"], words = "it is low", operations = ["reduce"] }]'
        )
        added(settings=[setting])
        assert restrictions(header, "all_reduce", "mine") == []
        [found] = restrictions(header, "reduce", "mine")
        assert (found.words, found.setting) == ("it is low", "MINE_LEVEL=LOW")


class TestEffectiveValues:
    @pytest.fixture
    def files(self, added, tmp_path):
        user, system = tmp_path / "user.conf", tmp_path / "system.conf"
        added(
            settings=[setting_in(GOOD + 'default = "low"')],
            configuration=ConfigurationFiles("MINE_FILE", str(user), str(system)),
        )
        return user, system

    def value(self, **environment: str) -> tuple[str, str]:
        [value], notices = effective_values("mine", "", environment)
        assert notices == []
        return value.value, value.source

    def test_the_first_place_applies(self, files):
        user, system = files
        assert self.value() == ("low", "default")
        system.write_text("MINE_LEVEL=c\n")
        assert self.value() == ("c", str(system))
        user.write_text("# MINE_LEVEL=x\n#\nMINE_LEVEL=b\nMINE_LEVEL=d\nMINE_LEVEL\n")
        assert self.value() == ("b", str(user))
        other = user.with_name("other.conf")
        other.write_bytes(b"\xff\nMINE_LEVEL=a=1")
        assert self.value(MINE_FILE=str(other)) == ("a=1", str(other))
        assert self.value(MINE_LEVEL="", MINE_FILE=str(other)) == ("", "environment")

    def test_files_that_cannot_be_read(self, files):
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
    def test_what_the_library_itself_reports(self, files, own, environment, expected):
        [value], _ = effective_values("mine", "", environment, lambda setting: own)
        assert (value.value, value.source, value.absence) == expected

    def test_another_version_does_not_have_it(self, added):
        added(settings=[setting_in(GOOD + 'since = "2.0"')])
        [value], _ = effective_values("mine", "1.0", {"MINE_LEVEL": "low"})
        assert value.absence == "since 2.0, this library is 1.0"


@pytest.mark.parametrize(
    ("value", "parts"),
    [
        ("Ring", [("", False, ("ring",))]),
        ("^ring,tree", [("", True, ("ring", "tree"))]),
        ("allreduce:^a;;b_c:d", [("allreduce", True, ("a",)), ("b_c", False, ("d",))]),
        ("a;b", None),
        (",", None),
        ("", []),
    ],
)
def test_lists(value, parts):
    found = parse_list(value)
    assert (found and [(one.function, one.excluded, one.words) for one in found]) == parts


def test_the_page_of_a_new_library_is_valid():
    page = (REPOSITORY / "docs" / "extend" / "add-a-ccl.md").read_text()
    example = page.partition("### Settings")[2].partition("```toml\n")[2].partition("```")[0]
    assert setting_in(example).name == "EXAMPLE_MAX_CHANNELS"
    fields = page.partition("### Settings")[2]
    for field in LibrarySetting.__struct_fields__:
        assert f"`{field}`" in fields, field


def test_settings_are_the_last_part_of_a_shipped_file():
    """Libraries are read without them, up to the first one."""
    for path in shipped_toml_files("libraries"):
        whole = parse_library(path.read_bytes(), path.name)
        assert libraries.shipped()[whole.name] == replace(whole, settings=[])
        assert libraries.listed_settings(libraries.shipped()[whole.name]) == whole.settings


@pytest.mark.parametrize(
    ("ccl", "name", "expected"),
    [
        ("nccl", "NCCL_PROTO", False),
        ("nccl", "NCCL_NVLS_ENABLE", True),
        ("nccl", "NCCL_UNKNOWN", True),
        ("hccl", "HCCL_BUFFSIZE", True),  # its documents do not state it
        ("flagcx", "FLAGCX_USE_HOST_COMM", False),
        ("shm", "CCLMARK_SHM_INLINE_BYTES", False),
        ("bridge", "CCLMARK_BRIDGE_WHOLE_BYTES", False),
        ("bridge", "NCCL_PROTO", True),  # of the library of an island
        ("torch:nccl", "NCCL_PROTO", True),  # one communicator in a process
    ],
)
def test_variables_that_require_new_processes(ccl, name, expected):
    assert requires_new_processes(ccl, name) == expected


def test_sizes_with_units():
    setting = known("shm", "CCLMARK_SHM_INLINE_BYTES")
    assert [number_of(setting, text) for text in ("0", "512", "4K", "1.5K", "many", "")] == [
        *(0, 512, 4096, 1536, None, None)
    ]
    assert number_of(known("hccl", "HCCL_BUFFSIZE"), "4K") is None
    check_value(setting, "64K", "")
    with pytest.raises(UsageError, match="not a size: choose a size in bytes, also with K"):
        check_value(setting, "many", "")
    with pytest.raises(UsageError, match="out of range: choose a size in bytes"):
        check_value(setting, "65K", "")


def all_between_hosts():
    return [
        (library.name, setting.name)
        for library in libraries.shipped().values()
        for setting in settings_of(library.name)
        if setting.between_hosts
    ]


@pytest.mark.parametrize(("ccl", "name"), all_between_hosts())
def test_settings_between_hosts_are_refused_on_one_host(ccl, name):
    assert "between hosts only" in inactive_on_one_host(ccl, name, {})
    with pytest.raises(UsageError, match=f"{name}: it has an effect between hosts only.*noise"):
        check_settings([(name, ["1", "2"])], ccl)


@pytest.mark.parametrize(
    ("ccl", "name", "over_network"),
    [
        ("nccl", "NCCL_IB_QPS_PER_CONNECTION", "NCCL_SHM_DISABLE"),
        ("torch:nccl", "NCCL_CROSS_NIC", "NCCL_SHM_DISABLE"),
        ("hccl", "HCCL_RDMA_QPS_PER_CONNECTION", "HCCL_INTRA_ROCE_ENABLE"),
        ("flagcx", "FLAGCX_IB_QPS_PER_CONNECTION", "FLAGCX_P2P_DISABLE"),
    ],
)
def test_they_are_varied_where_ranks_of_one_host_may_use_the_network(
    monkeypatch, ccl, name, over_network
):
    assert f"{over_network}=1" in inactive_on_one_host(ccl, name, {})
    assert inactive_on_one_host(ccl, name, {over_network: ["0"]}) != ""
    assert inactive_on_one_host(ccl, name, {over_network: ["0", "1"]}) == ""
    check_settings([(name, ["1"]), (over_network, ["1"])], ccl)
    monkeypatch.setenv(over_network, "1")
    check_settings([(name, ["1"])], ccl)


def test_a_library_that_reads_no_others_settings_gives_that_reason():
    varied = [("NCCL_IB_QPS_PER_CONNECTION", ["1"])]
    (notice,) = check_settings(varied, "shm", allow_unknown=True)
    assert "shm does not read it" in notice
    with pytest.raises(UsageError, match="shm does not read it, so that nothing would be compared"):
        check_settings(varied, "shm")


def host_with(**environment):
    machine = Machine("node", "Linux", "6.1", "EPYC", 64, 1 << 30)
    return HostDescription(machine, "identity", environment)


def test_settings_with_an_effect_between_hosts_are_compared_there():
    hosts = [host_with(), host_with()]
    assert check_settings([("NCCL_IB_QPS_PER_CONNECTION", ["1", "2"])], "nccl", hosts=hosts) == []
    with pytest.raises(UsageError, match="between hosts only"):
        check_settings([("NCCL_IB_QPS_PER_CONNECTION", ["1", "2"])], "nccl", hosts=hosts[:1])


def test_what_is_never_overridden_on_any_host_is_overridden_on_none(monkeypatch):
    monkeypatch.setenv("NCCL_NVLS_ENABLE", "1")
    monkeypatch.setenv("NCCL_DEBUG", "WARN")
    hosts = [host_with(), host_with(NCCL_NVLS_ENABLE="0", NCCL_DEBUG="INFO", NCCL_IB_HCA="mlx5")]
    monkeypatch.delenv("NCCL_IB_HCA", raising=False)
    found = environment_with("nccl", hosts)
    assert (found["NCCL_NVLS_ENABLE"], found["NCCL_DEBUG"]) == ("0", "WARN")
    assert "NCCL_IB_HCA" not in found
    assert environment_with("nccl", hosts[:1])["NCCL_NVLS_ENABLE"] == "1"
    for ccl in ("nccl", "flagcx"):
        with pytest.raises(UsageError, match="NCCL_NVLS_ENABLE=0 is set in the environment"):
            check_settings([("NCCL_NVLS_ENABLE", ["1"])], ccl, hosts=hosts)
    with pytest.raises(UsageError, match="NVLS"):
        check_settings([("NCCL_ALGO", ["NVLS"])], "nccl", hosts=hosts)
    varied = [Variant((Assignment("NCCL_ALGO", "NVLSTree", PROCESS),))]
    with pytest.raises(UsageError, match="NVLS"):
        possible_variants(varied, "nccl", hosts=hosts)


def test_no_variables_of_a_variant_override_what_is_kept():
    """As ranks check them, each in its own environment, and train the files of --artifact."""
    kept = {"NCCL_NVLS_ENABLE": "0"}
    check_overrides({"NCCL_NVLS_ENABLE": "0", "NCCL_ALGO": "Ring", "MINE": "1"}, kept)
    check_overrides({"NCCL_NVLS_ENABLE": "1", "NCCL_ALGO": "NVLS"}, {})
    for variables in ({"NCCL_NVLS_ENABLE": "1"}, {"NCCL_ALGO": "Ring,NVLSTree"}):
        with pytest.raises(UsageError, match="NCCL_NVLS_ENABLE=0"):
            check_overrides(variables, kept)
