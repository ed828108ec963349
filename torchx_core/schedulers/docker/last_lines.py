"""The end of one container's log."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from torchx_core.schedulers.docker.client import Engine
from torchx_core.schedulers.docker.frames import STDERR, BadFrame, Record
from torchx_core.schedulers.docker.shim import parse_marker
from torchx_core.schedulers.last_lines import end_of
from torchx_core.specs import LastLines

__all__ = ["read_last_lines"]

LINES: Final = 1000
"""Of both streams together: an engine counts lines before it leaves those of the other out (20.10.24)."""


def read_last_lines(engine: Engine, container: str, key: str, attempt: int) -> LastLines:
    """Return what the attempt has printed last; nothing where the log is gone, or nobody can read it.

    Args:
        engine: Where the container is.
        container: Its name.
        key: What the markers of its attempts carry.
        attempt: Which of them.
    """
    with suppress(BadFrame):
        records = engine.last_records(container, LINES)
        on_stderr = [record for record in records if record.stream == STDERR]
        return LastLines(_of_attempt(records, key, attempt), _of_attempt(on_stderr, key, attempt))
    return LastLines((), ())


def _of_attempt(records: Sequence[Record], key: str, attempt: int) -> list[str]:
    """Return the lines, without those before the marker of the attempt, and without markers."""
    lines: list[str] = []
    for record in records:
        begun = parse_marker(record.data, key)
        if begun is None:
            lines.append(record.data.removesuffix(b"\n").decode("utf-8", "replace"))
        elif begun == attempt:
            lines.clear()
    return end_of(lines)
