"""The two hosts are what they claim to be."""

import os
import subprocess
import sys
from pathlib import Path

import hosts as host_room
import pytest
from hosts import wait_until

CLIENT = """
import socket, sys, time
with socket.create_connection((sys.argv[1], 7000), timeout=20) as connection:
    print("connected", flush=True)
    time.sleep(float(sys.argv[2]))
    connection.sendall(socket.gethostname().encode())
    print(connection.recv(100).decode())
"""


def test_each_has_its_own_name_network_processes_and_shared_memory(hosts):
    for host, other in (tuple(hosts), tuple(reversed(tuple(hosts)))):
        assert host.run("hostname").stdout.strip() == host.name
        addresses = host.run("ip", "-brief", "-4", "address").stdout
        assert f"{host.address}/24" in addresses
        assert other.address not in addresses
        assert host.run("ls", "/sys/class/net").stdout.split() == ["eth0", "lo"]
        assert host.run("sh", "-c", "echo mine > /dev/shm/mine; echo $$").stdout.strip().isdigit()
        # Runs before this test may have left other files there.
        assert "mine" in host.run("ls", "/dev/shm").stdout.split()
        assert "mine" not in other.run("ls", "/dev/shm").stdout.split()
        assert host.run("rm", "/dev/shm/mine").returncode == 0
        assert host.run("cat", "/proc/1/comm").stdout.strip() == "cat"
    assert not Path("/dev/shm/mine").exists()


def test_there_is_no_way_while_the_cable_is_cut(hosts):
    hosts.cut()
    refused = hosts.first.run(sys.executable, "-c", CLIENT, hosts.second.address, "0")
    assert "OSError" in refused.stderr
    hosts.mend()
    assert hosts.first.run(hosts.agent, "beta", "hostname").stdout == "beta\n"


def test_nothing_of_them_outlives_the_one_who_made_them(tmp_path):
    program = (
        "import sys, time; from pathlib import Path; import hosts\n"
        "with hosts.two_hosts(Path(sys.argv[1])) as made:\n"
        "    print(*made.processes(), flush=True)\n"
        "    time.sleep(100)\n"
    )
    if reason := host_room.missing():
        pytest.skip(reason)  # which the fixture tells whoever must have them
    making = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent)},
    )
    pids = [int(word) for word in making.stdout.readline().split()]
    assert len(pids) >= 4
    making.kill()
    making.wait()
    wait_until(lambda: not any(Path(f"/proc/{pid}/exe").exists() for pid in pids), "all are gone")
