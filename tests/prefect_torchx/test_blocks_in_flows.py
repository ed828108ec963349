"""The block on a real server: saved, loaded, and run from flows and tasks of either kind."""

from __future__ import annotations

import asyncio
import gc
import uuid
from typing import Any

import pytest
from local_apps import app_of
from prefect import flow, get_client, task
from prefect.blocks.core import Block
from prefect_timeouts import LIMITS_S

from prefect_torchx import TorchXJob, TorchXJobRun
from torchx_core import AppDef, AppState, Runner
from torchx_core.errors import AppStatusError
from torchx_core.testing import Exit, Print, ReportResult, Step, python_program

pytestmark = [pytest.mark.engine, pytest.mark.usefixtures("prefect_api", "runner")]

SECRET = "open sesame"  # noqa: S105


def _app(*steps: Step, **role: object) -> AppDef:
    program, args = python_program(*steps)
    return app_of(program, *args, **role)


def _load(name: str) -> Any:
    """Load a job, in synchronous code; for type checkers Prefect's methods may return a coroutine as well."""
    return TorchXJob.load(name)


@pytest.fixture
def name() -> str:
    """Return a name under which nobody has saved a block."""
    return f"job-{uuid.uuid4().hex}"


def test_a_saved_job_is_loaded_as_it_was(name: str) -> None:
    """With its secrets, by its own class and by the name of its type."""
    job = TorchXJob(app=_app(ReportResult(5), env={"HF_TOKEN": SECRET}), cfg={"grace_s": 1.0}, lease_s=60)
    job.save(name)
    loaded = _load(name)
    assert (loaded, Block.load(f"torchx-job/{name}")) == (job, job)
    assert loaded.secrets.get_secret_value() == {"HF_TOKEN": SECRET}
    assert loaded.run() == 5


def test_a_job_is_saved_and_loaded_with_await(name: str) -> None:
    """A coroutine awaits what a function calls."""

    async def main() -> tuple[object, object]:
        job = TorchXJob(component="utils.echo", component_args={"msg": "hello"})
        await job.asave(name)
        return job, await TorchXJob.aload(name)

    saved, loaded = asyncio.run(main())
    assert loaded == saved


def test_the_server_shows_the_job_without_its_secrets(name: str) -> None:
    """Who may look at the Blocks page sees what runs and which secrets there are, not their values."""
    TorchXJob(app=app_of("true", env={"HF_TOKEN": SECRET})).save(name)
    with get_client(sync_client=True) as client:
        shown = client.read_block_document_by_name(name, "torchx-job", include_secrets=False).data
    assert shown["app"]["roles"][0]["env"] == {"HF_TOKEN": {"$secret": "HF_TOKEN"}}
    assert list(shown["secrets"]) == ["HF_TOKEN"]
    assert SECRET not in str(shown)


def test_the_server_lists_the_type(name: str) -> None:
    """With what the Blocks page tells about it."""
    TorchXJob(component="utils.echo").save(name)
    with get_client(sync_client=True) as client:
        shown = client.read_block_type_by_slug("torchx-job")
    assert (shown.name, shown.description) == ("TorchX Job", TorchXJob.get_description())
    assert str(shown.logo_url).startswith("https://")


def test_a_synchronous_flow_runs_a_job(name: str) -> None:
    """In one go, and step by step, in the flow and in a task that it calls or submits."""
    TorchXJob(app=_app(ReportResult(5))).save(name)

    @task
    def job() -> Any:
        with _load(name).trigger() as run:
            run.wait_for_completion()
            return run.fetch_result()

    @flow
    def pipeline() -> list[Any]:
        return [_load(name).run(), job(), job.submit().result()]

    assert pipeline() == [5, 5, 5]


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # Prefect's own client, in its own loop
def test_an_asynchronous_flow_runs_a_job(name: str) -> None:
    """With await in the flow and its asynchronous task, without it in a synchronous task of the same flow."""
    TorchXJob(app=_app(ReportResult(5))).save(name)

    @task
    async def awaited() -> Any:
        job: Any = await TorchXJob.aload(name)
        async with await job.atrigger() as run:
            await run.await_for_completion()
            return await run.afetch_result()

    @task
    def called() -> Any:
        return _load(name).run()

    @flow
    async def pipeline() -> list[Any]:
        job: Any = await TorchXJob.aload(name)
        return [await job.arun(), await job.run(), await awaited(), called()]

    returned = asyncio.run(pipeline())
    gc.collect()  # what Prefect has left open is reported here, where it is ignored
    assert returned == [5, 5, 5, 5]


def test_one_task_triggers_and_another_waits() -> None:
    """A run is a task's result like any other."""

    @task
    def start() -> TorchXJobRun:
        return TorchXJob(app=_app(Print("hello"), ReportResult(5))).trigger()

    @task
    def finish(run: TorchXJobRun) -> Any:
        run.wait_for_completion()
        return run.fetch_result()

    @flow
    def pipeline() -> Any:
        return finish(start())

    assert pipeline() == 5


def test_a_retry_triggers_the_same_app(runner: Runner) -> None:
    """What the flow run's first try has submitted is what its second one waits for."""
    handles: list[str] = []

    @flow(retries=1)
    def pipeline() -> Any:
        run = TorchXJob(app=_app(ReportResult(5))).trigger()
        handles.append(run.handle)
        if len(handles) == 1:
            raise ConnectionError
        run.wait_for_completion()
        return run.fetch_result()

    assert pipeline() == 5
    assert handles[0] == handles[1]
    assert [app.app_handle for app in runner.list("local_cwd")] == handles[:1]


def test_a_failed_job_fails_the_task() -> None:
    """The task run's state leads with what failed."""

    @task
    def job() -> Any:
        return TorchXJob(app=_app(Print("bad input"), Exit(3))).run()

    @flow
    def pipeline() -> Any:
        return [job(return_state=True)]

    states: Any = pipeline()
    [state] = states
    assert "AppStatusError: replica r/0 failed with exit code 3" in str(state.message)
    with pytest.raises(AppStatusError):
        state.result()


def test_a_task_over_its_time_cancels_the_app_it_waits_for(runner: Runner) -> None:
    """The task may wait for an app that its flow has triggered."""

    @task
    def wait(run: TorchXJobRun) -> None:
        run.wait_for_completion()

    @flow
    def pipeline(limit_s: int) -> Any:
        run = TorchXJob(app=app_of("sleep", "600")).trigger()
        return [run.handle, wait.with_options(timeout_seconds=limit_s)(run, return_state=True)]

    status = None
    for limit_s in LIMITS_S:  # a busy host may not have begun to wait when it has passed
        outcome: Any = pipeline(limit_s)
        handle, state = outcome
        assert state.name == "TimedOut"
        status = runner.wait(handle, timeout_s=limit_s)
        if status:
            break
    assert status
    assert (status.state, "timeout" in status.msg) == (AppState.CANCELLED, True)
