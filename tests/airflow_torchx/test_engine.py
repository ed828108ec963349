from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from airflow_dags import AIRFLOW, Dags
from local_apps import app_of

from airflow_torchx import TorchXRunOperator
from airflow_torchx._engine import longest_retry_delay_s, supervisor_is_gone

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
    """That is how a kill by a user is told from a worker that shuts down."""
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
