"""Reads the list of ranks above a table of nccl-tests: their number, and whether it is complete."""

from __future__ import annotations

from cclmark.importing.cleaned_text import Text
from cclmark.importing.run import RankCount
from cclmark.results.schema import DeviceDescription


class RankList:
    """Reads the list line by line; it must begin with rank 0 and contain every rank once."""

    def __init__(self) -> None:
        self._devices: dict[int, tuple[str, DeviceDescription]] = {}  # by rank, with the group
        self._line = 0
        self._shortened = False  # by an ellipsis at its end
        self._ellipsis = False  # between two ranks

    @property
    def groups(self) -> int:
        """The number of communicators."""
        return len({group for group, _ in self._devices.values()})

    def add(self, text: Text, line: int, group: str, device: DeviceDescription) -> bool:
        """Adds the rank on ``line``; returns whether it is new.

        Raises UsageError for a rank that is too large, or was listed before with another device.
        """
        text.ranks(line, str(device.rank + 1))
        known = self._devices.get(device.rank)
        if known == (group, device):
            return False
        if known is not None:
            raise text.refuse(
                line,
                f"rank {device.rank} is listed twice, with different devices: the list is damaged, "
                "or of several runs. Correct it, or split the text and import the parts one by one",
            )
        self._line = self._line or line
        self._ellipsis = self._ellipsis or self._shortened
        self._shortened = False
        self._devices[device.rank] = (group, device)
        return True

    def shorten(self) -> None:
        """Notes an ellipsis in place of the following ranks."""
        self._shortened = bool(self._devices)

    def count(self, ranks_per_process: int) -> RankCount | None:
        """The number of ranks of a communicator, the largest of several; None without a list.

        ``ranks_per_process``: the number of ranks must be a multiple of it.
        """
        if not self._devices:
            return None
        total = 1 + max(self._devices)
        missing = [rank for rank in range(total) if rank not in self._devices]
        sizes: dict[str, int] = {}
        for group, _ in self._devices.values():
            sizes[group] = sizes.get(group, 0) + 1
        number = total if len(sizes) == 1 else max(sizes.values())
        if self._shortened:
            return RankCount(number, self._line, "is shortened")
        if missing and (len(sizes) > 1 or not self._ellipsis):
            more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
            return RankCount(number, self._line, f"does not contain rank {missing[0]}{more}")
        if total % ranks_per_process:
            return RankCount(
                number,
                self._line,
                f"ends with rank {total - 1}, but each process has {ranks_per_process} ranks",
            )
        return RankCount(number, self._line)
