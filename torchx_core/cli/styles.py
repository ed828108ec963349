"""Colours: what each state looks like, and how text is painted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from torchx_core.specs import AppState

__all__ = ["BAD", "BOLD", "DIM", "GOOD", "STATE_STYLES", "WARN", "Paint", "Style", "in_colour", "plainly"]

Style: TypeAlias = str
"""The parameters of the terminal's "select graphic rendition" sequence; empty for none."""

Paint: TypeAlias = Callable[[str, Style], str]
"""Gives text the style, or leaves it as it is where there are no colours."""

BOLD: Final = "1"
DIM: Final = "2"
GOOD: Final = "32"
BAD: Final = "1;31"
WARN: Final = "33"

STATE_STYLES: Final = {
    AppState.UNSUBMITTED: DIM,
    AppState.SUBMITTED: DIM,
    AppState.PENDING: DIM,
    AppState.RUNNING: "36",
    AppState.SUCCEEDED: GOOD,
    AppState.FAILED: BAD,
    AppState.CANCELLED: WARN,
    AppState.UNKNOWN: "35",
}


def in_colour(text: str, style: Style) -> str:
    r"""Paint the text.

    Example:
        >>> in_colour("ok", GOOD)
        '\x1b[32mok\x1b[0m'
    """
    return f"\x1b[{style}m{text}\x1b[0m" if style and text else text


def plainly(text: str, style: Style) -> str:  # noqa: ARG001  # what `Paint` takes
    """Leave the text as it is."""
    return text
