from __future__ import annotations

from collections import OrderedDict
from typing import Any
from uuid import UUID, uuid4

import pytest
from prefect import get_client
from prefect.settings import PREFECT_API_URL, PREFECT_CLIENT_MAX_RETRIES, temporary_settings
from prefect_runs import FlowRun

from prefect_torchx._engine import ledger, server
from prefect_torchx._engine.shelf import ServerShelf, apps_of_flow_run
from prefect_torchx.position import Position
from torchx_core.specs import AppHandle

pytestmark = pytest.mark.engine

HANDLE = "local_cwd://torchx/app-1"


def _position(cursor: str) -> Position:
    return Position(cursor=cursor, shown_bytes=7)


def _save(shelf: ServerShelf, handle: AppHandle, cursor: str) -> None:
    shelf.note(handle, _position(cursor))
    shelf.save(handle)


@pytest.mark.usefixtures("prefect_api")
@pytest.mark.parametrize("ids", [(str(uuid4()), ""), ("", str(uuid4()))], ids=["flow run", "task run alone"])
def test_what_is_saved_is_found_by_another_process(
    ids: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The latest position, for that app and that run."""
    first = ServerShelf(*ids)
    assert first.open(HANDLE, fresh=True) is None
    _save(first, HANDLE, "1")
    _save(first, HANDLE, "2")
    monkeypatch.setattr(ledger, "_ledgers", OrderedDict())
    second = ServerShelf(*ids)
    assert second.open(HANDLE, fresh=False) == _position("2")
    _save(second, HANDLE, "3")
    assert ServerShelf(*ids).open(HANDLE, fresh=False) == _position("3")
    assert ServerShelf(*ids).open(f"{HANDLE}-2", fresh=False) is None
    assert ServerShelf(str(uuid4()), "").open(HANDLE, fresh=False) is None


@pytest.mark.usefixtures("prefect_api")
def test_a_fresh_app_of_a_name_begins_at_its_start() -> None:
    """What is known of that name is about an app that was deleted."""
    run = str(uuid4())
    old = ServerShelf(run, "")
    old.open(HANDLE, fresh=True)
    _save(old, HANDLE, "1")
    assert ServerShelf(run, "").open(HANDLE, fresh=True) is None
    assert ServerShelf(run, "").open(HANDLE, fresh=False) is None


@pytest.mark.usefixtures("prefect_api")
def test_it_tells_which_apps_a_flow_run_may_have() -> None:
    """As soon as the app may be submitted, each once, however many there are."""
    run = uuid4()
    shelf = ServerShelf(str(run), "")
    handles = [f"local_cwd://torchx/app-{number}" for number in range(3)]
    for handle in [*handles, handles[0]]:
        shelf.open(handle, fresh=True)
    with get_client(sync_client=True) as client:
        assert sorted(apps_of_flow_run(client, run, run)) == handles
        assert list(apps_of_flow_run(client, other := uuid4(), other)) == []


@pytest.mark.usefixtures("prefect_api")
def test_the_root_has_the_apps_of_its_subflows() -> None:
    """All of them; each subflow knows its own, and how far its own log has got."""
    root, one, two = uuid4(), uuid4(), uuid4()
    for run in (root, one, two):
        shelf = ServerShelf(str(run), "", str(root))
        shelf.open(f"local_cwd://torchx/{run}", fresh=True)
        _save(shelf, f"local_cwd://torchx/{run}", str(run))
    with get_client(sync_client=True) as client:
        assert len(list(apps_of_flow_run(client, root, root))) == 3
        assert list(apps_of_flow_run(client, root, one)) == [f"local_cwd://torchx/{one}"]
    again = ServerShelf(str(two), "", str(root))
    assert again.open(f"local_cwd://torchx/{two}", fresh=False) == _position(str(two))


@pytest.mark.usefixtures("prefect_api")
def test_one_request_saves_for_all_apps_of_a_flow_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many apps one process shows: their log needs the requests."""
    run = str(uuid4())
    shelves = {f"local_cwd://torchx/app-{number}": ServerShelf(run, "") for number in range(5)}
    for handle, shelf in shelves.items():
        shelf.open(handle, fresh=True)
    asked: list[object] = []
    ask = server.ask_briefly

    def count(question: Any) -> Any:
        asked.append(question)
        return ask(question)

    monkeypatch.setattr(ledger, "ask_briefly", count)
    for cursor in ("1", "2"):
        for handle, shelf in shelves.items():
            shelf.note(handle, _position(cursor))
        assert all(shelf.save(handle) for handle, shelf in shelves.items())
    assert len(asked) == 2
    places = FlowRun(UUID(run)).bookmarks()
    assert places == dict.fromkeys(shelves, _position("2"))


@pytest.mark.usefixtures("prefect_api")
def test_of_several_processes_the_later_one_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when the earlier one goes on to save how far it is with other apps."""
    run = str(uuid4())
    first = ServerShelf(run, "")
    first.open(HANDLE, fresh=True)
    _save(first, HANDLE, "1")
    monkeypatch.setattr(ledger, "_ledgers", OrderedDict())  # as another process has it
    second = ServerShelf(run, "")
    assert second.open(HANDLE, fresh=False) == _position("1")
    _save(second, HANDLE, "2")
    first.open(f"{HANDLE}-2", fresh=True)
    _save(first, f"{HANDLE}-2", "9")
    assert FlowRun(UUID(run)).bookmarks() == {HANDLE: _position("2"), f"{HANDLE}-2": _position("9")}


def test_a_server_that_is_away_does_no_harm(caplog: pytest.LogCaptureFixture) -> None:
    """At worst the log begins anew; the app does not suffer."""
    away: dict[Any, Any] = {PREFECT_API_URL: "http://127.0.0.1:9/api", PREFECT_CLIENT_MAX_RETRIES: 0}
    with temporary_settings(away):
        shelf = ServerShelf(str(uuid4()), "")
        assert shelf.open(HANDLE, fresh=False) is None
        _save(shelf, HANDLE, "1")
    assert "cannot keep on Prefect's server how far the log is" in caplog.text


@pytest.mark.usefixtures("prefect_api")
def test_outside_of_a_run_nothing_is_kept() -> None:
    """A script has no log on the server."""
    shelf = ServerShelf("", "")
    _save(shelf, HANDLE, "1")
    assert shelf.open(HANDLE, fresh=False) is None
