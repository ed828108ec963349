"""Signals, as a loop over descriptors wants them."""

from __future__ import annotations

import os
import signal


def signal_name(number: int) -> str:
    """Return ``SIGKILL`` for 9, ``SIGRTMIN+3`` for 37."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIGRTMIN+{number - signal.SIGRTMIN}"


def signal_pipe(*numbers: int) -> int:
    """Return a descriptor that becomes readable, with the numbers as bytes, when one of these arrives."""
    read, write = os.pipe()
    os.set_blocking(read, False)  # its parameter has no name
    os.set_blocking(write, False)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    for number in numbers:
        signal.signal(number, _noted)
    return read


def _noted(_number: int, _frame: object) -> None:
    """Do nothing: the wake-up descriptor has the number already."""
