"""The shared file system is full: submitters and followers go on as far as that is possible."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from torchx_core.runner import Runner
from torchx_core.schedulers import CancelOutcome
from torchx_core.schedulers.slurm import create_scheduler
from torchx_core.specs import AppDef, AppState, Role

APP = AppDef("app", [Role("w", "", entrypoint="sleep", args=["600"])])

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounts a file system")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small file system."""
    point = tmp_path / "disk"
    point.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(point)], check=True)
    yield point
    subprocess.run(["umount", "--lazy", str(point)], check=True)


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand-ins for Slurm's commands: job 7 is in the state that is written down here; words are noted."""
    state = tmp_path / "state"
    state.write_text("RUNNING")
    row = {"job_id": 7, "job_state": "STATE", "name": "one"}
    programs = {
        "sbatch": "echo 7",
        "squeue": f"""sed "s/STATE/$(cat {state})/" <<'END'\n{json.dumps({"jobs": [row]})}\nEND""",
        "scancel": f'echo "$*" >>{tmp_path}/cancelled; echo CANCELLED >{state}',
    }
    for name, script in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("SLURM_CONF", str(tmp_path))  # a queue of its own
    return tmp_path


def _fill(disk: Path) -> None:
    with suppress(OSError), (disk / "filler").open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 512)


def test_an_app_on_a_full_disk_can_be_cancelled(disk: Path, slurm: Path) -> None:
    """Slurm ends its job, since the request cannot be written; how it ended is told, if not written."""
    with Runner("s", {"slurm": partial(create_scheduler, state_dir=str(disk))}) as runner:
        handle = runner.run(APP, "slurm", app_id="one")
        _fill(disk)
        assert runner.cancel(handle) is CancelOutcome.REQUESTED
        assert (slurm / "cancelled").read_text() == "7\n"
        status = runner.wait(handle)
        assert status is not None
        assert (status.state, status.msg) == (AppState.CANCELLED, "job 7 was cancelled in Slurm")
        assert not list(disk.rglob("final.json"))
        (disk / "filler").unlink()
        status = runner.status(handle)
        assert status is not None
        assert status.state is AppState.CANCELLED
        assert list(disk.rglob("final.json"))


def test_a_lease_is_renewed_on_a_full_disk(disk: Path, slurm: Path) -> None:
    """Whoever follows shows it in a file that has its room."""
    del slurm
    with Runner("s", {"slurm": partial(create_scheduler, state_dir=str(disk))}) as runner:
        handle = runner.run(APP, "slurm", {"lease_s": 600}, app_id="one")
        (lease,) = disk.rglob("lease")
        before = lease.read_bytes()
        _fill(disk)
        next(runner.follow(handle, tick_s=0.1))
        assert len(lease.read_bytes()) == len(before)
        assert lease.read_bytes() != before
