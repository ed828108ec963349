"""What the operator is given, and what it hands on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from airflow_dags import AIRFLOW, Dags

from airflow_torchx import TorchXRunOperator, _engine_triggers
from airflow_torchx._deferral import CURSOR_KEY
from airflow_torchx._engine_triggers import BaseTrigger
from torchx_core import get_runner
from torchx_core.errors import (
    ComponentArgumentError,
    ComponentNotFoundException,
    InvalidInputError,
    UnknownSchedulerException,
)
from torchx_core.specs import AppDef, Role

pytestmark = [
    pytest.mark.engine,
    pytest.mark.filterwarnings("ignore"),  # Airflow's own are not ours to mend
]

APP = AppDef("a", [Role("r", image="", entrypoint="true")])


def test_a_component_makes_the_app(dags: Dags) -> None:
    """By name and arguments, with templates in them, given by name or as words."""
    outcome = dags.run(
        """
        TorchXRunOperator(
            task_id="t",
            component="utils.echo",
            component_args={"msg": "hi {{ params.word }}", "num_replicas": 2},
        )
        TorchXRunOperator(task_id="u", component="utils.echo", component_args=["--msg", "words"])
        """,
        word="there",
    )
    assert outcome.state == "success"
    assert [outcome.log.count(f"[echo/{i}] hi there") for i in range(2)] == [1, 1]
    assert "[echo/0] words" in outcome.log


def test_a_workspace_that_cannot_be_had_is_left_out_aloud(
    dags: Dags, caplog: pytest.LogCaptureFixture
) -> None:
    """So that one DAG serves a scheduler that builds workspaces and one that does not; the log says so."""
    outcome = dags.run("""
        app = AppDef("a", [Role("r", image="", entrypoint="echo", args=["without it"])])
        TorchXRunOperator(task_id="t", app=app, workspace="/")
    """)
    assert outcome.state == "success"
    assert "without it" in outcome.log
    assert "ignored: roles['r'].workspace: local_cwd cannot lay files over an image" in caplog.text


def test_an_error_among_the_results_shows_no_secret(dags: Dags) -> None:
    """An app may fail with what it was given in its message; what it returns is its own affair."""
    outcome = dags.run("""
        @task.torchx(env={"API_TOKEN": 'hunter"22'}, retries=0)
        def fails():
            import os
            raise ValueError("refused " + os.environ["API_TOKEN"])
        fails()
    """)
    assert "ValueError: refused ***" in str(outcome.xcoms["fails", "app"])
    assert "hunter" not in str(outcome.xcoms)


def test_arguments_may_be_one_template() -> None:
    """A DAG that renders templates as objects makes a map or a list of it."""
    made = TorchXRunOperator(
        task_id="t", component="utils.echo", component_args="{{ params.args }}", cfg="{{ params.cfg }}"
    )
    assert made.component_args == "{{ params.args }}"


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({}, InvalidInputError, "either app or component"),
        ({"app": APP, "component": "utils.echo"}, InvalidInputError, "either app or component"),
        ({"component": "utils.eco"}, ComponentNotFoundException, "utils.echo"),
        (
            {"component": "utils.echo", "component_args": {"message": "x"}},
            ComponentArgumentError,
            "'message'",
        ),
        (
            {"app": APP, "workspace": "/", "cfg": "unsupported=refuse"},
            InvalidInputError,
            "local_cwd cannot build a workspace",
        ),
        ({"app": APP, "scheduler": "local_cdw", "torchx_conn_id": "x"}, UnknownSchedulerException, "cwd"),
    ],
)
def test_a_mistake_is_an_import_error_of_the_dag(
    arguments: dict[str, object], error: type[Exception], message: str
) -> None:
    """What can be known when the DAG is parsed is said then."""
    with pytest.raises(error, match=message):
        TorchXRunOperator(task_id="t", **arguments)  # type: ignore[arg-type]


def test_exit_codes_are_there_by_replica(dags: Dags) -> None:
    """The XCom has the exit code of each replica, 0 of those that ended well included."""
    outcome = dags.run("""
        TorchXRunOperator(task_id="t", app=app("sh", "-c", "exit ${replica_id}", num_replicas=1))
    """)
    assert outcome.xcoms["t", "exit_codes"] == {"r/0": 0}


def test_keys_of_the_result_are_outputs(dags: Dags) -> None:
    """With `multiple_outputs`, each by its own name."""
    outcome = dags.run("""
        code = "from torchx_core.runtime import report_result; report_result({'a': 1, 'b': [2]})"
        TorchXRunOperator(task_id="t", app=app(sys.executable, "-c", code), multiple_outputs=True)
    """)
    assert (outcome.xcoms["t", "a"], outcome.xcoms["t", "b"]) == (1, [2])


@pytest.mark.parametrize(("code", "apps"), [(2, 1), (3, 2)])
def test_wrong_usage_is_not_retried(dags: Dags, code: int, apps: int) -> None:
    """An exit code that says that the program was called wrongly will come again; others may not."""
    outcome = dags.run(
        """
        TorchXRunOperator(
            task_id="t",
            app=app("sh", "-c", "exit {{ params.code }}"),
            retries=1,
            retry_delay=timedelta(0),
        )
        """,
        code=code,
    )
    assert outcome.state == "failed"
    assert outcome.log.count("submitted local_cwd://") == apps
    assert f"replica r/0 failed with exit code {code}" in outcome.log


RANK = '{"message": {"message": "SystemExit: 2", "errorCode": 2, "extraInfo": {"time": 1.0, "rank": "3"}}}'


def test_wrong_usage_of_a_rank_is_not_retried(dags: Dags) -> None:
    """Torchrun itself ends with 1, whatever its rank ends with."""
    outcome = dags.run(
        """
        TorchXRunOperator(
            task_id="t",
            app=app("sh", "-c", "echo '{{ params.error }}' >$$TORCHELASTIC_ERROR_FILE; exit 1"),
            retries=1,
            retry_delay=timedelta(0),
        )
        """,
        error=RANK,
    )
    assert outcome.state == "failed"
    assert outcome.log.count("submitted local_cwd://") == 1
    assert "rank 3 of replica r/0 failed with exit code 2" in outcome.log
    assert "not retried: exit code 2" in outcome.log


def test_an_outlets_event_has_the_result(dags: Dags) -> None:
    """Whoever is scheduled by the asset can read it."""
    outcome = dags.run("""
        from airflow.sdk import Asset
        code = "from torchx_core.runtime import report_result; report_result({'accuracy': 0.9})"
        TorchXRunOperator(task_id="t", app=app(sys.executable, "-c", code), outlets=[Asset("model")])
    """)
    (event,) = outcome.asset_events
    assert event == {"handle": outcome.xcoms["t", "handle"], "result": {"accuracy": 0.9}}


def test_a_service_is_linked(dags: Dags) -> None:
    """The address of a role's first port is there as the link's XCom."""
    outcome = dags.run("""
        TorchXRunOperator(task_id="t", app=app("true", port_map={"tensorboard": 6006}))
    """)
    assert str(outcome.xcoms["t", "_link_TorchXServiceLink"]).endswith(":6006")
    assert ("t", "_link_TorchXRunLink") not in outcome.xcoms


def test_a_deferred_task_shows_every_line_once(dags: Dags) -> None:
    """The worker begins the log, the trigger goes on, and the result is the same."""
    outcome = dags.run("""
        from airflow_torchx.operators import torchx
        torchx.DEFER_AFTER_S = 0.1
        code = (
            "import time; from torchx_core.runtime import report_result;"
            "[print('line', i, flush=True) or time.sleep(1) for i in range(4)]; report_result({'lines': 4})"
        )
        TorchXRunOperator(task_id="t", app=app(sys.executable, "-c", code), deferrable=True)
    """)
    assert outcome.state == "success"
    assert [outcome.log.count(f"[r/0] line {i}") for i in range(4)] == [1, 1, 1, 1]
    assert "Pausing task as DEFERRED" in outcome.log
    assert outcome.xcoms["t", CURSOR_KEY] is not None
    assert outcome.xcoms["t", "return_value"] == {"lines": 4}


@pytest.mark.skipif(AIRFLOW < (3, 3), reason="where no record is kept, an app that is not seen is not known")
def test_what_a_trigger_has_seen_end_is_not_done_again(
    dags: Dags, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its app is deleted before the task is resumed; a worker on another host would not see it either."""
    make_event, load_note, watched = _engine_triggers.make_event, _engine_triggers.load_note, tmp_path / "on"

    async def let_it_end(trigger: BaseTrigger, key: str) -> str | None:
        watched.touch()
        return await load_note(trigger, key)

    def delete_first(payload: Mapping[str, object]) -> object:
        with get_runner() as runner:
            [ended] = runner.list("local_cwd")
            runner.delete(ended.app_handle)
        return make_event(payload)

    monkeypatch.setattr(_engine_triggers, "load_note", let_it_end)
    monkeypatch.setattr(_engine_triggers, "make_event", delete_first)
    outcome = dags.run(f"""
        from airflow_torchx.operators import torchx
        torchx.DEFER_AFTER_S = 0.1
        code = (
            "import os; from torchx_core.runtime import report_result\\n"
            "while not os.path.exists({str(watched)!r}): pass\\n"
            "report_result(7)"
        )
        TorchXRunOperator(task_id="t", app=app(sys.executable, "-c", code), deferrable=True)
    """)
    assert (outcome.state, outcome.xcoms["t", "return_value"]) == ("success", 7)
    assert outcome.log.count("submitted local_cwd://") == 1
    assert "is unknown here: its result is taken" in outcome.log
