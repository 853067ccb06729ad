"""The number of examples of properties."""

_share = 1


def leave_out(share: int) -> None:
    """Sets that of ``share`` examples one is tried."""
    global _share  # noqa: PLW0603
    _share = share


def examples(most: int) -> int:
    """How many examples a property is tried with, of ``most`` with --all."""
    return max(10, most // _share)
