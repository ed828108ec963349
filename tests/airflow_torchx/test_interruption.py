from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Timer
from typing import Any

import pytest
from local_apps import app_of
from task_tries import make_try

from airflow_torchx import _interruption
from airflow_torchx._arguments import OnWorkerShutdown
from airflow_torchx._attachment import Attachment
from airflow_torchx._engine import AirflowException
from airflow_torchx._interruption import Interruption
from airflow_torchx._log import AppLog
from airflow_torchx._ownership import NotSubmittedError
from airflow_torchx._record import AirflowUnavailableError, Record
from airflow_torchx._sight import ends_with_task
from airflow_torchx._tries import TaskTry
from torchx_core.errors import SchedulerError
from torchx_core.launch import AppRequest
from torchx_core.runner import Runner, get_runner
from torchx_core.schedulers import CancelOutcome
from torchx_core.specs import AppState, AppStatus

START_S = 30
"""How long a loaded host may take to start the app."""


class OneRecord:
    """Keeps a record for as long as the test runs."""

    def __init__(self) -> None:
        self.record: Record | None = None

    def salt(self, this_try: TaskTry) -> str:
        return this_try.ti_id

    def load(self) -> Record | None:
        return self.record

    def save(self, record: Record) -> None:
        self.record = record


class Task:
    """A task whose app sleeps, and what its engine would say when asked."""

    def __init__(self, runner: Runner) -> None:
        self.runner = runner
        self.memory = OneRecord()
        self.killed = False
        self.supervisor_is_gone = False
        self.state: str | None = "running"
        self.server_is_down = False
        self.grace_s = 1.0
        self.ready: Path | None = None
        """The kill waits for this file."""
        self.looked_again: Path | None = None
        """Made when the task is looked after once more after it was killed."""
        self._looks = 0

    def follow(
        self, *argv: str, policy: OnWorkerShutdown = "detach", number: int = 1, generation: int = 2
    ) -> None:
        """Run the task until it goes."""
        attachment, interruption = self._attachment(
            argv, policy, make_try(number=number, generation=generation)
        )
        attachment.attach()
        attachment.follow()
        interruption.check()

    def defer(self) -> None:
        """Run the task until it defers."""
        attachment, interruption = self._attachment((), "detach", make_try(number=1, generation=2))
        attachment.attach()
        assert attachment.follow_for(0) is None
        interruption.check_deferral(attachment)

    def _attachment(
        self, argv: tuple[str, ...], policy: OnWorkerShutdown, this_try: TaskTry
    ) -> tuple[Attachment, Interruption]:
        interruption = Interruption(
            this_try,
            policy,
            killed=self._is_killed,
            present_state=self.present_state,
            supervisor_is_gone=lambda: self.supervisor_is_gone,
        )
        request = AppRequest(
            app=app_of(*(argv or ("sleep", "600"))), scheduler="local_cwd", cfg={"grace_s": self.grace_s}
        )
        log = AppLog(lambda _level, _message, _time: None)
        return Attachment(
            self.runner, self.memory, this_try, lambda _: request, log, interruption.look
        ), interruption

    def _is_killed(self) -> bool:
        is_killed = self.killed and (self.ready is None or self.ready.exists())
        self._looks += is_killed
        if self._looks > 1 and self.looked_again:
            self.looked_again.touch()
        return is_killed

    def present_state(self) -> str | None:
        if self.server_is_down:
            raise AirflowUnavailableError("503")
        return self.state

    @property
    def handle(self) -> str:
        """The app's handle."""
        assert self.memory.record is not None
        return self.memory.record.handle

    def status(self) -> AppStatus:
        """Return the app's status."""
        status = self.runner.status(self.handle)
        assert status is not None
        return status

    def is_active(self) -> bool:
        return not self.status().is_terminal()


@pytest.fixture
def task(tmp_path: Path) -> Iterator[Task]:
    """Return a task whose app is gone when the test is over."""
    with get_runner("s", state_dir=str(tmp_path)) as runner:
        made = Task(runner)
        yield made
        for app in runner.list("local_cwd"):
            runner.cancel(app.app_handle, grace_s=0)
            runner.wait(app.app_handle, timeout_s=240)


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ("failed", "cancelled by user action in Airflow: the task instance is failed"),
        ("restarting", "cancelled because the Airflow task was cleared"),
        (None, "cancelled by user action in Airflow: the task instance is deleted"),
    ],
)
def test_a_users_act_cancels_with_its_reason(task: Task, state: str | None, reason: str) -> None:
    """The app ends CANCELLED, and both sides say who wanted it."""
    task.killed, task.state = True, state
    with pytest.raises(AirflowException, match=reason):
        task.follow()
    assert (task.status().state, task.status().msg) == (AppState.CANCELLED, reason)


def test_a_worker_shutdown_detaches(task: Task) -> None:
    """The app goes on, and the task fails at once so that its retry can follow."""
    task.killed = True
    with pytest.raises(
        AirflowException, match=r"the worker of try 1 is shutting down; local_cwd://s/.* goes on"
    ):
        task.follow()
    assert task.is_active()


@pytest.mark.parametrize(
    ("policy", "number"), [("cancel", 1), ("detach", 3)], ids=["by choice", "no retry left"]
)
def test_a_worker_shutdown_can_cancel(task: Task, policy: OnWorkerShutdown, number: int) -> None:
    """When the user wants it so, or when nobody would take the app over."""
    task.killed = True
    with pytest.raises(AirflowException, match="because the Airflow worker shut down"):
        task.follow(policy=policy, number=number)
    assert task.status().state is AppState.CANCELLED


IN_A_POD = "AIRFLOW_IS_K8S_EXECUTOR_POD"


@pytest.mark.parametrize("server_is_down", [False, True])
def test_a_pod_that_ends_waits_for_its_local_app(
    task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, server_is_down: bool
) -> None:
    """The app would end with the container: it is cancelled, and has its grace period to save its work."""
    monkeypatch.setenv(IN_A_POD, "True")
    monkeypatch.setattr(_interruption, "LAST_LINES_S", 0.0)
    task.killed, task.server_is_down, task.grace_s = True, server_is_down, 600.0
    task.ready, task.looked_again, saved = tmp_path / "ready", tmp_path / "again", tmp_path / "saved"
    save = f"until [ -e '{task.looked_again}' ]; do sleep 0.05; done; touch '{saved}'; exit 0"
    with pytest.raises(AirflowException, match="because the Airflow worker shut down"):
        task.follow("sh", "-c", f'trap "{save}" TERM; touch "{task.ready}"; while :; do sleep 0.05; done')
    assert saved.exists()
    assert task.status().state is AppState.CANCELLED


@pytest.mark.parametrize(
    ("name", "app", "ends"),
    [
        (IN_A_POD, "local_cwd://s/app", True),
        ("AIRFLOW_IS_EXECUTOR_CONTAINER", "local_dir://s/app", True),
        (IN_A_POD, "local_cwd@gpu-box://s/app", False),
        (IN_A_POD, "local_docker://s/app", False),
        (IN_A_POD, "its app", False),
        ("ANOTHER", "local_cwd://s/app", False),
    ],
)
def test_a_local_app_ends_with_a_container_of_its_own(
    monkeypatch: pytest.MonkeyPatch, name: str, app: str, *, ends: bool
) -> None:
    """Whatever runs elsewhere does not, and nothing does where a worker runs many tasks."""
    monkeypatch.setenv(name, "True")
    assert ends_with_task(app) is ends


def test_a_cancel_that_fails_is_tried_again(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    """The scheduler may be away for just that second; the process has a few more."""
    answers = [SchedulerError("away", retryable=True)]
    real = Runner.cancel

    def cancel(runner: Runner, *args: str, **kwargs: Any) -> CancelOutcome:
        if answers:
            raise answers.pop()
        return real(runner, *args, **kwargs)

    monkeypatch.setattr(Runner, "cancel", cancel)
    task.killed, task.state = True, "failed"
    with pytest.raises(AirflowException, match="by user action"):
        task.follow()
    assert task.status().state is AppState.CANCELLED


def test_a_users_act_just_before_a_deferral_cancels(task: Task) -> None:
    """Airflow refuses the deferral and makes no trigger, so nobody else would."""
    task.state = "failed"
    with pytest.raises(AirflowException, match="the task instance is failed"):
        task.defer()
    task.runner.wait(task.handle, timeout_s=240)
    assert task.status().state is AppState.CANCELLED


@pytest.mark.parametrize("server_is_down", [False, True])
def test_a_deferral_leaves_the_app_alone(task: Task, *, server_is_down: bool) -> None:
    """A deferred task's process ends without a cancel, whether or not the server answers just then."""
    task.server_is_down = server_is_down
    task.defer()
    assert task.is_active()


def test_an_unknown_cause_leaves_the_app_alone(task: Task) -> None:
    """When the server cannot be asked, nobody can tell that a user wants the app's end."""
    task.killed, task.server_is_down = True, True
    with pytest.raises(AirflowException, match="goes on"):
        task.follow()
    assert task.is_active()


def test_a_lost_supervisor_detaches(task: Task) -> None:
    """A process that nobody watches any more goes, and leaves the app to the next try."""
    task.supervisor_is_gone = True
    with pytest.raises(AirflowException, match=r"supervisor of this task is gone; local_cwd://s/.* goes on"):
        task.follow()
    assert task.is_active()


def test_a_kill_while_a_cleared_app_ends_submits_nothing(task: Task, tmp_path: Path) -> None:
    """The next try still finds the old app's record, and waits for its end as this one did."""
    task.killed, task.grace_s = True, 60.0
    task.ready, end = tmp_path / "ready", tmp_path / "end"
    with pytest.raises(AirflowException, match="goes on"):
        task.follow(
            "sh", "-c", f"trap '' TERM; touch '{task.ready}'; until [ -e '{end}' ]; do sleep 0.05; done"
        )
    old = task.memory.record
    with pytest.raises(AirflowException, match="its app goes on"):
        task.follow(number=2, generation=4)
    assert task.memory.record == old
    assert len(task.runner.list("local_cwd")) == 1
    end.touch()


@pytest.mark.parametrize(
    ("policy", "generation"), [("detach", 4), ("cancel", 2)], ids=["of a cleared task", "given up"]
)
def test_a_users_act_while_an_earlier_app_ends_submits_nothing(
    task: Task, tmp_path: Path, policy: OnWorkerShutdown, generation: int
) -> None:
    """The earlier app ends within the seconds that the try has left; nobody would come for another one."""
    task.killed, task.grace_s = True, 60.0
    task.ready, end = tmp_path / "ready", tmp_path / "end"
    with pytest.raises(AirflowException):
        task.follow(
            "sh",
            "-c",
            f"trap '' TERM; touch '{task.ready}'; until [ -e '{end}' ]; do sleep 0.05; done",
            policy=policy,
        )
    task.state = "failed"
    Timer(0.5, end.touch).start()
    with pytest.raises(NotSubmittedError, match="the task instance is failed"):
        task.follow(number=2, generation=generation)
    assert [app.state for app in task.runner.list("local_cwd")] == [AppState.CANCELLED]


def test_a_users_act_while_the_scheduler_is_away_submits_nothing(
    task: Task, away: Callable[..., None]
) -> None:
    """The scheduler comes back within the seconds that the try has left, and is not asked for an app."""
    away("run")
    task.killed, task.state = True, "failed"
    with pytest.raises(NotSubmittedError, match="the task instance is failed"):
        task.follow()
    assert task.runner.list("local_cwd") == []


def test_a_users_act_before_the_record_is_read_reaches_the_app(
    task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A retry that does not know its app yet cancels it as soon as it does."""
    task.killed = True
    with pytest.raises(AirflowException, match="goes on"):
        task.follow()
    answers = [SchedulerError("away", retryable=True)]
    load = task.memory.load

    def load_late() -> Record | None:
        if answers:
            raise answers.pop()
        return load()

    monkeypatch.setattr(task.memory, "load", load_late)
    task.state = "failed"
    with pytest.raises(AirflowException, match="the task instance is failed"):
        task.follow(number=2)
    task.runner.wait(task.handle, timeout_s=240)
    assert task.status().state is AppState.CANCELLED


@pytest.mark.parametrize("in_a_pod", [False, True])
def test_an_app_that_takes_its_time_to_end_does_not_hold_the_task(
    task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, in_a_pod: bool
) -> None:
    """Airflow kills a task five seconds after it asked; the grace period is the scheduler's to serve."""
    if in_a_pod:
        monkeypatch.setenv(IN_A_POD, "True")
    task.killed, task.state, task.grace_s = True, "failed", 600.0
    task.ready, end = tmp_path / "ready", tmp_path / "end"
    with pytest.raises(AirflowException, match="by user action"):
        task.follow(
            "sh", "-c", f"trap '' TERM; touch '{task.ready}'; until [ -e '{end}' ]; do sleep 0.05; done"
        )
    assert task.is_active()
    end.touch()
