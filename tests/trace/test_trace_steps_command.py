import csv

import pytest

from mpis import mpi_environment

SHORT = ("-n", "2", "-w", "0", "-b", "64K", "--steps")


def rows_of(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def ends(rows):
    return [(int(row["source"]), int(row["destination"])) for row in rows]


@pytest.fixture
def traced(cclmark, fakes, tmp_path):
    def trace(operation, ranks, *arguments, has_clock=False, **variables):
        path = tmp_path / "t.pftrace"
        run = cclmark(
            *("trace", operation, "-g", str(ranks), *SHORT, *arguments, "-O", path),
            env=fakes(read=has_clock, **variables),
        )
        steps = tmp_path / "t.steps.csv"
        return run, rows_of(steps) if steps.exists() else []

    return trace


def test_a_ring(traced):
    run, rows = traced("all_reduce", 3, NCCL_ALGO="RING", has_clock=True)
    assert "steps of the algorithm, derived from the algorithm and the ring that the" in run.out
    assert "ring 0 → 1 → 2 → 0 (2 channels)" in run.out
    assert "4 stages, 12 steps; each rank sends 85.33 KiB to 85.34 KiB" in run.out
    assert {row["transport"] for row in rows} == {"P2P/CUMEM"}
    assert {row["origin"] for row in rows} == {"derived"}
    assert {(source + 1) % 3 == to for source, to in ends(rows)} == {True}
    assert sum(int(row["size_bytes"]) for row in rows) == 4 * 65536


def test_the_engines_plan_in_short(cclmark, tmp_path):
    run = cclmark(
        *("trace", "all_reduce", "--devices", "host:4", *SHORT, "--format", "chrome"),
        *("-O", tmp_path / "t.json"),
    )
    rows = rows_of(tmp_path / "t.steps.csv")
    assert len(rows) == 12 + 16
    assert {row["origin"] for row in rows} == {"planned"}
    assert {(row["reads"], row["action"]) for row in rows if row["stage"] == "1"} == {
        ("input", "reduce")
    }
    assert "steps of the algorithm, planned by cclmark's engine (each rank reduces one" in run.out
    lines = [" ".join(line.split()) for line in run.out.splitlines()]
    assert "1 reduction 0-3 others (3) 12 reduce 16 KiB shared memory" in lines
    assert "2 result 0-3 itself 4 copy 16 KiB within the rank" in lines
    assert "2 result 0-3 others (3) 12 copy 16 KiB shared memory" in lines
    assert f"cclmark: steps {tmp_path}/t.steps.csv" in run.err


def test_the_algorithm_that_an_mpi_selects(cclmark, tmp_path):
    run = cclmark(
        *("trace", "all_reduce", "--ccl", "mpi", "--devices", "host:2", *SHORT),
        *("-O", tmp_path / "t.pftrace"),
        env=mpi_environment("openmpi")
        | {
            "OMPI_MCA_coll_tuned_use_dynamic_rules": "true",
            "OMPI_MCA_coll_tuned_allreduce_algorithm": "ring",
        },
    )
    assert "the algorithm that is selected, which may not have run (ring)" in run.out
    rows = rows_of(tmp_path / "t.steps.csv")
    assert {row["origin"] for row in rows} == {"selected"}
    assert int(rows[-1]["stage"]) == 2
