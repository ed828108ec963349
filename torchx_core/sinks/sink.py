"""What a sink can do, whichever client it writes with."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from typing import Protocol

from torchx_core.sinks.entries import Entry

__all__ = ["Sink", "warn"]


class Sink(Protocol):
    """Writes one replica's entries to one place.

    Made in the thread that reports first, which imports the client and does nothing that may take longer. All
    else is called by a thread of the sink's own, and may take its time and raise anything.
    """

    def open(self) -> str:
        """Go on where an earlier attempt has written, or begin.

        Returns where people look, an address or a path. Called again after it, or a write, has failed.
        """
        ...

    def write(self, entries: Sequence[Entry]) -> None:
        """Write the entries so that they outlive this process; after a failure they come again."""
        ...

    def close(self, *, failed: bool) -> None:
        """Write that the attempt is over, and how, as far as the process can know."""
        ...


def warn(text: str) -> None:
    """Warn, and raise nothing, even where warnings are errors: that would end a training loop."""
    try:
        warnings.warn(text, RuntimeWarning, stacklevel=2)
    except RuntimeWarning:
        sys.stderr.write(f"{text}\n")
