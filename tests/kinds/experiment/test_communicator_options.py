"""Options of a communicator: ``--config``, ``--vary config.NAME``, and their checks."""

import contextlib

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cclmark.base.errors import UsageError
from cclmark.journal.method import is_of_method, unusual_method
from cclmark.journal.schema import Explanation, Settings
from cclmark.kinds.experiment.figures import without_effect
from cclmark.options.case_request import check_config
from cclmark.options.groups import CommunicatorOptions
from cclmark.options.varied import check_options_of, check_settings, scope_of
from cclmark.work.cases import Case
from cclmark.work.library_settings import find_setting, options_of, settings_of, unknown_option
from cclmark.work.variants import COMMUNICATOR, Assignment, Variant, parse_vary
from samples import header_of

NCCL_OPTIONS = {
    *("config.maxCTAs", "config.minCTAs", "config.CTAPolicy", "config.cgaClusterSize"),
    *("config.nChannelsPerNetPeer", "config.collnetEnable", "config.netName"),
}
CASE = Case("all_reduce", "nccl", 2, "float32", 1 << 20, 1 << 18, False, reduction="sum")


@pytest.fixture(autouse=True)
def no_variables_of_nccl(monkeypatch):
    for setting in settings_of("nccl"):
        monkeypatch.delenv(setting.name, raising=False)


def option(name, value):
    return Assignment(f"config.{name}", value, COMMUNICATOR)


def test_options_are_no_variables():
    variant = Variant((option("minCTAs", "8"), Assignment("NCCL_PROTO", "LL", COMMUNICATOR)))
    assert variant.options == {"minCTAs": "8"}
    assert variant.variables(COMMUNICATOR) == {"NCCL_PROTO": "LL"}
    assert variant.process == ()
    assert variant.describe() == "config.minCTAs=8 NCCL_PROTO=LL"


def test_the_options_of_a_library_are_those_of_its_file():
    assert {one.name for one in options_of("nccl")} == NCCL_OPTIONS
    assert {"config.minCTAs", "config.maxCTAs"} <= {one.name for one in options_of("rccl")}
    # Their options have a structure that the engine does not know, or torch creates communicators.
    for ccl in ("hccl", "flagcx", "torch:nccl", "mpi", "shm", "bridge"):
        assert options_of(ccl) == [], ccl
    assert not any(one.name.startswith("config.") for one in settings_of("nccl"))
    assert find_setting("nccl", "config.CTAPolicy").values == ["0", "1", "2"]


def test_an_option_takes_effect_in_a_new_communicator_of_the_same_process():
    assert scope_of("nccl", "config.minCTAs") == "communicator"
    assert scope_of("nccl", "NCCL_MIN_CTAS") == "process"


CONFIG = CommunicatorOptions.__dataclass_fields__["config"].metadata["settings"]["type"]


@given(st.text())
def test_any_text_is_parsed_or_refused(text):
    try:
        CONFIG.convert(text, None, None)
    except click.BadParameter as error:
        assert "write NAME=VALUE" in error.message
    with contextlib.suppress(UsageError):
        parse_vary(f"config.{text}")


@pytest.mark.parametrize("text", ["minCTAs", "config.minCTAs=8", "=8", "minCTAs="])
def test_texts_that_are_no_option(text):
    with pytest.raises(click.BadParameter) as refused:
        CONFIG.convert(text, None, None)
    assert refused.value.message == f"{text!r}: write NAME=VALUE, for example minCTAs=16"
    assert CONFIG.convert("minCTAs=8", None, None) == ("minCTAs", "8")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("A", "write NAME=VALUE,VALUE"),
        ("A=1,,2", "a value is empty"),
        ("A=1,1", "occurs twice"),
        ("placement=both", "unknown value 'both'"),
        (f"A={','.join(map(str, range(65)))}", "at most 64"),
    ],
)
def test_texts_that_vary_nothing(text, message):
    with pytest.raises(UsageError, match=message):
        parse_vary(text)
    assert parse_vary("config.minCTAs=8,16") == ("config.minCTAs", ["8", "16"])


@pytest.mark.parametrize(
    ("options", "ccl", "message"),
    [
        ({"minCTAs": "0"}, "nccl", "--config minCTAs=0: out of range: choose an integer from 1"),
        ({"maxCTAs": "65"}, "nccl", "--config maxCTAs=65: out of range"),
        ({"minCTAs": "many"}, "nccl", "--config minCTAs=many: not an integer"),
        ({"cgaClusterSize": "9"}, "nccl", "an integer from 0 to 8"),
        ({"CTAPolicy": "EFFICIENCY"}, "nccl", "choose from 0, 1, 2"),
        ({"minCTAs": "8", "maxCTAs": "4"}, "nccl", "--config minCTAs=8: above maxCTAs=4"),
        ({"blocking": "0"}, "nccl", "--config blocking is not a known option of a communicator"),
        ({"minCTAs": "8"}, "shm", "shm has no options of a communicator that are known"),
        ({"minCTAs": "8"}, "torch:nccl", "a program sets its pg_options"),
    ],
)
def test_values_that_are_impossible(options, ccl, message):
    with pytest.raises(UsageError) as refused:
        check_config(options, [ccl])
    assert message in str(refused.value)


def test_every_measured_library_requires_the_option():
    check_config({"minCTAs": "8"}, ["nccl", "rccl"])
    with pytest.raises(UsageError):
        check_config({"minCTAs": "8"}, ["nccl", "mpi"])
    check_config({}, ["nccl", "mpi"])


def test_a_variable_that_decides_instead_is_refused(monkeypatch):
    monkeypatch.setenv("NCCL_MIN_CTAS", "4")
    message = "NCCL_MIN_CTAS=4 is set in the environment and overrides the option: unset"
    with pytest.raises(UsageError, match=message):
        check_config({"minCTAs": "8"}, ["nccl"])
    with pytest.raises(UsageError, match=message):
        check_settings([("config.minCTAs", ["8"])], "nccl")
    check_config({"maxCTAs": "8"}, ["nccl"])


def test_a_configuration_file_that_decides_instead_is_refused(monkeypatch, tmp_path):
    file = tmp_path / "nccl.conf"
    file.write_text("# the cluster's\nNCCL_MIN_CTAS=4\n")
    monkeypatch.setenv("NCCL_CONF_FILE", str(file))
    message = f"NCCL_MIN_CTAS=4 is set in {file} and overrides the option: unset it"
    with pytest.raises(UsageError, match=message):
        check_config({"minCTAs": "8"}, ["nccl"])
    check_config({"maxCTAs": "8"}, ["nccl"])
    file.write_text("#NCCL_MIN_CTAS=4\n")
    check_config({"minCTAs": "8"}, ["nccl"])


def test_the_options_of_a_variant_are_checked_together():
    fits = Variant((option("minCTAs", "8"), option("maxCTAs", "8")))
    check_options_of([fits], "nccl", {})
    with pytest.raises(UsageError, match=r"--vary config\.minCTAs=8: above config\.maxCTAs=4"):
        check_options_of([Variant((option("minCTAs", "8"), option("maxCTAs", "4")))], "nccl", {})
    with pytest.raises(UsageError, match=r"config\.maxCTAs=4: below config\.minCTAs=8"):
        check_options_of([Variant((option("minCTAs", "8"),))], "nccl", {"maxCTAs": "4"})
    both = Variant((option("minCTAs", "8"), Assignment("NCCL_MIN_CTAS", "8")))
    with pytest.raises(UsageError, match="use --one-at-a-time"):
        check_options_of([both], "nccl", {})


def test_an_unknown_option_is_refused_with_the_known_ones():
    assert unknown_option("nccl", "config.minCTAs") == ""
    text = unknown_option("nccl", "config.minctas")
    assert "not a known option of a communicator of NCCL" in text
    assert "config.minCTAs" in text


def explained(channels, protocol="SIMPLE"):
    return Explanation(0, "plug-in", "ring", "RING", protocol, channels)


@pytest.mark.parametrize(
    ("assignments", "ran", "message"),
    [
        ([option("maxCTAs", "4")], 24, "config.maxCTAs=4 had no effect: "),
        ([option("maxCTAs", "4")], 4, ""),
        ([option("minCTAs", "32")], 24, "the library ran the same as by default"),
        ([option("minCTAs", "32")], 32, ""),
        ([option("minCTAs", "32"), option("CTAPolicy", "1")], 24, ""),  # a policy is not observed
    ],
)
def test_an_option_without_effect_is_recognised(assignments, ran, message):
    found = without_effect(Variant(tuple(assignments)), CASE, explained(ran), explained(24))
    assert message in found
    assert bool(found) == bool(message)


def test_runs_with_other_options_are_not_comparable():
    settings = Settings(
        *(8, 8, 0, 2.0, "auto", "max", 0.02, 1.0, 60.0, None, None),
        *(1, 1, 1, 1, "none", 0),
        config={"minCTAs": "8", "maxCTAs": "16"},
    )
    [words] = unusual_method(header_of(settings), "nccl")
    assert words == "communicators with minCTAs=8 maxCTAs=16"
    assert is_of_method(words)
