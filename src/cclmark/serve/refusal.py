"""What a page answers instead of what was asked for."""

from __future__ import annotations


class RefusalError(Exception):
    """An answer with ``status`` and a sentence that says what to do."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
