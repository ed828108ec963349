from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from airflow_dags import Dags

from airflow_torchx import TorchXSensor, _engine
from airflow_torchx._engine import AirflowException, Context
from torchx_core.errors import TorchXError
from torchx_core.runner import get_runner
from torchx_core.specs import AppDef, AppState, Role
from torchx_core.testing import wait_until

pytestmark = [
    pytest.mark.engine,
    pytest.mark.filterwarnings("ignore"),  # Airflow's own are not ours to mend
]

LEASE_S = 4.0


def _run(dags: Dags, script: str, sensor: str) -> tuple[str, str, object]:
    """Start an app, run a sensor for it; return the run's state, its log and the sensor's value."""
    with get_runner() as runner:
        app = AppDef("a", [Role("r", image="", entrypoint="sh", args=["-c", script])])
        handle = runner.run(app, "local_cwd")
        outcome = dags.run(f"""
            from airflow_torchx.sensors import TorchXSensor
            TorchXSensor(task_id="t", handle="{handle}", {sensor})
        """)
        runner.cancel(handle, grace_s=0)
        runner.wait(handle, timeout_s=240)
    return outcome.state, outcome.log, outcome.xcoms.get(("t", "return_value"))


@pytest.fixture
def sleeper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The handle of a running app with a lease."""
    monkeypatch.setenv("TORCHX_STATE_DIR", str(tmp_path / "state"))
    app = AppDef("a", [Role("r", image="", entrypoint="sleep", args=["600"])])
    with get_runner() as runner:
        handle = runner.run(app, "local_cwd", {"lease_s": LEASE_S})
        wait_until(lambda: _state(handle) is AppState.RUNNING, 240)
        yield handle
        runner.cancel(handle, grace_s=0)
        runner.wait(handle, timeout_s=240)


def _state(handle: str) -> AppState | None:
    with get_runner() as runner:
        status = runner.status(handle)
        return status.state if status else None


REPORT = """echo '{"type": "result", "value": 7}' >> "$TORCHX_REPORT_FILE" """


@pytest.mark.parametrize("how", ["", "deferrable=True", "mode='reschedule', poke_interval=0.1"])
def test_it_waits_for_success_and_returns_the_result(dags: Dags, how: str) -> None:
    """In the worker, in the triggerer, and by a look now and then."""
    state, _, value = _run(dags, f"sleep 0.3; {REPORT}", how)
    assert (state, value) == ("success", 7)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"handle": "a"}, "'a'"),
        ({"handle": 7}, "handle must be a text: 7"),
        ({"handle": "local_cwd://s/a", "deferrable": "yes"}, "deferrable must be True or False: 'yes'"),
        ({"handle": "local_cwd://s/a", "show_log": 1}, "show_log must be True or False: 1"),
    ],
)
def test_a_mistake_is_an_import_error_of_the_dag(arguments: dict[str, object], message: str) -> None:
    """What can be known when the DAG is parsed is said then."""
    with pytest.raises(TorchXError, match=message):
        TorchXSensor(task_id="t", **arguments)  # type: ignore[arg-type]  # wrong on purpose


@pytest.mark.parametrize("how", ["", "deferrable=True", "mode='reschedule'"])
def test_a_failed_app_fails_it(dags: Dags, how: str) -> None:
    """With the words that the operator would use."""
    state, log, _ = _run(dags, "echo last word; exit 3", how)
    assert state == "failed"
    assert "replica r/0 failed with exit code 3" in log
    assert "  last lines of r/0:\n    last word\n" in log


def test_what_a_failed_app_printed_shows_no_secret_of_its_own(dags: Dags) -> None:
    """The app is somebody else's: Airflow has not been told what to hide."""
    script = 'echo "refused $API_TOKEN"; exit 3'
    role = Role("r", image="", entrypoint="sh", args=["-c", script], env={"API_TOKEN": "hunter22"})
    with get_runner() as runner:
        handle = runner.run(AppDef("a", [role]), "local_cwd")
        outcome = dags.run(f"""
            from airflow_torchx.sensors import TorchXSensor
            TorchXSensor(task_id="t", handle="{handle}")
        """)
    assert "    refused ***" in outcome.log
    assert "hunter22" not in outcome.log


def test_it_leaves_the_app_alone_when_it_gives_up(dags: Dags) -> None:
    """The app is somebody else's."""
    with get_runner() as runner:
        handle = runner.run(AppDef("a", [Role("r", "", entrypoint="sleep", args=["600"])]), "local_cwd")
        outcome = dags.run(f"""
            from airflow_torchx.sensors import TorchXSensor
            TorchXSensor(task_id="t", handle="{handle}", timeout=0.2)
        """)
        status = runner.status(handle)
        runner.cancel(handle, grace_s=0)
        runner.wait(handle, timeout_s=240)
    assert outcome.state == "failed"
    assert "AirflowSensorTimeout" in outcome.log
    assert status is not None
    assert status.state is AppState.RUNNING


def test_it_keeps_execution_timeout_while_deferred(dags: Dags) -> None:
    """Airflow itself does not; the app goes on."""
    with get_runner() as runner:
        handle = runner.run(AppDef("a", [Role("r", "", entrypoint="sleep", args=["600"])]), "local_cwd")
        outcome = dags.run(f"""
            from airflow_torchx.sensors import TorchXSensor
            timeout = timedelta(seconds=1)
            TorchXSensor(task_id="t", handle="{handle}", deferrable=True, execution_timeout=timeout)
        """)
        status = runner.status(handle)
        runner.cancel(handle, grace_s=0)
        runner.wait(handle, timeout_s=240)
    assert outcome.state == "failed"
    assert "has not ended in the execution_timeout of 0:00:01; it goes on" in outcome.log
    assert status is not None
    assert status.state is AppState.RUNNING


@pytest.mark.parametrize("cause", ["asked this task to end", "supervisor of this task is gone"])
def test_it_waits_no_more_when_nobody_would_hear_of_the_end(
    cause: str, sleeper: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would keep the app's lease alive for nobody; the app goes on."""
    sensor = TorchXSensor(task_id="t", handle=sleeper)
    if "gone" in cause:
        monkeypatch.setattr(_engine, "supervisor_is_gone", lambda: True)
    else:
        sensor.on_kill()
    with pytest.raises(AirflowException, match=cause):
        sensor.execute(Context())
    assert _state(sleeper) is AppState.RUNNING


def test_a_look_now_and_then_renews_the_lease(sleeper: str) -> None:
    """In `mode="reschedule"` no process of the sensor lives between two."""
    sensor = TorchXSensor(task_id="t", handle=sleeper, mode="reschedule")
    over_at = time.monotonic() + 2 * LEASE_S
    wait_until(lambda: not sensor.poke(Context()).is_done and time.monotonic() > over_at, 240)
    assert _state(sleeper) is AppState.RUNNING


def test_an_unknown_app_is_skipped_softly(dags: Dags) -> None:
    """`soft_fail` skips instead of failing."""
    outcome = dags.run("""
        from airflow_torchx.sensors import TorchXSensor
        TorchXSensor(task_id="t", handle="local_cwd://torchx/nobody", soft_fail=True)
    """)
    assert "unknown app local_cwd://torchx/nobody" in outcome.log
    assert outcome.state == "success"
