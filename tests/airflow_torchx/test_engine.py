from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk import DAG, Asset, task_group
from airflow.sdk.execution_time import xcom
from airflow_dags import AIRFLOW, Dags
from local_apps import app_of

from airflow_torchx import TorchXRunOperator
from airflow_torchx._engine import (
    ends_without_worker,
    longest_retry_delay_s,
    mask_secrets,
    masked,
    supervisor_is_gone,
)

pytestmark = [
    pytest.mark.engine,
    pytest.mark.filterwarnings("ignore"),  # Airflow's own are not ours to mend
]

TRIPLED = 3 if AIRFLOW >= (3, 2) else True
"""Airflow 3.1 knows no other factor than two."""
FACTOR = 3 if AIRFLOW >= (3, 2) else 2

PROBE = """
    from airflow_torchx import _engine

    class Probe(TorchXRunOperator):
        def execute(self, context):
            this_try = _engine.this_try(context)
            print("probe", this_try.map_index, _engine.present_state(context), _engine.supervisor_is_gone())

"""


def test_a_task_sees_its_own_state(dags: Dags) -> None:
    """Its state tells a kill by a user from a worker that shuts down."""
    outcome = dags.run(PROBE + '    Probe(task_id="t", app=app("true"))')
    assert "probe -1 running False" in outcome.log


def test_a_mapped_task_sees_the_state_of_its_own_index(dags: Dags) -> None:
    """Not that of the others, which may have ended."""
    outcome = dags.run(
        PROBE + '    Probe.partial(task_id="t").expand(app=[app("true").to_dict(), app("true").to_dict()])'
    )
    assert ("probe 0 running False" in outcome.log, "probe 1 running False" in outcome.log) == (True, True)


def test_outside_a_task_no_supervisor_is_missed() -> None:
    """Only a channel that was there can be closed."""
    assert not supervisor_is_gone()


@pytest.mark.parametrize(
    ("arguments", "longest"),
    [
        ({"retries": 0}, 0),
        ({"retries": 2, "retry_delay": timedelta(seconds=7)}, 7),
        (
            {"retries": 2, "retry_delay": timedelta(seconds=7), "retry_exponential_backoff": TRIPLED},
            7 * 2 * FACTOR**2,
        ),
        (
            {"retries": 2, "retry_exponential_backoff": TRIPLED, "max_retry_delay": timedelta(seconds=400)},
            400,
        ),
        ({"retries": 1000, "retry_exponential_backoff": True}, 24 * 3600),
    ],
)
def test_the_longest_retry_delay_is_known(arguments: dict[str, Any], longest: float) -> None:
    """A lease must outlast it, or the retry would find its app gone."""
    operator = TorchXRunOperator(task_id="t", app=app_of("true"), **arguments)
    assert longest_retry_delay_s(operator) == longest


def _tasks(**arguments: Any) -> list[TorchXRunOperator]:
    """Return three tasks; a fourth one is mapped over the result of the second, a group over the third's."""
    with DAG("d", schedule=None):
        alone, mapped_over, grouped = (
            TorchXRunOperator(task_id=f"t{number}", app=app_of("true"), **arguments) for number in range(3)
        )
        TorchXRunOperator.partial(task_id="u", component="utils.echo").expand(
            component_args=mapped_over.output
        )

        @task_group
        def group(word: str) -> None:
            TorchXRunOperator(task_id="v", component="utils.echo", component_args={"msg": word})

        group.expand(word=grouped.output)
    return [alone, mapped_over, grouped]


@pytest.mark.parametrize(
    ("arguments", "may_end"),
    [
        ({}, [True, False, False]),
        ({"do_xcom_push": False}, [False] * 3),
        ({"multiple_outputs": True}, [False] * 3),
        ({"outlets": [Asset("a")]}, [False] * 3),
        ({"on_success_callback": print}, [False] * 3),
        ({"post_execute": print}, [False] * 3),
    ],
    ids=["nothing", "no XComs", "split result", "outlet", "callback", "hook"],
)
def test_a_trigger_ends_a_task_only_where_no_worker_is_needed(
    arguments: dict[str, Any], may_end: list[bool]
) -> None:
    """A trigger hands on no length of a result, so Airflow would wait for ever to expand over it."""
    assert [ends_without_worker(task) for task in _tasks(**arguments)] == may_end


@pytest.mark.skipif(AIRFLOW < (3, 3), reason="DAGs return results since Airflow 3.3")
def test_a_trigger_ends_no_task_whose_result_is_the_dags() -> None:
    """Only a worker marks it as that."""
    task = _tasks()[0]
    task.returns_dag_result = True
    assert not ends_without_worker(task)


def test_a_trigger_passes_no_xcom_backend_by(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the user's own stores elsewhere, a trigger would leave in the database."""
    monkeypatch.setattr(xcom, "XCom", type("Elsewhere", (xcom.XCom,), {}))
    assert not ends_without_worker(_tasks()[0])


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("DEPLOY_PASSWORD", "begin *** then *** end"),
        ("DEPLOY_CREDENTIALS", "begin *** then *** end"),
        ("DEPLOY_MODE", "begin {0}-first then {0}-second end"),
    ],
    ids=["Airflow's word", "the core's word", "no secret's word"],
)
def test_a_secret_of_many_lines_is_hidden_line_by_line(name: str, shown: str) -> None:
    """An app prints such a secret in lines; that it is one follows from its name."""
    mask_secrets({name: f"{name}-first\n{name}-second\n"})
    assert masked(f"begin {name}-first then {name}-second end") == shown.format(name)
