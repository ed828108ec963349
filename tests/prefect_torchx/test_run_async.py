"""What happens to an app that is awaited, in every form of await and for every cause."""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextvars import copy_context
from time import monotonic
from typing import Any

import pytest
from local_apps import app_of
from prefect import flow, get_client, task
from prefect.context import FlowRunContext
from prefect.states import Cancelling
from prefect_timeouts import timed_out

from prefect_torchx import arun_app
from torchx_core import AppDef, AppState, Runner
from torchx_core.errors import AppStatusError
from torchx_core.specs import AppHandle
from torchx_core.testing import Exit, Hold, Print, ReportResult, Step, python_program, wait_until

pytestmark = [
    pytest.mark.engine,
    # Prefect leaves a connection open when the event loop of an async flow ends.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

Running = Callable[[], AppHandle]


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    """See such a connection go within the test that it belongs to."""
    yield
    gc.collect()


def _app(*steps: Step) -> AppDef:
    program, args = python_program(*steps)
    return app_of(program, *args)


def _flow_of(how: str, work: Callable[[], Any], timeout_seconds: float | None = None) -> Callable[[], Any]:
    """Return a function that runs a flow which awaits the work in that way."""

    @task(timeout_seconds=timeout_seconds)
    async def job() -> Any:
        return await work()

    @flow(timeout_seconds=timeout_seconds)
    async def in_the_body() -> Any:
        return await work()

    @flow
    async def in_a_task() -> Any:
        return await job()

    @flow
    async def gathered() -> Any:
        return await asyncio.gather(job(), asyncio.sleep(0))

    @flow
    async def beside_callbacks() -> Any:
        _keep_busy()
        return await job()

    @flow
    def submitted() -> Any:
        return job.submit().result()

    if how == "submitted":
        return submitted
    forms = {"in the body": in_the_body, "in a task": in_a_task, "gathered": gathered}
    forms["beside callbacks"] = beside_callbacks
    return lambda: asyncio.run(forms[how]())


def _keep_busy() -> None:
    """Let the event loop run a callback almost all the time: asyncio swallows what is raised in one."""
    until = monotonic() + 0.05
    while monotonic() < until:
        pass
    asyncio.get_running_loop().call_soon(_keep_busy)


FORMS = ["in the body", "in a task", "gathered", "submitted"]


def test_outside_of_prefect_it_just_runs(runner: Runner) -> None:
    """In a script the coroutine runs as it does in a flow, several at once."""

    async def both() -> list[Any]:
        return await asyncio.gather(*(arun_app(_app(ReportResult(number))) for number in range(2)))

    assert asyncio.run(both()) == [0, 1]
    assert len(runner.list("local_cwd")) == 2


def test_a_failure_leads_with_what_failed() -> None:
    """As in the blocking form."""
    with pytest.raises(AppStatusError, match=r"(?s)replica r/0 failed with exit code 3.*bad input"):
        asyncio.run(arun_app(_app(Print("bad input"), Exit(3))))


@pytest.mark.usefixtures("prefect_api", "runner")
@pytest.mark.parametrize("how", FORMS)
def test_the_result_comes_back(how: str) -> None:
    """In every form of await."""
    result = _flow_of(how, lambda: arun_app(_app(ReportResult(5))))()
    assert (result[0] if how == "gathered" else result) == 5


@pytest.mark.usefixtures("prefect_api")
@pytest.mark.parametrize("how", FORMS)
def test_a_timeout_stops_the_app(how: str, runner: Runner) -> None:
    """``timeout_seconds`` of the task, or of the flow whose body waits."""

    def run(limit_s: float) -> None:
        with pytest.raises(TimeoutError):
            _flow_of(how, lambda: arun_app(_app(Hold())), timeout_seconds=limit_s)()

    _, status = timed_out(run, runner)
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
@pytest.mark.parametrize("how", [*FORMS, "beside callbacks"])
@pytest.mark.parametrize(
    ("signum", "requested", "options", "end"),
    [
        (signal.SIGTERM, False, {}, None),
        (signal.SIGTERM, False, {"on_worker_shutdown": "cancel"}, "the Prefect worker shut down"),
        (signal.SIGTERM, True, {}, "the Prefect flow run was cancelled"),
        (signal.SIGINT, False, {}, "the Prefect run was interrupted"),
    ],
    ids=["shutdown", "shutdown, cancel", "cancel", "ctrl-c"],
)
def test_the_cause_decides_whether_the_app_ends(
    how: str,
    signum: int,
    requested: bool,
    options: dict[str, Any],
    end: str | None,
    runner: Runner,
    running: Running,
) -> None:
    """An event loop cancels its tasks whatever the cause; the app ends for the right ones only."""
    handles: list[AppHandle] = []

    def interrupt(flow_run_id: Any) -> None:
        handles.append(running())
        if requested:
            with get_client({"timeout": 30}, sync_client=True) as client:
                client.set_flow_run_state(flow_run_id, Cancelling(), force=True)
        wait_until(lambda: how == "beside callbacks" or _main_thread_waits(), 240)
        signal.pthread_kill(threading.main_thread().ident or 0, signum)

    async def work() -> Any:
        flow_run = FlowRunContext.get().flow_run  # type: ignore[union-attr]
        threading.Thread(
            target=copy_context().run,
            args=(interrupt, flow_run.id),  # type: ignore[union-attr]
            daemon=True,
        ).start()
        return await arun_app(_app(Hold()), **options)

    with pytest.raises(BaseException):  # noqa: B017, PT011  (Prefect's business; which one differs by form)
        _flow_of(how, work)()
    status = runner.wait(handles[0], timeout_s=240) if end else runner.status(handles[0])
    assert status
    expected = (AppState.CANCELLED, f"cancelled because {end}") if end else (AppState.RUNNING, "")
    assert (status.state, status.msg) == expected


def _main_thread_waits() -> bool:
    """Return whether the main thread does nothing: what a signal raises there gets lost nowhere."""
    frame = sys._current_frames()[threading.main_thread().ident or 0]  # noqa: SLF001  # no other way
    return frame.f_code.co_name in {"select", "wait"}


@pytest.mark.usefixtures("prefect_api")
def test_what_cancels_the_task_cancels_the_app(runner: Runner, running: Running) -> None:
    """A deadline or a task group of the user's own means the app that was awaited in it."""

    async def pass_when_it_runs(deadline: asyncio.Timeout) -> None:
        await asyncio.to_thread(running)
        deadline.reschedule(asyncio.get_running_loop().time())

    @flow
    async def pipeline() -> None:
        async with asyncio.timeout(None) as deadline:
            passing = asyncio.create_task(pass_when_it_runs(deadline))
            await arun_app(_app(Hold()))
        await passing

    with pytest.raises(TimeoutError):
        asyncio.run(pipeline())
    [app] = runner.list("local_cwd")
    status = runner.wait(app.app_handle, timeout_s=240)
    assert status
    assert status.state is AppState.CANCELLED


@pytest.mark.usefixtures("runner")
def test_no_thread_is_left_waiting_while_an_app_is_awaited(running: Running) -> None:
    """A hundred apps must not need a hundred threads."""
    waiting: list[str] = []

    async def work() -> None:
        awaiting = asyncio.create_task(arun_app(_app(Hold())))
        await asyncio.to_thread(running)
        wait_until(lambda: not _calls(), 240)
        waiting.extend(_calls())
        awaiting.cancel()
        await asyncio.wait([awaiting])

    asyncio.run(work())
    assert waiting == []


def _calls() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "torchx-call"]
