"""Opens connections to an engine: a socket for every kind of address.

Over ssh the socket is one end of a pair; the other end is standard input and output of the user's own ``ssh``
(with its configuration, keys and known hosts), which runs ``docker system dial-stdio`` over there.
"""

from __future__ import annotations

import errno
import os
import shlex
import socket
import ssl
import subprocess
import tempfile
from contextlib import suppress
from threading import Lock
from typing import IO

from torchx_core.errors import InvalidInputError
from torchx_core.schedulers.docker.endpoint import Endpoint, TlsFiles
from torchx_core.schedulers.ssh import kill_ssh, ssh_command

__all__ = ["SshTunnel", "Tunnels", "begin_tcp", "connect_tcp", "connect_unix", "tls_context"]

_END_S = 5.0


class SshTunnel:
    """An ``ssh`` process that carries one connection, and our end of it."""

    def __init__(self, endpoint: Endpoint, timeout_s: float) -> None:
        """Start it; whether it gets through shows in what can be read.

        Raises:
            OSError: There is no ``ssh`` here.
        """
        ours, theirs = socket.socketpair()
        self.socket: socket.socket = ours
        self._said: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  # closed by `close`
        try:
            self._process = subprocess.Popen(
                _command(endpoint, timeout_s),
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=self._said,
                start_new_session=True,
            )
        except OSError:
            self.socket.close()
            self._said.close()
            raise
        finally:
            theirs.close()

    @property
    def over(self) -> bool:
        """Whether the process has ended (and is reaped) and nobody reads what it sent."""
        return self._process.poll() is not None and self.socket.fileno() == -1

    def failure(self) -> str:
        """Return what ssh, or docker over there, said last; empty if nothing."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_S)
        self._said.seek(0)
        lines = self._said.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else ""

    def close(self) -> None:
        """End the process; may be called more than once."""
        self.socket.close()
        if self._process.poll() is None:
            kill_ssh(self._process.pid)  # what it carries needs no farewell
        self._process.wait()
        self._said.close()


class Tunnels:
    """The tunnels of one client, which may open them in several threads."""

    def __init__(self, endpoint: Endpoint) -> None:
        """Open none yet."""
        self._endpoint = endpoint
        self._lock = Lock()
        self._all: list[SshTunnel] = []

    def open(self, timeout_s: float) -> SshTunnel:
        """Open one more, and bury those that are over: nothing else tells us."""
        with self._lock:
            for over in [tunnel for tunnel in self._all if tunnel.over]:
                self._all.remove(over)
                over.close()
            tunnel = SshTunnel(self._endpoint, timeout_s)
            self._all.append(tunnel)
            return tunnel

    def close(self) -> None:
        """Close all."""
        with self._lock:
            while self._all:
                self._all.pop().close()


def _command(endpoint: Endpoint, timeout_s: float) -> list[str]:
    parts = endpoint.parts
    there = f"--host unix://{shlex.quote(parts.path)} " if parts.path else ""
    return ssh_command(
        parts.hostname or "",
        f"docker {there}system dial-stdio",
        user=parts.username,
        port=parts.port,
        timeout_s=timeout_s,
    )


def connect_unix(path: str, timeout_s: float) -> socket.socket:
    """Return a connection to the socket of that path.

    Raises:
        OSError: Nobody listens there.
    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(timeout_s)
    try:
        connection.connect(path)
    except OSError:
        connection.close()
        raise
    return connection


def connect_tcp(endpoint: Endpoint, timeout_s: float) -> socket.socket:
    """Return a blocking connection to a ``tcp://`` engine, with TLS where it has some.

    Raises:
        OSError: Nobody answers, or one of the two does not trust the other.
    """
    parts = endpoint.parts
    connection = socket.create_connection((parts.hostname or "", parts.port or 0), timeout_s)
    keep_alive(connection)
    if endpoint.tls is None:
        return connection
    try:
        return tls_context(endpoint.tls).wrap_socket(connection, server_hostname=parts.hostname)
    except OSError:
        connection.close()
        raise


def begin_tcp(host: str, port: int) -> socket.socket:
    """Return a non-blocking socket that is connecting to the first address that does not refuse at once.

    Resolving a name may block; an address that is a number does not.

    Raises:
        OSError: The name has no address, or all refuse.
    """
    problem = OSError(f"no address for {host}")
    for family, kind, protocol, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        connection = socket.socket(family, kind, protocol)
        connection.setblocking(False)  # noqa: FBT003  # the standard library's signature
        refused = connection.connect_ex(address)
        if refused in {0, errno.EINPROGRESS}:
            keep_alive(connection)
            return connection
        connection.close()
        problem = OSError(refused, os.strerror(refused))
    raise problem


def keep_alive(connection: socket.socket) -> None:
    """Let the kernel find out when the peer is gone: an idle event stream never writes."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def tls_context(files: TlsFiles) -> ssl.SSLContext:
    """Return what TLS connections are made with.

    Raises:
        InvalidInputError: A file cannot be used.
    """
    try:
        context = ssl.create_default_context(cafile=files.ca)
        if files.cert and files.key:
            context.load_cert_chain(files.cert, files.key)
    except OSError as err:  # ssl's errors are among them
        used = ", ".join(path for path in (files.ca, files.cert, files.key) if path)
        raise InvalidInputError(f"cannot use the TLS files {used}: {err}") from err
    if not files.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
