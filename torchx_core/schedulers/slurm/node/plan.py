"""What the nodes are to run: the content of ``plan.json``, which the submitter writes once.

These types are for annotations alone: a node does not load them, as Python 3.7 has no `TypedDict`.
"""

from __future__ import annotations

from typing import NotRequired, TypedDict


class PlannedReplica(TypedDict):
    """One replica, with every macro filled in."""

    role: str
    replica: int
    argv: list[str]
    env: dict[str, str]
    cwd: str
    log_dir: str
    policy: str
    max_retries: int


class PlannedRole(TypedDict):
    """What srun has to know of a role, which is one component of the job."""

    replicas: int
    cpus: int
    gpus_each: int
    """For each replica; 0 where a node runs one alone, which sees all that the job has there."""


class Plan(TypedDict):
    """The whole app."""

    python: list[str]
    """The words before the name of our program: what runs it on a node."""
    rank0_env: str
    grace_s: float
    timeout_s: float | None
    deadline: float | None
    lease_s: float | None
    roles: list[PlannedRole]
    replicas: list[PlannedReplica]
    log_max_mb: NotRequired[int]
    """Absent where logs have no limit: older readers know the file without it."""
