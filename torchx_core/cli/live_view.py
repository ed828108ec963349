"""How an app that is followed is shown on a terminal: a board that stays, below lines that scroll."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Final

from torchx_core.cli.board import Board
from torchx_core.cli.board_view import board_lines
from torchx_core.cli.inside import leaving_on_signals
from torchx_core.cli.keys import Keys
from torchx_core.cli.lines import LinePrinter
from torchx_core.cli.output import Output
from torchx_core.cli.styles import WARN
from torchx_core.cli.views import said
from torchx_core.cli.widths import cell_width, fit, one_line
from torchx_core.schedulers import AppEvent, LogLines, LogsLost

__all__ = ["QUIT", "LiveArea", "LiveView", "live_area"]

QUIT: Final = (b"q", b"Q", b"")
"""Keys that end what is drawn until somebody has seen enough; the last is a terminal that has gone."""
_REDRAW_S: Final = 0.1
_ERASE_BELOW = "\x1b[J"


class LiveView:
    """A board that is drawn again and again, below log lines that scroll."""

    wants_lines = True  # the board shows each replica's last one

    def __init__(self, output: Output, app_id: str, board: Board, *, logs: bool) -> None:
        """Draw nothing yet.

        Args:
            output: A terminal.
            app_id: The app's name on the board.
            board: What is known of it.
            logs: Whether lines scroll above the board.
        """
        self._output = output
        self._logs = logs
        self._app_id = app_id
        self._board = board
        self._area = LiveArea(output.draw, lambda: output.size.columns)
        self._printer = LinePrinter(output.paint, terminal=True)
        self._question = ""
        self._drawn_at = 0.0

    def show(self, events: Sequence[AppEvent]) -> None:
        """Scroll the lines, and redraw the board unless that was done a moment ago."""
        above: list[str] = []
        for event in events:
            self._board.apply(event)
            if isinstance(event, LogLines):
                above += [self._printer.text(event)] if self._logs else []
            elif isinstance(event, LogsLost):
                above.append(self._printer.end() + self._output.paint(said(event), WARN) + "\n")
        text = "".join(above) + self._printer.end()
        if text or time.monotonic() - self._drawn_at >= _REDRAW_S:
            self._draw(text)

    def ask(self, question: str) -> None:
        """Put it below the board."""
        if question != self._question:
            self._question = question
            self._draw()

    def _draw(self, above: str = "") -> None:
        self._drawn_at = time.monotonic()
        size, paint = self._output.size, self._output.paint
        lines = board_lines(self._board, self._app_id, now=time.time(), size=size, paint=paint)
        lines += [paint(fit(line, size.columns - 1), WARN) for line in self._question.splitlines()]
        self._area.draw([self._output.shown(line) for line in lines], self._output.shown(above))

    def close(self) -> None:
        """Remove the board."""
        self._area.clear()


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
        text = self._erase() + above + "".join(f"{line}\n" for line in lines)
        cells = [cell_width(one_line(line)) for line in lines]
        try:
            self._write(text)
        finally:  # a signal that comes now must find what is on the screen
            self._drawn = cells

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


@contextmanager
def live_area(output: Output) -> Generator[tuple[LiveArea, Keys]]:
    """Draw at the bottom and take single keys; leave the terminal as it was, however it ends."""
    area, keys = LiveArea(output.draw, lambda: output.size.columns), Keys()
    with leaving_on_signals():
        keys.open()
        try:
            yield area, keys
        finally:
            keys.close()
            area.clear()
