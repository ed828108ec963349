"""The links of a task's page, of an app that waits in a queue first."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType
from airflow.sdk.execution_time.comms import ErrorResponse
from airflow_dags import Dags
from queueing import queueing

from airflow_torchx import _engine, _engine_triggers, _links
from airflow_torchx._attachment import Attachment
from airflow_torchx._engine import Context
from airflow_torchx._links import LinkRefresh, Links
from airflow_torchx._record import AirflowUnavailableError
from airflow_torchx.links.torchx import HasLinks
from airflow_torchx.operators import torchx
from torchx_core.schedulers import ReplicaChanged
from torchx_core.specs import AppDef, AppState, AppStatus, ReplicaStatus, Role, RoleStatus

pytestmark = [
    pytest.mark.engine,
    pytest.mark.filterwarnings("ignore"),  # Airflow's own are not ours to mend
]

SERVICE = "_link_TorchXServiceLink"
BODY = """
    TorchXRunOperator(
        task_id="t",
        app=app("fake", "print:there", port_map={"tensorboard": 6006}),
        scheduler="queueing",
        deferrable=%s,
    )
"""


def test_a_service_is_linked_once_its_app_has_left_the_queue(dags: Dags, tmp_path: Path) -> None:
    """No replica has a host when following begins, and then the first one has."""
    with queueing(tmp_path, opens_at_feed=1):
        outcome = dags.run(BODY % False)
    assert "[r/0] there" in outcome.log
    assert str(outcome.xcoms["t", SERVICE]).endswith(":6006")


def test_a_trigger_links_what_leaves_the_queue_while_the_task_is_deferred(
    dags: Dags, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Long before a worker comes back: the app may serve for days, and end without one."""
    left: list[tuple[str, str]] = []

    async def save(_trigger: object, key: str, value: str) -> None:
        left.append((key, value))

    monkeypatch.setattr(
        _engine_triggers, "save_note", save
    )  # in dag.test() a trigger has no task to write to
    monkeypatch.setattr(torchx, "DEFER_AFTER_S", 0.1)
    with queueing(tmp_path, opens_at_feed=2):
        outcome = dags.run(BODY % True)
    assert "Pausing task as DEFERRED" in outcome.log
    [address] = [value for key, value in left if key == SERVICE]
    assert address.endswith(":6006")


def _status(host: str) -> AppStatus:
    replica = ReplicaStatus(id=0, state=AppState.RUNNING, role="r", hostname=host)
    return AppStatus(AppState.RUNNING, roles=[RoleStatus("r", [replica])])


def _starts(replica: int = 0) -> ReplicaChanged:
    return ReplicaChanged(role="r", replica=replica, attempt=0, state=AppState.RUNNING, time=0.0)


def test_what_is_known_is_not_looked_at_again() -> None:
    """A scheduler is asked where a replica starts that has had no host, and no more after that."""
    app = AppDef("a", [Role("r", image="", port_map={"tensorboard": 6006})])
    refresh = LinkRefresh(awaited=True)
    due = [refresh.is_due]
    refresh.looked(app, _status(""))
    for event in (_starts(replica=1), _starts()):
        refresh.heed([event])
        due.append(refresh.is_due)
    refresh.looked(app, _status("node7"))
    refresh.heed([_starts()])
    assert [*due, refresh.is_due] == [True, False, True, False]


def test_a_link_that_cannot_be_written_is_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The app is followed on while Airflow's server is away, and the link is written later."""
    app = AppDef("a", [Role("r", image="", port_map={"tensorboard": 6006})])
    attachment = cast("Attachment", SimpleNamespace(app=lambda: app, status=lambda: _status("n"), handle="h"))
    written: list[str] = []
    answers = [AirflowUnavailableError("the server is away"), None]

    def push(_context: object, key: str, _url: str) -> None:
        if error := answers.pop(0):
            raise error
        written.append(key)

    monkeypatch.setattr(_engine, "push_link", push)
    monkeypatch.setattr(_links, "LOOK_AGAIN_S", 0.0)
    links = Links(cast("HasLinks", SimpleNamespace(links={})), cast("Context", {}), {})
    links.show(attachment)
    assert (written, links.awaited) == ([], True)
    links.tick()
    assert (written, links.awaited) == ([SERVICE], False)


def test_a_server_that_does_not_answer_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """What Airflow raises is told as everywhere else."""

    def push(*_: object) -> None:
        raise AirflowRuntimeError(ErrorResponse(error=ErrorType.API_SERVER_ERROR))

    monkeypatch.setattr(_engine, "push_xcom", push)
    with pytest.raises(AirflowUnavailableError):
        _engine.push_link(cast("Context", {}), SERVICE, "http://n:6006")
