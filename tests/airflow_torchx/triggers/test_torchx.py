from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType
from airflow.sdk.execution_time import task_runner
from airflow.sdk.execution_time.comms import (
    ErrorResponse,
    GetTaskStates,
    GetXCom,
    MaskSecret,
    SetXCom,
    TaskStatesResult,
    ToTask,
    XComResult,
)
from airflow.triggers.base import TaskSuccessEvent, TriggerEvent
from asgiref.sync import async_to_sync
from task_tries import make_try

from airflow_torchx import _engine_triggers, _watch
from airflow_torchx._deferral import CURSOR_KEY, Deferral, cursor_noted, make_note
from airflow_torchx._ownership import sign
from airflow_torchx.triggers import TorchXTrigger, torchx
from torchx_core.runner import Runner, get_runner
from torchx_core.specs import AppDef, AppState, AppStatus, Role
from torchx_core.testing import wait_until

pytestmark = [
    pytest.mark.engine,
    pytest.mark.filterwarnings("ignore"),  # Airflow's own are not ours to mend
]

ME = "airflow-try-1-ti"
RESULT = """echo '{"type": "result", "value": 7}' >> "$TORCHX_REPORT_FILE" """


@dataclass
class Task:
    """The deferred task, as Airflow shows it to its trigger."""

    dag_id: str = "d"
    run_id: str = "r"
    task_id: str = "t"
    map_index: int = -1


@dataclass
class Airflow:
    """Answers a trigger's questions in place of the triggerer."""

    state: str | None = "failed"
    knows_the_run: bool = True
    is_down: bool = False
    xcoms: dict[str, Any] = field(default_factory=dict)
    asked_for_states: int = 0
    asked_in: set[threading.Thread] = field(default_factory=set)

    def send(self, message: object) -> ToTask | None:
        """Answer as Airflow's server does; as in 3.1, through an event loop."""
        return async_to_sync(self._asend)(message)

    async def _asend(self, message: object) -> ToTask | None:
        self.asked_in.add(threading.current_thread())
        self.asked_for_states += isinstance(message, GetTaskStates)
        if self.is_down:
            raise AirflowRuntimeError(ErrorResponse(error=ErrorType.API_SERVER_ERROR))
        match message:
            case GetTaskStates():
                return TaskStatesResult(task_states={"r": {"t": self.state}} if self.knows_the_run else {})
            case GetXCom():
                return XComResult(key=message.key, value=self.xcoms.get(message.key))
            case SetXCom():
                self.xcoms[message.key] = message.value
                return None
            case MaskSecret():
                return None
            case _:
                raise AssertionError(f"unexpected: {message}")


@pytest.fixture
def airflow(monkeypatch: pytest.MonkeyPatch) -> Iterator[Airflow]:
    """Airflow's side of the triggerer; whatever it is asked comes from the event loop's thread."""
    fake = Airflow()
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", fake, raising=False)
    yield fake
    assert fake.asked_in <= {threading.main_thread()}


@pytest.fixture
def runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Runner]:
    """A runner of local apps, and the one that the trigger makes."""
    monkeypatch.setenv("TORCHX_STATE_DIR", str(tmp_path))
    with get_runner() as runner:
        yield runner
        for app in runner.list("local_cwd"):
            runner.cancel(app.app_handle, grace_s=0)
            runner.wait(app.app_handle, timeout_s=240)


def _submit(runner: Runner, script: str) -> str:
    """Run a script as the app of a task that has deferred."""
    app = AppDef("a", [Role("r", image="", entrypoint="sh", args=["-c", script])])
    handle = runner.run(app, "local_cwd", cfg={"grace_s": 1.0})
    assert runner.take_over(handle, ME)
    return handle


def _trigger(handle: str, *, in_task: bool = True, **fields: object) -> TorchXTrigger:
    """Return a trigger as the triggerer makes it."""
    given = {"handle": handle, "token": ME, "cursor": None, "not_before": 0.0, "end_task": True, **fields}
    _, kwargs = TorchXTrigger(**Deferral(**given).to_json()).serialize()  # type: ignore[arg-type]  # what it takes
    trigger = TorchXTrigger(**kwargs)
    if in_task:
        trigger.task_instance = Task()  # type: ignore[assignment]  # all that is looked at
    return trigger


async def _fire(trigger: TorchXTrigger) -> TriggerEvent:
    events = [event async for event in trigger.run()]
    assert len(events) == 1
    return events[0]


def _status(runner: Runner, handle: str) -> AppStatus:
    status = runner.status(handle)
    assert status is not None
    return status


def test_it_is_made_again_from_what_it_serializes() -> None:
    """In another process, through JSON."""
    first = _trigger("local_cwd://s/a", deadline=3.5, timeout_reason="late", conn_id="c", limit_bytes=7)
    path, kwargs = first.serialize()
    assert path == f"{TorchXTrigger.__module__}.TorchXTrigger"
    assert TorchXTrigger(**json.loads(json.dumps(kwargs))).serialize() == (path, kwargs)


# --- on_kill


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ("failed", "cancelled by user action in Airflow: the task instance is failed"),
        ("success", "cancelled by user action in Airflow: the task instance is success"),
        ("skipped", "cancelled by user action in Airflow: the task instance is skipped"),
        (None, "cancelled because the Airflow task was cleared"),
        ("queued", "cancelled because the Airflow task was cleared"),
    ],
)
def test_a_users_act_cancels(runner: Runner, airflow: Airflow, state: str | None, reason: str) -> None:
    """The app ends, and says for whose sake."""
    handle = _submit(runner, "exec sleep 600")
    airflow.state = state
    asyncio.run(_trigger(handle).on_kill())
    runner.wait(handle, timeout_s=240)
    assert (_status(runner, handle).state, _status(runner, handle).msg) == (AppState.CANCELLED, reason)


@pytest.mark.usefixtures("airflow")
def test_a_kill_that_is_cut_short_cancels_all_the_same(runner: Runner) -> None:
    """Airflow cancels `on_kill` a second after it has called it, and so again every second."""
    handle = _submit(runner, "exec sleep 600")

    async def kill() -> None:
        on_kill = asyncio.create_task(_trigger(handle).on_kill())
        await asyncio.sleep(0)
        on_kill.cancel()
        await asyncio.to_thread(runner.wait, handle, timeout_s=240)
        assert on_kill.cancelled()

    asyncio.run(kill())
    assert _status(runner, handle).state is AppState.CANCELLED


@pytest.mark.usefixtures("airflow")
@pytest.mark.parametrize(
    ("message", "state"), [("__airflow_user_action__", AppState.CANCELLED), (None, AppState.RUNNING)]
)
def test_only_a_users_act_on_a_running_trigger_cancels(
    runner: Runner, message: str | None, state: AppState
) -> None:
    """Where many are killed at once Airflow calls no `on_kill`; a triggerer that stops has no message."""
    handle = _submit(runner, "exec sleep 600")

    async def cut() -> None:
        run = asyncio.create_task(_fire(_trigger(handle)))
        await asyncio.to_thread(wait_until, lambda: _status(runner, handle).state is AppState.RUNNING, 240)
        run.cancel(message)
        with pytest.raises(asyncio.CancelledError):
            await run
        await asyncio.gather(*(task for task in asyncio.all_tasks() if task is not asyncio.current_task()))

    asyncio.run(cut())
    if message:
        runner.wait(handle, timeout_s=240)
    assert _status(runner, handle).state is state


@pytest.mark.usefixtures("airflow")
def test_a_kill_at_the_moment_of_a_tick_is_a_kill(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two cancellations in one turn of the event loop, asyncio keeps the message of the first."""
    monkeypatch.setattr(_watch, "TICK_S", 0.02)
    handles = [_submit(runner, "exec sleep 600") for _ in range(20)]

    async def kill() -> None:
        runs = [asyncio.create_task(_fire(_trigger(handle))) for handle in handles]
        for handle in handles:
            await asyncio.to_thread(
                wait_until, lambda handle=handle: _status(runner, handle).state is AppState.RUNNING, 60
            )
        threading.Event().wait(0.2)  # stops the loop, so that all ticks are due
        await asyncio.sleep(0)  # the loop takes them up
        for run in runs:
            asyncio.get_running_loop().call_soon(run.cancel, "__airflow_user_action__")
        await asyncio.gather(*runs, return_exceptions=True)
        await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()}, return_exceptions=True)

    asyncio.run(kill())
    for handle in handles:
        runner.wait(handle, timeout_s=240)
    assert {_status(runner, handle).state for handle in handles} == {AppState.CANCELLED}


def test_a_deleted_run_cancels(runner: Runner, airflow: Airflow) -> None:
    """Airflow knows the task no more, so nobody will come back for its app."""
    handle = _submit(runner, "exec sleep 600")
    airflow.knows_the_run = False
    asyncio.run(_trigger(handle).on_kill())
    runner.wait(handle, timeout_s=240)
    assert _status(runner, handle).msg.endswith("the task instance is deleted")


def test_a_task_that_is_still_deferred_keeps_its_app(runner: Runner, airflow: Airflow) -> None:
    """A triggerer that froze and thawed is told of a kill that never was."""
    handle = _submit(runner, "exec sleep 600")
    airflow.state = "deferred"
    assert _goes_on_after_kill(runner, _trigger(handle))


def test_an_unknown_state_keeps_the_app(
    runner: Runner, airflow: Airflow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When Airflow does not answer for long, nobody knows whether a user wanted this."""
    monkeypatch.setattr(torchx, "KEEP_KILLING_S", 0.0)
    handle = _submit(runner, "exec sleep 600")
    airflow.is_down = True
    assert _goes_on_after_kill(runner, _trigger(handle))


def test_a_kill_outlasts_an_airflow_that_is_away(runner: Runner, airflow: Airflow) -> None:
    """A server that answers an error once, as one with SQLite does under load, loses no kill."""
    handle = _submit(runner, "exec sleep 600")
    airflow.is_down = True

    async def kill() -> None:
        on_kill = asyncio.create_task(_trigger(handle).on_kill())
        await asyncio.to_thread(wait_until, lambda: airflow.asked_for_states, 240)
        assert not _status(runner, handle).is_terminal()
        airflow.is_down = False
        await on_kill

    asyncio.run(kill())
    runner.wait(handle, timeout_s=240)
    assert _status(runner, handle).state is AppState.CANCELLED


def test_kills_by_the_hundred_ask_airflow_a_few_times(runner: Runner, airflow: Airflow) -> None:
    """It answers one after the other, and the apps are to be gone soon."""
    handles = [_submit(runner, "exec sleep 600") for _ in range(20)]

    async def kill() -> None:
        await asyncio.gather(*(_trigger(handle).on_kill() for handle in handles))

    asyncio.run(kill())
    for handle in handles:
        runner.wait(handle, timeout_s=240)
    assert {_status(runner, handle).state for handle in handles} == {AppState.CANCELLED}
    assert airflow.asked_for_states == 1


def test_an_app_of_a_newer_try_is_left_alone(runner: Runner, airflow: Airflow) -> None:
    """After a clear Airflow calls `on_kill` when the next try has begun."""
    handle = _submit(runner, "exec sleep 600")
    assert runner.take_over(handle, "airflow-try-2-ti", expected=ME)
    airflow.state = "running"
    assert _goes_on_after_kill(runner, _trigger(handle))


def test_an_app_of_a_try_that_goes_on_is_left_alone(runner: Runner, airflow: Airflow) -> None:
    """A triggerer was frozen while another one had the task resumed; its worker follows the app."""
    handle = _submit(runner, "exec sleep 600")
    this_try = make_try(ti_id="ti")
    assert this_try.token == ME
    assert sign(runner, handle, replace(this_try, is_resumed=True))
    airflow.state = "running"
    assert _goes_on_after_kill(runner, _trigger(handle))


def test_without_a_token_nothing_is_cancelled(runner: Runner, airflow: Airflow) -> None:
    """A sensor's trigger watches an app that is not its own."""
    handle = _submit(runner, "exec sleep 600")
    airflow.state = "failed"
    assert _goes_on_after_kill(runner, _trigger(handle, token=""))


def _goes_on_after_kill(runner: Runner, trigger: TorchXTrigger) -> bool:
    """Kill the trigger; return whether its app is left for us to end, for the first wish is the one kept."""
    asyncio.run(trigger.on_kill())
    handle = str(trigger.serialize()[1]["handle"])
    runner.cancel(handle, grace_s=0, reason="nobody else did")
    runner.wait(handle, timeout_s=240)
    return _status(runner, handle).msg == "nobody else did"


@pytest.mark.usefixtures("airflow")
@pytest.mark.parametrize("kills_reach_triggers", [True, False])
def test_an_airflow_without_on_kill_will_do(
    runner: Runner, monkeypatch: pytest.MonkeyPatch, kills_reach_triggers: bool
) -> None:
    """Below 3.3 a killed trigger is cleaned up and nothing else; above, that means nothing."""
    monkeypatch.setattr(_engine_triggers, "KILLS_REACH_TRIGGERS", kills_reach_triggers)
    handle = _submit(runner, "exec sleep 600")
    asyncio.run(_trigger(handle).cleanup())
    runner.cancel(handle, grace_s=0, reason="nobody else did")
    runner.wait(handle, timeout_s=240)
    assert (_status(runner, handle).msg == "nobody else did") == kills_reach_triggers


def test_an_airflow_without_on_kill_that_is_away_holds_nobody_up(
    runner: Runner, airflow: Airflow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There a triggerer that stops waits for the same cleanup."""
    monkeypatch.setattr(_engine_triggers, "KILLS_REACH_TRIGGERS", False)
    airflow.is_down = True
    trigger = _trigger(_submit(runner, "exec sleep 600"))
    asyncio.run(asyncio.wait_for(trigger.cleanup(), 30))


@pytest.mark.usefixtures("runner", "airflow")
def test_a_trigger_that_has_fired_cancels_nothing() -> None:
    """Airflow kills a trigger that lingers after its event, though its task goes on."""
    trigger = _trigger("local_cwd://torchx/gone")
    event = asyncio.run(_fire(trigger))
    assert "unknown app" in str(event.payload["error"])
    asyncio.run(trigger.on_kill())  # an attempt to cancel that app would raise


# --- what it fires


@pytest.mark.usefixtures("airflow")
@pytest.mark.parametrize(("script", "xcoms"), [("true", {}), (RESULT, {"return_value": 7})])
def test_a_success_ends_the_task_from_here(runner: Runner, script: str, xcoms: dict[str, object]) -> None:
    """With the XComs that a worker would push; an app without a result pushes none."""
    handle = _submit(runner, script)
    event = asyncio.run(_fire(_trigger(handle)))
    assert isinstance(event, TaskSuccessEvent)
    app = _status(runner, handle).to_json()
    assert event.xcoms == {"app": {"handle": handle, **app}, "exit_codes": {"r/0": 0}, **xcoms}


@pytest.mark.usefixtures("airflow")
@pytest.mark.parametrize(
    ("script", "fields"),
    [
        ("exit 3", {}),
        ("true", {"end_task": False}),
        ("echo more", {"limit_bytes": 0}),
        ("true", {"in_task": False}),
        ("exec sleep 600", {"deadline": 1.0, "timeout_reason": "late"}),
        ("trap 'exit 0' TERM; sleep 600 & wait", {"deadline": 1.0, "timeout_reason": "late"}),
    ],
    ids=["failure", "work for the operator", "lines left out", "dag.test", "timeout", "timeout and exit 0"],
)
def test_whatever_else_happens_resumes_the_task(
    runner: Runner, script: str, fields: dict[str, object]
) -> None:
    """A worker then raises what is to raise, runs callbacks, splits results."""
    event = asyncio.run(_fire(_trigger(_submit(runner, script), **fields)))  # type: ignore[arg-type]
    assert not isinstance(event, TaskSuccessEvent)
    assert event.payload["timed_out"] == ("deadline" in fields)


@pytest.mark.usefixtures("airflow")
def test_it_fires_no_earlier_than_it_may(runner: Runner) -> None:
    """Airflow would take a trigger that is faster than its worker for a failure."""
    not_before = time.time() + 0.5
    asyncio.run(_fire(_trigger(_submit(runner, "true"), not_before=not_before)))
    assert time.time() >= not_before


def test_a_new_triggerer_goes_on_where_the_last_one_was(runner: Runner, airflow: Airflow) -> None:
    """The cursor that it left is the one that the task is resumed with."""
    handle = _submit(runner, "echo a; exit 3")
    first = asyncio.run(_fire(_trigger(handle)))
    assert cursor_noted(airflow.xcoms[CURSOR_KEY], ME) == first.payload["cursor"]
    second = asyncio.run(_fire(_trigger(handle)))
    assert (second.payload["cursor"], second.payload["shown_bytes"]) == (first.payload["cursor"], 0)


def test_a_late_note_of_an_earlier_try_says_nothing(runner: Runner, airflow: Airflow) -> None:
    """The trigger that a clear has ended may write one when the next try has deferred."""
    handle = _submit(runner, "echo a; echo b; exit 3")
    shown = asyncio.run(_fire(_trigger(handle))).payload["cursor"]
    airflow.xcoms[CURSOR_KEY] = make_note("airflow-try-0-ti", shown)
    event = asyncio.run(_fire(_trigger(handle)))
    assert event.payload["shown_bytes"] == len("a\nb\n")


def test_an_airflow_that_is_down_does_not_stop_it(runner: Runner, airflow: Airflow) -> None:
    """The log's position cannot be kept, so some lines may come again; the app is followed all the same."""
    airflow.is_down = True
    event = asyncio.run(_fire(_trigger(_submit(runner, "true"))))
    assert isinstance(event, TaskSuccessEvent)
