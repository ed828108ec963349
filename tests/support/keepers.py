"""Keeps positions of a run's log in memory, as a `SavedPosition` does for later tries."""

from __future__ import annotations

from collections.abc import Callable

from prefect_torchx.position import Position

__all__ = ["Keeper"]


class Keeper:
    """Appends every position that is saved to a list."""

    def __init__(self, told: list[Position], keeps: Callable[[], bool] = lambda: True) -> None:
        """Know of nothing.

        Args:
            told: Gets what is saved.
            keeps: Called after that; returns whether it is kept, or raises.
        """
        self._told = told
        self._keeps = keeps
        self._noted: list[Position] = []

    def note(self, _handle: str, position: Position) -> None:
        """Remember it until it is saved."""
        self._noted.append(position)

    def save(self) -> bool:
        """Save what was noted last."""
        self._told.append(self._noted[-1])
        return self._keeps()
