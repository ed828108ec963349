"""How far a run's log and pictures have arrived, and who is told."""

from __future__ import annotations

import logging
from collections.abc import Callable
from time import monotonic
from typing import Final, final

from prefect_torchx.api import Api
from prefect_torchx.pictures import Pictures
from prefect_torchx.position import Position

__all__ = ["END", "Delivery"]

SAVE_EVERY_S = 1.0
"""How often somebody is told how far the log is."""

SAVE_AGAIN_S = 5.0
"""The same, when it could not be kept: an app that is silent now would be shown again from before."""

logger = logging.getLogger(__name__)

END: Final = object()
"""The token behind everything that a run sends."""


@final
class Delivery:
    """Hears from the courier what has arrived, and draws when that is due; runs in the courier's thread."""

    def __init__(self, on_delivered: Callable[[Position], bool] | None, pictures: Pictures) -> None:
        """Know of nothing that has arrived.

        Args:
            on_delivered: Told how far the log has arrived; returns whether that is kept, and may raise.
            pictures: What to draw.
        """
        self._position: Position | None = None
        self._told: Position | None = None
        self._on_delivered = on_delivered
        self._tell_at = 0.0
        self._pictures = pictures
        self._ended = False
        self._refused = 0

    @property
    def done(self) -> bool:
        """Whether nothing is left to do."""
        return self._ended and self._position is self._told and self._pictures.settled

    def start_at(self, position: Position) -> None:
        """Know what an earlier try has shown."""
        self._position = self._told = position

    def accepted(self, token: object) -> None:
        """Note how far the log has arrived."""
        if isinstance(token, Position):
            self._position = token
        else:
            self._ended = True
            self._tell_at = 0.0

    def refused(self, reason: str) -> None:
        """Say so, once."""
        self._refused += 1
        if self._refused == 1:
            logger.error("Prefect's API refuses a log record, the app's log files have it: %s", reason)

    def due(self) -> float:
        """Return when somebody is to be told or something to be drawn."""
        untold = self._position is not self._told
        return min(self._tell_at if untold else float("inf"), self._pictures.due())

    def draw(self, api: Api) -> None:
        """Tell and draw what is due; does not raise."""
        if self._position is not self._told and monotonic() >= self._tell_at:
            self._tell()
        if monotonic() >= self._pictures.due():
            self._draw(api)

    def _draw(self, api: Api) -> None:
        try:
            self._pictures.draw(api)
        except Exception:
            # Whatever a picture stumbles over, the logs of all runs are in the same thread, and go on.
            logger.warning("an app is not pictured any more", exc_info=True)
            self._pictures.stop()

    def _tell(self) -> None:
        position, kept = self._position, True
        try:
            if self._on_delivered is not None and position is not None:
                kept = self._on_delivered(position)
        except Exception:
            # What a caller's function does is not ours to judge: at worst some lines are shown again.
            logger.warning("the position in the log of an app could not be saved", exc_info=True)
        self._tell_at = monotonic() + (SAVE_EVERY_S if kept else SAVE_AGAIN_S)
        if kept or self._ended:
            self._told = position  # not before: who awaits the end awaits this too
