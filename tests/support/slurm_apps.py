"""Apps for a cluster of the tests' own: shell scripts, and how to see what became of them."""

from __future__ import annotations

from collections.abc import Iterable

from torchx_core.runner import Runner
from torchx_core.schedulers import Batch
from torchx_core.specs import AppDef, AppStatus, Resource, Role

__all__ = ["TO_THE_END", "job_of", "lines_of", "reaches", "shell_app", "shell_role", "status_of"]

TO_THE_END = (
    "exec 2>/dev/null; trap 'trap \"\" TERM; echo told; exit 0' TERM; echo up; while :; do sleep 0.1; done"
)
"""Runs until it is told to end, and then takes it for success, as after a last checkpoint.

Some of Slurm's ends come with two SIGTERMs.
"""


def shell_role(script: str, *, name: str = "w", replicas: int = 1, cpu: int = 1, gpu: int = 0) -> Role:
    """Return a role that runs the script in each replica."""
    resource = Resource(cpu=cpu, gpu=gpu, memMB=100)
    return Role(name, "", entrypoint="sh", args=["-c", script], num_replicas=replicas, resource=resource)


def shell_app(script: str, *, replicas: int = 1, cpu: int = 1, gpu: int = 0) -> AppDef:
    """Return an app of one role that runs the script in each replica."""
    return AppDef("app", [shell_role(script, replicas=replicas, cpu=cpu, gpu=gpu)])


def status_of(runner: Runner, handle: str) -> AppStatus:
    """Return the status of an app that is there."""
    status = runner.status(handle)
    assert status is not None
    return status


def job_of(runner: Runner, handle: str) -> str:
    """Return the id of the app's job."""
    native = runner.describe_native(handle)
    assert isinstance(native, dict)
    return str(native["job_id"])


def reaches(runner: Runner, handle: str, replicas: int = 1, *, attempt: int = 0) -> None:
    """Follow the app until so many replicas have said ``up`` in that attempt."""
    up: set[tuple[str, int]] = set()
    for batch in runner.follow(handle):
        up |= {
            (line.role, line.replica)
            for line in batch.lines()
            if (line.text, line.attempt) == ("up", attempt)
        }
        if len(up) == replicas:
            return
    raise AssertionError(f"{handle} ended: {status_of(runner, handle).msg}")


def lines_of(batches: Iterable[Batch]) -> list[tuple[int, int, str]]:
    """Return replica, attempt and text of each line."""
    return [(line.replica, line.attempt, line.text) for batch in batches for line in batch.lines()]
