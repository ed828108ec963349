"""The example that `make demo ENGINE=prefect` runs."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from docker_engine import why_no_engine
from slurm_cluster import why_no_cluster

from torchx_core import AppState, get_runner
from torchx_core.schedulers import ListAppResponse
from torchx_core.testing import wait_until

DAGS = Path(__file__).parents[2] / "dags"
DEMO = Path(__file__).parents[2] / "demo"
EPOCHS = 20
pytestmark = pytest.mark.engine


def _demo(folder: Path, **env: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(DEMO / "demo.py"), str(folder)],
        # The user's own server has nothing to do with it.
        env={**os.environ, "ENGINE": "prefect", "PREFECT_API_URL": "http://127.0.0.1:1/api", **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,  # a process group of its own, as a shell gives it
    )


def _epochs(text: str, replica: int) -> list[int]:
    return [int(epoch) for epoch in re.findall(rf"\[train/{replica}\] epoch (\d+)/{EPOCHS} loss", text)]


def _apps(folder: Path) -> list[ListAppResponse]:
    with get_runner(state_dir=str(folder / "state")) as runner:
        return runner.list("local_cwd")


def test_loading_the_flow_needs_no_training_libraries() -> None:
    """Prefect's workers load flows on hosts that have neither PyTorch nor scikit-learn."""
    code = "import sys, runpy; runpy.run_path(sys.argv[1]); print({'torch', 'sklearn'} & set(sys.modules))"
    loaded = subprocess.run(
        [sys.executable, "-c", code, str(DAGS / "train_digits_flow.py")],
        env={**os.environ, "PYTHONPATH": str(DAGS)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert loaded.stdout == "set()\n"


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.timeout(900)
def test_the_demo_trains_a_model(tmp_path: Path) -> None:
    """A real flow run on a server of its own, whose last lines are those of the Airflow demo."""
    demo = _demo(tmp_path)
    text, _ = demo.communicate()
    assert demo.returncode == 0, text

    for replica in range(2):
        assert _epochs(text, replica) == list(range(1, EPOCHS + 1))
    assert f"[train/0] progress 100%: epoch {EPOCHS} of {EPOCHS}" in text
    summary = text[text.rindex("accuracy  ") :].splitlines()
    words = [line.split() for line in summary]
    assert float(words[0][1].rstrip("%")) >= 90
    assert summary[1].endswith(f"in {EPOCHS} epochs")
    assert [row[0] for row in words[-2:]] == ["model", "logs"]
    assert Path(words[-2][1]).is_file()
    assert list(Path(words[-1][1]).rglob("combined.log"))
    assert [app.state for app in _apps(tmp_path)] == [AppState.SUCCEEDED] * 3


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.timeout(900)
def test_ctrl_c_leaves_nothing_running(tmp_path: Path) -> None:
    """The app and Prefect's server end: the terminal sends the signal to every process of the demo."""
    demo = _demo(tmp_path)
    wait_until(lambda: any(app.state is AppState.RUNNING for app in _apps(tmp_path)), timeout_s=300)
    os.killpg(demo.pid, signal.SIGINT)
    text, _ = demo.communicate()
    assert demo.returncode != 0
    assert "the demo failed; logs are in" in text
    with get_runner(state_dir=str(tmp_path / "state")) as runner:
        [status] = [runner.wait(app.app_handle, timeout_s=240) for app in _apps(tmp_path)]
    assert status
    assert (status.state, status.msg) == (
        AppState.CANCELLED,
        "cancelled because the Prefect run was interrupted",
    )


@pytest.mark.deployment
@pytest.mark.torch
@pytest.mark.timeout(900)
@pytest.mark.skipif(why_no_engine() is not None, reason=str(why_no_engine()))
def test_the_demo_trains_a_model_in_containers(tmp_path: Path) -> None:
    """The flow runs on a Docker engine: the replicas meet over the app's network, the model is left here."""
    demo = _demo(tmp_path, SCHEDULER="local_docker", DOCKER_HOST="/no/engine.sock")
    text, _ = demo.communicate()
    assert demo.returncode == 0, text
    for replica in range(2):
        assert _epochs(text, replica) == list(range(1, EPOCHS + 1))
    assert re.findall(r"^accuracy  9\d", text, re.MULTILINE)
    assert len(list(tmp_path.glob("*/model.pt"))) == 1


@pytest.mark.deployment
@pytest.mark.torch
@pytest.mark.timeout(900)
@pytest.mark.skipif(why_no_cluster() != "", reason=why_no_cluster())
def test_the_demo_trains_a_model_on_a_cluster(tmp_path: Path) -> None:
    """The flow runs on a Slurm cluster that is there for it alone: the replicas meet from two nodes."""
    demo = _demo(tmp_path, SCHEDULER="slurm", SLURM_CONF="/no/slurm.conf")
    text, _ = demo.communicate()
    assert demo.returncode == 0, text
    for replica in range(2):
        assert _epochs(text, replica) == list(range(1, EPOCHS + 1))
    assert re.findall(r"^accuracy  9\d", text, re.MULTILINE)
    assert len(list(tmp_path.glob("*/model.pt"))) == 1
