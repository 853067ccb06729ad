import csv
import json

from msprof_files import content, timeline, write
from transcripts import require_transcript, stored_commands

MIB = 1 << 20


def lines_with(text, *words):
    return [line.split() for line in text.splitlines() if all(word in line for word in words)]


def test_stages_and_tasks(cclmark, tmp_path):
    names = ["broadcast", "allGather"]
    paths = write(tmp_path / "in", 8, operations=names, size=8 * MIB)
    out = tmp_path / "t.json"
    words = ("--operation", "hcom_broad", "--steps", "--format", "chrome", "-O", out)
    run = cclmark("trace", "msprof", *paths, *words)
    with (tmp_path / "t.steps.csv").open(newline="") as file:
        of_all = list(csv.DictReader(file))
    rows = [row for row in of_all if row["operation"] == "hcom_broadcast__674_0_1"]
    assert {row["operation"] for row in of_all if row not in rows} == {"hcom_allGather__674_1_1"}
    trace = json.loads(out.read_text())
    assert lines_with(run.out, "hcom_broadcast__674_0_1", "MESH-RING-NHR")[0][1] == "0-7"
    # The stages of the document of hccl_test's traces: the root, then the others.
    stages = [line[:3] for line in lines_with(run.out, "Memcpy") if line[0] in ("0", "1-7")]
    assert stages == [
        *(["0", "1", "Memcpy"], ["0", "2", "Memcpy"]),
        *(["1-7", "1", "Memcpy"], ["1-7", "2", "Memcpy"], ["1-7", "3", "Memcpy"]),
    ]
    assert lines_with(run.out, "all others (7)")[0][-5:] == ["7", "1", "MiB", "55.19", "19.00"]
    assert "HBM 255/Read" in run.out
    moved = [row for row in rows if row["stage"]]
    assert {row["size_bytes"] for row in moved} == {str(MIB), str(8 * MIB)}
    assert len(moved) == 1 + 7 + 7 * (1 + 7 + 1)
    assert {row["link"] for row in moved} == {"HCCS", "ON_CHIP"}
    assert {row["task"] for row in rows if not row["stage"]} == {"Notify_Record", "Notify_Wait"}
    names = {one["name"] for one in trace["traceEvents"]}
    assert {"Memcpy 1 MiB, rank 0", "HBM 255/Write"} <= names


def test_refused(cclmark, tmp_path):
    (tmp_path / "a.json").write_bytes(content(timeline(0, ranks=2)))
    require_transcript("trace-msprof", stored_commands("trace-msprof"), cclmark, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]
