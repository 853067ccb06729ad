"""``--conditions``: what is read from devices beside the results of every kind of work."""

SHORT = ("--max-time", "0.05")

NVML = """
# An NVML whose devices run few kernels while their PCIe links carry much.
import time

NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 1, 2, 0
NVML_NVLINK_MAX_LINKS = 0
NVML_GPU_UTILIZATION_SAMPLES = 1
NVML_FI_DEV_PCIE_COUNT_TX_BYTES, NVML_FI_DEV_PCIE_COUNT_RX_BYTES = 197, 198
NVML_VALUE_TYPE_UNSIGNED_INT, NVML_VALUE_TYPE_UNSIGNED_LONG, NVML_SUCCESS = 1, 2, 0


class NVMLError(Exception):
    pass


class Value:
    nvmlReturn, valueType = 0, 3

    def __init__(self, value):
        self.timeStamp = time.time() * 1e6
        self.uiVal = self.ullVal = value
        self.sampleValue = self.value = self


def nvmlInit(): pass
def nvmlShutdown(): pass
def nvmlSystemGetDriverVersion(): return "1.0"
def nvmlDeviceGetHandleByPciBusId(bus_id): return bus_id
def nvmlDeviceGetUUID(device): return "GPU-" + device.decode()
def nvmlDeviceGetMaxPcieLinkGeneration(device): return 5
def nvmlDeviceGetMaxPcieLinkWidth(device): return 16
def nvmlDeviceGetCudaComputeCapability(device): return 9, 0
def nvmlDeviceGetClockInfo(device, kind): return {1: 1980, 2: 3201}[kind]
def nvmlDeviceGetTemperature(device, sensor): return 61
def nvmlDeviceGetPowerUsage(device): return 350_000
def nvmlDeviceGetSamples(device, kind, since): return 0, [Value(4), Value(4), Value(4)]
def nvmlDeviceGetFieldValues(device, wanted): return [Value(int(time.time() * 1e12))]
"""


def test_the_host_beside_each_item(cclmark):
    size = ("-b", "1K", "-e", "1K", "--devices", "host:2")
    run = cclmark("all_reduce", *size, *SHORT, "--conditions")
    journal = run.journal
    assert {one.rank for one in journal.conditions} == {0, 1}
    measured = {one.index for one in journal.results if one.is_measured}
    assert {one.index for one in journal.conditions} >= measured
    shares = [one.busy_share for one in journal.conditions if one.busy_share is not None]
    assert shares
    assert all(0 <= share <= 1 for share in shares)
    assert "conditions of the devices" in run.out
    assert "devices idle" not in run.out


def test_a_library_that_leaves_devices_idle(cclmark, fake_cuda, tmp_path):
    (tmp_path / "pynvml.py").write_text(NVML)
    run = cclmark(
        *("all_reduce", "-b", "1K", "-e", "2K", "-g", "2", "--conditions", *SHORT),
        env=fake_cuda.env(PYTHONPATH=str(tmp_path)),
    )
    assert "busy %" in run.out
    assert "kernels ran in at most 4% of the time with nccl" in run.out
    assert "copies move the data" in run.out
