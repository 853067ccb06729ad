"""torch.distributed on one rank: loading of backends, process groups and their errors."""

from __future__ import annotations

import ctypes
import datetime
import importlib
import os
import socket
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cclmark import _engine as engine
from cclmark.journal.schema import LibraryDescription
from cclmark.rank.rank import Rank
from cclmark.rendezvous.interfaces import interface_towards

PLUG_INS = {
    # Importing the module registers the backend.
    "flagcx": "flagcx",
    "ccl": "oneccl_bindings_for_pytorch",
}
# Backends of devices whose memory is not used as torch's tensors here, with their vendors.
OF_OTHER_DEVICES = {
    "hccl": "Huawei",
    "mccl": "Moore Threads",
    "cncl": "Cambricon",
    "eccl": "Enflame",
}
# Phrases of torch and its backends for unsupported operations, compared in lower case.
_CANNOT = (
    *("not support", "unsupported", "not implemented", "only implemented", "cannot use"),
    *("only available", "only support", "not available", "not yet", "no backend type"),
    *("must be contiguous", "invalid tensor size", "invalid scalar type", "can't be cast"),
)
_LONGEST = 300
PATIENCE_S = 60.0  # torch's timeout exceeds the deadline of a phase by this time


def load_torch(backend: str, modules: Sequence[str]) -> Any:
    """Imports torch with the plug-in that provides ``backend`` (none if that is empty).

    Raises MissingError with a remedy.
    """
    if backend in OF_OTHER_DEVICES:
        raise engine.MissingError(
            f"torch's backend {backend} is for devices of {OF_OTHER_DEVICES[backend]}: "
            "torch.distributed is supported on NVIDIA GPUs and the host only. --ccl "
            f"{backend} measures the library itself, without torch"
        )
    # The framework's deprecation warnings are not relevant to a check.
    warnings.simplefilter("ignore")
    try:
        import torch
        import torch.distributed as dist
    except ImportError as error:
        raise engine.MissingError(
            f"torch cannot be imported ({error}): install torch into the environment of cclmark, "
            "or cclmark into the environment of torch"
        ) from None
    if not dist.is_available():
        raise engine.MissingError(f"torch {torch.__version__} was built without torch.distributed")
    for module in [*modules, *([PLUG_INS[backend]] if backend in PLUG_INS else [])]:
        try:
            importlib.import_module(module)
        except Exception as error:  # a plug-in may fail in any way while it is imported
            raise engine.MissingError(
                f"the module {module}, which provides backend {backend}, cannot be imported: "
                f"{type(error).__name__}: {error}"
            ) from None
    if backend and not dist.is_backend_available(backend):
        known = ", ".join(backends_of(torch))
        if backend in built_in_names(torch):
            raise engine.MissingError(
                f"torch {torch.__version__} was built without its backend {backend}; it has {known}"
            )
        raise engine.MissingError(
            f"torch {torch.__version__} has no backend {backend}, only {known}: if a plug-in "
            "provides it, load its module with --import MODULE"
        )
    return torch


def backends_of(torch: Any) -> list[str]:
    """The names of the backends that this torch has."""
    dist = torch.distributed
    return sorted(name for name in built_in_names(torch) if dist.is_backend_available(name))


def built_in_names(torch: Any) -> set[str]:
    """The names of torch's backends, including those that this torch was built without."""
    return {*torch.distributed.Backend.backend_list} - {"undefined", "fake"}


def describe_backend(torch: Any, backend: str) -> LibraryDescription:
    """The description of the loaded backend for the header."""
    version = str(torch.__version__)
    if backend == "nccl":
        version += " with NCCL " + ".".join(map(str, torch.cuda.nccl.version()))
    path = os.path.dirname(str(torch.__file__))  # noqa: PTH120 - as torch gives it
    if backend == "nccl":
        path = _file_behind("libnccl.so.2", "ncclGetVersion") or path
    return LibraryDescription(f"torch:{backend}", version, path)


def _file_behind(name: str, symbol: str) -> str:
    """The file that this process has loaded under ``name``, empty if there is none.

    Several loaded files may have this name. Programs use the first one.
    """
    try:
        library = ctypes.CDLL(name, mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
        address = ctypes.cast(getattr(library, symbol), ctypes.c_void_p).value or 0
        maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
    except (OSError, AttributeError):
        return ""
    for line in maps.splitlines():
        words = line.split(maxsplit=5)
        begin, end = (int(number, 16) for number in words[0].split("-"))
        if begin <= address < end and len(words) == 6:
            return words[5]
    return ""


def _host_of(endpoint: str) -> str:
    """The address in ``tcp://ADDRESS:PORT``."""
    return endpoint.partition("//")[2].rpartition(":")[0].strip("[]")


def tensor_device(torch: Any, runtime: str, index: int) -> Any:
    """The torch device for a device of the engine, set as the current device."""
    if runtime == "cuda":
        device = torch.device("cuda", index)
        torch.cuda.set_device(device)
        return device
    torch.set_num_threads(1)
    return torch.device("cpu")


def cannot(error: Exception) -> bool:
    """Whether an error of torch reports an unsupported operation and not a failure."""
    text = one_line(error).lower()
    return isinstance(error, NotImplementedError) or any(words in text for words in _CANNOT)


def one_line(error: Exception) -> str:
    """The message of an error of torch, shortened for a table."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


class ProcessGroup:
    """The default process group of a run, which can be recreated after a failed operation.

    ``timeout_s``: the timeout of operations of torch.
    """

    def __init__(self, rank: Rank, torch: Any, backend: str, device: Any, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self._rank = rank
        self._torch = torch
        self._dist = torch.distributed
        self._backend = backend
        self._device = device
        self._made = 0
        self._store: Any = None
        # Gloo resolves this host's name, which often fails in containers, and which yields a
        # loopback address on other systems.
        if interface := self._interface():
            os.environ.setdefault("GLOO_SOCKET_IFNAME", interface)
        # The NCCL backend warns of each send outside a batch. Its cost is known.
        os.environ.setdefault("TORCH_NCCL_SHOW_EAGER_INIT_P2P_SERIALIZATION_WARNING", "false")

    def make(self) -> None:
        """Creates the process group of all ranks, a collective call. Raises torch's errors."""
        job = self._rank.job
        timeout = datetime.timedelta(seconds=self.timeout_s)
        if self._store is None:
            self._store = self._meeting_place(timeout)
        self._made += 1
        store = self._dist.PrefixStore(f"group{self._made}", self._store)
        bound = {"device_id": self._device} if self._device.type != "cpu" else {}
        self._dist.init_process_group(
            self._backend,
            store=store,
            rank=job.rank,
            world_size=job.ranks,
            timeout=timeout,
            **bound,
        )

    def renew(self) -> None:
        """Destroys the group, whatever its state, and creates another."""
        self._dist.destroy_process_group()
        self.make()

    def close(self) -> None:
        """Destroys the group."""
        self._dist.destroy_process_group()

    def _interface(self) -> str | None:
        """The interface that other ranks can reach: between hosts, that of the control plane."""
        job = self._rank.job
        return interface_towards(_host_of(job.access.endpoint)) if job.hosts else "lo"

    def _meeting_place(self, timeout: datetime.timedelta) -> Any:
        """Torch's store on the interface of the control plane, at a port chosen by the system.

        Torch has no authentication: between hosts, any host that can reach the port can disturb the
        run.
        """
        job, key = self._rank.job, f"port of torch's store for {self._backend}"
        address = _host_of(job.access.endpoint)
        if job.rank == 0:
            # A socket created here, because torch would listen on every interface.
            listener = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
            listener.bind((address, 0))
            listener.listen()
            port = listener.getsockname()[1]
            store = self._dist.TCPStore(
                address,
                port,
                job.ranks,
                is_master=True,
                timeout=timeout,
                wait_for_workers=False,
                master_listen_fd=listener.detach(),
            )
            self._rank.client.put(key, str(port).encode())
            return store
        port = int(self._rank.client.get(key, job.settings.timeout_s))
        return self._dist.TCPStore(address, port, job.ranks, is_master=False, timeout=timeout)
