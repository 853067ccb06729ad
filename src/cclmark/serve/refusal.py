"""The error for a request that cannot be answered."""

from __future__ import annotations


class RefusalError(Exception):
    """A response with ``status`` and a sentence with the action to take."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
