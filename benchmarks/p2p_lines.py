"""PCCL's command lines and faults of transfers, run as they stand, into transcripts.

    python benchmarks/p2p_lines.py --out DIR [--devices 4] [--mpirun mpirun]

Writes DIR/p2p_pccl_lines.txt, what the documentation of PCCL's p2pBandwidthLatencyTest types on
one host, with the number of devices set to --devices, and DIR/p2p_faults.txt: a corrupted copy, a
slowed pair, devices that may not reach each other, a process per device. Each entry is the command,
what it printed, its exit code and its seconds. Ends with 1 when an exit code is not as expected.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PCCL = "p2pBandwidthLatencyTest"
BUFFER = "--num_elems=536870912"  # 2 GiB
TIMEOUT_S = 300


def pccl_lines(devices: int, mpirun: str) -> list[str]:
    """What PCCL's documentation types for one host, and for a process per device."""
    single = f"{PCCL} --num_gpus={devices}"
    several = f"{mpirun} -np {devices} {PCCL} --is_multi_proc=1"
    lines = [f"{single} {BUFFER} --p2p_type=CE --perf=uniBw --p2p_direction=write --display_ur=1"]
    engines = ["--p2p_type=CE"]
    engines += [
        f"--p2p_type=SM --kernel={kernel}" for kernel in ("cacheCopy", "ncCopy", "bulkCopy")
    ]
    for program, kinds in ((single, engines), (several, engines[1:])):
        for engine in kinds:
            for perf in (f"{BUFFER} {engine} --perf=uniBw", f"{BUFFER} {engine} --perf=biBw"):
                lines += [f"{program} {perf} --p2p_direction={way}" for way in ("write", "read")]
            latency = f"{engine} --perf=latency"
            lines += [f"{program} {latency} --p2p_direction={way}" for way in ("write", "read")]
    lines += [f"{single} --bench_type={bench}" for bench in ("p2p_write", "p2p_read", "all")]
    return lines


def fault_lines(devices: int) -> list[tuple[str, int]]:
    """Commands and the exit code that each should have."""
    bandwidth = f"cclmark p2p -g {devices} -p uniBw -b 256M"
    return [
        (f"{bandwidth} -t CE --inject corrupt:pair=1-2,index=77", 1),
        (f"{bandwidth} -t SM -d read --inject corrupt:pair=2-0,index=12345", 1),
        (f"{bandwidth} -t CE --inject delay:pair=1-2,ms=1", 0),
        (f"{bandwidth} -t CE -a 1", 0),
        (f"{bandwidth} -t CE,SM -d write,read -m 1", 0),
        ("cclmark p2p --devices 0,0 -p uniBw", 2),
        (f"cclmark p2p -g {devices} -b 1T -p uniBw -t CE", 3),
    ]


def transcribe(line: str, directory: str) -> tuple[str, int]:
    """What the command printed, as a terminal would show it, and its exit code."""
    begin_s = time.monotonic()
    done = subprocess.run(
        shlex.split(line),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIMEOUT_S,
        cwd=directory,
    )
    took_s = time.monotonic() - begin_s
    text = f"$ {line}\n{done.stdout.rstrip()}\n[exit {done.returncode}, {took_s:.1f} s]\n\n"
    return text, done.returncode


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--devices", type=int, default=4)
    parser.add_argument("--mpirun", default="mpirun", help="with options, if it needs any")
    args = parser.parse_args()
    jobs = {
        "p2p_pccl_lines.txt": [(line, 0) for line in pccl_lines(args.devices, args.mpirun)],
        "p2p_faults.txt": fault_lines(args.devices),
    }
    unexpected = 0
    with tempfile.TemporaryDirectory() as directory:
        for name, lines in jobs.items():
            with (args.out / name).open("w") as transcript:
                for line, expected in lines:
                    text, code = transcribe(line, directory)
                    transcript.write(text)
                    transcript.flush()
                    if code != expected:
                        unexpected += 1
                        print(f"exit {code}, not {expected}: {line}\n{text[-400:]}")
    sys.exit(1 if unexpected else 0)


if __name__ == "__main__":
    main()
