"""The supported device runtimes."""

from __future__ import annotations

RUNTIMES = ("cuda", "acl", "hip", "maca", "musa", "tops", "cudart", "cnrt", "tang", "host")
