"""Removes log output of NCCL and RCCL, which may begin anywhere in a line of nccl-tests."""

from __future__ import annotations

import re
from collections.abc import Iterable

# Both begin with characters that are rare in a line, so that the search stays linear. The host's
# name precedes the first.
_LOG = re.compile(
    r":\d{1,10}:\d{1,10} \[\d{1,5}\] [NR]CCL |\b[NR]CCL (?:INFO|WARN|TRACE)\b", re.ASCII
)
_HOST = re.compile(r"[\w.-]*\Z")
_LONGEST_HOST = 255


def without_noise(text: str, hosts: Iterable[str]) -> str:
    """Returns ``text`` without the library's log output after it, which may follow without a blank.

    ``hosts``: known names, one of which may directly follow a row's last figure.
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
