"""Colours: what each state looks like, and how text is painted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from torchx_core.specs import AppState

__all__ = [
    "BAD",
    "BOLD",
    "DIM",
    "GOOD",
    "READABLE",
    "STATE_STYLES",
    "WARN",
    "Paint",
    "Style",
    "in_colour",
    "in_readable_colour",
    "plainly",
]

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


READABLE: Final[Mapping[Style, Style]] = {
    style: f"38;5;{number}"
    for style, number in {
        DIM: 243,
        "31": 160,
        "32": 28,
        "33": 130,
        "34": 63,
        "35": 133,
        "36": 31,
        "92": 64,
        "93": 100,
        "94": 99,
        "95": 198,
        "96": 66,
    }.items()
}
"""Style -> a shade of its hue, of the 256 colours, whose contrast to black and to white is 3.6 or more."""


def in_colour(text: str, style: Style) -> str:
    r"""Paint the text.

    Example:
        >>> in_colour("ok", GOOD)
        '\x1b[32mok\x1b[0m'
    """
    return f"\x1b[{style}m{text}\x1b[0m" if style and text else text


def in_readable_colour(text: str, style: Style) -> str:
    r"""Paint the text as `in_colour` does, in shades that can be read on a dark and on a light background.

    What the eight colours look like is the terminal's choice, mostly made for a dark background; the other
    240 of a terminal that has 256 are the same everywhere.

    Example:
        >>> in_readable_colour("ok", GOOD)
        '\x1b[38;5;28mok\x1b[0m'
    """
    return in_colour(text, ";".join(READABLE.get(each, each) for each in style.split(";")))


def plainly(text: str, style: Style) -> str:  # noqa: ARG001  # what `Paint` takes
    """Leave the text as it is."""
    return text
