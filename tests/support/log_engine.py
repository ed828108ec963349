"""An engine that has one container's log and nothing else, and ends its answers wherever it is told to."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from socket import AF_UNIX, SOCK_STREAM, socket
from struct import pack
from threading import Event, Thread
from types import TracebackType
from typing import Self
from urllib.parse import parse_qs, urlsplit

from torchx_core.schedulers.docker.endpoint import Endpoint
from torchx_core.schedulers.docker.frames import STDERR, STDOUT, Record, unix_time

__all__ = ["LogEngine"]

_WHOLE = 1 << 40


class LogEngine:
    """Answers what `ReplicaLog` asks, as engines do (seen on 20.10.24).

    The container prints while its log is followed: `ahead` records at each request for the log, and all when
    it is followed to the end. A followed log comes raw, another in chunks.
    """

    def __init__(self, socket_path: Path) -> None:
        self.records: Sequence[Record] = ()
        self.printed = 0
        """How many of the records there are by now."""
        self.ahead = 1
        self.cuts: list[int] = []
        """After how many bytes to end each of the next answers with a log."""
        self.refusals: list[int] = []
        """The statuses of the next answers, none of which says anything useful."""
        self.idle = Event()
        """Set while no connection is open here."""
        self.idle.set()
        self.answers = Event()
        """While not set, answers wait."""
        self.answers.set()
        self.endpoint = Endpoint(url=f"unix://{socket_path}", origin="the test")
        self._server = socket(AF_UNIX, SOCK_STREAM)
        self._server.bind(str(socket_path))
        self._server.listen()
        self._thread = Thread(target=self._serve)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, err: object, trace: TracebackType | None) -> None:
        self._server.shutdown(2)
        self._server.close()
        self._thread.join()

    @property
    def up(self) -> bool:
        """Whether the container goes on printing."""
        return self.printed < len(self.records)

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            self.idle.clear()
            with connection, suppress(OSError):  # the reader may leave at any moment
                request = connection.recv(1 << 16)
                while request and not request.endswith(b"\r\n\r\n"):
                    request += connection.recv(1 << 16)
                self._answer(request.split()[1].decode(), connection.sendall)
            self.idle.set()

    def _answer(self, target: str, send: Callable[[bytes], None]) -> None:
        self.answers.wait()
        if self.refusals:
            send(b"HTTP/1.1 %d No\r\nContent-Length: 2\r\n\r\nno" % self.refusals.pop(0))
            return
        url = urlsplit(target)
        if url.path.endswith("/json"):
            body = json.dumps({"HostConfig": {"LogConfig": {"Type": "json-file"}}}).encode()
            send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            return
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        follows = "follow" in query
        there = self.printed
        self.printed = min(len(self.records), self.printed + self.ahead)
        cut = self.cuts.pop(0) if self.cuts else _WHOLE
        if follows:
            there = self.printed = len(self.records) if cut == _WHOLE else self.printed
        body = b"".join(map(_frame, _asked(self.records[:there], query)))
        if follows:
            send(b"HTTP/1.0 200 OK\r\n\r\n" + body[:cut])
            return
        chunks = b"%x\r\n" % len(body) + body + b"\r\n0\r\n\r\n" if body else b"0\r\n\r\n"
        send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks[:cut])


def _asked(records: Sequence[Record], query: dict[str, str]) -> list[Record]:
    wanted = {s for s, name in ((STDOUT, "stdout"), (STDERR, "stderr")) if name in query}
    since = _nanoseconds(query["since"]) if "since" in query else 0
    found = [r for r in records if r.stream in wanted and _nanoseconds(unix_time(r.stamp)) >= since]
    return found[-int(query["tail"]) :] if "tail" in query else found


def _nanoseconds(unix: str) -> int:
    whole, _, fraction = unix.partition(".")
    return int(whole) * 10**9 + int(fraction)


def _frame(record: Record) -> bytes:
    text = record.stamp + b" " + record.data
    return pack(">B3xI", record.stream, len(text)) + text
