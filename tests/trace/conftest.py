import pytest

from timeline_files import ChromeTimeline


@pytest.fixture
def fakes(fake_cuda, tmp_path):
    """The environment of fake devices whose clocks are hours ahead of the host's.

    Unless their clock is ``read``, no kernel is compiled for it, which takes longer than all else:
    then kernels have no times, and a test is about something else.
    """

    def environment(*, read=True, **variables):
        if not read:
            variables["CCLMARK_NVRTC_LIBRARY"] = "/nowhere/libnvrtc.so"
            variables["CCLMARK_CACHE_DIR"] = str(tmp_path / "no-kernels")
        return fake_cuda.env(CCLMARK_FAKE_DEVICE_CLOCK_AHEAD_NS="7000000000000") | variables

    return environment


@pytest.fixture
def timeline(cclmark, tmp_path):
    def trace(*arguments, **options):
        path = tmp_path / "t.json"
        run = cclmark("trace", *arguments, "--format", "chrome", "-O", path, **options)
        found = ChromeTimeline(path)
        path.unlink()
        return run, found

    return trace
