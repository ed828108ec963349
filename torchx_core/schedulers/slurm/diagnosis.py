"""Looks at what this host knows of a Slurm cluster."""

from __future__ import annotations

import os

from torchx_core.errors import SchedulerError
from torchx_core.schedulers.responses import Finding, Verdict
from torchx_core.schedulers.slurm.commands import CommandFailed, call

__all__ = ["diagnose"]


def diagnose(root: str) -> list[Finding]:
    """Return the findings."""
    try:
        version = call(["sinfo", "--version"]).strip()
    except CommandFailed:
        return [Finding(subject="slurm", verdict=Verdict.ABSENT, text="no Slurm commands on this host")]
    except SchedulerError as err:
        return [Finding(subject="slurm", verdict=Verdict.WARNING, text=str(err))]
    return [
        Finding(subject="slurm", verdict=Verdict.OK, text=version),
        _nodes(),
        _accounting(),
        _state_dir(root),
    ]


def _nodes() -> Finding:
    try:
        rows = call(["sinfo", "--noheader", "--format=%P %D %T"]).splitlines()
    except SchedulerError as err:
        advice = "is the controller up, and SLURM_CONF right?"
        return Finding(subject="controller", verdict=Verdict.PROBLEM, text=str(err), advice=advice)
    return Finding(subject="partitions", verdict=Verdict.OK, text="; ".join(rows) or "none")


def _accounting() -> Finding:
    try:
        call(["sacct", "--noheader", "--allocations"])
    except CommandFailed:
        text = "none; how a job ended that Slurm has forgotten only the app's own files can say"
        return Finding(subject="accounting", verdict=Verdict.ABSENT, text=text)
    except SchedulerError as err:
        return Finding(subject="accounting", verdict=Verdict.WARNING, text=str(err))
    return Finding(subject="accounting", verdict=Verdict.OK, text="answers")


def _state_dir(root: str) -> Finding:
    text = f"records in {root}"
    if os.access(os.path.dirname(root) if not os.path.exists(root) else root, os.W_OK):
        return Finding(
            subject="state directory",
            verdict=Verdict.OK,
            text=text,
            advice="it must be on a file system that the nodes share",
        )
    advice = "set TORCHX_STATE_DIR to a directory that you may write to and that the nodes share"
    return Finding(
        subject="state directory", verdict=Verdict.PROBLEM, text=f"cannot write {root}", advice=advice
    )
