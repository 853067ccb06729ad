"""Names of collective libraries, as ``--ccl`` takes them."""

from __future__ import annotations

from cclmark.errors import UsageError

BRIDGE = "bridge"
_TORCH = "torch:"
_THROUGH_FAKE = "measured through a fake, never on hardware"
# On what each was tried, in the words of docs/reference/libraries.md.
VERIFIED = {
    "nccl": "measured on hardware: 4 × H200 with NCCL 2.28.9; 2.18 through a fake",
    "flagcx": "measured on hardware: 2 and 4 × H200 with FlagCX 0.13, 2 × H200 with 0.4; "
    "other vendors' builds not",
    "hccl": "measured through a fake; on no hardware yet",
    "shm": "measured on hardware: hosts, x86-64",
    "mpi": "measured on hardware: hosts with Open MPI 4.1 and 5.0, MPICH 5.0, standard ABI; "
    "2 and 4 × H200 with Open MPI 4.1 built for CUDA; other MPIs not",
    "rccl": _THROUGH_FAKE,
    "maca-mccl": _THROUGH_FAKE,
    "musa-mccl": _THROUGH_FAKE,
    "eccl": _THROUGH_FAKE,
    "ixccl": _THROUGH_FAKE,
    "duccl": _THROUGH_FAKE,
    "pccl": _THROUGH_FAKE,
    "cncl": _THROUGH_FAKE,
    "oneccl": "measured on hardware: hosts, x86-64, with oneCCL 2022.2",
    BRIDGE: "measured on hardware: 2 and 4 × H200, hosts, one beside the other, two sets of "
    "namespaces; mixed vendors through a fake",
    "torch:gloo": "measured on hardware: hosts with torch 2.13",
    "torch:nccl": "measured on hardware: 4 × H200 with torch 2.11",
}
# Libraries whose interface was not found in public: what is taken for granted of each.
ASSUMED = {
    "sunrise-pccl": "that it numbers element types and reductions as NCCL does, that an id has "
    "128 bytes",
    "bkcl": "the numbers of its element types and reductions (in the order in which programs name "
    "them), that an id has at most 4096 bytes, that its functions have C's names",
}
# Libraries that have NCCL's functions and file names and no symbol that identifies the vendor.
UNIDENTIFIED = frozenset({"ixccl", "duccl", "pccl"})
# Names that several vendors gave to their libraries, by the runtime that tells which is meant.
_SHARED_NAMES = {"mccl": {"maca": "maca-mccl", "musa": "musa-mccl"}}
_TORCH_RUNTIMES = ("cuda", "host")
_USUAL_RUNTIME = {"nccl": "cuda", "gloo": "host", "mpi": "host"}


def verified(name: str) -> str:
    """On what the library was tried, and what is assumed of one of which too little is known."""
    if name in ASSUMED:
        return f"unverified: assumed is {ASSUMED[name]}"
    return VERIFIED.get(name, "unverified")


def torch_backend_of(name: str) -> str | None:
    """The backend of torch.distributed in ``torch:BACKEND``, None for a library of the engine's."""
    return name.removeprefix(_TORCH) if name.startswith(_TORCH) else None


def meant_by(name: str, runtime: str) -> str:
    """The library that ``name`` means on devices of ``runtime``: vendors share some names."""
    return _SHARED_NAMES.get(name, {}).get(runtime, name)


def owners_of(name: str) -> dict[str, str]:
    """The libraries that go by a name which several vendors gave theirs, by runtime."""
    return _SHARED_NAMES.get(name, {})


def usual_runtime(backend: str) -> str | None:
    """Whose devices a backend of torch's is used with, None for one that this does not know."""
    return _USUAL_RUNTIME.get(backend)


def require_torch_devices(runtime: str) -> None:
    """Raises UsageError for devices whose memory this makes no tensors of."""
    if runtime not in _TORCH_RUNTIMES:
        known = " or ".join(_TORCH_RUNTIMES)
        raise UsageError(
            f"torch.distributed is used on devices of {known} only, not yet on {runtime}: "
            "see --devices"
        )


def in_place_only(ccl: str, operation: str) -> bool:
    """Whether the library's function for the operation has no output of its own."""
    if ccl in ("mpi", "hccl"):
        return operation == "broadcast"
    return torch_backend_of(ccl) is not None and operation in ("all_reduce", "broadcast", "reduce")
