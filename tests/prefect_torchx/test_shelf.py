from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from prefect import get_client
from prefect.settings import PREFECT_API_URL, PREFECT_CLIENT_MAX_RETRIES, temporary_settings

from prefect_torchx._engine.shelf import ServerShelf, apps_of_flow_run
from prefect_torchx.position import Position

pytestmark = pytest.mark.engine

HANDLE = "local_cwd://torchx/app-1"


def _position(cursor: str) -> Position:
    return Position(cursor=cursor, shown_bytes=7)


@pytest.mark.usefixtures("prefect_api")
@pytest.mark.parametrize("ids", [(str(uuid4()), ""), ("", str(uuid4()))], ids=["flow run", "task run alone"])
def test_what_is_saved_is_found_by_another_process(ids: tuple[str, str]) -> None:
    """The latest position, for that app and that run."""
    first = ServerShelf(*ids)
    assert first.open(HANDLE, fresh=True) is None
    first.save(HANDLE, _position("1"))
    first.save(HANDLE, _position("2"))
    second = ServerShelf(*ids)
    assert second.open(HANDLE, fresh=False) == _position("2")
    second.save(HANDLE, _position("3"))
    assert ServerShelf(*ids).open(HANDLE, fresh=False) == _position("3")
    assert ServerShelf(*ids).open(f"{HANDLE}-2", fresh=False) is None
    assert ServerShelf(str(uuid4()), "").open(HANDLE, fresh=False) is None


@pytest.mark.usefixtures("prefect_api")
def test_a_fresh_app_of_a_name_begins_at_its_start() -> None:
    """What is known of that name is about an app that was deleted."""
    run = str(uuid4())
    old = ServerShelf(run, "")
    old.open(HANDLE, fresh=True)
    old.save(HANDLE, _position("1"))
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
        shelf.save(f"local_cwd://torchx/{run}", _position(str(run)))
    with get_client(sync_client=True) as client:
        assert len(list(apps_of_flow_run(client, root, root))) == 3
        assert list(apps_of_flow_run(client, root, one)) == [f"local_cwd://torchx/{one}"]
    again = ServerShelf(str(two), "", str(root))
    assert again.open(f"local_cwd://torchx/{two}", fresh=False) == _position(str(two))


def test_a_server_that_is_away_does_no_harm(caplog: pytest.LogCaptureFixture) -> None:
    """At worst the log begins anew; the app does not suffer."""
    away: dict[Any, Any] = {PREFECT_API_URL: "http://127.0.0.1:9/api", PREFECT_CLIENT_MAX_RETRIES: 0}
    with temporary_settings(away):
        shelf = ServerShelf(str(uuid4()), "")
        assert shelf.open(HANDLE, fresh=False) is None
        shelf.save(HANDLE, _position("1"))
    assert "cannot keep on Prefect's server how far the log is" in caplog.text


@pytest.mark.usefixtures("prefect_api")
def test_outside_of_a_run_nothing_is_kept() -> None:
    """A script has no log on the server."""
    shelf = ServerShelf("", "")
    shelf.save(HANDLE, _position("1"))
    assert shelf.open(HANDLE, fresh=False) is None
