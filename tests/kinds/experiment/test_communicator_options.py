"""Options of a communicator, their checks, and which settings of a variant had no effect."""

from pathlib import Path

import click
import pytest
from msgspec.structs import replace

from cclmark.base.errors import UsageError
from cclmark.journal.schema import Explanation
from cclmark.kinds.experiment.figures import without_effect
from cclmark.options.case_request import check_config
from cclmark.options.groups import CommunicatorOptions
from cclmark.options.varied import check_options_of, check_settings
from cclmark.work.cases import Case
from cclmark.work.library_settings import options_of, settings_of
from cclmark.work.variants import COMMUNICATOR, Assignment, Variant, parse_vary
from goldens import refusal, require_outcomes

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


def test_the_options_of_a_library_are_those_of_its_file():
    assert {one.name for one in options_of("nccl")} == NCCL_OPTIONS
    # Their options have a structure that the engine does not know, or torch creates communicators.
    for ccl in ("hccl", "flagcx", "torch:nccl", "mpi", "shm", "bridge"):
        assert options_of(ccl) == [], ccl
    assert not any(one.name.startswith("config.") for one in settings_of("nccl"))


CONFIG = CommunicatorOptions.__dataclass_fields__["config"].metadata["settings"]["type"]


def test_texts_and_values_of_options():
    """``config`` is what --config reads, ``vary`` what --vary reads; else options and libraries."""

    def outcome(line):
        what, *words = line.split(" ")
        if what == "vary":
            return refusal(parse_vary, *words)
        if what == "config":
            try:
                return CONFIG.convert(*words, None, None)
            except click.BadParameter as error:
                return error.message
        options = dict(one.split("=") for one in words)
        return refusal(check_config, options, what.split(","))

    require_outcomes(
        Path(__file__).with_name("communicator_options.txt"), lambda line: str(outcome(line))
    )


def test_a_variable_or_file_that_decides_instead_is_refused(monkeypatch, tmp_path):
    with monkeypatch.context() as patch:
        patch.setenv("NCCL_MIN_CTAS", "4")
        message = "NCCL_MIN_CTAS=4 is set in the environment and overrides the option: unset"
        with pytest.raises(UsageError, match=message):
            check_config({"minCTAs": "8"}, ["nccl"])
        with pytest.raises(UsageError, match=message):
            check_settings([("config.minCTAs", ["8"])], "nccl")
        check_config({"maxCTAs": "8"}, ["nccl"])
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
    eight, four, variable = (
        *(option("minCTAs", "8"), option("maxCTAs", "4")),
        Assignment("NCCL_MIN_CTAS", "8"),
    )
    check_options_of([Variant((eight, option("maxCTAs", "8")))], "nccl", {})
    for assignments, config, message in (
        ((eight, four), {}, r"--vary config\.minCTAs=8: above config\.maxCTAs=4"),
        ((eight,), {"maxCTAs": "4"}, r"config\.maxCTAs=4: below config\.minCTAs=8"),
        ((eight, variable), {}, "use --one-at-a-time"),
    ):
        with pytest.raises(UsageError, match=message):
            check_options_of([Variant(assignments)], "nccl", config)


@pytest.mark.parametrize(
    ("options", "ran", "message"),
    [
        ({"maxCTAs": "4"}, 24, "config.maxCTAs=4 had no effect: "),
        ({"maxCTAs": "4"}, 4, ""),
        ({"minCTAs": "32"}, 24, "the library ran the same as by default"),
        ({"minCTAs": "32", "CTAPolicy": "1"}, 24, ""),  # a policy is not observed
    ],
)
def test_an_option_without_effect_is_recognised(options, ran, message):
    explained = (Explanation(0, "plug-in", "ring", "RING", "SIMPLE", one) for one in (ran, 24))
    variant = Variant(tuple(option(*one) for one in options.items()))
    found = without_effect(variant, CASE, *explained)
    assert message in found
    assert bool(found) == bool(message)


NAME = "OMPI_MCA_coll_tuned_allreduce_algorithm"
MPI_CASE = Case("all_reduce", "mpi", 2, "float32", 1024, 256, False, reduction="sum")
RING = Variant((Assignment(NAME, "ring"),))


REASON = "it requires coll_tuned_use_dynamic_rules=true"
IGNORED = Explanation(0, reason="unknown", ignored={NAME: REASON})
SELECTED = Explanation(0, source="variables", kernel="ring", algorithm="ring")
OTHER = Variant((Assignment("OMPI_MCA_coll", "^han"),))


@pytest.mark.parametrize(
    ("variant", "ran", "usual", "reason"),
    [
        (RING, IGNORED, None, f"{NAME}: {REASON}"),
        (OTHER, IGNORED, None, ""),
        (RING, SELECTED, SELECTED, ""),  # a setting that selects proves nothing
    ],
)
def test_a_setting_that_the_library_ignores_has_no_effect(variant, ran, usual, reason):
    assert without_effect(variant, MPI_CASE, ran, usual) == reason


def test_a_variable_of_other_libraries_has_no_effect_on_the_built_in_one():
    def reason(ccl, *assignments):
        variant = Variant(tuple(Assignment(*one) for one in assignments))
        return without_effect(variant, replace(MPI_CASE, ccl=ccl), None, None)

    of_hccl, streaming = ("HCCL_BUFFSIZE", "10"), ("CCLMARK_SHM_STREAM_BYTES", "10")
    assert reason("shm", of_hccl) == "HCCL_BUFFSIZE is a setting of HCCL: shm does not read it"
    for ccl, name in (("shm", streaming), ("shm", ("SOME_NAME", "10")), ("mpi", of_hccl)):
        assert reason(ccl, name) == ""
    assert reason("hccl", of_hccl) == ""
    # It may have one where its library runs.
    assert reason("shm", ("OMPI_MCA_coll", "^han"), ("library", "mpi")) == ""
