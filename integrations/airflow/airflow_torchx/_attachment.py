"""One try's attachment to its app: finds or submits it, follows it, cancels it. Knows no Airflow.

What is true after a crash at each point, whatever process dies:

==============================================  ==========================================================
last step done                                  what the next try does
==============================================  ==========================================================
nothing                                         writes the record, submits
the record is written, not yet submitted        submits the recorded id
submitting                                      submits the id again: the core starts it only once
submitted, not yet confirmed in the record      submits it again, which changes nothing, and follows it
confirmed                                       follows it from the saved cursor
given up, not yet cancelled or over             cancels it, waits for its end, starts the next attempt
the app has ended, the result is not returned   follows it again; if unknown here, the record has its end
an earlier generation is cancelled              waits for its end again, then writes the new record
==============================================  ==========================================================

What is submitted again is what was recorded. Where the DAG asks for another app or place by now, the app that
an earlier try began to submit goes on if it has started, and is cancelled if it does not.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import replace
from time import monotonic, time

from airflow_torchx import _sight
from airflow_torchx._deferral import DEFERRED_AT_LEAST_S, Deferral
from airflow_torchx._ownership import NotSubmittedError, OvertakenError, check_owner, sign, sign_off
from airflow_torchx._persistence import TICK_S, Persistence
from airflow_torchx._plan import CLEARED_REASON, Finding, Standing, find, stand
from airflow_torchx._protocols import Request, TaskLog
from airflow_torchx._record import AirflowUnavailableError, Memory, Record
from airflow_torchx._tries import TaskTry, make_app_id
from torchx_core.errors import (
    AppIdConflictError,
    InvalidCursorError,
    InvalidInputError,
    SchedulerError,
    UnknownAppException,
)
from torchx_core.launch import Patience
from torchx_core.runner import Runner
from torchx_core.schedulers import Batch
from torchx_core.specs import AppDef, AppHandle, AppState, AppStatus, make_app_handle, parse_app_handle

__all__ = ["GIVE_UP_FIRST_S", "Attachment"]

logger = logging.getLogger(__name__)

SAVE_EVERY_S = 1.0
"""At most so much of the log can come again after a crash, where no log file of an earlier try tells."""
ASK_EVERY_S = 2.0
"""How often it is asked whether a newer try has the app: who was frozen meanwhile has heard of nothing."""
GIVE_UP_S = 1800.0
"""How long the scheduler may be away while there is an app: as long as it may for a trigger."""
GIVE_UP_FIRST_S = 60.0
"""How long before there is one: nothing is lost then, and Airflow's own retries may take over."""
START_S = 30.0
"""How long an app that another try began to submit may take to start; that try may be at work on it still."""
GIVEN_UP_REASON = "cancelled because an earlier try of the Airflow task ended"
NEVER_STARTED_REASON = "cancelled because the Airflow try that began to submit it died"


class Attachment:
    """Finds or submits the app of a task instance and follows it for one try."""

    def __init__(
        self,
        runner: Runner,
        memory: Memory,
        this_try: TaskTry,
        request: Callable[[float | None], Request],
        log: TaskLog,
        look: Callable[[Attachment], None],
        deadline: float | None = None,
    ) -> None:
        """Do nothing yet.

        Args:
            runner: Of the session to submit to.
            memory: Where the record is kept.
            this_try: Who holds.
            request: Makes what is to be submitted, given the app's deadline. Called only when there is none
                to go on with: a DAG that was edited into a wrong one does not disturb the app that runs.
            log: Where events go.
            look: Called with this hold between batches and at least every `TICK_S`. What it raises ends the
                hold and leaves the app alone.
            deadline: When an app that this try starts must end, in seconds since the epoch.
        """
        self._runner = runner
        self._memory = memory
        self._try = this_try
        self._request = request
        self._log = log
        self._look = look
        self._deadline = deadline
        self._absences = self._enduring(GIVE_UP_FIRST_S if this_try.number == 1 else GIVE_UP_S)
        self._record: Record | None = None
        self._saved: Record | None = None
        self._saved_at = float("-inf")
        self._arrived: str | None = None
        self._cancel_reason = ""

    @property
    def record(self) -> Record:
        """The record of the app held; only after `attach` has begun to look for it."""
        if self._record is None:
            raise RuntimeError("attach first")
        return self._record

    @property
    def handle(self) -> AppHandle:
        """The handle of the app held."""
        return self.record.handle

    @property
    def name(self) -> str:
        """The handle; before there is one, words for it."""
        return self._record.handle if self._record else "its app"

    @property
    def deferral(self) -> Deferral:
        """What a trigger needs to go on from here."""
        return Deferral(
            handle=self.handle,
            token=self._try.token,
            cursor=self.record.cursor,
            not_before=time() + DEFERRED_AT_LEAST_S,
        )

    def attach(self) -> AppStatus | None:
        """Make sure that the app exists exactly once, and that this try owns it.

        Returns:
            How the app ended, if it has succeeded already and is unknown here: there is nothing to follow.

        Raises:
            OvertakenError: A newer try has it.
            OutOfSightError: It was submitted and cannot be found, perhaps because it is on another host.
            LostAppError: That has been so for long, and it has no lease that would have ended it.
            NotSubmittedError: There was none, and its end has been asked for.
            AirflowUnavailableError: The record cannot be read or written; nothing was submitted.
            SchedulerError: The scheduler is away for too long.
        """
        # No try has come before the first one. Were that wrong, the id, which is the same again, would tell.
        is_first = self._try.number == 1 and not self._try.is_rescheduled
        record = None if is_first else self._absences.ask(self._memory.load)
        match stand(record, self._try):
            case Standing.OVERTAKEN:
                assert record is not None
                raise OvertakenError(record.handle, f"try {record.try_number}")
            case Standing.RETRY:
                assert record is not None
                self._record = replace(record, try_number=self._try.number)
                if not record.submitted:
                    self._complete()
            case Standing.CLEARED:
                assert record is not None
                self._end(record)
                self._record = self._fresh_record()
            case Standing.FIRST:
                self._record = self._fresh_record()
        ended = self._find_or_submit()
        self._absences = self._enduring(GIVE_UP_S)
        return ended

    def resume(
        self, cursor: str | None, ended: AppStatus | None = None, *, give_up_s: float = GIVE_UP_S
    ) -> AppStatus | None:
        """Go on with the app of this very try, which a trigger has followed up to the cursor, or to its end.

        The trigger owns the app no more: should it have been frozen meanwhile, it takes the state of a task
        that runs again for a user's act, and would cancel the app.

        Returns:
            How the app ended, if it has succeeded and is unknown here; as `attach` does.

        Raises:
            OvertakenError: A newer try has it.
            OutOfSightError: It cannot be found, perhaps because it is on another host.
            UnknownAppException: It is gone.
            AirflowUnavailableError: The record cannot be read.
        """
        self._absences = self._enduring(give_up_s)
        self._recall(cursor, ended)
        self._try = replace(self._try, is_resumed=True)
        try:
            self._absences.ask(self._take_over)
        except UnknownAppException:
            if noted := _sight.noted_end(self.record, self._log.say):
                return noted
            if _sight.may_be_elsewhere(self.record):
                _sight.look_elsewhere(self.record, self._try, self._save)
            raise
        return None

    def note_triggerer(self, *, sees_app: bool) -> None:
        """Remember for the next tries whether it is of use to defer."""
        self._record = replace(self.record, unwatched=not sees_app)
        self.save_position()

    def _recall(self, cursor: str | None, ended: AppStatus | None) -> None:
        record = self._absences.ask(self._memory.load)
        if record is None:
            raise UnknownAppException("the app of this task")
        if stand(record, self._try) is not Standing.RETRY:
            raise OvertakenError(record.handle, f"try {record.try_number}")
        self._record = _sight.with_end(replace(record, cursor=cursor or record.cursor), ended)
        self.save_position()  # at once: what the trigger showed does not come again should this try die now

    def _enduring(self, give_up_s: float) -> Persistence:
        return Persistence(lambda: self._look(self), give_up_s)

    def follow(self) -> AppStatus:
        """Show the app's events from the cursor on until it is terminal, and return its status.

        Raises:
            OvertakenError: A newer try has it.
            UnknownAppException: It was deleted meanwhile.
            SchedulerError: The scheduler is away for too long; the app goes on.
        """
        status = None
        for status in self._shown():  # noqa: B007  # the last one is the app's
            pass
        return status or self._absences.ask(self.status)

    def follow_for(self, seconds: float) -> AppStatus | None:
        """Do what `follow` does, but return None when the app is not terminal after so many seconds."""
        deadline = monotonic() + seconds
        status = None
        with closing(self._shown()) as shown:
            for status in shown:
                if status is None and monotonic() >= deadline:
                    self.save_position()
                    return None
        return status or self._absences.ask(self.status)

    def _shown(self) -> Generator[AppStatus | None]:
        """Show batch after batch; yield the app's status with the last one, None with the others."""
        patience = self._absences.patience()
        self._arrived = self.record.cursor
        self._ask_at = monotonic() + ASK_EVERY_S
        while True:
            try:
                yield from self._shown_at_once(patience)
            except SchedulerError as err:
                self._absences.endure(err, patience)
                yield None
            else:
                return

    def _shown_at_once(self, patience: Patience) -> Generator[AppStatus | None]:
        """Do so until the scheduler goes away."""
        for batch in self._batches():
            if batch.answered:
                patience.answered()
            if monotonic() >= self._ask_at:
                check_owner(self._runner, self.handle, self._try)
                self._ask_at = monotonic() + ASK_EVERY_S
            status = batch.final_status
            for event in batch.events:
                self._log.write(event)
            self._log.tick()
            self._record = _sight.with_end(replace(self.record, cursor=batch.cursor), status)
            if monotonic() - self._saved_at >= SAVE_EVERY_S:
                self._save_arrived()
            self._look(self)
            yield status
        self.save_position()

    def app(self) -> AppDef:
        """Return the app held, as it was submitted.

        Raises:
            UnknownAppException: It was deleted meanwhile.
        """
        app = self._runner.describe(self.handle)
        if app is None:
            raise UnknownAppException(self.handle)
        return app

    def status(self) -> AppStatus:
        """Return its present status; raises as `app` does."""
        status = self._runner.status(self.handle)
        if status is None:
            raise UnknownAppException(self.handle)
        return status

    def save_position(self) -> None:
        """Save how far the log got; when that fails, the next try repeats some lines, no more.

        Who leaves while the app of a cleared task still ends has shown nothing, and keeps that app's record.
        """
        if self._record is not None:
            self._try_to_save(self._record)

    def _save_arrived(self) -> None:
        """Save the position of the save before: what was shown since may lie in the supervisor's pipe."""
        arrived, self._arrived = self._arrived, self.record.cursor
        self._try_to_save(replace(self.record, cursor=arrived))

    def _try_to_save(self, record: Record) -> None:
        if record == self._saved:
            return
        try:
            self._save(record)
        except AirflowUnavailableError as err:
            self._saved_at = monotonic()
            logger.warning("cannot save the log position of %s: %s", self.handle, err)

    def cancel(self, reason: str) -> bool:
        """Ask for the app's end, unless a newer try has it; from now on this try submits nothing.

        Works at any point of `attach` and `follow`.

        Returns:
            False while there is no app: one may be found yet, so ask again.

        Raises:
            SchedulerError: The scheduler is away just now.
        """
        self._cancel_reason = reason
        return self._record is not None and self._cancel(reason)

    def _cancel(self, reason: str) -> bool:
        try:
            sign_off(self._runner, self.handle, self._try)
        except (OvertakenError, UnknownAppException) as err:
            logger.info("not cancelling: %s", err)
            return isinstance(err, OvertakenError)
        self._runner.cancel(self.handle, reason=reason)
        return True

    def _batches(self) -> Iterator[Batch]:
        try:
            return self._runner.follow(self.handle, self.record.cursor, tick_s=TICK_S)
        except InvalidCursorError as err:
            logger.warning("showing the log from its start: %s", err)
            return self._runner.follow(self.handle, tick_s=TICK_S)

    def _find_or_submit(self) -> AppStatus | None:
        """Submit the recorded app, or go on with what is there, until one is to be followed; see `attach`."""
        while True:
            status = self._absences.ask(lambda: self._runner.status(self.handle))
            if status is None and (ended := _sight.noted_end(self.record, self._log.say)):
                self.save_position()
                return ended
            state = status.state if status else None
            match find(state, self.record, elsewhere=_sight.may_be_elsewhere(self.record)):
                case Finding.LIVE:
                    assert status is not None
                    self._record = replace(self.record, submitted=True, missed_since=None)
                    if self._absences.ask(self._take_over) or status.is_terminal():
                        self.save_position()
                        self._log.say(f"following {self.handle}")
                        return None
                    self._see_off()
                case Finding.FREE:
                    found = self.record
                    self._record = self._fresh_record(found.salt, found.attempt, unwatched=found.unwatched)
                    # Where the DAG asks for another place by now, that is looked at first.
                    if self.handle == found.handle and self._start():
                        return None
                case Finding.OVER:
                    status = self.follow()
                    why = replace(status).failure_summary()  # its last lines have just been shown
                    self._next_attempt(f"{self.handle} ended {status.state}: {why}")
                case Finding.GONE:
                    self._next_attempt(_sight.why_gone(self.record))
                case Finding.LOST:
                    _sight.look_elsewhere(self.record, self._try, self._save)
                    self._next_attempt(f"{self.handle} is unknown here and its lease is over")

    def _start(self) -> bool:
        """Submit; return whether the app is ours."""
        try:
            self._submit()
        except AppIdConflictError as err:
            # The id is ours alone: an earlier try got it submitted between our look and our submit, from an
            # earlier version of the DAG. It is the app that this generation runs.
            self._await_start(err)
            return False
        # Not looked at again: an app that fails at once has failed in this try, not before it.
        return self._absences.ask(self._take_over)

    def _complete(self) -> None:
        """Submit what an earlier try may have begun to; before any look at it, which could end it.

        So that it is the same request again it is made with the same deadline, if there is anything yet.
        """
        try:
            self._absences.ask(lambda: self._runner.owner(self.handle))
        except UnknownAppException:
            return  # the scheduler has not begun with it
        try:
            self._submit()
        except InvalidInputError as err:
            self._await_start(err)

    def _submit(self) -> None:
        """Submit.

        Raises:
            AppIdConflictError: Somebody has submitted another request under this id.
            InvalidInputError: The DAG asks for what cannot be.
            NotSubmittedError: The app's end has been asked for.
        """
        self._check_wanted()
        self._save(self.record)
        request = self._request(self.record.deadline)
        app_id = parse_app_handle(self.handle).app_id
        if (asked := self._handle_of(request, app_id)) != self.handle:
            raise InvalidInputError(f"the DAG asks for {asked} by now, not for {self.handle}")
        self._absences.ask(lambda: self._submit_now(request, app_id))
        self._log.say(f"submitted {self.handle}")
        self._record = replace(self.record, submitted=True)
        self._save(self.record)

    def _submit_now(self, request: Request, app_id: str) -> None:
        self._check_wanted()
        request.submit(self._runner, app_id)

    def _check_wanted(self) -> None:
        """Raise NotSubmittedError once `cancel` was called: the time that is left would do for a submit."""
        if self._cancel_reason:
            raise NotSubmittedError(self.handle, self._cancel_reason)

    def _await_start(self, why: InvalidInputError) -> None:
        """See whether an app that we cannot submit as it is starts all the same; cancel it if not."""
        logger.warning("going on with the app that an earlier try submitted: %s", why)
        deadline = monotonic() + START_S
        status = self._runner.status
        while (seen := self._absences.ask(lambda: status(self.handle))) and seen.state is AppState.SUBMITTED:
            if monotonic() >= deadline:
                self._log.say(f"{self.handle} was never started, and the DAG asks for another by now")
                self._absences.ask(lambda: self._cancel(NEVER_STARTED_REASON))
                return
            self._absences.pause(1.0)

    def _see_off(self) -> None:
        """Wait for the end of an app that an earlier try has given up, perhaps without being heard."""
        self._log.say(f"waiting for the end of {self.handle}, which an earlier try has cancelled")
        self._absences.ask(lambda: self._runner.cancel(self.handle, reason=GIVEN_UP_REASON))
        self.follow()

    def _next_attempt(self, why: str) -> None:
        last, attempt = self.record, self.record.attempt + 1
        self._record = self._fresh_record(last.salt, attempt, unwatched=last.unwatched)
        self._log.say(f"{why}; starting attempt {attempt + 1} as {self.handle}")

    def _fresh_record(self, salt: str | None = None, attempt: int = 0, *, unwatched: bool = False) -> Record:
        request = self._request(self._deadline)
        salt = self._memory.salt(self._try) if salt is None else salt
        app_id = make_app_id(self._try, salt=salt, attempt=attempt)
        return Record(
            handle=self._handle_of(request, app_id),
            generation=self._try.generation,
            attempt=attempt,
            try_number=self._try.number,
            salt=salt,
            submitted=False,
            cursor=None,
            lease_s=request.lease_s,
            deadline=self._deadline,
            unwatched=unwatched,
            host=_sight.this_host(),
        )

    def _handle_of(self, request: Request, app_id: str) -> AppHandle:
        return make_app_handle(request.scheduler, self._runner.name, app_id)

    def _save(self, record: Record) -> None:
        self._memory.save(record)
        self._saved = record
        self._saved_at = monotonic()

    def _take_over(self) -> bool:
        """Become the owner; false when an earlier try has given the app up."""
        return sign(self._runner, self.handle, self._try)

    def _end(self, record: Record) -> None:
        """Cancel the app of an earlier generation and wait until it is gone; raises as `attach` does."""
        handle = record.handle
        status = self._absences.ask(lambda: self._runner.status(handle))
        if status is None and _sight.may_run_elsewhere(record, self._try):
            _sight.look_elsewhere(record, self._try, self._save)
        if status is None or status.is_terminal():
            return
        self._log.say(f"the task was cleared: cancelling {handle} first")
        self._absences.ask(lambda: self._end_now(handle))

    def _end_now(self, handle: AppHandle) -> None:
        self._runner.take_over(handle, self._try.token, force=True)
        self._runner.cancel(handle, reason=CLEARED_REASON, if_owner=self._try.token)
        for _ in self._runner.follow(handle, logs=False, tick_s=TICK_S):
            self._look(self)
