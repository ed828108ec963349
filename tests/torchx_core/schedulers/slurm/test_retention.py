"""A submit forgets old apps that have ended; programs stand in for Slurm's."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from slurm_programs import listing

from torchx_core.runner import Runner
from torchx_core.schedulers.slurm import create_scheduler
from torchx_core.specs import AppDef, AppState, Role

APP = AppDef("app", [Role("w", "", entrypoint="true")])


def _age(path: Path) -> None:
    then = time.time() - 31 * 86400
    os.utime(path, (then, then))


def test_a_submit_forgets_what_is_old(program: Callable[[str, str], None], tmp_path: Path) -> None:
    """What ended 31 days ago goes; a job that waits, and what a retry attaches to, stay."""
    session = tmp_path / "state" / "slurm" / "s"
    with Runner("s", {"slurm": partial(create_scheduler, state_dir=str(tmp_path / "state"))}) as runner:
        handle = runner.run(APP, "slurm", app_id="old")
        comment = json.loads((session / "old" / "spec.json").read_text())["comment"]
        job = {"job_id": 7, "job_state": "FAILED", "comment": comment, "name": "app"}
        program("squeue", listing(job))
        status = runner.wait(handle, timeout_s=240)
        assert status is not None
        assert status.state is AppState.FAILED
        program("sbatch", "echo 8")
        program("squeue", listing())
        _age(session / "old")
        _age(session / ".retention.json")
        runner.run(APP, "slurm", app_id="old")
        assert (session / "old").exists()
        runner.run(APP, "slurm", app_id="waits")
        assert not (session / "old").exists()
        _age(session / "waits")
        _age(session / ".retention.json")
        runner.run(APP, "slurm", app_id="new")
        assert sorted(path.name for path in session.iterdir() if path.name[0] != ".") == ["new", "waits"]
