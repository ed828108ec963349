"""One app's record on disk, as a reader sees it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from socket import gethostname
from typing import ClassVar

from torchx_core.schedulers.local.replay import Replay
from torchx_core.schedulers.stored import StoredApp
from torchx_core.supervisor.plan import Plan, decode_plan, encode_plan
from torchx_core.supervisor.reading import DamagedFile
from torchx_core.supervisor.records import SPEC, VERSION, Json
from torchx_core.supervisor.shape import Misshapen

__all__ = ["AppRecord", "boot_id", "encode_record"]


@dataclass(frozen=True)
class AppRecord(StoredApp):
    """What was submitted to this host."""

    VERSION: ClassVar[int] = 2

    @property
    def boot_id(self) -> str:
        """The host's boot in which it was submitted."""
        return str(self.content.get("boot_id"))

    @property
    def host(self) -> str:
        """The name of the host, or the container, in which it was submitted."""
        return str(self.content.get("host") or gethostname())

    @cached_property
    def plan(self) -> Plan:
        """What the supervisor runs.

        Raises:
            CorruptRecordError: It is no plan.
        """
        with self.naming_damage():
            try:
                return decode_plan(self.content.get("plan"))
            except Misshapen as err:
                raise DamagedFile(self.path(SPEC), f"its plan cannot be used: {err}") from err

    @cached_property
    def replay(self) -> Replay:
        """What its journal tells."""
        return Replay(self.directory, self.plan)

    @property
    def log_dirs(self) -> Iterable[str]:
        """Where each replica's logs lie."""
        return (replica.log_dir for replica in self.plan.replicas)


def encode_record(asked: Json, plan: Plan, *, created_at: float) -> Json:
    """Return the content of a new app's record, of an earlier version if that can say all of it."""
    return {
        "version": VERSION if plan.log_max_mb is None else AppRecord.VERSION,
        "incarnation": os.urandom(8).hex(),
        "boot_id": boot_id(),
        "host": gethostname(),
        "created_at": created_at,
        "asked": asked,
        "plan": encode_plan(plan),
    }


def boot_id() -> str:
    """Return what is unique to this boot of the host; empty where the system does not say."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()
    except OSError:
        return ""
