"""The client's end of one channel to one agent: greeting, lines, and why it ended."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeAlias, cast

from torchx_core.errors import SchedulerError
from torchx_core.schedulers.remote.host import RemoteHost
from torchx_core.supervisor.records import Json

__all__ = ["AgentClient", "Channel", "Dial"]

logger: Final = logging.getLogger(__name__)

_GREETING_S = 120.0
"""How long the other side may take to load this library: home directories of clusters can be slow."""
_QUOTED_LINES = 5
_SHELLS_KILLED = 128
"""What a shell adds to the number of the signal that killed its program."""
_NEEDED: Final = "3.11 or newer"


class Channel(Protocol):
    """A way to the agent's standard input."""

    def send(self, data: bytes) -> None:
        """Send the bytes, some time soon; never waits."""
        ...

    async def close(self) -> None:
        """Hang up; the agent ends."""
        ...


class AgentClient:
    """Is told what arrives on a channel; whoever made the channel tells it."""

    def __init__(
        self, host: RemoteHost, answered: Callable[[Json], None], ended: Callable[[str], None]
    ) -> None:
        """Have heard nothing yet.

        Args:
            host: The other side.
            answered: Called for each answer.
            ended: Called once, with the reason, when a channel ends that has had a greeting.
        """
        self._host = host
        self._answered = answered
        self._ended = ended
        self._greeted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._greeted.add_done_callback(_seen)
        self._out = _Lines(self._hear)
        self._err = _Lines(self._hear_error)
        self._noise: deque[str] = deque(maxlen=_QUOTED_LINES)
        self.over: bool = False
        """Whether the channel has ended."""

    @property
    def said(self) -> list[str]:
        """The last lines that came before the greeting, in standard output or error."""
        return list(self._noise)

    def printed(self, data: bytes) -> None:
        """Take what came on standard output."""
        self._out.take(data)

    def complained(self, data: bytes) -> None:
        """Take what came on standard error."""
        self._err.take(data)

    def closed(self, reason: str, *, exit_code: int | None = None) -> None:
        """Take note that nothing more comes; may be called more than once."""
        if self.over:
            return
        self.over = True
        if not self._greeted.done():
            self._greeted.set_exception(self._no_agent(reason, exit_code))
        else:
            self._ended(reason)

    async def greeting(self) -> None:
        """Wait until the agent is there.

        Raises:
            SchedulerError: It is not; retryable unless there is no Python that it could run on.
        """
        try:
            async with asyncio.timeout(_GREETING_S):
                await self._greeted
        except TimeoutError as err:
            message = f"{self._host}: {self._host.python} said nothing within {_GREETING_S:g} s"
            raise SchedulerError(message, retryable=True) from err

    def _hear(self, line: bytes) -> None:
        if self._greeted.cancelled():  # nobody waits for the greeting any more
            return
        if self._greeted.done():
            self._answered(cast("Json", json.loads(line)))
            return
        hello = _greeting(line)
        if hello is None:  # a shell's start-up files may print things
            self._noise.append(line.decode("utf-8", "replace"))
        elif "host" in hello:
            self._greeted.set_result(None)
        else:
            self._greeted.set_exception(self._bad_python(f"is Python {hello['python']}"))

    def _hear_error(self, line: bytes) -> None:
        text = line.decode("utf-8", "replace").rstrip()
        if self._greeted.done():
            logger.warning("%s: %s", self._host, text)
        else:
            self._noise.append(text)

    def _no_agent(self, reason: str, exit_code: int | None) -> SchedulerError:
        self._err.end()
        said = f"; it says: {' / '.join(self._noise)}" if self._noise else ""
        if exit_code is not None and exit_code > _SHELLS_KILLED:  # by a host that is short of memory
            reason = f"{self._host.python!r} was killed (exit code {exit_code})"
        elif exit_code is not None:
            return self._bad_python(f"did not run (exit code {exit_code}){said}")
        return SchedulerError(f"{self._host}: {reason}{said}", retryable=True)

    def _bad_python(self, problem: str) -> SchedulerError:
        return SchedulerError(
            f"{self._host}: {self._host.python!r} {problem}; name a Python {_NEEDED} there by"
            f" {self._host.python_setting}"
        )


Dial: TypeAlias = Callable[[RemoteHost, AgentClient], Awaitable[Channel]]
"""Opens a channel, which tells the client what arrives; raises SchedulerError. The agent has greeted then."""


class _Lines:
    """Cuts what arrives into lines."""

    def __init__(self, hear: Callable[[bytes], None]) -> None:
        self._hear = hear
        self._parts: list[bytes] = []

    def take(self, data: bytes) -> None:
        *lines, rest = data.split(b"\n")
        for line in lines:
            self._parts.append(line)
            whole, self._parts = b"".join(self._parts), []
            self._hear(whole)
        if rest:
            self._parts.append(rest)

    def end(self) -> None:
        if self._parts:
            self.take(b"\n")


def _seen(greeted: asyncio.Future[None]) -> None:
    """Have nobody complain of an error that nobody awaits: whoever dialled may have gone."""
    if not greeted.cancelled():
        greeted.exception()


def _greeting(line: bytes) -> Json | None:
    try:
        value = cast("object", json.loads(line))
    except ValueError:
        return None
    return cast("Json", value) if isinstance(value, dict) and "python" in value else None
