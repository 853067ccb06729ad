"""``cclmark doctor`` on two hosts: one table, differences first."""

from hosts import torchrun_env
from test_sweeps import SOON_S

DOCTOR = ("doctor", "--only", "open-files,clock-source,variable")


def test_hosts_are_examined_where_they_are(hosts, background, tmp_path):
    """Two processes of each host, of which the first one examines it."""
    two_each = {"WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2", "COLUMNS": "100"}
    begun, record = [], str(tmp_path / "host.json.gz")
    for number, host in enumerate(hosts):
        for local in range(2):
            own = {**torchrun_env(hosts, 2 * number + local), "LOCAL_RANK": str(local), **two_each}
            # Another value on the second host: a variable that was left over.
            own["NCCL_BUFFSIZE"] = ("4194304", "65536")[number]
            begun.append(background(*DOCTOR, "--record", record, prefix=host.at(tmp_path), env=own))
    first, *others = [process.finish(SOON_S) for process in begun]
    assert [one.code for one in (first, *others)] == [1] * 4, first.err
    assert [one.out for one in others] == [""] * 3
    out = " ".join(first.out.split())
    assert out.index("differences between hosts") < out.index("failed checks")
    assert "variable-choice passed (1)" in out
    assert "NCCL_BUFFSIZE 4194304 (1)" in out
    assert len(first.journal.results) == len(first.journal.header.hosts) == 2
    recorded = sorted(path.name for path in tmp_path.glob("*.json.gz"))
    assert recorded == ["0-host.json.gz", "2-host.json.gz"]
