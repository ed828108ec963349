from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from local_apps import app_of
from prefect import flow, get_client
from prefect.client.schemas.objects import FlowRun
from prefect.context import FlowRunContext
from prefect.settings import PREFECT_API_URL, PREFECT_CLIENT_MAX_RETRIES, temporary_settings
from prefect.states import Cancelled, Crashed, Scheduled

from prefect_torchx import reap_apps, run_app, with_reaper
from prefect_torchx.app_run import AppRun
from prefect_torchx.cli import main
from prefect_torchx.naming import FlowTry, Holder
from prefect_torchx.order import Order
from prefect_torchx.reap import Reaper, reap_leftovers
from torchx_core import AppDef, AppState, Runner
from torchx_core.errors import SchedulerError
from torchx_core.specs import AppHandle
from torchx_core.testing import wait_until

pytestmark = [pytest.mark.engine, pytest.mark.usefixtures("prefect_api")]


class OnTheWayError(Exception):
    """Something that says nothing about the app."""


def _left_behind(
    runner: Runner, monkeypatch: pytest.MonkeyPatch, app: AppDef | None = None, **options: Any
) -> tuple[AppHandle, FlowRun]:
    """Return an app that runs on, and the flow run that failed beside it."""
    runs: list[FlowRun] = []

    @flow
    def pipeline() -> None:
        runs.append(FlowRunContext.get().flow_run)  # type: ignore[arg-type,union-attr]
        run_app(app or app_of("sleep", "600"), **options)

    def fail(*_: object) -> None:
        raise OnTheWayError

    with monkeypatch.context() as patch:
        patch.setattr("prefect_torchx.attachment.Attachment.follow", fail)
        with pytest.raises(OnTheWayError):
            pipeline()
    return wait_until(lambda: _running(runner), timeout_s=240)[0], runs[0]


def _running(runner: Runner) -> list[AppHandle]:
    return [app.app_handle for app in runner.list("local_cwd") if app.state is AppState.RUNNING]


def _read(flow_run_id: UUID) -> FlowRun:
    with get_client({"timeout": 30}, sync_client=True) as client:
        return client.read_flow_run(flow_run_id)


def _end(runner: Runner, handle: AppHandle) -> tuple[AppState, str]:
    status = runner.wait(handle, timeout_s=240)
    assert status
    return status.state, status.msg


@flow
def some_flow() -> None:
    """Have hooks."""


@pytest.mark.parametrize("state", [Cancelled(), Crashed()], ids=["cancelled", "crashed"])
def test_the_hook_ends_the_apps_of_its_flow_run(
    state: Any, runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By what the run wrote down on the server before it submitted; another run's app goes on."""
    handle, flow_run = _left_behind(runner, monkeypatch)
    reap_apps(flow=some_flow, flow_run=_read(flow_run.id), state=state)
    assert _end(runner, handle) == (
        AppState.CANCELLED,
        f"cancelled because its Prefect flow run is {state.name}",
    )


def test_the_hook_says_which_apps_it_does_not_see(
    runner: Runner, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """On another host than theirs it can end none, and their lease must."""
    handle, flow_run = _left_behind(runner, monkeypatch)
    with monkeypatch.context() as elsewhere, caplog.at_level("INFO"):
        elsewhere.setenv("TORCHX_STATE_DIR", str(tmp_path / "elsewhere"))
        reap_apps(flow=some_flow, flow_run=_read(flow_run.id), state=Crashed())
    assert f"{handle} is unknown on this host" in caplog.text
    assert runner.status(handle).state is AppState.RUNNING  # type: ignore[union-attr]


def test_the_hook_leaves_the_apps_of_other_flow_runs(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a run that has none, nothing ends."""
    handle, _ = _left_behind(runner, monkeypatch)
    with get_client({"timeout": 30}, sync_client=True) as client:
        other = client.create_flow_run(some_flow)
    reap_apps(flow=some_flow, flow_run=other, state=Cancelled())
    assert runner.status(handle).state is AppState.RUNNING  # type: ignore[union-attr]


def test_prefect_calls_the_hook(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    """With `with_reaper` a run that crashes leaves no app behind."""
    handles: list[AppHandle] = []

    @with_reaper
    @flow
    def pipeline() -> None:
        monkeypatch.setattr("prefect_torchx.attachment.Attachment.follow", crash)
        run_app(app_of("sleep", "600"))

    def crash(*_: object) -> None:
        handles.extend(app.app_handle for app in runner.list("local_cwd"))
        raise SystemExit(1)

    with pytest.raises(SystemExit):
        pipeline()
    assert _end(runner, handles[0])[0] is AppState.CANCELLED


def test_a_reaped_app_is_marked_before_it_has_ended(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that starts again then does not take it for a running one: it waits for its end."""
    script = "trap '' TERM; until test -e go; do sleep 0.05; done"
    app = app_of("sh", "-c", script)
    handle, flow_run = _left_behind(runner, monkeypatch, app, cfg={"grace_s": 2.0})
    reap_apps(flow=some_flow, flow_run=_read(flow_run.id), state=Crashed())
    assert runner.owner(handle) == "prefect:reaper:given up"
    assert _end(runner, handle)[0] is AppState.CANCELLED


def test_a_cancel_that_does_not_get_through_is_made_again(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The scheduler may be away just then, and nobody would come back to ask."""
    refusals = iter([SchedulerError("away for a moment", retryable=True)])
    cancel = Runner.cancel

    def away(self: Runner, *args: Any, **options: Any) -> object:
        if (refusal := next(refusals, None)) is not None:
            raise refusal
        return cancel(self, *args, **options)

    monkeypatch.setattr(Runner, "cancel", away)
    with AppRun(Order.make(app_of("sleep", "600"), "local_cwd", lease_s=None)) as run:
        handle = run.attach()
        run.leave(KeyboardInterrupt())
    assert _end(runner, handle)[0] is AppState.CANCELLED


def test_what_a_call_has_given_up_is_cancelled_again(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    """The call's own request may not have got through before its process ended."""
    handle, flow_run = _left_behind(runner, monkeypatch)
    owner = runner.owner(handle)
    assert runner.take_over(handle, f"{owner}:given up", expected=owner)
    with get_client({"timeout": 30}, sync_client=True) as client:
        client.set_flow_run_state(flow_run.id, Cancelled(), force=True)
    reap_leftovers(flow_run.id)
    assert _end(runner, handle)[0] is AppState.CANCELLED


def test_the_hook_leaves_the_apps_of_a_run_that_was_started_again(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An automation may be quicker than the hook: what it was told of the run's state is over by then."""
    handle, flow_run = _left_behind(runner, monkeypatch)
    over = _read(flow_run.id)
    with get_client({"timeout": 30}, sync_client=True) as client:
        client.set_flow_run_state(flow_run.id, Scheduled(), force=True)
    reap_apps(flow=some_flow, flow_run=over, state=Crashed())
    assert runner.status(handle).state is AppState.RUNNING  # type: ignore[union-attr]


def test_an_app_that_is_followed_again_between_the_verdict_and_its_end_goes_on(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever looks at many apps acts late: the app's owner, as it was at first, must not have changed."""
    handle, flow_run = _left_behind(runner, monkeypatch)
    with Reaper() as reaper:
        [assessment] = reaper.judge("local_cwd", "torchx", unknown=False)
        assert runner.take_over(handle, _token(FlowTry(str(flow_run.id), 2)), expected=assessment.app.owner)
        assert (assessment.orphaned, reaper.reap(assessment.app, "Failed")) == (True, False)
    assert runner.status(handle).state is AppState.RUNNING  # type: ignore[union-attr]


def _token(*flow_tries: FlowTry) -> str:
    return Holder(flow_tries=flow_tries, task_run_id="", task_try=0, call="later").token


def test_the_program_says_that_the_server_is_away(runner: Runner, capsys: pytest.CaptureFixture[str]) -> None:
    """In a line, not in a traceback; nothing is cancelled."""
    app = app_of("sleep", "600")
    app.metadata["prefect.flow_run_id"] = str(uuid4())
    handle = runner.run(app, "local_cwd")
    away: dict[Any, Any] = {PREFECT_API_URL: "http://127.0.0.1:9/api", PREFECT_CLIENT_MAX_RETRIES: 0}
    with temporary_settings(away):
        assert main(["reap", "--unknown"]) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("prefect-torchx: Prefect's server at http://127.0.0.1:9/api/: ConnectError(")
    assert not runner.status(handle).is_terminal()  # type: ignore[union-attr]


def test_the_program_ends_apps_whose_flow_run_is_over(
    runner: Runner, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It reads from the app which run it belongs to, and shows first what it would do."""
    handle, flow_run = _left_behind(runner, monkeypatch)
    assert main(["reap", "--dry-run"]) == 0
    assert f"{handle}  flow run {flow_run.id} is Failed: would be cancelled" in capsys.readouterr().out
    assert runner.status(handle).state is AppState.RUNNING  # type: ignore[union-attr]

    assert main(["reap", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["app_handle"], shown["flow_run_state"], shown["done"]) == (handle, "Failed", "cancelled")
    assert _end(runner, handle)[0] is AppState.CANCELLED

    assert main(["reap"]) == 0
    assert capsys.readouterr().out == ""


def test_an_app_that_runs_share_is_left_alone(
    runner: Runner, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It belongs to no flow run: another one may be after it."""
    handle, flow_run = _left_behind(runner, monkeypatch, idempotency_key="the one")
    assert main(["reap"]) == 0
    reap_apps(flow=some_flow, flow_run=_read(flow_run.id), state=Crashed())
    assert capsys.readouterr().out == ""
    assert runner.status(handle).state is AppState.RUNNING  # type: ignore[union-attr]


def test_an_app_of_a_flow_run_that_the_server_does_not_know_needs_a_word(
    runner: Runner, capsys: pytest.CaptureFixture[str]
) -> None:
    """It may be another server's: only ``--unknown`` ends it."""
    app = app_of("sleep", "600")
    app.metadata["prefect.flow_run_id"] = str(uuid4())
    handle = runner.run(app, "local_cwd")
    assert main(["reap"]) == 0
    assert capsys.readouterr().out.endswith("is unknown: left alone\n")
    assert main(["reap", "--unknown"]) == 0
    assert _end(runner, handle)[0] is AppState.CANCELLED


def test_an_app_whose_flow_run_goes_on_is_left_alone(
    runner: Runner, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever follows it is there, or will be."""
    with get_client({"timeout": 30}, sync_client=True) as client:
        flow_run = client.create_flow_run(some_flow)
    app = app_of("sleep", "600")
    app.metadata["prefect.flow_run_id"] = str(flow_run.id)
    runner.run(app, "local_cwd")
    wait_until(lambda: runner.list("local_cwd")[0].state is AppState.RUNNING, 240)
    assert main(["reap"]) == 0
    assert capsys.readouterr().out.endswith("is Pending: left alone\n")


def test_a_place_that_cannot_be_looked_at_does_not_hide_the_others(
    runner: Runner, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is said, the exit code says it too, and the rest is done."""
    handle, _ = _left_behind(runner, monkeypatch)
    assert main(["reap", "--scheduler", "dokcer", "--scheduler", "local_cwd"]) == 1
    assert "unknown scheduler 'dokcer'" in capsys.readouterr().err
    assert _end(runner, handle)[0] is AppState.CANCELLED
