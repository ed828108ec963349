"""The plugin's pages: of which app they are, and who may see them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.metadata import entry_points
from typing import Any
from urllib.parse import quote

import pytest
from airflow_dags import Dags

from torchx_core import AppDef, Role, get_runner

pytestmark = [
    pytest.mark.engine,
    pytest.mark.filterwarnings("ignore"),  # Airflow's own are not ours to mend
]


class AuthManager:
    """Allows what it is told to, and remembers what it was asked."""

    def __init__(self) -> None:
        self.allowed = True
        self.asked: list[dict[str, Any]] = []

    def is_authorized_dag(self, **asked: Any) -> bool:
        self.asked.append(asked)
        return self.allowed

    async def get_user_from_token(self, token: str) -> str:
        return token


@pytest.fixture
def auth_manager(monkeypatch: pytest.MonkeyPatch) -> AuthManager:
    """Stand in for the one that Airflow is configured with."""
    manager = AuthManager()
    monkeypatch.setattr("airflow.api_fastapi.core_api.security.get_auth_manager", lambda: manager)
    return manager


@pytest.fixture
def client(auth_manager: AuthManager) -> Iterator[Any]:
    """Return what asks as a browser does, of somebody who is logged in."""
    from fastapi.testclient import TestClient

    from airflow_torchx._page import make_app

    del auth_manager  # it is in place
    with TestClient(make_app()) as client:
        client.headers["Authorization"] = "Bearer ann"
        yield client


def _path(dag_id: str = "d", task_id: str = "t") -> str:
    """Return where the page of the latest run's task is."""
    from airflow.models.dagrun import DagRun  # noqa: TID251  # what the web server has
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        query = select(DagRun.run_id).where(DagRun.dag_id == dag_id).order_by(DagRun.id.desc()).limit(1)
        run_id = session.scalar(query)
    return f"/dags/{dag_id}/runs/{quote(str(run_id))}/tasks/{task_id}/{{MAP_INDEX}}/"


def _edit_xcom(value: object) -> None:
    """Do what somebody may who edits XComs, and reads no logs."""
    from airflow.models.xcom import XComModel  # noqa: TID251  # what the web server has
    from airflow.utils.session import create_session
    from sqlalchemy import update

    with create_session() as session:
        session.execute(update(XComModel).where(XComModel.key == "handle").values(value=value))


def test_the_page_of_a_task_is_that_of_its_app(client: Any, dags: Dags) -> None:
    """What was run, and the stream of what has happened."""
    outcome = dags.run('TorchXRunOperator(task_id="t", app=app("echo", "hello"))')
    page = client.get(_path())
    assert page.status_code == 200
    assert str(outcome.xcoms["t", "handle"]) in page.text
    assert "frame-ancestors 'self'" in page.headers["content-security-policy"]
    events = client.get(f"{_path()}events")
    assert events.headers["content-type"].startswith("text/event-stream")
    assert '["hello"]' in events.text


def test_the_apps_scheduler_is_reached_by_the_tasks_connection(
    client: Any, dags: Dags, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the one that the task had, of which nobody who asks for a page can say anything."""
    extra = {"conn_type": "torchx", "extra": {"state_dir": str(tmp_path / "gpus")}}
    monkeypatch.setenv("AIRFLOW_CONN_GPUS", json.dumps(extra))
    dags.run('TorchXRunOperator(task_id="t", app=app("echo", "hello"), torchx_conn_id="gpus")')
    assert '["hello"]' in client.get(f"{_path()}events").text
    monkeypatch.delenv("AIRFLOW_CONN_GPUS")
    assert "does not see the app" in client.get(_path()).text


@pytest.mark.parametrize("what", ["", "events"])
def test_only_who_may_read_the_tasks_log_sees_its_page(
    client: Any, auth_manager: AuthManager, dags: Dags, what: str
) -> None:
    """Airflow's own permission is asked for; without it, or without a user, there is nothing."""
    dags.run('TorchXRunOperator(task_id="t", app=app("echo", "hello"))')
    client.get(_path() + what)
    (asked,) = auth_manager.asked
    assert (asked["method"], asked["access_entity"].name, asked["details"].id) == ("GET", "TASK_LOGS", "d")
    assert asked["user"] == "ann"
    auth_manager.allowed = False
    refused = client.get(_path() + what)
    assert refused.status_code == 403
    assert "hello" not in refused.text
    del client.headers["Authorization"]
    assert client.get(_path() + what).status_code == 401


@pytest.mark.parametrize("what", ["", "events"])
def test_an_xcom_that_names_another_app_shows_nothing_of_it(client: Any, dags: Dags, what: str) -> None:
    """An app is the task's only if a try of the task owns it: XComs are edited by more people."""
    dags.run('TorchXRunOperator(task_id="t", app=app("echo", "hello"))')
    with get_runner() as runner:
        other = AppDef("other", [Role("r", image="", entrypoint="echo", args=["not for you"])])
        handle = runner.run(other, "local_cwd")
        runner.wait(handle, timeout_s=240)
    _edit_xcom(handle)
    answer = client.get(_path() + what)
    assert "not for you" not in answer.text
    assert what or "is not an app of this task instance" in answer.text


@pytest.mark.parametrize("value", ["no handle", "slurm:///", "x" * 10_000, 7, None, {"a": 1}])
def test_an_xcom_that_is_nothing_is_said(client: Any, dags: Dags, value: object) -> None:
    """It may be edited to anything; the page says what is wrong, and never fails."""
    dags.run('TorchXRunOperator(task_id="t", app=app("echo", "hello"))')
    _edit_xcom(value)
    assert client.get(_path()).status_code == 200
    assert client.get(f"{_path()}events").status_code == 204


def test_what_is_not_there_is_said(client: Any, dags: Dags) -> None:
    """A task without an app; an app that the web server does not see."""
    dags.run('TorchXRunOperator(task_id="t", app=app("true"))')
    assert "has no TorchX app" in client.get(_path(task_id="other")).text
    with get_runner() as runner:
        for known in runner.list("local_cwd"):
            runner.delete(known.app_handle)
    assert "torchx-core page local_cwd://" in client.get(_path()).text


def test_airflow_finds_the_plugin() -> None:
    """By its entry point, with a tab for task instances."""
    (found,) = entry_points(group="airflow.plugins", name="torchx")
    (view,) = found.load().external_views
    assert view["destination"] == "task_instance"
    assert view["href"].startswith("/torchx/dags/{DAG_ID}/")


def test_the_link_leads_to_the_tab(dags: Dags) -> None:
    """Of a mapped task to its own instance's."""
    outcome = dags.run('TorchXRunOperator(task_id="t", app=app("true"))')
    key = "_link_TorchXPageLink"
    assert str(outcome.xcoms["t", key]).endswith("/tasks/t/plugin/torchx")
