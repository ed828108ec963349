"""Single key presses from the terminal."""

from __future__ import annotations

import os
import select
import sys
import termios
import tty
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

__all__ = ["Keys"]

_STDIN: Final = 0


class Keys:
    """Single key presses, between `open` and `close`."""

    def __init__(self) -> None:
        """Leave the terminal as it is."""
        self._restore: Callable[[], object] | None = None

    def somebody_is_there(self) -> bool:
        """Return whether our terminal's keys would come to us, and a question on stderr would be seen."""
        try:
            seen = sys.stderr is not None and sys.stderr.isatty()
            return seen and os.isatty(_STDIN) and os.tcgetpgrp(_STDIN) == os.getpgrp()
        except OSError:
            return False

    def open(self) -> None:
        """Deliver keys as they are pressed, without showing them; Ctrl-C stays a signal."""
        if self._restore is None:
            with suppress(termios.error):
                before = termios.tcgetattr(_STDIN)
                self._restore = partial(termios.tcsetattr, _STDIN, termios.TCSADRAIN, before)
                tty.setcbreak(_STDIN)

    def close(self) -> None:
        """Deliver lines again."""
        if self._restore is not None:
            with suppress(termios.error):
                self._restore()
            self._restore = None

    def read(self, timeout_s: float = 0.0) -> bytes | None:
        """Return a key that was pressed, None when none was in time, nothing when the terminal is gone."""
        try:
            ready, _, _ = select.select([_STDIN], [], [], timeout_s)
            return os.read(_STDIN, 1) if ready else None
        except OSError:
            return b""
