"""What `torchx-core doctor` finds of a cluster, by stand-ins for Slurm's commands."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from torchx_core.schedulers import Verdict
from torchx_core.schedulers.slurm.diagnosis import diagnose

DISABLED = "echo 'Slurm accounting storage is disabled' >&2; exit 1"
AWAY = "echo 'sacct: error: Problem talking to the database: Connection refused' >&2; exit 1"


def _commands(folder: Path, monkeypatch: pytest.MonkeyPatch, **programs: str) -> None:
    for name, script in programs.items():
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


@pytest.mark.parametrize(
    ("script", "verdict"), [("true", Verdict.OK), (DISABLED, Verdict.ABSENT), (AWAY, Verdict.WARNING)]
)
def test_accounting_is_looked_for(
    script: str, verdict: Verdict, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It need not be there; when it is, it should answer."""
    _commands(tmp_path, monkeypatch, sinfo="echo main 4 idle", sacct=script)
    found = {finding.subject: finding.verdict for finding in diagnose(str(tmp_path))}
    assert found == {
        "slurm": Verdict.OK,
        "partitions": Verdict.OK,
        "accounting": verdict,
        "state directory": Verdict.OK,
    }


def test_a_host_without_slurm_is_no_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody has to have a cluster."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert [finding.verdict for finding in diagnose(str(tmp_path))] == [Verdict.ABSENT]


def test_a_controller_that_is_away_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own words are shown."""
    away = "echo 'Unable to contact slurm controller' >&2; exit 1"
    _commands(
        tmp_path, monkeypatch, sinfo=f'test "$1" = --version && echo slurm || {{ {away}; }}', sacct="true"
    )
    controller = diagnose(str(tmp_path))[1]
    assert (controller.subject, controller.verdict) == ("controller", Verdict.PROBLEM)
    assert "Unable to contact slurm controller" in controller.text
