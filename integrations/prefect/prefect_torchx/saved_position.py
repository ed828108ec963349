"""Where a run's log goes on with an app's output. Knows no Prefect."""

from __future__ import annotations

from typing import Final, Protocol, final

from prefect_torchx.own import Latest
from prefect_torchx.position import NotedApp, Position
from torchx_core.specs import AppHandle

__all__ = ["PositionStore", "SavedPosition"]

KEPT = 1000


class PositionStore(Protocol):
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

    def find(self, handle: AppHandle) -> Position | None:
        """Return how far its log has got with an app that it has had; None when it has had no such app."""
        ...

    def noted(self, handle: AppHandle) -> NotedApp | None:
        """Return what the run has written down about the app; None for nothing."""
        ...

    def withdraw(self, handle: AppHandle) -> None:
        """Forget that the run was about to submit the app: another call of the run had done so before."""
        ...

    def note(self, handle: AppHandle, position: Position) -> None:
        """Remember how far it has got, for the next `save`; quick, called from any thread."""
        ...

    def save(self, handle: AppHandle) -> bool:
        """Keep what was noted of this app, and of others; return whether it is kept; from any thread."""
        ...


@final
class SavedPosition:
    """How far one call's log has got with its app.

    A try in the same process goes on exactly where the last one stopped, even while the position store cannot
    be reached. A try in another process goes on from what was saved.
    """

    def __init__(self, position_store: PositionStore) -> None:
        """Look at nothing yet."""
        self._position_store = position_store
        self._handle: AppHandle | None = None

    def open(self, handle: AppHandle, *, fresh: bool) -> Position | None:
        """Turn to an app; see `PositionStore.open`."""
        self._handle = handle
        if fresh:
            _known.forget((self._position_store.run, handle))
        return self._latest(handle, self._position_store.open(handle, fresh=fresh))

    def find(self, handle: AppHandle) -> Position | None:
        """Turn to an app that an earlier try has had; None when none has."""
        found = self._position_store.find(handle)
        self._handle = self._handle if found is None else handle
        return found and self._latest(handle, found)

    def noted(self, handle: AppHandle) -> NotedApp | None:
        """Return what the run has written down about the app; turns to none."""
        return self._position_store.noted(handle)

    def withdraw(self, handle: AppHandle) -> None:
        """Take back that a fresh app was turned to; see `PositionStore.withdraw`."""
        self._handle = None
        self._position_store.withdraw(handle)

    def _latest(self, handle: AppHandle, saved: Position | None) -> Position | None:
        """Return how far this process knows the log to be; of the saved place also what is behind it."""
        known = _known.get((self._position_store.run, handle))
        return saved if known is None or (saved is not None and saved.cursor == known.cursor) else known

    def note(self, handle: AppHandle, position: Position) -> None:
        """Remember the position in this process; quick, and called in any thread."""
        _known.put((self._position_store.run, handle), position)
        self._position_store.note(handle, position)

    def save(self) -> bool:
        """Return whether a later process will find the position; called in any thread."""
        return self._handle is None or self._position_store.save(self._handle)


_known: Final = Latest[tuple[str, AppHandle], Position](KEPT)
"""What this process knows of its latest apps."""
