"""Waiting for a condition, in tests: never a sleep of a guessed length."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from threading import Event
from time import monotonic
from typing import Literal, TypeVar

__all__ = ["wait_until"]

T = TypeVar("T")

_FIRST_PAUSE_S = 0.001
_LAST_PAUSE_S = 0.05
_SHARE = 3
"""After an answer nobody asks for so many times as long as that took: a busy host has better to do."""


def wait_until(predicate: Callable[[], T | Literal[False] | None], timeout_s: float = 10.0) -> T:
    """Call `predicate` until it returns something true, and return that.

    It is asked once more when the time is over, so a slow host fails nothing that has come true. A predicate
    that takes long, as a request to a server may, is asked less often.

    Raises:
        AssertionError: It did not come true; shows the predicate's source and what it returned last.

    Example:
        >>> wait_until(lambda: "there")
        'there'
    """
    deadline = monotonic() + timeout_s
    pause = _FIRST_PAUSE_S
    while True:
        asked = monotonic()
        over = asked >= deadline
        value = predicate()
        if value:
            return value
        if over:
            raise AssertionError(f"waited {timeout_s:g} s for {_show(predicate)}; it returned {value!r}")
        now = monotonic()
        Event().wait(min(max(pause, _SHARE * (now - asked)), max(0.0, deadline - now)))
        pause = min(pause * 1.5, _LAST_PAUSE_S)


def _show(predicate: Callable[[], object]) -> str:
    try:
        return " ".join(inspect.getsource(predicate).split())
    except (OSError, TypeError):  # typed at a prompt, built in, or not a plain function
        return getattr(predicate, "__qualname__", repr(predicate))
