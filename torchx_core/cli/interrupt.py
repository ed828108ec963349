"""Ctrl-C while an app is followed: cancel it, leave it running, or go on.

A human's act may end an app; what happens to the shell may not. So SIGINT asks whoever sits at the terminal,
and SIGTERM and SIGHUP leave at once while the app goes on.
"""

from __future__ import annotations

import signal
from collections import deque
from collections.abc import Callable, Mapping
from enum import Enum
from functools import partial
from types import FrameType, TracebackType
from typing import Final, Self

from torchx_core.cli.keys import Keys

__all__ = ["Happening", "Interrupts", "Phase", "next_phase"]


class Phase(Enum):
    """How far somebody is with ending the following."""

    FOLLOWING = "following"
    ASKING = "asking"
    """The question is on the screen; the app and its log go on."""
    CANCELLING = "cancelling"
    """The app was cancelled; it is followed to its end."""
    LEAVING = "leaving"
    """Stop following; the app goes on, or is being cancelled already."""


class Happening(Enum):
    """What moves a phase on."""

    INTERRUPT = "SIGINT, with somebody there to ask"
    INTERRUPT_UNASKED = "SIGINT, with nobody there to ask"
    HANG_UP = "SIGTERM or SIGHUP"
    SAID_CANCEL = "c"
    SAID_DETACH = "d"
    SAID_OTHER = "another key"


_TRANSITIONS: Final[Mapping[tuple[Phase, Happening], Phase]] = {
    (Phase.FOLLOWING, Happening.INTERRUPT): Phase.ASKING,
    (Phase.ASKING, Happening.INTERRUPT): Phase.CANCELLING,  # who presses Ctrl-C again means it
    (Phase.ASKING, Happening.SAID_CANCEL): Phase.CANCELLING,
    (Phase.ASKING, Happening.SAID_DETACH): Phase.LEAVING,
    (Phase.ASKING, Happening.SAID_OTHER): Phase.FOLLOWING,
    (Phase.CANCELLING, Happening.INTERRUPT): Phase.LEAVING,
    (Phase.CANCELLING, Happening.INTERRUPT_UNASKED): Phase.LEAVING,
    **{(phase, Happening.HANG_UP): Phase.LEAVING for phase in Phase},
}
_UNHEEDED: Final = 3
_KEYS: Final = {b"c": Happening.SAID_CANCEL, b"d": Happening.SAID_DETACH}


def next_phase(phase: Phase, happening: Happening, unasked: Phase) -> Phase:
    """Return the phase after something happened; what means nothing in a phase changes nothing.

    Args:
        phase: The present one.
        happening: What happened.
        unasked: What SIGINT leads to when nobody can be asked: CANCELLING or LEAVING.
    """
    if (phase, happening) == (Phase.FOLLOWING, Happening.INTERRUPT_UNASKED):
        return unasked
    return _TRANSITIONS.get((phase, happening), phase)


class Interrupts:
    """Turns this process's signals into a phase, which whoever follows looks at between two batches.

    A handler only notes the signal: raising from one could tear anything in two. A signal that was ignored
    when the process started stays ignored, as under ``nohup`` and for a script's background jobs.
    """

    def __init__(self, *, unasked: Phase) -> None:
        """Change nothing yet; ``unasked`` is for `next_phase`."""
        self.phase: Phase = Phase.FOLLOWING
        self.signal: signal.Signals = signal.SIGINT
        """The last one that came."""
        self.cancelled: bool = False
        """Whether the app was to be cancelled."""
        self._unasked = unasked
        self._came: deque[int] = deque()
        self._restore: list[Callable[[], object]] = []
        self._keys = Keys()

    def __enter__(self) -> Self:
        """Listen."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._restore.append(partial(signal.signal, number, signal.signal(number, self._note)))
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        """Put everything back."""
        self._keys.close()
        while self._restore:
            self._restore.pop()()

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self._came.append(number)
        if list(self._came)[-_UNHEEDED:] == [signal.SIGINT] * _UNHEEDED:
            raise KeyboardInterrupt  # nobody looks: a submit takes long, building an image, say

    def look(self) -> Phase:
        """Take in what came since the last look, and return the phase."""
        while self._came:
            self._move(self._happening(self._came.popleft()))
        if self.phase is Phase.ASKING:
            key = self._keys.read()
            if key is not None:
                self._move(_KEYS.get(key.lower(), Happening.SAID_OTHER) if key else Happening.HANG_UP)
        return self.phase

    def _happening(self, number: int) -> Happening:
        self.signal = signal.Signals(number)
        if number != signal.SIGINT:
            return Happening.HANG_UP
        return Happening.INTERRUPT if self._keys.somebody_is_there() else Happening.INTERRUPT_UNASKED

    def _move(self, happening: Happening) -> None:
        self.phase = next_phase(self.phase, happening, self._unasked)
        self.cancelled |= self.phase is Phase.CANCELLING
        if self.phase is Phase.ASKING:
            self._keys.open()
        else:
            self._keys.close()
