"""Device names and the device models that they denote."""

from __future__ import annotations

import re

UNKNOWN = "unknown"  # the model of a device without a reported name: it equals no other model

_BETWEEN = re.compile(r"[\s\-_/,()+]+")
# Parts of a name other than the model, also of Intel(R). Form factors with different links (PCIe,
# NVL) are kept.
_NOISE = re.compile(
    r"NVIDIA|AMD|INTEL|HUAWEI|METAX|MUXI|KUNLUNXIN|KUNLUN|MOORE|THREADS|CAMBRICON|GEFORCE|TESLA"
    r"|INSTINCT|R|TM|(HG|DG)X|SXM\d?|OAM|\d+(GB|GIB|G)|HBM\d?E?|GPU|TENSOR|CORE|ACCELERATOR"
)


def kind_of(name: str) -> str:
    """The model of a device, equal for all names of that model: ``NVIDIA H200 141GB`` is H200.

    Vendor, memory size and the SXM or OAM form factor are removed. Everything else distinguishes
    models: H20 from H200, A800 from A100, ``H100 PCIe`` and ``H100 NVL`` from H100, and a MIG
    instance from a whole device.
    """
    words = [word for word in _BETWEEN.split(name.upper()) if word]
    model = " ".join(word for word in words if not _NOISE.fullmatch(word))
    kind = model or " ".join(words)
    return kind if is_known(kind) else UNKNOWN


def is_known(kind: str) -> bool:
    """Whether ``kind`` identifies a device model."""
    return kind.lower() not in ("", UNKNOWN)
