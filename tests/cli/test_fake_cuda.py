"""The way through CUDA and NCCL, on fake libraries that compute in host memory.

Also in ``scenarios/cuda.txt``.
"""

import json

import pytest

from cclmark.kinds.pieces.result import PieceResult
from examples import exhaustive

SHORT = ("-n", "2", "-w", "1")
TWO = ("-g", "2", "-b", "64", "-e", "64", *SHORT)


def keys(value):
    """The shape of a document: the names at every depth."""
    if isinstance(value, dict):
        return {(name, *below) for name, inner in value.items() for below in keys(inner) or [()]}
    if isinstance(value, list):
        return {below for inner in value for below in keys(inner)}
    return set()


def test_a_journal_has_one_schema_on_host_and_accelerators(cclmark, fake_cuda, tmp_path):
    on_host = cclmark("all_reduce", "--devices", "host:2", "-b", "64", "-e", "128", *SHORT)
    on_cuda = cclmark(
        *("all_reduce", "-g", "2", "-b", "64", "-e", "128", *SHORT, "--timing", "throughput"),
        env=fake_cuda.env(),
    )
    shapes = []
    for run in (on_host, on_cuda):
        assert {result.status for result in run.journal.results} == {"ok"}
        cases = [json.loads(line) for line in run.journal_path.read_text().splitlines()][1:-1]
        shapes.append([keys(case) - {("summary", "late_rank")} for case in cases])
        assert len(cases) == 4
    assert shapes[0] == shapes[1]
    header = on_cuda.journal.header
    assert [device.index for device in header.devices] == [0, 1]
    assert {device.runtime for device in header.devices} == {"cuda"}
    assert [library.path for library in header.libraries] == [str(fake_cuda.nccl.resolve())]


def test_the_host_sees_a_batch_of_per_op_as_one(cclmark, fake_cuda):
    five = ("--timing", "per-op", "-n", "5", "-w", "1")
    for clock, samples in (("device", 5), ("host", 1)):
        run = cclmark("all_reduce", *TWO, *five, "--clock", clock, env=fake_cuda.env())
        for result in run.journal.results:
            assert result.summary.clock == clock
            assert result.summary.samples == len(result.samples.host_s) == samples
            assert len(result.samples.device_s) == len(result.samples.enqueue_s) == samples
            assert result.samples.operations_per_sample == 5 // samples


@pytest.mark.parametrize("operation", ["all_reduce", exhaustive("broadcast"), "sendrecv"])
def test_pieces_are_also_one_group(cclmark, fake_cuda, operation):
    sizes = ("-g", "2", "-b", "1000", "-e", "1000", "--max-time", "0.02")
    run = cclmark(operation, *sizes, "--pieces", "7", env=fake_cuda.env())
    for result in run.journal.of(PieceResult):
        found = {
            row.division.form: (row.status, row.verification.wrong, row.summary.clock)
            for row in result.rows
        }
        assert found == dict.fromkeys(("one", "separate", "grouped"), ("ok", 0, "device"))
