"""The part of a terminal that is drawn again and again, below what scrolls."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torchx_core.cli.widths import cell_width, one_line

__all__ = ["LiveArea"]

_ERASE_BELOW = "\x1b[J"


class LiveArea:
    """Some lines at the bottom; text written above them scrolls away as usual.

    Everything is plain writes to the terminal's normal screen: no alternate screen, no hidden cursor, no
    thread, so nothing has to be put right after a crash.
    """

    def __init__(self, write: Callable[[str], None], width: Callable[[], int]) -> None:
        """Draw nothing yet."""
        self._write = write
        self._width = width
        self._drawn: list[int] = []

    def draw(self, lines: Sequence[str], above: str = "") -> None:
        """Replace the lines, and put whole lines of text above them, in one write."""
        self._write(self._erase() + above + "".join(f"{line}\n" for line in lines))
        self._drawn = [cell_width(one_line(line)) for line in lines]

    def clear(self, above: str = "") -> None:
        """Remove the lines."""
        self.draw([], above)

    def _erase(self) -> str:
        """Go to the first of our lines and erase from there.

        A terminal that was made narrower since has wrapped them, so that they take more rows now.
        """
        width = max(1, self._width())
        rows = sum(max(1, -(-cells // width)) for cells in self._drawn)
        return f"\r\x1b[{rows}A{_ERASE_BELOW}" if rows else ""
