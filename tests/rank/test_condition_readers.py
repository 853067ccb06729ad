import time
from types import SimpleNamespace

import pynvml
import pytest

from cclmark.base.errors import MissingError
from cclmark.rank.condition_readers import HostReader, NvmlReader, reader_for


def refuse(*_):
    raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)


@pytest.fixture
def nvml(monkeypatch):
    """An NVML with one device. Returns a function that replaces one of its functions."""

    def replace(name, function):
        monkeypatch.setattr(pynvml, name, function, raising=False)

    def handle(bus_id):
        assert bus_id == b"0000:18:00.0"
        return "device"

    clocks = {pynvml.NVML_CLOCK_SM: 1980, pynvml.NVML_CLOCK_MEM: 3201}
    replace("nvmlInit", lambda: None)
    replace("nvmlDeviceGetHandleByPciBusId", handle)
    replace("nvmlDeviceGetClockInfo", lambda device, kind: clocks[kind])
    replace("nvmlDeviceGetTemperatureV", lambda device, sensor: 61)
    replace("nvmlDeviceGetPowerUsage", lambda device: 512_500)
    replace("nvmlDeviceGetCurrentClocksEventReasons", lambda device: 0x1 | 0x4 | 0x40)
    return replace


def known(condition):
    """What is known of it, but for the moment."""
    fields = {name: getattr(condition, name) for name in condition.__struct_fields__}
    assert fields.pop("at_s") > 1e9
    return {name: value for name, value in fields.items() if value not in (None, [])}


PLACE = {"rank": 3, "index": 5, "cycle": 7}
BUS = "0000:18:00.0"


def test_what_nvml_says(nvml):
    reader = reader_for("cuda", BUS)
    found = PLACE | {"clock_hz": 1.98e9, "memory_clock_hz": 3.201e9, "temperature_c": 61}
    found |= {"power_w": 512.5, "reasons": ["power cap", "hardware thermal slowdown"]}
    assert known(reader.read(3, 5, 7)) == found
    nvml("nvmlDeviceGetCurrentClocksEventReasons", lambda device: 0x1)  # it is idle
    del found["reasons"]
    assert known(reader.read(3, 5, 7)) == found


def test_older_names(nvml, monkeypatch):
    for name in ("nvmlDeviceGetTemperatureV", "nvmlDeviceGetCurrentClocksEventReasons"):
        nvml(name, refuse)
    nvml("nvmlDeviceGetTemperature", lambda device, sensor: 59)
    monkeypatch.delattr(pynvml, "nvmlDeviceGetTemperatureV")
    nvml("nvmlDeviceGetCurrentClocksThrottleReasons", lambda device: 0x80)
    condition = NvmlReader(BUS).read(0, 0, 0)
    assert (condition.temperature_c, condition.reasons) == (59, ["power brake"])


def test_what_a_device_does_not_tell_is_none(nvml):
    for name in ("ClockInfo", "TemperatureV", "Temperature", "PowerUsage"):
        nvml(f"nvmlDeviceGet{name}", refuse)
    for name in ("CurrentClocksEventReasons", "CurrentClocksThrottleReasons"):
        nvml(f"nvmlDeviceGet{name}", refuse)
    assert known(NvmlReader(BUS).read(3, 5, 7)) == PLACE


def test_devices_whose_conditions_are_not_read(nvml, tmp_path):
    nvml("nvmlInit", refuse)
    with pytest.raises(MissingError, match="NVML is not available"):
        reader_for("cuda", BUS)
    with pytest.raises(MissingError, match="acl devices"):
        reader_for("acl", "")
    with pytest.raises(MissingError, match="neither"):  # a kernel without these files
        HostReader({0}, tmp_path)


class Sample:
    """A sample or a value of NVML, as its Python binding has them."""

    def __init__(self, value, at_us=0, kind=pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG, result=0):
        self.timeStamp, self.valueType, self.nvmlReturn = at_us, kind, result
        self.sampleValue = self.value = SimpleNamespace(uiVal=value, ullVal=value, ulVal=value)


def test_only_samples_since_the_reading_before_count(nvml):
    begun_us = time.time() * 1e6
    # The second sample is partly of the time before the reader.
    ends_s = {100: -1.0, 90: 1.0, 20: 2.0, 40: 3.0}
    samples = [Sample(share, begun_us + end_s * 1e6) for share, end_s in ends_s.items()]
    nvml("nvmlDeviceGetSamples", lambda device, kind, since_us: (0, samples))
    reader = NvmlReader(BUS)
    assert reader.read(0, 0, 0).busy_share == pytest.approx(0.30)
    assert reader.read(0, 1, 0).busy_share is None
    samples += [Sample(60, begun_us + at * 1e6) for at in (4, 5)]
    assert reader.read(0, 2, 0).busy_share is None  # one sample alone
    samples += [Sample(60, begun_us + at * 1e6) for at in (6, 7, 8)]
    assert reader.read(0, 3, 0).busy_share == pytest.approx(0.60)


def test_traffic_since_the_reading_before(nvml):
    carried = {
        (pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, 0xFFFFFFFF): [10, 14, 14],
        (pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX, 0xFFFFFFFF): [0, 1, 3],
        (pynvml.NVML_FI_DEV_PCIE_COUNT_TX_BYTES, 0): [100, 50, 70],
        (pynvml.NVML_FI_DEV_PCIE_COUNT_RX_BYTES, 0): [1, 2, 3],  # of 32 bits
    }

    def values(device, wanted):
        (one,) = wanted
        if one not in carried:
            return [Sample(0, result=pynvml.NVML_ERROR_NOT_SUPPORTED)]
        narrow = one[0] == pynvml.NVML_FI_DEV_PCIE_COUNT_RX_BYTES
        kind = pynvml.NVML_VALUE_TYPE_UNSIGNED_INT if narrow else 3
        return [Sample(carried[one].pop(0), kind=kind)]

    nvml("nvmlDeviceGetFieldValues", values)
    reader = NvmlReader(BUS)
    first, second = reader.read(0, 0, 0), reader.read(0, 1, 0)
    assert (first.nvlink_sent_bytes, second.nvlink_sent_bytes) == (4096, 0)
    assert (first.nvlink_received_bytes, second.nvlink_received_bytes) == (1024, 2048)
    assert (first.pcie_sent_bytes, second.pcie_sent_bytes) == (None, 20)  # reset in between
    assert first.pcie_received_bytes is second.pcie_received_bytes is None


def host_files(root, stat):
    for processor, (frequency, core, package) in {
        2: ("2000000\n", "3\n", "5\n"),
        3: ("3000000\n", "4\n", "x"),
        4: ("9", "9", "9"),
    }.items():
        own = f"sys/devices/system/cpu/cpu{processor}"
        for name, text in {
            f"{own}/cpufreq/scaling_cur_freq": frequency,
            f"{own}/thermal_throttle/core_throttle_count": core,
            f"{own}/thermal_throttle/package_throttle_count": package,
            "proc/stat": stat,
        }.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)


def test_processors(tmp_path):
    host_files(tmp_path, "cpu2 10 0 5 100 5 0 0 0 7 7\ncpu3 0 0 0 20 0 0 0 0\ncpu4 1 1 1 1")
    reader = HostReader({2, 3}, tmp_path)
    found = {"rank": 1, "index": 0, "cycle": 0, "clock_hz": 2.5e9, "throttle_count": 12}
    assert known(reader.read(1, 0, 0)) == found  # the clock has not ticked
    host_files(tmp_path, "cpu2 40 0 5 110 5 0 0 0 9 9\ncpu3 20 5 5 20 30 0 0 0\ncpu4 9 9 9 9")
    assert reader.read(0, 1, 0).busy_share == pytest.approx(60 / 100)


def test_the_host_beside_each_item(cclmark):
    size = ("-b", "1K", "-e", "1K", "--devices", "host:2", "--max-time", "0.05")
    run = cclmark("all_reduce", *size, "--conditions")
    journal = run.journal
    assert {one.rank for one in journal.conditions} == {0, 1}
    measured = {one.index for one in journal.results if one.is_measured}
    assert {one.index for one in journal.conditions} >= measured
    shares = [one.busy_share for one in journal.conditions if one.busy_share is not None]
    assert shares
    assert all(0 <= share <= 1 for share in shares)
    assert "conditions of the devices" in run.out
