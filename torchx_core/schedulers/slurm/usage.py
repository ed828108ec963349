"""What the replicas of a Slurm app use: the program beside each of them says, once it is asked.

Slurm's own ``sstat`` would know averages over the tasks of a role, and nothing where no accounting gathers.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from typing import Final, NamedTuple

from torchx_core.schedulers import UsageSample
from torchx_core.schedulers.slurm.facts import read_facts
from torchx_core.schedulers.slurm.node.usage import ANSWER, ASKED
from torchx_core.schedulers.slurm.record import AppRecord, Planned
from torchx_core.specs import Usage
from torchx_core.supervisor.reading import DamagedFile
from torchx_core.supervisor.shape import read_shaped

__all__ = ["usage_now"]

_FRESH_S: Final = 30.0
"""How old an answer may be: the nodes look once a second, and a shared file system may be slow to show it."""


class _Answer(NamedTuple):
    time: float
    cpu_s: float
    memory_bytes: int
    processes: int
    read_bytes: int | None = None
    write_bytes: int | None = None


def usage_now(record: AppRecord) -> list[UsageSample]:
    """Ask all replicas that run, and return what they have answered to whoever asked last."""
    facts = read_facts(record)
    up = {index: attempts[-1].number for index, attempts in enumerate(facts.attempts) if attempts}
    up = {index: number for index, number in up.items() if facts.attempts[index][-1].code is None}
    if facts.all_left or not up or not record.replace(ASKED, {"token": os.urandom(8).hex()}):
        return []
    now = os.stat(record.path(ASKED)).st_mtime  # by the file server's clock, as the answers' times
    return [s for i, number in up.items() for s in _samples(record, record.replicas[i], number, now)]


def _samples(record: AppRecord, planned: Planned, attempt: int, now: float) -> Iterator[UsageSample]:
    path = os.path.join(planned.log_dir, str(attempt), ANSWER)
    answer = None
    with suppress(FileNotFoundError, DamagedFile):
        if now - os.stat(path).st_mtime <= _FRESH_S:
            answer = read_shaped(_Answer, path)
    if answer is None:
        return
    figures = answer._asdict()
    time = figures.pop("time")
    limit = record.memory_limit_mb(planned.role) << 20 or None
    yield UsageSample(
        role=planned.role,
        replica=planned.replica,
        attempt=attempt,
        usage=Usage(**figures, memory_limit_bytes=limit),
        time=time,
    )
