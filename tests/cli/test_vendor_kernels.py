"""Kernels on devices of vendors whose compilers have NVRTC's interface."""

import pytest
from vendors import ECCL, HCCL, MACA, MUSA, PCCL, RCCL, SHIM, Vendor, by_name

from fake_libraries import fake_library

COMPILERS = {
    RCCL: ("HIPRTC", "libhiprtc.so.6", "hiprtc"),
    MACA: ("MCRTC", "libmcrtc.so", "mcrtc"),
    MUSA: ("MTRTC", "libmtrtc.so", "mtrtc"),
    SHIM: ("NVRTC", "rtc/libnvrtc.so", "nvrtc"),
    PCCL: ("NVRTC", "rtc/libnvrtc.so", "nvrtc"),
}
COPIES = ("p2p", "-b", "100K", "-p", "uniBw", "-t", "CE,SM", "--max-time", "0.01")


@pytest.fixture
def with_kernels(fake_cuda):
    """The environment of a vendor with its compiler; ``fake``: settings of the fakes."""

    def env(vendor: Vendor, cache=fake_cuda.cache, **fake: str) -> dict[str, str]:
        variable, file, _ = COMPILERS[vendor]
        settings = {f"CCLMARK_FAKE_{name}": value for name, value in fake.items()}
        return vendor.env(
            **{f"CCLMARK_{variable}_LIBRARY": str(fake_library(file))},
            **{"CCLMARK_CACHE_DIR": str(cache)},
            **settings,
        )

    return env


def copies(cclmark, vendor, env, *arguments, code=0):
    return cclmark(*COPIES, "--devices", vendor.devices(2), *arguments, env=env, code=code)


@pytest.mark.parametrize("vendor", [RCCL, MACA, MUSA, SHIM], ids=by_name)
def test_copies_by_kernels_move_the_data(cclmark, with_kernels, vendor) -> None:
    """Both directions by every kernel, also with an offset that is not a multiple of 16."""
    run = copies(
        cclmark,
        vendor,
        with_kernels(vendor),
        *("-k", "all", "-d", "write,read", "--buffer-offset", "4"),
    )
    found = run.journal.transfers
    means = {one.transfer.means for one in found}
    assert means == {"CE", "SM cacheCopy", "SM ncCopy", "SM bulkCopy"}
    assert len(found) == 16
    for one in found:
        assert one.status == "ok", one.reason
        assert (one.verification.wrong, one.verification.where) == (0, "device")
    assert "checked on the host" not in run.out + run.err


@pytest.mark.parametrize("processes", ["0", "1"], ids=["one process", "a process each"])
def test_wrong_data_of_a_kernel_are_found(cclmark, with_kernels, processes) -> None:
    arguments = ("-m", processes, "--inject", "corrupt:pair=1-0,index=77")
    run = copies(cclmark, RCCL, with_kernels(RCCL), *arguments, code=1)
    wrong = {one.transfer.flows[0] for one in run.journal.transfers if one.status == "wrong"}
    assert wrong == {(1, 0)}


def test_more_blocks_than_a_block_may_have_threads(cclmark, with_kernels) -> None:
    """Blocks and threads are not exchanged."""
    only = ("-t", "SM", "-j", "1", "--num-thread-blocks", "2000")
    [found] = copies(cclmark, MACA, with_kernels(MACA), *only).journal.transfers
    assert (found.status, found.transfer.blocks) == ("ok", 2000), found.reason


@pytest.mark.parametrize("vendor", [RCCL, MUSA], ids=by_name)
def test_what_does_not_compile_is_left_out_with_the_log(
    cclmark, with_kernels, vendor, tmp_path
) -> None:
    env = with_kernels(vendor, tmp_path, RTC_ERROR="transfer.cu")
    run = copies(cclmark, vendor, env)
    for one in run.journal.transfers:
        if one.transfer.engine == "CE":
            assert (one.status, one.verification.where) == ("ok", "device")
        else:
            assert one.status == "skipped"
            assert f"{COMPILERS[vendor][2]}CompileProgram() failed" in one.reason
            assert "#error CCLMARK_FAKE_RTC_ERROR" in one.reason


def test_a_module_that_does_not_load_leaves_the_copy_engine(
    cclmark, with_kernels, tmp_path
) -> None:
    """The compiler refuses the option for the architecture, and its default is for another."""
    run = copies(cclmark, MUSA, with_kernels(MUSA, tmp_path, RTC_OPTIONS="none"))
    states = {(one.transfer.engine, one.status) for one in run.journal.transfers}
    assert states == {("CE", "ok"), ("SM", "skipped")}
    [reason] = {one.reason for one in run.journal.transfers if one.transfer.engine == "SM"}
    assert reason.startswith("muModuleLoadData failed: ") and "(code 209)" in reason
    assert "outputs are checked on the host: muModuleLoadData failed" in run.out + run.err

    env = with_kernels(MUSA, tmp_path, RTC_OPTIONS="none", ARCHITECTURE="31")
    run = copies(cclmark, MUSA, env)
    assert {one.status for one in run.journal.transfers} == {"ok"}


def test_compiled_kernels_are_kept(cclmark, with_kernels, tmp_path) -> None:
    cache = tmp_path / "kernels"
    copies(cclmark, RCCL, with_kernels(RCCL, cache))
    names = sorted(path.name.rsplit("-", 1)[0] for path in cache.iterdir())
    assert names == [f"{source}-hip-CCLMark-Fake-MI-6-3" for source in ("pattern", "transfer")]
    env = with_kernels(RCCL, cache) | {"CCLMARK_HIPRTC_LIBRARY": "/nonexistent"}
    run = copies(cclmark, RCCL, env)
    assert {one.status for one in run.journal.transfers} == {"ok"}


def test_latencies_of_kernels(cclmark, with_kernels) -> None:
    """Loads are timed by events. Stores seen by the other device require a clock."""
    arguments = ("-p", "latency", "-t", "SM", "-d", "write,read", "-j", "1")
    run = copies(cclmark, SHIM, with_kernels(SHIM), *arguments)
    of = {one.transfer.method: one for one in run.journal.transfers}
    assert set(of) == {"chase", "ping-pong"}
    assert of["chase"].status == "ok" and of["chase"].summary.time_s > 0
    assert of["ping-pong"].reason == (
        "kernels of cudart devices have no clock, which cclmark_ping_pong requires"
    )
    run = copies(cclmark, SHIM, with_kernels(SHIM), *arguments, "--latency-method", "copy")
    assert {one.status for one in run.journal.transfers} == {"ok"}


def test_the_guides_command_by_kernels(cclmark, with_kernels) -> None:
    run = cclmark(
        *("p2pBandwidthLatencyTest", "--num_gpus=2", "--num_elems=16384", "--p2p_type=SM"),
        *("--kernel=bulkCopy", "--perf=uniBw,latency", "--max-time", "0.01"),
        env=with_kernels(PCCL),
    )
    found = {(one.status, one.transfer.means) for one in run.journal.transfers}
    assert found == {("ok", "SM bulkCopy")}
    assert "(EnabledP2P SM WRITE Unidirectional)" in run.out


def test_collectives_are_checked_on_the_devices(cclmark, with_kernels) -> None:
    run = cclmark(
        *("all_reduce", "--devices", "maca:0,1", "-b", "1K", "-e", "1K", "-n", "2", "-w", "1"),
        env=with_kernels(MACA),
    )
    assert {one.verification.where for one in run.journal.results} == {"device"}


@pytest.mark.parametrize(
    ("vendor", "devices"), [(ECCL, "tops"), (HCCL, "Ascend")], ids=["tops", "acl"]
)
def test_devices_without_a_known_compiler(cclmark, vendor, devices) -> None:
    run = copies(cclmark, vendor, vendor.env())
    [reason] = {one.reason for one in run.journal.transfers if one.transfer.engine == "SM"}
    assert reason == f"no compiler of kernels at run time is known for {devices} devices"
