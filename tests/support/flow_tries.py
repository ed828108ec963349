"""Tries of one call, as Prefect would make them, on a fake scheduler and without Prefect."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field

from prefect_torchx.attachment import Attachment, Request
from prefect_torchx.driver import Procedure, drive
from prefect_torchx.naming import FlowTry, Holder, Work
from prefect_torchx.position import START, NotedApp, Position
from prefect_torchx.saved_position import SavedPosition
from torchx_core import AppDef, Role, Runner
from torchx_core.launch import AppRequest
from torchx_core.schedulers import AppEvent, LogLines
from torchx_core.specs import AppHandle, AppState, AppStatus
from torchx_core.testing import fake_runner

__all__ = ["Flow", "Leave", "Page", "PositionStore", "Try", "leave", "stay"]


class Leave(BaseException):
    """Something ends the try."""


def leave() -> None:
    """End the try at the first look."""
    raise Leave


def stay() -> None:
    """Look at nothing."""


class Page:
    """Shows at once what it is told, and delivers it at once."""

    def __init__(self, delivered: Callable[[AppHandle, Position], object]) -> None:
        self.shown: list[str] = []
        self.said: list[str] = []
        self.room = 0
        """How many lines it takes before it is full for a while; 0 for any number."""
        self.is_slow = False
        """Whether nothing is delivered as long as its try goes on."""
        self._taken = self._ticks = 0
        self._delivered = delivered
        self._handle: AppHandle = ""

    def submitted(self, handle: AppHandle, position: Position | None = None) -> None:
        del position
        self._handle = handle

    def write(self, event: AppEvent) -> None:
        if isinstance(event, LogLines):
            self.shown += event.lines
            self._taken += len(event.lines)

    @property
    def full(self) -> bool:
        return bool(self.room) and self._taken >= self.room

    def mark(self, cursor: str) -> None:
        if not self.is_slow:
            self._delivered(self._handle, Position(cursor=cursor, shown_bytes=0))

    def tick(self) -> None:
        self._ticks += 1
        if self._ticks % 3 == 0:
            self._taken = 0  # it has brought away what it had

    def say(self, message: str) -> None:
        self.said.append(message)


@dataclass
class PositionStore:
    """Keeps positions as the server does; can be made to forget, as a new server would."""

    run: str = "run"
    positions: dict[AppHandle, Position | None] = field(default_factory=dict)
    withdrawn: list[AppHandle] = field(default_factory=list)
    elsewhere: dict[AppHandle, Callable[[], NotedApp]] = field(default_factory=dict)
    """What was written down on another host, as it is by the time that somebody asks."""

    def open(self, handle: AppHandle, *, fresh: bool) -> Position | None:
        self.positions[handle] = None if fresh else self.positions.get(handle)
        return self.positions[handle]

    def find(self, handle: AppHandle) -> Position | None:
        return (self.positions[handle] or START) if handle in self.positions else None

    def noted(self, handle: AppHandle) -> NotedApp | None:
        return self.elsewhere[handle]() if handle in self.elsewhere else None

    def withdraw(self, handle: AppHandle) -> None:
        self.withdrawn.append(handle)

    def note(self, handle: AppHandle, position: Position) -> None:
        self.positions[handle] = position

    def save(self, handle: AppHandle) -> bool:
        return handle in self.positions


class Try:
    """One try of a call: a hold, and the page that it writes on."""

    def __init__(self, flow: Flow, me: Holder, look: Callable[[], None]) -> None:
        self._flow = flow
        self._look = look
        places = SavedPosition(flow.position_store)
        self.page = Page(places.note)
        self.attachment = Attachment(flow.runner, self.page, places, me)

    @property
    def handle(self) -> AppHandle | None:
        return self.attachment.handle

    def attach(self) -> None:
        drive(self.attachment.attach(self._flow.request), self._flow.runner, self._look)

    def run(self) -> AppStatus:
        """Attach and follow to the end."""

        def procedure() -> Procedure[AppStatus]:
            yield from self.attachment.attach(self._flow.request)
            return (yield from self.attachment.follow())

        return drive(procedure(), self._flow.runner, self._look)

    def cancel(self) -> None:
        self.attachment.cancel("because")
        drive(self.attachment.last_lines(5), self._flow.runner, stay)


class Flow:
    """A flow run of one task, whose app does these steps."""

    def __init__(self, *steps: str, shared: bool = False) -> None:
        self.runner: Runner = fake_runner()
        self.position_store = PositionStore(run=uuid.uuid4().hex)
        role = Role(name="r", image="", entrypoint="fake", args=list(steps))
        self.request = Request(
            app=AppRequest(app=AppDef("app", [role]), scheduler="fake", cfg={}),
            work=Work(name="app", identity=uuid.uuid4().hex),
            shared=shared,
        )

    def attachment(
        self, *, task: str = "t", task_try: int = 1, flow_try: int = 1, check: Callable[[], None] = stay
    ) -> Try:
        """Return one try of a call."""
        tries = (FlowTry("run", flow_try),)
        me = Holder(flow_tries=tries, task_run_id=task, task_try=task_try, call=uuid.uuid4().hex)
        return Try(self, me, check)

    @property
    def states(self) -> list[AppState]:
        """The states of all apps there are."""
        return [app.state for app in self.runner.list("fake")]
