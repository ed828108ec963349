"""TensorBoard, MLflow and Weights & Biases, written by an app with their own clients, and read back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest
from sink_clients import Place, app_that_reports, in_order, reported, require_clients

from torchx_core import AppState, Runner, get_runner
from torchx_core.schedulers import Link
from torchx_core.testing import wait_until

pytestmark = pytest.mark.slow

LONG_S = 600


@pytest.fixture(autouse=True)
def _clients(tmp_path: Path) -> Iterator[None]:
    """Skip without the clients, which write where they are."""
    require_clients()
    with chdir(tmp_path):
        yield


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[Runner]:
    """A runner of its own records."""
    with get_runner("s", state_dir=str(tmp_path / "state")) as made:
        yield made


@pytest.fixture
def witness(tmp_path: Path) -> Path:
    """Where the app writes down what it has reported."""
    return tmp_path / "witness"


@pytest.fixture
def mlflow(tmp_path: Path) -> Place:
    """A database of MLflow's."""
    return Place("mlflow", f"sqlite:///{tmp_path}/mlflow.db")


@pytest.fixture(
    params=["tensorboard", "mlflow", pytest.param("mlflow-files", marks=pytest.mark.deployment), "wandb"]
)
def place(request: pytest.FixtureRequest, tmp_path: Path, mlflow: Place) -> Place:
    """One of the sinks."""
    match request.param:
        case "mlflow":
            return mlflow
        case "mlflow-files":
            return Place("mlflow", f"file://{tmp_path}/mlruns")
        case kind:
            return Place(kind, str(tmp_path / kind))


def held(place: Place) -> list[Any]:
    """Return all values of a sink with one run, or none."""
    runs = place.read()
    assert len(runs) <= 1
    values: list[Any] = next(iter(runs.values()))["values"] if runs else []
    return in_order(values, single=place.kind == "tensorboard")


def expected(place: Place, witness: Path) -> list[Any]:
    """Return what the app has reported, as exactly as the sink can tell."""
    return in_order(reported(witness), single=place.kind == "tensorboard")


def test_every_value_is_there_and_the_next_attempt_goes_on(
    runner: Runner, place: Place, witness: Path
) -> None:
    """One run for both attempts, the first of them killed; each value once, with its step."""
    app = app_that_reports(witness, 1500, "wait", sinks=place.named)
    handle = runner.run(app, "local_cwd", app_id="a")
    wait_until(Path(f"{witness}.reported").exists, LONG_S)
    wait_until(lambda: held(place) == expected(place, witness), LONG_S)
    Path(f"{witness}.go").touch()
    status = runner.wait(handle)
    assert status is not None
    assert (status.state, status.num_restarts) == (AppState.SUCCEEDED, 1)
    assert held(place) == expected(place, witness)
    assert len(reported(witness)) == 2 * 1503 + 1


def test_a_killed_program_loses_the_end_alone(runner: Runner, place: Place, witness: Path) -> None:
    """What a sink holds of it is what was reported first, without a gap."""
    assert held(place) == []  # makes the database, of which MLflow leaves half if it is killed at that
    app = app_that_reports(witness, 1500, "wait", sinks=place.named)
    handle = runner.run(app, "local_cwd", app_id="a")
    wait_until(lambda: len(reported(witness)) > 0, LONG_S)
    Path(f"{witness}.go").touch()
    runner.wait(handle)
    steps = [step for name, _, step in held(place) if name == "loss"]
    first = sorted(step for step in steps if step < 1500)
    assert first == list(range(len(first)))
    assert sorted(step for step in steps if step >= 1500) == list(range(1500, 3000))


@pytest.mark.parametrize(
    ("end", "status"), [("return", "FINISHED"), ("raise", "FAILED"), ("child-raise", "FAILED")]
)
def test_an_mlflow_run_says_what_was_run_and_how_it_ended(
    runner: Runner, mlflow: Place, witness: Path, end: str, status: str
) -> None:
    """With the app's handle, role and replica, its command, its result, and whether it failed."""
    app = app_that_reports(witness, 5, end, sinks=mlflow.named, MLFLOW_EXPERIMENT_NAME="digits")
    handle = runner.run(app, "local_cwd", app_id="a")
    runner.wait(handle)
    run = mlflow.read()["a main/0"]
    assert (run["status"], run["experiment"]) == (status, "digits")
    tags = {name: value for name, value in run["tags"].items() if name.startswith("torchx.")}
    assert tags.pop("torchx.git_dirty", "false") in {"true", "false"}
    assert tags == {
        "torchx.handle": handle,
        "torchx.role": "main",
        "torchx.replica": "0",
        "torchx.attempt": "0",
    }
    assert f"{witness} 5 {end}" in run["params"]["command"]
    assert run["result"] == {"accuracy": 0.5, "best": {"step": 3}, "note": "a 'note'"}
    numbers = {name: value for name, value, _ in run["values"] if name.startswith("result/")}
    assert numbers == {"result/accuracy": 0.5, "result/best/step": 3.0}


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_of_a_replica_share_an_mlflow_run(
    runner: Runner, mlflow: Place, witness: Path, method: str
) -> None:
    """They look for it at once, and each ends it; all that each has reported is there."""
    runner.wait(runner.run(app_that_reports(witness, 20, method, sinks=mlflow.named), "local_cwd"))
    assert held(mlflow) == expected(mlflow, witness)
    assert len(reported(witness)) == 4 * 23 + 1


def test_what_a_thread_reports_last_arrives(runner: Runner, place: Place, witness: Path) -> None:
    """A program goes on as long as it has threads that are no daemons."""
    runner.wait(runner.run(app_that_reports(witness, 20, "thread", sinks=place.named), "local_cwd"))
    assert held(place) == expected(place, witness)
    assert len(reported(witness)) == 2 * 23 + 1


@pytest.mark.parametrize(("end", "exits"), [("return", [0]), ("raise", [1])])
def test_a_wandb_run_says_how_it_ended(
    runner: Runner, tmp_path: Path, witness: Path, end: str, exits: list[int]
) -> None:
    """Its group is the app, and its summary has the result."""
    place = Place("wandb", str(tmp_path / "wandb"))
    runner.wait(runner.run(app_that_reports(witness, 5, end, sinks=place.named), "local_cwd", app_id="a"))
    (run,) = place.read().values()
    assert (run["name"], run["group"], run["exits"]) == ("a main/0", "a", exits)
    assert run["summary"]["result"]["best"] == {"step": 3}


def test_each_sink_is_told_to_who_follows(runner: Runner, tmp_path: Path, witness: Path) -> None:
    """Where TensorBoard's and W&B's files are, and which run of MLflow's it is."""
    places = [
        Place("tensorboard", str(tmp_path / "tb")),
        Place("mlflow", f"sqlite:///{tmp_path}/mlflow.db"),
        Place("wandb", str(tmp_path / "wb")),
    ]
    named = ",".join(place.named for place in places)
    handle = runner.run(app_that_reports(witness, 5, sinks=named), "local_cwd", app_id="a")
    links = {
        event.name: event.target
        for batch in runner.follow(handle)
        for event in batch.events
        if isinstance(event, Link)
    }
    assert links["tensorboard"] == str(tmp_path / "tb" / "a" / "main-0")
    assert links["mlflow"] == f"run {places[1].read()['a main/0']['id']} in {places[1].target}"
    assert list(Path(links["wandb"]).glob("*.wandb"))
