"""Opens a channel to a login node by the user's own ``ssh``."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Final, cast

from torchx_core.errors import SchedulerError
from torchx_core.schedulers.slurm.remote.agent_client import AgentClient, Channel
from torchx_core.schedulers.slurm.remote.bundle import bundle, command_line
from torchx_core.schedulers.slurm.remote.login_node import LoginNode
from torchx_core.schedulers.ssh import SSH_FAILED, kill_ssh, ssh_command

__all__ = ["dial"]

_CONNECT_S = 15.0
_LAST_WORDS_S = 1.0
_STDIN, _STDOUT = 0, 1
_BAD_CONFIGURATION: Final = re.compile(
    r" line \d+: |bad configuration|bad owner or permissions", re.IGNORECASE
)


async def dial(node: LoginNode, agent_client: AgentClient) -> Channel:
    """Connect, start the agent, wait until it has greeted.

    Raises:
        SchedulerError: That failed; retryable where it may get better by itself.
    """
    words = ssh_command(node.host, command_line(node), user=node.user, port=node.port, timeout_s=_CONNECT_S)
    loop = asyncio.get_running_loop()
    try:
        transport, protocol = await loop.subprocess_exec(
            lambda: _Ssh(agent_client), *words, start_new_session=True
        )
    except OSError as err:
        raise SchedulerError(f"cannot reach login node {node}: cannot start `ssh`: {err}") from err
    channel = _SshChannel(transport, protocol)
    try:
        channel.send(bundle())
        await agent_client.greeting()
    except SchedulerError as err:
        await channel.close()
        if transport.get_returncode() == SSH_FAILED:
            raise _unreachable(node, agent_client.said) from err
        raise
    except BaseException:
        await channel.close()
        raise
    return channel


def _unreachable(node: LoginNode, said: Sequence[str]) -> SchedulerError:
    """Return what an ``ssh`` that has failed means: it tells that by its words alone."""
    everything = " / ".join(said)
    reason = said[-1] if said else "ssh was ended"
    if "Host key verification failed" in everything:
        advice = f"look at it with `ssh {node.host}`, and have it in ~/.ssh/known_hosts"
        return SchedulerError(f"cannot trust login node {node}: {reason}; {advice}")
    if "Permission denied" in everything:
        advice = f"`ssh {node.host} true` must work without a question"
        return SchedulerError(f"login node {node} refuses us: {reason}; {advice}")
    if _BAD_CONFIGURATION.search(everything):
        return SchedulerError(f"cannot reach login node {node}: ssh's configuration: {everything}")
    return SchedulerError(f"cannot reach login node {node}: {reason}", retryable=True)


class _Ssh(asyncio.SubprocessProtocol):
    """Passes on what arrives."""

    def __init__(self, agent_client: AgentClient) -> None:
        self._agent_client = agent_client
        self.exit_code: int | None = None
        self.over = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.SubprocessTransport", transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == _STDOUT:
            self._agent_client.printed(data)
        else:
            self._agent_client.complained(data)

    def process_exited(self) -> None:
        """Read what ssh wrote last, for a moment: a program that it started may keep its pipes open."""
        asyncio.get_running_loop().call_later(_LAST_WORDS_S, self._transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        """Take note that ssh has ended and nothing more is read."""
        code = self._transport.get_returncode()
        reason = "the agent ended" if exc is None and not code else f"ssh ended with exit code {code}"
        self._agent_client.closed(reason, exit_code=code)
        self.over.set()


class _SshChannel:
    def __init__(self, transport: asyncio.SubprocessTransport, protocol: _Ssh) -> None:
        self._transport = transport
        self._protocol = protocol
        self._stdin = cast("asyncio.WriteTransport", transport.get_pipe_transport(_STDIN))

    def send(self, data: bytes) -> None:
        if not self._stdin.is_closing():
            self._stdin.write(data)

    async def close(self) -> None:
        if self._transport.get_returncode() is None:
            kill_ssh(self._transport.get_pid())  # what it carries needs no farewell
        self._transport.close()
        await self._protocol.over.wait()
