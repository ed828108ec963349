"""Mapped tasks, which Airflow makes no operator of before they run: their mistakes are found all the same."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from airflow.sdk import DAG, task
from airflow_dags import Dags

from airflow_torchx import TorchXRunOperator, TorchXSensor
from airflow_torchx.decorators import torchx_task
from torchx_core.errors import TorchXError
from torchx_core.specs import AppDef, Resource, Role

pytestmark = [
    pytest.mark.engine,
    pytest.mark.filterwarnings("ignore"),  # Airflow's own are not ours to mend
]

APP = AppDef("a", [Role("r", image="", entrypoint="true")])


@task
def _results() -> list[object]:
    """Return what is not known when the DAG is parsed."""
    return []


def _plain(x: object) -> object:
    return x


@torchx_task(replicas=2)
def _function(x: object, y: object = None) -> object:
    return x, y


MISTAKES: dict[str, tuple[Callable[[], object], str]] = {
    "an app among good ones": (
        lambda: TorchXRunOperator.partial(task_id="t").expand(app=[APP, AppDef("b")]),
        "an app needs at least one role",
    ),
    "an option for one instance": (
        lambda: TorchXRunOperator.partial(task_id="t", app=APP).expand_kwargs([{}, {"cfg": {"grase_s": 5}}]),
        "did you mean 'grace_s'",
    ),
    "what all instances share": (
        lambda: TorchXRunOperator.partial(task_id="t", app=APP, lease_s="soon").expand(session=_results()),
        "lease_s must be a number",
    ),
    "a function's value": (
        lambda: _function.expand(x=[1, Resource(1, 0, 1)]),
        "argument 'x' must be plain data",
    ),
    "a function's value beside a result": (
        lambda: _function.partial(y=Resource(1, 0, 1)).expand(x=_results()),
        "argument 'y' must be plain data",
    ),
    "a decorator's argument": (
        lambda: torchx_task(replicas="2")(_plain).expand(x=[1]),
        "replicas must be an integer",
    ),
    "an argument set later": (
        lambda: _function.override(nproc=0).expand(x=[1]),
        "nproc must be an integer",
    ),
    "a sensor's handle": (
        lambda: TorchXSensor.partial(task_id="t").expand(handle=["local_cwd://s/a", "a"]),
        "'a'",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_a_mapped_task_is_an_import_error(mistake: str) -> None:
    """As far as the DAG itself says what is mapped."""
    make, message = MISTAKES[mistake]
    with DAG("d", schedule=None), pytest.raises(TorchXError, match=message):
        make()


def test_what_other_tasks_return_is_not_judged_before() -> None:
    """However it comes in; and an empty list maps over nothing."""
    with DAG("d", schedule=None) as dag:
        TorchXRunOperator.partial(task_id="a").expand(app=_results())
        TorchXRunOperator.partial(task_id="b").expand_kwargs(_results())
        TorchXRunOperator.partial(task_id="c", app=APP).expand(lease_s=_results(), cfg=[{}, {"grace_s": 1}])
        TorchXRunOperator.partial(task_id="d").expand(app=[])
        _function.partial(y=1).expand(x=_results())
    assert {"a", "b", "c", "d", "_function"} <= set(dag.task_dict)


def test_values_of_every_plain_kind_are_mapped(dags: Dags) -> None:
    """Objects, lists of arguments, and maps, whose items are pairs."""
    outcome = dags.run("""
        TorchXRunOperator.partial(task_id="a").expand(app=[app("echo", "object", word) for word in "xy"])
        TorchXRunOperator.partial(task_id="b").expand_kwargs([{"app": app("echo", "{{ 'template' }}")}])

        @task.torchx
        def pair(x):
            print("pair", x)

        pair.expand(x={"one": 1})
    """)
    assert outcome.state == "success"
    for words in ("object x", "object y", "template", "pair ['one', 1]"):
        assert f"[r/0] {words}" in outcome.log or f"[pair/0] {words}" in outcome.log


def test_what_a_task_returned_is_no_template(dags: Dags) -> None:
    """Braces in data are data: an app that comes from another task is run as it is, mapped or not."""
    outcome = dags.run("""
        @task
        def make():
            return [app("echo", "{{ 1 + 1 }}").to_dict()]

        TorchXRunOperator.partial(task_id="t").expand(app=make())
    """)
    assert outcome.state == "success"
    assert "[r/0] {{ 1 + 1 }}" in outcome.log


def test_a_wrong_result_has_a_clear_message(dags: Dags) -> None:
    """What only the run knows fails the task with the words that the DAG's author would have got."""
    outcome = dags.run("""
        @task
        def make():
            return [{"name": "a", "roles": []}]

        TorchXRunOperator.partial(task_id="t").expand(app=make())
    """)
    assert outcome.state == "failed"
    assert "roles: an app needs at least one role" in outcome.log
