"""Who in this process uses which line; all of them run on one thread, which ends with the last user."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine
from dataclasses import dataclass, field
from threading import Lock, Thread
from typing import Final, TypeAlias

from torchx_core.schedulers.remote.agent_client import Dial
from torchx_core.schedulers.remote.host import RemoteHost
from torchx_core.schedulers.remote.line import Line
from torchx_core.schedulers.remote.ssh import dial as dial_ssh

__all__ = ["Share"]

_END_S = 5.0


class Share:
    """One user's hold on a line: taken when it is first needed, and anew after a fork."""

    def __init__(self, host: RemoteHost, dial: Dial = dial_ssh) -> None:
        """Hold nothing yet."""
        self._key = (host, dial)
        self._lock = Lock()
        self._held: tuple[int, Line] | None = None

    def __call__(self) -> Line:
        """Return the line."""
        with self._lock:
            if self._held is None or self._held[0] != os.getpid():  # a fork has its parent's, and no thread
                self._held = os.getpid(), _join(self._key)
            return self._held[1]

    def again(self) -> Share:
        """Return a hold on the same line for another user."""
        return Share(*self._key)

    def release(self) -> None:
        """Let go; may be called more than once."""
        with self._lock:
            held, self._held = self._held, None
        if held is not None and held[0] == os.getpid():
            _leave(self._key)


async def _outlast_others() -> None:
    """Wait for what a cancelled connection still has to close."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    if others:
        await asyncio.wait(others, timeout=_END_S)


_Key: TypeAlias = tuple[RemoteHost, Dial]


@dataclass
class _Used:
    line: Line
    users: int = 0


class _Loop:
    """An event loop on a thread of its own."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = Thread(target=self.loop.run_forever, name="torchx-slurm-ssh", daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[object, object, None]) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, self.loop).result()

    def stop(self) -> None:
        self.run(_outlast_others())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


@dataclass
class _Process:
    loop: _Loop = field(default_factory=_Loop)
    used: dict[_Key, _Used] = field(default_factory=dict[_Key, _Used])


_processes: Final[dict[int, _Process]] = {}
"""By process id: at most our own, and those that we were forked from."""
_processes_lock: Final = Lock()


def _join(key: _Key) -> Line:
    with _processes_lock:
        process = _processes.get(os.getpid()) or _Process()
        _processes[os.getpid()] = process
        if key not in process.used:
            process.used[key] = _Used(Line(key[0], process.loop.loop, key[1]))
        used = process.used[key]
        used.users += 1
        return used.line


def _leave(key: _Key) -> None:
    with _processes_lock:
        process = _processes[os.getpid()]
        used = process.used[key]
        used.users -= 1
        if not used.users:
            process.loop.run(process.used.pop(key).line.close())
        if not process.used:
            _processes.pop(os.getpid()).loop.stop()
