"""A connection to an engine as bytes that come and go without ever waiting."""

from __future__ import annotations

import errno
import os
import socket
import ssl

from torchx_core.schedulers.docker.dial import SshTunnel, begin_tcp, connect_unix, tls_context
from torchx_core.schedulers.docker.endpoint import Endpoint

__all__ = ["Stream", "open_stream"]


class Stream:
    """A non-blocking connection; select on `fileno`, then call `send` and `receive` until they do nothing.

    It may still be connecting, or shaking hands for TLS: `send` and `receive` carry that on. TLS holds back
    bytes that select does not know of, so `receive` must be called until it returns None.

    Every method may raise OSError when the connection failed; nothing can be done with it then but `close`.
    """

    def __init__(
        self, connection: socket.socket, endpoint: Endpoint, tunnel: SshTunnel | None = None
    ) -> None:
        """Take the socket over; it may still be connecting."""
        connection.setblocking(False)  # noqa: FBT003  # the standard library's signature
        self._socket = connection
        self._endpoint = endpoint
        self._tunnel = tunnel
        self._opening = endpoint.parts.scheme == "tcp"
        self._shaking_hands = False
        self._received = False
        self.wants_write: bool = self._opening
        """Whether to wait until it can be written to, beside waiting for what can be read."""

    def fileno(self) -> int:
        """Return the descriptor to wait on."""
        return self._socket.fileno()

    def send(self, data: bytes) -> int:
        """Write as much as goes now and return how much that was."""
        if not self._opened():
            return 0
        try:
            sent = self._socket.send(data)
        except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
            sent = 0
        except ConnectionError as err:
            raise self._told(err) from err
        self.wants_write = sent < len(data)
        return sent

    def receive(self, size: int) -> bytes | None:
        """Return what is there, None when nothing is there now, and nothing at the end."""
        if not self._opened():
            return None
        try:
            data = self._socket.recv(size)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return None
        except ConnectionError as err:
            raise self._told(err) from err
        if not data and not self._received:
            raise self._told(ConnectionError("closed without an answer"))
        self._received = True
        return data

    def end(self) -> None:
        """Say that nothing more is sent; what is there to be received still comes."""
        self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Release everything; may be called more than once."""
        self._socket.close()
        if self._tunnel is not None:
            self._tunnel.close()

    def _told(self, err: ConnectionError) -> ConnectionError:
        """Return the error with what ssh said about it, if it did not get through."""
        if self._tunnel is None or self._received:
            return err
        return ConnectionError(f"no connection to {self._endpoint}: {self._tunnel.failure() or err}")

    def _opened(self) -> bool:
        """Carry connecting on; return whether the connection is there."""
        if self._opening and self._connected():
            self._opening = False
            self.wants_write = False
            if self._endpoint.tls is not None:
                self._socket = tls_context(self._endpoint.tls).wrap_socket(
                    self._socket, server_hostname=self._endpoint.parts.hostname, do_handshake_on_connect=False
                )
                self._shaking_hands = True
        return not self._opening and not (self._shaking_hands and self._shake_hands())

    def _connected(self) -> bool:
        failure = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if failure:
            raise OSError(failure, os.strerror(failure))
        try:
            self._socket.getpeername()
        except OSError as err:
            if err.errno != errno.ENOTCONN:
                raise
            return False
        return True

    def _shake_hands(self) -> bool:
        """Carry the handshake on; return whether it still goes on."""
        assert isinstance(self._socket, ssl.SSLSocket)
        try:
            self._socket.do_handshake()
        except ssl.SSLWantReadError:
            self.wants_write = False
        except ssl.SSLWantWriteError:
            self.wants_write = True
        else:
            self._shaking_hands = self.wants_write = False
        return self._shaking_hands


def open_stream(endpoint: Endpoint, timeout_s: float = 10.0) -> Stream:
    """Begin a connection to the engine.

    Args:
        endpoint: The engine.
        timeout_s: How long ssh may take to connect. A connection that hangs otherwise is the caller's to
            give up.

    Raises:
        OSError: It failed at once; what fails later is raised by the stream's methods.
    """
    parts = endpoint.parts
    match parts.scheme:
        case "unix":
            return Stream(connect_unix(parts.path, timeout_s), endpoint)
        case "ssh":
            tunnel = SshTunnel(endpoint, timeout_s)
            return Stream(tunnel.socket, endpoint, tunnel)
        case _:
            return Stream(begin_tcp(parts.hostname or "", parts.port or 0), endpoint)
