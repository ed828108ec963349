"""Picks one replica's lines out of an event stream."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime

from torchx_core.schedulers import Batch

__all__ = ["select_lines"]


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
