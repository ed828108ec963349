"""Finds, in a log that is read again, the place where the last reading ended."""

from __future__ import annotations

from collections.abc import Iterable

from torchx_core.schedulers.docker.frames import Record
from torchx_core.schedulers.docker.lines import StreamPlace

__all__ = ["Seek"]


class Seek:
    """Lets the records of one stream through that follow its place.

    The place is a record, told by its stamp, and the order is the log's, not the clock's: a clock that was
    set back makes stamps that decrease, and nothing is lost or repeated by it.
    """

    def __init__(self, place: StreamPlace, since: bytes) -> None:
        """Look for the place among records with stamps from `since` on.

        A place before that needs no looking for: everything that comes follows it.
        """
        self._place = place
        self._seen = 0
        self._skipped: list[Record] = []
        self.expected: bool = bool(place.stamp) and place.stamp >= since
        """Whether the place's record should be there."""
        self.found: bool = False

    def take(self, records: Iterable[Record]) -> list[Record]:
        """Return those of the records that follow the place."""
        if not self.expected or self.found:
            return list(records)
        through: list[Record] = []
        for record in records:
            if self.found:
                through.append(record)
                continue
            self._skipped.append(record)
            self._seen += record.stamp == self._place.stamp
            self.found = self._seen == self._place.seen
        if self.found:
            self._skipped = []
        return through

    def give_up(self) -> list[Record]:
        """Return what was skipped: the place's record is gone, so all that is there was written after it."""
        skipped, self._skipped = self._skipped, []
        return skipped
