"""Says events in a few words, the same in every engine's log."""

from __future__ import annotations

import json
from typing import TypeAlias, assert_never

from torchx_core.display.usage import usage_text
from torchx_core.schedulers import (
    Link,
    LogLines,
    LogsLost,
    Metric,
    Progress,
    ReplicaChanged,
    Result,
    StateChanged,
    UsageSample,
)
from torchx_core.schedulers.events import Report
from torchx_core.specs import AppHandle
from torchx_core.terminal import harmless

__all__ = ["Happening", "as_shown", "begun", "cut", "describe", "prefix", "whole_log"]

Happening: TypeAlias = ReplicaChanged | Report | LogsLost | UsageSample
"""What becomes of a replica, but for what it prints."""

_RESULT_CHARS = 1000
_PROGRAM_LINES = 20
"""An argument with more lines is a program, as components pass them, in which other words get lost."""


def prefix(event: LogLines | Happening) -> str:
    """Return ``[role/replica]``."""
    return harmless(f"[{event.role}/{event.replica}]")


def describe(event: StateChanged | Happening) -> str:
    """Return what happened, without whom it happened to; nothing in it drives a terminal.

    Example:
        >>> describe(Progress(role="r", replica=0, attempt=0, fraction=0.5, message="epoch 5", time=0.0))
        'progress 50%: epoch 5'
    """
    return harmless(_described(event))


def _described(event: StateChanged | Happening) -> str:
    match event:
        case StateChanged():
            return _with_reason(f"is {event.state}", event.msg)
        case ReplicaChanged():
            return _with_reason(f"is {event.state}{_how(event)}{_again(event)}", event.msg)
        case LogsLost():
            size = "some" if event.size_bytes is None else f"{event.size_bytes} bytes of"
            return f"{size} output lost: {event.reason}"
        case UsageSample():
            return f"uses {usage_text(event.usage)}"
        case _:
            return _reported(event)


def _reported(report: Report) -> str:
    match report:
        case Progress():
            return _with_reason(f"progress {report.fraction:.0%}", report.message)
        case Metric():
            step = "" if report.step is None else f" at step {report.step}"
            return f"metric {report.name} = {report.value:g}{step}"
        case Result():
            return f"result {cut(json.dumps(report.value), _RESULT_CHARS)}"
        case Link():
            return f"link {report.name}: {report.target}"
        case _:
            assert_never(report)


def as_shown(line: str, *, colours: bool = True) -> str:
    r"""Return what a terminal may show: of a progress bar, redrawn after each ``\r``, its last state.

    What would do more to a terminal than give it words and colours is left out (`harmless`).

    Args:
        line: As a program wrote it.
        colours: Whether colours stay.
    """
    return harmless(line.rstrip("\r").rpartition("\r")[2], colours=colours)


def cut(text: str, size: int) -> str:
    """Return the text, or its first characters and an ellipsis."""
    return text if len(text) <= size else f"{text[:size]}…"


def begun(text: str, gap: str = " … ", hint: str = "") -> str:
    """Return an argument as people may read it: of a whole program the first line, and how much follows.

    Args:
        text: The argument.
        gap: What stands between the line and the number of those that follow.
        hint: What is said after that number.
    """
    first, *rest = text.rstrip("\n").split("\n")
    return text if len(rest) < _PROGRAM_LINES else f"{first}{gap}({len(rest)} lines more{hint})"


def whole_log(handle: AppHandle) -> str:
    """Say how to see what an engine's log does not show; not where its files are, which may be elsewhere."""
    return f"`torchx-core log {handle}` shows the whole log"


def _how(event: ReplicaChanged) -> str:
    if event.signal is not None:
        return f", killed by {event.signal}"
    return f", exit code {event.exit_code}" if event.exit_code else ""


def _again(event: ReplicaChanged) -> str:
    return f" (attempt {event.attempt + 1})" if event.attempt else ""


def _with_reason(text: str, reason: str) -> str:
    return f"{text}: {reason}" if reason else text
