"""The supported device runtimes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class AcceleratorRuntime:
    """A runtime of accelerators, and what indicates that a machine has its devices.

    ``nodes``: by vendor, the names of the device nodes below ``/dev``, as a pattern.
    ``library_variable``: the environment variable with the path of its library.
    ``visible_variables``: the environment variables that select the visible devices.
    ``may_be``: another runtime that drives the same devices if it works.
    """

    name: str
    nodes: Mapping[str, str]
    library_variable: str
    visible_variables: tuple[str, ...]
    may_be: str = ""


_CUDA_VISIBLE = "CUDA_VISIBLE_DEVICES"

# In the order in which they are probed if no runtime is named.
ACCELERATOR_RUNTIMES = {
    runtime.name: runtime
    for runtime in (
        AcceleratorRuntime(
            "cuda", {"NVIDIA": "nvidia[0-9]*"}, "CCLMARK_CUDA_LIBRARY", (_CUDA_VISIBLE,)
        ),
        AcceleratorRuntime(
            "acl",
            {"Ascend": "davinci[0-9]*"},
            "CCLMARK_ASCENDCL_LIBRARY",
            ("ASCEND_RT_VISIBLE_DEVICES",),
        ),
        AcceleratorRuntime(
            "hip",
            {"AMD": "kfd"},
            "CCLMARK_HIP_LIBRARY",
            ("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", _CUDA_VISIBLE),
        ),
        AcceleratorRuntime(
            "maca",
            {"MetaX": "mxcd*"},
            "CCLMARK_MACA_LIBRARY",
            ("MACA_VISIBLE_DEVICES", _CUDA_VISIBLE),
        ),
        AcceleratorRuntime(
            "musa",
            {"Moore Threads": "mtgpu*"},
            "CCLMARK_MUSA_LIBRARY",
            ("MUSA_VISIBLE_DEVICES",),
        ),
        AcceleratorRuntime(
            "tops", {"Enflame": "gcu[0-9]*"}, "CCLMARK_TOPS_LIBRARY", ("TOPS_VISIBLE_DEVICES",)
        ),
        AcceleratorRuntime(
            "cudart",
            {
                "Iluvatar": "iluvatar[0-9]*",
                "T-Head": "alixpu_ppu[0-9]*",
                "Kunlunxin": "xpu[0-9]*",
                "Hygon": "mkfd",
            },
            "CCLMARK_CUDART_LIBRARY",
            (_CUDA_VISIBLE,),
            may_be="cuda",  # NVIDIA's libcudart
        ),
        AcceleratorRuntime(
            "cnrt",
            {"Cambricon": "cambricon_dev[0-9]*"},
            "CCLMARK_CNRT_LIBRARY",
            ("MLU_VISIBLE_DEVICES",),
        ),
        AcceleratorRuntime(
            "tang", {"Sunrise": "ptpu[0-9]*"}, "CCLMARK_TANG_LIBRARY", ("TANG_VISIBLE_DEVICES",)
        ),
    )
}

RUNTIMES = (*ACCELERATOR_RUNTIMES, "host")
