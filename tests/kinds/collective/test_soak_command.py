"""The sweep again and again until its time is over, with the condition of the devices beside it."""

import re
import signal
from pathlib import Path

from cclmark.journal.schema import SCHEMA_VERSION
from cclmark.kinds.registry import read_journal

SWEEP = ("all_reduce", "-b", "64", "-e", "128", "--max-time", "0.01")
ON_HOST = ("--devices", "host:2")

NVML = Path(__file__).with_name("nvml_of_two_devices.txt").read_text()


def test_it_stops_when_its_time_is_over(cclmark, no_leaks):
    run = cclmark(*SWEEP, *ON_HOST, "--duration", "1s", "--summary-every", "0.25")
    results, footer = run.journal.results, run.journal.footer
    assert (footer.exit_code, footer.message) == (0, "")
    assert footer.duration_s >= 1
    assert run.journal.header.settings.duration_s == 1
    # Every case in its turn, to the last one.
    assert [(it.cycle, it.index) for it in results] == [
        divmod(place, 4) for place in range(len(results))
    ]
    assert results[-1].cycle >= 1
    rows = [line for line in run.out.splitlines() if line.lstrip().startswith("64 B ")]
    assert len(rows) == 1
    assert " cycle " in run.out
    assert f"{len(results)} of {len(results)} results checked, 0 wrong" in run.out
    assert "drift: the first and the last" in run.out


def test_wrong_data_is_seen_in_every_cycle(cclmark):
    fault = ("--inject", "corrupt:rank=1,index=3")
    run = cclmark(*SWEEP, *ON_HOST, "--duration", "1s", *fault, code=1)
    results = run.journal.results
    assert all(it.status == "wrong" for it in results)
    assert f"{len(results)} wrong" in run.out
    assert "cycle 2, all_reduce 64 B" in run.out


def test_an_interruption_keeps_everything(background, no_leaks):
    run = background(*SWEEP, *ON_HOST, "--duration", "1h")
    run.wait_for_ranks(results=9)
    run.signal(run.process.pid, signal.SIGINT)
    ended = run.finish()
    assert ended.code == 130
    assert "drift: " in ended.out
    assert "--resume" not in ended.err, "no case is missing in a soak"
    journal = read_journal(run.journal_path)
    assert journal.footer.exit_code == 130
    assert f"of {len(journal.results)} results checked" in ended.out


def soak_on_fakes(cclmark, fake_cuda, directory, nvml):
    (directory / "pynvml.py").write_text(nvml)
    env = fake_cuda.env(PYTHONPATH=str(directory))
    return cclmark(*SWEEP, "--duration", "0.3s", "-g", "2", env=env)


def test_the_condition_of_devices_stands_beside_each_result(cclmark, fake_cuda, tmp_path):
    run = soak_on_fakes(cclmark, fake_cuda, tmp_path, NVML)
    journal = run.journal
    assert journal.header.schema_version == SCHEMA_VERSION
    seen = {(it.rank, it.cycle, it.index) for it in journal.conditions}
    assert seen == {(rank, it.cycle, it.index) for it in journal.results for rank in (0, 1)}
    first = journal.conditions[0]
    assert (first.clock_hz, first.memory_clock_hz) == (1980e6, 3201e6)
    assert (first.temperature_c, first.power_w, first.reasons) == (61, None, ["power cap"])
    assert re.search(r"\n +1 +1980 +3201 +61  power cap 100%\n", run.out)
    assert "unknown" not in run.err


def test_without_nvml_that_is_said_once(cclmark, fake_cuda, tmp_path):
    broken = NVML.replace("def nvmlInit(): pass", "def nvmlInit(): raise NVMLError('none here')")
    run = soak_on_fakes(cclmark, fake_cuda, tmp_path, broken)
    (line,) = [it for it in (run.out + run.err).splitlines() if "device conditions" in it]
    assert "NVML is not available (none here)" in line
    assert run.journal.conditions == []
