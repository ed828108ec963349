"""What is written down of an app beside its backend: facts, each told once, and its owner."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Literal, TypeAlias, cast

from torchx_core.errors import CorruptRecordError, RecordUnavailableError, StoredStateError
from torchx_core.supervisor.shape import is_time

__all__ = ["Content", "Lock", "Record", "Store", "number", "oldest_first", "text"]

Content: TypeAlias = Mapping[str, object]
"""A fact's JSON object."""

Lock: TypeAlias = Literal["submit", "owner"]


class Record(ABC):
    """One app's facts; any number of threads (and processes, where it lies on disk) share it.

    The facts: ``asked`` (what was submitted, first of all), ``attempt.<n>`` (TorchX is about to submit, under
    that id), ``submitted`` (it has), ``running``, ``ended.<role>.<k>``, ``cancel`` (the request), ``final``
    (the end). ``owner`` is the one that changes.
    """

    def __init__(self, app_id: str) -> None:
        self.app_id = app_id

    @property
    def asked(self) -> Content:
        """What was submitted: ``incarnation``, ``created_at``, ``name``, ``app``, ``cfg``."""
        return self.get("asked") or {}

    @property
    def owner(self) -> str | None:
        """The owner's token, or None; whoever changes or relies on it holds the lock of that name."""
        told = self.get("owner")
        return None if told is None else text(told, "token")

    def damage(self, problem: str) -> CorruptRecordError:
        """Return the error for a record that cannot be used."""
        return CorruptRecordError(f"of app {self.app_id}", problem)

    @abstractmethod
    def get(self, fact: str) -> Content | None:
        """Return the fact, or None while it is not told."""

    @abstractmethod
    def put(self, fact: str, content: Content) -> Content:
        """Tell the fact unless somebody was first, and return what is told now; it survives a crash."""

    @abstractmethod
    def replace(self, fact: str, content: Content) -> None:
        """Tell the fact anew; the caller holds the lock that protects it."""

    @abstractmethod
    def locked(self, lock: Lock) -> AbstractContextManager[bool]:
        """Hold the lock; the value is whether the record is still there, now that the lock is held."""

    @abstractmethod
    def is_locked(self, lock: Lock) -> bool:
        """Return whether somebody, perhaps this process, holds the lock."""


class Store(ABC):
    """The records of one scheduler and session."""

    @abstractmethod
    def create(self, app_id: str, asked: Content) -> Record:
        """Return the app's record; a new one with that first fact where there was none."""

    @abstractmethod
    def find(self, app_id: str) -> Record | None:
        """Return the app's record, or None."""

    @abstractmethod
    def all(self) -> list[Record]:
        """Return every record, oldest first."""

    def sessions(self) -> list[str]:
        """Return the sessions of all records; none where only those of this one can be seen."""
        return []

    @abstractmethod
    def remove(self, record: Record) -> None:
        """Forget the app; its id is free at once."""


def oldest_first(record: Record) -> tuple[float, str]:
    """Return a key to sort by; one that cannot be read comes first."""
    try:
        return number(record.asked, "created_at"), record.app_id
    except (StoredStateError, RecordUnavailableError):
        return 0.0, record.app_id


def number(content: Content, key: str) -> float:
    """Return a time out of a fact, 0 when it is not there."""
    value = content.get(key)
    return float(cast("float", value)) if is_time(value) else 0.0


def text(content: Content | None, key: str) -> str:
    """Return a text out of a fact, empty when it is not there."""
    value = (content or {}).get(key)
    return value if isinstance(value, str) else ""
