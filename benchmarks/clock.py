"""Time as the workloads take it: one monotonic clock for all processes."""

from __future__ import annotations

import threading
from time import monotonic, monotonic_ns

__all__ = ["monotonic", "monotonic_ns", "ms_since", "pause"]


def ms_since(start: float) -> float:
    """Return the milliseconds since a reading of `monotonic`."""
    return (monotonic() - start) * 1e3


def pause(seconds: float) -> None:
    """Let that much time pass: some workloads are about idling."""
    threading.Event().wait(seconds)
