"""Whether the kernel has killed something here for want of memory, as this task's control group counts it."""

from __future__ import annotations

import os
from typing import Iterator  # noqa: UP035  (Python 3.7)

COUNTERS = ("memory.events", "memory.oom_control")
"""Of version 2 and of version 1; both have a line ``oom_kill`` and a number."""


def oom_kills(proc: str = "/proc/self") -> int:
    """Return how many processes of this task's group were killed for want of memory; 0 where nobody counts.

    Args:
        proc: Where the kernel tells of this process.
    """
    for directory in _directories(proc):
        for name in COUNTERS:
            for line in _lines(os.path.join(directory, name)):
                key, _, value = line.partition(" ")
                if key == "oom_kill" and value.isdigit():
                    return int(value)
    return 0


def _directories(proc: str) -> Iterator[str]:
    """Yield where the group that limits our memory may lie: its own hierarchy, or the one for everything."""
    groups: dict[str, str] = {}
    for line in _lines(f"{proc}/cgroup"):
        _, controllers, path = line.split(":", 2)
        groups.update(dict.fromkeys(controllers.split(","), path))
    for line in _lines(f"{proc}/mountinfo"):
        left, _, right = line.partition(" - ")
        kind, _, options = right.split(" ", 2)
        root, place = left.split(" ")[3:5]
        controller = "memory" if kind == "cgroup" and "memory" in options.split(",") else ""
        if (controller or kind == "cgroup2") and controller in groups:
            yield place + "/" + os.path.relpath(groups[controller], root)


def _lines(path: str) -> list[str]:
    try:
        with open(path) as file:
            return file.read().splitlines()
    except OSError:
        return []
