"""A task instance without Airflow: its tries hold real apps, and crash where the test says."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from local_apps import app_of
from task_tries import make_try

from airflow_torchx._attachment import Attachment
from airflow_torchx._record import Record
from airflow_torchx._tries import TaskTry
from torchx_core.runner import Runner, get_runner
from torchx_core.schedulers import AppEvent, LogLines
from torchx_core.specs import AppDef, AppHandle, AppState

__all__ = ["Bench", "Crash", "DictMemory", "Request", "Screen", "echo", "sleeper", "task_bench"]


class Crash(BaseException):
    """The process dies here."""


class DictMemory:
    """Keeps the record as JSON text, and crashes or fails when it is told to."""

    def __init__(self) -> None:
        self.text: str | None = None
        self.saves: list[Record] = []
        self.before_save: Callable[[int], None] = lambda _count: None

    def salt(self, this_try: TaskTry) -> str:
        return this_try.ti_id

    def load(self) -> Record | None:
        return None if self.text is None else Record.from_json(json.loads(self.text), "memory")

    def save(self, record: Record) -> None:
        self.before_save(len(self.saves))
        self.saves.append(record)
        self.text = json.dumps(record.to_json())

    @property
    def record(self) -> Record:
        """What is stored now."""
        found = self.load()
        assert found is not None
        return found


@dataclass
class Request:
    """Submits an app, and crashes before or after when it is told to."""

    app: AppDef
    scheduler: str = "local_cwd"
    lease_s: float | None = None
    crash_before: BaseException | None = None
    crash_after: BaseException | None = None
    deadline: float | None = None

    def with_deadline(self, deadline: float | None) -> Self:
        """Return the request that a try makes of this one."""
        return replace(self, deadline=deadline)

    def submit(self, runner: Runner, app_id: str) -> AppHandle:
        if self.crash_before:
            raise self.crash_before
        cfg = {} if self.deadline is None else {"deadline": self.deadline}
        handle = runner.run(self.app, self.scheduler, cfg, app_id=app_id)
        if self.crash_after:
            raise self.crash_after
        return handle


@dataclass
class Screen:
    """Shows the log lines that a try has shown, and what it said itself."""

    lines: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def write(self, event: AppEvent) -> None:
        if isinstance(event, LogLines):
            self.lines += event.lines

    def tick(self) -> None:
        pass

    def say(self, message: str) -> None:
        self.said.append(message)


@dataclass
class Bench:
    """One task instance whose tries share a scheduler and a memory."""

    runner: Runner
    memory: DictMemory = field(default_factory=DictMemory)
    screen: Screen = field(default_factory=Screen)

    def attachment(
        self,
        request: Request,
        *,
        number: int = 1,
        generation: int = 3,
        look: Callable[[Attachment], None] = lambda _attachment: None,
        deadline: float | None = None,
        is_rescheduled: bool = False,
    ) -> Attachment:
        """Return a new try's hold, as a new process would make it."""
        self.screen = Screen()
        this_try = make_try(number=number, generation=generation, is_rescheduled=is_rescheduled)
        return Attachment(
            self.runner, self.memory, this_try, request.with_deadline, self.screen, look, deadline
        )

    def run(
        self, request: Request, *, number: int = 1, generation: int = 3, deadline: float | None = None
    ) -> AppState:
        """Run a whole try and return the app's state."""
        attachment = self.attachment(request, number=number, generation=generation, deadline=deadline)
        attachment.attach()
        return attachment.follow().state

    def apps(self) -> dict[str, AppState]:
        """Return every app there is, by handle, oldest first."""
        return {app.app_handle: app.state for app in self.runner.list("local_cwd")}


@contextmanager
def task_bench(folder: Path) -> Iterator[Bench]:
    """Yield a task instance whose apps are gone afterwards."""
    with get_runner("s", state_dir=str(folder / "state")) as runner:
        yield Bench(runner)
        for handle in (app.app_handle for app in runner.list("local_cwd")):
            runner.cancel(handle, grace_s=0)
            runner.wait(handle, timeout_s=240)


def echo(*words: str) -> Request:
    """Return an app that writes these lines."""
    return Request(app_of("printf", "%s\\n", *words))


def sleeper(**fields: object) -> Request:
    """Return an app that runs until it is cancelled."""
    return Request(app_of("sleep", "600"), **fields)  # type: ignore[arg-type]  # a test's short cut
