"""Follows a log file by its path, as TorchX's local scheduler does."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Protocol

from torchx_core.schedulers.responses import DescribeAppResponse
from torchx_core.specs import is_terminal

__all__ = ["LogIterator"]

_PAUSE_S = 0.1
_CHUNK = 1 << 16


class _Describes(Protocol):
    def describe(self, app_id: str) -> DescribeAppResponse | None: ...


class LogIterator:
    """Yields the text of a file as it is written, in pieces, until the app is terminal.

    Of TorchX. It looks ten times a second, and knows one attempt's file: `Scheduler.log_iter` knows all
    attempts, and yields whole lines as they come.
    """

    def __init__(
        self,
        app_id: str,
        log_file: str,
        scheduler: _Describes,
        should_tail: bool = True,  # noqa: FBT001, FBT002  # TorchX's
    ) -> None:
        """Open nothing yet.

        Args:
            app_id: The app that writes the file.
            log_file: Its path; it need not be there yet.
            scheduler: Says how the app is doing.
            should_tail: Go on until the app is terminal; otherwise end where the file ends.
        """
        self._app_id = app_id
        self._log_file = log_file
        self._scheduler = scheduler
        self._should_tail = should_tail
        self._pieces = self._read()

    def __iter__(self) -> LogIterator:
        """Begin at the start of the file."""
        self._pieces = self._read()
        return self

    def __next__(self) -> str:
        """Return the next piece.

        Raises:
            FileNotFoundError: The app is terminal, and there is no such file.
        """
        return next(self._pieces)

    def _read(self) -> Iterator[str]:
        over = self._is_over()
        while not over and not self._is_there():
            time.sleep(_PAUSE_S)  # noqa: TID251  # a path in place of a feed: nothing tells of a change
            over = self._is_over()
        with open(self._log_file, newline="\n", errors="replace") as file:
            while True:
                while piece := file.read(_CHUNK):
                    yield piece
                if over:
                    return
                time.sleep(_PAUSE_S)  # noqa: TID251  # the same
                over = self._is_over()  # asked before the last read, so that this one has all

    def _is_over(self) -> bool:
        if not self._should_tail:
            return True
        described = self._scheduler.describe(self._app_id)
        return described is None or is_terminal(described.state)

    def _is_there(self) -> bool:
        try:
            open(self._log_file).close()
        except FileNotFoundError:
            return False
        return True
