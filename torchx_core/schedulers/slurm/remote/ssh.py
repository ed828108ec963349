"""Opens a channel to a login node over ssh; the only module that knows the ssh library."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Protocol, cast

import asyncssh  # noqa: TID253  (this module is imported by the first connection)

from torchx_core.errors import SchedulerError
from torchx_core.schedulers.slurm.remote.agent_client import AgentClient, Channel
from torchx_core.schedulers.slurm.remote.bundle import bundle, command_line
from torchx_core.schedulers.slurm.remote.login_node import LoginNode

__all__ = ["dial"]

_CONNECT_S = 15.0
_LOGIN_S = 30.0
_KEEPALIVE_S, _KEEPALIVES = 15.0, 3
"""A login node that says nothing for so long, and so often, is gone."""
_CLOSE_S = 2.0


async def dial(node: LoginNode, agent_client: AgentClient) -> Channel:
    """Connect, start the agent, wait until it has greeted.

    Raises:
        SchedulerError: That failed; retryable where it may get better by itself.
    """
    _quiet()
    connection = await _connect(node)
    try:
        session = _Session(agent_client)
        await cast("_Connection", connection).create_session(
            lambda: session, command_line(node), encoding=None
        )
        with suppress(BrokenPipeError):  # it has ended already; waiting for its greeting tells why
            session.channel.write(bundle())
        await agent_client.greeting()
    except asyncssh.Error as err:
        await _hang_up(connection)
        raise SchedulerError(f"login node {node}: {err.reason}", retryable=True) from err
    except BaseException:
        await _hang_up(connection)
        raise
    return _SshChannel(connection, session.channel)


async def _connect(node: LoginNode) -> asyncssh.SSHClientConnection:
    """Connect with the user's own configuration, keys and known hosts; nobody is ever asked for anything."""
    try:
        return await asyncssh.connect(
            node.host,
            port=node.port or (),
            username=node.user or (),
            connect_timeout=_CONNECT_S,
            login_timeout=_LOGIN_S,
            keepalive_interval=_KEEPALIVE_S,
            keepalive_count_max=_KEEPALIVES,
            agent_forwarding=False,
        )
    except asyncssh.HostKeyNotVerifiable as err:
        advice = f"look at it with `ssh {node.host}`, and have it in ~/.ssh/known_hosts"
        raise SchedulerError(f"cannot trust login node {node}: {err.reason}; {advice}") from err
    except asyncssh.PermissionDenied as err:
        advice = f"`ssh {node.host} true` must work without a question"
        raise SchedulerError(f"login node {node} refuses us: {err.reason}; {advice}") from err
    except (asyncssh.Error, OSError) as err:
        raise SchedulerError(f"cannot reach login node {node}: {_words(err)}", retryable=True) from err
    except ValueError as err:  # a file of the user's that is no configuration, or no key
        raise SchedulerError(f"cannot reach login node {node}: ssh's configuration or keys: {err}") from err


def _words(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {_CONNECT_S:g} s"
    return str(error) or type(error).__name__


async def _hang_up(connection: asyncssh.SSHClientConnection) -> None:
    connection.close()
    try:
        await asyncio.wait_for(connection.wait_closed(), _CLOSE_S)
    except TimeoutError:  # nobody takes our goodbye
        connection.abort()


class _Pipe(Protocol):
    """The part of the library's channel that is used, with its types."""

    def write(self, data: bytes) -> None: ...

    def is_closing(self) -> bool: ...


class _Connection(Protocol):
    """The part of the library's connection that is used, with its types."""

    async def create_session(
        self, factory: Callable[[], _Session], command: str, *, encoding: None
    ) -> object: ...


class _SshChannel:
    def __init__(self, connection: asyncssh.SSHClientConnection, channel: _Pipe) -> None:
        self._connection = connection
        self._channel = channel

    def send(self, data: bytes) -> None:
        if not self._channel.is_closing():
            self._channel.write(data)

    async def close(self) -> None:
        await _hang_up(self._connection)


class _Session(asyncssh.SSHClientSession[bytes]):
    """Passes on what arrives."""

    channel: _Pipe

    def __init__(self, agent_client: AgentClient) -> None:
        self._agent_client = agent_client
        self._exit_code: int | None = None

    def connection_made(self, chan: asyncssh.SSHClientChannel[bytes]) -> None:
        self.channel = cast("_Pipe", chan)

    def data_received(self, data: bytes, datatype: int | None) -> None:
        if datatype is None:
            self._agent_client.printed(data)
        else:
            self._agent_client.complained(data)

    def exit_status_received(self, status: int) -> None:
        self._exit_code = status

    def connection_lost(self, exc: Exception | None) -> None:
        reason = "the agent ended" if exc is None else _words(exc)
        self._agent_client.closed(reason, exit_code=self._exit_code)


_logger: Final = logging.getLogger("asyncssh")


def _quiet() -> None:
    """Have no line in everybody's log for each connection, unless somebody has said how much he wants."""
    if _logger.level == logging.NOTSET:
        _logger.setLevel(logging.WARNING)
