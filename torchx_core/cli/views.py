"""How an app that is followed is shown without redrawing: as plain lines, as JSON lines, or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from torchx_core.cli.json_output import event_documents
from torchx_core.cli.lines import LinePrinter
from torchx_core.cli.output import Output
from torchx_core.cli.styles import DIM
from torchx_core.display.text import Happening, describe
from torchx_core.schedulers import AppEvent, LogLines, StateChanged

__all__ = ["JsonView", "PlainView", "SilentView", "View", "said"]


class View(Protocol):
    """Shows what happens, batch by batch."""

    @property
    def wants_lines(self) -> bool:
        """Whether log lines are of use to it."""
        ...

    def show(self, events: Sequence[AppEvent]) -> None:
        """Show some events; none at all when time has passed."""

    def ask(self, question: str) -> None:
        """Put a question on the screen, or take it away again (an empty one)."""

    def close(self) -> None:
        """Leave the screen as a shell expects it."""


class PlainView:
    """Log lines to stdout, everything else as remarks."""

    def __init__(self, output: Output, app_id: str, *, logs: bool, since: float = 0.0) -> None:
        """Show nothing yet.

        Args:
            output: Where to.
            app_id: The app's name in remarks.
            logs: Whether to show lines.
            since: Leave out what happened before; seconds since the epoch.
        """
        self.wants_lines = logs
        self._output = output
        self._app_id = app_id
        self._since = since
        self._printer = LinePrinter(output.paint, terminal=output.terminal)

    def show(self, events: Sequence[AppEvent]) -> None:
        """Print the events in their order, also where stdout and stderr are the same file."""
        lines: list[str] = []
        for event in events:
            if isinstance(event, LogLines):
                lines.append(self._printer.text(event))
            elif event.time >= self._since:
                self._flush(lines)
                self._remark(event)
        self._flush(lines, end=False)

    def _flush(self, lines: list[str], *, end: bool = True) -> None:
        if end:
            lines.append(self._printer.end())
        if any(lines):
            self._output.write("".join(lines))
        lines.clear()

    def _remark(self, event: AppEvent) -> None:
        if isinstance(event, StateChanged):
            if event.status is None:  # the last one is told by whoever follows
                self._output.remark(self._output.paint_remark(f"{self._app_id} {describe(event)}", DIM))
        elif not isinstance(event, LogLines):
            self._output.remark(self._output.paint_remark(said(event), DIM))

    def ask(self, question: str) -> None:
        """Print it once."""
        if question:
            self._output.remark(question)

    def close(self) -> None:
        """Complete the last line."""
        self._flush([])


class JsonView:
    """One JSON document per line and event."""

    def __init__(self, output: Output, *, logs: bool) -> None:
        """Show nothing yet; ``logs``: whether to show lines."""
        self.wants_lines = logs
        self._output = output

    def show(self, events: Sequence[AppEvent]) -> None:
        """Print the events."""
        if events:
            self._output.documents(document for event in events for document in event_documents(event))

    def ask(self, question: str) -> None:
        """Ask on stderr."""
        if question:
            self._output.remark(question)

    def close(self) -> None:
        """Leave nothing behind."""


def said(event: Happening) -> str:
    """Return what happened to whom."""
    return f"{event.role}/{event.replica} {describe(event)}"


class SilentView:
    """Shows nothing: the end is all that matters."""

    wants_lines = False

    def __init__(self, output: Output) -> None:
        """Keep where to ask."""
        self._output = output

    def show(self, events: Sequence[AppEvent]) -> None:
        """Show nothing."""

    def ask(self, question: str) -> None:
        """Ask on stderr."""
        if question:
            self._output.remark(question)

    def close(self) -> None:
        """Leave nothing behind."""
