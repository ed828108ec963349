"""Orders to start several replicas again together; they are numbered, so all tasks read the same ones."""

from __future__ import annotations

import os
import time
from typing import Iterator, Mapping, cast  # noqa: UP035  (Python 3.7)

from torchx_core.schedulers.slurm.node.files import read_json, write_once


class Orders:
    """The orders of one run of the job, and how many of them one replica has read."""

    def __init__(self, directory: str, index: int, run: int) -> None:
        self._directory: str = directory
        self._index: int = index
        self._run: int = run
        self.read: int = 0
        self.together: list[int] = []
        """Who starts again with this replica, by the order that it has read last."""

    def obey(self) -> bool:
        """Return whether the next order that names this replica is there; each one is an attempt more.

        So that replicas which start again together agree on the number of their attempt.
        """
        for order in self._since(self.read):
            self.read += 1
            if self._names(order, self._index):
                self.together = _indices(order)
                return True
        return False

    def give(self, indices: list[int]) -> None:
        """Order some replicas, this one among them, to start again, unless this one has been ordered to.

        Of two who write the same number only one succeeds. The other reads that order, and takes the next
        number if it is not named there: otherwise its own peers would never hear of it.
        """
        order = {"indices": indices, "run": self._run, "time": time.time()}
        while not self.obey():
            write_once(self._path(self.read), order)

    def name(self, index: int, since: int) -> bool:
        """Return whether a replica that has read so many is still to start again."""
        return any(self._names(order, index) for order in self._since(since))

    def _names(self, order: Mapping[str, object], index: int) -> bool:
        return order["run"] == self._run and index in _indices(order)  # a requeue starts everybody anyway

    def _since(self, number: int) -> Iterator[Mapping[str, object]]:
        while True:
            order = read_json(self._path(number), run=int, indices=list)
            if order is None and not os.path.exists(self._path(number)):
                return
            yield order or {"run": -1, "indices": []}  # a damaged one is nobody's, and its number is taken
            number += 1

    def _path(self, number: int) -> str:
        return os.path.join(self._directory, f"restart.{number}.json")


def _indices(order: Mapping[str, object]) -> list[int]:
    return cast("list[int]", order["indices"])
