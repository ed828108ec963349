"""Copies files into one while they grow, as TorchX's schedulers do; ours need none of it."""

from __future__ import annotations

import io
from threading import Event, Lock, Thread
from typing import Final

__all__ = ["Tee"]

_PAUSE_S: Final = 0.1
_CHUNK: Final = 1 << 16


class Tee:
    """Copies what is written to the source files into another, by a thread, until it is closed."""

    def __init__(self, out: io.FileIO, *sources: str) -> None:
        """Begin to copy.

        Args:
            out: Written to, and closed with this object.
            sources: Paths of files that are there; each is copied in its own order.

        Raises:
            ValueError: There is no source.
            OSError: A source cannot be opened.
        """
        if not sources:
            raise ValueError("nothing to copy; name a source")
        self._out = out
        self._writing = Lock()
        self._closing = Event()
        self._sources = [io.FileIO(source) for source in sources]
        self._thread = Thread(target=self._copy, daemon=True)
        self._thread.start()

    def write(self, s: bytes) -> int:
        """Write to the file itself, between two pieces of the sources."""
        with self._writing:
            return self._out.write(s) or 0

    def close(self) -> None:
        """Copy what is there to its end, and close all files; may be called more than once."""
        self._closing.set()
        self._thread.join()
        for file in (*self._sources, self._out):
            file.close()

    def _copy(self) -> None:
        last = False
        while not last:
            last = self._closing.wait(_PAUSE_S)  # what comes after `close` was called may be left out
            for source in self._sources:
                while piece := source.read(_CHUNK):
                    self.write(piece)
