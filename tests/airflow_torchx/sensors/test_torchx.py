from __future__ import annotations

import pytest
from airflow_dags import Dags

from airflow_torchx import TorchXSensor
from torchx_core.errors import TorchXError
from torchx_core.runner import get_runner
from torchx_core.specs import AppDef, AppState, Role

pytestmark = [
    pytest.mark.engine,
    pytest.mark.filterwarnings("ignore"),  # Airflow's own are not ours to mend
]


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
        runner.wait(handle, timeout_s=10)
    return outcome.state, outcome.log, outcome.xcoms.get(("t", "return_value"))


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
    state, log, _ = _run(dags, "exit 3", how)
    assert state == "failed"
    assert "replica r/0 failed with exit code 3" in log


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
        runner.wait(handle, timeout_s=10)
    assert outcome.state == "failed"
    assert "AirflowSensorTimeout" in outcome.log
    assert status is not None
    assert status.state is AppState.RUNNING


def test_an_unknown_app_is_skipped_softly(dags: Dags) -> None:
    """`soft_fail` skips instead of failing."""
    outcome = dags.run("""
        from airflow_torchx.sensors import TorchXSensor
        TorchXSensor(task_id="t", handle="local_cwd://torchx/nobody", soft_fail=True)
    """)
    assert "unknown app local_cwd://torchx/nobody" in outcome.log
    assert outcome.state == "success"
