"""Stands between Prefect and its server, and cuts off answers after the server has served the request."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["AnswerCutter", "cutting"]

RECORDS = b"POST /api/logs/ "


class AnswerCutter:
    """A proxy; of some requests, unless told otherwise those that bring log records, it cuts off answers."""

    def __init__(self, port: int) -> None:
        """Do nothing yet.

        Args:
            port: Where the server listens on this host.
        """
        self.requests = RECORDS
        """How the requests begin whose answers are cut off."""
        self.cuts = 0
        """How many answers are still to be cut off."""
        self._server = ("127.0.0.1", port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/api"

    def serve(self) -> None:
        """Accept connections until `close`."""
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._pass_on, args=(client,), daemon=True).start()

    def close(self) -> None:
        """Accept no more; what is connected stays so."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _pass_on(self, client: socket.socket) -> None:
        """Pass a connection on, request by request; Prefect's client awaits each answer."""
        with client, socket.create_connection(self._server) as server:
            doomed = threading.Event()
            back = threading.Thread(target=self._pass_back, args=(server, client, doomed), daemon=True)
            back.start()
            while data := _received(client):
                if data.startswith(self.requests) and self.cuts:
                    self.cuts -= 1
                    doomed.set()
                server.sendall(data)
            server.shutdown(socket.SHUT_WR)
            back.join()

    def _pass_back(self, server: socket.socket, client: socket.socket, doomed: threading.Event) -> None:
        while (data := _received(server)) and not doomed.is_set():
            client.sendall(data)
        client.shutdown(socket.SHUT_RDWR)


def _received(connection: socket.socket) -> bytes:
    try:
        return connection.recv(1 << 16)
    except OSError:
        return b""


@contextmanager
def cutting(port: int) -> Iterator[AnswerCutter]:
    """Run a proxy before the server on that port."""
    proxy = AnswerCutter(port)
    thread = threading.Thread(target=proxy.serve, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.close()
        thread.join()
