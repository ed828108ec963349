"""One request to the engine and its answer, carried by a socket that is never waited for.

A whole answer is told from one that was cut off.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple, cast

from torchx_core.schedulers.docker.endpoint import Endpoint
from torchx_core.schedulers.docker.stream import Stream, open_stream

__all__ = ["Answer", "Body", "Exchange", "ProtocolError", "Request"]

_READ_SIZE = 1 << 17
_MAX_READ = 1 << 20
"""Bytes that one `advance` takes at most."""
_MAX_HEAD = 1 << 16
_CRLF = b"\r\n"
_MAX_SIZE_LINE = 1 << 12
_MAX_DIGITS = 18
_DIGITS = {10: frozenset("0123456789"), 16: frozenset("0123456789abcdefABCDEF")}


class ProtocolError(OSError):
    """The bytes are no HTTP answer, or not a whole one."""


class Request(NamedTuple):
    """What to ask for."""

    target: str
    """Path and query, without the API's version."""
    method: str = "GET"
    body: bytes = b""
    raw: bool = False
    """Have the answer sent without chunks (HTTP/1.0): faster to read, but a break looks like its end."""


class Answer(NamedTuple):
    """A whole answer."""

    status: int
    body: bytes

    @property
    def json(self) -> object:
        """The body, read as JSON."""
        return cast("object", json.loads(self.body))

    @property
    def message(self) -> str:
        """What an answer that says no says."""
        try:
            said = self.json
        except ValueError:
            return self.body.decode(errors="replace").strip()
        return str(cast("dict[str, object]", said).get("message")) if isinstance(said, dict) else str(said)


class Exchange:
    """Call `advance` whenever the descriptor is ready, until `over`.

    Each has a connection of its own: the engine serves them side by side, and closing one ends what it began.
    """

    def __init__(self, endpoint: Endpoint, version: str, request: Request) -> None:
        """Begin to connect; a failure is told by `failure`, never raised."""
        protocol = "HTTP/1.0" if request.raw else "HTTP/1.1"
        head = f"{request.method} /v{version}{request.target} {protocol}\r\n"
        head += "Host: engine\r\nConnection: close\r\n"
        if request.body:
            head += f"Content-Type: application/x-tar\r\nContent-Length: {len(request.body)}\r\n"
        self._unsent = f"{head}\r\n".encode() + request.body
        self._head = b""
        self._body: Body | None = None
        self._stream: Stream | None = None
        self.status: int = 0
        """HTTP's; 0 until the answer has begun."""
        self.failure: OSError | None = None
        """Why there is no (whole) answer, once that is known."""
        self.more: bool = False
        """Whether `advance` left something that is there already."""
        try:
            self._stream = open_stream(endpoint)
        except OSError as err:
            self.failure = err

    @property
    def whole(self) -> bool:
        """Whether the answer has arrived to its very end."""
        return self._body is not None and self._body.ended

    @property
    def over(self) -> bool:
        """Whether nothing more will come."""
        return self.whole or self.failure is not None

    @property
    def wants_write(self) -> bool:
        """Whether to wait until something can be written, too."""
        return self._stream is not None and (bool(self._unsent) or self._stream.wants_write)

    def fileno(self) -> int:
        """Return the descriptor to wait on; -1 when there is none."""
        return -1 if self._stream is None else self._stream.fileno()

    def advance(self) -> bytes:
        """Move what can be moved now and return the bytes of the body that came."""
        if self._stream is None:
            return b""
        parts: list[bytes] = []
        try:
            while self._unsent and (sent := self._stream.send(self._unsent)):
                self._unsent = self._unsent[sent:]
            self._receive(self._stream, parts)
        except OSError as err:
            self.failure = err
        if self.over:
            self.close()
        return b"".join(parts)

    def _receive(self, stream: Stream, parts: list[bytes]) -> None:
        size = 0
        self.more = True
        while size < _MAX_READ:
            data = stream.receive(_READ_SIZE)
            if data is None:
                self.more = False
                return
            if not data:
                self._at_end()
                return
            size += len(data)
            parts.append(self._take(data))
            if self.whole:
                return

    def _take(self, data: bytes) -> bytes:
        if self._body is None:
            self._head += data
            head, found, data = self._head.partition(b"\r\n\r\n")
            if not found:
                if len(self._head) > _MAX_HEAD:
                    raise ProtocolError("no end of the header")
                return b""
            self.status, self._body = _read_head(head)
            self._head = b""
        return self._body.take(data)

    def _at_end(self) -> None:
        if self._body is None or not self._body.end():
            raise ProtocolError("the engine closed the connection within an answer")

    def close(self) -> None:
        """Let go of the connection; may be called more than once."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None


def _read_head(head: bytes) -> tuple[int, Body]:
    first, *lines = head.decode("latin-1").split("\r\n")
    words = first.split(None, 2)
    if len(words) < 2 or not words[0].startswith("HTTP/") or not words[1].isdecimal():  # noqa: PLR2004  # RFC 9112
        raise ProtocolError(f"not an HTTP answer: {first[:80]!r}")
    fields = {
        name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)
    }
    return int(words[1]), Body(fields)


class Body:
    """The body of an answer: takes the bytes after the header, returns those of the content."""

    def __init__(self, fields: Mapping[str, str]) -> None:
        """Read from the header's fields (names in lower case) where the body ends.

        Source: RFC 9112, section 6.3. An engine sends long and endless answers in chunks, whose last one is
        empty: so the end of a log is told from the end of the engine.
        """
        self._chunked = "chunked" in fields.get("transfer-encoding", "").lower()
        length = fields.get("content-length")
        self._left = 0 if self._chunked or length is None else _size(length, 10)
        self._until_closed = not self._chunked and length is None
        self._line_end = 0  # bytes of it still to come, after a chunk
        self._rest: bytes = b""
        self.ended: bool = length == "0" and not self._chunked
        """Whether the body is complete."""

    def take(self, data: bytes) -> bytes:
        """Return the content among the next bytes."""
        if self._chunked:
            return self._dechunk(data)
        if self._until_closed:
            return data
        data = data[: self._left]
        self._left -= len(data)
        self.ended = not self._left
        return data

    def end(self) -> bool:
        """Take the end of the connection, and return whether the body is complete."""
        self.ended = self.ended or self._until_closed
        return self.ended

    def _dechunk(self, data: bytes) -> bytes:
        data = self._rest + data if self._rest else data
        parts: list[bytes] = []
        at, size = 0, len(data)
        while at < size and not self.ended:
            if self._left:
                parts.append(data[at : at + self._left])
                at += len(parts[-1])
                self._left -= len(parts[-1])
                self._line_end = 0 if self._left else len(_CRLF)
                continue
            if self._line_end:
                skipped = min(self._line_end, size - at)
                at += skipped
                self._line_end -= skipped
                if at == size:
                    break
            end = data.find(_CRLF, at)
            if end < 0:
                break
            length = _chunk_size(data[at:end])
            at = end + len(_CRLF)
            if at + length < size and length:  # whole, most are: no need to go round for it
                parts.append(data[at : at + length])
                at += length
                self._line_end = len(_CRLF)
            else:
                self._left = length
                self.ended = not length
        self._rest = data[at:]
        if len(self._rest) > _MAX_SIZE_LINE:
            raise ProtocolError("not the size of a chunk")
        return b"".join(parts)


def _chunk_size(line: bytes) -> int:
    return _size(line.partition(b";")[0].decode("latin-1").strip(" \t"), 16)


def _size(text: str, base: int) -> int:
    """Read a number of bytes: digits alone, where Python's ``int`` takes signs and underscores too."""
    if not 0 < len(text) <= _MAX_DIGITS or not set(text) <= _DIGITS[base]:
        raise ProtocolError(f"not the size of a chunk or of an answer: {text[:40]!r}")
    return int(text, base)
