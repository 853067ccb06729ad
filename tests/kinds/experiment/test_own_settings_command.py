"""Variables of the built-in libraries shm and bridge: their effect, and values that are wrong."""

import csv

import pytest

KIB, MIB = 1 << 10, 1 << 20
SHORT = ("-n", "1", "-w", "0")
SHM = ("all_reduce", "--ccl", "shm", "--devices", "host:2")
BRIDGE = ("all_reduce", "--ccl", "bridge", "--devices", "host:4", "--islands", "0-1=shm,2-3=shm")


@pytest.mark.parametrize(
    ("variables", "inlined", "past_cache"),
    [
        ({}, {KIB}, {4 * MIB}),
        ({"CCLMARK_SHM_INLINE_BYTES": "64K"}, {KIB, 64 * KIB}, {4 * MIB}),
        ({"CCLMARK_SHM_INLINE_BYTES": "0", "CCLMARK_SHM_STREAM_BYTES": "65536"}, set(),
         {64 * KIB, 4 * MIB}),
    ],
)  # fmt: skip
def test_shm_explains_what_the_variables_change(cclmark, variables, inlined, past_cache):
    run = cclmark(
        *(*SHM, "-b", "1K", "-e", "4M", "-f", "64", *SHORT, "--placement", "out-of-place"),
        "--explain",
        env=variables,
    )
    ran = {one.case.size_bytes: one.explanation.kernel for one in run.journal.results}
    assert {size for size, text in ran.items() if text.startswith("inline")} == inlined
    assert {size for size, text in ran.items() if text.endswith("past the cache")} == past_cache
    assert all(result.verification.wrong == 0 for result in run.journal.results)
    assert variables.items() <= run.journal.header.environment.items()


def bytes_from_other_islands(cclmark, directory, size, *group, env):
    """What rank 3 of four takes from ranks of other islands in one operation.

    Slots are small: the devices of the fakes are host memory, whose pages cost time.
    """
    cclmark(
        *("trace", *group, "-b", size, "-n", "1", "-w", "0", "--steps", "--format", "chrome"),
        *("-O", directory / "t.json"),
        env={"CCLMARK_BRIDGE_DIRECT_SLOT_BYTES": "1M", **env},
    )
    with (directory / "t.steps.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["phase"] == "between islands"]
    return sum(int(row["size_bytes"]) for row in rows if row["destination"] == "3")


FOUR = ("-g", "4", "--islands", "0-1,2-3")
NO_COMPILER = {"CCLMARK_NVRTC_LIBRARY": "/nonexistent/libnvrtc.so", "CCLMARK_CACHE_DIR": "."}


@pytest.mark.parametrize(
    ("group", "size", "taken", "variables"),
    [
        (BRIDGE[3:], "64K", 64 * KIB, {"CCLMARK_BRIDGE_WHOLE_BYTES": "64K"}),
        # The default of the threshold depends on the group.
        (FOUR, "512K", 512 * KIB, {}),
        ((*FOUR, "--through-host"), "512K", 256 * KIB, {}),
        # Parts are smaller where whole results cost more: with PCIe, and where the host reduces.
        (FOUR, "512K", 256 * KIB, NO_COMPILER),
    ],
)
def test_the_steps_of_a_bridge_follow_from_the_threshold(
    cclmark, fake_cuda, tmp_path, group, size, taken, variables
):
    command, env = ("all_reduce", "--ccl", "bridge", *group), fake_cuda.env(**variables)
    assert bytes_from_other_islands(cclmark, tmp_path, size, *command, env=env) == taken


@pytest.mark.parametrize(
    ("command", "name", "value", "words"),
    [
        (BRIDGE, "CCLMARK_BRIDGE_HOST_SLOT_BYTES", "100000", "100000: not allowed: set a size"),
        (SHM, "CCLMARK_SHM_INLINE_BYTES", "8 ", "'8 ': not a size: set a size in bytes from 0 to"),
    ],
)
def test_a_value_that_is_not_allowed_ends_the_run(cclmark, command, name, value, words):
    run = cclmark(*command, "-b", "1K", "-e", "1K", *SHORT, env={name: value}, code=2)
    assert f"{name}={words}" in run.message
