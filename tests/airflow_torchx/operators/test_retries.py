"""What becomes of the app when a try ends before it does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from airflow_dags import Dags

from airflow_torchx.operators import torchx
from torchx_core.runner import get_runner
from torchx_core.specs import AppState, AppStatus

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
        status = runner.wait(app.app_handle, timeout_s=60)
    assert status is not None
    return status


@pytest.mark.slow
def test_a_retry_after_a_timeout_runs_an_app_of_its_own(dags: Dags, tmp_path: Path) -> None:
    """Also where the first one takes a while to end: it is not followed to its cancellation."""
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


@pytest.mark.slow
def test_the_last_try_cancels_what_its_trigger_has_lost(
    dags: Dags, away: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The trigger says that it cannot follow the app, and no retry is left that could."""
    monkeypatch.setattr(torchx, "DEFER_AFTER_S", 0.0)
    away("afollow", retryable=False)
    outcome = dags.run('TorchXRunOperator(task_id="t", app=app("sleep", "600"), deferrable=True)')
    assert outcome.state == "failed"
    assert "the login node is away" in outcome.log
    assert "gave up in its last try" in _only_end().msg


@pytest.mark.slow
def test_a_retry_finds_what_the_trigger_of_an_earlier_try_has_lost(
    dags: Dags, away: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was left alone."""
    monkeypatch.setattr(torchx, "DEFER_AFTER_S", 0.0)
    away("afollow", retryable=False)
    outcome = dags.run("""
        TorchXRunOperator(
            task_id="t", app=app("sleep", "15"), deferrable=True, retries=1, retry_delay=timedelta(0)
        )
    """)
    assert outcome.state == "success"
    assert "the app was left alone, and a retry would find it" in outcome.log
    assert _apps() == [AppState.SUCCEEDED]


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
