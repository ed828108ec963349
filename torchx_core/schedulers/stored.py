"""Records of apps on disk: written once, by a submitter, and read by everybody."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import cast

from torchx_core.errors import CorruptRecordError, NewerRecordError
from torchx_core.schedulers.removing import tree_size
from torchx_core.specs import AppDef
from torchx_core.supervisor.records import Json, read_json

__all__ = ["StoredApp", "read_versioned"]


@dataclass(frozen=True)
class StoredApp(ABC):
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
        """What makes two submits the same request: app and cfg, before anything was rendered."""
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
    @abstractmethod
    def log_dirs(self) -> Iterable[str]:
        """Where each replica's logs lie."""

    @cached_property
    def logs_elsewhere(self) -> Sequence[str]:
        """The directory of all its logs, if that lies outside of the record (``log_dir``)."""
        logs = {os.path.dirname(os.path.dirname(path)) for path in self.log_dirs}
        return [path for path in logs if not path.startswith(self.directory + os.sep)]

    @property
    def size_bytes(self) -> int:
        """How much disk space record and logs take."""
        return sum(map(tree_size, [self.directory, *self.logs_elsewhere]))

    def path(self, name: str) -> str:
        """Return the path of one of the app's files."""
        return os.path.join(self.directory, name)


def read_versioned(path: str, version: int) -> Json | None:
    """Return the record, or None when there is none.

    Args:
        path: Its file, which appears whole and may be deleted at any time.
        version: The newest that this library can read.

    Raises:
        CorruptRecordError: The file is there, and cannot be read.
        NewerRecordError: A newer version of this library wrote it.
    """
    content = read_json(path)
    if content is None:
        if not os.path.exists(path):
            return None  # never submitted, or being deleted
        content = read_json(path)  # it appeared, whole, between the two looks
    if content is None:
        raise CorruptRecordError(path, "not a JSON object")
    found = content.get("version")
    if not isinstance(found, int):
        raise CorruptRecordError(path, "has no version")
    if found > version:
        raise NewerRecordError(path, found, version)
    return content
