"""The example that `make demo` runs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from docker_engine import why_no_engine
from slurm_cluster import running_cluster, why_no_cluster

DAGS = Path(__file__).parents[2] / "dags"
DEMO = Path(__file__).parents[2] / "demo"
EPOCHS = 20


def _run(*command: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command],
        env={**os.environ, **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


@pytest.mark.engine
def test_parsing_the_dag_needs_no_training_libraries() -> None:
    """Airflow parses DAGs again and again, on hosts that have neither PyTorch nor scikit-learn."""
    code = "import sys, runpy; runpy.run_path(sys.argv[1]); print({'torch', 'sklearn'} & set(sys.modules))"
    parsed = _run("-W", "ignore", "-c", code, str(DAGS / "train_digits.py"), PYTHONPATH=str(DAGS))
    assert parsed.stdout.splitlines()[-1:] == ["set()"]


@pytest.mark.parametrize(
    ("values", "rows", "chart"),
    [([2.0, 1.0, 0.5], 2, ["█", "██▄"]), ([1.0], 1, ["█"]), ([8.0, 1.0], 1, ["█▁"])],
)
def test_the_curve_shows_its_values(values: list[float], rows: int, chart: list[str]) -> None:
    """The highest value is as high as the chart, and the others are in proportion."""
    code = "import demo, json, sys; print(json.dumps(demo.plot(*json.loads(sys.argv[1]))))"
    shown = _run("-c", code, json.dumps([values, rows]), PYTHONPATH=str(DEMO))
    assert json.loads(shown.stdout) == chart


def test_an_engine_that_is_not_there_is_named() -> None:
    """With the ones that are."""
    shown = _run(str(DEMO / "demo.py"), ENGINE="prefct")
    assert (shown.returncode, shown.stdout) == (2, "unknown engine 'prefct'; known: airflow, prefect\n")


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.engine
@pytest.mark.timeout(900)
def test_the_demo_trains_a_model(tmp_path: Path) -> None:
    """A real DAG run: both replicas' lines are in the task's log, and the last lines say what came of it."""
    demo = _run(str(DEMO / "demo.py"), str(tmp_path))
    assert demo.returncode == 0, demo.stdout

    for replica in range(2):
        epochs = re.findall(rf"\[train/{replica}\] epoch (\d+)/{EPOCHS} loss [\d.]+", demo.stdout)
        assert list(map(int, epochs)) == list(range(1, EPOCHS + 1))
    assert f"[train/0] progress 100%: epoch {EPOCHS} of {EPOCHS}" in demo.stdout
    assert "[train/0] metric loss = " in demo.stdout

    summary = demo.stdout[demo.stdout.rindex("accuracy  ") :].splitlines()
    words = [line.split() for line in summary]
    assert float(words[0][1].rstrip("%")) >= 90
    assert summary[1].endswith(f"in {EPOCHS} epochs")
    assert [row[0] for row in words[-2:]] == ["model", "logs"]
    assert Path(words[-2][1]).is_file()
    assert list(Path(words[-1][1]).rglob("combined.log"))


def test_a_scheduler_that_is_not_there_is_named() -> None:
    """With the ones that are."""
    shown = _run(str(DEMO / "demo.py"), SCHEDULER="local_dokcer")
    assert (shown.returncode, shown.stdout) == (
        2,
        "unknown scheduler 'local_dokcer'; known: local_cwd, local_docker, slurm\n",
    )


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.engine
@pytest.mark.timeout(900)
@pytest.mark.skipif(why_no_engine() is not None, reason=str(why_no_engine()))
def test_the_demo_trains_a_model_in_containers(tmp_path: Path) -> None:
    """The DAG runs on a Docker engine: the replicas meet over the app's network, the model is left here."""
    demo = _run(str(DEMO / "demo.py"), str(tmp_path), SCHEDULER="local_docker", DOCKER_HOST="/no/engine.sock")
    assert demo.returncode == 0, demo.stdout
    for replica in range(2):
        epochs = re.findall(rf"\[train/{replica}\] epoch (\d+)/{EPOCHS} loss [\d.]+", demo.stdout)
        assert list(map(int, epochs)) == list(range(1, EPOCHS + 1))
    assert re.findall(r"^accuracy  9\d", demo.stdout, re.MULTILINE)
    assert len(list(tmp_path.glob("*/model.pt"))) == 1


@pytest.mark.deployment
@pytest.mark.torch
@pytest.mark.engine
@pytest.mark.timeout(900)
@pytest.mark.skipif(why_no_cluster() != "", reason=why_no_cluster())
def test_the_demo_trains_a_model_on_a_cluster(tmp_path: Path) -> None:
    """The DAG runs on a Slurm cluster that is there for it alone: the replicas meet from two nodes."""
    demo = _run(str(DEMO / "demo.py"), str(tmp_path), SCHEDULER="slurm", SLURM_CONF="/no/slurm.conf")
    assert demo.returncode == 0, demo.stdout
    for replica in range(2):
        epochs = re.findall(rf"\[train/{replica}\] epoch (\d+)/{EPOCHS} loss [\d.]+", demo.stdout)
        assert list(map(int, epochs)) == list(range(1, EPOCHS + 1))
    assert re.findall(r"^accuracy  9\d", demo.stdout, re.MULTILINE)
    assert len(list(tmp_path.glob("*/model.pt"))) == 1
    starts = [json.loads(file.read_text()) for file in tmp_path.glob("*/logs/**/train/*/0/start.json")]
    assert {start["host"] for start in starts} == {"n1", "n2"}


@pytest.mark.slow
@pytest.mark.skipif(why_no_cluster() != "", reason=why_no_cluster())
def test_a_cluster_that_answers_is_used() -> None:
    """Nothing is started beside it."""
    code = "from demo_slurm import slurm_cluster\nwith slurm_cluster() as environment: print(environment)"
    with running_cluster(nodes=1) as cluster:
        shown = _run("-c", code, PYTHONPATH=str(DEMO), **cluster.environment)
    assert shown.stdout == "{}\n"


def test_a_cluster_that_is_not_there_is_told(tmp_path: Path) -> None:
    """In one line: what was asked, and why none is started."""
    shown = _run(str(DEMO / "demo.py"), str(tmp_path), SCHEDULER="slurm", PATH="")
    assert shown.returncode == 1
    assert re.fullmatch(
        r"no slurm to run the demo on: sinfo: not found.*; none can be started either: .*\n", shown.stdout
    )


@pytest.mark.slow
@pytest.mark.torch
def test_an_untrained_model_does_not_pass(tmp_path: Path) -> None:
    """The evaluation fails below the accuracy asked for, and says both figures."""
    digits = DAGS / "digits"
    assert _run(str(digits / "prepare.py"), "--out", str(tmp_path)).returncode == 0
    guess = (
        "import sys, torch; from torch import nn; torch.save(nn.Sequential(nn.Linear(64, 10)), sys.argv[1])"
    )
    model = str(tmp_path / "model.pt")
    assert _run("-c", guess, model).returncode == 0

    check = _run(str(digits / "evaluate.py"), "--data", str(tmp_path / "held_out.npz"), "--model", model)

    assert check.returncode == 1
    assert re.search(r"accuracy [\d.]+% is below the 90% asked for", check.stdout)
