"""Who reports: the replica that this process belongs to, as its environment tells."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256

from torchx_core.settings import ENV_TORCHX_JOB_ID, ENV_TORCHX_REPLICA, ENV_TORCHX_ROLE

__all__ = ["Place"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One replica of an app, and one of its processes where it has several."""

    handle: str
    role: str
    replica: str
    attempt: int = 0
    local_rank: int = 0
    """The process among those that torchrun starts for the replica."""

    @staticmethod
    def find(environ: Mapping[str, str]) -> Place | None:
        """Return what the environment tells; None outside an app."""
        handle = environ.get(ENV_TORCHX_JOB_ID)
        if not handle:
            return None
        return Place(
            handle=handle,
            role=environ.get(ENV_TORCHX_ROLE, "app"),
            replica=environ.get(ENV_TORCHX_REPLICA, "0"),
            attempt=_number(environ.get("TORCHX_ATTEMPT", "")),
            local_rank=_number(environ.get("LOCAL_RANK", "")),
        )

    @property
    def app_id(self) -> str:
        """The app's id, which is the last part of its handle."""
        return self.handle.rpartition("/")[2]

    @property
    def title(self) -> str:
        """What people read: app id, role and replica."""
        return f"{self.app_id} {self.role}/{self.replica}"

    @property
    def folder(self) -> str:
        """A path for what this process writes: the same in each attempt, and no other process's."""
        rank = f"/rank-{self.local_rank}" if self.local_rank else ""
        return f"{_file_name(self.app_id)}/{_file_name(self.role)}-{_file_name(self.replica)}{rank}"

    def key(self, *more: str) -> str:
        """Return a short id of the replica and of ``more``, the same in each attempt."""
        text = "\0".join([self.handle, self.role, self.replica, *more])
        return sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def _number(text: str) -> int:
    return int(text) if text.isdecimal() else 0


def _file_name(text: str) -> str:
    return re.sub(r"[^\w.+-]", "_", text).lstrip(".") or "_"
