"""How far a run's log and pictures have arrived, and who is told."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol, final

from prefect_torchx.api import Api
from prefect_torchx.pictures import Pictures
from prefect_torchx.position import Position
from torchx_core.specs import AppHandle

__all__ = ["END", "Delivery", "Keeper", "Mark", "Notice"]

logger = logging.getLogger(__name__)

END: Final = object()
"""The token behind everything that a run sends."""


class Mark(NamedTuple):
    """Everything before it of an app's output has been sent."""

    handle: AppHandle
    position: Position


class Keeper(Protocol):
    """Remembers how far a run's log has arrived: a `prefect_torchx.saved_position.SavedPosition`."""

    def note(self, handle: AppHandle, position: Position, /) -> None:
        """Remember it in this process; quick."""
        ...

    def save(self) -> bool:
        """Have later processes find what was noted last; return whether they do. It may raise."""
        ...


@final
class Delivery:
    """Hears from the log shipper what has arrived, saves and draws when told to; in its thread."""

    def __init__(
        self, keeper: Keeper | None, pictures: Pictures, on_refused: Callable[[str], None] | None = None
    ) -> None:
        """Know of nothing that has arrived.

        Args:
            keeper: Remembers how far the log has arrived.
            pictures: What to draw.
            on_refused: Told once, should Prefect's API not have a record: why.
        """
        self._mark: Mark | None = None
        self._saved: Mark | None = None
        self._keeper = keeper
        self._pictures = pictures
        self._on_refused = on_refused
        self._closing = False
        self._ended = False

    @property
    def done(self) -> bool:
        """Whether nothing is left to do."""
        return self._ended and not self.unsaved and self._pictures.settled

    @property
    def closing(self) -> bool:
        """Whether somebody waits for the rest of the log to arrive."""
        return self._closing and not self._ended

    @property
    def unsaved(self) -> bool:
        """Whether more has arrived than `save` has kept."""
        return self._mark is not self._saved

    @property
    def in_haste(self) -> bool:
        """Whether somebody waits for `save`, and for nothing else of the log."""
        return self._ended and self.unsaved

    def close(self) -> None:
        """Know that somebody waits for the end."""
        self._closing = True

    def accepted(self, token: object) -> None:
        """Note how far the log has arrived."""
        if not isinstance(token, Mark):
            self._ended = True
            return
        self._mark = token
        if self._keeper is not None:
            self._keeper.note(token.handle, token.position)

    def refused(self, reason: str) -> None:
        """Say so, once."""
        if self._on_refused is not None:
            self._on_refused(reason)
            self._on_refused = None

    def save(self) -> bool:
        """Save how far the log has arrived; return whether that is kept."""
        mark, kept = self._mark, True
        try:
            if self._keeper is not None:
                kept = self._keeper.save()
        except Exception:
            # Whatever it stumbles over: at worst some lines are shown again.
            logger.warning("the position in the log of an app could not be saved", exc_info=True)
        if kept:
            self._saved = mark  # not before: who awaits the end awaits this too
        return kept

    def due(self) -> float:
        """Return when there is something to draw."""
        return self._pictures.due()

    def draw(self, api: Api) -> bool:
        """Draw what is due, and return whether it was taken; does not raise."""
        try:
            return self._pictures.draw(api)
        except Exception:
            # Whatever a picture stumbles over, the logs of all runs are in the same thread, and go on.
            logger.warning("an app is not pictured any more", exc_info=True)
            self._pictures.stop()
            return True


@final
class Notice:
    """The sender of one message that outlives its run's own sender, and leaves when that has arrived."""

    closing = unsaved = in_haste = False

    def __init__(self, leave: Callable[[Notice], object]) -> None:
        """Have `leave` called when the message has arrived, or Prefect's API refuses it."""
        self._leave = leave

    def accepted(self, token: object) -> None:  # noqa: ARG002  # as every sender
        """Be served no more."""
        self._leave(self)

    def refused(self, reason: str) -> None:
        """Do nothing: standard error has the message."""

    def save(self) -> bool:
        """Save nothing."""
        return True

    def due(self) -> float:
        """Return that there is nothing to draw."""
        return float("inf")

    def draw(self, api: Api) -> bool:  # noqa: ARG002  # as every sender
        """Draw nothing."""
        return True
