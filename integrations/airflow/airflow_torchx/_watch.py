"""Follows the app of a deferred task on an event loop, at a pace that its log can take. Knows no Airflow."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from socket import gethostname
from time import monotonic
from typing import Protocol, cast, final

from airflow_torchx._deferral import Deferral, Fired
from torchx_core.errors import InvalidCursorError, SchedulerError, TorchXError, UnknownAppException
from torchx_core.launch import Patience
from torchx_core.runner import Runner
from torchx_core.schedulers import AppEvent, Batch, LogLines
from torchx_core.schedulers.secrets import MASK
from torchx_core.specs import AppStatus

__all__ = ["PIECE_LINES", "Pace", "Paces", "Watch", "as_scheduler_error"]

logger = logging.getLogger(__name__)

TICK_S = 1.0
"""How late a passed deadline may be noticed."""
SAVE_EVERY_S = 10.0
"""What was shown since is shown again after a restart; the log's reader drops records that it has twice."""
BATCH_BYTES = 1 << 12
"""What may have to be shown still when the app is over: Airflow reads a triggerer's log in such pieces."""
PIECE_LINES = 20
"""What is shown in one go, while the event loop may stand still: a record."""
LONGEST_LINE = 1 << 15
"""What is longer would stop every trigger of the process for long; it and the rest is left to the worker."""
LONGEST_PAUSE_S = 30.0
"""Meanwhile nobody renews the app's lease: where more would be due, the rest is left to the worker."""
GIVE_UP_S = 1800.0
"""How long the scheduler may be away before the task fails; the app goes on and a retry finds it."""
READ_S = 600.0
"""How long the log of an app that has ended may take to be read."""
READ_TICK_S = 0.1
STANDSTILL_S = 10.0
"""A triggerer that stood still for so long may have been replaced meanwhile, and does not know it yet."""
HOLD_BACK_S = 10.0
"""How long it then shows nothing, for another one may show the same: Airflow ends its triggers by then."""


class Log(Protocol):
    """Shows an app's events: an `airflow_torchx._log.AppLog`."""

    def write(self, event: AppEvent) -> None:
        """Show one event, or keep it for a while."""
        ...

    def tick(self) -> None:
        """Show what was kept, if that is due."""
        ...


@final
class Watch:
    """Shows an app's events until it is terminal.

    Where the app writes faster than the log may grow here, the rest is left to the worker that the task is
    resumed on: it goes on from the cursor, so nothing is lost and nothing shown twice.
    """

    def __init__(  # noqa: PLR0913  (each is one thing that Airflow has, which this knows nothing of)
        self,
        runner: Runner,
        deferral: Deferral,
        log: Log,
        save_position: Callable[[str], Awaitable[None]],
        paces: Paces,
        hide: Callable[[Mapping[str, str]], Awaitable[None]],
        cursor: str | None = None,
        unread: Callable[[], int] = lambda: 0,
        *,
        heed: Callable[[Sequence[AppEvent]], Awaitable[None]] | None = None,
    ) -> None:
        """Do nothing yet.

        Args:
            runner: Knows the app's scheduler.
            deferral: What to watch.
            log: Where events are shown.
            save_position: Remembers how far the log got, over a restart.
            paces: How fast all that may be done.
            hide: Hides the secrets among a role's environment variables in everything shown from now on.
            cursor: How far an earlier watch has shown the log; None for the deferral's own.
            unread: How much of what was shown its reader has yet to read; 0 where nobody can tell.
            heed: Told of each batch's events, shown or not, and of none now and then.
        """
        self._runner = runner
        self._deferral = deferral
        self._log = log
        self._save_position = save_position
        self._paces = paces
        self._hide = hide
        self._cursor = self._saved = self._read = cursor or deferral.cursor
        self._unread = unread
        self._heed = heed
        self._save_at = time.monotonic() + SAVE_EVERY_S
        self._ask_at = self._awake_at = time.monotonic()
        self._is_over = self._has_ended = False
        self._quiet = deferral.quiet
        self._timed_out = False
        self._cancelled = False
        self._ended: AppStatus | None = None
        self.drained = False
        """Whether every line has been shown."""

    async def until_over(self) -> Fired:
        """Return when the app is terminal, or when nobody can tell any more."""
        error = await self._persist()
        await self._await_reader()
        await self._save()
        return Fired(
            cursor=self._cursor,
            timed_out=self._timed_out,
            error=None if error is None else f"{error} (on host {gethostname()})",
            unseen=isinstance(error, UnknownAppException),
            ended=self._ended if self.drained else None,
        )

    async def _persist(self) -> TorchXError | OSError | None:
        """Follow, and follow again after failures that pass; return the one that does not."""
        patience = Patience(GIVE_UP_S)
        while True:
            try:
                await self._hide_secrets()
                await self._follow(patience)
            except InvalidCursorError as err:
                logger.warning("showing lines of %s again: %s", self._deferral.handle, err)
                self._cursor = None if self._cursor == self._deferral.cursor else self._deferral.cursor
            except (SchedulerError, OSError) as err:
                try:
                    delay_s = patience.delay_after(as_scheduler_error(err))
                except SchedulerError:
                    return err
                logger.warning("cannot follow %s just now: %s", self._deferral.handle, err)
                await asyncio.sleep(delay_s)
            except TorchXError as err:
                return err
            else:
                return None

    async def _hide_secrets(self) -> None:
        """Do so before any line is shown: what the worker has hidden, this process does not know."""
        app = await asyncio.to_thread(self._runner.describe, self._deferral.handle)
        for role in app.roles if app else ():
            self._quiet |= any(MASK in value for value in role.env.values())  # the scheduler tells nobody
            await self._hide(role.env)
        if self._quiet:
            logger.info("not showing lines of %s here: its secrets are not known", self._deferral.handle)

    async def _follow(self, patience: Patience) -> None:
        self._awake_at = time.monotonic()
        async with aclosing(await self._batches()) as batches:
            async for batch in batches:
                if batch.answered:
                    patience.answered()
                await self._hold_back()
                await self._show_all(batch)
                self._log.tick()
                if self._heed is not None:
                    await self._heed(batch.events)
                if batch.final_status is not None:
                    self._has_ended, self._ended = True, batch.final_status
                    self.drained = not self._quiet
                    return
                if time.monotonic() >= self._save_at:
                    await self._save()
                await self._enforce_deadline()
                if self._is_over:
                    return
                self._awake_at = time.monotonic()

    async def _batches(self) -> AsyncGenerator[Batch]:
        batches = await asyncio.to_thread(  # a far away scheduler is asked for the stream, and may be slow
            self._runner.afollow,
            self._deferral.handle,
            self._cursor,
            logs=self._deferral.logs and not self._quiet,
            tick_s=TICK_S,
            batch_bytes=BATCH_BYTES,
        )
        return cast("AsyncGenerator[Batch]", batches)  # so that it can be closed

    async def _hold_back(self) -> None:
        """Wait, after a standstill, to be cancelled before anything is shown."""
        if time.monotonic() - self._awake_at > STANDSTILL_S:
            await asyncio.sleep(HOLD_BACK_S)

    async def _show_all(self, batch: Batch) -> None:
        """Show a batch piece by piece: whatever else the process does gets its turn in between."""
        if _longest_line(batch) > LONGEST_LINE and not self._quiet:
            logger.info(
                "leaving the rest of the log of %s to a worker: a very long line", self._deferral.handle
            )
            self._quiet = True
        if self._quiet:
            return
        for piece in _pieces(batch):
            began = time.monotonic()
            self._log.write(piece)
            took_s = time.monotonic() - began
            await self._pause(len(piece.lines) if isinstance(piece, LogLines) else 1, took_s)
        self._cursor = batch.cursor

    async def _await_reader(self) -> None:
        """Wait until what was shown has been read: Airflow shows no more of a trigger that has ended."""
        until = time.monotonic() + (READ_S if self._has_ended else LONGEST_PAUSE_S)
        while self._unread() and time.monotonic() < until:  # noqa: ASYNC110  (nothing tells of it)
            await asyncio.sleep(READ_TICK_S)

    async def _save(self) -> None:
        """Save how far the log has been read: a triggerer that is killed takes the rest along."""
        delay_s = SAVE_EVERY_S
        if not self._unread():
            self._read = self._cursor
        if self._read is not None and self._read != self._saved:
            await self._save_position(self._read)
            delay_s += self._paces.saved_positions.spend(1)
        self._saved = self._read
        self._save_at = time.monotonic() + delay_s

    async def _enforce_deadline(self) -> None:
        deadline = self._deferral.deadline
        if self._cancelled or deadline is None or time.time() < deadline:
            return
        self._timed_out = True
        if not self._deferral.token:  # the app is not ours to cancel, and may go on for long
            self._is_over = True
            return
        await self._deferral.cancel(self._runner, self._deferral.timeout_reason)
        self._cancelled = True

    async def _pause(self, lines: int, took_s: float) -> None:
        """Wait until more may be shown; once the app is found to be over, the rest of a batch comes at once.

        The time that showing took is paid for as well as the lines: a bucket of lines that fills while nobody
        reads the log would let the next lines pass, and the loop would stand still nearly all the time.
        """
        pause_s = max(
            self._paces.standstills.spend(took_s), *(pace.spend(lines) for pace in self._paces.lines)
        )
        if pause_s > LONGEST_PAUSE_S:
            self._is_over = True
        until = time.monotonic() + pause_s
        while not self._is_over and (left_s := until - time.monotonic()) > 0:
            await asyncio.sleep(min(left_s, TICK_S))
            if time.monotonic() >= self._ask_at:
                await self._enforce_deadline()
                self._is_over = await asyncio.to_thread(self._ask_whether_over)
                self._ask_at = time.monotonic() + TICK_S
        await asyncio.sleep(0)

    def _ask_whether_over(self) -> bool:
        status = self._runner.status(self._deferral.handle)
        return status is None or status.is_terminal()


def _pieces(batch: Batch) -> Iterator[AppEvent]:
    """Yield the events, the runs of lines among them cut to what may be shown in one go."""
    for event in batch.events:
        if not isinstance(event, LogLines):
            yield event
            continue
        for start in range(0, len(event.lines), PIECE_LINES):
            lines = event.lines[start : start + PIECE_LINES]
            yield event._replace(lines=lines, eol=event.eol or start + PIECE_LINES < len(event.lines))


def _longest_line(batch: Batch) -> int:
    runs = (event for event in batch.events if isinstance(event, LogLines))
    return max((len(line) for run in runs for line in run.lines), default=0)


def as_scheduler_error(error: SchedulerError | OSError) -> SchedulerError:
    """Return what may pass: hundreds of apps in one process may need more descriptors than it may have."""
    return error if isinstance(error, SchedulerError) else SchedulerError(str(error), retryable=True)


@final
class Pace:
    """Lets so many lines, or calls, a second pass, and a burst at once."""

    def __init__(self, per_s: float, burst: float, clock: Callable[[], float] = monotonic) -> None:
        """Start with a full bucket."""
        self._per_s = per_s
        self._burst = burst
        self._clock = clock
        self._left = burst
        self._at = clock()

    def spend(self, amount: float) -> float:
        """Take what was given, and return how many seconds to pause before giving more.

        It is spent even where the bucket is empty: the pause pays it back.
        """
        now = self._clock()
        self._left = min(self._burst, self._left + (now - self._at) * self._per_s) - amount
        self._at = now
        return max(0.0, -self._left / self._per_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Paces:
    """What a watch must keep to; most of it is shared by all watches of a process."""

    lines: Sequence[Pace]
    """How many lines a second it may show."""
    standstills: Pace
    """How many seconds of a second that may take. Meanwhile nothing else of the process goes on; the log may
    be a pipe that is read slowly."""
    saved_positions: Pace
    """How many saved positions a second may be written; they come less often where many watches share it."""
