"""Knowing that processes run, from themselves: each writes one byte into a pipe."""

from __future__ import annotations

import os
import select
from pathlib import Path
from types import TracebackType
from typing import Self

from benchmarks.clock import monotonic

_TIMEOUT_S = 100.0


class UpPipe:
    """The pipe; its reading end is open from the start, so that no writer waits."""

    def __init__(self, folder: Path) -> None:
        """Make the pipe."""
        self.path = folder / "up"
        os.mkfifo(self.path)
        self._fd = os.open(self.path, os.O_RDWR | os.O_NONBLOCK)

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        """Remove the pipe."""
        os.close(self._fd)
        self.path.unlink()

    def wait_for(self, count: int) -> None:
        """Return when that many have written.

        Raises:
            TimeoutError: They did not.
        """
        deadline = monotonic() + _TIMEOUT_S
        while count > 0:
            ready, _, _ = select.select([self._fd], [], [], max(0.0, deadline - monotonic()))
            if not ready:
                raise TimeoutError(f"{count} processes did not come up")
            count -= len(os.read(self._fd, 4096))
