"""What a run shows of its app: the log, the pictures and the events, as far as Prefect takes them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Iterator
from dataclasses import replace
from time import monotonic
from typing import Final, final

from prefect_torchx.delivery import END, Delivery, Keeper, Mark, Notice
from prefect_torchx.log_shipper import LogShipper, Sender
from prefect_torchx.pictures import Pictures
from prefect_torchx.position import End, Position, record_name
from prefect_torchx.records import Record, Records
from prefect_torchx.sink import Sink
from torchx_core.display.limits import LogLimit
from torchx_core.display.masking import make_mask, mask_status
from torchx_core.display.tails import Tails
from torchx_core.display.text import whole_log
from torchx_core.errors import AppStatusError
from torchx_core.schedulers import AppEvent, LogLines, StateChanged
from torchx_core.specs import AppDef, AppHandle, AppStatus

__all__ = ["RunPage"]

LIMIT_BYTES = 100_000_000
QUICKLY_S, LOOK_SOON_S, LOOK_EVERY_S = 0.3, 0.005, 0.05
"""How often it is looked whether all has arrived: first often, as it mostly has within a moment."""
MAX_TAILS = 10
"""Of how many replicas the last lines are shown, where a log was limited."""


@final
class RunPage:
    """Shows one app in the run that makes it; never waits for Prefect, and never fails because of it.

    Made where Prefect's context is; its methods may then be called from any thread, one at a time. Until
    `close` has been called, a thread of the process brings to Prefect's API what there is.

    What is true of the log when the process dies: what the keeper has saved last has arrived. Whoever
    follows the app from there loses nothing, and leaves out what had arrived since, as the position tells.
    """

    def __init__(
        self,
        app: AppDef,
        *,
        limit_bytes: int | None = LIMIT_BYTES,
        keeper: Keeper | None = None,
        hidden: Iterable[str] = (),
        sink: Sink | None = None,
        pictured: bool = True,
    ) -> None:
        """Show nothing yet.

        Args:
            app: What runs; the values of its secret variables are masked in all that is shown.
            limit_bytes: How much of the app's output the log shows; None for all.
            keeper: Told how far the log has arrived, and asked to save that about once a second and at the
                end, by a thread of ours. To save may take a moment, and may raise.
            hidden: What else is masked.
            sink: Where the log goes; None for the run that the present code works for.
            pictured: Whether there are pictures and events besides the log.
        """
        self._mask: Final = make_mask(app, hidden)
        self._sink: Final = sink or Sink()
        self._records: Final = Records(self._deliver, self._mask)
        self._tails: Final = Tails(self._mask)
        self._limit: Final = LogLimit(limit_bytes)
        self._pictures: Final = Pictures(app, self._tails, self._mask)
        if not pictured:
            self._pictures.stop()
        self._marked: Mark | None = None
        self._handle: AppHandle = ""
        self._end: End | None = None
        self._delivery: Final = Delivery(keeper, self._pictures, self._say_what_is_refused)
        self._log_shipper: Final = LogShipper.to_this_server()
        self._log_shipper.join(self._delivery)
        self._open = True
        self._leaving: Final = threading.Lock()

    @property
    def full(self) -> bool:
        """Whether so much waits for Prefect's API that its reader should pause; the app need not."""
        return self._log_shipper.full

    def submitted(self, handle: AppHandle, position: Position | None = None) -> None:
        """Learn which app it is; of one that an earlier try has given up the rest may be shown before.

        Args:
            handle: The app.
            position: How far an earlier try has shown it; None when it is shown from its start.
        """
        self.flush()
        self._marked = None
        self._records.go_on(position)
        self._handle = handle
        self._end = position.end if position else None
        if position:
            self._limit.shown_bytes = position.shown_bytes
        self._pictures.submitted(handle, again=position is not None)
        self._log_shipper.wake()

    def locate(self, status: AppStatus) -> None:
        """Learn where the app's replicas are, for links to them; called while it runs, or not at all."""
        self._pictures.locate(status)
        self._log_shipper.wake()

    def write(self, event: AppEvent) -> None:
        """Take an event; the log shows it when a record is full, or by `tick`."""
        if isinstance(event, LogLines):
            self._write_lines(event)
            return
        if isinstance(event, StateChanged) and event.status is not None:
            self._end = End.of(event.status, self._mask)
        self._records.write(event)
        self._pictures.write(event)
        self._log_shipper.wake()

    def mark(self, cursor: str) -> None:
        """Learn that every event before the cursor has been written."""
        position = Position(cursor=cursor, shown_bytes=self._limit.shown_bytes, end=self._end)
        self._marked = Mark(self._handle, position)

    def say(self, message: str) -> None:
        """Show a message of our own."""
        self._records.say(message)

    def tick(self) -> None:
        """Show what has waited long enough; call it several times a second."""
        if self._records.tick() or not self._records.waiting:
            self._send_mark()

    def flush(self) -> None:
        """Show everything taken so far."""
        self._records.flush()
        self._send_mark()

    def failure(self, status: AppStatus, handle: AppHandle) -> AppStatusError:
        """Return what went wrong: the summary, with the failed replica's last lines, then the handle.

        Its status is masked like its message: Prefect may keep the exception, and users may print it. Last
        lines that the status itself cannot read are those that came by here.
        """
        masked = mask_status(status if status.last_lines else self._tails.explain(status), self._mask)
        return AppStatusError(masked, self._mask(f"{masked.failure_summary()}\n  app: {handle}"))

    def close(self, status: AppStatus | None, *, limit_s: float = 60.0) -> None:
        """Show the end, and wait until everything has arrived; see `closing`."""
        pause = threading.Event()
        for pause_s in self.closing(status, limit_s):
            pause.wait(pause_s)

    def closing(self, status: AppStatus | None, limit_s: float = 60.0) -> Iterator[float]:
        """Show the end, then yield for how long to wait, as long as there is something to wait for.

        May be repeated.

        What Prefect's API has not taken by then is left to whoever follows the app next from the saved
        position, if anybody does; the run's log and standard error say so.

        Args:
            status: How the app ended; None when it goes on without us.
            limit_s: How long an API that takes nothing is waited for; when the app goes on, in all.
        """
        if not self._open:
            return
        if status and self._limit.left_out:
            self._say_what_is_left_out()
        self._records.end()
        self._send_mark()
        self._pictures.close(status)
        self._delivery.close()
        self._log_shipper.send(self._delivery, None, 0, END)
        begun = monotonic()
        try:
            while not self._delivery.done:
                since = max(begun, self._log_shipper.accepted_at) if status else begun
                if monotonic() >= since + limit_s:
                    break
                yield LOOK_SOON_S if monotonic() < begun + QUICKLY_S else LOOK_EVERY_S
        finally:
            self._leave()

    def _leave(self) -> None:
        with self._leaving:  # who is cut short by a second Ctrl-C leaves beside the thread that has begun to
            was_open, self._open = self._open, False
        left = self._log_shipper.leave(self._delivery) if was_open else 0
        if left:
            text = f"{left} records of the log of {self._handle or 'an app'} have not reached Prefect's API"
            self._bring_later(f"{text}; {whole_log(self._handle)}" if self._handle else text)

    def _bring_later(self, text: str) -> None:
        """Have a message in the run when Prefect's API takes records again, if this process lives until then.

        Prefect's own way to its API drops what it meets no server for.
        """
        notice = Notice(self._log_shipper.leave)
        self._log_shipper.join(notice)
        self._deliver(Record(logging.ERROR, text, None), notice)
        self._log_shipper.send(notice, None, 0, END)

    def _say_what_is_refused(self, reason: str) -> None:
        text = f"Prefect's API refuses a record of the log: {reason}"
        self._sink.log(logging.ERROR, f"{text}; {whole_log(self._handle)}" if self._handle else text)

    def _write_lines(self, run: LogLines) -> None:
        self._tails.remember(run)
        if self._limit.admits(run):
            self._records.write(run)
        elif len(self._limit.left_out) == 1 and sum(self._limit.left_out.values()) == len(run.lines):
            self._records.say(self._limit.notice, logging.WARNING)

    def _say_what_is_left_out(self) -> None:
        self._records.say(self._limit.summary(self._handle), logging.WARNING)
        for role, replica in list(self._limit.left_out)[:MAX_TAILS]:
            tail = self._tails.of(role, replica)
            self._records.say("\n".join([f"the last {len(tail)} lines of {role}/{replica}:", *tail]))

    def _deliver(self, record: Record, sender: Sender | None = None) -> None:
        for payload in self._sink.write(record):
            if record.source is not None and self._handle:
                payload["name"] = record_name(record.source, self._handle)
            size = payload.pop("__payload_size__", 0) or len(record.text)
            self._log_shipper.send(sender or self._delivery, payload, size)

    def _send_mark(self) -> None:
        """Tell the log shipper what has arrived when everything sent so far has."""
        if self._marked is not None and not self._records.catching_up:
            handle, position = self._marked
            mark = Mark(handle, replace(position, times=self._records.times))
            self._log_shipper.send(self._delivery, None, 0, mark)
            self._marked = None
