#!/usr/bin/env python3
"""Runs a command as two pods: on two hosts made of namespaces, joined by a virtual cable (TCP).

    python benchmarks/two_hosts.py [--devices 0,1 2,3] -- cclmark all_reduce ...

Requires root, `unshare` and `ip`. Each host has its own name, network, process numbers and shared
memory, and of CUDA devices those of --devices. The output is that of the first host; the exit code
is the larger one.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "launchers"))

from hosts import DEVICE, two_hosts

PORT = 29500


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--devices", nargs=2, default=[])
    parser.add_argument("--limit", type=float, default=600, help="seconds")
    parser.add_argument("command", nargs="+")
    flags = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as directory,
        two_hosts(Path(directory), has_ssh=False) as hosts,
    ):
        started, secret = [], os.urandom(16).hex()
        for rank, host in enumerate(hosts):
            own = {
                **{"MASTER_ADDR": hosts.first.address, "MASTER_PORT": str(PORT)},
                **{"RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": "0"},
                **{"LOCAL_WORLD_SIZE": "1", "TORCHELASTIC_RUN_ID": "hosts"},
                **{"CCLMARK_SECRET": secret, "CCLMARK_INTERFACE": DEVICE},
                **{"NCCL_SOCKET_IFNAME": DEVICE, "GLOO_SOCKET_IFNAME": DEVICE},
            }
            if flags.devices:
                own["CUDA_VISIBLE_DEVICES"] = flags.devices[rank]
            started.append(
                subprocess.Popen(
                    [*host.entrance, *flags.command],
                    env={**os.environ, **own},
                    stdin=subprocess.DEVNULL,
                    stdout=None if not rank else subprocess.DEVNULL,
                )
            )
        return max(abs(one.wait(timeout=flags.limit)) for one in started)


if __name__ == "__main__":
    sys.exit(main())
