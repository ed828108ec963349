"""What becomes of the app when a try ends before it does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from airflow_dags import AIRFLOW, Dags

from airflow_torchx.operators import torchx
from airflow_torchx.triggers import TorchXTrigger
from torchx_core.errors import SchedulerError
from torchx_core.runner import Runner, get_runner
from torchx_core.specs import AppDef, AppState, AppStatus, Role

pytestmark = [
    pytest.mark.engine,
    pytest.mark.filterwarnings("ignore"),  # Airflow's own are not ours to mend
]


def _apps() -> list[AppState]:
    with get_runner() as runner:
        return [app.state for app in runner.list("local_cwd")]


def _only_end() -> AppStatus:
    """Return how the only app ended."""
    with get_runner() as runner:
        (app,) = runner.list("local_cwd")
        status = runner.wait(app.app_handle, timeout_s=240)
    assert status is not None
    return status


@pytest.mark.slow
def test_a_retry_after_a_timeout_runs_an_app_of_its_own(dags: Dags, tmp_path: Path) -> None:
    """The first app may take a while to end; the retry does not follow it to its cancellation."""
    outcome = dags.run(
        """
        late = "trap 'sleep 5; exit 1' TERM; sleep 600 & wait"
        TorchXRunOperator(
            task_id="t",
            app=app("sh", "-c", "if mkdir {{ params.folder }}; then " + late + "; else echo again; fi"),
            cfg="grace_s=60",
            execution_timeout=timedelta(seconds=10),
            retries=1,
            retry_delay=timedelta(0),
        )
        """,
        folder=str(tmp_path / "made"),
    )
    assert outcome.state == "success"
    assert _apps() == [AppState.CANCELLED, AppState.SUCCEEDED]


@pytest.mark.parametrize("method", ["describe", "status"])
def test_an_absence_of_a_moment_does_not_fail_the_last_try(
    dags: Dags, away: Callable[..., None], method: str
) -> None:
    """Links can be missing; what is needed is asked again."""
    away(method)
    outcome = dags.run('TorchXRunOperator(task_id="t", app=app("echo", "there"))')
    assert outcome.state == "success"
    assert "[r/0] there" in outcome.log


def test_the_last_try_cancels_what_it_cannot_follow(dags: Dags, away: Callable[..., None]) -> None:
    """Nobody would come back for the app."""
    away("follow", retryable=False)
    outcome = dags.run('TorchXRunOperator(task_id="t", app=app("sleep", "600"))')
    assert outcome.state == "failed"
    assert "the login node is away" in outcome.log
    assert "gave up in its last try" in _only_end().msg


def test_an_earlier_try_leaves_to_the_next_what_it_cannot_follow(
    dags: Dags, away: Callable[..., None]
) -> None:
    """Which follows it to its end."""
    away("follow", retryable=False)
    outcome = dags.run("""
        TorchXRunOperator(
            task_id="t", app=app("sh", "-c", "sleep 3; echo there"), retries=1, retry_delay=timedelta(0)
        )
    """)
    assert outcome.state == "success"
    assert _apps() == [AppState.SUCCEEDED]


@pytest.mark.skipif(AIRFLOW < (3, 3), reason="only Airflow 3.3 remembers values across tries")
def test_a_retry_returns_what_has_succeeded_though_the_app_is_gone(dags: Dags, tmp_path: Path) -> None:
    """What came after the app has failed, or its worker died: what is done is not done again."""
    outcome = dags.run(
        """
        from pathlib import Path
        from torchx_core import get_runner

        def forget_and_fail(context, result):
            folder = Path(context["params"]["folder"])
            if not folder.exists():
                folder.mkdir()
                with get_runner() as runner:
                    runner.prune("local_cwd", max_count=0)
                raise RuntimeError("what comes afterwards")

        report = "from torchx_core.runtime import report_result; report_result(7)"
        TorchXRunOperator(
            task_id="t",
            app=app("python", "-c", report),
            post_execute=forget_and_fail,
            retries=1,
            retry_delay=timedelta(0),
        )
        """,
        folder=str(tmp_path / "made"),
    )
    assert outcome.state == "success"
    assert outcome.xcoms["t", "return_value"] == 7
    assert not _apps()


@pytest.fixture
def lost_by_trigger(away: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Defer at once to a trigger that cannot follow, once; nor can the worker that the task is resumed on."""
    monkeypatch.setattr(torchx, "DEFER_AFTER_S", 0.0)
    follow = Runner.afollow

    def lose(*_args: object, **_options: object) -> None:
        monkeypatch.setattr(Runner, "afollow", follow)
        away("follow", retryable=False)
        raise SchedulerError("the login node is away")

    monkeypatch.setattr(Runner, "afollow", lose)


@pytest.mark.slow
@pytest.mark.usefixtures("lost_by_trigger")
def test_the_last_try_cancels_what_neither_its_trigger_nor_it_can_follow(dags: Dags) -> None:
    """No retry is left that could."""
    outcome = dags.run('TorchXRunOperator(task_id="t", app=app("sleep", "600"), deferrable=True)')
    assert outcome.state == "failed"
    assert "the login node is away" in outcome.log
    assert "gave up in its last try" in _only_end().msg


@pytest.mark.slow
@pytest.mark.usefixtures("lost_by_trigger")
def test_a_retry_finds_what_an_earlier_try_and_its_trigger_have_lost(dags: Dags) -> None:
    """It was left alone."""
    outcome = dags.run("""
        TorchXRunOperator(
            task_id="t",
            app=app("sh", "-c", "sleep 15; echo there"),
            deferrable=True,
            retries=1,
            retry_delay=timedelta(0),
        )
    """)
    assert outcome.state == "success"
    assert outcome.log.count("[r/0] there") == 1
    assert _apps() == [AppState.SUCCEEDED]


@pytest.fixture
def restored(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take back what a DAG changes in our modules."""
    monkeypatch.setattr(torchx, "DEFER_AFTER_S", torchx.DEFER_AFTER_S)
    monkeypatch.setattr(TorchXTrigger, "_runner", TorchXTrigger._runner)  # noqa: SLF001


BLIND = """
import os
from airflow_torchx.operators import torchx
from airflow_torchx.sensors import TorchXSensor
from airflow_torchx.triggers import TorchXTrigger
from torchx_core.runner import get_runner
torchx.DEFER_AFTER_S = 0.0
TorchXTrigger._runner = lambda self: get_runner(state_dir=os.environ["TORCHX_STATE_DIR"] + "-elsewhere")
"""
"""Makes a trigger that looks for apps where there are none, as in another container."""


@pytest.mark.usefixtures("restored")
@pytest.mark.parametrize(
    ("seconds", "timeout"),
    [(0, None), *(pytest.param(*long, marks=pytest.mark.slow) for long in ((12, None), (600, 12)))],
)
def test_a_worker_follows_what_the_triggerer_does_not_see(
    dags: Dags, seconds: int, timeout: int | None
) -> None:
    """To the app's end, which may have come meanwhile, or to `execution_timeout`."""
    limit = f"timedelta(seconds={timeout})" if timeout else None
    outcome = dags.run(
        BLIND
        + f"""
TorchXRunOperator(
    task_id="t",
    app=app("sh", "-c", "sleep 1; echo a; sleep {seconds}; echo b"),
    deferrable=True,
    execution_timeout={limit},
)
"""
    )
    assert "the triggerer could not follow the app: unknown app local_cwd://torchx/" in outcome.log
    assert outcome.log.count("[r/0] a") == 1
    if timeout:
        assert (outcome.state, _apps()) == ("failed", [AppState.CANCELLED])
        assert f"execution_timeout of 0:00:{timeout} passed" in _only_end().msg
    else:
        assert (outcome.state, _apps()) == ("success", [AppState.SUCCEEDED])
        assert outcome.log.count("[r/0] b") == 1


@pytest.mark.usefixtures("restored")
@pytest.mark.parametrize("seconds", [0, pytest.param(12, marks=pytest.mark.slow)])
def test_a_sensor_waits_for_what_the_triggerer_does_not_see(dags: Dags, seconds: int) -> None:
    """In the worker that it is resumed on."""
    with get_runner() as runner:
        app = AppDef("a", [Role("r", image="", entrypoint="sleep", args=[str(seconds)])])
        handle = runner.run(app, "local_cwd")
    outcome = dags.run(BLIND + f'TorchXSensor(task_id="t", handle="{handle}", deferrable=True)')
    assert "the triggerer could not wait for the app" in outcome.log
    assert (outcome.state, _apps()) == ("success", [AppState.SUCCEEDED])


def test_a_wrong_edit_between_two_tries_does_not_disturb_the_app(
    dags: Dags, away: Callable[..., None]
) -> None:
    """The retry follows the app that runs; what the DAG asks for by now is of no interest."""
    away("follow", retryable=False)
    outcome = dags.run("""
        TorchXRunOperator(
            task_id="t",
            app="{name: a, roles: [{name: r, image: '', entrypoint: sh, args: ['-c', 'sleep 3; echo there'],"
            " num_replicas: {{ 1 if ti.try_number == 1 else 'none' }}}]}",
            retries=1,
            retry_delay=timedelta(0),
        )
    """)
    assert outcome.state == "success"
    assert "[r/0] there" in outcome.log
    assert _apps() == [AppState.SUCCEEDED]
