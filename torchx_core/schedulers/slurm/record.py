"""One app's record: a directory that the cluster shares; its files are written whole or not at all."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple, TypeVar, cast

from torchx_core.errors import CorruptRecordError
from torchx_core.schedulers.paths import name_of
from torchx_core.schedulers.stored import StoredApp, handle_of
from torchx_core.specs import CfgVal
from torchx_core.supervisor.records import Json, replace_whole, write_once
from torchx_core.supervisor.shape import is_number, is_text, is_whole, read_shaped

__all__ = [
    "FINAL",
    "JOB",
    "LEASE",
    "NEVER_RENEWED",
    "PLAN",
    "SCRIPT",
    "SHIM",
    "SLURM_LOG",
    "SPEC",
    "STOP",
    "SUBMIT_LOCK",
    "AppRecord",
    "JobFile",
    "Planned",
]

SPEC, PLAN, SCRIPT, SHIM = "spec.json", "plan.json", "job.sh", "shim.pyz"
JOB, STOP, LEASE, FINAL = "job.json", "stop.json", "lease", "final.json"
SLURM_LOG = "slurm.log"  # what Slurm, srun and our own program have to say
NEVER_RENEWED = b"0" * 16  # in the lease file; whoever follows the app writes something else there
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})
SUBMIT_LOCK = "submit.lock"  # held with flock by whoever is about to call sbatch


T = TypeVar("T")


class JobFile(NamedTuple):
    """The content of JOB."""

    job_id: str
    time: float = 0.0


class Planned(NamedTuple):
    """One replica, as it was planned."""

    role: str
    replica: int
    log_dir: str


@dataclass(frozen=True)
class AppRecord(StoredApp):
    """What was submitted, and the way to what became of it."""

    VERSION: ClassVar[int] = 2
    """Of apps whose log has a limit; any other is of version 1, which an earlier release reads."""

    @property
    def app_id(self) -> str:
        """The app's id, which is also the name of its job."""
        return name_of(os.path.basename(self.directory))

    @property
    def cfg(self) -> dict[str, CfgVal]:
        """The options."""
        return cast("dict[str, CfgVal]", self.asked["cfg"])

    @property
    def is_limited(self) -> bool:
        """Whether logs have a limit, and lie in parts."""
        return self.cfg.get("log_max_mb") is not None

    @property
    def comment(self) -> str:
        """What Slurm's job is known by."""
        return self._text("comment")

    @property
    def lease_s(self) -> float | None:
        """After how long without a follower the app cancels itself."""
        lease_s = self.cfg.get("lease_s")
        if lease_s is None:
            return None
        if not is_number(lease_s):
            raise self._damage("lease_s")
        return float(str(lease_s))

    def memory_limit_mb(self, role: str) -> int:
        """Return how much memory Slurm was asked for, for each replica of the role; 0 for no limit."""
        return 0 if self.cfg.get("nomem") else max(0, self.app.get_role(role).resource.memMB)

    @cached_property
    def replicas(self) -> Sequence[Planned]:
        """All replicas, in the order of the roles."""
        found = self.content.get("replicas")
        if not isinstance(found, list) or not all(map(_is_planned, cast("list[object]", found))):
            raise self._damage("replicas")
        return [Planned(*row) for row in cast("list[tuple[str, int, str]]", found)]

    @property
    def log_dirs(self) -> Iterable[str]:
        """Where each replica's logs lie."""
        return (planned.log_dir for planned in self.replicas)

    @property
    def sbatch(self) -> list[str]:
        """The command that submits it."""
        words = self.content.get("sbatch")
        if not isinstance(words, list) or not all(map(is_text, cast("list[object]", words))):
            raise self._damage("sbatch")
        return cast("list[str]", words)

    def _text(self, field: str) -> str:
        value = self.content.get(field)
        if not isinstance(value, str):
            raise self._damage(field)
        return value

    def _damage(self, field: str) -> CorruptRecordError:
        problem = f"its field {field!r} is missing or is not what it should be"
        return CorruptRecordError(self.path(SPEC), problem, handle_of(self.directory))

    def read(self, name: str, kind: type[T]) -> T | None:
        """Return the content of one of the app's files; None when it is absent.

        Raises:
            CorruptRecordError: It is there, and cannot be used.
        """
        with self.naming_damage():
            return read_shaped(kind, self.path(name))

    def write(self, name: str, content: Json) -> bool:
        """Create one of the app's files whole, unless it exists; return whether there was room."""
        return self._with_room(write_once, name, content)

    def replace(self, name: str, content: Json) -> bool:
        """Put a whole file in the place of one of the app's; return whether there was room."""
        return self._with_room(replace_whole, name, content)

    def _with_room(self, act: Callable[[str, str, Json], object], name: str, content: Json) -> bool:
        with self.naming_damage():
            try:
                act(self.directory, name, content)
            except OSError as err:
                if err.errno not in _NO_ROOM:
                    raise
                return False
        return True


def _is_planned(row: object) -> bool:
    fits = (is_text, is_whole, is_text)
    if not isinstance(row, list) or len(cast("list[object]", row)) != len(fits):
        return False
    return all(fit(value) for fit, value in zip(fits, cast("list[object]", row), strict=True))
