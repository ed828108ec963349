"""Signals: their names, and how a loop over descriptors hears of them."""

from __future__ import annotations

import os
import signal
from io import FileIO

_SHELLS_BASE, _SIGNALS = 128, 64
"""What a shell and a container add to the number of the signal that killed a program; how many there are."""


def signal_name(number: int) -> str:
    """Return the one name that a signal has in everything we show.

    Example:
        >>> signal_name(9), signal_name(37)
        ('SIGKILL', 'SIGRTMIN+3')
    """
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIGRTMIN{number - signal.SIGRTMIN:+d}"


def signal_number(name: str) -> int | None:
    """Return the number of what `signal_name` names, or None for another text."""
    if name in signal.Signals.__members__:
        return signal.Signals[name]
    offset = name.removeprefix("SIGRTMIN")
    return signal.SIGRTMIN + int(offset) if offset[:1] in ("+", "-") and offset[1:].isdecimal() else None


def exit_of(code: int | None) -> tuple[int | None, str | None]:
    """Return exit code and signal, of which a shell and a container make one number; one of them is None.

    Example:
        >>> exit_of(137), exit_of(163), exit_of(3)
        ((None, 'SIGKILL'), (None, 'SIGRTMIN+1'), (3, None))
    """
    if code is None or not _SHELLS_BASE < code <= _SHELLS_BASE + _SIGNALS:
        return code, None
    return None, signal_name(code - _SHELLS_BASE)


def signal_pipe(*numbers: int) -> FileIO:
    """Return a pipe that becomes readable, with the numbers as bytes, when one of these arrives."""
    read, write = os.pipe()
    os.set_blocking(read, False)  # its parameter has no name
    os.set_blocking(write, False)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    for number in numbers:
        signal.signal(number, _noted)
    return FileIO(read)


def _noted(_number: int, _frame: object) -> None:
    """Do nothing: the wake-up descriptor has the number already."""
