"""torch.distributed on one rank: loading of backends, process groups and their errors."""

from __future__ import annotations

import ctypes
import datetime
import importlib
import os
import socket
import sys
import warnings
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import cclmark._engine as engine
from cclmark.journal.schema import LibraryDescription
from cclmark.rank.rank import Rank
from cclmark.rendezvous.interfaces import interface_towards, own_address_towards
from cclmark.work.libraries import OWN_MEMORY
from cclmark.work.torch_devices import TORCH_DEVICES, torch_runtimes

PLUG_INS = {
    # Importing the module registers the backend.
    "flagcx": "flagcx",
    "ccl": "oneccl_bindings_for_pytorch",
}
# Phrases of torch and its backends for unsupported operations, compared in lower case.
_CANNOT = (
    *("not support", "unsupported", "not implemented", "only implemented", "cannot use"),
    *("only available", "only support", "not available", "not yet", "no backend type"),
    *("must be contiguous", "invalid tensor size", "invalid scalar type", "can't be cast"),
)
_LONGEST = 300
PATIENCE_S = 60.0  # torch's timeout exceeds the deadline of a phase by this time


def load_torch(backend: str, modules: Sequence[str], runtime: str = "") -> Any:
    """Imports torch and plug-ins of ``runtime`` and ``backend``, if any. Raises MissingError."""
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
    except RuntimeError as error:  # torch imports installed plug-ins of devices by itself
        raise engine.MissingError(f"torch cannot be imported: {one_line(error)}") from None
    if not dist.is_available():
        raise engine.MissingError(f"torch {torch.__version__} was built without torch.distributed")
    if runtime:
        _add_devices(torch, runtime)
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
            f"torch {torch.__version__} has no backend {backend}, only {known}: "
            + _provider_of(backend, runtime)
        )
    return torch


def _add_devices(torch: Any, runtime: str) -> None:
    """Imports the plug-in that adds devices of ``runtime`` to torch. Raises MissingError."""
    known, version = TORCH_DEVICES[runtime], torch.__version__
    plug_in = known.plug_in
    if known.may_have and find_spec(known.may_have) is not None:
        plug_in = known.may_have
    try:
        if plug_in:
            importlib.import_module(plug_in)
    except Exception as error:  # a plug-in may fail in any way while it is imported
        if isinstance(error, ModuleNotFoundError) and error.name == plug_in:
            raise engine.MissingError(
                f"torch requires {plug_in} for {runtime} devices, which is not installed: install "
                f"its release for torch {version} beside torch"
            ) from None
        raise engine.MissingError(
            f"torch {version} cannot import {plug_in}, which {runtime} devices require "
            f"({type(error).__name__}: {one_line(error)}): install its release for this torch"
        ) from None
    if known.type == "cpu":
        return
    module = getattr(torch, known.type, None)
    if module is None or not module.is_available():
        found = f"torch {version}" + (f" with {plug_in}" if plug_in else "")
        raise engine.MissingError(
            f"{found} has no {known.type} devices, as torch calls {runtime} devices"
            + (f": install a torch {known.build}" if known.build else "")
        )


def backends_of(torch: Any) -> list[str]:
    """The names of the backends that this torch has."""
    dist = torch.distributed
    return sorted(name for name in built_in_names(torch) if dist.is_backend_available(name))


def _provider_of(backend: str, runtime: str) -> str:
    """What has to be installed or loaded for a backend that torch does not have."""
    plug_ins = [TORCH_DEVICES[one].plug_in for one in torch_runtimes(backend)]
    if any(plug_ins) and runtime not in torch_runtimes(backend):
        return f"{' and '.join(plug_ins)} provides it, for {torch_runtimes(backend)[0]} devices"
    if any(plug_ins):
        return (
            f"this build of {' and '.join(plug_ins)} is without it: install one with "
            f"{backend.upper()}"
        )
    return "if a plug-in provides it, load its module with --import MODULE"


def built_in_names(torch: Any) -> set[str]:
    """The names of torch's backends, including those that this torch was built without."""
    return {*torch.distributed.Backend.backend_list} - {"undefined", "fake"}


def describe_backend(torch: Any, backend: str, runtime: str) -> LibraryDescription:
    """The description of the loaded backend on devices of ``runtime`` for the header."""
    version = str(torch.__version__)
    device = TORCH_DEVICES[runtime]
    if plug_in := sys.modules.get(device.plug_in):
        version += f", {device.plug_in} {getattr(plug_in, '__version__', '')}".rstrip()
    if backend == "nccl":
        version += " with NCCL " + ".".join(map(str, torch.cuda.nccl.version()))
    path = os.path.dirname(str(torch.__file__))  # noqa: PTH120 - as torch gives it
    if backend == "nccl":
        path = _file_behind("libnccl.so.2", "ncclGetVersion") or path
    capabilities = [] if device.shares_memory else [OWN_MEMORY]
    return LibraryDescription(f"torch:{backend}", version, path, capabilities)


def _file_behind(name: str, symbol: str) -> str:
    """The first loaded file of this ``name``, which programs use; empty if there is none."""
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
    """Sets and returns torch's device for one of the engine. Raises MissingError."""
    kind = TORCH_DEVICES[runtime].type
    if kind == "cpu":
        torch.set_num_threads(1)
        return torch.device("cpu")
    device = torch.device(kind, index)
    module = module_of(torch, device)
    if index >= module.device_count():
        raise engine.MissingError(
            f"torch has {module.device_count()} {kind} devices, but {runtime}:{index} is requested"
        )
    module.set_device(device)
    return device


def module_of(torch: Any, device: Any) -> Any:
    """Torch's module for the type of a device: torch.cuda, torch.npu, …; None for the host."""
    return None if device.type == "cpu" else getattr(torch, device.type)


def synchronize(torch: Any, device: Any) -> None:
    """Waits for all work on a device."""
    if module := module_of(torch, device):
        module.synchronize(device)


def cannot(error: Exception) -> bool:
    """Whether an error of torch reports an unsupported operation and not a failure."""
    text = one_line(error).lower()
    return isinstance(error, NotImplementedError) or any(words in text for words in _CANNOT)


def one_line(error: Exception) -> str:
    """The message of an error of torch, shortened for a table."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _options_of_nccl(torch: Any, given: Mapping[str, str]) -> Any:
    """The options of a process group. Raises MissingError for a name that this torch lacks."""
    options = torch.distributed.ProcessGroupNCCL.Options()
    own = {one.replace("_", "").lower(): one for one in dir(options.config) if one[0] != "_"}
    if lacking := [name for name in given if name.lower() not in own]:
        has = f"has no option {lacking[0]} of communicators, only {', '.join(own.values())}"
        raise engine.MissingError(
            f"torch {torch.__version__} {has}: leave it out, or use --ccl nccl"
        )
    for name, value in given.items():
        setattr(options.config, own[name.lower()], int(value) if value.isdecimal() else value)
    return options


class ProcessGroup:
    """The default process group of a run, which can be recreated after a failed operation.

    ``timeout_s``: the timeout of operations of torch. ``rank``, ``size``: in the last group.
    ``options``: of NCCL's communicator, by the names of ncclConfig_t.
    """

    def __init__(self, rank: Rank, torch: Any, backend: str, device: Any, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self.options: Mapping[str, str] = rank.job.settings.config
        self._rank = rank
        self.rank, self.size = rank.job.rank, rank.job.ranks
        self._torch, self._dist = torch, torch.distributed
        self._backend, self._device = backend, device
        self._made = 0
        self._store: Any = None
        # Gloo resolves this host's name, which often fails in containers, and which yields a
        # loopback address on other systems.
        if interface := self._interface():
            os.environ.setdefault("GLOO_SOCKET_IFNAME", interface)
        # The NCCL backend warns of each send outside a batch. Its cost is known.
        os.environ.setdefault("TORCH_NCCL_SHOW_EAGER_INIT_P2P_SERIALIZATION_WARNING", "false")

    def connect(self) -> None:
        """Connects all ranks with torch's store, a collective call."""
        if self._store is None:
            self._store = self._meeting_place(datetime.timedelta(seconds=self.timeout_s))

    def make(self, members: Sequence[int] = (), name: str = "") -> None:
        """Creates the process group of all ranks, a collective call. Raises torch's errors.

        ``members``: some of the ranks, which alone call it, with a new ``name``, after ``connect``.
        """
        job = self._rank.job
        self.rank = members.index(job.rank) if members else job.rank
        self.size = len(members) or job.ranks
        timeout = datetime.timedelta(seconds=self.timeout_s)
        self.connect()
        self._made += 1
        store = self._dist.PrefixStore(name or f"group{self._made}", self._store)
        bound = {"device_id": self._device} if self._device.type != "cpu" else {}
        if self.options:
            bound["pg_options"] = _options_of_nccl(self._torch, self.options)
            bound["pg_options"]._timeout = timeout  # torch warns of another one
        placed = {"store": store, "rank": self.rank, "world_size": self.size}
        self._dist.init_process_group(self._backend, timeout=timeout, **placed, **bound)

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
        job, key = self._rank.job, f"address of torch's store for {self._backend}"
        if job.rank == 0:
            # The first rank may be of another host than the control plane, after a loss.
            address = own_address_towards(_host_of(job.access.endpoint))
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
            self._rank.client.put(key, f"{port} {address}".encode())
            return store
        told = self._rank.client.get(key, job.settings.timeout_s).decode()
        number, _, address = told.partition(" ")
        return self._dist.TCPStore(address, int(number), job.ranks, timeout=timeout)
