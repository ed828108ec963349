"""Which states of an explored model an end is ahead of."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TypeVar

__all__ = ["ahead_of"]

W = TypeVar("W", bound=Hashable)


def ahead_of(ends: Iterable[W], steps: Iterable[tuple[W, W]]) -> set[W]:
    """Return the states from which some steps lead to an end, the ends themselves included.

    Args:
        ends: The states in which everything is over.
        steps: Pairs of a state and one that may follow it.
    """
    before: dict[W, list[W]] = {}
    for state, following in steps:
        before.setdefault(following, []).append(state)
    todo = list(ends)
    good = set(todo)
    while todo:
        for state in before.get(todo.pop(), []):
            if state not in good:
                good.add(state)
                todo.append(state)
    return good
