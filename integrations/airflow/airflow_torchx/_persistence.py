"""Asks a scheduler again that does not answer. Knows no Airflow."""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Event
from time import monotonic
from typing import TypeVar, final

from torchx_core.errors import SchedulerError
from torchx_core.launch import Patience

__all__ = ["TICK_S", "Persistence"]

logger = logging.getLogger(__name__)

T = TypeVar("T")

TICK_S = 0.2
"""How long a kill may go unnoticed; Airflow leaves a task 5 s between SIGTERM and SIGKILL."""


@final
class Persistence:
    """Waits for a scheduler that is away, and looks meanwhile whether it is time to go."""

    def __init__(self, look: Callable[[], None], give_up_s: float) -> None:
        """Have asked nothing yet.

        Args:
            look: Called at least every `TICK_S` while we wait; what it raises ends the wait.
            give_up_s: How long a scheduler may be away.
        """
        self._look = look
        self._give_up_s = give_up_s

    def patience(self) -> Patience:
        """Return what one absence may use up."""
        return Patience(self._give_up_s)

    def ask(self, question: Callable[[], T]) -> T:
        """Return the answer; ask again, so it must do no harm to ask twice, after a failure that passes.

        Raises:
            SchedulerError: It does not pass, or not in time.
        """
        patience = self.patience()
        while True:
            try:
                return question()
            except SchedulerError as err:
                self.endure(err, patience)

    def endure(self, error: SchedulerError, patience: Patience) -> None:
        """Wait until the scheduler may be asked again; raises as `ask` does."""
        delay_s = patience.delay_after(error)
        logger.warning("asking again in %g s: %s", delay_s, error)
        self.pause(delay_s)

    def pause(self, seconds: float) -> None:
        """Let so much time pass."""
        deadline = monotonic() + seconds
        tick = Event()
        while (left := deadline - monotonic()) > 0:
            tick.wait(min(TICK_S, left))
            self._look()
