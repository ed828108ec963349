from __future__ import annotations

import json
from pathlib import Path

import pytest
from airflow_dags import Dags

from airflow_torchx.hooks import TorchXHook
from airflow_torchx.hooks.torchx import read_connection
from torchx_core.errors import InvalidInputError
from torchx_core.specs import runopts

pytestmark = [
    pytest.mark.engine,
    pytest.mark.filterwarnings("ignore"),  # Airflow's own are not ours to mend
]


@pytest.fixture
def connection(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, str]:
    """A connection `gpus`, known to every Airflow process."""
    extra = {
        "scheduler": "local_cwd",
        "session": "shared",
        "cfg": "grace_s=1",
        "state_dir": str(tmp_path / "s"),
    }
    document = json.dumps({"conn_type": "torchx", "extra": extra})
    monkeypatch.setenv("AIRFLOW_CONN_GPUS", document)
    return extra


def test_an_operator_runs_where_its_connection_says(dags: Dags, connection: dict[str, str]) -> None:
    """Scheduler, session, options and state directory come from there."""
    outcome = dags.run("""
        TorchXRunOperator(task_id="t", app=app("echo", "hi"), torchx_conn_id="gpus")
    """)
    assert outcome.state == "success"
    assert str(outcome.xcoms["t", "handle"]).startswith("local_cwd://shared/")
    assert (Path(connection["state_dir"]) / "local_cwd" / "shared").is_dir()


def test_a_deferred_task_is_followed_where_its_connection_says(
    dags: Dags, connection: dict[str, str]
) -> None:
    """The trigger knows the connection's name only, and asks for it again."""
    outcome = dags.run("""
        from airflow_torchx.operators import torchx
        torchx.DEFER_AFTER_S = 0.0
        TorchXRunOperator(task_id="t", app=app("sleep", "0.5"), torchx_conn_id="gpus", deferrable=True)
    """)
    assert outcome.state == "success"
    assert connection["state_dir"] not in outcome.log


def test_a_connection_can_be_tried(connection: dict[str, str]) -> None:
    """The answer names the scheduler and the session."""
    del connection
    assert TorchXHook("gpus").test_connection() == (
        True,
        "local_cwd answers; it has 0 apps of session 'shared'",
    )


def test_a_connection_that_does_not_work_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """In words, not as an error."""
    document = json.dumps({"conn_type": "torchx", "extra": {"scheduler": "slrum"}})
    monkeypatch.setenv("AIRFLOW_CONN_BROKEN", document)
    works, message = TorchXHook("broken").test_connection()
    assert not works
    assert "unknown scheduler 'slrum'" in message


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ({"sesion": "x"}, "unknown field 'sesion'.*did you mean 'session'"),
        ({"session": 7}, "session must be a text: 7"),
        ({"cfg": 7}, "cfg must be a text or a JSON object: 7"),
    ],
)
def test_a_wrong_connection_is_refused(extra: dict[str, object], message: str) -> None:
    """With the name of the connection and of the field."""
    with pytest.raises(InvalidInputError, match=message):
        read_connection("gpus", extra)


def test_what_reaches_the_backend() -> None:
    """The Docker engine, the login node of a cluster and the place of the records."""
    params = {
        "docker_host": "ssh://a",
        "places": "c=ssh://d",
        "slurm_ssh": "b",
        "slurm_ssh_python": "python3.12",
        "state_dir": "/s",
    }
    assert read_connection("gpus", {"scheduler": "slurm", **params}).params == params


def test_what_the_operator_says_wins() -> None:
    """Options one by one, in whatever spelling; empty fields of the form count for nothing."""
    options = runopts()
    options.add("grace_s", type_=float, help="")
    options.add("log_dir", type_=str, help="")
    extra = {"scheduler": "", "session": "s", "cfg": {"graceS": 1.0, "log_dir": "/a"}, "state_dir": None}
    target = read_connection("gpus", extra).overridden("local_dir", None, "grace_s=5")
    assert (target.scheduler, target.session, target.params) == ("local_dir", "s", {})
    assert target.cfg(options) == {"grace_s": 5.0, "log_dir": "/a"}
