"""What a program's other threads may fork at any moment: a process that has the same files open."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager


@contextmanager
def forking() -> Generator[Callable[[], None]]:
    """Yield a function that forks a process; whatever it forked does nothing, and ends with this context."""
    asleep, awake = os.pipe()
    children: list[int] = []

    def fork() -> None:
        child = os.fork()
        if not child:
            os.close(awake)
            os.read(asleep, 1)
            os._exit(0)
        children.append(child)

    try:
        yield fork
    finally:
        os.close(awake)
        os.close(asleep)
        for child in children:
            os.waitpid(child, 0)
