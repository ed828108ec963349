"""How an engine's task attaches to its app, explored: whatever happens between any two steps, up to a number.

The code of the integrations runs as it is (`Attachment`), against apps that are values (`modelled_apps`). At
each request, and at each write of Airflow's record, the process may be killed, before or after it; the app
may end; the engine may take the process for dead and run the next try, to its end, while this one is frozen;
and somebody may end the task. A retry may come to another host, where nobody knows the app: it waits until
the app's lease is over, and runs it again.

Not explored: that who submits, or in Prefect is about to, is frozen for longer than a lease, and a retry
comes to another host meanwhile; and clears. The state store answers to nobody but the present try, as
Airflow's does.
"""

from __future__ import annotations

import itertools
import json
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeVar, cast

import pytest
from choices import Choices, explore
from modelled_apps import LEASE_S, Apps, Killed, Request

from airflow_torchx import _attachment, _sight
from airflow_torchx._persistence import Persistence
from airflow_torchx._plan import OnKill, judge_kill, reason_of_worker
from airflow_torchx._record import AirflowUnavailableError, Record
from airflow_torchx._sight import LOOK_AGAIN_S, OutOfSightError
from airflow_torchx._tries import TaskTry
from prefect_torchx import attachment as prefect_attachment
from prefect_torchx import unseen
from prefect_torchx.driver import Follow, Pause, Procedure
from prefect_torchx.naming import FlowTry, Holder, Work
from prefect_torchx.position import START, End, NotedApp, Position
from torchx_core.errors import TorchXError
from torchx_core.launch import AppRequest
from torchx_core.runner import Runner
from torchx_core.schedulers import AppEvent, Batch, StateChanged
from torchx_core.specs import AppHandle, AppState, AppStatus

T = TypeVar("T")
RETRIES = 2
FROZEN = "the process is taken for dead, and goes on after the next try"
KILLED = ("killed before", "killed after")
ENDS = {"the app succeeds": AppState.SUCCEEDED, "the app fails": AppState.FAILED}


class Gone(Exception):
    """The try leaves its app, as somebody wants it to."""


class Task(ABC):
    """One task of an engine's, try after try."""

    reasons: tuple[str, ...]
    """Why somebody ends it."""
    submits: frozenset[str] = frozenset({"submit", "start"})
    """At which requests a process is about to start an app."""

    def __init__(self, choices: Choices) -> None:
        """Have begun nothing."""
        self.choices = choices
        self.apps = Apps(self.happen)
        self.runner = cast("Runner", self.apps)
        self.number = 0
        self.wanted = ""
        self.outcome = ""
        self.deaths = 0
        self.is_submitting = False
        """Whether a process is frozen that may yet start an app where the record says."""

    def run(self) -> None:
        """Run tries until the engine starts none any more, and judge what is left."""
        self.tries()
        lives = [app for app in self.apps.apps if app.lives]
        succeeded = any(app.state is AppState.SUCCEEDED for app in self.apps.apps)
        if self.outcome == "success":
            assert succeeded
            assert not lives, "an app outlives the success of its task"
        if self.wanted == "a user ends the task" and not self.deaths:
            assert all(app.asked for app in lives), "a user has ended the task, and not its app"
        if self.outcome == "failed":
            assert not succeeded, "a task fails whose app has succeeded"
        self.apps.pass_time(LEASE_S)
        assert not any(app.lives for app in self.apps.apps), "an app is left for good"

    def tries(self) -> None:
        """Run the tries that are left."""
        while self.number <= RETRIES and self.outcome in {"", "retry"}:
            self.number += 1
            if self.number > 1:
                self.apps.host = self.choices.take("a", *(() if self.is_submitting else self.hosts()))
            process, self.apps.process = self.apps.process, self.number
            outcome = self.outcome_of_try(self.number)
            self.apps.process = process
            if outcome != "overtaken":
                self.outcome = outcome

    def outcome_of_try(self, number: int) -> str:
        """Run one try; return what the engine makes of it."""
        try:
            status = self.one_try(number)
        except Killed:
            self.deaths += 1
            return "retry" if number <= RETRIES else "killed"
        except Gone:
            return "ended" if self.wanted == "a user ends the task" else "retry"
        if number != self.number:
            return "overtaken"
        if status is None:
            return "retry"
        return "success" if status.state is AppState.SUCCEEDED else "retry" if number <= RETRIES else "failed"

    def happen(self, request: str) -> Callable[[], None]:
        """Have something happen at a request."""
        process, host = self.apps.process, self.apps.host
        reasons = () if self.wanted else self.reasons
        frozen = (FROZEN,) if self.number <= RETRIES and not self.wanted else ()
        made = self.choices.take("nothing", *KILLED, *ENDS, *frozen, *reasons)
        if made != "nothing":
            self.choices.happened[-1] = f"try {process}, {request}: {made}"
        if made in KILLED:
            self.apps.dead.add(process)
        if made == KILLED[0]:
            raise Killed
        if made in ENDS:
            self.apps.end(ENDS[made])
        if made == FROZEN:
            self.is_submitting |= request in self.submits
            self.tries()
            self.apps.process, self.apps.host = process, host
        if made in reasons:
            self.wanted = made
            self.interrupt()

        def after() -> None:
            if made == KILLED[1]:
                raise Killed

        return after

    @abstractmethod
    def one_try(self, number: int) -> AppStatus | None:
        """Attach to the app and follow it."""

    @abstractmethod
    def interrupt(self) -> None:
        """Tell the process that somebody wants its end."""

    def hosts(self) -> tuple[str, ...]:
        """Return the other hosts: any worker may get a retry."""
        return ("b",)


class Log:
    """Shows nothing."""

    full = False

    def submitted(self, handle: AppHandle, position: Position | None = None) -> None: ...

    def write(self, event: AppEvent) -> None: ...

    def mark(self, cursor: str) -> None: ...

    def tick(self) -> None: ...

    def say(self, message: str) -> None: ...


class AirflowTask(Task):
    """A task of Airflow's whose record is kept."""

    reasons = ("a user ends the task", "the worker shuts down")

    def __init__(self, choices: Choices) -> None:
        """Have no record."""
        super().__init__(choices)
        self.stored = ""
        self.has_left: set[int] = set()
        self.has_succeeded: int | None = None
        """How many apps there were when the record first said that one has succeeded."""

    def run(self) -> None:
        """Do as each task does; what has been written down as done is not done again."""
        super().run()
        assert self.has_succeeded in {None, len(self.apps.apps)}, "a task runs again what has succeeded"

    def one_try(self, number: int) -> AppStatus | None:
        """Do what an `Execution` does."""
        for is_rescheduled in itertools.chain([False], itertools.repeat(True)):
            attachment = self._attachment(self._try(number, is_rescheduled=is_rescheduled))
            try:
                return attachment.attach() or attachment.follow()
            except OutOfSightError:
                self.apps.pass_time(LOOK_AGAIN_S)
            except (AirflowUnavailableError, TorchXError):
                if number == self.number and number <= RETRIES:
                    raise
                return None
        raise AssertionError("endless")

    def interrupt(self) -> None:
        """Do nothing: the process hears of it when it looks."""

    def salt(self, this_try: TaskTry) -> str:
        """Return what makes ids unique."""
        return this_try.ti_id

    def load(self) -> Record | None:
        """Read the record."""
        after = self.happen("load")
        self._check_that_airflow_answers()
        after()
        return Record.from_json(json.loads(self.stored), "here") if self.stored else None

    def save(self, record: Record) -> None:
        """Write the record."""
        after = self.happen("save")
        self._check_that_airflow_answers()
        self.stored = json.dumps(record.to_json())
        if record.final_status and self.has_succeeded is None:
            self.has_succeeded = len(self.apps.apps)
        after()

    def _check_that_airflow_answers(self) -> None:
        """Refuse what an earlier try asks: each has an id of its own, and the store knows the present one."""
        if self.apps.process != self.number:
            raise AirflowUnavailableError

    def _try(self, number: int, *, is_rescheduled: bool) -> TaskTry:
        return TaskTry(
            dag_id="d",
            run_id="r",
            task_id="t",
            map_index=-1,
            ti_id=f"ti{number}",
            number=number,
            generation=RETRIES,
            is_rescheduled=is_rescheduled,
        )

    def _attachment(self, this_try: TaskTry) -> _attachment.Attachment:
        def request(deadline: float | None) -> Request:
            return Request(self.apps, deadline)

        def look(attachment: _attachment.Attachment) -> None:
            if not self.wanted or this_try.number in self.has_left:
                return
            self.has_left.add(this_try.number)
            state = "failed" if self.wanted == "a user ends the task" else "running"
            if judge_kill(state, "detach", is_last_try=this_try.is_last) is OnKill.CANCEL:
                attachment.cancel(reason_of_worker(state))
            raise Gone

        deadline = 10_000.0 * this_try.number
        return _attachment.Attachment(self.runner, self, this_try, request, Log(), look, deadline)


class PrefectTask(Task):
    """A task of Prefect's; each of its tries is one of the task run, or of a later start of the flow run."""

    reasons = ("a user ends the task",)
    submits = frozenset({"status", "list", "open", "submit", "start"})

    def __init__(self, choices: Choices) -> None:
        """Have no holder."""
        super().__init__(choices)
        self.notes: dict[AppHandle, NotedApp] = {}
        self.tokens: dict[int, str] = {}
        self.holds: dict[int, prefect_attachment.Attachment] = {}
        self.flow_try, self.task_try = 1, 0

    def one_try(self, number: int) -> AppStatus | None:
        """Do what an `AppRun` does."""
        if number > 1 and self.choices.take("the task is retried", "the flow run is retried")[4] == "f":
            self.flow_try, self.task_try = self.flow_try + 1, 0
        self.task_try += 1
        me = Holder(
            flow_tries=(FlowTry("f" * 12, self.flow_try),),
            task_run_id=f"t{self.flow_try}",
            task_try=self.task_try,
            call=f"c{number}",
        )
        self.tokens[number] = me.token
        attachment = self.holds[number] = prefect_attachment.Attachment(self.runner, Log(), self, me)
        request = prefect_attachment.Request(
            app=cast("AppRequest", Request(self.apps)), work=Work(name="w", identity="w"), shared=False
        )
        try:
            self._tell(attachment.attach(request))
            return self._tell(attachment.follow())
        except prefect_attachment.OvertakenError:
            assert number < self.number
            return None

    def open(self, handle: AppHandle, *, fresh: bool) -> Position | None:
        """Write the app down, and return the place in its output."""
        after = self.happen("open")
        if fresh or handle not in self.notes:
            holder, host = self.tokens[self.apps.process], self.apps.host
            self.notes[handle] = NotedApp(
                "run", None, 0, has_hidden=False, limit_bytes=None, host=host, holder=holder
            )
        after()
        return START

    def noted(self, handle: AppHandle) -> NotedApp | None:
        """Return what was written down, on whatever host."""
        return self.notes.get(handle)

    def find(self, handle: AppHandle) -> Position | None:
        """Return the place in the app's output."""
        del handle
        return START

    def withdraw(self, handle: AppHandle) -> None:
        """Keep nothing: places are not modelled."""

    def interrupt(self) -> None:
        """Cancel while the step that is being made goes on, as it does in a thread of its own."""
        assert self.holds[self.apps.process].cancel("enough") in {True, False}

    def _tell(self, procedure: Procedure[T]) -> T:
        """Carry out a procedure until somebody wants its end."""
        while True:
            try:
                effect = next(procedure)
            except StopIteration as stop:
                return cast("T", stop.value)
            if self.wanted:
                raise Gone
            if isinstance(effect, Pause):
                self.apps.pass_time(effect.seconds)
            if isinstance(effect, Follow):
                for batch in self.apps.follow(effect.handle):
                    is_all = not effect.take(batch)
                    self._note(effect.handle, batch)
                    if is_all:
                        break
                    if self.wanted:
                        raise Gone

    def _note(self, handle: AppHandle, batch: Batch) -> None:
        """Write down how far the log is, on the server."""
        noted = self.notes[handle]
        ends = (
            End.of(event.status) for event in batch.events if isinstance(event, StateChanged) and event.status
        )
        position = Position(cursor=batch.cursor, shown_bytes=0, end=next(ends, None))
        self.notes[handle] = noted._replace(position=position, changes=noted.changes + 1)


@pytest.fixture(autouse=True)
def clock_and_host(monkeypatch: pytest.MonkeyPatch) -> list[Task]:
    """Have the task that runs say what time it is, and on which host."""
    tasks: list[Task] = []
    ticks = itertools.count(0.0, 10.0)
    monkeypatch.setattr(_sight, "this_host", lambda: tasks[-1].apps.host)
    for module in (_attachment, _sight):
        monkeypatch.setattr(module, "time", lambda: tasks[-1].apps.now)
    monkeypatch.setattr(_attachment, "monotonic", lambda: next(ticks))
    monkeypatch.setattr(unseen, "gethostname", lambda: tasks[-1].apps.host)
    for module in (unseen, prefect_attachment):
        monkeypatch.setattr(module, "monotonic", lambda: tasks[-1].apps.now)
    monkeypatch.setattr(Persistence, "pause", lambda self, _seconds: self._look())
    return tasks


@pytest.mark.parametrize("kind", [AirflowTask, PrefectTask])
def test_a_task_has_one_app_whatever_happens(clock_and_host: list[Task], kind: type[Task]) -> None:
    """One app lives at a time, none starts after a success, and none is left without a cancel or a lease."""

    def run(choices: Choices) -> None:
        clock_and_host[:] = [kind(choices)]
        clock_and_host[0].run()

    assert explore(run, 2) > 1000
