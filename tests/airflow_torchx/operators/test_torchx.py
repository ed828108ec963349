from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from airflow_dags import AIRFLOW, Dags, serialized

from airflow_torchx import TorchXRunOperator, _engine
from airflow_torchx.operators import torchx
from torchx_core.errors import InvalidAppError, InvalidInputError, UnknownSchedulerException
from torchx_core.runner import get_runner
from torchx_core.specs import AppDef, AppState, InvalidRunConfigException, Role

pytestmark = [
    pytest.mark.engine,
    pytest.mark.filterwarnings("ignore"),  # Airflow's own are not ours to mend
]
remembers = pytest.mark.skipif(AIRFLOW < (3, 3), reason="only Airflow 3.3 remembers values across tries")


def _apps() -> dict[str, AppState]:
    with get_runner() as runner:
        return {app.app_handle: app.state for app in runner.list("local_cwd")}


def test_both_replicas_lines_are_in_the_tasks_log(dags: Dags) -> None:
    """Each line is there once, with the replica that wrote it."""
    outcome = dags.run("""
        TorchXRunOperator(task_id="t", app=app("sh", "-c", "echo hello ${replica_id}", num_replicas=2))
    """)
    assert outcome.state == "success"
    assert [outcome.log.count(f"[r/{i}] hello {i}") for i in range(2)] == [1, 1]


def test_the_result_is_the_return_value(dags: Dags) -> None:
    """What the app reports, a later task pulls; handle and status are there by name."""
    outcome = dags.run("""
        code = "from torchx_core.runtime import report_result; report_result({'accuracy': 0.97})"
        first = TorchXRunOperator(task_id="t", app=app(sys.executable, "-c", code))
        then = TorchXRunOperator(task_id="u", app=app("echo", "got {{ ti.xcom_pull('t')['accuracy'] }}"))
        first >> then
    """)
    assert outcome.state == "success"
    assert outcome.xcoms["t", "return_value"] == {"accuracy": 0.97}
    assert "[r/0] got 0.97" in outcome.log
    handle, app = outcome.xcoms["t", "handle"], outcome.xcoms["t", "app"]
    assert isinstance(app, dict)
    assert (app["handle"], app["state"]) == (handle, "SUCCEEDED")
    usage = app["roles"][0]["replicas"][0]["usage"]
    assert usage["cpu_s"] > 0
    assert usage["memory_peak_bytes"] > 1 << 20
    assert handle in _apps()


def test_an_app_without_result_returns_none(dags: Dags) -> None:
    """Nothing is pushed that nobody reported."""
    outcome = dags.run('TorchXRunOperator(task_id="t", app=app("true"))')
    assert ("t", "return_value") not in outcome.xcoms


def test_templates_reach_every_text_of_the_app(dags: Dags, tmp_path: Path) -> None:
    """Arguments, environment, options and session are rendered; macros are left to the scheduler."""
    outcome = dags.run(
        """
        TorchXRunOperator(
            task_id="t",
            app=app(
                "sh", "-c", "echo {{ params.word }} $W ${replica_id}", env={"W": "{{ params.word | upper }}"}
            ),
            scheduler="local_{{ 'cwd' }}",
            cfg={"grace_s": "{{ 1 + 1 }}", "log_dir": "{{ params.logs }}"},
            session="{{ params.word }}",
        )
        """,
        word="hi",
        logs=str(tmp_path / "logs"),
    )
    assert "[r/0] hi HI 0" in outcome.log
    assert str(outcome.xcoms["t", "handle"]).startswith("local_cwd://hi/")
    assert list((tmp_path / "logs").rglob("combined.log"))


def test_an_app_may_come_from_an_earlier_task(dags: Dags) -> None:
    """What one task returns another runs."""
    outcome = dags.run("""
        @task
        def make():
            return app("echo", "made").to_dict()

        TorchXRunOperator(task_id="t", app=make())
    """)
    assert "[r/0] made" in outcome.log


def test_a_mapped_task_runs_an_app_for_each_value(dags: Dags) -> None:
    """Every map index has an app of its own."""
    outcome = dags.run("""
        apps = [app("echo", word).to_dict() for word in ("one", "two")]
        TorchXRunOperator.partial(task_id="t").expand(app=apps)
    """)
    assert outcome.state == "success"
    assert ("[r/0] one" in outcome.log, "[r/0] two" in outcome.log) == (True, True)
    assert len(_apps()) == 2


def test_a_failure_says_what_failed(dags: Dags) -> None:
    """The message leads with the replica and its exit code, and the last lines come as an error."""
    outcome = dags.run("""
        TorchXRunOperator(task_id="t", app=app("sh", "-c", "echo bad input; exit 3"))
    """)
    assert outcome.state == "failed"
    assert "AirflowException: replica r/0 failed with exit code 3" in outcome.log
    assert "[error    ] the last 1 lines of r/0:\nbad input" in outcome.log
    status = outcome.xcoms["t", "app"]
    assert isinstance(status, dict)
    assert status["state"] == "FAILED"


@pytest.mark.parametrize("how", ["", ", deferrable=True"])
def test_a_failure_leads_with_the_exception_of_a_program(dags: Dags, how: str) -> None:
    """With its line, its traceback and what was printed last, also where a trigger has shown the log."""
    outcome = dags.run(f"""
        code = "import os; print('step 1', flush=True); raise ValueError('no ' + os.environ['API_TOKEN'])"
        env = {{"API_TOKEN": "hunter22"}}
        TorchXRunOperator(task_id="t", app=app(sys.executable, "-c", code, env=env){how})
    """)
    assert outcome.state == "failed"
    told = outcome.log.partition("AirflowException: replica r/0 failed with exit code 1 (on ")[2]
    headline, *rest = told.partition("  app: ")[0].split("\n")
    assert headline.endswith("): ValueError: no *** (<string>:1); app is FAILED")
    assert rest[0] == "  error: Traceback (most recent call last):"
    assert rest[-3:] == ["  last lines of r/0:", "    step 1", ""]
    assert "hunter22" not in told.partition("  app: ")[0]


def test_a_retry_after_a_failure_starts_a_new_app(dags: Dags, tmp_path: Path) -> None:
    """The failed app stays for whoever wants to look; the second one succeeds."""
    outcome = dags.run(
        """
        TorchXRunOperator(
            task_id="t",
            app=app("sh", "-c", "if mkdir {{ params.folder }}; then exit 1; else echo second time; fi"),
            retries=1,
            retry_delay=timedelta(0),
        )
        """,
        folder=str(tmp_path / "made"),
    )
    assert outcome.state == "success"
    assert "[r/0] second time" in outcome.log
    first, second = sorted(_apps())
    assert second == f"{first}-2"


def test_an_airflow_without_state_store_will_do(dags: Dags, tmp_path: Path) -> None:
    """Below 3.3 the apps themselves tell a retry where the task stands."""
    outcome = dags.run(
        """
        class Older(TorchXRunOperator):
            def execute(self, context):
                context.pop("task_state_store", None)
                return super().execute(context)

        Older(
            task_id="t",
            app=app("sh", "-c", "if mkdir {{ params.folder }}; then exit 1; else echo second time; fi"),
            retries=1,
            retry_delay=timedelta(0),
        )
        """,
        folder=str(tmp_path / "made"),
    )
    assert outcome.state == "success"
    first, second = sorted(_apps())
    assert second == f"{first}-2"


@remembers
def test_a_run_made_again_under_its_name_starts_afresh(dags: Dags) -> None:
    """Airflow deletes the first run and its records; the second must not find the first one's result."""
    body = 'TorchXRunOperator(task_id="t", app=app("echo", "again"))'
    when = datetime(2026, 1, 1, tzinfo=UTC)
    for _ in range(2):
        assert "[r/0] again" in dags.run(body, logical_date=when).log
    assert len(_apps()) == 2


def test_a_wrong_app_fails_for_good(dags: Dags) -> None:
    """What a template made wrong is not retried, and nothing is submitted."""
    outcome = dags.run(
        """
        TorchXRunOperator(task_id="t", app=app("{{ params.word }}"), retries=5, retry_delay=timedelta(0))
        """,
        word="no-such-program",
    )
    assert outcome.state == "failed"
    assert "AirflowFailException: roles['r'].entrypoint: no such program on this host" in outcome.log
    assert _apps() == {}


def test_secrets_are_hidden_in_the_rendered_fields(dags: Dags) -> None:
    """The web UI shows an app without the values whose names look like secrets', also in YAML text."""
    outcome = dags.run("""
        TorchXRunOperator(task_id="t", app=app("true", env={"API_TOKEN": "hunter22", "MODE": "fast mode"}))
        TorchXRunOperator(
            task_id="u",
            app="{name: a, roles: [{name: r, image: '', entrypoint: echo, num_replicas: {{ 1 }},"
            " env: {API_TOKEN: hunter33}}]}",
        )
    """)
    assert outcome.state == "success"
    assert "fast mode" in str(outcome.rendered["t"])
    assert not any(secret in str(outcome.rendered) for secret in ("hunter22", "hunter33"))


def test_execution_timeout_cancels_the_app(dags: Dags) -> None:
    """The task fails with Airflow's own timeout, and the app ends for that reason."""
    outcome = dags.run("""
        TorchXRunOperator(
            task_id="t", app=app("sleep", "600"), cfg="grace_s=1", execution_timeout=timedelta(seconds=10)
        )
    """)
    assert outcome.state == "failed"
    assert "AirflowTaskTimeout" in outcome.log
    with get_runner() as runner:
        status = runner.wait(str(outcome.xcoms["t", "handle"]), timeout_s=240)
    assert status is not None
    assert status.state is AppState.CANCELLED
    assert "execution_timeout of 0:00:10 passed" in status.msg


@remembers
def test_the_lease_outlasts_the_retry_delay(dags: Dags) -> None:
    """The time between two tries does not count against the app."""
    outcome = dags.run("""
        TorchXRunOperator(
            task_id="t", app=app("true"), retries=1, retry_delay=timedelta(hours=1), lease_s=60
        )
    """)
    assert outcome.records["t"]["lease_s"] == 60 + 3600


APP = AppDef("a", [Role("r", image="", entrypoint="true")])


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"app": AppDef("a")}, InvalidAppError, "an app needs at least one role"),
        ({"app": {"name": "a", "role": []}}, InvalidAppError, "did you mean 'roles'"),
        ({"app": APP, "scheduler": "loca_cwd"}, UnknownSchedulerException, "did you mean 'local_cwd'"),
        ({"app": APP, "cfg": "grace=5"}, InvalidRunConfigException, "grace"),
        (
            {"app": APP, "on_worker_shutdown": "stop"},
            InvalidInputError,
            "must be 'detach' or 'cancel': 'stop'",
        ),
    ],
)
def test_a_mistake_is_an_import_error_of_the_dag(
    arguments: dict[str, object], error: type[Exception], message: str
) -> None:
    """What can be known when the DAG is parsed is said then."""
    with pytest.raises(error, match=message):
        TorchXRunOperator(task_id="t", **arguments)  # type: ignore[arg-type]


def test_the_dag_serializes_the_same_each_time() -> None:
    """A DAG that changes with every parse would fill Airflow's table of versions."""
    from airflow.sdk import DAG

    def parsed() -> object:
        with DAG("d", schedule=None) as dag:
            TorchXRunOperator(task_id="t", app=APP, execution_timeout=timedelta(hours=1))
        return serialized(dag)

    assert parsed() == parsed()


def test_a_local_app_in_a_container_of_its_own_is_not_deferred(
    dags: Dags, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would end with the container, and the triggerer would not see it."""
    monkeypatch.setattr(torchx, "DEFER_AFTER_S", 0.0)
    monkeypatch.setenv("AIRFLOW_IS_EXECUTOR_CONTAINER", "True")
    outcome = dags.run('TorchXRunOperator(task_id="t", app=app("true"), deferrable=True)')
    assert outcome.state == "success"
    assert "not deferred: " in outcome.log
    assert ("t", "torchx_cursor") not in outcome.xcoms


def test_a_task_that_has_ended_meanwhile_does_not_defer(dags: Dags, monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow would refuse that, and no trigger would be there to cancel the app."""
    monkeypatch.setattr(torchx, "DEFER_AFTER_S", 0.0)
    monkeypatch.setattr(_engine, "present_state", lambda _context: "failed")
    outcome = dags.run('TorchXRunOperator(task_id="t", app=app("sleep", "600"), deferrable=True)')
    assert outcome.state == "failed"
    with get_runner() as runner:
        (handle,) = _apps()
        runner.wait(handle, timeout_s=240)
    assert _apps() == {handle: AppState.CANCELLED}
