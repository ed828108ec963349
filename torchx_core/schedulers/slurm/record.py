"""One app's record: a directory that the cluster shares; its files are written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, cast

from torchx_core.schedulers.stored import read_versioned
from torchx_core.specs import AppDef, CfgVal
from torchx_core.supervisor.records import Json, read_json

__all__ = [
    "FINAL",
    "JOB",
    "LEASE",
    "PLAN",
    "SCRIPT",
    "SHIM",
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
SUBMIT_LOCK = "submit.lock"  # held with flock by whoever is about to call sbatch


class Planned(NamedTuple):
    """One replica, as it was planned."""

    role: str
    replica: int
    log_dir: str


@dataclass(frozen=True)
class AppRecord:
    """What was submitted; never changes while the app exists."""

    directory: str
    content: Json

    @property
    def incarnation(self) -> str:
        """Unique among all apps that ever had this id."""
        return str(self.content["incarnation"])

    @property
    def created_at(self) -> float:
        """Seconds since the epoch."""
        return cast("float", self.content["created_at"])

    @property
    def asked(self) -> Json:
        """What makes two submits the same request: app and cfg."""
        return cast("Json", self.content["asked"])

    @property
    def name(self) -> str:
        """The app's name."""
        return str(cast("Json", self.asked["app"])["name"])

    @cached_property
    def app(self) -> AppDef:
        """The app as it was submitted."""
        return AppDef.from_dict(cast("Json", self.asked["app"]))

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

    def path(self, name: str) -> str:
        """Return the path of one of the app's files."""
        return os.path.join(self.directory, name)

    def read(self, name: str) -> Json | None:
        """Return the content of one of the app's files; None when it is absent or torn."""
        return read_json(self.path(name))


def read_record(directory: str) -> AppRecord | None:
    """Return the record, or None when there is no such app.

    Raises:
        CorruptRecordError: The directory is there, and its record cannot be read.
        NewerRecordError: A newer version of this library wrote it.
    """
    content = read_versioned(os.path.join(directory, SPEC), VERSION)
    return None if content is None else AppRecord(directory, content)
