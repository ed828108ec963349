"""Shows an app's events on a page, from where the page stopped. Knows no Prefect."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import Protocol, final

from prefect_torchx import background
from prefect_torchx.driver import TICK_S, Follow, Pause, Procedure, patiently
from prefect_torchx.position import Position
from torchx_core.display.services import may_tell_hosts
from torchx_core.errors import InvalidCursorError, TorchXError
from torchx_core.launch import Patience
from torchx_core.runner import Runner
from torchx_core.schedulers import AppEvent, Batch, StateChanged
from torchx_core.specs import AppHandle, AppStatus

__all__ = ["SIGN_EVERY_S", "Page", "Reading", "is_unfinished"]

logger = logging.getLogger(__name__)

PATIENCE_S = 1800.0
"""How long the scheduler may be away while the app runs; then the try fails, and a retry finds the app."""
ASK_EVERY_S = 2.0
"""How often it is asked whether a later try has the app."""
SIGN_EVERY_S = 20.0
"""How often at least a follower says how far it is: a try on another host learns that it lives."""
KEEP_LEASE_S = 20.0
"""How often the app's lease is renewed while the page is full."""


class Page(Protocol):
    """Where an app's events are shown. Nothing here blocks or fails."""

    @property
    def full(self) -> bool:
        """Whether it can take no more just now."""
        ...

    def submitted(self, handle: AppHandle, position: Position | None = None) -> None:
        """Learn which app it is, and how far earlier tries have shown it."""
        ...

    def write(self, event: AppEvent) -> None:
        """Take an event."""
        ...

    def mark(self, cursor: str) -> None:
        """Learn that everything before the cursor was written."""
        ...

    def tick(self) -> None:
        """Show what has waited long enough."""
        ...

    def say(self, message: str) -> None:
        """Show a message of our own."""
        ...


def is_unfinished(runner: Runner, handle: AppHandle, place: Position) -> bool:
    """Return whether there is, or will be, more of the app's output behind the place."""
    status = runner.status(handle)
    if status is None or not status.is_terminal():
        return True
    return any(batch.events for batch in runner.follow(handle, place.cursor or None))


@final
class Reading:
    """One app's events, as far as they were shown."""

    def __init__(
        self,
        handle: AppHandle,
        page: Page,
        position: Position | None,
        locate: Callable[[], bool] | None = None,
        is_overtaken: Callable[[], bool] | None = None,
    ) -> None:
        """Begin at the position, or at the start.

        Args:
            handle: The app.
            page: Where its events go.
            position: How far they were shown before.
            locate: Asks the scheduler where the app's replicas are, and returns whether all of that is known;
                called when a replica may have got its host, until it is.
            is_overtaken: Asked now and then, in a thread, whether a later try shows the app in the same log.
        """
        self._handle = handle
        self._page = page
        self._locate = locate
        self._is_overtaken = is_overtaken
        self._ask_at = monotonic() + ASK_EVERY_S
        self._muted = False
        self._sign_at = monotonic() + SIGN_EVERY_S
        self._cursor = position.cursor or None if position else None
        self._to_locate = self._cursor is not None  # the replicas may have been started before
        self._patience = Patience(PATIENCE_S)
        self._deadline = float("inf")
        self._status: AppStatus | None = None
        self._stopped = False

    def until(self, deadline: float = float("inf")) -> Procedure[AppStatus | None]:
        """Show events until the app is terminal, and return its status.

        Args:
            deadline: When to stop before, in monotonic seconds.

        Raises:
            SchedulerError: It has been away for longer than `PATIENCE_S`; the app goes on.
        """
        self._deadline = deadline
        yield from patiently(self._read, self._patience, self._page.say)
        return self._status

    def _read(self) -> Procedure[None]:
        while self._status is None and monotonic() < self._deadline:
            yield from self._let_it_empty()
            self._stopped = False
            try:
                yield Follow(handle=self._handle, cursor=self._cursor, take=self._take)
            except InvalidCursorError as err:  # of an app that was deleted and submitted again elsewhere
                logger.warning("showing the output of %s from its start: %s", self._handle, err)
                self._page.submitted(self._handle)
                self._cursor = None
                continue
            if not self._stopped:
                return
            if self._to_locate and self._locate is not None:
                self._locate = None if self._locate() else self._locate
                self._to_locate = False

    def _take(self, batch: Batch) -> bool:
        if batch.answered:
            self._patience.answered()
        self._look_for_a_later_try()
        for event in batch.events:
            if not self._muted:
                self._page.write(event)
            self._to_locate |= may_tell_hosts(event)
            if isinstance(event, StateChanged):
                self._status = event.status or self._status
        if batch.events:
            self._cursor = batch.cursor
        if not self._muted and (batch.events or monotonic() >= self._sign_at):
            self._sign_at = monotonic() + SIGN_EVERY_S
            self._page.mark(batch.cursor)
        self._page.tick()
        to_locate = self._to_locate and self._locate is not None
        self._stopped = self._page.full or to_locate or monotonic() >= self._deadline
        return not self._stopped

    def _look_for_a_later_try(self) -> None:
        """Show no more once a later try shows it: one whose supervisor has died may still be alive.

        It follows the app all the same, to the end: an error here would be that of the later try's flow run.
        """
        if self._is_overtaken is None or self._muted or monotonic() < self._ask_at:
            return
        self._ask_at = monotonic() + ASK_EVERY_S
        background.start("torchx-owner", partial(self._ask, self._is_overtaken))

    def _ask(self, is_overtaken: Callable[[], bool]) -> None:
        with suppress(TorchXError):  # the scheduler is away: the next time
            self._muted |= is_overtaken()

    def _let_it_empty(self) -> Procedure[None]:
        """Pull nothing: the app's output waits where it lies. But let its scheduler know that we are here."""
        renewed = monotonic()
        while self._page.full and monotonic() < self._deadline:
            self._page.tick()
            yield Pause(seconds=TICK_S)
            if monotonic() - renewed > KEEP_LEASE_S:
                yield Follow(handle=self._handle, cursor=self._cursor, logs=False, take=lambda _: False)
                renewed = monotonic()
