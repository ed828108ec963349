"""The body of an HTTP/1.1 answer, taken apart as it comes; knows a whole body from one that was cut off."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["Body", "ProtocolError"]

_CRLF = b"\r\n"
_MAX_SIZE_LINE = 1 << 12
_MAX_DIGITS = 18
_DIGITS = {10: frozenset("0123456789"), 16: frozenset("0123456789abcdefABCDEF")}


class ProtocolError(OSError):
    """The bytes are no HTTP answer, or not a whole one."""


class Body:
    """Takes the bytes after the header, returns those of the content."""

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
