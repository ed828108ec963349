"""The batch script."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from slurm_nodes import Nodes


@pytest.fixture
def lead(nodes: Nodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., bytes]:
    """A function that runs the batch script beside programs that stand in for Slurm's; returns its output."""
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    def run(*, srun: str = "", scontrol: str = "", **env: str) -> bytes:
        for name, script in (("srun", srun), ("scontrol", scontrol)):
            (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
            (tmp_path / name).chmod(0o755)
        command = [sys.executable, str(nodes.app_dir / "shim.pyz"), "lead", str(nodes.app_dir)]
        return subprocess.run(
            command, env={**os.environ, "SLURM_JOB_ID": "7", **env}, check=True, stdout=subprocess.PIPE
        ).stdout

    return run


def test_a_requeue_before_the_first_run_began_is_a_run_all_the_same(
    nodes: Nodes, lead: Callable[..., bytes]
) -> None:
    """A node may be lost before its batch script has done anything; who follows still sees the app begin."""
    nodes.prepare("true")
    (nodes.app_dir / "run.0.json").unlink()
    lead(SLURM_RESTART_COUNT="1")
    assert nodes.read("run.0.json") is not None
    assert nodes.read("run.1.json") is not None


@pytest.mark.parametrize(
    ("scontrol", "address"),
    [
        ("test $1 = show && echo gpu7 || echo NodeName=gpu7 NodeAddr=10.0.0.7 State=IDLE", "10.0.0.7"),
        ("test $1 = show && echo gpu7 || exit 1", "gpu7"),
        ("exit 1", "localhost"),
    ],
    ids=["known", "controller away", "no Slurm"],
)
def test_the_replicas_are_told_where_the_first_is(
    nodes: Nodes, lead: Callable[..., bytes], scontrol: str, address: str
) -> None:
    """By the address that Slurm has; a controller that is away costs the address, not the name."""
    nodes.prepare("true")
    told = lead(srun="echo $TORCHX_RANK0_HOST", scontrol=scontrol, SLURM_JOB_NODELIST="gpu[7-9]")
    assert told.decode() == f"{address}\n"


@pytest.mark.parametrize(("latest", "told"), [(0, ""), (1, "started\n")])
def test_a_job_that_runs_again_although_all_has_succeeded(
    nodes: Nodes, lead: Callable[..., bytes], latest: int, told: str
) -> None:
    """Does nothing, if its latest run has said so: what is left of an earlier one may say so too late."""
    nodes.prepare("true")
    nodes.begin(latest)
    (nodes.app_dir / "done.0").touch()
    assert lead(srun="echo started", SLURM_RESTART_COUNT=str(latest + 1)).decode() == told
    assert (nodes.read(f"run.{latest + 1}.json") is not None) == bool(told)
