"""One call's attachment to its app: finds or submits it, follows it, cancels it. Knows no Prefect.

What is true after a crash at each point, whatever process dies:

======================================  ==================================================================
last step done                          what the next try does
======================================  ==================================================================
nothing, or the app is written down     submits
submitting                              submits the same id; the core does so only once
submitted, no owner yet                 takes the app over, follows it
taken over                              takes it over from the earlier try, follows it
the app has ended, nobody knows yet     takes it over: its end comes again, and output not yet in the log
marked as given up, not yet cancelled   cancels it, waits for its end, submits the next attempt
any of these, on another host           waits for its end, submits the next attempt unless it succeeded
======================================  ==================================================================
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from time import monotonic
from typing import Protocol, final

from prefect_torchx.attempts import Attempts, has_failed
from prefect_torchx.driver import Follow, Procedure, patiently
from prefect_torchx.naming import Holder, Standing, Work, is_given_up, stand
from prefect_torchx.position import NotedApp, Position
from prefect_torchx.reading import Page, Reading
from prefect_torchx.unseen import is_of_another_host, latest_noted, outwait_unseen
from torchx_core.display.text import whole_log
from torchx_core.errors import TorchXError, UnknownAppException
from torchx_core.launch import AppRequest, Patience
from torchx_core.runner import Runner
from torchx_core.specs import AppHandle, AppStatus

__all__ = ["Attachment", "OvertakenError", "Places", "Request"]

PATIENCE_S = 60.0
"""How long a scheduler may be away before the app is held; longer absences are for Prefect's retries."""


class OvertakenError(TorchXError):
    """A later try of this run has the app."""

    def __init__(self, handle: AppHandle, owner: str | None) -> None:
        """Name the app and who has it."""
        super().__init__(f"{handle} belongs to a later try of this run, {owner!r}; this try leaves it alone")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What to submit, should it come to that."""

    app: AppRequest
    work: Work
    shared: bool
    """Every call with this work is after the same app, whatever run it is made in."""


class Places(Protocol):
    """Remembers how far the page got with an app: a `prefect_torchx.saved_position.SavedPosition`."""

    def open(self, handle: AppHandle, *, fresh: bool) -> Position | None:
        """Turn to the app and return the place."""
        ...

    def find(self, handle: AppHandle) -> Position | None:
        """Turn to an app that the page has had, and return the place; None when it has had no such app."""
        ...

    def noted(self, handle: AppHandle) -> NotedApp | None:
        """Return what the run has written down about an app; None for nothing."""
        ...

    def withdraw(self, handle: AppHandle) -> None:
        """Take back that a fresh app was turned to: another call had it first, with a place of its own."""
        ...


@final
class Attachment:
    """Finds or submits an app and follows it.

    `attach` and `follow` are procedures for `prefect_torchx.driver`; `cancel` is a quick call that blocks.
    Each may be used alone, with the handle and the token of an attachment that another process had.
    """

    def __init__(
        self,
        runner: Runner,
        page: Page,
        places: Places,
        me: Holder | None,
        handle: AppHandle | None = None,
        *,
        locate: Callable[[AppHandle], bool] | None = None,
    ) -> None:
        """Do nothing yet.

        Args:
            runner: Of the session to submit to.
            page: Where events go.
            places: How far they got.
            me: Who holds; None to look on: an onlooker never takes an app over and never cancels it.
            handle: The app held already; None to `attach` to one.
            locate: Asks the scheduler where the app's replicas are; see `Reading`.
        """
        self._runner = runner
        self._page = page
        self._places = places
        self._me = me
        self._handle = handle
        self._locate = locate
        self._reading: Reading | None = None
        self._submitting: tuple[int, int] | None = None
        self._end_wanted = ""
        self._request: Request | None = None
        self._began = monotonic()
        self._ended: AppStatus | None = None

    @property
    def handle(self) -> AppHandle | None:
        """The app held, or about to be submitted; None before."""
        return self._handle

    @property
    def ended(self) -> AppStatus | None:
        """How the app ended, when that is known and the app itself is not seen from this host; else None."""
        return self._ended

    # --- attach

    def attach(self, request: Request) -> Procedure[None]:
        """Find or submit the app, and become its holder.

        Raises:
            OvertakenError: A later try has it.
            AppIdConflictError: Another request has this key.
            LostAppError: An earlier try submitted it on another host, without a lease.
            SchedulerError: The scheduler is away for longer than `PATIENCE_S`.
        """
        self.want(request)
        yield from patiently(lambda: self._attach(request), Patience(PATIENCE_S), self._page.say)
        if self._end_wanted:  # meanwhile: an event loop does not wait for us for ever
            self.cancel(self._end_wanted)

    def want(self, request: Request) -> None:
        """Learn what `attach` is about, so that `cancel` finds an earlier try's app also before that."""
        self._request = request

    def _attach(self, request: Request) -> Procedure[None]:
        if self._submitting is not None:  # the scheduler went away in the middle: the same id again
            slot, attempt = self._submitting
            if (yield from self._submit(request, slot, attempt)):
                return
        attempts = self._attempts(request)
        for slot in count():
            if (yield from self._take(request, attempts, slot)):
                return

    def _attempts(self, request: Request) -> Attempts:
        assert self._me is not None
        # A cluster repeats a try at once: nobody has deleted any of its apps.
        has_gaps = request.shared or self._me.is_retry
        return Attempts(self._runner, request.app.scheduler, request.work, has_gaps=has_gaps)

    def _take(self, request: Request, attempts: Attempts, slot: int) -> Procedure[bool]:
        """Become the holder of the slot's app, submitting one if need be; False when another call is."""
        attempt, status = attempts.latest(slot)
        if status is None:
            for later in attempts.slots_after(slot):  # what was in this one may have been deleted
                if (yield from self._take(request, attempts, later)):
                    return True
            return (yield from self._submit(request, slot, 0))
        handle = self._name(request, slot, attempt)
        owner = self._runner.owner(handle)
        match self._stand(owner, shared=request.shared):
            case Standing.TAKEN:
                return False
            case Standing.OVERTAKEN:
                raise OvertakenError(handle, owner)
            case Standing.GIVEN_UP:
                status = yield from self._outwait(handle, owner)
            case Standing.FREE:
                if not self._own(request, slot, attempt, status, owner):
                    return (yield from self._take(request, attempts, slot))  # somebody was quicker
        if has_failed(status):
            yield from self._show_rest(handle)
            # its last lines have just been shown
            self._page.say(f"{handle} ended {status.state}: {replace(status).failure_summary()}")
            return (yield from self._submit(request, slot, attempt + 1))
        self._handle = handle
        # To submit it again settles a half-done submit.
        self._submit_as(request, slot, attempt)
        self._open(handle, fresh=False)
        self._page.say(f"following {handle}, which is {status.state}")
        return True

    def _own(self, request: Request, slot: int, attempt: int, status: AppStatus, owner: str | None) -> bool:
        """Take the app over from its owner; return False when somebody was quicker.

        Raises:
            AppIdConflictError: Another request has this key; the app is left to its owner.
        """
        if request.shared and not has_failed(status):
            self._submit_as(request, slot, attempt)
        return self._runner.take_over(self._name(request, slot, attempt), self._token, expected=owner)

    def _stand(self, owner: str | None, *, shared: bool) -> Standing:
        assert self._me is not None
        if not shared:
            return stand(owner, self._me)
        return Standing.GIVEN_UP if owner is not None and is_given_up(owner) else Standing.FREE

    def _submit(self, request: Request, slot: int, attempt: int) -> Procedure[bool]:
        if self._submitting != (slot, attempt):
            next_attempt = yield from self._outwait_other_hosts(request, slot, attempt)
            if next_attempt is None:
                return False
            if self._ended:
                return True
            attempt = next_attempt
        handle = self._name(request, slot, attempt)
        # Known before it exists: an exception may strike between any two steps, and `cancel` must find it.
        # Written down before it exists: whoever reaps the run's apps must find it as well.
        self._handle = handle
        if self._submitting != (slot, attempt):
            self._open(handle, fresh=True)
            self._submitting = slot, attempt
        self._submit_as(request, slot, attempt)
        signed = self._runner.take_over(handle, self._token)
        self._submitting = None
        if not signed:
            self._handle = None
            self._places.withdraw(handle)
            # An equal call submitted the id and signed first.
            return (yield from self._take(request, self._attempts(request), slot))
        self._page.say(f"submitted {handle}")
        return True

    def _outwait_other_hosts(self, request: Request, slot: int, attempt: int) -> Procedure[int | None]:
        """Return the first attempt from this one that was made nowhere; None when the slot is another call's.

        An earlier try may have had apps on a host whose apps are not seen here. One that succeeded is had.

        Raises:
            LostAppError: Nobody can tell when it has ended.
            OvertakenError: A later try has it, on another host.
        """
        assert self._me is not None
        if not self._me.has_predecessors:
            return attempt
        name = partial(self._name, request, slot)
        attempt, noted = latest_noted(self._places.noted, name, attempt)
        if noted is None or not is_of_another_host(noted):  # never submitted, or deleted
            return attempt
        standing = self._stand(noted.holder or None, shared=request.shared)
        if standing is Standing.OVERTAKEN:
            raise OvertakenError(name(attempt), noted.holder)
        if standing is Standing.TAKEN:
            return None
        end = yield from outwait_unseen(
            name(attempt), noted, self._places.noted, request.app.lease_s, self._page.say, self._began
        )
        if success := end and end.success():
            self._handle, self._ended = name(attempt), success
        return attempt + 1

    def _submit_as(self, request: Request, slot: int, attempt: int) -> None:
        request.app.submit(self._runner, request.work.app_id(slot=slot, attempt=attempt))

    def _open(self, handle: AppHandle, *, fresh: bool) -> Reading:
        position = self._places.open(handle, fresh=fresh)
        self._page.submitted(handle, position)
        locate = partial(self._locate, handle) if self._locate else None
        is_overtaken = partial(self._is_overtaken, handle) if self._me else None
        self._reading = Reading(handle, self._page, position, locate, is_overtaken)
        return self._reading

    def _is_overtaken(self, handle: AppHandle) -> bool:
        owner = self._runner.owner(handle)
        assert self._me is not None
        by_a_run = owner is not None and Holder.parse(owner) is not None
        return by_a_run and stand(owner, self._me) is Standing.OVERTAKEN

    def _outwait(self, handle: AppHandle, owner: str | None) -> Procedure[AppStatus]:
        """Wait for the end of an app that its holder has given up."""
        self._page.say(f"waiting for the end of {handle}, which an earlier try has cancelled")
        self._runner.cancel(handle, reason="cancelled by an earlier try of this run", if_owner=owner)
        yield Follow(handle=handle, logs=False, take=lambda _: True)
        return self._status(handle)

    def _show_rest(self, handle: AppHandle) -> Procedure[None]:
        """Show what the page lacks of an app that it has had: whoever gave it up may have had no time to."""
        place = self._places.find(handle)
        if place is not None:
            self._page.submitted(handle, place)
            yield from Reading(handle, self._page, place).until()

    def _status(self, handle: AppHandle) -> AppStatus:
        status = self._runner.status(handle)
        if status is None:
            raise UnknownAppException(handle)
        return status

    def _name(self, request: Request, slot: int, attempt: int) -> AppHandle:
        return self._attempts(request).handle(slot, attempt)

    @property
    def _token(self) -> str:
        assert self._me is not None, "an onlooker takes nothing over"
        return self._me.token

    # --- follow

    def follow(self) -> Procedure[AppStatus]:
        """Show the app's events to its end; return its status.

        Raises:
            UnknownAppException: It was deleted meanwhile.
            SchedulerError: The scheduler is away for too long; the app goes on.
        """
        assert self._handle is not None, "attach first"
        if self._ended:
            return self._ended
        reading = self._reading or self._open(self._handle, fresh=False)
        status = yield from reading.until()
        return status or self._status(self._handle)

    # --- leave

    def cancel(self, reason: str) -> bool:
        """Ask for the app's end, unless somebody else holds it by now; may be repeated.

        The mark comes first: a retry that starts before the app has ended must not take it for a running one.

        Returns:
            Whether the app is ours, and will end.

        Raises:
            SchedulerError: It could not be asked.
        """
        self._end_wanted = reason
        if self._me is None:
            return False
        if self._handle is None:
            self._handle = self._inherited()
        if self._handle is None:
            return False
        cancelled_token = self._me.cancelled_token
        try:
            # Without an owner: the interruption fell between submitting and signing.
            owners = (self._token, None)
            taken = any(
                self._runner.take_over(self._handle, cancelled_token, expected=owner) for owner in owners
            )
        except UnknownAppException:
            return False
        if taken:
            self._runner.cancel(self._handle, reason=reason, if_owner=cancelled_token)
        return taken

    def _inherited(self) -> AppHandle | None:
        """Take over the app that an earlier try left running, if we were cut short before we came to it."""
        request, me = self._request, self._me
        if request is None or request.shared or me is None or not me.has_predecessors:
            return None
        attempts = self._attempts(request)
        for slot in (0, *attempts.slots_after(0)):
            attempt, status = attempts.latest(slot)
            if status is None or status.is_terminal():
                continue
            handle = self._name(request, slot, attempt)
            owner = self._runner.owner(handle)
            is_free = stand(owner, me) is Standing.FREE
            if is_free and self._runner.take_over(handle, me.token, expected=owner):
                return handle
        return None

    def last_lines(self, limit_s: float) -> Procedure[None]:
        """Show what a cancelled app still says, for so many seconds at most."""
        if self._handle is not None and self._runner.status(self._handle) is not None:
            reading = self._reading or self._open(self._handle, fresh=False)
            if (yield from reading.until(monotonic() + limit_s)) is None:
                self._page.say(f"{self._handle} has not ended yet; {whole_log(self._handle)}")
