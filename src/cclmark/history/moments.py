"""Times of day as the history keeps them: UTC, ISO 8601, so that their order is that of time."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from cclmark.errors import UsageError


def stored_moment(text: str) -> str:
    """A journal's time as it is kept. Raises ValueError for what is none."""
    return _kept(datetime.fromisoformat(text.replace("Z", "+00:00")))


def now() -> str:
    """This moment as it is kept."""
    return _kept(datetime.now(timezone.utc))


def moment(text: str, *, after: bool = False) -> str:
    """A day or a time that a user gives, UTC unless it says another zone.

    ``after``: the first moment behind a day, or behind a time, instead of its first. Raises
    UsageError.
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
    """Raises ValueError for a time that is not within the years 1 to 9999 of UTC."""
    if time.tzinfo is None:
        time = time.replace(tzinfo=timezone.utc)
    try:
        universal = time.astimezone(timezone.utc)
    except OverflowError:
        raise ValueError("beyond the calendar") from None
    return universal.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"
