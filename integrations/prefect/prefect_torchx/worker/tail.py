"""Picks out of a process's output what Prefect has not got already; pure.

A flow's process writes its log records twice: to Prefect's server, and to its own output as
``12:00:00.000 | INFO    | Flow run 'a-b' - message``. What it prints when it is killed, or cannot start, only
its output has.
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["unsent"]

_BEFORE_MESSAGE = " - "


def unsent(output: Iterable[str], messages: Iterable[str]) -> list[str]:
    """Return the lines that no message holds, in order, blank ones at either end left out.

    Args:
        output: Lines of the process.
        messages: What the server has in the log of the flow run.

    Example:
        >>> unsent(["09:00 | INFO | Flow run 'a' - hello", "Segmentation fault"], ["hello"])
        ['Segmentation fault']
    """
    sent = {line.rstrip() for message in messages for line in message.splitlines() if line.strip()}
    left = [line for line in output if not _is_sent(line.rstrip(), sent)]
    while left and not left[0].strip():
        del left[0]
    while left and not left[-1].strip():
        del left[-1]
    return left


def _is_sent(line: str, sent: set[str]) -> bool:
    if line in sent:
        return True
    start = line.find(_BEFORE_MESSAGE)
    while start >= 0:
        if line[start + len(_BEFORE_MESSAGE) :] in sent:
            return True
        start = line.find(_BEFORE_MESSAGE, start + 1)
    return False
