"""The noise of machines in the history of the user, also where SQLAlchemy is not installed."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

from cclmark.analysis.run_noise import OwnNoise, OwnNoiseOf
from cclmark.base.errors import CclmarkError, without_package
from cclmark.history.history_model import HISTORY_VARIABLE, NoHistoryError, default_path
from cclmark.history.run_rows import machine_of, method_of
from cclmark.journal.schema import Header

if TYPE_CHECKING:
    from cclmark.history.store import History


def noise_of_machines(notice: Callable[[str], None]) -> OwnNoiseOf:
    """Returns the noise of the machines of runs by the user's history, which is not changed.

    The history is that of CCLMARK_HISTORY, else of the data home; it is opened when it is first
    needed, and read once for each machine with a method. After an error it is not read again:
    ``notice`` receives why an existing history cannot be read.
    """

    @cache
    def opened() -> History:
        place = os.environ.get(HISTORY_VARIABLE)
        if place is None and not default_path().exists():
            raise NoHistoryError("this user has no history")
        try:
            from cclmark.history.store import History  # SQLAlchemy may not be installed
        except ModuleNotFoundError as error:
            raise without_package(error) from None
        return History(place or str(default_path()), read_only=True)

    known: dict[tuple[str, str], OwnNoise] = {}
    is_readable = True

    def own_noise(header: Header) -> OwnNoise:
        nonlocal is_readable
        key = machine_of(header, header.run_id), method_of(header)
        if key not in known and is_readable:
            try:
                known[key] = opened().own_noise(header)
            except CclmarkError as error:
                is_readable = False
                if not isinstance(error, NoHistoryError):
                    notice(f"the noise of this machine in its history is not used: {error}")
        return known.get(key, {})

    return own_noise
