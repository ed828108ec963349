"""Reaches an agent in this process over a connection that breaks after so many bytes."""

from __future__ import annotations

from collections.abc import Callable

from near_agent import NearChannel

from torchx_core.schedulers.remote.agent_client import AgentClient, Channel
from torchx_core.schedulers.remote.handler import Handler
from torchx_core.schedulers.remote.host import RemoteHost

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


class _CutChannel(NearChannel):
    def __init__(self, dial: CutDial, agent_client: AgentClient) -> None:
        super().__init__(agent_client, Handler())
        self._dial = dial

    def _answered(self, data: bytes) -> None:
        self._carry(super()._answered, data)

    def send(self, data: bytes) -> None:
        self._carry(super().send, data)

    def _carry(self, deliver: Callable[[bytes], None], data: bytes) -> None:
        kept, broken = self._dial.carry(data)
        deliver(kept)
        if broken:
            self.loop.call_soon(self.cut)
