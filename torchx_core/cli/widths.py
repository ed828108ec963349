"""How much room text takes on a terminal."""

from __future__ import annotations

import re
from typing import Final
from unicodedata import category, combining, east_asian_width

from torchx_core.terminal import harmless

__all__ = ["cell_width", "fit", "one_line"]

_SPACE: Final = re.compile(r"\s")
_ZERO_WIDTH: Final = frozenset({"Cc", "Cf", "Me", "Mn"})


def cell_width(text: str) -> int:
    """Return how many columns the text takes; an ideograph takes two.

    Example:
        >>> cell_width("abc"), cell_width("日本"), cell_width("e\u0301")
        (3, 4, 1)
    """
    return len(text) if text.isascii() else sum(map(_char_width, text))


def _char_width(char: str) -> int:
    if combining(char) or category(char) in _ZERO_WIDTH:
        return 0
    return 2 if east_asian_width(char) in "WF" else 1


def fit(text: str, width: int) -> str:
    """Return the text, or as much of it as fits with an ellipsis at its end.

    Example:
        >>> fit("abcdef", 4), fit("日本語", 4), fit("abc", 3)
        ('abc…', '日…', 'abc')
    """
    if cell_width(text) <= width:
        return text
    used, kept = 1, ""
    for char in text:
        used += _char_width(char)
        if used > width:
            break
        kept += char
    return kept + "…" if width > 0 else ""


def one_line(text: str) -> str:
    r"""Return the text without anything that would move the cursor or change the terminal.

    Example:
        >>> one_line("\x1b[31mred\x1b[0m\tand\nmore\a")
        'red and more'
    """
    plain = harmless(_SPACE.sub(" ", text), colours=False)
    return "".join(c if c.isprintable() else " " if c.isspace() else "" for c in plain)
