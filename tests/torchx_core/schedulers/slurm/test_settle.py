"""Whose job it is that Slurm lists: programs of Slurm's names stand in for it."""

from __future__ import annotations

import json
import os
from functools import partial
from pathlib import Path

import pytest

from torchx_core.runner import Runner
from torchx_core.schedulers.slurm import create_scheduler, decide
from torchx_core.specs import AppDef, AppState, Role

APP = AppDef("app", [Role("w", "", entrypoint="true")])


@pytest.mark.parametrize(
    ("name", "comment", "expected"),
    [
        ("one", "somebody's own words", AppState.PENDING),
        ("two", "somebody's own words", AppState.FAILED),
        ("one", "torchx:another-session/one:123", AppState.FAILED),
    ],
    ids=["comment changed", "another's job", "another session's app"],
)
def test_a_job_of_the_apps_number_may_be_another_one(
    name: str, comment: str, expected: AppState, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the controller lost its state numbers come again; name and comment tell whose job it is."""
    monkeypatch.setattr(decide, "UNSEEN_S", 0.0)
    monkeypatch.setenv("SLURM_CONF", str(tmp_path))  # a queue of its own
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    row = {"job_id": 7, "job_state": "PENDING", "name": name, "comment": comment}
    answer = json.dumps({"jobs": [row]})
    for program, script in (
        ("sbatch", "echo 7"),
        ("squeue", f"cat <<'END'\n{answer}\nEND"),
        ("sacct", "echo 'Slurm accounting storage is disabled' >&2; exit 1"),
    ):
        (tmp_path / program).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / program).chmod(0o755)
    with Runner("s", {"slurm": partial(create_scheduler, state_dir=str(tmp_path / "state"))}) as runner:
        status = runner.status(runner.run(APP, "slurm", app_id="one"))
    assert status is not None
    assert status.state is expected
