from cclmark.rank.effective_settings import selected_for
from cclmark.rank.instruments import components_in
from goldens import outline, require_golden

TUNED = "coll_tuned_allreduce_algorithm"
DYNAMIC = "coll_tuned_use_dynamic_rules"
RULES = "coll_tuned_dynamic_rules_filename"
MPICH = {
    "MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM": "auto",
    "MPIR_CVAR_ALLREDUCE_DEVICE_COLLECTIVE": "1",
}


def selected(variables, operation="all_reduce"):
    return selected_for(operation, variables.get)


FORCED = MPICH | {"MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM": "tree"}
WITHOUT_TUNED = ["basic", "libnbc"]
SET = {f"OMPI_MCA_{TUNED}": "ring"}


def test_what_variables_select(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rules").touch()
    rules = {DYNAMIC: "true", TUNED: "ignore"}
    chosen = {DYNAMIC: "true", TUNED: "ring"}
    found = {
        "Open MPI's own rules": selected({DYNAMIC: "false", TUNED: "ignore"}),
        "with components": selected_for("all_reduce", {DYNAMIC: "false"}.get, ["tuned", "basic"]),
        "an algorithm": selected(chosen),
        "one without effect": selected({DYNAMIC: "false", TUNED: "ring"}),
        "a file of rules": selected({**rules, RULES: "rules"}),
        "a missing file of rules": selected({**rules, RULES: "missing"}),
        # Without the component tuned Open MPI has none of its variables.
        "without tuned": selected_for("all_reduce", {}.get, WITHOUT_TUNED, {}),
        "set without tuned": selected_for("all_reduce", {}.get, WITHOUT_TUNED, SET),
        "chosen without tuned": selected_for("all_reduce", chosen.get, WITHOUT_TUNED, SET),
        "unknown components": selected_for(
            "all_reduce", {"coll_base_verbose": "none"}.get, (), SET
        ),
        "MPICH's choice": selected(MPICH),
        "an algorithm of MPICH": selected(FORCED),
        "another MPI": selected({}),
        "messages": selected({}, "sendrecv"),
    }
    require_golden("mpi_selection.txt", outline(found))


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
