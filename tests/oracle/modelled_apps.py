"""A runner whose apps are values: each request to it is a place where anything may happen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from torchx_core.errors import AppIdConflictError, UnknownAppException
from torchx_core.schedulers import Batch, CancelOutcome, ListAppResponse, StateChanged
from torchx_core.specs import AppHandle, AppState, AppStatus, is_terminal, make_app_handle, parse_app_handle

__all__ = ["App", "Apps", "Killed", "Request"]

LEASE_S = 60.0


class Killed(BaseException):
    """The process that made the request is no more."""


@dataclass(frozen=True, slots=True)
class Request:
    """What to submit; whoever is asked for a deadline has to ask for the same again."""

    apps: Apps
    deadline: float | None = None
    scheduler: str = "local_cwd"
    lease_s: float | None = LEASE_S

    def submit(self, runner: object, app_id: str) -> AppHandle:
        """Submit it under that id."""
        del runner
        return self.apps.submit(app_id, self)


@dataclass
class App:
    """One app, on the host on which it was submitted."""

    host: str
    app_id: str
    request: Request
    submitter: int
    state: AppState = AppState.SUBMITTED
    owner: str | None = None
    renewed: float = 0.0
    asked: bool = False
    """Somebody has asked for its end."""

    @property
    def lives(self) -> bool:
        """Whether its program runs."""
        return self.state is AppState.RUNNING


class Apps:
    """Does what a `Runner` does, for one process at a time."""

    name = "s"

    def __init__(self, happen: Callable[[str], Callable[[], None]]) -> None:
        """Have no app.

        Args:
            happen: Called with the name of each request before it is carried out; what it returns is called
                after that. Both may raise `Killed`, and make requests of their own.
        """
        self._happen = happen
        self.apps: list[App] = []
        self.now = 1000.0
        self.host = "a"
        self.process = 0
        self.dead: set[int] = set()

    # --- what a runner has

    def submit(self, app_id: str, request: Request) -> AppHandle:
        """Write the app down, then start it; only the first one does."""
        after = self._happen("submit")
        app = self._find(app_id)
        if app is None:
            app = App(self.host, app_id, request, self.process, renewed=self.now)
            self.apps.append(app)
            self._happen("start")()
        if app.request != request:
            raise AppIdConflictError(app_id, ["deadline"])
        if app.state is AppState.SUBMITTED:
            self._start(app)
        after()
        return make_app_handle("local_cwd", self.name, app_id)

    def status(self, handle: AppHandle) -> AppStatus | None:
        """Look; one whose submitter died before it was started ends by that."""
        after = self._happen("status")
        app = self._find(parse_app_handle(handle).app_id)
        if app is not None and app.state is AppState.SUBMITTED and app.submitter in self.dead:
            app.state = AppState.FAILED
        status = None if app is None else AppStatus(state=app.state)
        after()
        return status

    def owner(self, handle: AppHandle) -> str | None:
        """Return the owner's token."""
        after = self._happen("owner")
        owner = self._known(handle).owner
        after()
        return owner

    def take_over(
        self, handle: AppHandle, token: str, *, expected: str | None = None, force: bool = False
    ) -> bool:
        """Compare and set the owner."""
        after = self._happen("take_over")
        app = self._known(handle)
        if force or app.owner == expected:
            app.owner = token
        owned = app.owner == token
        after()
        return owned

    def cancel(self, handle: AppHandle, *, reason: str, if_owner: str | None = None) -> CancelOutcome:
        """Ask for the app's end, which comes when somebody waits for it."""
        assert reason
        after = self._happen("cancel")
        app = self._known(handle)
        outcome = CancelOutcome.NOT_OWNER
        if if_owner in (None, app.owner):
            app.asked = True
            outcome = CancelOutcome.REQUESTED
            if app.state is AppState.SUBMITTED:
                app.state = AppState.CANCELLED
        after()
        return outcome

    def follow(
        self, handle: AppHandle, cursor: str | None = None, *, logs: bool = True, tick_s: float | None = None
    ) -> Iterator[Batch]:
        """Yield a tick, then the end, however long that takes."""
        del cursor, logs, tick_s
        app = self._known(handle)
        self._happen("follow")()
        yield Batch(events=(), cursor="1")
        app.renewed = self.now
        self._happen("the end")()
        if not is_terminal(app.state):
            app.state = AppState.CANCELLED if app.asked else AppState.SUCCEEDED
        change = StateChanged(state=app.state, time=0.0, status=AppStatus(state=app.state))
        yield Batch(events=(change,), cursor="2")

    def list(self, scheduler: str, *, begins: str = "") -> list[ListAppResponse]:
        """Return what is on this host, and has an id that begins so."""
        after = self._happen("list")
        found = [
            ListAppResponse(app_id=app.app_id, state=app.state, app_handle=f"{scheduler}://s/{app.app_id}")
            for app in self.apps
            if app.host == self.host and app.app_id.startswith(begins)
        ]
        after()
        return found

    # --- what happens to apps

    def pass_time(self, seconds: float) -> None:
        """Let time pass in which nobody follows; leases end."""
        self.now += seconds
        for app in self.apps:
            if app.lives and self.now - app.renewed >= LEASE_S:
                app.state = AppState.CANCELLED

    def end(self, state: AppState) -> None:
        """End what runs."""
        for app in self.apps:
            if app.lives:
                app.state = state

    def _start(self, app: App) -> None:
        lives = [other.app_id for other in self.apps if other.lives]
        assert not lives, f"{app.app_id} starts, and {lives[0]} runs"
        done = [other.app_id for other in self.apps if other.state is AppState.SUCCEEDED]
        is_in_sight = all(other.host == app.host for other in self.apps)
        assert not (done and is_in_sight), f"{app.app_id} starts, and {done[0]} has succeeded"
        app.state = AppState.RUNNING

    def _known(self, handle: AppHandle) -> App:
        app = self._find(parse_app_handle(handle).app_id)
        if app is None:
            raise UnknownAppException(handle)
        return app

    def _find(self, app_id: str) -> App | None:
        return next((app for app in self.apps if (app.host, app.app_id) == (self.host, app_id)), None)
