"""Apps of subflows: Prefect makes a new run of a subflow when its parent is run again; the app stays."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from local_apps import app_of
from prefect import flow, get_client, task
from prefect.client.schemas.objects import FlowRun
from prefect.context import FlowRunContext
from prefect.states import Cancelling, Crashed

from prefect_torchx import reap_apps, run_app
from prefect_torchx._engine.caller import Caller
from prefect_torchx._engine.flow_state import watches
from prefect_torchx.attachment import Attachment
from prefect_torchx.naming import FlowTry, Holder
from torchx_core import AppState, Runner
from torchx_core.testing import ReportResult, python_program, wait_until

pytestmark = [pytest.mark.engine, pytest.mark.usefixtures("prefect_api")]


class OnTheWayError(Exception):
    """Something that says nothing about the app."""


def _flow_run_id() -> uuid.UUID:
    context = FlowRunContext.get()
    assert context
    assert context.flow_run
    return context.flow_run.id


def test_the_work_is_the_same_when_the_parent_runs_again() -> None:
    """Though the subflow's run is another one; the later try knows that it is later."""
    seen: list[tuple[str, tuple[FlowTry, ...]]] = []

    @task
    def job() -> None:
        tries = (caller := Caller()).flow_tries()
        seen.append((caller.work(tries[0].run), tries))

    @flow
    def part() -> None:
        job()
        raise OnTheWayError

    @flow(retries=1)
    def pipeline() -> None:
        part()

    with pytest.raises(OnTheWayError):
        pipeline()
    [(first, before), (second, after)] = seen
    assert first == second
    assert (before[0].number, after[0].number) == (1, 2)
    assert before[0].run == after[0].run
    assert before[1].run != after[1].run


def test_other_subflows_have_other_work() -> None:
    """By the subflow's name, and from that of its parent."""

    def work() -> str:
        caller = Caller()
        return caller.work(caller.flow_tries()[0].run)

    @flow
    def one() -> str:
        return work()

    @flow
    def two() -> str:
        return work()

    @flow
    def pipeline() -> list[Any]:
        return [work(), one(), two()]

    assert len(set(pipeline())) == 3


def test_an_app_is_found_when_the_parent_runs_again(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is one app; the new run of the subflow follows it, and returns its result."""
    follow, tries = Attachment.follow, []

    def fail_once(attachment: Attachment) -> Any:
        tries.append(attachment.handle)
        if len(tries) == 1:
            raise OnTheWayError
        return follow(attachment)

    monkeypatch.setattr("prefect_torchx.attachment.Attachment.follow", fail_once)
    program, args = python_program(ReportResult(5))

    @flow
    def part() -> Any:
        return run_app(app_of(program, *args))

    @flow(retries=1)
    def pipeline() -> Any:
        return part()

    assert pipeline() == 5
    assert tries[0] == tries[1]
    assert [app.app_handle for app in runner.list("local_cwd")] == [tries[0]]


def test_equal_apps_of_subflows_that_run_at_once_are_apart(runner: Runner) -> None:
    """Each call of a subflow has an app of its own."""
    program, args = python_program(ReportResult(5))

    @flow
    def part() -> Any:
        return run_app(app_of(program, *args))

    @flow
    def pipeline() -> list[Any]:
        return [part(), part()]

    assert pipeline() == [5, 5]
    assert len(list(runner.list("local_cwd"))) == 2


def test_a_subflow_is_cancelled_with_its_parent() -> None:
    """Prefect changes the parent's state only."""

    @flow
    def part(parent: uuid.UUID) -> bool:
        with watches.use(str(_flow_run_id())) as watch:
            assert watch.look()
            before = watch.is_cancelled
            with get_client(sync_client=True) as client:
                client.set_flow_run_state(parent, Cancelling(), force=True)
            wait_until(lambda: watch.is_cancelled, timeout_s=240)
            return before

    @flow
    def pipeline() -> bool:
        return part(_flow_run_id())

    seen: list[bool] = []
    flow(name="outer")(lambda: seen.append(pipeline()))(return_state=True)
    assert seen == [False]


@pytest.mark.parametrize("whose", ["the parent's", "its own"])
def test_the_hook_finds_an_app_of_a_subflow(
    whose: str, runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The parent's, when all has crashed; the subflow's own, when that alone has."""
    parent, own = _fail_in_a_subflow(monkeypatch)
    [app] = runner.list("local_cwd")
    reap_apps(flow=some_flow, flow_run=parent if whose == "the parent's" else own, state=Crashed())
    status = runner.wait(app.app_handle, timeout_s=240)
    assert status
    assert status.state is AppState.CANCELLED


def test_the_hook_leaves_an_app_that_the_next_run_of_the_subflow_has(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first one is crashed for ever, while its parent runs again."""
    parent, own = _fail_in_a_subflow(monkeypatch)
    [app] = runner.list("local_cwd")
    again = (FlowTry(str(parent.id), 2), FlowTry(str(uuid.uuid4()), 1))
    later = Holder(flow_tries=again, task_run_id="", task_try=0, call="later")
    runner.take_over(app.app_handle, later.token, force=True)
    reap_apps(flow=some_flow, flow_run=own, state=Crashed())
    status = runner.status(app.app_handle)
    assert status
    assert not status.is_terminal()


@flow
def some_flow() -> None:
    """Have hooks."""


def _fail_in_a_subflow(monkeypatch: pytest.MonkeyPatch) -> tuple[FlowRun, FlowRun]:
    """Return the runs of a flow and its subflow, which have failed; an app of the latter goes on."""
    runs: list[uuid.UUID] = []

    def fail(*_: object) -> None:
        raise OnTheWayError

    @flow
    def part() -> None:
        runs.append(_flow_run_id())
        run_app(app_of("sleep", "600"))

    @flow
    def pipeline() -> None:
        runs.append(_flow_run_id())
        part()

    with monkeypatch.context() as patch:
        patch.setattr("prefect_torchx.attachment.Attachment.follow", fail)
        with pytest.raises(OnTheWayError):
            pipeline()
    with get_client(sync_client=True) as client:
        return client.read_flow_run(runs[0]), client.read_flow_run(runs[1])
