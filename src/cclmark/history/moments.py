"""Times as the history stores them: UTC in ISO 8601, so that texts sort in the order of time."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from cclmark.errors import UsageError


def stored_moment(text: str) -> str:
    """A journal's time as it is stored. Raises ValueError for an invalid time."""
    return _kept(datetime.fromisoformat(text.replace("Z", "+00:00")))


def now() -> str:
    """The current time as it is stored."""
    return _kept(datetime.now(timezone.utc))


def moment(text: str, *, after: bool = False) -> str:
    """The first moment of a day or a time that a user writes, in UTC unless it contains a zone.

    ``after``: the first moment after the day or the time instead. Raises UsageError.
    """
    try:
        read = datetime.fromisoformat(text.strip().replace("Z", "+00:00"))
        if after:
            whole_day = len(text.strip()) <= len("2026-11-01")
            read += timedelta(days=1) if whole_day else timedelta(milliseconds=1)
        return _kept(read)
    except (ValueError, OverflowError):
        raise UsageError(
            f"cannot read the time {text!r}: write 2026-11-01 or 2026-11-01T08:30 (UTC)"
        ) from None


def _kept(time: datetime) -> str:
    """A time as it is stored. Raises ValueError for a time outside the years 1 to 9999 in UTC."""
    if time.tzinfo is None:
        time = time.replace(tzinfo=timezone.utc)
    try:
        universal = time.astimezone(timezone.utc)
    except OverflowError:
        raise ValueError("beyond the calendar") from None
    return universal.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"
