"""What a run shows of its app: the log, the pictures and the events, as far as Prefect takes them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from time import monotonic
from typing import Final, final

from prefect_torchx.courier import Courier
from prefect_torchx.delivery import END, Delivery
from prefect_torchx.masking import make_mask, mask_status
from prefect_torchx.pictures import Pictures
from prefect_torchx.position import Position
from prefect_torchx.records import Record, Records
from prefect_torchx.sink import Sink
from torchx_core.errors import AppStatusError
from torchx_core.schedulers import AppEvent, LogLines
from torchx_core.schedulers.log_limit import LogLimit
from torchx_core.schedulers.tails import Tails
from torchx_core.specs import AppDef, AppHandle, AppStatus

__all__ = ["RunPage"]

LIMIT_BYTES = 100_000_000
LOOK_EVERY_S = 0.05
FAILURE_LINES = 10
FAILURE_LINE_CHARS = 200
MAX_TAILS = 10
"""Of how many replicas the last lines are shown, where a log was limited."""

logger = logging.getLogger(__name__)


@final
class RunPage:
    """Shows one app in the run that makes it; never waits for Prefect, and never fails because of it.

    Made where Prefect's context is; its methods may then be called from any thread, one at a time. Until
    `close` has been called, a thread of the process brings to Prefect's API what there is.

    What is true of the log when the process dies: what `on_delivered` was last told has arrived. Whoever
    follows the app from there repeats what had arrived since, about a second of output, and loses nothing.
    """

    def __init__(
        self,
        app: AppDef,
        *,
        limit_bytes: int | None = LIMIT_BYTES,
        on_delivered: Callable[[Position], bool] | None = None,
        hidden: Iterable[str] = (),
    ) -> None:
        """Show nothing yet.

        Args:
            app: What runs; the values of its secret variables are masked in all that is shown.
            limit_bytes: How much of the app's output the log shows; None for all.
            on_delivered: Told how far the log has arrived, about once a second and at the end, by a thread of
                ours; returns whether that is kept. It may take a moment, and it may raise.
            hidden: What else is masked.
        """
        self._mask: Final = make_mask(app, hidden)
        self._sink: Final = Sink()
        self._records: Final = Records(self._deliver, self._mask)
        self._tails: Final = Tails(self._mask)
        self._limit: Final = LogLimit(limit_bytes)
        self._pictures: Final = Pictures(app, self._tails, self._mask)
        self._marked: Position | None = None
        self._delivery: Final = Delivery(on_delivered, self._pictures)
        self._courier: Final = Courier.to_this_server()
        self._courier.join(self._delivery)
        self._open = True

    @property
    def full(self) -> bool:
        """Whether so much waits for Prefect's API that its reader should pause; the app need not."""
        return self._courier.full

    def submitted(self, handle: AppHandle, position: Position | None = None) -> None:
        """Learn which app it is.

        Args:
            handle: The app.
            position: How far an earlier try has shown it; None when it is shown from its start.
        """
        if position:
            self._limit.shown_bytes = position.shown_bytes
            self._delivery.start_at(position)
        self._pictures.submitted(handle, again=position is not None)
        self._courier.wake()

    def locate(self, status: AppStatus) -> None:
        """Learn where the app's replicas are, for links to them; called while it runs, or not at all."""
        self._pictures.locate(status)
        self._courier.wake()

    def write(self, event: AppEvent) -> None:
        """Take an event; the log shows it when a record is full, or by `tick`."""
        if isinstance(event, LogLines):
            self._write_lines(event)
            return
        self._records.write(event)
        self._pictures.write(event)
        self._courier.wake()

    def mark(self, cursor: str) -> None:
        """Learn that every event before the cursor has been written."""
        self._marked = Position(cursor=cursor, shown_bytes=self._limit.shown_bytes)

    def say(self, message: str) -> None:
        """Show a message of our own."""
        self._records.say(message)

    def tick(self) -> None:
        """Show what has waited long enough; call it several times a second."""
        if self._records.tick():
            self._settle_mark()

    def flush(self) -> None:
        """Show everything taken so far."""
        self._records.flush()
        self._settle_mark()

    def failure(self, status: AppStatus, handle: AppHandle) -> AppStatusError:
        """Return what went wrong: the summary first, the failed replica's last lines, then the handle.

        Its status is masked like its message: Prefect may keep the exception, and users may print it.
        """
        replica = next(iter(status.failed_replicas()), None)
        tail = self._tails.of(replica.role, replica.id)[-FAILURE_LINES:] if replica else []
        last_lines = [f"  last lines of {replica.role}/{replica.id}:"] if replica and tail else []
        last_lines += [f"    {line[:FAILURE_LINE_CHARS]}" for line in tail]
        text = "\n".join([status.failure_summary(), *last_lines, f"  app: {handle}"])
        return AppStatusError(mask_status(status, self._mask), self._mask(text))

    def close(self, status: AppStatus | None, *, limit_s: float = 60.0) -> None:
        """Show the end, and wait until everything has arrived; see `closing`."""
        pause = threading.Event()
        for _ in self.closing(status, limit_s):
            pause.wait(LOOK_EVERY_S)

    def closing(self, status: AppStatus | None, limit_s: float = 60.0) -> Iterator[None]:
        """Show the end, then yield as long as there is something to wait for; may be repeated.

        What Prefect's API has not taken by then is in the app's log files only, which a message on standard
        error says.

        Args:
            status: How the app ended; None when it goes on without us.
            limit_s: How long an API that takes nothing is waited for; when the app goes on, in all.
        """
        if not self._open:
            return
        if status and self._limit.left_out:
            self._say_what_is_left_out(status)
        self.flush()
        self._pictures.close(status)
        self._courier.send(self._delivery, None, 0, END)
        begun = monotonic()
        try:
            while not self._delivery.done:
                since = max(begun, self._courier.accepted_at) if status else begun
                if monotonic() >= since + limit_s:
                    break
                yield
        finally:
            self._leave(status)

    def _leave(self, status: AppStatus | None) -> None:
        self._open = False
        left = self._courier.leave(self._delivery)
        if left:
            places = [replica.log_dir for role in status.roles for replica in role.replicas] if status else []
            logger.error(
                "%s log records did not reach Prefect's API; the log files have them: %s", left, places[:4]
            )

    def _write_lines(self, run: LogLines) -> None:
        self._tails.remember(run)
        if self._limit.admits(run):
            self._records.write(run)
        elif len(self._limit.left_out) == 1 and sum(self._limit.left_out.values()) == len(run.lines):
            self._records.say(self._limit.notice, logging.WARNING)

    def _say_what_is_left_out(self, status: AppStatus) -> None:
        self._records.say(self._limit.summary(status), logging.WARNING)
        for role, replica in list(self._limit.left_out)[:MAX_TAILS]:
            tail = self._tails.of(role, replica)
            self._records.say("\n".join([f"the last {len(tail)} lines of {role}/{replica}:", *tail]))

    def _deliver(self, record: Record) -> None:
        for payload in self._sink.write(record):
            size = payload.pop("__payload_size__", 0) or len(record.text)
            self._courier.send(self._delivery, payload, size)

    def _settle_mark(self) -> None:
        """Tell the courier what has arrived when everything sent so far has."""
        if self._marked is not None:
            self._courier.send(self._delivery, None, 0, self._marked)
            self._marked = None
