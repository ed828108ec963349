"""A worker in this process, before a real server; a few lines of shell stand in for the flow's process."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from httpx import HTTPStatusError, Request, Response
from prefect import get_client
from prefect.client.orchestration import PrefectClient
from prefect.exceptions import InfrastructureNotAvailable, InfrastructureNotFound
from prefect.states import Cancelled, Pending, Running
from prefect_pool import Pool
from prefect_worker import at_work, handle_of, running_app, set_state, until

from prefect_torchx._engine.job_configuration import configuration_of
from prefect_torchx.worker import TorchXJobConfiguration, monitor, submission
from prefect_torchx.worker.dispatch import app_id
from torchx_core.runner import Runner
from torchx_core.specs import AppDef, AppState, Role

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.engine,
    pytest.mark.timeout(900),
    # A worker that is stopped within a request leaves Prefect's connection to the garbage collector.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

SLEEP = "sleep 300"


async def test_a_failed_app_is_a_crashed_flow_run(pool: Pool) -> None:
    """The message is that of any failed app; what it printed last is in the flow run's log."""
    run = pool.ask("patient", command="sh -c 'echo boom; exit 3'", stream_output=False)
    async with at_work(pool) as worker:
        await worker.get_and_submit_flow_runs()
        state = await asyncio.to_thread(run.wait_for)
        await until(lambda: any("boom" in line for line in run.lines()) or None)
    assert state.is_crashed()
    assert str(state.message).startswith("replica flow/0 failed with exit code 3")
    assert str(state.message).endswith(handle_of(run))


async def test_a_server_that_is_too_busy_crashes_nothing(
    pool: Pool, runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It refuses to mark the flow run as the worker's for longer than Prefect's client asks again."""
    refused = iter(["for a minute", "and another"])
    answer = PrefectClient.update_flow_run_labels

    async def update(client: PrefectClient, *args: Any) -> None:
        if next(refused, None):
            request = Request("PATCH", str(client.api_url))
            raise HTTPStatusError("too busy", request=request, response=Response(503, request=request))
        await answer(client, *args)

    monkeypatch.setattr(PrefectClient, "update_flow_run_labels", update)
    run = pool.ask("patient", command=SLEEP)
    async with at_work(pool) as worker:
        await worker.get_and_submit_flow_runs()
        assert await running_app(runner) == handle_of(run)


async def test_the_message_keeps_secrets(pool: Pool) -> None:
    """What the program says of its failure is shown without what its secret variables hold."""
    error = json.dumps({"message": {"message": "bad hunter2"}})
    command = "sh -c 'printf %s \"$ERROR\" > $TORCHELASTIC_ERROR_FILE; exit 3'"
    env = {"API_TOKEN": "hunter2", "ERROR": error}
    run = pool.ask("patient", command=command, env=env, stream_output=False)
    async with at_work(pool) as worker:
        await worker.get_and_submit_flow_runs()
        state = await asyncio.to_thread(run.wait_for)
    assert "bad ***" in str(state.message)
    assert "hunter2" not in str(state.message)


async def test_output_is_streamed(pool: Pool, capsys: pytest.CaptureFixture[str]) -> None:
    """What the app prints is in the worker's own output, after the flow run's name."""
    run = pool.ask("patient", command="echo hello there")
    async with at_work(pool) as worker:
        await worker.get_and_submit_flow_runs()
        await asyncio.to_thread(run.wait_for)
    assert " | hello there\n" in capsys.readouterr().out


async def test_a_process_that_leaves_its_flow_run_unfinished_crashes_it(pool: Pool) -> None:
    """Exit code 0 is no excuse."""
    run = pool.ask("patient", command="true")
    async with at_work(pool) as worker:
        await worker.get_and_submit_flow_runs()
        state = await asyncio.to_thread(run.wait_for)
    assert "left its flow run unfinished" in str(state.message)


async def test_a_wrong_job_variable_is_refused(pool: Pool) -> None:
    """The flow run crashes with our message, and nothing was submitted."""
    run = pool.ask("patient", cfg={"grace": 5})
    async with at_work(pool) as worker:
        await worker.get_and_submit_flow_runs()
        state = await asyncio.to_thread(run.wait_for)
    assert state.is_crashed()
    assert "unknown run option 'grace'" in str(state.message)
    assert pool.apps() == []


async def test_two_workers_never_run_one_flow_run_twice(pool: Pool, tmp_path: Path) -> None:
    """They ask at the same time, and both are offered everything; each flow run starts once."""
    runs = [pool.ask("patient", command=f"sh -c 'echo $$ >> {tmp_path}/starts'") for _ in range(5)]
    async with at_work(pool) as one, at_work(pool, "two") as two:
        await asyncio.gather(one.get_and_submit_flow_runs(), two.get_and_submit_flow_runs())
        for run in runs:
            await asyncio.to_thread(run.wait_for)
    assert len(pool.apps()) == len(runs)
    assert len((tmp_path / "starts").read_text().split()) == len(runs)


async def test_a_flow_run_that_was_cancelled_before_its_app_was_submitted_gets_none(pool: Pool) -> None:
    """It stays as it is, with one state Cancelled."""
    run = pool.ask("patient", command="true")
    set_state(run, Pending())
    async with at_work(pool) as worker:
        flow_run = await worker.client.read_flow_run(run.id)
        set_state(run, Cancelled())
        await worker.run(flow_run, await configuration_of(worker, flow_run))
        states = await worker.client.read_flow_run_states(run.id)
    assert [state.name for state in states] == ["Scheduled", "Pending", "Cancelled"]
    assert pool.apps() == []


async def test_apps_outlive_the_worker_and_are_taken_up(pool: Pool, runner: Runner) -> None:
    """The next worker of that name follows the same app, and counts it in its limit."""
    run = pool.ask("patient", command=SLEEP)
    async with at_work(pool) as worker:
        await worker.get_and_submit_flow_runs()
        handle = await running_app(runner)
        await until(lambda: pool.infrastructure_pid(run) == handle or None)
    assert pool.state_of(handle) is AppState.RUNNING
    async with at_work(pool, limit=3) as worker:
        await until(lambda: worker.limiter.borrowed_tokens == 1 or None)
        runner.cancel(handle, grace_s=0)
        await until(lambda: worker.limiter.borrowed_tokens == 0 or None)
    assert pool.apps() == [handle]


async def test_what_ended_without_a_worker_is_told_by_the_next(pool: Pool, runner: Runner) -> None:
    """No flow run stays Running because its app ended while nobody looked."""
    run = pool.ask("patient", command=SLEEP)
    async with at_work(pool) as worker:
        await worker.get_and_submit_flow_runs()
        handle = await running_app(runner)
        await until(lambda: pool.infrastructure_pid(run) == handle or None)
    set_state(run, Running())
    runner.cancel(handle, grace_s=0, reason="tired")
    await asyncio.to_thread(runner.wait, handle)
    assert run.state.is_running()
    async with at_work(pool):
        state = await asyncio.to_thread(run.wait_for)
    assert state.is_crashed()
    assert "tired" in str(state.message)


async def test_a_colleagues_flow_runs_are_left_alone(pool: Pool, runner: Runner) -> None:
    """A worker that is online has them in its own charge."""
    pool.ask("patient", command=SLEEP)
    async with at_work(pool) as worker:
        await worker.get_and_submit_flow_runs()
        await running_app(runner)
        async with at_work(pool, "colleague", limit=3) as colleague:
            for _ in range(3):
                await colleague.sync_with_backend()
            assert colleague.limiter.borrowed_tokens == 0


async def test_what_was_taken_and_never_submitted_is_submitted(pool: Pool, runner: Runner) -> None:
    """A worker that was killed in between left nothing but its name and a Pending flow run."""
    run = pool.ask("patient", command=SLEEP)
    set_state(run, Pending(), worker="me")
    async with at_work(pool):
        assert await running_app(runner) == handle_of(run)


async def test_a_flow_run_whose_app_is_gone_has_crashed(pool: Pool) -> None:
    """It would be Running for ever."""
    run = pool.ask("patient", command=SLEEP)
    set_state(run, Running(), worker="me")
    with get_client(sync_client=True) as client:
        client.update_flow_run(run.id, infrastructure_pid=handle_of(run))
    async with at_work(pool):
        state = await asyncio.to_thread(run.wait_for)
    assert "the app of this flow run is gone" in str(state.message)


async def test_an_app_that_another_worker_submitted_is_the_flow_runs(pool: Pool, runner: Runner) -> None:
    """Its settings may differ; there is one app all the same."""
    run = pool.ask("patient", command=SLEEP)
    theirs = AppDef("flow-run", [Role("flow", image="", entrypoint="true")])
    handle = runner.run(theirs, "local_cwd", app_id=app_id(run.id, 1))
    async with at_work(pool) as worker:
        await worker.get_and_submit_flow_runs()
        state = await asyncio.to_thread(run.wait_for)
    assert "left its flow run unfinished" in str(state.message)
    assert pool.apps() == [handle]


async def test_a_flow_run_that_is_started_again_runs_once_at_a_time(
    pool: Pool, runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The earlier app is over before the next begins."""
    monkeypatch.setattr(submission, "PREDECESSOR_S", 0.2)
    run = pool.ask("patient", command=SLEEP)
    async with at_work(pool) as worker:
        await worker.get_and_submit_flow_runs()
        first = await running_app(runner)
        await until(lambda: pool.infrastructure_pid(run) == first or None)
    run.run_again()
    async with at_work(pool, "colleague") as colleague:
        await colleague.get_and_submit_flow_runs()
        await until(lambda: handle_of(run, 2) in pool.apps() or None)
    assert pool.state_of(first) is AppState.CANCELLED


async def test_a_cancelled_flow_run_that_does_not_end_is_ended(
    pool: Pool, runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker stops the app when the flow's own process did not, and finishes the flow run."""
    monkeypatch.setattr(monitor, "CANCEL_PATIENCE_S", 0.0)
    run = pool.ask("patient", command=SLEEP, grace_s=0)
    async with at_work(pool) as worker:
        await worker.get_and_submit_flow_runs()
        handle = await running_app(runner)
        await until(lambda: pool.infrastructure_pid(run) == handle or None)
        set_state(run, Running())
        await worker.sync_with_backend()
        assert pool.state_of(handle) is AppState.RUNNING
        run.cancel()
        await worker.sync_with_backend()
        state = await asyncio.to_thread(run.wait_for, "Cancelled")
    assert pool.state_of(handle) is AppState.CANCELLED
    assert state.message == "cancelled because the Prefect flow run was cancelled"


async def test_killing_infrastructure_may_be_repeated(pool: Pool, runner: Runner) -> None:
    """An app that is over may be killed again; what is no app of ours is told apart."""
    handle = runner.run(AppDef("a", [Role("flow", image="", entrypoint="sleep", args=["300"])]), "local_cwd")
    job = TorchXJobConfiguration()
    async with at_work(pool) as worker:
        await worker.kill_infrastructure(handle, job, grace_seconds=0)
        await until(lambda: pool.state_of(handle) is AppState.CANCELLED or None)
        await worker.kill_infrastructure(handle, job, grace_seconds=0)
        with pytest.raises(InfrastructureNotFound, match="host:17"):
            await worker.kill_infrastructure("host:17", job)
        with pytest.raises(InfrastructureNotAvailable, match="can be seen"):
            await worker.kill_infrastructure(f"local_cwd://torchx/{uuid4().hex}", job)
