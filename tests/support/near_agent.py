"""A login node without ssh and without Slurm: the real agent, in this process, with a fake scheduler."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar, cast

from torchx_core.errors import SchedulerError
from torchx_core.schedulers import Capabilities, Scheduler
from torchx_core.schedulers.remote.agent import Agent
from torchx_core.schedulers.remote.agent_client import AgentClient, Channel
from torchx_core.schedulers.remote.handler import Handler
from torchx_core.schedulers.remote.host import RemoteHost
from torchx_core.schedulers.slurm.remote.login_node import login_node
from torchx_core.schedulers.slurm.remote.scheduler import RemoteSlurmScheduler
from torchx_core.schedulers.slurm.request import SlurmRequest
from torchx_core.specs import AppDryRunInfo
from torchx_core.testing import FakeHost, FakeScheduler

__all__ = ["NearChannel", "NearNode", "RemoteFake"]


class NearNode:
    """Where agents are started; what they are asked reaches them as bytes, as it does over ssh."""

    def __init__(self) -> None:
        self.host = FakeHost(backend="slurm")
        self.dials = 0
        self.away = ""
        """Why it cannot be reached; empty while it can."""
        self.deaf_to = ""
        """A verb: the connection breaks right after the agent has heard a question with it, so many times:"""
        self.deaf_times = 0
        self.mute_to = ""
        """A verb: questions with it get no answer."""
        self.trouble: Exception | None = None
        """What nobody foresaw, when it is dialled."""
        self.hangs = False
        """Whether dialling takes for ever."""
        self.ends_at_once = 0
        """How many of the next connections end right after the agent's greeting."""
        self._channels: list[NearChannel] = []

    async def dial(self, host: RemoteHost, agent_client: AgentClient) -> Channel:
        """Start an agent."""
        del host
        self.dials += 1
        if self.trouble is not None:
            raise self.trouble
        if self.hangs:
            await asyncio.Event().wait()
        if self.away:
            raise SchedulerError(self.away, retryable=self.away != "for ever")
        channel = _FaultyChannel(self, agent_client)
        self._channels.append(channel)
        agent_client.printed(b'a word of the day\n{"python": "3.11.7", "host": "near"}\n')
        if self.ends_at_once:
            self.ends_at_once -= 1
            channel.cut()
        return channel

    def scheduler(self, session: str, **_params: object) -> Scheduler[SlurmRequest]:
        """Return a client: a factory as `Runner` takes it."""
        return RemoteFake("slurm", session, login_node("near"), dial=self.dial)

    def handler(self) -> Handler:
        """Return what an agent is asked."""
        return Handler(
            lambda _backend, session, _root: cast("Scheduler[object]", _FakeSlurm(self.host, session))
        )

    def cut(self) -> None:
        """Break every connection; to be called from another thread than theirs."""
        for channel in self._channels:
            channel.loop.call_soon_threadsafe(channel.cut)


class NearChannel:
    """A channel to an agent of this process, which lets everything pass."""

    def __init__(self, agent_client: AgentClient, handler: Handler) -> None:
        self.loop = asyncio.get_running_loop()
        self._agent_client = agent_client
        self._agent = Agent(self._say, handler)
        self._over = self.loop.create_task(self._agent.over())

    def _say(self, answer: Mapping[str, object]) -> None:
        if not self._agent_client.over:
            self._answered(json.dumps(answer).encode() + b"\n")

    def _answered(self, data: bytes) -> None:
        self.loop.call_soon(self._agent_client.printed, data)

    def send(self, data: bytes) -> None:
        """Have the agent hear it."""
        self.loop.call_soon(self._agent.hear, data)

    def cut(self) -> None:
        """Break."""
        self._agent_client.closed("cut")
        self._agent.hear(b"")

    async def close(self) -> None:
        """Hang up."""
        self._agent.hear(b"")
        await self._over


class _FaultyChannel(NearChannel):
    def __init__(self, node: NearNode, agent_client: AgentClient) -> None:
        super().__init__(agent_client, node.handler())
        self._node = node

    def send(self, data: bytes) -> None:
        verb = json.loads(data)["verb"]
        if verb == self._node.mute_to:
            return
        super().send(data)
        if verb == self._node.deaf_to and self._node.deaf_times:
            self._node.deaf_times -= 1
            self.loop.call_soon(self.cut)


class _FakeSlurm(FakeScheduler):
    """Takes the requests that the client renders."""

    def schedule(self, dryrun_info: AppDryRunInfo[SlurmRequest]) -> str:  # type: ignore[override]  # a stand-in
        request = dryrun_info.request
        known = {
            name: value for name, value in request.cfg.items() if name in {k for k, _ in self.run_opts()}
        }
        return super().schedule(self.submit_dryrun(request.app, known, app_id=request.app_id))


class RemoteFake(RemoteSlurmScheduler):
    """What a fake scheduler can do, asked for as if it were far away."""

    capabilities: ClassVar[Capabilities] = replace(
        RemoteSlurmScheduler.capabilities,
        survives_submitter=False,
        resource_limits=False,
        usage=True,
        exec=False,
    )
