"""The program on the other host: one line in, one line out, until nobody listens any more.

It ends when its input does, and when nothing was asked for some minutes; jobs go on, and so does a submit
that is under way. It starts no process and writes no file but the scheduler's.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import platform
import socket
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Final, cast

from torchx_core.errors import TorchXError
from torchx_core.schedulers.remote.handler import Handler
from torchx_core.schedulers.remote.wire import dump, dump_error
from torchx_core.specs import split_place
from torchx_core.supervisor.records import Json

__all__ = ["Agent", "main"]

logger: Final = logging.getLogger(__name__)

_IDLE_S = 600.0
"""After so long without a question it ends: whoever asked may be gone without a word."""
_STDIN, _STDOUT = 0, 1
_READ_SIZE: Final = 1 << 16


def main() -> None:
    """Answer on standard output what is asked on standard input."""
    logging.basicConfig(level=logging.WARNING, format="%(message)s")  # to stderr, which the asker logs
    with suppress(BrokenPipeError):
        _say({"python": platform.python_version(), "host": socket.gethostname()})
        asyncio.run(_serve())


async def _serve() -> None:
    agent = Agent(_say, Handler())
    asyncio.get_running_loop().add_reader(_STDIN, lambda: agent.hear(os.read(_STDIN, _READ_SIZE)))
    await agent.over()
    asyncio.get_running_loop().remove_reader(_STDIN)


def _say(answer: Json) -> None:
    """Write a line; whoever does not read makes us wait, which is as it should be."""
    view = memoryview(json.dumps(answer).encode("ascii") + b"\n")
    while view:
        view = view[os.write(_STDOUT, view) :]


class Agent:
    """Answers questions as they come, each as soon as it can, in no order."""

    def __init__(self, say: Callable[[Json], None], handler: Handler, *, idle_s: float = _IDLE_S) -> None:
        """Belong to the running event loop.

        Args:
            say: Sends an answer.
            handler: Knows the answers.
            idle_s: After how long without a question it is over.
        """
        self._say = say
        self._handler = handler
        self._idle_s = idle_s
        self._rest = b""
        self._at_work: set[asyncio.Task[None]] = set()
        self._heard_at = time.monotonic()
        self._ended = asyncio.Event()

    def hear(self, data: bytes) -> None:
        """Take what was read; nothing is the end."""
        if not data:
            self._ended.set()
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._heard_at = time.monotonic()
            task = asyncio.get_running_loop().create_task(self._attend(cast("Json", json.loads(line))))
            self._at_work.add(task)
            task.add_done_callback(self._at_work.discard)

    async def over(self) -> None:
        """Wait for the end, then answer nothing more; what a thread is doing comes to its end."""
        while not self._ended.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), self._idle_s)
            if not self._at_work and time.monotonic() - self._heard_at >= self._idle_s:
                break
        for task in self._at_work:
            task.cancel()
        await asyncio.gather(*self._at_work, return_exceptions=True)
        self._handler.close()

    async def _attend(self, question: Json) -> None:
        answer: Json
        try:
            answer = {"ok": dump(await self._answer(question))}
        except TorchXError as err:
            answer = {"error": _renamed(dump_error(err), question)}
        except Exception as err:  # noqa: BLE001  (whoever asked must get an answer, and here is nobody else)
            traceback.print_exc()
            answer = {"error": dump_error(err)}
        try:
            self._say({"id": question["id"], **answer})
        except BrokenPipeError:
            self._ended.set()

    async def _answer(self, question: Json) -> object:
        match question["verb"]:
            case "pull":
                return await self._handler.pull(question)
            case "leave":
                self._handler.leave(str(question["feed"]))
                return None
            case _:
                return await asyncio.to_thread(self._handler.answer, question)


def _renamed(error: Json, question: Json) -> Json:
    """Have handles in the error name the scheduler as whoever asks does, with the place of this host."""
    asked = str(question["backend"])
    text = json.dumps(error).replace(f"{split_place(asked)[0]}://", f"{asked}://")
    return cast("Json", json.loads(text))
