"""Reaches a login node that is this host: its shell runs the same command as over ssh, on pipes."""

from __future__ import annotations

import asyncio
from asyncio.subprocess import PIPE, Process
from contextlib import suppress

from torchx_core.schedulers.remote.agent_client import AgentClient, Channel
from torchx_core.schedulers.remote.bundle import bundle, command_line
from torchx_core.schedulers.remote.host import RemoteHost

__all__ = ["PipeDial"]


class PipeDial:
    """Starts agents, and knows them."""

    def __init__(self) -> None:
        self.agents: list[Process] = []

    async def __call__(self, host: RemoteHost, agent_client: AgentClient) -> Channel:
        agent = await asyncio.create_subprocess_shell(
            command_line(host), stdin=PIPE, stdout=PIPE, stderr=PIPE
        )
        self.agents.append(agent)
        channel = _PipeChannel(agent, agent_client)
        channel.send(bundle())
        try:
            await agent_client.greeting()
        except BaseException:
            await channel.close()
            raise
        return channel


class _PipeChannel:
    def __init__(self, agent: Process, agent_client: AgentClient) -> None:
        self._agent = agent
        self._agent_client = agent_client
        self._reading = asyncio.get_running_loop().create_task(self._read())

    def send(self, data: bytes) -> None:
        assert self._agent.stdin is not None
        self._agent.stdin.write(data)

    async def close(self) -> None:
        assert self._agent.stdin is not None
        self._agent.stdin.close()
        await self._reading
        with suppress(BrokenPipeError, ConnectionResetError):
            await self._agent.stdin.wait_closed()

    async def _read(self) -> None:
        assert self._agent.stdout is not None
        assert self._agent.stderr is not None
        await asyncio.gather(
            _pass(self._agent.stdout, self._agent_client.printed),
            _pass(self._agent.stderr, self._agent_client.complained),
        )
        self._agent_client.closed("the agent ended", exit_code=await self._agent.wait())


async def _pass(stream: asyncio.StreamReader, hear: object) -> None:
    assert callable(hear)
    while data := await stream.read(1 << 16):
        hear(data)
