"""Stands between us and an engine's socket: delays, cuts and breaks answers, and stops at a given request."""

from __future__ import annotations

import random
import re
import select
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

__all__ = ["DockerProxy", "Fate", "bad_fate", "proxied"]

_CHUNK = 1 << 16
_MOST_HEAD = 1 << 20
_REFUSAL = b"HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s"


class Fate(NamedTuple):
    """What becomes of one request."""

    delay_s: float = 0.0
    passed_on: bool = True
    """Whether the engine gets it."""
    bytes_back: int | None = None
    """After how many bytes of the engine's answer the connection is cut; None for the whole answer."""
    answer: bytes = b""
    """What is answered in the engine's stead to what is not passed on; empty: the connection is cut."""


class DockerProxy:
    """One connection carries one request here, so that each has a fate of its own."""

    def __init__(self, path: Path, engine: str) -> None:
        """Listen; nothing is accepted before `serve`."""
        self.url = f"unix://{path}"
        self._engine = engine.removeprefix("unix://")
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen(128)
        self._rng: random.Random | None = None
        self._lock = threading.Lock()
        self._stop_at: re.Pattern[str] | None = None
        self._left = 0
        self._after = False
        self.reached = threading.Event()
        """Set when the request that was asked for by `stop_at` has come."""
        self._go_on = threading.Event()

    def harass(self, rng: random.Random) -> None:
        """Treat one request in six badly from now on."""
        self._rng = rng

    def calm(self) -> None:
        """Pass everything on from now on, and let go of what was stopped."""
        self._rng = self._stop_at = None
        self._go_on.set()

    def stop_at(self, pattern: str, number: int = 0, *, after: bool = False) -> None:
        """Let the client wait at the request of that number whose first line matches, before or after it."""
        self._stop_at, self._left, self._after = re.compile(pattern), number, after

    def serve(self) -> None:
        """Accept connections until `close`."""
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve_one, args=(client,), daemon=True).start()

    def close(self) -> None:
        """Accept no more."""
        self.calm()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _serve_one(self, client: socket.socket) -> None:
        with client, suppress(OSError):  # either side may leave
            head, found, body = _read_head(client)
            if found:
                self._pass(client, head, body)

    def _pass(self, client: socket.socket, head: bytes, body: bytes) -> None:
        first = head.partition(b"\r\n")[0].decode("latin-1")
        stops = self._is_stop(first)
        fate = self._fate(first)
        if stops and not self._after:
            self._wait()
            return
        threading.Event().wait(fate.delay_s)
        if not fate.passed_on:
            client.sendall(fate.answer)
            return
        with socket.socket(socket.AF_UNIX) as engine:
            engine.connect(self._engine)
            engine.sendall(_closing(head) + b"\r\n\r\n" + body)
            _pump(client, engine, 0 if stops else fate.bytes_back)
        if stops:
            self._wait()

    def _wait(self) -> None:
        self.reached.set()
        self._go_on.wait()

    def _is_stop(self, first: str) -> bool:
        with self._lock:
            if self._stop_at is None or not self._stop_at.search(first):
                return False
            self._left -= 1
            return self._left == -1

    def _fate(self, first: str) -> Fate:
        with self._lock:
            rng = self._rng
            return Fate() if rng is None or rng.random() > 1 / 6 else bad_fate(first, rng)


def bad_fate(first: str, rng: random.Random) -> Fate:
    """Draw what goes wrong; the engine is never made to lie about what it has done."""
    delay_s = rng.choice((0.0, 0.0, rng.uniform(0, 0.4)))
    fates = [
        Fate(delay_s=rng.uniform(0, 0.4)),
        Fate(delay_s=delay_s, passed_on=False),
        Fate(delay_s=delay_s, bytes_back=rng.choice((0, 1, 20, 150, 400, 3000))),
    ]
    if first.startswith("GET"):
        fates += [
            Fate(passed_on=False, answer=_answer(b"500 Internal Server Error", b'{"message": "the oracle"}')),
            Fate(passed_on=False, answer=_answer(b"502 Bad Gateway", b"<html>bad gateway</html>")),
            Fate(passed_on=False, answer=b"what is this\r\n\r\n"),
        ]
        if "/logs" not in first and "/archive" not in first and "/events" not in first:
            fates += [
                Fate(passed_on=False, answer=_answer(b"200 OK", body))
                for body in (b"", b"<html>hotel</html>", b"[[[", b'{"a', b"\xff\xfe")
            ]
    return rng.choice(fates)


def _answer(status: bytes, body: bytes) -> bytes:
    return _REFUSAL % (status, b"application/json", len(body), body)


def _read_head(client: socket.socket) -> tuple[bytes, bytes, bytes]:
    data = b""
    while b"\r\n\r\n" not in data and len(data) < _MOST_HEAD and (more := client.recv(_CHUNK)):
        data += more
    return data.partition(b"\r\n\r\n")


def _closing(head: bytes) -> bytes:
    """Ask the engine to close the connection after its answer."""
    lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"connection:")]
    return b"\r\n".join([*lines, b"Connection: close"])


def _pump(client: socket.socket, engine: socket.socket, left: int | None) -> None:
    while left is None or left >= 0:
        ready, _, _ = select.select([client, engine], [], [])
        if client in ready:
            data = client.recv(_CHUNK)
            if not data:
                return
            engine.sendall(data)
        if engine in ready:
            data = engine.recv(_CHUNK)
            if not data:
                return
            if left is not None:
                data, left = data[:left], left - len(data)
            client.sendall(data)


@contextmanager
def proxied(path: Path, engine: str) -> Iterator[DockerProxy]:
    """Run a proxy that listens at the path before the engine of that address."""
    proxy = DockerProxy(path, engine)
    thread = threading.Thread(target=proxy.serve, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.close()
        thread.join()
