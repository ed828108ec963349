"""What the supervisor is told to run: the part of the submitted record that it reads."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias, cast

from torchx_core.supervisor.machine import Replica, State
from torchx_core.supervisor.records import Json
from torchx_core.supervisor.shape import Misshapen, build, rows

LogMode: TypeAlias = Literal["exact", "pipe"]
LimitMode: TypeAlias = Literal["auto", "require", "off"]


class ReplicaPlan(NamedTuple):
    """One replica, completely rendered."""

    role: str
    replica_id: int
    argv: list[str]
    env: dict[str, str]
    """Added to the environment of the submitter; PATH is put before the submitter's."""
    cwd: str
    log_dir: str
    """Its attempts' directories lie in here."""
    policy: str = "APPLICATION"
    max_retries: int = 0
    cpu: float = 0
    """Cores; 0 for no limit."""
    mem_mb: int = 0
    """Megabytes of 2**20 bytes; 0 for no limit."""
    gpus: int = 0
    """How many to reserve and show in CUDA_VISIBLE_DEVICES; 0 to leave them alone."""


class Plan(NamedTuple):
    """The whole app."""

    replicas: list[ReplicaPlan]
    grace_s: float = 10.0
    timeout_s: float | None = None
    deadline: float | None = None
    """Seconds since the epoch."""
    lease_s: float | None = None
    log_mode: LogMode = "exact"
    limits: LimitMode = "auto"
    gpu_dir: str = ""
    """Lock files of this host's GPUs."""
    gpu_ids: tuple[str, ...] = ()
    log_max_mb: int | None = None
    """What the log files of one replica may take, in megabytes of 2**20 bytes; None for no limit."""


def fresh_state(plan: Plan) -> State:
    """Return the state of an app before anything happened."""
    return State(tuple(Replica(r.role, r.replica_id, r.policy, r.max_retries) for r in plan.replicas))


def ends_at(plan: Plan, began_at: float | None) -> float | None:
    """Return when the app is ended for its time being over, in seconds since the epoch; None for never."""
    late = [began_at + plan.timeout_s] if plan.timeout_s is not None and began_at is not None else []
    late += [plan.deadline] if plan.deadline is not None else []
    return min(late, default=None)


def encode_plan(plan: Plan) -> Json:
    """Return the plan as JSON values; what earlier releases do not know is left out where it is not set."""
    encoded: Json = {**plan._asdict(), "replicas": [r._asdict() for r in plan.replicas]}
    if plan.log_max_mb is None:
        del encoded["log_max_mb"]
    return encoded


def decode_plan(record: object) -> Plan:
    """Return the plan from its JSON values.

    Raises:
        Misshapen: It is none.
    """
    replicas = [build(ReplicaPlan, row) for row in rows(record, "replicas")]
    plan = build(Plan, {**cast("Json", record), "replicas": replicas})
    if not replicas or not all(replica.argv for replica in replicas):
        raise Misshapen("nothing to run")
    return plan
