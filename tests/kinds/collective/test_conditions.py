"""Reading the condition of devices, from NVML and from the kernel."""

import pynvml
import pytest

from cclmark.base.errors import MissingError
from cclmark.kinds.collective.run import HostReader, NvmlReader, reader_for


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

    replace("nvmlInit", lambda: None)
    replace("nvmlDeviceGetHandleByPciBusId", handle)
    replace(
        "nvmlDeviceGetClockInfo",
        lambda device, kind: {pynvml.NVML_CLOCK_SM: 1980, pynvml.NVML_CLOCK_MEM: 3201}[kind],
    )
    replace("nvmlDeviceGetTemperatureV", lambda device, sensor: 61)
    replace("nvmlDeviceGetPowerUsage", lambda device: 512_500)
    replace("nvmlDeviceGetCurrentClocksEventReasons", lambda device: 0x1 | 0x4 | 0x40)
    return replace


def test_what_nvml_says(nvml):
    condition = reader_for("cuda", "0000:18:00.0").read(3, 5, 7)
    assert (condition.rank, condition.index, condition.cycle) == (3, 5, 7)
    assert condition.at_s > 1e9
    assert condition.clock_hz == pytest.approx(1.98e9)
    assert condition.memory_clock_hz == pytest.approx(3.201e9)
    assert condition.temperature_c == 61
    assert condition.power_w == pytest.approx(512.5)
    assert condition.reasons == ["power cap", "hardware thermal slowdown"]


def test_an_idle_device_is_not_held_back(nvml):
    nvml("nvmlDeviceGetCurrentClocksEventReasons", lambda device: 0x1)
    assert NvmlReader("0000:18:00.0").read(0, 0, 0).reasons == []


def test_older_names(nvml, monkeypatch):
    for name in ("nvmlDeviceGetTemperatureV", "nvmlDeviceGetCurrentClocksEventReasons"):
        nvml(name, refuse)
    nvml("nvmlDeviceGetTemperature", lambda device, sensor: 59)
    monkeypatch.delattr(pynvml, "nvmlDeviceGetTemperatureV")
    nvml("nvmlDeviceGetCurrentClocksThrottleReasons", lambda device: 0x80)
    condition = NvmlReader("0000:18:00.0").read(0, 0, 0)
    assert condition.temperature_c == 59
    assert condition.reasons == ["power brake"]


def test_what_a_device_does_not_tell_is_none(nvml):
    for name in (
        "nvmlDeviceGetClockInfo",
        "nvmlDeviceGetTemperatureV",
        "nvmlDeviceGetTemperature",
        "nvmlDeviceGetPowerUsage",
        "nvmlDeviceGetCurrentClocksEventReasons",
        "nvmlDeviceGetCurrentClocksThrottleReasons",
    ):
        nvml(name, refuse)
    condition = NvmlReader("0000:18:00.0").read(0, 0, 0)
    assert condition.clock_hz is condition.memory_clock_hz is None
    assert condition.temperature_c is condition.power_w is None
    assert condition.reasons == []


def test_no_nvml(nvml):
    nvml("nvmlInit", refuse)
    with pytest.raises(MissingError, match="NVML is not available"):
        reader_for("cuda", "0000:18:00.0")


def test_other_devices():
    with pytest.raises(MissingError, match="acl devices"):
        reader_for("acl", "")


def test_processors(tmp_path):
    for processor, (frequency, core, package) in {
        2: ("2000000\n", "3\n", "5\n"),
        3: ("3000000\n", "4\n", "x"),
        4: ("9", "9", "9"),
    }.items():
        directory = tmp_path / f"cpu{processor}"
        (directory / "cpufreq").mkdir(parents=True)
        (directory / "thermal_throttle").mkdir()
        (directory / "cpufreq" / "scaling_cur_freq").write_text(frequency)
        (directory / "thermal_throttle" / "core_throttle_count").write_text(core)
        (directory / "thermal_throttle" / "package_throttle_count").write_text(package)
    condition = HostReader({2, 3}, tmp_path).read(1, 0, 0)
    assert condition.clock_hz == 2.5e9
    assert condition.throttle_count == 12
    assert (condition.rank, condition.temperature_c) == (1, None)


def test_a_kernel_that_says_nothing(tmp_path):
    with pytest.raises(MissingError, match="neither"):
        HostReader({0}, tmp_path)
