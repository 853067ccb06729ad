"""What NCCL and RCCL log, wherever in a line of nccl-tests their process was when it did."""

from __future__ import annotations

import re
from collections.abc import Iterable

# Both begin with what is rare in a line, so that a long one costs no more than its length. Before
# the first stands the host's name.
_LOG = re.compile(
    r":\d{1,10}:\d{1,10} \[\d{1,5}\] [NR]CCL |\b[NR]CCL (?:INFO|WARN|TRACE)\b", re.ASCII
)
_HOST = re.compile(r"[\w.-]*\Z")
_LONGEST_HOST = 255


def without_noise(text: str, hosts: Iterable[str]) -> str:
    """``text`` up to what the library logged behind it, be it without a blank between.

    ``hosts``: names that are known, of which one may be glued to a row's last figure.
    """
    found = _LOG.search(text)
    if found is None:
        return text
    before = text[: found.start()]
    if text[found.start()] != ":":
        return before
    host = _HOST.search(before[-_LONGEST_HOST:])
    assert host is not None  # it may be empty
    glued = next((name for name in hosts if name and host[0].endswith(name)), host[0])
    return before[: len(before) - len(glued)]
