"""Workers that take a flow run too late, or find what others left half done; before a real server."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from prefect import get_client
from prefect.client.schemas.actions import DeploymentUpdate
from prefect.client.schemas.objects import FlowRunPolicy, State
from prefect.client.schemas.responses import WorkerFlowRunResponse
from prefect.results import ResultRecordMetadata  # type: ignore[attr-defined]  # it does not say so
from prefect.states import AwaitingRetry, Completed, Crashed, Failed, Pending, Running, Scheduled, Suspended
from prefect_pool import Pool
from prefect_runs import FlowRun
from prefect_worker import at_work, handle_of, running_app, set_state, until

from prefect_torchx.worker import TorchXWorker, submission
from prefect_torchx.worker.adoption import NOBODY, WORKER_LABEL
from torchx_core.runner import Runner, get_runner
from torchx_core.specs import AppState

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.engine,
    pytest.mark.timeout(900),
    # A worker that is stopped within a request leaves Prefect's connection to the garbage collector.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

SLEEP = "sleep 300"
SWEEPS = 4


class Late:
    """A worker that has been offered a flow run, and is slow to take it."""

    def __init__(self, worker: TorchXWorker, patch: pytest.MonkeyPatch) -> None:
        self._worker = worker
        self._patch = patch

    async def is_offered(self, pool: Pool) -> None:
        """Ask the server, and do nothing about it."""
        offered = await self._worker.client.get_scheduled_flow_runs_for_work_pool(pool.name)
        assert len(offered) == 1

        async def answer(*_: object, **__: object) -> list[WorkerFlowRunResponse]:
            return offered

        self._patch.setattr(self._worker.client, "get_scheduled_flow_runs_for_work_pool", answer)

    async def takes_it(self) -> None:
        """Go on, and see what was taken through."""
        await self._worker.get_and_submit_flow_runs()

    async def declines(self, run: FlowRun) -> None:
        """Wait until it knows that it came too late."""
        await until(lambda: any("not submitting" in line for line in run.lines()) or None)


@pytest.fixture
def patch(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Return the test's patches; apps of earlier dispatches are not waited for."""
    monkeypatch.setattr(submission, "PREDECESSOR_S", 0.2)
    return monkeypatch


async def _recorded(pool: Pool, runner: Runner, run: FlowRun) -> str:
    """Wait until the flow run's app runs, and is known to the server; return it."""
    handle = await running_app(runner)
    return await until(lambda: handle if pool.infrastructure_pid(run) == handle else None)


def _vary(run: FlowRun, **job_variables: object) -> None:
    """Change the job variables of its deployment."""
    with get_client(sync_client=True) as client:
        deployment = client.read_flow_run(run.id).deployment_id
        assert deployment is not None
        client.update_deployment(deployment, DeploymentUpdate(job_variables=job_variables))


def _wait_for_retry(run: FlowRun) -> None:
    """Do as a flow's process whose flow has a retry left: it fails, and the server lets it wait."""
    with get_client(sync_client=True) as client:
        client.set_flow_run_state(run.id, Running())
        client.update_flow_run(run.id, empirical_policy=FlowRunPolicy(retries=1, retry_delay=0))
        client.set_flow_run_state(run.id, Failed())
    assert run.state.name == "AwaitingRetry"


def _says(run: FlowRun, state: State[None]) -> None:
    """Set a state as a client does, if the server lets it."""
    with get_client(sync_client=True) as client:
        client.set_flow_run_state(run.id, state)
    assert run.state.name == state.name


def _fail_with_stored_exception(run: FlowRun) -> None:
    stored = ResultRecordMetadata(storage_key="/results/boom").model_dump(mode="json")
    state = {"type": "FAILED", "name": "Failed", "data": stored}
    with get_client(sync_client=True) as client:
        body = {"state": state, "force": True}
        client.request("POST", "/flow_runs/{id}/set_state", path_params={"id": run.id}, json=body)


def _history(run: FlowRun) -> list[str | None]:
    """Return the names of the states that the flow run has been through."""
    with get_client(sync_client=True) as client:
        return [state.name for state in client.read_flow_run_states(run.id)]


def _worker_of(run: FlowRun) -> object:
    with get_client(sync_client=True) as client:
        return client.read_flow_run(run.id).labels.get(WORKER_LABEL)


async def _are_at_it(run: FlowRun, workers: int) -> None:
    """Wait until so many workers follow an app of the flow run."""
    said = "submitted to infrastructure"
    await until(lambda: sum(said in line for line in run.lines()) == workers or None)


async def _is_given_back(run: FlowRun, end: State[None]) -> None:
    """Wait until the flow run, once taken late, is as it was."""

    def given_back() -> bool:
        names = _history(run)
        since = names[names.index(end.name) :]
        return "Pending" in since and since[-1] == end.name

    await until(given_back)


@pytest.mark.parametrize(
    "variables",
    [
        pytest.param({}, id="as-it-was"),
        pytest.param({"scheduler": "local_dokcer"}, id="unknown-scheduler", marks=pytest.mark.slow),
        pytest.param({"lease_s": "a while"}, id="wrong-type", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize(
    "end", [Crashed(message="boom"), Completed(message="fine")], ids=["crashed", "completed"]
)
async def test_the_end_is_given_back(
    pool: Pool, patch: pytest.MonkeyPatch, end: State[None], variables: dict[str, object]
) -> None:
    """The late worker gives it back even if it could not submit the flow run any more."""
    run = pool.ask("patient", command="true")
    async with at_work(pool) as one, at_work(pool, "two") as two:
        late = Late(two, patch)
        await late.is_offered(pool)
        await one.get_and_submit_flow_runs()
        await asyncio.to_thread(run.wait_for)
        set_state(run, end)
        _vary(run, command="true", **variables)
        await late.takes_it()
        await _is_given_back(run, end)
    assert (run.state.type, run.state.message) == (end.type, end.message)
    assert pool.apps() == [handle_of(run)]


async def test_what_a_failed_flow_run_has_stored_is_given_back(pool: Pool, patch: pytest.MonkeyPatch) -> None:
    """Its exception can still be read."""
    run = pool.ask("patient", command="true")
    async with at_work(pool) as one, at_work(pool, "two") as two:
        late = Late(two, patch)
        await late.is_offered(pool)
        await one.get_and_submit_flow_runs()
        await asyncio.to_thread(run.wait_for)
        _fail_with_stored_exception(run)
        stored = run.state.data
        await late.takes_it()
        await _is_given_back(run, Failed())
    assert isinstance(stored, ResultRecordMetadata)
    assert run.state.data == stored


async def test_an_end_that_is_taken_while_the_app_exits_is_given_back(pool: Pool, runner: Runner) -> None:
    """The worker that sees the app end does so: the late one may have died at once."""
    run = pool.ask("patient", command=SLEEP, grace_s=0)
    async with at_work(pool) as worker:
        await worker.get_and_submit_flow_runs()
        handle = await _recorded(pool, runner, run)
        set_state(run, Completed(message="fine"))
        _says(run, Pending())
        runner.cancel(handle, grace_s=0)
        await _is_given_back(run, Completed())
    assert run.state.message == "fine"


async def test_an_end_that_was_taken_by_who_died_is_given_back_by_a_sweep(pool: Pool) -> None:
    """Whoever of the pool sweeps, and whether or not it can see the app."""
    run = pool.ask("patient", command="true")
    set_state(run, Pending(), worker="departed")
    _says(run, Completed(message="fine"))
    _says(run, Pending())
    async with at_work(pool):
        await _is_given_back(run, Completed())
    assert run.state.message == "fine"
    assert pool.apps() == []


async def test_a_retry_within_the_process_is_no_new_start(
    pool: Pool, runner: Runner, patch: pytest.MonkeyPatch
) -> None:
    """A late worker leaves the app to it, and the process can go on."""
    run = pool.ask("patient", command=SLEEP)
    async with at_work(pool) as one, at_work(pool, "two") as two:
        late = Late(two, patch)
        await late.is_offered(pool)
        await one.get_and_submit_flow_runs()
        handle = await _recorded(pool, runner, run)
        _wait_for_retry(run)
        await late.takes_it()
        await _are_at_it(run, workers=2)
        assert _history(run)[-1] == "Submitting"
        assert _worker_of(run) == "two"
        for _ in range(SWEEPS):
            await one.sync_with_backend()
            await two.sync_with_backend()
        _says(run, Running())
    assert pool.apps() == [handle]
    assert pool.state_of(handle) is AppState.RUNNING


async def test_a_flow_run_whose_app_is_out_of_sight_is_nobodys(pool: Pool, patch: pytest.MonkeyPatch) -> None:
    """The late worker's name stands on it now; neither that one nor its successor takes the app for gone."""
    run = pool.ask("patient", command=SLEEP)
    async with at_work(pool, "two") as two:
        late = Late(two, patch)
        await late.is_offered(pool)
        _says(run, Pending())
        with get_client(sync_client=True) as client:
            client.update_flow_run(run.id, infrastructure_pid=handle_of(run))
        _wait_for_retry(run)
        await late.takes_it()
        await late.declines(run)
        await until(lambda: _worker_of(run) == NOBODY or None)
        for _ in range(SWEEPS):
            await two.sync_with_backend()
    set_state(run, Running(), worker="two")
    async with at_work(pool, "two") as two:
        for _ in range(SWEEPS):
            await two.sync_with_backend()
    assert run.state.is_running()
    assert pool.apps() == []


async def test_a_flow_run_that_its_process_gave_back_is_started_again(pool: Pool, runner: Runner) -> None:
    """``AwaitingRetry`` is what Prefect says of that, too."""
    run = pool.ask("patient", command=SLEEP, grace_s=0)
    async with at_work(pool, limit=1) as worker:
        await worker.get_and_submit_flow_runs()
        handle = await _recorded(pool, runner, run)
        _says(run, Running())
        _says(run, AwaitingRetry())
        runner.cancel(handle, grace_s=0)
        await until(lambda: worker.limiter.borrowed_tokens == 0 or None)
        await worker.get_and_submit_flow_runs()
        await until(lambda: handle_of(run, 2) in pool.apps() or None)


async def test_a_late_worker_may_be_the_first_to_start_it_again(
    pool: Pool, runner: Runner, patch: pytest.MonkeyPatch
) -> None:
    """It knows of no app before; the earlier one is over before the next begins all the same."""
    run = pool.ask("patient", command=SLEEP)
    async with at_work(pool) as one, at_work(pool, "two") as two:
        late = Late(two, patch)
        await late.is_offered(pool)
        await one.get_and_submit_flow_runs()
        first = await _recorded(pool, runner, run)
        set_state(run, Crashed(message="its heartbeat was missed"))
        set_state(run, Scheduled())
        await late.takes_it()
        await until(lambda: handle_of(run, 2) in pool.apps() or None)
        assert pool.state_of(first) is AppState.CANCELLED
        await until(lambda: pool.state_of(handle_of(run, 2)) is AppState.RUNNING or None)
        assert not run.state.is_final()


async def test_a_flow_run_is_found_where_it_was_submitted(pool: Pool, runner: Runner) -> None:
    """Its deployment may name another session by then, or none of the schedulers that there are."""
    run = pool.ask("patient", command=SLEEP)
    async with at_work(pool) as worker:
        await worker.get_and_submit_flow_runs()
        first = await _recorded(pool, runner, run)
    for variables in ({"session": "other"}, {"scheduler": "local_dokcer"}):
        _vary(run, command=SLEEP, **variables)
        async with at_work(pool, limit=1) as worker:
            await until(lambda: worker.limiter.borrowed_tokens == 1 or None)
            await until(lambda: _history(run)[-1] == "Submitting" or None)
    async with at_work(pool):
        runner.cancel(first, grace_s=0, reason="seen enough")
        state = await asyncio.to_thread(run.wait_for)
    assert "seen enough" in str(state.message)
    with get_runner("other") as other:
        assert other.list("local_cwd") == []


@pytest.mark.parametrize("since", [[], [Pending()]], ids=["asked-for", "taken"])
async def test_another_start_is_not_crashed_by_how_the_app_ended(
    pool: Pool, runner: Runner, since: list[State[None]]
) -> None:
    """Prefect crashes a flow run whose worker returns a code, whatever has become of it."""
    since = [Scheduled(scheduled_time=datetime.now(UTC) + timedelta(days=1)), *since]  # and never late
    run = pool.ask("patient", command=SLEEP, grace_s=0)
    async with at_work(pool, limit=1) as worker:
        await worker.get_and_submit_flow_runs()
        handle = await _recorded(pool, runner, run)
        for state in [Crashed(), *since]:
            set_state(run, state)
        runner.cancel(handle, grace_s=0)
        await until(lambda: worker.limiter.borrowed_tokens == 0 or None)
    assert _history(run)[-1] == since[-1].name


async def test_a_suspended_flow_run_is_left_alone(pool: Pool) -> None:
    """However long that lasts, its log says nothing of it."""
    run = pool.ask("patient", command="true", grace_s=0)
    set_state(run, Running(), worker="me")
    set_state(run, Suspended(timeout_seconds=86_400))
    with get_client(sync_client=True) as client:
        client.update_flow_run(run.id, infrastructure_pid=handle_of(run))
    async with at_work(pool, limit=1) as worker:
        for _ in range(SWEEPS):
            await until(lambda: worker.limiter.borrowed_tokens == 0 or None)
            await worker.sync_with_backend()
        await until(lambda: any("takes up" in line for line in run.lines()) or None)
        await until(lambda: worker.limiter.borrowed_tokens == 0 or None)
    assert sum("takes up" in line for line in run.lines()) == 1
