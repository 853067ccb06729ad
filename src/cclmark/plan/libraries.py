"""Names of collective libraries, as ``--ccl`` takes them."""

from __future__ import annotations

_TORCH = "torch:"
_USUAL_RUNTIME = {"nccl": "cuda", "gloo": "host", "mpi": "host"}


def torch_backend_of(name: str) -> str | None:
    """The backend of torch.distributed in ``torch:BACKEND``, None for a library of the engine's."""
    return name.removeprefix(_TORCH) if name.startswith(_TORCH) else None


def usual_runtime(backend: str) -> str | None:
    """Whose devices a backend of torch's is used with, None for one that this does not know."""
    return _USUAL_RUNTIME.get(backend)


def in_place_only(ccl: str, operation: str) -> bool:
    """Whether the library's function for the operation has no output of its own."""
    if ccl == "mpi":
        return operation == "broadcast"
    return torch_backend_of(ccl) is not None and operation in ("all_reduce", "broadcast", "reduce")
