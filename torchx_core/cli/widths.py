"""How much room text takes on a terminal."""

from __future__ import annotations

import re
from typing import Final

from torchx_core.terminal import harmless

__all__ = ["cell_width", "fit", "fit_painted", "one_line"]

_SPACE: Final = re.compile(r"\s")
_NARROW: Final = re.compile("[ -~\u00a1-\u00ac\u00ae-\u02ff–—‘’“”•…━─]*")  # noqa: RUF001  # meant
"""What takes one column each, in any language that is written in Latin letters."""


def cell_width(text: str) -> int:
    """Return how many columns the text takes; an ideograph takes two, and so does an emoji of several parts.

    Example:
        >>> [cell_width(text) for text in ("abc", "日本", "e\u0301", "\U0001f469\u200d\U0001f4bb")]
        [3, 4, 1, 2]
    """
    if _NARROW.fullmatch(text):
        return len(text)
    try:
        from wcwidth import wcswidth, wcwidth  # here: it takes as long to import as a status takes in all
    except ModuleNotFoundError:  # upgraded without the extra: columns may be out of line, no more
        return len(text)
    width = wcswidth(text)
    return width if width >= 0 else sum(max(0, wcwidth(char)) for char in text)  # control characters


def fit(text: str, width: int) -> str:
    """Return the text, or as much of it as fits with an ellipsis at its end.

    Example:
        >>> fit("abcdef", 4), fit("日本語", 4), fit("abc", 3)
        ('abc…', '日…', 'abc')
    """
    if cell_width(text) <= width:
        return text
    fits, too_much = 0, len(text)
    while too_much - fits > 1:
        middle = (fits + too_much) // 2
        if cell_width(text[:middle]) < width:
            fits = middle
        else:
            too_much = middle
    return text[:fits] + "…" if width > 0 else ""


def fit_painted(line: str, width: int) -> str:
    """Return the line as it is if it fits, else as much of it as fits, without its colours."""
    plain = one_line(line)
    return line if cell_width(plain) <= width else fit(plain, width)


def one_line(text: str) -> str:
    r"""Return the text without anything that would move the cursor or change the terminal.

    Example:
        >>> one_line("\x1b[31mred\x1b[0m\tand\nmore\a")
        'red and more'
    """
    plain = harmless(_SPACE.sub(" ", text), colours=False)
    return "".join(c if c.isprintable() else " " if c.isspace() else "" for c in plain)
