"""Where a run's log goes on with an app's output. Knows no Prefect."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import Final, Protocol, final

from prefect_torchx.position import Position
from torchx_core.specs import AppHandle

__all__ = ["Bookmark", "Shelf"]

KEPT = 1000


class Shelf(Protocol):
    """Keeps positions where every later process of the run finds them; raises nothing when it cannot."""

    @property
    def run(self) -> str:
        """Whose log it is."""
        ...

    def open(self, handle: AppHandle, *, fresh: bool) -> Position | None:
        """Write down that the run has to do with the app, and return how far its log has got with it.

        Args:
            handle: The app.
            fresh: It is about to be submitted: what is known of that name is about another app.
        """
        ...

    def save(self, handle: AppHandle, position: Position) -> bool:
        """Remember how far it has got, and return whether that is so; called from any thread."""
        ...


@final
class Bookmark:
    """How far one call's log has got with its app.

    A try in the same process goes on exactly where the last one stopped, even while the shelf cannot be
    reached. A try in another process goes on from what was saved.
    """

    def __init__(self, shelf: Shelf) -> None:
        """Look at nothing yet."""
        self._shelf = shelf
        self._handle: AppHandle | None = None

    def open(self, handle: AppHandle, *, fresh: bool) -> Position | None:
        """Turn to an app; see `Shelf.open`."""
        self._handle = handle
        if fresh:
            _known.pop((self._shelf.run, handle), None)
        saved = self._shelf.open(handle, fresh=fresh)
        return _known.get((self._shelf.run, handle), saved)

    def save(self, position: Position) -> bool:
        """Remember the position, and return whether a later process will find it; called in any thread."""
        if self._handle is None:
            return True
        _remember((self._shelf.run, self._handle), position)
        return self._shelf.save(self._handle, position)


_known: Final[OrderedDict[tuple[str, AppHandle], Position]] = OrderedDict()
"""What this process knows of its latest apps."""
_lock: Final = Lock()


def _remember(key: tuple[str, AppHandle], position: Position) -> None:
    with _lock:
        _known[key] = position
        _known.move_to_end(key)
        while len(_known) > KEPT:
            _known.popitem(last=False)
