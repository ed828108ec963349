"""How an attempt ended, from the exit code that a shell would show."""

from __future__ import annotations

from signal import Signals

__all__ = ["exit_of"]

_SIGNAL_BASE, _SIGNALS = 128, 64


def exit_of(code: int | None) -> tuple[int | None, str | None]:
    """Return exit code and name of the signal; one of them is None.

    Example:
        >>> exit_of(137), exit_of(3)
        ((None, 'SIGKILL'), (3, None))
    """
    if code is None or not _SIGNAL_BASE < code <= _SIGNAL_BASE + _SIGNALS:
        return code, None
    number = code - _SIGNAL_BASE
    try:
        return None, Signals(number).name
    except ValueError:
        return None, f"signal {number}"
