"""The attempts of one replica, each with a directory that all nodes share."""

from __future__ import annotations

import os
from functools import partial
from typing import Mapping, NamedTuple  # noqa: UP035  (Python 3.7)

from torchx_core.schedulers.slurm.node.files import patiently, read_json, refresh, write_once


class Attempt(NamedTuple):
    """One start of the replica; ``end`` is None when it has not ended, or nobody saw it."""

    number: int
    start: Mapping[str, object]
    end: Mapping[str, object] | None

    @property
    def succeeded(self) -> bool:
        """Whether its program has come to a good end by itself."""
        return self.end is not None and self.end["code"] == 0 and not self.end["told"]

    @property
    def failed(self) -> bool:
        """Whether its program has come to a bad end by itself."""
        return self.end is not None and self.end["code"] != 0 and not self.end["told"]


class Attempts:
    """The attempts of one replica, whichever task made them.

    An attempt is claimed by its ``start.json``, made by link: the number is one task's alone, and whoever
    dies before that has claimed nothing. The directory would not do: a task that dies in between, or an NFS
    server that answers twice, would leave an attempt that never begins.
    """

    def __init__(self, log_dir: str) -> None:
        self._log_dir: str = log_dir

    def folder(self, number: int) -> str:
        """Return the directory of an attempt."""
        return os.path.join(self._log_dir, str(number))

    def claim(self, start: Mapping[str, object]) -> int:
        """Begin an attempt; return its number, which another task may have made larger meanwhile."""
        number = self._count()
        while True:
            patiently(partial(os.makedirs, self.folder(number), 0o700, exist_ok=True))
            if write_once(self._path(number, "start"), start):
                return number
            number += 1

    def close(self, number: int, end: Mapping[str, object], *, patient: bool = True) -> None:
        """Write down how an attempt ended."""
        write_once(self._path(number, "end"), end, patient=patient)

    def begun(self) -> list[Attempt]:
        """Return what has begun, oldest first."""
        return [attempt for attempt in map(self._read, range(self._count())) if attempt is not None]

    def latest(self, run: int) -> Attempt | None:
        """Return the last that has begun in that run of the job; later ones may be of a task that lags."""
        for number in reversed(range(self._count())):
            attempt = self._read(number)
            if attempt is not None and attempt.start["run"] == run:
                return attempt
        return None

    def _count(self) -> int:
        refresh(self._log_dir)
        number = 0
        while os.path.exists(self._path(number, "start")):
            number += 1
        return number

    def _read(self, number: int) -> Attempt | None:
        refresh(self.folder(number))
        start = read_json(self._path(number, "start"), run=int)
        end = read_json(self._path(number, "end"), code=int, told=bool)
        return None if start is None else Attempt(number, start, end)

    def _path(self, number: int, name: str) -> str:
        return os.path.join(self.folder(number), f"{name}.json")
