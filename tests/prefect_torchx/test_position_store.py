from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from socket import gethostname
from time import time
from typing import Any
from uuid import NAMESPACE_URL, UUID, uuid4, uuid5

import pytest
from prefect import get_client
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.actions import ArtifactCreate, LogCreate
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterTaskRunId
from prefect.settings import PREFECT_API_URL, PREFECT_CLIENT_MAX_RETRIES, temporary_settings
from prefect_runs import FlowRun

from prefect_torchx._engine import ledger, server
from prefect_torchx._engine.position_store import ServerPositionStore, apps_of_flow_run
from prefect_torchx.own import Latest
from prefect_torchx.position import START, End, Position, record_name
from prefect_torchx.records import MAX_TIMES
from prefect_torchx.saved_position import SavedPosition
from torchx_core.specs import AppHandle, AppState

pytestmark = pytest.mark.engine

HANDLE = "local_cwd://torchx/app-1"


def _position(cursor: str) -> Position:
    return Position(cursor=cursor, shown_bytes=7)


def _save(position_store: ServerPositionStore, handle: AppHandle, cursor: str) -> None:
    position_store.note(handle, _position(cursor))
    position_store.save(handle)


@pytest.mark.usefixtures("prefect_api")
@pytest.mark.parametrize("ids", [(str(uuid4()), ""), ("", str(uuid4()))], ids=["flow run", "task run alone"])
def test_what_is_saved_is_found_by_another_process(
    ids: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The latest position, for that app and that run."""
    first = ServerPositionStore(*ids)
    assert first.open(HANDLE, fresh=True) is None
    _save(first, HANDLE, "1")
    _save(first, HANDLE, "2")
    monkeypatch.setattr(ledger, "_ledgers", Latest(9))
    second = ServerPositionStore(*ids)
    assert second.open(HANDLE, fresh=False) == _position("2")
    _save(second, HANDLE, "3")
    assert ServerPositionStore(*ids).open(HANDLE, fresh=False) == _position("3")
    assert ServerPositionStore(*ids).open(f"{HANDLE}-2", fresh=False) is None
    assert ServerPositionStore(str(uuid4()), "").open(HANDLE, fresh=False) is None


@pytest.mark.usefixtures("prefect_api")
def test_a_later_try_learns_on_which_host_an_app_was_submitted_and_how_it_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also while it goes on: the number of changes grows as long as somebody follows it."""
    run = str(uuid4())
    first = ServerPositionStore(run, "", holder="me")
    assert ServerPositionStore(run, "").noted(HANDLE) is None
    first.open(HANDLE, fresh=True)
    monkeypatch.setattr(ledger, "_ledgers", Latest(9))
    second = ServerPositionStore(run, "")
    noted = second.noted(HANDLE)
    assert noted is not None
    assert (noted.host, noted.holder, noted.changes, noted.end) == (gethostname(), "me", 0, None)
    _save(first, HANDLE, "1")
    first.note(HANDLE, replace(_position("2"), end=(end := End(AppState.SUCCEEDED, "5"))))
    first.save(HANDLE)
    noted = second.noted(HANDLE)
    assert noted is not None
    assert (noted.changes, noted.end) == (2, end)


@pytest.mark.usefixtures("prefect_api")
def test_a_fresh_app_of_a_name_begins_at_its_start() -> None:
    """What is known of that name is about an app that was deleted."""
    run = str(uuid4())
    old = ServerPositionStore(run, "")
    old.open(HANDLE, fresh=True)
    _save(old, HANDLE, "1")
    assert ServerPositionStore(run, "").open(HANDLE, fresh=True) is None
    assert ServerPositionStore(run, "").open(HANDLE, fresh=False) is None


@pytest.mark.usefixtures("prefect_api")
def test_it_tells_which_apps_a_flow_run_may_have() -> None:
    """As soon as the app may be submitted, each once, however many there are."""
    run = uuid4()
    position_store = ServerPositionStore(str(run), "")
    handles = [f"local_cwd://torchx/app-{number}" for number in range(3)]
    for handle in [*handles, handles[0]]:
        position_store.open(handle, fresh=True)
    with get_client(sync_client=True) as client:
        assert sorted(apps_of_flow_run(client, run, run)) == handles
        assert list(apps_of_flow_run(client, other := uuid4(), other)) == []


@pytest.mark.usefixtures("prefect_api")
def test_the_root_has_the_apps_of_its_subflows() -> None:
    """All of them; each subflow knows its own, and how far its own log has got."""
    root, one, two = uuid4(), uuid4(), uuid4()
    for run in (root, one, two):
        position_store = ServerPositionStore(str(run), "", str(root))
        position_store.open(f"local_cwd://torchx/{run}", fresh=True)
        _save(position_store, f"local_cwd://torchx/{run}", str(run))
    with get_client(sync_client=True) as client:
        assert len(list(apps_of_flow_run(client, root, root))) == 3
        assert list(apps_of_flow_run(client, root, one)) == [f"local_cwd://torchx/{one}"]
    again = ServerPositionStore(str(two), "", str(root))
    assert again.open(f"local_cwd://torchx/{two}", fresh=False) == _position(str(two))


@pytest.mark.usefixtures("prefect_api")
def test_one_request_saves_for_all_apps_of_a_flow_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many apps one process shows: their log needs the requests."""
    run = str(uuid4())
    position_stores = {
        f"local_cwd://torchx/app-{number}": ServerPositionStore(run, "") for number in range(5)
    }
    for handle, position_store in position_stores.items():
        position_store.open(handle, fresh=True)
    asked: list[object] = []
    ask = server.ask_briefly

    def count(question: Any) -> Any:
        asked.append(question)
        return ask(question)

    monkeypatch.setattr(ledger, "ask_briefly", count)
    for cursor in ("1", "2"):
        for handle, position_store in position_stores.items():
            position_store.note(handle, _position(cursor))
        assert all(position_store.save(handle) for handle, position_store in position_stores.items())
    assert len(asked) == 2
    places = FlowRun(UUID(run)).saved_positions()
    assert places == dict.fromkeys(position_stores, _position("2"))


@pytest.mark.usefixtures("prefect_api")
def test_of_several_processes_the_later_one_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The earlier one may go on to save how far it is with other apps."""
    run = str(uuid4())
    first = ServerPositionStore(run, "")
    first.open(HANDLE, fresh=True)
    _save(first, HANDLE, "1")
    monkeypatch.setattr(ledger, "_ledgers", Latest(9))  # as another process has it
    second = ServerPositionStore(run, "")
    assert second.open(HANDLE, fresh=False) == _position("1")
    _save(second, HANDLE, "2")
    first.open(f"{HANDLE}-2", fresh=True)
    _save(first, f"{HANDLE}-2", "9")
    assert FlowRun(UUID(run)).saved_positions() == {HANDLE: _position("2"), f"{HANDLE}-2": _position("9")}


@pytest.mark.usefixtures("prefect_api")
def test_however_many_processes_a_run_has_had_its_app_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has left a ledger, and Prefect's server returns a page of them at a time."""
    run = str(uuid4())
    ServerPositionStore(run, "").open(HANDLE, fresh=True)
    monkeypatch.setattr(server, "PAGE", 2)
    for number in range(4):
        monkeypatch.setattr(ledger, "_ledgers", Latest(9))
        position_store = ServerPositionStore(run, "")
        assert position_store.open(HANDLE, fresh=False) == (_position(str(number - 1)) if number else None)
        _save(position_store, HANDLE, str(number))


def _name(run: UUID) -> UUID:
    return uuid5(NAMESPACE_URL, f"{run}/{HANDLE}")


def _of_an_older_release(run: UUID) -> ArtifactCreate:
    """Return what releases before ledgers wrote of an app: how far its log was stood there."""
    position = {"cursor": "5", "shown_bytes": 7}
    data = {"kind": "torchx app", "version": 1, "app": HANDLE, "run": str(run), "position": position}
    return ArtifactCreate(type="result", data=data, flow_run_id=run, task_run_id=_name(run))


def _as_an_older_release_reads(client: SyncPrefectClient, run: UUID) -> object:
    only = ArtifactFilter(task_run_id=ArtifactFilterTaskRunId(any_=[_name(run)]))
    [artifact] = client.read_artifacts(artifact_filter=only)
    data: Any = artifact.data
    assert (data["kind"], data["version"], data["app"], data["run"]) == ("torchx app", 1, HANDLE, str(run))
    return data["position"]


@pytest.mark.usefixtures("prefect_api")
def test_a_run_goes_on_over_an_upgrade() -> None:
    """What an older release has saved counts until this one saves; that one reads what this one writes."""
    run, other = uuid4(), uuid4()
    with get_client(sync_client=True) as client:
        client.create_artifact(_of_an_older_release(run))
        assert FlowRun(run).saved_positions() == {HANDLE: _position("5")}
        position_store = ServerPositionStore(str(run), "")
        assert position_store.open(HANDLE, fresh=False) == _position("5")
        _save(position_store, HANDLE, "6")
        assert FlowRun(run).saved_positions() == {HANDLE: _position("6")}
        ServerPositionStore(str(other), "").open(HANDLE, fresh=True)
        assert _as_an_older_release_reads(client, other) is None


def test_a_server_that_is_away_does_no_harm(caplog: pytest.LogCaptureFixture) -> None:
    """At worst the log begins anew; the app does not suffer."""
    away: dict[Any, Any] = {PREFECT_API_URL: "http://127.0.0.1:9/api", PREFECT_CLIENT_MAX_RETRIES: 0}
    with temporary_settings(away):
        position_store = ServerPositionStore(str(uuid4()), "")
        assert position_store.open(HANDLE, fresh=False) is None
        _save(position_store, HANDLE, "1")
    assert "cannot keep on Prefect's server how far the log is" in caplog.text


@pytest.mark.usefixtures("prefect_api")
def test_an_app_that_cannot_be_asked_for_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """The place that was saved before is found again, and so is what is saved from then on."""
    run = str(uuid4())
    first = ServerPositionStore(run, "")
    first.open(HANDLE, fresh=True)
    _save(first, HANDLE, "1")
    monkeypatch.setattr(ledger, "_ledgers", Latest(9))
    cut_off = ServerPositionStore(run, "")
    with monkeypatch.context() as patch:
        patch.setattr(SyncPrefectClient, "read_artifacts", _fail)
        assert cut_off.open(HANDLE, fresh=False) is None
    assert ServerPositionStore(run, "").open(HANDLE, fresh=False) == _position("1")
    _save(cut_off, HANDLE, "2")
    monkeypatch.setattr(ledger, "_ledgers", Latest(9))
    assert ServerPositionStore(run, "").open(HANDLE, fresh=False) == _position("2")


def _fail(*_args: object, **_options: object) -> None:
    raise ValueError("an answer that makes no sense")


@pytest.mark.usefixtures("prefect_api")
def test_a_call_that_lost_an_app_hides_no_place_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two equal calls are about to submit one id; the one that was not first takes back what it wrote."""
    run = str(uuid4())
    first, second = ServerPositionStore(run, ""), ServerPositionStore(run, "")
    for position_store in (first, second):
        position_store.open(HANDLE, fresh=True)
    _save(first, HANDLE, "1")
    second.withdraw(HANDLE)
    monkeypatch.setattr(ledger, "_ledgers", Latest(9))
    assert ServerPositionStore(run, "").open(HANDLE, fresh=False) == _position("1")


@pytest.mark.usefixtures("prefect_api")
def test_a_retry_in_the_same_process_leaves_out_what_the_log_has_behind_the_place() -> None:
    """The log may have more than was saved last, where a try had to leave amid its requests."""
    run, began = uuid4(), time()
    store = ServerPositionStore(str(run), "")
    first = SavedPosition(store)
    first.open(HANDLE, fresh=True)
    first.note(HANDLE, Position(cursor="1", shown_bytes=1, times={"r.0": began + 1}))
    assert first.save()
    _log(run, (f"r.0@{HANDLE}", began + 2, "[r/0] behind"))
    again = SavedPosition(ServerPositionStore(str(run), "")).open(HANDLE, fresh=False)
    assert again is not None
    assert again.after["r.0"].lines == ("[r/0] behind",)


@pytest.mark.usefixtures("prefect_api")
def test_outside_of_a_run_nothing_is_kept() -> None:
    """A script has no log on the server."""
    position_store = ServerPositionStore("", "")
    _save(position_store, HANDLE, "1")
    assert position_store.open(HANDLE, fresh=False) is None


def _log(run: UUID, *records: tuple[str, float, str]) -> None:
    """Write records to the log of the flow run: name, time, message; some as an earlier release did."""
    with get_client(sync_client=True) as client:
        client.create_logs(
            [
                LogCreate.model_validate(
                    {
                        "name": f"prefect.flow_runs.torchx.{name}".replace(".@", "@")
                        if "://" in name
                        else name,
                        "level": 20,
                        "message": message,
                        "timestamp": datetime.fromtimestamp(time, UTC),
                        "flow_run_id": run,
                    }
                )
                for name, time, message in records
            ]
        )


@pytest.mark.usefixtures("prefect_api")
def test_it_finds_what_the_log_has_behind_the_position() -> None:
    """Line by line, of each source what is later than its latest record then; of this app alone."""
    run, now = uuid4(), time() + 5
    store = ServerPositionStore(str(run), "")
    store.open(HANDLE, fresh=True)
    store.note(HANDLE, replace(_position("1"), times={"r.0": now}))
    store.save(HANDLE)
    _log(
        run,
        (record_name("r.0", HANDLE), now + 2, "[r/0] c"),
        (f"r.0@{HANDLE}", now, "[r/0] before"),
        (f"r.0@{HANDLE}", now + 1, "[r/0] a\n[r/0] b"),
        (record_name("r.1", HANDLE), now - 1, "[r/1] x"),
        (f"@{HANDLE}", now - 2, "app is RUNNING"),
        (f"@{HANDLE}", now - 60, "app is RUNNING: another app of that name"),
        (f"r.0@{HANDLE}2", now + 1, "another app"),
        ("r.0@slurm://torchx/app-1", now + 1, "another app"),
        ("r.0", now + 1, "another app"),
    )
    position = ServerPositionStore(str(run), "").find(HANDLE)
    assert position is not None
    assert {source: shown.lines for source, shown in position.after.items()} == {
        "r.0": ("[r/0] a", "[r/0] b", "[r/0] c"),
        "r.1": ("[r/1] x",),
        "": ("app is RUNNING",),
    }
    assert position.after["r.0"].time == pytest.approx(now + 2)


@pytest.mark.usefixtures("prefect_api")
def test_a_source_without_a_saved_time_is_passed_over() -> None:
    """Times are saved of so many sources; what the log has of another may all lie before the position."""
    run, now = uuid4(), time() + 5
    store = ServerPositionStore(str(run), "")
    store.open(HANDLE, fresh=True)
    times = {f"r.{replica}": now for replica in range(MAX_TIMES)}
    store.note(HANDLE, replace(_position("1"), times=times))
    store.save(HANDLE)
    _log(run, (f"r.1@{HANDLE}", now + 1, "[r/1] a"), (f"r.1000@{HANDLE}", now + 1, "[r/1000] a"))
    position = ServerPositionStore(str(run), "").find(HANDLE)
    assert position is not None
    assert list(position.after) == ["r.1"]


@pytest.mark.usefixtures("prefect_api")
def test_a_log_without_a_position_is_read_from_where_the_app_began() -> None:
    """Its process was killed before it saved one."""
    run, now = uuid4(), time() + 5
    ServerPositionStore(str(run), "").open(HANDLE, fresh=True)
    assert ServerPositionStore(str(run), "").open(HANDLE, fresh=False) is None
    _log(run, *((f"r.0@{HANDLE}", now + number / 1000, f"[r/0] {number}") for number in range(450)))
    position = ServerPositionStore(str(run), "").open(HANDLE, fresh=False)
    assert position is not None
    assert position == START
    assert position.after["r.0"].lines == tuple(f"[r/0] {number}" for number in range(450))
