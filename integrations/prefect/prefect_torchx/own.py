"""What belongs to this process alone: a forked child gets none of it, no value and no lock that is held.

A fork copies what the threads of its parent use, locked as it is, but not the threads. Knows no Prefect.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Final, Generic, TypeVar, final

__all__ = ["Latest", "Shared"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@final
class Shared(Generic[K, V]):
    """Values that many blocks share by a key, each there as long as one of the blocks lasts."""

    def __init__(self, make: Callable[[K], V], end: Callable[[V], object]) -> None:
        """Have none yet.

        Args:
            make: Makes a key's value for the first block; quick.
            end: Told by the last block that nobody uses the value any more.
        """
        self._make: Final = make
        self._end: Final = end
        self._begin_anew()
        os.register_at_fork(after_in_child=self._begin_anew)

    def _begin_anew(self) -> None:
        self._lock = threading.Lock()
        self._used: dict[K, tuple[V, int]] = {}

    @contextmanager
    def use(self, key: K) -> Iterator[V]:
        """Yield the key's value, and keep it as long as the block lasts."""
        with self._lock:
            value, users = self._used[key] if key in self._used else (self._make(key), 0)
            self._used[key] = value, users + 1
        try:
            yield value
        finally:
            self._leave(key, value)

    def _leave(self, key: K, value: V) -> None:
        with self._lock:
            known, users = self._used.get(key, (None, 0))
            if known is not value:  # the block began in the parent of this process
                return
            if users > 1:
                self._used[key] = value, users - 1
                return
            del self._used[key]
        self._end(value)


@final
class Latest(Generic[K, V]):
    """The values of the keys that were used last, up to a number of them."""

    def __init__(self, limit: int) -> None:
        """Have none yet."""
        self._limit: Final = limit
        self._begin_anew()
        os.register_at_fork(after_in_child=self._begin_anew)

    def _begin_anew(self) -> None:
        self._lock = threading.Lock()
        self._values: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K) -> V | None:
        """Return the key's value; None without one."""
        return self._values.get(key)

    def put(self, key: K, value: V) -> None:
        """Set the key's value."""
        with self._lock:
            self._keep(key, value)

    def get_or_make(self, key: K, make: Callable[[], V]) -> V:
        """Return the key's value, the same one to all who ask; without one make it, quickly."""
        with self._lock:
            value = self._values[key] if key in self._values else make()
            self._keep(key, value)
            return value

    def forget(self, key: K) -> None:
        """Have no value of the key."""
        with self._lock:
            self._values.pop(key, None)

    def _keep(self, key: K, value: V) -> None:
        self._values[key] = value
        self._values.move_to_end(key)
        while len(self._values) > self._limit:
            self._values.popitem(last=False)
