"""Reaches an agent in this process over a connection that breaks after so many bytes."""

from __future__ import annotations

import asyncio
import json

from torchx_core.schedulers.remote.agent import Agent
from torchx_core.schedulers.remote.agent_client import AgentClient, Channel
from torchx_core.schedulers.remote.handler import Handler
from torchx_core.schedulers.remote.host import RemoteHost
from torchx_core.supervisor.records import Json

__all__ = ["CutDial"]


class CutDial:
    """Dials; the first connection breaks in mid-byte-stream, whichever way the byte goes."""

    def __init__(self, after: int | None = None) -> None:
        """Break after so many bytes; None for never."""
        self.after = after
        self.carried = 0
        self.cuts = 0

    async def __call__(self, host: RemoteHost, agent_client: AgentClient) -> Channel:
        """Start an agent."""
        del host
        channel = _CutChannel(self, agent_client)
        agent_client.printed(b'{"python": "3.11.7", "host": "near"}\n')
        return channel

    def carry(self, data: bytes) -> tuple[bytes, bool]:
        """Return what of the bytes arrives, and whether the connection breaks then."""
        if self.cuts or self.after is None or self.carried + len(data) <= self.after:
            self.carried += len(data)
            return data, False
        kept = data[: self.after - self.carried]
        self.cuts += 1
        return kept, True


class _CutChannel:
    def __init__(self, dial: CutDial, agent_client: AgentClient) -> None:
        self._loop = asyncio.get_running_loop()
        self._dial = dial
        self._agent_client = agent_client
        self._agent = Agent(self._say, Handler())
        self._over = self._loop.create_task(self._agent.over())

    def _say(self, answer: Json) -> None:
        if self._agent_client.over:
            return
        data, broken = self._dial.carry(json.dumps(answer).encode() + b"\n")
        self._loop.call_soon(self._agent_client.printed, data)
        if broken:
            self._loop.call_soon(self._cut)

    def send(self, data: bytes) -> None:
        kept, broken = self._dial.carry(data)
        self._loop.call_soon(self._agent.hear, kept)
        if broken:
            self._loop.call_soon(self._cut)

    def _cut(self) -> None:
        self._agent_client.closed("cut")
        self._agent.hear(b"")

    async def close(self) -> None:
        self._agent.hear(b"")
        await self._over
