"""Picks one replica's lines out of an event stream."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime

from torchx_core.errors import InvalidInputError
from torchx_core.schedulers.events import Batch
from torchx_core.schedulers.responses import Capabilities

__all__ = ["check_window", "select_lines"]


def check_window(
    backend: str, capabilities: Capabilities, since: datetime | None, until: datetime | None
) -> None:
    """Refuse a time window where no line bears its time: it would leave out lines that belong into it.

    Raises:
        InvalidInputError: The scheduler does not tell when a line was written.
    """
    if (since or until) and not capabilities.log_times:
        raise InvalidInputError(f"{backend} does not tell when a line was written; leave out since and until")


def select_lines(
    batches: Iterator[Batch], replica: int, regex: str | None, since: datetime | None, until: datetime | None
) -> Iterator[str]:
    r"""Yield the replica's lines in the time window, each as it was written.

    ``\n`` follows every line that had one.
    """
    pattern = re.compile(regex) if regex is not None else None
    first = since.timestamp() if since is not None else float("-inf")
    end = until.timestamp() if until is not None else float("inf")
    for batch in batches:
        for line in batch.lines():
            if line.replica != replica or not first <= line.time < end:
                continue
            if pattern is None or pattern.search(line.text):
                yield line.text + "\n" if line.eol else line.text
