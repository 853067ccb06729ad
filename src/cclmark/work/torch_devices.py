"""How torch uses the devices of each runtime, as one table.

``torch.TYPE`` (``torch.cuda``, ``torch.npu``, …) is the module of the devices. Vendors either build
torch so that it uses their devices under the name ``cuda``, or ship a plug-in that adds a type.
"""

from __future__ import annotations

from dataclasses import dataclass

from cclmark.base.errors import UsageError
from cclmark.work.libraries import library_called


@dataclass(frozen=True)
class TorchDevice:
    """The devices of a runtime in torch.

    ``type``: their torch.device. ``backend``: their usual one of torch.distributed, empty if it is
    unknown. ``plug_in``: the module that adds them to torch, empty if a build of torch has them:
    ``build`` describes it. ``may_have``: a module that adds some of them to such a build.
    ``shares_memory``: whether torch works on the engine's buffers and streams; else the engine
    works on buffers of torch, and torch on a separate stream.
    """

    type: str
    backend: str
    plug_in: str = ""
    build: str = ""
    may_have: str = ""
    shares_memory: bool = False


#: By runtime.
TORCH_DEVICES = {
    "host": TorchDevice("cpu", "gloo", shares_memory=True),
    "cuda": TorchDevice("cuda", "nccl", build="for CUDA", shares_memory=True),
    "acl": TorchDevice("npu", "hccl", plug_in="torch_npu"),
    "hip": TorchDevice("cuda", "nccl", build="for ROCm"),
    "maca": TorchDevice("cuda", "nccl", build="of MetaX"),
    "musa": TorchDevice("musa", "mccl", plug_in="torch_musa"),
    "tops": TorchDevice("gcu", "eccl", plug_in="torch_gcu"),
    "cudart": TorchDevice(
        *("cuda", "nccl"),
        build="of the devices' vendor",
        may_have="torch_xmlir",  # Kunlunxin's
    ),
    "cnrt": TorchDevice("mlu", "cncl", plug_in="torch_mlu"),
    "tang": TorchDevice("ptpu", "", plug_in="torch_ptpu"),
}


def torch_runtimes(backend: str) -> list[str]:
    """The runtimes whose devices a torch backend is made for, empty for one of any devices."""
    usual = [runtime for runtime, device in TORCH_DEVICES.items() if device.backend == backend]
    library = library_called(f"torch:{backend}")
    return usual or (library.devices if library is not None else [])


def supports(backend: str, runtime: str) -> bool:
    """Whether a torch backend may support devices of ``runtime``."""
    device, others = TORCH_DEVICES[runtime], [one.backend for one in TORCH_DEVICES.values()]
    # Gloo copies tensors of CUDA devices to the host.
    return backend in (device.backend, *(["gloo"] if device.type == "cuda" else [])) or (
        backend not in others
    )


def require_support(name: str, backend: str, runtime: str) -> None:
    """Raises UsageError for devices that a backend, called ``name``, does not support."""
    if not supports(backend, runtime):
        raise UsageError(
            f"{name} supports {' and '.join(torch_runtimes(backend))} devices, not {runtime} "
            "devices: see --devices"
        )


def usual_backend(runtime: str, option: str) -> str:
    """The torch backend of devices without ``option``. Raises UsageError if it is unknown."""
    backend = TORCH_DEVICES[runtime].backend
    if not backend:
        raise UsageError(
            f"torch's backend for {runtime} devices is not known: choose one with {option}"
        )
    return backend
