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
    # Their options have a structure that the engine does not know, or torch gives them none.
    for ccl in ("hccl", "flagcx", "torch:gloo", "mpi", "shm", "bridge"):
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


NAME = "OMPI_MCA_coll_tuned_allreduce_algorithm"
WHY = "it requires coll_tuned_use_dynamic_rules=true"
IGNORED = Explanation(0, reason="unknown", ignored={NAME: WHY})
SELECTED = Explanation(0, source="variables", kernel="ring", algorithm="ring")
USUAL, FEW = (Explanation(0, "plug-in", "ring", "RING", "SIMPLE", number) for number in (24, 4))
SAME = "the library ran the same as by default: ring SIMPLE × 24"
AT_LEAST, AT_MOST = ("config.minCTAs", "32"), ("config.maxCTAs", "4")
RING, WITHOUT_HAN = (NAME, "ring"), ("OMPI_MCA_coll", "^han")
OF_HCCL, STREAMING = ("HCCL_BUFFSIZE", "10"), ("CCLMARK_SHM_STREAM_BYTES", "10")


@pytest.mark.parametrize(
    ("ccl", "assignments", "ran", "usual", "reason"),
    [
        ("nccl", [AT_MOST], USUAL, USUAL, "config.maxCTAs=4 had no effect: ring SIMPLE × 24 ran"),
        ("nccl", [AT_MOST], FEW, USUAL, ""),
        ("nccl", [AT_LEAST], USUAL, USUAL, SAME),
        # A policy is not observed.
        ("nccl", [AT_LEAST, ("config.CTAPolicy", "1")], USUAL, USUAL, ""),
        ("mpi", [RING], IGNORED, None, f"{NAME}: {WHY}"),
        ("mpi", [WITHOUT_HAN], IGNORED, None, ""),
        ("mpi", [RING], SELECTED, SELECTED, ""),  # a setting that selects proves nothing
        ("shm", [OF_HCCL], None, None, "HCCL_BUFFSIZE is a setting of HCCL: shm does not read it"),
        *((ccl, [OF_HCCL], None, None, "") for ccl in ("mpi", "hccl")),
        *(("shm", [one], None, None, "") for one in (("SOME_NAME", "10"), STREAMING)),
        # It may have one where its library runs.
        ("shm", [WITHOUT_HAN, ("library", "mpi")], None, None, ""),
    ],
)
def test_settings_without_effect_are_recognised(ccl, assignments, ran, usual, reason):
    variant = Variant(tuple(Assignment(*one) for one in assignments))
    assert without_effect(variant, replace(CASE, ccl=ccl), ran, usual) == reason
