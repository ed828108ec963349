"""Which threads the tested code has started; an engine in the same process starts and ends its own."""

from __future__ import annotations

import threading
from collections.abc import Set as AbstractSet

__all__ = ["started_since", "threads_now"]

ENGINES = "Thread"
"""Ends the names of Prefect's threads (EventsWorkerThread, GlobalEventLoopThread); ours have other names."""


def threads_now() -> AbstractSet[threading.Thread]:
    """Return every thread of this process."""
    return set(threading.enumerate())


def started_since(known: AbstractSet[threading.Thread]) -> list[str]:
    """Return the names of the living threads that are not known, without those of an engine."""
    return [t.name for t in threading.enumerate() if t not in known and not t.name.endswith(ENGINES)]
