from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from local_apps import app_of
from prefect import flow, get_client, task
from prefect.client.schemas import State
from prefect.client.schemas.filters import LogFilter, LogFilterFlowRunId
from prefect.context import FlowRunContext
from prefect.exceptions import TerminationSignal
from prefect.states import Cancelling
from prefect_timeouts import timed_out

from prefect_torchx import run_app
from torchx_core import AppDef, AppState, Runner
from torchx_core.errors import AppStatusError, InvalidRunConfigException
from torchx_core.specs import AppHandle
from torchx_core.testing import Exit, Hold, Print, ReportResult, Step, python_program, wait_until

pytestmark = pytest.mark.engine

Running = Callable[[], AppHandle]

CANCELLED = "cancelled because the Prefect flow run was cancelled"


def _app(*steps: Step, **role: object) -> AppDef:
    program, args = python_program(*steps)
    return app_of(program, *args, **role)


def _run(how: str, work: Callable[[], Any], **options: Any) -> State[Any]:
    """Run the work as a task of a flow, called or submitted; return the task run's state."""

    @task(**options)
    def job() -> Any:
        return work()

    @flow
    def pipeline() -> State[Any]:
        state: State[Any] = job(return_state=True) if how == "called" else _settled(job.submit())
        return [state]  # type: ignore[return-value]  # in a list, it does not decide the flow's own state

    return pipeline()[0]  # type: ignore[index,no-any-return]


def _settled(future: Any) -> Any:
    future.wait()
    return future.state


def _shown(flow_run_id: Any) -> list[str]:
    """Return the flow run's log records as the server has them."""
    only = LogFilter(flow_run_id=LogFilterFlowRunId(any_=[flow_run_id]))
    with get_client(sync_client=True) as client:
        return [record.message for record in client.read_logs(only)]


def test_outside_of_prefect_it_just_runs(runner: Runner, caplog: pytest.LogCaptureFixture) -> None:
    """In a script the function returns the result and logs to `logging`."""
    caplog.set_level(logging.INFO, logger="prefect_torchx")
    assert run_app(_app(Print("hello"), ReportResult({"a": 1}))) == {"a": 1}
    assert "[r/0] hello" in caplog.text
    assert len(runner.list("local_cwd")) == 1


def test_mistakes_submit_nothing(runner: Runner) -> None:
    """An option that the scheduler does not have is refused before anything runs."""
    with pytest.raises(InvalidRunConfigException, match="grace_ss"):
        run_app(app_of("true"), cfg={"grace_ss": 1.0})
    assert runner.list("local_cwd") == []


@pytest.mark.usefixtures("runner")
def test_an_unwatched_app_ends_itself() -> None:
    """Every app has a lease, which the caller may change."""
    run_app(app_of("true"))
    run_app(app_of("true"), cfg={"lease_s": 60.0})
    records = Path(os.environ["TORCHX_STATE_DIR"]).rglob("spec.json")
    leases = sorted(600.0 if '"lease_s":600.0' in r.read_text().replace(" ", "") else 60.0 for r in records)
    assert leases == [60.0, 600.0]


@pytest.mark.usefixtures("prefect_api", "runner")
def test_a_flow_gets_the_result_and_the_lines_of_every_replica() -> None:
    """The flow run's log on the server shows who wrote what, in few records."""
    seen: list[Any] = []

    @flow
    def pipeline() -> Any:
        seen.append(FlowRunContext.get().flow_run.id)  # type: ignore[union-attr]
        return run_app(_app(Print("hello"), ReportResult({"accuracy": 0.9}), num_replicas=2))

    assert pipeline() == {"accuracy": 0.9}
    text = wait_until(lambda: (t := "\n".join(_shown(seen[0]))).find("app is SUCCEEDED") >= 0 and t, 240)
    assert {"[r/0] hello", "[r/1] hello"} <= set(text.splitlines())


@pytest.mark.usefixtures("prefect_api", "runner")
def test_a_failure_leads_with_what_failed() -> None:
    """The task run's state says which replica failed, how, and what it said last."""
    state = _run("called", lambda: run_app(_app(Print("bad input"), Exit(3))))
    assert state.name == "Failed"
    assert "AppStatusError: replica r/0 failed with exit code 3" in str(state.message)
    assert "bad input" in str(state.message)
    with pytest.raises(AppStatusError) as caught:
        state.result()
    assert caught.value.status.state is AppState.FAILED


@pytest.mark.usefixtures("prefect_api")
def test_a_retry_after_a_failure_runs_a_new_app(runner: Runner, tmp_path: Path) -> None:
    """The failed attempt keeps its record; the task gets the result of the next one."""
    script = f"test -e {tmp_path}/second || {{ touch {tmp_path}/second; exit 3; }}"
    state = _run("called", lambda: run_app(app_of("sh", "-c", script)), retries=1)
    assert state.is_completed()
    assert [app.state for app in runner.list("local_cwd")] == [AppState.FAILED, AppState.SUCCEEDED]


@pytest.mark.usefixtures("prefect_api")
def test_a_retry_after_a_hiccup_follows_the_running_app(
    runner: Runner, running: Running, tmp_path: Path
) -> None:
    """An error that says nothing about the app leaves it running, and the next try takes it up."""
    handles: list[AppHandle] = []

    def work() -> Any:
        if handles:
            (tmp_path / "go").touch()
        else:
            _interrupt(running, handles, signal.SIGUSR1)
        return run_app(app_of("sh", "-c", f"echo on; until test -e {tmp_path}/go; do sleep 0.02; done"))

    previous = signal.signal(signal.SIGUSR1, _hiccup)
    try:
        state = _run("called", work, retries=1)
    finally:
        signal.signal(signal.SIGUSR1, previous)
    assert state.is_completed()
    assert [app.app_handle for app in runner.list("local_cwd")] == handles


@pytest.mark.usefixtures("prefect_api")
def test_a_retried_flow_run_finds_what_its_tasks_have_done(runner: Runner) -> None:
    """Prefect runs all tasks of the flow again, as new task runs; the apps are the old ones."""
    results: list[Any] = []

    @task
    def job() -> Any:
        return [run_app(_app(ReportResult(5))), run_app(_app(ReportResult(5)))]

    @flow(retries=1)
    def pipeline() -> None:
        results.append([job.submit().result(), run_app(_app(ReportResult(6)))])
        if len(results) == 1:
            raise ConnectionError

    pipeline()
    assert results == [[[5, 5], 6], [[5, 5], 6]]
    assert len({app.app_id for app in runner.list("local_cwd")}) == 3


@pytest.mark.usefixtures("prefect_api")
@pytest.mark.parametrize("how", ["called", "submitted"])
def test_a_timeout_stops_the_app(how: str, runner: Runner) -> None:
    """A submitted task's app is stopped as well, although Prefect cannot stop what blocks there."""
    state, status = timed_out(
        lambda limit_s: _run(how, lambda: run_app(_app(Hold())), timeout_seconds=limit_s), runner
    )
    assert state.name == "TimedOut"
    assert (status.state, "timeout" in status.msg) == (AppState.CANCELLED, True)


@pytest.fixture
def immortal(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Outlive the SIGTERM that Prefect sends to its own process once it has dealt with the first one.

    So there is time for a busy server's answer.
    """
    monkeypatch.setattr("prefect_torchx._engine.server.TIMEOUT_S", 30.0)
    previous = signal.signal(signal.SIGTERM, lambda *_: None)
    yield
    signal.signal(signal.SIGTERM, previous)


@pytest.mark.usefixtures("prefect_api", "immortal")
@pytest.mark.parametrize("how", ["called", "submitted"])
@pytest.mark.parametrize(
    ("signum", "exception", "requested", "end"),
    [
        (signal.SIGTERM, TerminationSignal, False, None),
        (signal.SIGTERM, TerminationSignal, True, CANCELLED),
        (signal.SIGINT, KeyboardInterrupt, False, "cancelled because the Prefect run was interrupted"),
    ],
    ids=["shutdown", "cancel", "ctrl-c"],
)
def test_the_cause_decides_whether_the_app_ends(
    how: str,
    signum: int,
    exception: type[BaseException],
    requested: bool,
    end: str | None,
    runner: Runner,
    running: Running,
) -> None:
    """A cancelled flow run and Ctrl-C end the app; the end of the worker alone does not."""
    handles: list[AppHandle] = []

    @task
    def job() -> None:
        run_app(_app(Hold()))

    @flow
    def pipeline() -> None:
        flow_run_id = FlowRunContext.get().flow_run.id  # type: ignore[union-attr]
        _interrupt(running, handles, signum, lambda: _cancel(flow_run_id) if requested else None)
        job() if how == "called" else job.submit().result()

    with pytest.raises(exception):
        pipeline()
    status = runner.wait(handles[0], timeout_s=240) if end else runner.status(handles[0])
    assert status
    assert (status.state, status.msg) == ((AppState.CANCELLED, end) if end else (AppState.RUNNING, ""))


@pytest.mark.usefixtures("prefect_api", "immortal", "runner")
@pytest.mark.parametrize("process", [None, "host:17"], ids=["a script", "supervised"])
def test_a_cancelled_script_is_cancelled(
    process: str | None, running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server accepts no other end of it; where there is a supervisor, that is its business."""
    monkeypatch.setattr("prefect_torchx._engine.causes.SIGNAL_MARGIN_S", 0.0)
    flow_run_ids: list[Any] = []

    @flow
    def pipeline() -> None:
        flow_run_ids.append(FlowRunContext.get().flow_run.id)  # type: ignore[union-attr]
        with get_client(sync_client=True) as client:
            client.update_flow_run(flow_run_ids[0], infrastructure_pid=process)
        _interrupt(running, [], None, lambda: _cancel(flow_run_ids[0]))
        run_app(_app(Hold()))

    with pytest.raises(TerminationSignal):
        pipeline()
    with get_client(sync_client=True) as client:
        states = client.read_flow_run_states(flow_run_ids[0])
    # This process outlives the signal after which Prefect would write nothing more.
    assert ("Cancelled" in [state.name for state in states]) == (process is None)


def _interrupt(
    running: Running, handles: list[AppHandle], signum: int | None, first: Callable[[], object] = lambda: None
) -> None:
    """Once an app runs, note its handle and send the main thread a signal."""
    from contextvars import copy_context

    def wait_and_send() -> None:
        handles.append(running())
        first()
        if signum is not None:
            signal.pthread_kill(threading.main_thread().ident or 0, signum)

    threading.Thread(target=copy_context().run, args=(wait_and_send,), daemon=True).start()


def _cancel(flow_run_id: Any) -> None:
    with get_client(sync_client=True) as client:
        client.set_flow_run_state(flow_run_id, Cancelling(), force=True)


def _hiccup(*_: object) -> None:
    # No OSError: those are handled by much that is interrupted.
    raise RuntimeError("something on the way to somewhere")
