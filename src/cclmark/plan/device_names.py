"""Names of devices: which of them are of one kind."""

from __future__ import annotations

import re

UNKNOWN = "unknown"  # of a device that a source does not tell: it is like no other

_BETWEEN = re.compile(r"[\s\-_/,()+]+")
# What a name may say besides its model. Form factors whose links differ (PCIe, NVL) are no noise.
_NOISE = re.compile(
    r"NVIDIA|AMD|INTEL|HUAWEI|METAX|MUXI|KUNLUNXIN|KUNLUN|MOORE|THREADS|CAMBRICON|GEFORCE|TESLA"
    r"|INSTINCT|(HG|DG)X|SXM\d?|OAM|\d+(GB|GIB|G)|HBM\d?E?|GPU|TENSOR|CORE|ACCELERATOR"
)


def kind_of(name: str) -> str:
    """The model of a device, so that names of one kind are equal: ``NVIDIA H200 141GB`` is H200.

    Maker, memory and the SXM or OAM form are left out; everything else counts: an H20 is no H200,
    an A800 no A100, an ``H100 PCIe`` or ``H100 NVL`` no H100, a MIG instance no whole device.
    """
    words = [word for word in _BETWEEN.split(name.upper()) if word]
    model = " ".join(word for word in words if not _NOISE.fullmatch(word))
    kind = model or " ".join(words)
    return kind if is_known(kind) else UNKNOWN


def is_known(kind: str) -> bool:
    """Whether ``kind`` says what device it is."""
    return kind.lower() not in ("", UNKNOWN)
