"""The two hosts are what they claim to be."""

from pathlib import Path


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
