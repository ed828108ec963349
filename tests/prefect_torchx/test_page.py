from __future__ import annotations

import asyncio
import io
import json
import logging
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from flow_work import in_a_flow
from keepers import Keeper
from local_apps import app_of
from prefect import task
from prefect.logging.handlers import PrefectConsoleHandler
from prefect_runs import FlowRun

from prefect_torchx.page import RunPage
from prefect_torchx.pictures import run_ids
from prefect_torchx.position import End, Position, Shown
from torchx_core.schedulers import (
    AppEvent,
    LogLines,
    Metric,
    Progress,
    ReplicaChanged,
    StateChanged,
)
from torchx_core.specs import AppDef, AppState, AppStatus, ReplicaStatus, RoleStatus, Usage
from torchx_core.testing import wait_until

pytestmark = pytest.mark.engine

HANDLE = "local_cwd://torchx/train-1"
ROLE = "r"
APP = replace(app_of("true", num_replicas=2, env={"API_TOKEN": "hunter2"}), name="Train it")


def _lines(*texts: str, replica: int = 0, time: float = 5.5) -> LogLines:
    return LogLines(ROLE, replica, 0, "stdout", texts, time)


def _of(replica: int, **what: Any) -> dict[str, Any]:
    return {"role": ROLE, "replica": replica, "attempt": 0, "time": 6.0, **what}


def _status(state: AppState, *replicas: ReplicaStatus, **what: Any) -> AppStatus:
    return AppStatus(state=state, roles=[RoleStatus(ROLE, list(replicas))], **what)


def _replica(number: int, state: AppState, **what: Any) -> ReplicaStatus:
    return ReplicaStatus(id=number, state=state, role=ROLE, hostname="host", **what)


DONE = _status(AppState.SUCCEEDED, _replica(0, AppState.SUCCEEDED, exit_code=0))


def _show(*events: AppEvent, status: AppStatus | None = DONE, app: AppDef = APP, **options: Any) -> None:
    """Show the events of an app to its end."""
    page = RunPage(app, **options)
    page.submitted(HANDLE)
    for number, event in enumerate(events):
        page.write(event)
        page.mark(str(number))
    page.close(status)


@pytest.mark.usefixtures("prefect_api")
def test_each_replica_has_a_logger_with_its_lines_at_their_times_and_levels() -> None:
    """As the API has them: below the run's own logger, at the time of writing, at the level they say."""
    run = in_a_flow(lambda: _show(_lines("one", "ERROR two", replica=1), _lines("DEBUG three")))
    shown = [
        (
            record.name,
            record.message,
            logging.getLevelName(record.level),
            round(record.timestamp.timestamp(), 3),
        )
        for record in run.records()
        if "@" in record.name
    ]
    assert shown == [
        (f"{ROLE}.1@local_cwd/train-1", f"[{ROLE}/1] one", "INFO", 5.5),
        (f"{ROLE}.0@local_cwd/train-1", f"[{ROLE}/0] DEBUG three", "INFO", 5.5),
        (f"{ROLE}.1@local_cwd/train-1", f"[{ROLE}/1] ERROR two", "ERROR", 5.5),
    ]


@pytest.mark.usefixtures("prefect_api")
def test_the_records_of_a_task_are_its_own() -> None:
    """Its page shows them, under the task runs' logger; also when other threads do the work."""
    ids: list[str] = []

    @task
    def job() -> None:
        ids.append(run_ids()[1])
        _show(_lines("one"))

    run = in_a_flow(lambda: job.submit().result())
    [record] = [record for record in run.records() if "@" in record.name]
    assert (str(record.task_run_id), record.name) == (ids[0], f"{ROLE}.0@local_cwd/train-1")


@pytest.mark.usefixtures("prefect_api")
def test_what_has_arrived_is_told() -> None:
    """Not before it has, and at the end all of it: from there another process goes on."""
    told: list[Position] = []
    in_a_flow(lambda: _show(_lines("one"), _lines("two"), keeper=Keeper(told)))
    assert told[-1] == Position(cursor="1", shown_bytes=8, times={f"{ROLE}.0": 5.5})


@pytest.mark.usefixtures("prefect_api")
def test_the_end_of_an_app_is_told_with_what_it_reported() -> None:
    """A try on a host that does not see the app knows then that it is over, and returns its result."""
    told: list[Position] = []
    status = replace(DONE, result={"loss": 1})
    end = StateChanged(state=status.state, time=6.0, status=status)
    in_a_flow(lambda: _show(_lines("one"), end, status=status, keeper=Keeper(told)))
    assert told[-1].end == End(AppState.SUCCEEDED, '{"loss": 1}')


@pytest.mark.usefixtures("prefect_api")
def test_a_listener_that_fails_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """The app does not suffer from a position that cannot be saved."""

    def fail() -> bool:
        raise OSError

    run = in_a_flow(lambda: _show(_lines("one"), keeper=Keeper([], fail)))
    assert run.state.is_completed()
    assert "could not be saved" in caplog.text


def test_the_end_waits_until_the_position_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """One request that failed must not make another process show the end again."""
    monkeypatch.setattr("prefect_torchx.log_shipper.RETRY_S", 0.05)
    told: list[Position] = []
    _show(_lines("one"), keeper=Keeper(told, lambda: len(told) == 3))
    assert told == [Position(cursor="0", shown_bytes=4, times={f"{ROLE}.0": 5.5})] * 3


def test_a_position_that_was_not_kept_is_told_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """An app may say no more; a process that is killed then must not make its output come twice."""
    monkeypatch.setattr("prefect_torchx.log_shipper.SAVE_AGAIN_S", 0.05)
    told: list[Position] = []

    page = RunPage(APP, keeper=Keeper(told, lambda: len(told) == 3))
    page.submitted(HANDLE)
    page.write(_lines("one"))
    page.mark("0")
    page.flush()
    wait_until(lambda: len(told) >= 3, timeout_s=240)
    page.close(DONE)
    assert told == [Position(cursor="0", shown_bytes=4, times={f"{ROLE}.0": 5.5})] * 3


def test_no_position_is_saved_between_lines_that_the_log_has() -> None:
    """Of what is behind it nobody could tell how much is there: a second kill would make lines come twice."""
    told: list[Position] = []
    page = RunPage(APP, keeper=Keeper(told))
    has = Shown(6.0, (f"[{ROLE}/0] one", f"[{ROLE}/0] two"))
    page.submitted(HANDLE, Position(cursor="", shown_bytes=0, after={f"{ROLE}.0": has}))
    for number, text in enumerate(("one", "two", "three")):
        page.write(_lines(text))
        page.mark(str(number))
        page.flush()
    page.close(DONE)
    assert told[-1].cursor == "2"
    assert "0" not in [position.cursor for position in told]
    assert all(position.times[f"{ROLE}.0"] == pytest.approx(6.0) for position in told)


@pytest.mark.usefixtures("prefect_api")
def test_a_log_has_a_limit_that_later_tries_share() -> None:
    """Beyond it lines are counted; the log says so once, and at the end how to see all of them."""

    def work() -> None:
        page = RunPage(APP, limit_bytes=10)
        page.submitted(HANDLE, Position(cursor="", shown_bytes=6))
        for text in ("four", "five", "six", "seven"):
            page.write(_lines(text))
        page.close(DONE)

    shown = [record.message for record in in_a_flow(work).records() if re.search(r"@|\.torchx", record.name)]
    assert sorted(shown) == [
        f"3 lines were left out; `torchx-core log {HANDLE}` shows the whole log",
        f"[{ROLE}/0] four",
        f"the last 4 lines of {ROLE}/0:\nfour\nfive\nsix\nseven",
        "the log has reached its limit of 1e-05 MB; further lines are left out",
    ]


@pytest.mark.usefixtures("prefect_api")
def test_an_event_loop_can_show_an_app_too() -> None:
    """Nothing of it blocks the loop, not even the end."""

    async def work() -> int:
        page = RunPage(APP)
        page.write(_lines("one"))
        beats = 0

        async def beat() -> None:
            nonlocal beats
            while True:
                beats += 1
                await asyncio.sleep(0)

        beating = asyncio.create_task(beat())
        for _ in page.closing(DONE):
            await asyncio.sleep(0.01)
        beating.cancel()
        return beats

    beats: list[int] = []
    run = in_a_flow(lambda: beats.append(asyncio.run(work())))
    assert f"[{ROLE}/0] one" in run.lines()
    assert beats[0] > 10


@pytest.fixture
def handler() -> Iterator[logging.Handler]:
    """Return a console of Prefect's and a handler of the user's, both on the runs' loggers."""
    stream = io.StringIO()
    handler = PrefectConsoleHandler(stream)
    handler.setFormatter(logging.Formatter("%(levelname)s %(name)s %(message)s"))
    for name in ("prefect.flow_runs", "prefect.task_runs"):
        logging.getLogger(name).addHandler(handler)
    yield handler
    for name in ("prefect.flow_runs", "prefect.task_runs"):
        logging.getLogger(name).removeHandler(handler)


@pytest.mark.usefixtures("prefect_api")
def test_a_terminal_shows_the_lines_too(handler: PrefectConsoleHandler) -> None:
    """As Prefect's console formats them, without what makes it slow; so do handlers of the user's own."""
    drawn: list[Any] = []
    handler.console.print = lambda *args, **_: drawn.append(args)  # type: ignore[method-assign]
    in_a_flow(lambda: _show(_lines("[red]one")))
    printed = handler.stream.getvalue()  # type: ignore[attr-defined]
    assert f"INFO prefect.flow_runs.torchx.{ROLE}.0 [{ROLE}/0] [red]one\n" in printed
    # not only "one", which is in many a name that Prefect makes up for a flow run
    assert not any(f"[{ROLE}/0]" in str(args) for args in drawn)


@pytest.mark.usefixtures("prefect_api")
def test_handlers_of_the_user_see_every_record(caplog: pytest.LogCaptureFixture) -> None:
    """What listens to the runs' loggers goes on listening."""
    in_a_flow(lambda: _show(_lines("one", "two")))
    assert f"[{ROLE}/0] one\n[{ROLE}/0] two" in caplog.messages


def test_outside_of_a_run_the_lines_go_to_a_logger_of_ours(caplog: pytest.LogCaptureFixture) -> None:
    """There are no artifacts, and all has arrived at once."""
    caplog.set_level(logging.INFO, "prefect_torchx")
    told: list[Position] = []
    _show(_lines("one"), keeper=Keeper(told))
    assert [record.name for record in caplog.records] == [f"prefect_torchx.torchx.{ROLE}.0"]
    assert told == [Position(cursor="0", shown_bytes=4, times={f"{ROLE}.0": 5.5})]


REPORTS: tuple[AppEvent, ...] = (
    StateChanged(state=AppState.RUNNING, time=5.0),
    ReplicaChanged(**_of(0, state=AppState.RUNNING)),
    Progress(**_of(0, fraction=0.5, message="epoch 5 of hunter2")),
    *(Metric(**_of(0, name="loss", value=1 / (step + 1), step=step)) for step in range(5)),
    _lines("bad hunter2"),
)


def _artifacts(run: FlowRun) -> dict[str, Any]:
    return {str(artifact.key): artifact for artifact in run.artifacts()}


@pytest.mark.usefixtures("prefect_api")
def test_a_run_has_a_table_its_progress_its_metrics_its_result_and_links() -> None:
    """One artifact each, replaced in place; secrets are masked."""
    app = replace(APP, roles=[replace(APP.roles[0], port_map={"board": 6006})])
    status = _status(
        AppState.SUCCEEDED,
        _replica(
            0,
            AppState.SUCCEEDED,
            exit_code=0,
            started_at=1.0,
            ended_at=3.5,
            usage=Usage(cpu_s=2.25, memory_peak_bytes=3 << 30),
        ),
        _replica(1, AppState.SUCCEEDED, exit_code=0, attempt=1),
        result={"accuracy": 0.5},
    )
    found = _artifacts(in_a_flow(lambda: _show(*REPORTS, status=status, app=app)))
    assert sorted(found) == [
        f"train-it-{kind}" for kind in ("links", "metrics", "progress", "replicas", "result")
    ]
    rows = json.loads(found["train-it-replicas"].data)
    assert [(row["replica"], row["state"], row["attempt"], row["duration"]) for row in rows] == [
        (f"{ROLE}/0", "SUCCEEDED", 1, "2.5 s"),
        (f"{ROLE}/1", "SUCCEEDED", 2, ""),
    ]
    assert [(row["cpu"], row["memory"]) for row in rows] == [("2.2 s", "3.0 GB"), ("", "")]
    assert (found["train-it-progress"].data, found["train-it-progress"].description) == (
        50.0,
        f"{ROLE}/0: epoch 5 of ***",
    )
    assert "data:image/svg+xml" in found["train-it-metrics"].data
    assert f"| loss | {ROLE}/0 | 4 | 0.2 |" in found["train-it-metrics"].data
    assert '"accuracy": 0.5' in found["train-it-result"].data
    assert "http://host:6006" in found["train-it-links"].data


@pytest.mark.usefixtures("prefect_api")
def test_a_failure_has_a_post_mortem() -> None:
    """It leads with who failed first, shows its error and last lines, and masks secrets."""
    error = json.dumps({"message": {"message": "RuntimeError: no data", "errorCode": 3}})
    status = _status(
        AppState.FAILED,
        _replica(
            0, AppState.FAILED, exit_code=3, ended_at=6.0, structured_error_msg=error, log_dir="/logs/0"
        ),
        _replica(1, AppState.FAILED, signal="SIGTERM", ended_at=7.0),
    )
    found = _artifacts(in_a_flow(lambda: _show(*REPORTS, status=status)))
    report = found["train-it-post-mortem"].data
    assert report.startswith(f"# Replica {ROLE}/0 failed with exit code 3\n")
    for part in ("RuntimeError: no data", "bad ***", "/logs/0", f"{ROLE}/1 (was killed by SIGTERM)", HANDLE):
        assert part in report


@pytest.mark.usefixtures("prefect_api")
def test_a_run_that_leaves_its_app_has_no_post_mortem() -> None:
    """The app goes on: the table says how it was."""
    found = _artifacts(in_a_flow(lambda: _show(*REPORTS, status=None)))
    assert json.loads(found["train-it-replicas"].data)[0]["state"] == "RUNNING"
    assert "train-it-post-mortem" not in found


@pytest.mark.usefixtures("prefect_api")
def test_automations_hear_of_every_state() -> None:
    """Events name the app, its handle, and the flow run; that of a failure says why, without secrets."""
    failed = _status(AppState.FAILED, _replica(0, AppState.FAILED, exit_code=3), msg="bad hunter2")
    end = StateChanged(state=AppState.FAILED, time=8.0, status=failed, msg="bad hunter2")
    run = in_a_flow(lambda: _show(REPORTS[0], end, status=failed))
    events = wait_until(lambda: _events(run, 3), timeout_s=240)
    assert [event["event"] for event in events] == [
        "torchx.app.submitted",
        "torchx.app.running",
        "torchx.app.failed",
    ]
    assert events[2]["payload"]["failed_replicas"] == [f"{ROLE}/0"]
    assert events[2]["payload"]["message"] == "bad ***"
    assert "hunter2" not in str(events)
    assert events[2]["resource"]["torchx.handle"] == HANDLE


def _events(run: FlowRun, count: int) -> list[dict[str, Any]]:
    """Return the app's events that are related to the flow run, once there are so many."""
    from prefect import get_client

    wanted = {
        "event": {"prefix": ["torchx.app."]},
        "related": {"id": [f"prefect.flow-run.{run.id}"]},
        "occurred": {"since": "1970-01-01T00:00:00Z"},
        "order": "ASC",
    }
    with get_client(sync_client=True) as client:
        answer = client.request("POST", "/events/filter", json={"filter": wanted})
    events: list[dict[str, Any]] = answer.json()["events"]
    order = ["submitted", "running", "failed"]
    events.sort(key=lambda event: order.index(event["event"].rpartition(".")[2]))
    return events if len(events) >= count else []
