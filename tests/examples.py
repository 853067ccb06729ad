"""How many examples of properties are tried, and which cases of products."""

import pytest

_share = 1


def leave_out(share: int) -> None:
    """Sets that of ``share`` examples one is tried."""
    global _share  # noqa: PLW0603
    _share = share


def examples(most: int) -> int:
    """How many examples a property is tried with, of ``most`` with --all."""
    return max(10, most // _share)


def exhaustive(*values: object) -> object:
    """A case of a parametrised test that is tried with --all only."""
    return pytest.param(*values, marks=pytest.mark.exhaustive)
