"""Whole lines out of a file that grows."""

from __future__ import annotations

from torchx_core.compat.backend import Lines, LogsUnavailableError
from torchx_core.supervisor.reading import DamagedFile, read_part

__all__ = ["read_lines"]

_CHUNK_BYTES = 1 << 20
"""The most that is read at once, and the longest piece of a line."""
_CONTINUATION = 0b1000_0000
_CONTINUATION_MASK = 0b1100_0000
_LONGEST_CHARACTER = 4


def read_lines(path: str, position: int, *, ended: bool) -> Lines:
    r"""Return the lines from that byte on; undecodable bytes become U+FFFD, ``\r`` stays.

    What follows the last newline is left for later, unless the writer has ended. A line longer than a
    chunk comes in pieces, always the same ones.

    Raises:
        LogsUnavailableError: What lies there is no log, or cannot be read just now.
    """
    try:
        data = read_part(path, position, _CHUNK_BYTES)
    except FileNotFoundError:
        return Lines((), position)
    except (DamagedFile, OSError) as err:
        raise LogsUnavailableError(str(err)) from err
    full = len(data) == _CHUNK_BYTES
    size = data.rfind(b"\n") + 1
    if size:
        return Lines(_split(data[: size - 1]), position + size, more=full or (ended and size < len(data)))
    if full:
        data = data[: _whole_characters(data)]
        return Lines(_split(data), position + len(data), eol=False, more=True)
    if ended and data:
        return Lines(_split(data), position + len(data), eol=False)
    return Lines((), position)


def _split(data: bytes) -> tuple[str, ...]:
    return tuple(data.decode(errors="replace").split("\n"))


def _whole_characters(data: bytes) -> int:
    """Return how much of the data can be decoded without cutting its last character."""
    for back in range(1, _LONGEST_CHARACTER):
        if data[-back] & _CONTINUATION_MASK != _CONTINUATION:
            return len(data) - back if data[-back] > _CONTINUATION else len(data)
    return len(data)
