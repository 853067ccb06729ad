"""Which algorithm the variables of an MPI select."""

import pytest

from cclmark.rank.instruments import components_in
from cclmark.rank.mpi_variables import selected_for

TUNED = "coll_tuned_allreduce_algorithm"
DYNAMIC = "coll_tuned_use_dynamic_rules"
RULES = "coll_tuned_dynamic_rules_filename"
MPICH = {
    "MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM": "auto",
    "MPIR_CVAR_ALLREDUCE_DEVICE_COLLECTIVE": "1",
}


def selected(variables, operation="all_reduce"):
    return selected_for(operation, variables.get)


def test_open_mpis_own_rules():
    found = selected({DYNAMIC: "false", TUNED: "ignore"})
    assert found.algorithm == ""
    assert found.reason.startswith("Open MPI does not report which algorithm ran; ")
    served = selected_for("all_reduce", {DYNAMIC: "false"}.get, ["tuned", "basic"])
    assert "ran (components by priority: tuned, basic); " in served.reason
    assert found.reason.endswith(f"{DYNAMIC}=true and {TUNED} select one")


def test_an_algorithm_selected_in_open_mpi_is_a_setting():
    found = selected({DYNAMIC: "true", TUNED: "ring"})
    assert found.algorithm == "ring"
    assert found.reason.startswith(f"selected by {TUNED}=ring")
    assert "does not report its algorithm" in found.reason


def test_a_selection_without_effect_is_reported():
    found = selected({DYNAMIC: "false", TUNED: "ring"})
    assert found.algorithm == ""
    assert f"{TUNED}=ring has no effect: it requires {DYNAMIC}=true" in found.reason
    assert found.ignored == {f"OMPI_MCA_{TUNED}": f"it requires {DYNAMIC}=true"}


def test_a_file_of_rules(tmp_path):
    path = tmp_path / "rules"
    variables = {DYNAMIC: "true", TUNED: "ignore", RULES: str(path)}
    missing = selected(variables)
    assert f"{RULES}={path} has no effect: the file cannot be read" in missing.reason
    assert list(missing.ignored) == [f"OMPI_MCA_{RULES}"]
    path.touch()
    found = selected(variables)
    assert found.reason.endswith(f"the rules in {path} select it where they contain the operation")
    assert (found.algorithm, found.ignored) == ("", {})


@pytest.mark.parametrize("variables", [{}, {DYNAMIC: "true", TUNED: "ring"}])
def test_an_open_mpi_without_its_component_tuned(variables):
    components = ["basic", "libnbc"]
    environment = {f"OMPI_MCA_{TUNED}": "ring"}
    found = selected_for("all_reduce", variables.get, components, environment)
    assert found.algorithm == ""
    assert "(components by priority: basic, libnbc)" in found.reason
    assert f"{TUNED}=ring has no effect: Open MPI does not use its component" in found.reason
    assert list(found.ignored) == [f"OMPI_MCA_{TUNED}"]
    without = selected_for("all_reduce", {}.get, components, {})
    assert without.reason.endswith("; Open MPI does not use its component tuned")


def test_an_open_mpi_whose_components_are_unknown():
    """Without the component tuned it has none of its variables."""
    environment = {f"OMPI_MCA_{TUNED}": "ring"}
    found = selected_for("all_reduce", {"coll_base_verbose": "none"}.get, (), environment)
    assert found.reason.startswith("Open MPI does not report which algorithm ran; ")
    assert f"{TUNED}=ring has no effect: Open MPI does not use its component" in found.reason
    assert list(found.ignored) == [f"OMPI_MCA_{TUNED}"]


def test_mpichs_choices():
    assert selected(MPICH).algorithm == ""
    assert "MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM=auto" in selected(MPICH).reason
    forced = selected(MPICH | {"MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM": "tree"})
    assert forced.algorithm == "tree"
    assert "its device may run another algorithm" in forced.reason


@pytest.mark.parametrize(
    ("operation", "reason"),
    [
        ("all_reduce", "this MPI has no known variable for the algorithm of all_reduce"),
        ("sendrecv", "MPI has no algorithm for sendrecv: it consists of messages"),
    ],
)
def test_nothing_known(operation, reason):
    found = selected({}, operation)
    assert (found.algorithm, found.reason) == ("", reason)


def test_open_mpis_components_of_all_ranks():
    lines = """\
[vm:10364] coll:find_available: querying coll component tuned
[vm:10364] coll:base:comm_select: new communicator: MPI_COMM_WORLD (cid 0)
[vm:10364] coll:base:comm_select: selecting       adapt, priority   0, Disabled
[vm:10364] coll:base:comm_select: selecting       basic, priority  10, Enabled
[vm:10364] coll:base:comm_select: selecting       tuned, priority  30, Enabled
[vm:10364] coll:base:comm_select: new communicator: MPI_COMM_SELF (cid 1)
[vm:10364] coll:base:comm_select: selecting        self, priority  75, Enabled
"""
    assert components_in(lines) == ["tuned", "basic"]
    assert components_in("another MPI's text\n") == []
