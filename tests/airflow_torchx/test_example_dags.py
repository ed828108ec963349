"""The DAGs that show what can be done."""

from __future__ import annotations

from pathlib import Path

import pytest
from airflow_dags import Dags

from airflow_torchx.operators import torchx

pytestmark = [
    pytest.mark.engine,
    pytest.mark.filterwarnings("ignore"),  # Airflow's own are not ours to mend
]

DAGS = Path(__file__).parents[2] / "dags"


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
def test_the_sweep_finds_the_best_setting(dags: Dags) -> None:
    """Every setting has an app of its own, and the last task has all their results."""
    outcome = dags.run_file("sweep", (DAGS / "sweep.py").read_text())
    assert outcome.state == "success"
    assert outcome.log.count("submitted local_cwd://") == 4
    assert "best learning rate: 0.1 with loss 0.754" in outcome.log


def test_two_roles_are_one_app(dags: Dags, tmp_path: Path) -> None:
    """They meet each other, and the log tells their lines apart."""
    outcome = dags.run_file("two_roles", (DAGS / "two_roles.py").read_text(), folder=str(tmp_path))
    assert outcome.state == "success"
    assert "[server/0] INFO serving 2 workers" in outcome.log
    assert [outcome.log.count(f"[worker/{i}] INFO got 42") for i in range(2)] == [1, 1]
