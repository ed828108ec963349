"""One app's record: a directory that the cluster shares; its files are written whole or not at all."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, cast

from torchx_core.schedulers.paths import name_of
from torchx_core.schedulers.stored import StoredApp, read_versioned
from torchx_core.specs import CfgVal
from torchx_core.supervisor.records import Json, read_json, write_once

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
    "VERSION",
    "AppRecord",
    "Planned",
    "read_record",
]

VERSION = 1
SPEC, PLAN, SCRIPT, SHIM = "spec.json", "plan.json", "job.sh", "shim.pyz"
JOB, STOP, LEASE, FINAL = "job.json", "stop.json", "lease", "final.json"
SLURM_LOG = "slurm.log"  # what Slurm, srun and our own program have to say
NEVER_RENEWED = b"0" * 16  # in the lease file; whoever follows the app writes something else there
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})
SUBMIT_LOCK = "submit.lock"  # held with flock by whoever is about to call sbatch


class Planned(NamedTuple):
    """One replica, as it was planned."""

    role: str
    replica: int
    log_dir: str


@dataclass(frozen=True)
class AppRecord(StoredApp):
    """What was submitted, and the way to what became of it."""

    @property
    def app_id(self) -> str:
        """The app's id, which is also the name of its job."""
        return name_of(os.path.basename(self.directory))

    @property
    def cfg(self) -> dict[str, CfgVal]:
        """The options."""
        return cast("dict[str, CfgVal]", self.asked["cfg"])

    @property
    def comment(self) -> str:
        """What Slurm's job is known by."""
        return str(self.content["comment"])

    @property
    def lease_s(self) -> float | None:
        """After how long without a follower the app cancels itself."""
        return cast("float | None", self.cfg.get("lease_s"))

    @cached_property
    def replicas(self) -> Sequence[Planned]:
        """All replicas, in the order of the roles."""
        return [Planned(*row) for row in cast("list[tuple[str, int, str]]", self.content["replicas"])]

    @property
    def log_dirs(self) -> Iterable[str]:
        """Where each replica's logs lie."""
        return (planned.log_dir for planned in self.replicas)

    def read(self, name: str) -> Json | None:
        """Return the content of one of the app's files; None when it is absent or torn."""
        return read_json(self.path(name))

    def write(self, name: str, content: Json) -> bool:
        """Create one of the app's files whole, unless it exists; return whether there was room."""
        try:
            write_once(self.directory, name, content)
        except OSError as err:
            if err.errno not in _NO_ROOM:
                raise
            return False
        return True


def read_record(directory: str) -> AppRecord | None:
    """Return the record, or None when there is no such app.

    Raises:
        CorruptRecordError: The directory is there, and its record cannot be read.
        NewerRecordError: A newer version of this library wrote it.
    """
    content = read_versioned(os.path.join(directory, SPEC), VERSION)
    return None if content is None else AppRecord(directory, content)
