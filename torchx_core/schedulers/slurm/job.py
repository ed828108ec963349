"""A job as Slurm tells of it: squeue's JSON, with all components of a heterogeneous job as one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeAlias, TypeVar, cast

from torchx_core.specs.checks import is_list, is_map

__all__ = [
    "UNLISTED",
    "Job",
    "Row",
    "both",
    "is_over",
    "is_waiting",
    "job_with",
    "number",
    "parse_queue",
    "read_rows",
    "rows",
    "state_of",
]

UNLISTED: Final = "UNLISTED"
"""The state, in our own words, of a job that Slurm knows nothing of."""

T = TypeVar("T")

Row: TypeAlias = Mapping[str, object]
"""One job, or one component, in Slurm's JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One job; of a heterogeneous one, all components together."""

    job_id: str
    state: str
    name: str = ""
    comment: str = ""
    reason: str = ""
    nodes: str = ""
    restarts: int = 0
    ended_at: float = 0.0
    """Seconds since the epoch, by the controller's clock; means nothing before it is over."""
    ended_by: str = ""
    """Who cancelled it; only accounting knows."""


def parse_queue(text: str) -> dict[str, Job]:
    """Read squeue's JSON.

    Source: seen with 22.05; newer versions wrap numbers and give a list of states.
    """
    found: dict[str, Job] = {}
    for job in read_rows(text, _queued):
        before = found.get(job.job_id)
        found[job.job_id] = job if before is None else both(before, job)
    return found


def read_rows(text: str, read: Callable[[Row], T]) -> list[T]:
    """Return what `read` makes of each job, or component of a job, of an answer.

    Raises:
        ValueError: It is no answer.
    """
    found: list[T] = []
    for row in rows(text):
        try:
            found.append(read(row))
        except (ArithmeticError, AttributeError, LookupError, TypeError) as err:
            raise ValueError(f"no job: {row!r:.200}") from err
    return found


def rows(text: str) -> list[Row]:
    """Return the jobs, or components of jobs, of an answer.

    Whoever is told of an error is told of no job either: squeue prints both, and exits with 0, when the
    controller is away (seen with 22.05). That is no answer.

    Raises:
        ValueError: It is none, or makes no sense.
    """
    try:
        value: object = json.loads(text)
    except RecursionError as err:
        raise ValueError("JSON that is nested too deeply") from err
    if not is_map(value):
        raise ValueError(f"no map: {text!r:.200}")
    errors: object = value.get("errors") or ()
    jobs: object = value.get("jobs") or ()
    if not is_list(errors) or not is_list(jobs):
        raise ValueError(f"no list: {text!r:.200}")
    if errors:
        raise ValueError("; ".join(map(_said, errors)))
    return cast("list[Row]", jobs)


def _said(error: object) -> str:
    if not is_map(error):
        return str(error)
    words = (error.get(name) for name in ("source", "description", "error"))
    return ": ".join(str(word) for word in words if word)


def _queued(row: Row) -> Job:
    return Job(
        job_id=str(number(row.get("het_job_id")) or number(row["job_id"])),
        state=state_of(row["job_state"]),
        name=str(row.get("name") or ""),
        comment=str(row.get("comment") or ""),
        reason=str(row.get("state_reason") or ""),
        nodes=str(row.get("nodes") or ""),
        restarts=number(row.get("restart_cnt")),
        ended_at=number(row.get("end_time")),
    )


def both(a: Job, b: Job) -> Job:
    """Return two components as one job: what still runs counts more, then what went wrong."""
    worse = max(
        a, b, key=lambda j: (not (is_waiting(j) or is_over(j)), is_waiting(j), j.state != "COMPLETED")
    )
    return replace(
        worse,
        name=a.name or b.name,
        comment=a.comment or b.comment,
        nodes=",".join(filter(None, (a.nodes, b.nodes))),
        restarts=max(a.restarts, b.restarts),
        ended_at=max(a.ended_at, b.ended_at),
    )


_WAITING: Final = frozenset(
    {"PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "RESV_DEL_HOLD"}
)
_OVER: Final = frozenset(
    {
        UNLISTED,
        "BOOT_FAIL",
        "CANCELLED",
        "COMPLETED",
        "DEADLINE",
        "FAILED",
        "NODE_FAIL",
        "OUT_OF_MEMORY",
        "PREEMPTED",
        "REVOKED",
        "TIMEOUT",
    }
)


def job_with(comment: str, jobs: Iterable[Job]) -> Job | None:
    """Return the job with an app's comment: its submitter may have died before it wrote the id down."""
    return next((job for job in jobs if job.comment.startswith(comment)), None)


def is_waiting(job: Job) -> bool:
    """Return whether it has no nodes yet."""
    return job.state in _WAITING


def is_over(job: Job) -> bool:
    """Return whether nothing comes of it any more; a state that we do not know is one of a job that lives.

    Whatever is taken for over is killed.
    """
    return job.state in _OVER


def state_of(value: object) -> str:
    """Return the one state that counts: newer versions list a base state and flags.

    What completes is not over, whatever it ended as: its processes may still write.
    """
    states = (
        [str(state) for state in cast("list[object]", value)] if isinstance(value, list) else [str(value)]
    )
    return "COMPLETING" if "COMPLETING" in states else states[0]


def number(value: object) -> int:
    """Return a number, which newer versions wrap; 0 for none."""
    if isinstance(value, dict):
        value = cast("dict[str, object]", value).get("number")
    return value if isinstance(value, int) else 0
