"""Opens a channel to a host by the user's own ``ssh``."""

from __future__ import annotations

import asyncio
import errno
import re
from collections.abc import Sequence
from typing import Final, cast

from torchx_core.errors import SchedulerError
from torchx_core.schedulers.remote.agent_client import AgentClient, Channel
from torchx_core.schedulers.remote.bundle import bundle, command_line
from torchx_core.schedulers.remote.host import RemoteHost
from torchx_core.schedulers.ssh import SSH_FAILED, kill_ssh, ssh_command

__all__ = ["dial", "ssh_to"]

_CONNECT_S = 15.0
_LAST_WORDS_S = 1.0
_STDIN, _STDOUT = 0, 1
_PASSING: Final = frozenset({errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.ENOMEM})
_REFUSALS: Final = re.compile(r": Permission denied \(|Too many authentication failures")
_MISTAKES: Final = re.compile(
    r"Unable to negotiate|terminating, \d+ bad configuration|Bad owner or permissions|ControlPath .* too long"
    r"|No user exists for uid|^command-line"
)
"""What ssh says of what no later attempt would mend: of the two sides, and of this one's configuration."""


def ssh_to(host: RemoteHost, command: str, *, terminal: bool = False) -> list[str]:
    """Return the words that have the host run a command; see `ssh_command`."""
    return ssh_command(
        host.name, command, user=host.user, port=host.port, timeout_s=_CONNECT_S, terminal=terminal
    )


async def dial(host: RemoteHost, agent_client: AgentClient) -> Channel:
    """Connect, start the agent, wait until it has greeted.

    Raises:
        SchedulerError: That failed; retryable where it may get better by itself.
    """
    words = ssh_to(host, command_line(host))
    loop = asyncio.get_running_loop()
    try:
        transport, protocol = await loop.subprocess_exec(
            lambda: _Ssh(agent_client), *words, start_new_session=True
        )
    except OSError as err:
        message = f"cannot reach {host}: cannot start `ssh`: {err}"
        raise SchedulerError(message, retryable=err.errno in _PASSING) from err
    channel = _SshChannel(transport, protocol)
    try:
        channel.send(bundle())
        await agent_client.greeting()
    except SchedulerError as err:
        exit_code = transport.get_returncode()  # before it is killed
        await asyncio.shield(channel.close())
        raise _failure(host, exit_code, agent_client.said) or err from err
    except BaseException:
        await asyncio.shield(channel.close())
        raise
    return channel


def _failure(host: RemoteHost, exit_code: int | None, said: Sequence[str]) -> SchedulerError | None:
    """Return what it means that ssh ended so; None when not ssh has failed, but what it started."""
    if exit_code is not None and exit_code < 0:
        return SchedulerError(f"cannot reach {host}: ssh was killed here", retryable=True)
    if exit_code != SSH_FAILED:
        return None
    if refused := _line_with(_REFUSALS, said):
        advice = f"`ssh {host.name} true` must work without a question"
        return SchedulerError(f"{host} refuses us: {refused}; {advice}")
    if untrusted := _line_with(re.compile("Host key verification failed"), said):
        advice = f"look at it with `ssh {host.name}`, and have it in ~/.ssh/known_hosts"
        return SchedulerError(f"cannot trust {host}: {untrusted}; {advice}")
    if _line_with(_MISTAKES, said):
        return SchedulerError(f"cannot reach {host}: ssh says: {' / '.join(said)}")
    reason = " / ".join(said) or "the connection or the program there was ended"
    return SchedulerError(f"cannot reach {host}: {reason}", retryable=True)


def _line_with(pattern: re.Pattern[str], lines: Sequence[str]) -> str | None:
    return next(filter(pattern.search, lines), None)


class _Ssh(asyncio.SubprocessProtocol):
    """Passes on what arrives."""

    def __init__(self, agent_client: AgentClient) -> None:
        self._agent_client = agent_client
        self.exited = asyncio.Event()
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
        self.exited.set()
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
        """Kill ssh, for what it carries needs no farewell, and wait until nothing of it is left.

        The transport is closed only when the event loop knows that ssh has ended: closing it earlier asks
        the kernel for ssh's exit code beside the loop's own watcher, and one of them does not get it. Bytes
        that nobody has read are given up first, because the transport would wait for their reader.
        """
        if self._transport.get_returncode() is None:
            kill_ssh(self._transport.get_pid())
        if not self._stdin.is_closing():
            self._stdin.abort()
        await self._protocol.exited.wait()
        self._transport.close()
        await self._protocol.over.wait()
