from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from airflow_dags import Dags, serialized

from airflow_torchx.decorators import torchx_task
from torchx_core.errors import (
    FunctionArgumentError,
    InvalidFunctionError,
    InvalidInputError,
    InvalidRunConfigException,
)
from torchx_core.runner import get_runner

pytestmark = [
    pytest.mark.engine,
    pytest.mark.filterwarnings("ignore"),  # Airflow's own are not ours to mend
]


def test_a_function_runs_in_every_replica(dags: Dags) -> None:
    """Its lines are in the log with their replicas, and rank 0's value is the task's result."""
    outcome = dags.run("""
        @task.torchx(replicas=2)
        def train(lr, epochs=3):
            import os

            print("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"])
            return {"lr": lr, "epochs": epochs, "rank": os.environ["RANK"]}

        train(0.5, epochs=1)
    """)
    assert outcome.state == "success"
    assert [outcome.log.count(f"[train/{i}] rank {i} of 2") for i in range(2)] == [1, 1]
    assert outcome.xcoms["train", "return_value"] == {"lr": 0.5, "epochs": 1, "rank": "0"}
    assert str(outcome.xcoms["train", "handle"]).startswith("local_cwd://torchx/d-train-")


def test_arguments_come_from_templates_and_other_tasks(dags: Dags) -> None:
    """Both are there when the function runs; so are they in environment, options and session."""
    outcome = dags.run(
        """
        @task
        def rows():
            return [1, 2, 3]

        @task.torchx(env={"W": "{{ params.word }}"}, cfg="grace_s={{ 1 + 1 }}", session="{{ params.word }}")
        def total(word, numbers, pair):
            import os

            return [word, os.environ["W"], sum(numbers), pair]

        total("{{ params.word | upper }}", numbers=rows(), pair={"both": [rows(), "$HOME ${app_id}"]})
        """,
        word="hi",
    )
    assert outcome.state == "success"
    assert outcome.xcoms["total", "return_value"] == [
        "HI", "hi", 6, {"both": [[1, 2, 3], "$HOME ${app_id}"]}
    ]  # fmt: skip
    assert str(outcome.xcoms["total", "handle"]).startswith("local_cwd://hi/")


def test_a_function_is_mapped_and_its_results_are_gathered(dags: Dags) -> None:
    """Each value has an app of its own; a second function takes the results as a list."""
    outcome = dags.run("""
        @task
        def rates():
            return [1, 2, 3]

        @task
        def ten():
            return 10

        @task.torchx
        def train(lr, base):
            return lr * base

        @task.torchx
        def best(losses):
            return max(losses)

        best(train.partial(base=ten()).expand(lr=rates()))
    """)
    assert outcome.state == "success"
    assert outcome.xcoms["best", "return_value"] == 30
    with get_runner() as runner:
        assert len(runner.list("local_cwd")) == 4


def test_each_key_of_the_result_can_be_an_xcom(dags: Dags) -> None:
    """By argument, or because the function says that it returns a dict."""
    outcome = dags.run("""
        @task.torchx(multiple_outputs=True)
        def one():
            return {"loss": 0.5}

        @task.torchx
        def two() -> dict[str, float]:
            return {"loss": 0.25}

        one()
        two()
    """)
    assert (outcome.xcoms["one", "loss"], outcome.xcoms["two", "loss"]) == (0.5, 0.25)


def test_a_deferred_function_hands_its_result_back(dags: Dags, monkeypatch: pytest.MonkeyPatch) -> None:
    """The trigger follows it, and nothing of the function has to cross."""
    monkeypatch.setattr("airflow_torchx.operators.torchx.DEFER_AFTER_S", 0.0)
    outcome = dags.run("""
        @task.torchx(deferrable=True)
        def slow():
            import time

            time.sleep(4)
            return "done"

        slow()
    """)
    assert outcome.state == "success"
    assert "Pausing task as DEFERRED" in outcome.log
    assert outcome.xcoms["slow", "return_value"] == "done"


def test_a_failure_shows_where_in_the_function(dags: Dags) -> None:
    """The message leads with the replica and the error; the traceback has the lines of the DAG's file."""
    outcome = dags.run("""
        @task.torchx
        def train():
            raise ValueError("no data")

        train()
    """)
    assert outcome.state == "failed"
    message = outcome.log.partition("AirflowException: ")[2]
    assert message.startswith("replica train/0 failed with exit code 1")
    assert "  error: ValueError: no data\n         Traceback (most recent call last):\n" in message
    assert '           File "d.py", line 16, in train\n             raise ValueError("no data")\n' in message


def test_retries_of_app_and_task(dags: Dags, tmp_path: Path) -> None:
    """The scheduler starts the app again before the task fails, and then the task is retried."""
    outcome = dags.run(
        """
        @task.torchx(max_retries=1, retries=1, retry_delay=timedelta(0))
        def third_time(folder):
            import os

            os.makedirs(folder, exist_ok=True)
            starts = len(os.listdir(folder)) + 1
            open(f"{folder}/{starts}", "w").close()
            if starts < 3:
                raise OSError(f"start {starts}")
            return starts

        third_time("{{ params.folder }}")
        """,
        folder=str(tmp_path / "starts"),
    )
    assert outcome.state == "success"
    assert outcome.xcoms["third_time", "return_value"] == 3
    with get_runner() as runner:
        assert len(runner.list("local_cwd")) == 2


def test_secrets_are_hidden(dags: Dags) -> None:
    """Values of variables whose names look like secrets' show neither in the page nor in the log.

    Where a task runs by itself its supervisor masks what it logs; here that is done by hand. Arguments are
    hidden in the page, as Airflow does for any function.
    """
    from airflow.sdk.log import mask_logs

    outcome = dags.run("""
        @task.torchx(env={"API_TOKEN": "hunter22", "MODE": "fast mode"})
        def show(password):
            return len(password)

        show(password="hunter33")
    """)
    assert outcome.state == "success"
    assert mask_logs(None, "info", {"event": "it is hunter22"}) == {"event": "it is ***"}
    assert "fast mode" in str(outcome.rendered["show"])
    assert not any(secret in str(outcome.rendered) for secret in ("hunter22", "hunter33"))


def test_an_argument_that_cannot_travel_fails_for_good(dags: Dags) -> None:
    """A later task's mistake is not retried, and nothing is submitted."""
    outcome = dags.run("""
        @task
        def far():
            return timedelta(1)

        @task.torchx(retries=5, retry_delay=timedelta(0))
        def train(when):
            return when

        train(far())
    """)
    assert outcome.state == "failed"
    assert (
        "AirflowFailException: cannot call function 'train': argument 'when' must be plain data"
        in outcome.log
    )
    with get_runner() as runner:
        assert list(runner.list("local_cwd")) == []


OUTSIDE = 3


def uses_a_global() -> int:
    """Need what is outside."""
    return OUTSIDE


def generates() -> object:
    """Yield."""
    yield 1


def adds(a: int, b: int = 0) -> int:
    """Add."""
    return a + b


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (uses_a_global, r"test_torchx.py:\d+: it uses 'OUTSIDE', which is defined outside it; pass it as an"),
        (generates, "it is a generator; return a list"),
    ],
)
def test_a_function_that_cannot_travel_is_an_import_error(
    function: Callable[..., object], message: str
) -> None:
    """Before it is called, so that a mapped one is refused as well."""
    with pytest.raises(InvalidFunctionError, match=message):
        torchx_task(replicas=2)(function)


@pytest.mark.parametrize(
    ("decoration", "arguments", "error", "message"),
    [
        ({}, {"a": {1, 2}}, FunctionArgumentError, r"argument 'a' must be plain data.* \(set\)"),
        ({}, {"a": [object()]}, FunctionArgumentError, r"argument 'a'\[0\] must be plain data"),
        ({}, {"a": "x" * 300_000}, FunctionArgumentError, "argument 'a' takes 300002 bytes"),
        ({}, {"c": 1}, TypeError, "missing a required argument: 'a'"),
        ({"replicas": 0}, {"a": 1}, InvalidInputError, "replicas must be an integer of at least 1: 0"),
        ({"cfg": "grace=5"}, {"a": 1}, InvalidRunConfigException, "grace"),
        ({"app": {"name": "b"}}, {"a": 1}, InvalidInputError, "leave out app and component"),
        ({"replica": 2}, {"a": 1}, TypeError, "replica"),
    ],
)
def test_a_mistake_is_an_import_error_of_the_dag(
    decoration: dict[str, object], arguments: dict[str, object], error: type[Exception], message: str
) -> None:
    """What can be known when the DAG is parsed is said then."""
    with pytest.raises(error, match=message):
        torchx_task(**decoration)(adds)(**arguments)  # type: ignore[arg-type]  # the keys vary


def test_the_dag_serializes_the_same_each_time() -> None:
    """A DAG that changes with every parse would fill Airflow's table of versions."""
    from airflow.sdk import DAG

    def parsed() -> object:
        with DAG("d", schedule=None) as dag:
            torchx_task(adds)(1)
            torchx_task(replicas=2)(adds).expand(a=[1, 2])
        return serialized(dag)

    assert parsed() == parsed()
