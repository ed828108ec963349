"""Values of a role's fields that are made when somebody reads them: TorchX's ``Role.overrides``."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, cast, final

__all__ = ["read_override"]


def read_override(overrides: dict[str, object], name: str) -> object:
    """Return the value that stands for the field, and make it where it is not made yet.

    A function is called and an awaitable awaited, once for all roles that share the dict, however many
    threads read it; what came of it takes its place there. One that raises stays, and is tried again by the
    next reader. While one is made, reads of this dict wait; its own function may read from it.

    Raises:
        RuntimeError: It is a future of the event loop that this thread runs, which cannot go on meanwhile.
    """
    value = overrides[name]
    if not isinstance(value, _Made):
        with _alone(overrides):
            value = overrides[name]
            if not isinstance(value, _Made):
                value = overrides[name] = _Made(_make(name, value))
    return value.value


@final
class _Made:
    """A value that was made; calling it, as one could call its function, returns it."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value

    def __call__(self) -> object:
        return self.value


@dataclass
class _Turn:
    lock: threading.RLock = field(default_factory=threading.RLock)
    users: int = 0


_turns: Final[dict[int, _Turn]] = {}
"""By the id of a dict whose values are being made; only then, as an id is used again."""
_turns_lock: Final = threading.Lock()


@contextmanager
def _alone(overrides: dict[str, object]) -> Generator[None]:
    with _turns_lock:
        turn = _turns.setdefault(id(overrides), _Turn())
        turn.users += 1
    try:
        with turn.lock:
            yield
    finally:
        with _turns_lock:
            turn.users -= 1
            if not turn.users:
                del _turns[id(overrides)]


def _make(name: str, value: object) -> object:
    if inspect.isawaitable(value):
        return _wait_for(name, value)
    return cast("Callable[[], object]", value)() if callable(value) else value


def _wait_for(name: str, value: Awaitable[object]) -> object:
    """Await the value on its own event loop, if it has one, and never on the one that runs in this thread."""
    loop: asyncio.AbstractEventLoop | None = value.get_loop() if isinstance(value, asyncio.Future) else None
    try:
        running = asyncio.get_running_loop()
    except RuntimeError:
        running = None
    if running is not None and loop is running:
        raise RuntimeError(
            f"overrides[{name!r}] is a future of the event loop that is currently running in this thread, "
            f"which cannot go on while the field is read: await it first"
        )
    if loop is not None and loop.is_running():
        return asyncio.run_coroutine_threadsafe(_awaited(value), loop).result()

    def run() -> object:
        return loop.run_until_complete(value) if loop else asyncio.run(_awaited(value))

    if running is None:
        return run()
    with ThreadPoolExecutor(1) as pool:  # this thread has a loop, and can run no second one
        return pool.submit(run).result()


async def _awaited(value: Awaitable[object]) -> object:
    return await value
