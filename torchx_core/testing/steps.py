"""What a test's program does, step by step: a vocabulary that any scheduler can run.

A step is also a word of a command line (``str(step)``): the arguments of a fake program, and of
`step_program`, which carries them out in a real process.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from torchx_core.schedulers.events import StreamName

__all__ = [
    "Exit",
    "FailUntil",
    "Hold",
    "Print",
    "PrintAttempt",
    "PrintMany",
    "Raise",
    "ReportMetric",
    "ReportProgress",
    "ReportResult",
    "Step",
    "Use",
    "read_step",
]

_PREFIX: Final[dict[StreamName, str]] = {"stdout": "", "stderr": "err-"}


@dataclass(frozen=True, slots=True)
class Print:
    """Print a line, or with ``eol=False`` a piece of one."""

    text: str
    stream: StreamName = "stdout"
    eol: bool = True

    def __str__(self) -> str:
        """Return ``print:text``."""
        return f"{_PREFIX[self.stream]}{'print' if self.eol else 'write'}:{self.text}"


@dataclass(frozen=True, slots=True)
class PrintMany:
    """Print the lines ``0``, ``1``, …, as many as ``count``."""

    count: int
    stream: StreamName = "stdout"

    def __str__(self) -> str:
        """Return ``lines:count``."""
        return f"{_PREFIX[self.stream]}lines:{self.count}"


@dataclass(frozen=True, slots=True)
class PrintAttempt:
    """Print ``count`` lines one by one, each with the text, the number of the attempt and its own number."""

    text: str
    count: int = 1
    stream: StreamName = "stdout"

    def __str__(self) -> str:
        """Return ``attempt:count:text``."""
        return f"{_PREFIX[self.stream]}attempt:{self.count}:{self.text}"

    def lines(self, attempt: int) -> list[str]:
        """Return what it prints in that attempt."""
        return [f"{self.text} {attempt} {i}" for i in range(self.count)]


@dataclass(frozen=True, slots=True)
class Exit:
    """End with this exit code; without it a program ends with 0 after its last step."""

    code: int

    def __str__(self) -> str:
        """Return ``exit:code``."""
        return f"exit:{self.code}"


@dataclass(frozen=True, slots=True)
class Raise:
    """Die of this signal, for example ``SIGKILL`` or ``SIGRTMIN+1``."""

    signal: str

    def __str__(self) -> str:
        """Return ``signal:name``."""
        return f"signal:{self.signal}"


@dataclass(frozen=True, slots=True)
class Hold:
    """Stay until told to end; a program with ``ignore_term`` ignores SIGTERM from its first step on."""

    ignore_term: bool = False

    def __str__(self) -> str:
        """Return ``hold`` or ``hold:ignore-term``."""
        return "hold:ignore-term" if self.ignore_term else "hold"


@dataclass(frozen=True, slots=True)
class Use:
    """Take so much memory, to the end of the attempt, and then so many seconds of CPU time."""

    cpu_s: float
    memory_mb: int = 0

    def __str__(self) -> str:
        """Return ``use:seconds:megabytes``."""
        return f"use:{self.cpu_s}:{self.memory_mb}"


@dataclass(frozen=True, slots=True)
class FailUntil:
    """End with the exit code in every attempt before this one."""

    attempt: int
    exit_code: int = 1

    def __str__(self) -> str:
        """Return ``fail-until:attempt:code``."""
        return f"fail-until:{self.attempt}:{self.exit_code}"


@dataclass(frozen=True, slots=True)
class ReportProgress:
    """Say how much of the work is done."""

    fraction: float
    message: str = ""

    def __str__(self) -> str:
        """Return ``progress:fraction:message``."""
        return f"progress:{self.fraction}:{self.message}"


@dataclass(frozen=True, slots=True)
class ReportMetric:
    """Report a number."""

    name: str
    value: float
    step: int | None = None

    def __str__(self) -> str:
        """Return ``metric:name:value:step``; the name has no colon."""
        return f"metric:{self.name}:{self.value}:{'' if self.step is None else self.step}"


@dataclass(frozen=True, slots=True)
class ReportResult:
    """Hand back a JSON value."""

    value: object

    def __str__(self) -> str:
        """Return ``result:`` and the JSON."""
        return f"result:{json.dumps(self.value)}"


Step: TypeAlias = (
    Print
    | PrintMany
    | PrintAttempt
    | Exit
    | Raise
    | Hold
    | Use
    | FailUntil
    | ReportProgress
    | ReportMetric
    | ReportResult
)


def read_step(text: str) -> Step:
    """Return the step that the word stands for; fields with a default may be left out.

    Raises:
        ValueError: There is no such step, or its fields are wrong.

    Example:
        >>> read_step("print:hello")
        Print(text='hello', stream='stdout', eol=True)
        >>> read_step("metric:loss:0.3")
        ReportMetric(name='loss', value=0.3, step=None)
    """
    word, _, rest = text.partition(":")
    if word not in _READERS:
        raise ValueError(f"unknown step {text!r}; known: {', '.join(_READERS)}")
    try:
        return _READERS[word](rest)
    except ValueError as err:
        raise ValueError(f"cannot read step {text!r}: {err}") from err


def _attempt(rest: str, stream: StreamName = "stdout") -> Step:
    count, _, text = rest.partition(":")
    return PrintAttempt(text, int(count), stream)


def _hold(rest: str) -> Step:
    if rest not in ("", "ignore-term"):
        raise ValueError("only 'ignore-term' may follow")
    return Hold(ignore_term=bool(rest))


def _use(rest: str) -> Step:
    cpu_s, _, memory_mb = rest.partition(":")
    return Use(float(cpu_s), int(memory_mb or 0))


def _fail_until(rest: str) -> Step:
    attempt, _, code = rest.partition(":")
    return FailUntil(int(attempt), int(code or 1))


def _progress(rest: str) -> Step:
    fraction, _, message = rest.partition(":")
    return ReportProgress(float(fraction), message)


def _metric(rest: str) -> Step:
    name, _, rest = rest.partition(":")
    value, _, step = rest.partition(":")
    return ReportMetric(name, float(value), int(step) if step else None)


_READERS: Final[dict[str, Callable[[str], Step]]] = {
    "print": Print,
    "err-print": lambda rest: Print(rest, "stderr"),
    "write": lambda rest: Print(rest, eol=False),
    "err-write": lambda rest: Print(rest, "stderr", eol=False),
    "lines": lambda rest: PrintMany(int(rest)),
    "err-lines": lambda rest: PrintMany(int(rest), "stderr"),
    "attempt": _attempt,
    "err-attempt": lambda rest: _attempt(rest, "stderr"),
    "exit": lambda rest: Exit(int(rest)),
    "signal": Raise,
    "hold": _hold,
    "use": _use,
    "fail-until": _fail_until,
    "progress": _progress,
    "metric": _metric,
    "result": lambda rest: ReportResult(json.loads(rest)),
}
