"""What keeps a function from being a component."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from torchx_core.errors import ComponentValidationException

__all__ = ["Flaw", "refusal"]


class Flaw(NamedTuple):
    """One thing that is wrong, and what to write instead."""

    problem: str
    """As the end of a sentence that begins with the argument."""
    advice: str
    argument: str | None = None
    """None when it is about the function or class itself."""
    line: int | None = None
    """None for the line of the function."""


def refusal(component: str, file: str, line: int, flaws: Iterable[Flaw]) -> ComponentValidationException:
    """Return the error that tells all flaws of a component at once; `line` is for those without one."""
    located = [{"file": file, **flaw._asdict(), "line": flaw.line or line} for flaw in flaws]
    return ComponentValidationException(component, located)
