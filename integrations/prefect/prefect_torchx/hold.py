"""One call's hold on its app: finds or submits it, follows it, cancels it. Knows no Prefect.

What is true after a crash at each point, whatever process dies:

======================================  ==================================================================
last step done                          what the next try does
======================================  ==================================================================
nothing                                 submits
submitting                              submits the same id; the core does so only once
submitted, no owner yet                 takes the app over, follows it
taken over                              takes it over from the earlier try, follows it
the app has ended, nobody knows yet     takes it over: its output and its end come again
marked as given up, not yet cancelled   cancels it, waits for its end, submits the next attempt
======================================  ==================================================================
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from time import monotonic
from typing import Final, final

from prefect_torchx.logs import RunLog
from prefect_torchx.naming import Holder, Standing, Work, stand
from torchx_core.errors import InvalidCursorError, TorchXError, UnknownAppException
from torchx_core.runner import Runner
from torchx_core.schedulers import Batch, StateChanged
from torchx_core.specs import AppDef, AppHandle, AppState, AppStatus, CfgVal, make_app_handle

__all__ = ["Hold", "OvertakenError", "Request"]

TICK_S = 0.2
"""How long a reason to stop may go unnoticed."""
LAST_LINES_S = 3.0
"""How long a cancelled app's last lines are waited for; Prefect kills a cancelled run after 30 s."""
BOOKMARKS = 1000


class OvertakenError(TorchXError):
    """A later try of this run has the app."""

    def __init__(self, handle: AppHandle, owner: str | None) -> None:
        """Name the app and who has it."""
        super().__init__(f"{handle} belongs to a later try of this run, {owner!r}; this try leaves it alone")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What to submit, should it come to that."""

    app: AppDef
    scheduler: str
    cfg: Mapping[str, CfgVal]
    work: Work
    shared: bool
    """Every call with this work is after the same app, whatever run it is made in."""


@final
class Hold:
    """Finds or submits an app and follows it."""

    def __init__(
        self, runner: Runner, request: Request, me: Holder, log: RunLog, check: Callable[[], None]
    ) -> None:
        """Do nothing yet.

        Args:
            runner: Of the session to submit to.
            request: What to run.
            me: Who holds.
            log: Where events go.
            check: Called between events, at least every `TICK_S`. What it raises ends the hold and leaves the
                app alone.
        """
        self._runner = runner
        self._request = request
        self._me = me
        self._log = log
        self._check = check
        self._handle: AppHandle | None = None

    @property
    def handle(self) -> AppHandle | None:
        """The app held, or about to be submitted; None before."""
        return self._handle

    def run(self) -> AppStatus:
        """Find or submit the app and follow it to its end.

        Raises:
            OvertakenError: A later try has it.
            UnknownAppException: It was deleted meanwhile.
        """
        for slot in count():
            if self._take(slot):
                break
        assert self._handle is not None
        return self._follow(self._handle)

    def cancel(self, reason: str) -> None:
        """Ask for the app's end, unless somebody else holds it by now; may be repeated.

        The mark comes first: a retry that starts before the app has ended must not take it for a running one.
        """
        if self._handle is None:
            return
        try:
            # Without an owner: the interruption fell between submitting and signing.
            held = any(
                self._runner.take_over(self._handle, self._me.farewell, expected=owner)
                for owner in (self._me.token, None)
            )
        except UnknownAppException:
            return
        if held:
            self._runner.cancel(self._handle, reason=reason, if_owner=self._me.farewell)

    def show_last_lines(self) -> None:
        """Follow a cancelled app to its end, if that comes soon."""
        if self._handle is None or self._runner.status(self._handle) is None:
            return
        until = monotonic() + LAST_LINES_S
        for batch in self._batches(self._handle):
            for event in batch.events:
                self._log.write(event)
            _bookmark(self._handle, batch.cursor)
            if monotonic() >= until:
                return

    def _take(self, slot: int) -> bool:
        """Become the holder of the slot's app, submitting one if need be; False when another call is."""
        attempt, status = self._latest(slot)
        if status is None:
            return self._submit(slot, 0)
        handle = self._name(slot, attempt)
        owner = self._runner.owner(handle)
        match self._stand(owner):
            case Standing.TAKEN:
                return False
            case Standing.OVERTAKEN:
                raise OvertakenError(handle, owner)
            case Standing.GIVEN_UP:
                status = self._outwait(handle, owner)
            case Standing.FREE:
                if not self._runner.take_over(handle, self._me.token, expected=owner):
                    return self._take(slot)  # somebody was quicker: look again
        if status.is_terminal() and status.state is not AppState.SUCCEEDED:
            self._log.say(f"{handle} ended {status.state}: {status.failure_summary()}")
            return self._submit(slot, attempt + 1)
        self._handle = handle
        # To submit it again settles a half-done submit, and refuses another request under the same key.
        self._submit_as(slot, attempt)
        self._log.say(f"following {handle}, which is {status.state}")
        return True

    def _latest(self, slot: int) -> tuple[int, AppStatus | None]:
        """Return the slot's last attempt and its status; None when there is none."""
        latest = None
        for attempt in count():
            status = self._runner.status(self._name(slot, attempt))
            if status is None:
                return attempt - 1, latest
            latest = status
        raise AssertionError("count() never ends")

    def _stand(self, owner: str | None) -> Standing:
        standing = stand(owner, self._me)
        return Standing.FREE if self._request.shared and standing is not Standing.GIVEN_UP else standing

    def _submit(self, slot: int, attempt: int) -> bool:
        handle = self._name(slot, attempt)
        # Known before it exists: an exception may strike between any two steps, and `cancel` must find it.
        self._handle = handle
        self._submit_as(slot, attempt)
        if not self._runner.take_over(handle, self._me.token):
            self._handle = None
            return self._take(slot)  # an equal call submitted the same id and signed first
        _shown.pop(handle, None)  # of an app of that id that was deleted
        self._log.say(f"submitted {handle}")
        return True

    def _submit_as(self, slot: int, attempt: int) -> None:
        app_id = self._request.work.app_id(slot=slot, attempt=attempt)
        self._runner.run(self._request.app, self._request.scheduler, self._request.cfg, app_id=app_id)

    def _outwait(self, handle: AppHandle, owner: str | None) -> AppStatus:
        """Wait for the end of an app that its holder has given up."""
        self._log.say(f"waiting for the end of {handle}, which an earlier try has cancelled")
        self._runner.cancel(handle, reason="cancelled by an earlier try of this run", if_owner=owner)
        for _ in self._runner.follow(handle, logs=False, tick_s=TICK_S):
            self._check()
        return self._status(handle)

    def _follow(self, handle: AppHandle) -> AppStatus:
        status = None
        for batch in self._batches(handle):
            for event in batch.events:
                self._log.write(event)
                if isinstance(event, StateChanged) and event.status is not None:
                    status = event.status
            _bookmark(handle, batch.cursor)
            self._log.tick()
            self._check()
        return status or self._status(handle)

    def _batches(self, handle: AppHandle) -> Iterator[Batch]:
        try:
            return self._runner.follow(handle, _shown.get(handle), tick_s=TICK_S)
        except InvalidCursorError:  # of an app that was deleted and submitted again elsewhere
            return self._runner.follow(handle, tick_s=TICK_S)

    def _status(self, handle: AppHandle) -> AppStatus:
        status = self._runner.status(handle)
        if status is None:
            raise UnknownAppException(handle)
        return status

    def _name(self, slot: int, attempt: int) -> AppHandle:
        app_id = self._request.work.app_id(slot=slot, attempt=attempt)
        return make_app_handle(self._request.scheduler, self._runner.name, app_id)


_shown: Final[OrderedDict[AppHandle, str]] = OrderedDict()
"""How far this process has shown the output of its latest apps, so that a retry in it repeats nothing."""


def _bookmark(handle: AppHandle, cursor: str) -> None:
    _shown[handle] = cursor
    _shown.move_to_end(handle)
    while len(_shown) > BOOKMARKS:
        _shown.popitem(last=False)
