"""The DAGs that show what can be done."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest
from airflow_dags import Dags
from gallery_places import GALLERY_PLACES, gallery_place
from sink_clients import PYTHON, require_clients

from airflow_torchx.operators import torchx

pytestmark = [
    pytest.mark.engine,
    pytest.mark.filterwarnings("ignore"),  # Airflow's own are not ours to mend
]

DAGS = Path(__file__).parents[2] / "dags"


@pytest.fixture(scope="module", params=GALLERY_PLACES)
def place(request: pytest.FixtureRequest) -> Iterator[Mapping[str, str]]:
    """Where the apps run, as the DAGs find it in their environment."""
    with gallery_place(request.param) as place:
        yield place


@pytest.fixture
def scheduler(place: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> str:
    """Which scheduler the DAGs find in their environment."""
    for name, value in place.items():
        monkeypatch.setenv(name, value)
    return place["SCHEDULER"]


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.timeout(900)
def test_the_training_pipeline_defers(dags: Dags, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every step that takes long is followed without a worker, and the lines of both replicas come once."""
    monkeypatch.syspath_prepend(DAGS)
    monkeypatch.setattr(torchx, "DEFER_AFTER_S", 0.0)
    outcome = dags.run_file("train_digits", (DAGS / "train_digits.py").read_text(), folder=str(tmp_path))
    assert outcome.state == "success"
    assert "deferred" in outcome.log.lower()
    for replica in range(2):
        assert outcome.log.count(f"[train/{replica}] epoch 20/20") == 1
    assert len(list(tmp_path.glob("*/report.json"))) == 1


@pytest.mark.slow
def test_the_sweep_finds_the_best_setting(dags: Dags, scheduler: str) -> None:
    """Every setting has an app of its own, and the last task has all their results."""
    outcome = dags.run_file("sweep", (DAGS / "sweep.py").read_text())
    assert outcome.state == "success"
    assert outcome.log.count(f"submitted {scheduler}://") == 4
    assert "best learning rate: 0.1 with loss 0.754" in outcome.log


@pytest.mark.usefixtures("scheduler")
def test_two_roles_are_one_app(dags: Dags, tmp_path: Path) -> None:
    """They meet each other, and the log tells their lines apart."""
    outcome = dags.run_file("two_roles", (DAGS / "two_roles.py").read_text(), folder=str(tmp_path))
    assert outcome.state == "success"
    assert "[server/0] INFO serving 2 workers" in outcome.log
    assert [outcome.log.count(f"[worker/{i}] INFO got 42") for i in range(2)] == [1, 1]


@pytest.mark.slow
@pytest.mark.usefixtures("scheduler")
def test_a_nightly_model_is_published_if_it_is_better(
    dags: Dags, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each day's training resumes after its injected failure; a worse model ends its run unpublished."""
    monkeypatch.setenv("NIGHTLY_RETRAIN_HOME", str(tmp_path / "models"))
    (tmp_path / "models").mkdir()
    text = (DAGS / "nightly_retrain.py").read_text()
    published, losses = list[str](), list[float]()
    for day in range(1, 5):
        outcome = dags.run_file("nightly_retrain", text, logical_date=datetime(2026, 11, day, tzinfo=UTC))
        assert outcome.state == "success"
        assert outcome.log.count("INFO epoch 10: loss") == outcome.log.count("INFO epoch 11: loss") == 1
        assert outcome.log.count("INFO resumes at epoch 10") == 1
        trained = cast("dict[str, Any]", outcome.xcoms["train", "return_value"])
        assert trained["model"] == str(tmp_path / "models" / f"2026-11-0{day}" / "model.json")
        if f"published {trained['model']}" in outcome.log:
            assert outcome.asset_events
            published.append(trained["model"])
        else:
            assert trained["loss"] > min(losses)
        losses.append(trained["loss"])
    assert 1 <= len(published) < 4  # the days' noise is always the same: one of them is no better
    outcome = dags.run_file("batch_inference", text)
    assert outcome.state == "success"
    assert "scored 30 rows, sum 130" in outcome.log


@pytest.mark.slow
def test_a_good_model_is_registered_by_another_python(
    dags: Dags, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MLflow's real registry has it, in an environment of its own; a poor model is not there."""
    require_clients()
    monkeypatch.setenv("MLFLOW_PYTHON", str(PYTHON))
    monkeypatch.chdir(tmp_path)
    text = (DAGS / "model_registry.py").read_text()
    good = dags.run_file("model_registry", text, folder=str(tmp_path))
    assert good.state == "success"
    assert good.xcoms["register", "return_value"] == {"version": 1}
    assert "INFO digits version 1 is the champion" in good.log
    poor = dags.run_file("model_registry", text, folder=str(tmp_path), accuracy=0.5)
    assert poor.state == "failed"
    assert "ERROR accuracy 0.500 is below 0.900" in poor.log
    assert poor.log.count("submitted local_cwd://") == 2  # to train, and to register once
    with sqlite3.connect(tmp_path / "mlflow.db") as database:
        versions = database.execute("select name, version, source from model_versions").fetchall()
    database.close()
    assert [(name, version) for name, version, _ in versions] == [("digits", 1)]
    assert Path(versions[0][2]).read_text() == '{"weights": [0.5, 0.25]}'
