"""Records in memory, for backends whose apps end with the process that submitted them."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager

from torchx_core.compat.records import Content, Lock, Record, Store, oldest_first

__all__ = ["MemoryStore"]


class MemoryStore(Store):
    """Records that die with this process, as the apps do."""

    def __init__(self) -> None:
        self._records: dict[str, MemoryRecord] = {}
        self._lock = threading.Lock()

    def create(self, app_id: str, asked: Content) -> Record:
        """Return the app's record; a new one where there was none."""
        with self._lock:
            if app_id not in self._records:
                self._records[app_id] = MemoryRecord(self, app_id, asked)
            return self._records[app_id]

    def find(self, app_id: str) -> Record | None:
        """Return the app's record, or None."""
        return self._records.get(app_id)

    def all(self) -> list[Record]:
        """Return every record, oldest first."""
        with self._lock:
            return sorted(self._records.values(), key=oldest_first)

    def remove(self, record: Record) -> None:
        """Forget the app."""
        with self._lock:
            if self._records.get(record.app_id) is record:
                del self._records[record.app_id]


class MemoryRecord(Record):
    """One app's facts in memory."""

    def __init__(self, store: MemoryStore, app_id: str, asked: Content) -> None:
        super().__init__(app_id)
        self._store = store
        self._facts: dict[str, Content] = {"asked": asked}
        self._locks: dict[Lock, threading.Lock] = {"submit": threading.Lock(), "owner": threading.Lock()}

    def get(self, fact: str) -> Content | None:
        """Return the fact, or None."""
        return self._facts.get(fact)

    def put(self, fact: str, content: Content) -> Content:
        """Tell the fact unless somebody was first (``dict.setdefault`` is one step)."""
        return self._facts.setdefault(fact, content)

    def replace(self, fact: str, content: Content) -> None:
        """Tell the fact anew."""
        self._facts[fact] = content

    @contextmanager
    def locked(self, lock: Lock) -> Generator[bool]:
        """Hold the lock."""
        with self._locks[lock]:
            yield self._store.find(self.app_id) is self

    def is_locked(self, lock: Lock) -> bool:
        """Return whether somebody holds the lock."""
        return self._locks[lock].locked()
