"""What tests of the installed program share: running it, finding its journal, its ranks, its leaks.

Every process that a test starts inherits a tag in its environment. So whatever is left behind is
found, and nobody else's processes are touched.
"""

import ctypes
import gc
import os
import re
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import settings

import examples
import forked
import postgres as postgres_room
from commands import (
    PROGRAM,
    TAG,
    Background,
    Run,
    default_signals,
    environment,
    is_alive,
    launch,
    tagged_processes,
)
from fake_libraries import fake_library
from forked_background import backgrounds
from in_process import run_here, runs_here
from patience import scaled
from serving import Served

pytest_plugins = ("browsing",)


def pytest_addoption(parser: pytest.Parser) -> None:
    """``make test`` leaves the option out, ``make test-all`` has it."""
    parser.addoption(
        "--all",
        action="store_true",
        help="all products of phases, ranks and signals, all examples of properties, "
        "and a process that is started, not forked, for every command that starts ranks",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Test modules are imported behind this."""
    examples.leave_out(1 if config.getoption("--all") else 4)
    # An example that takes longer than others says something about the machine alone.
    settings.register_profile(
        "untimed", deadline=None, max_examples=examples.examples(settings.default.max_examples)
    )
    settings.load_profile("untimed")
    if hasattr(config, "workerinput"):
        _own_mounts(small_cache=not config.getoption("--all"))
    # What a shell runs in the background ignores it, and so would everything that tests start.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


_CACHE_SIZE = Path("/sys/devices/system/cpu/cpu0/cache/index3/size")


def _own_mounts(*, small_cache: bool) -> None:
    """Of several processes with tests each gets a /dev/shm of its own, where it may: what another
    one's runs, databases and browsers have there is then not taken for a leak.

    With a ``small_cache`` the last level of cache has 1 MiB: buffers of host ranks are a multiple
    of it, and to fill 100 MB takes a third of the processor time of a run with small messages.
    """
    libc = ctypes.CDLL(None)
    new_mounts, bind, private, recursive = 0x20000, 1 << 12, 1 << 18, 1 << 14
    if libc.unshare(new_mounts) == 0:
        done = libc.mount(b"none", b"/", None, private | recursive, None)
        done |= libc.mount(b"tmpfs", b"/dev/shm", b"tmpfs", 0, b"mode=1777")
        assert done == 0, "there is no /dev/shm of its own"
        if small_cache and _CACHE_SIZE.exists():
            with tempfile.NamedTemporaryFile("w") as size:
                size.write("1024K\n")
                size.flush()
                libc.mount(size.name.encode(), bytes(_CACHE_SIZE), None, bind, None)


_LONGEST_ID = 100  # characters


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Names bytes and long texts by their argument, which keeps the IDs of tests readable."""
    is_long = isinstance(val, bytes) or (isinstance(val, str) and len(val) > _LONGEST_ID)
    return argname if is_long else None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is collected stays: to look for garbage in it again and again takes as long as to
    collect it.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def _with_long_lines() -> Generator[None]:
    """A message has one line in tests, also where they call what prints it; pytest's own lines
    have the width of the terminal.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "1000")
        yield


pytest_runtest_setup = pytest.hookimpl(wrapper=True)(_with_long_lines)
pytest_runtest_call = pytest.hookimpl(wrapper=True)(_with_long_lines)
pytest_runtest_teardown = pytest.hookimpl(wrapper=True)(_with_long_lines)


@pytest.hookimpl(wrapper=True)  # else pytest-xdist has written the groups down before
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Generator[None]:
    """Leaves out what only --all runs; what shares a fixture takes turns in one process."""
    if not config.getoption("--all"):
        left_out = [item for item in items if item.get_closest_marker("exhaustive")]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("exhaustive")]
    for item in items:
        if _runs_the_program(item.path):
            item.add_marker(pytest.mark.program)
        if group := _shared_by(item):
            item.add_marker(pytest.mark.xdist_group(group))
    items.sort(key=_turn)
    yield


def _turn(item: pytest.Item) -> int:
    """What waits for processes first, so that none of them runs alone at the end. Of these the
    networks of hosts last: nothing is compiled any more, which makes hosts slow.
    """
    if item.get_closest_marker("program") is None:
        return 2
    group = item.get_closest_marker("xdist_group")
    return int(group is not None and group.args == ("networks",))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Modules whose tests are all left out are not imported."""
    left_out = "not program" in config.getoption("-m") and _runs_the_program(collection_path)
    return True if left_out else None


def _runs_the_program(path: Path) -> bool:
    rooms = path.relative_to(Path(__file__).parent).parts[:1]
    is_one = {"launchers", "multirank", "browser", "cli"}.intersection(rooms)
    return bool(is_one) or path.stem.endswith("_command")


# Of these fixtures of a session, which take seconds to make, there are as many as processes else.
_COSTLY = ("two_hosts", "slurm_on_hosts", "pages")


def _shared_by(item: pytest.Item) -> str:
    """The tests that are to run in the same process as ``item``, for a fixture is made once then;
    empty where it shares none.
    """
    information = getattr(item, "_fixtureinfo", None)
    if information is None or item.get_closest_marker("xdist_group"):
        return ""
    shared = [
        (name, found[-1])
        for name, found in information.name2fixturedefs.items()
        if name in information.names_closure
    ]
    file = item.nodeid.partition("::")[0]
    if any(name in _COSTLY for name, _ in shared):
        return file
    if "torch" in information.names_closure:
        return "torch"  # which takes seconds to import: in tests, and in what runs are forked from
    scopes = {fixture.scope for _, fixture in shared if "test_" in fixture.baseid}
    if "module" in scopes:
        return file
    return item.nodeid.rpartition("::")[0] if "class" in scopes else ""


@pytest.fixture(scope="session")
def tag() -> Iterator[str]:
    """What the processes of this session carry. Whatever is left of them at its end is killed."""
    text = uuid.uuid4().hex
    yield text
    for pid in tagged_processes(text):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@pytest.fixture(scope="session")
def source(request: pytest.FixtureRequest) -> Iterator[forked.Sources | None]:
    """What runs of the program are forked from; with --all each is started by itself."""
    if request.config.getoption("--all"):
        yield None
        return
    made = forked.Sources()
    yield made
    made.close()


@pytest.fixture
def cclmark(
    request: pytest.FixtureRequest, tag: str, tmp_path: Path, source: forked.Sources | None
) -> Callable[..., Run]:
    """Runs the program in a new directory: ``cclmark("all_reduce", "-e", "64", code=0)``.

    Commands that start no rank run in this process. Tests with the mark ``started`` are about how
    it starts or ends: they never take a fork.
    """
    started = request.node.get_closest_marker("started")
    taken = None if started else source

    def run(*arguments, **options) -> Run:
        if not started and runs_here(arguments, options):
            return run_here(tag, tmp_path, *arguments, **options)
        return launch(tag, tmp_path, *arguments, source=taken, **options)

    return run


@pytest.fixture(scope="session")
def cclmark_in(tag: str, source: forked.Sources | None) -> Callable[..., Run]:
    """The same in a directory of choice, for runs that several tests look at."""

    def run(directory: Path, *arguments, **options) -> Run:
        return launch(tag, directory, *arguments, source=source, **options)

    return run


@pytest.fixture
def background(
    request: pytest.FixtureRequest, tag: str, tmp_path: Path, source: forked.Sources | None
) -> Iterator[Callable[..., Background]]:
    """Starts the program and returns at once: a fork but for tests with the mark ``started``."""
    taken = None if request.node.get_closest_marker("started") else source
    yield from backgrounds(tag, tmp_path, taken)


def _serving(tag: str) -> Iterator[Callable[..., Served]]:
    """Starts ``cclmark serve`` on a free port, and returns when it has said where it is."""
    running: list[subprocess.Popen[bytes]] = []

    def start(*arguments, env: Mapping[str, str] | None = None) -> Served:
        with default_signals():
            process = subprocess.Popen(
                [*PROGRAM, "serve", "--port", "0", *map(str, arguments)],
                env=environment(tag, env),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        running.append(process)
        return Served(process)

    yield start
    for process in running:
        if process.poll() is None:
            process.kill()
            process.communicate()


@pytest.fixture
def serve(tag: str) -> Iterator[Callable[..., Served]]:
    """Starts servers of one test."""
    yield from _serving(tag)


@pytest.fixture(scope="module")
def serve_all(tag: str) -> Iterator[Callable[..., Served]]:
    """Starts servers that several tests look at."""
    yield from _serving(tag)


def _shared_memory() -> set[str]:
    return (
        {path.name for path in Path("/dev/shm").iterdir()} if Path("/dev/shm").is_dir() else set()
    )


def _mapped_files() -> set[str]:
    """Names in /dev/shm that a living process has mapped: those are in use, not leaked."""
    names: set[str] = set()
    for maps in Path("/proc").glob("[0-9]*/maps"):
        with suppress(OSError):
            names.update(re.findall(r"/dev/shm/(\S+)", maps.read_text()))
    return names


@pytest.fixture(scope="session")
def torch() -> None:
    """Skips where there is none: cclmark does not need it. It is not imported here, which takes
    seconds: runs of the program do that.
    """
    if find_spec("torch") is None:
        pytest.skip("torch is not installed")


@pytest.fixture
def without_torch(tmp_path: Path) -> dict[str, str]:
    """An environment in which torch cannot be imported."""
    (tmp_path / "torch.py").write_text("raise ImportError('there is none here')")
    return {"PYTHONPATH": str(tmp_path)}


_NO_TORCH = """
import sys

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Finder())
"""


@pytest.fixture
def torch_not_installed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment in which there is no torch at all."""
    directory = tmp_path_factory.mktemp("no-torch")
    (directory / "sitecustomize.py").write_text(_NO_TORCH)
    return {"PYTHONPATH": str(directory)}


@pytest.fixture
def no_leaks(tag: str, background, source: forked.Sources | None) -> Iterator[None]:
    """Fails the test that leaves ranks or shared memory behind. Give ranks two seconds to go."""
    before = _shared_memory()
    yield

    def left() -> dict[int, list[str]]:
        found = {} if source is None else source.living()
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            with suppress(OSError):
                if f"{TAG}={tag}".encode() in (entry / "environ").read_bytes() and is_alive(
                    int(entry.name)
                ):
                    found[int(entry.name)] = (entry / "cmdline").read_text().split("\0")
        return found

    deadline_s = time.monotonic() + scaled(2.0)
    while left() and time.monotonic() < deadline_s:
        time.sleep(0.02)
    assert not left(), "the run left processes behind"

    def leaked() -> set[str]:
        added = _shared_memory() - before
        return added - _mapped_files() if added else added

    # That of another test's run, which is being ended at the moment, goes away.
    deadline_s = time.monotonic() + scaled(8.0)
    while leaked() and time.monotonic() < deadline_s:
        time.sleep(0.05)
    assert not leaked(), "the run left shared memory behind"


@dataclass(frozen=True)
class FakeCuda:
    """Where the fake vendor libraries are, and the environment that makes cclmark take them."""

    cuda: Path
    nvrtc: Path
    nccl: Path
    old_nccl: Path
    cublaslt: Path
    cache: Path

    def env(self, *, old: bool = False, products: bool = False, **extra: str) -> dict[str, str]:
        """The environment; ``old`` takes the NCCL without its optional functions, ``products`` the
        cuBLASLt, which computes so slowly that only small matrices can be multiplied.
        """
        return {
            "CCLMARK_CUDA_LIBRARY": str(self.cuda),
            "CCLMARK_NVRTC_LIBRARY": str(self.nvrtc),
            "CCLMARK_NCCL_LIBRARY": str(self.old_nccl if old else self.nccl),
            "CCLMARK_CUBLASLT_LIBRARY": str(self.cublaslt) if products else "/none/libcublasLt.so",
            "CCLMARK_CACHE_DIR": str(self.cache),
            **extra,
        }


def _shared_by_workers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of this session: kernels take seconds to compile, in each process with tests."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


@pytest.fixture(scope="session")
def fake_cuda(tmp_path_factory: pytest.TempPathFactory) -> FakeCuda:
    """The fake CUDA driver, NVRTC and NCCL."""
    return FakeCuda(
        cuda=fake_library("libcuda.so.1"),
        nvrtc=fake_library("libnvrtc.so*"),
        nccl=fake_library("libnccl.so.2"),
        old_nccl=fake_library("old/libnccl.so.2"),
        cublaslt=fake_library("libcublasLt.so.12"),
        cache=_shared_by_workers(tmp_path_factory) / "kernels",
    )


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[postgres_room.Postgres]:
    """A server of PostgreSQL. Left out with the reason where none is installed; with
    CCLMARK_REQUIRE_POSTGRES, as where every change is checked, that is a failure.
    """
    if reason := postgres_room.missing():
        if os.environ.get("CCLMARK_REQUIRE_POSTGRES"):
            pytest.fail(f"CCLMARK_REQUIRE_POSTGRES is set, and yet: {reason}")
        pytest.skip(reason)
    with postgres_room.running() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def history_place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a history can be begun, for each kind of database."""
    if request.param == "sqlite":
        return str(tmp_path / "history.sqlite")
    server = request.getfixturevalue("postgres_server")
    return server.url(server.new_database())
