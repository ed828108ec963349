"""Decorated functions in a real Airflow: what crosses between DAG file, worker and triggerer is enough."""

from __future__ import annotations

import pytest
from airflow_server import AirflowServer

pytestmark = [
    pytest.mark.engine,
    pytest.mark.deployment,
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore"),  # Airflow's own are not ours to mend
]

DAGS = """
from airflow_torchx.operators import torchx
torchx.DEFER_AFTER_S = 0.5

with DAG("mapped", schedule=None, is_paused_upon_creation=False):
    @task
    def numbers():
        return [2, 3]

    @task.torchx(task_id="t", replicas=2, deferrable=True, multiple_outputs=True)
    def power(number, exponent):
        import time

        time.sleep(2)
        return {"power": number ** exponent}

    power.partial(exponent=2).expand(number=numbers())

with DAG("expanded", schedule=None, is_paused_upon_creation=False):
    @task.torchx(task_id="first", deferrable=True)
    def numbers_later():
        import time

        time.sleep(2)
        return [2, 3, 5]

    @task(task_id="t")
    def double(number):
        return 2 * number

    double.expand(number=numbers_later())

with DAG("failing", schedule=None, is_paused_upon_creation=False):
    @task.torchx(task_id="t", deferrable=True, env={"API_TOKEN": "hunter22"})
    def fails():
        import os
        import time

        print("with", os.environ["API_TOKEN"])
        time.sleep(2)
        raise ValueError("no data")

    fails()
"""


def test_mapped_functions_are_deferred_and_return_what_they_return(airflow: AirflowServer) -> None:
    """Each map index has a value of its own, and its keys are XComs."""
    task = airflow.trigger("mapped")
    airflow.wait_for_run(task, "success", 240)
    assert [airflow.xcom(task, "return_value", i) for i in (0, 1)] == [{"power": 4}, {"power": 9}]
    assert [airflow.xcom(task, "power", i) for i in (0, 1)] == [4, 9]


def test_a_task_is_mapped_over_a_deferred_result(airflow: AirflowServer) -> None:
    """For Airflow to know its length a worker has to hand it on, not the triggerer."""
    task = airflow.trigger("expanded")
    airflow.wait_for_run(task, "success", 240)
    assert [airflow.xcom(task, "return_value", i) for i in range(3)] == [4, 6, 10]


def test_a_deferred_failure_shows_its_traceback_and_no_secret(airflow: AirflowServer) -> None:
    """The log that the web UI shows has both from the triggerer and from the worker."""
    task = airflow.trigger("failing")
    airflow.wait_for(task, "failed")
    log = airflow.log(task)
    assert "[fails/0] with ***" in log
    assert "hunter" not in log
    assert 'raise ValueError("no data")' in log
    assert "ValueError: no data" in log
