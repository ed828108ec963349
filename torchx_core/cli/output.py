"""Where a command's words go: what was asked for to stdout, remarks to stderr."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TextIO, final

from torchx_core.cli.styles import DIM, Paint, in_colour, in_readable_colour, plainly
from torchx_core.terminal import harmless

__all__ = ["Output"]

_DEFAULT_SIZE = os.terminal_size((80, 24))


@final
class Output:
    """The standard streams, and the options that every command has.

    Attributes:
        json: Whether ``--json`` was given.
        debug: Whether ``--debug`` was given.
        terminal: Whether stdout is a terminal that can move its cursor.
        paint: Gives text on stdout its colours, if it may have any.
        paint_remark: The same for stderr.
    """

    def __init__(self, stdout: TextIO, stderr: TextIO, environ: Mapping[str, str]) -> None:
        """Look at the streams once."""
        self.json = False
        self.debug = False
        self._stdout = stdout
        self._stderr = stderr
        smart = environ.get("TERM", "") not in ("", "dumb")
        coloured = smart and not environ.get("NO_COLOR")
        self.terminal: bool = stdout.isatty() and smart
        paint = in_readable_colour if _has_256_colours(environ) else in_colour
        self.paint: Paint = paint if coloured and stdout.isatty() else plainly
        self.paint_remark: Paint = paint if coloured and stderr.isatty() else plainly
        self._colours = coloured

    @staticmethod
    def of_process() -> Output:
        """Return the process's own streams; what they cannot show is replaced, never an error."""
        return Output(_tolerant(sys.stdout), _tolerant(sys.stderr), os.environ)

    @property
    def both_terminals(self) -> bool:
        """Whether stdout and stderr are terminals: only then may one be redrawn between the other's lines."""
        return self.terminal and self._stderr.isatty()

    @property
    def size(self) -> os.terminal_size:
        """The terminal's size at this moment."""
        with suppress(OSError, ValueError):
            size = os.get_terminal_size(self._stdout.fileno())
            if size.columns and size.lines:
                return size
        return _DEFAULT_SIZE

    @property
    def width(self) -> int | None:
        """Columns that a line may take; None where nobody looks at columns."""
        return self.size.columns if self.terminal else None

    def write(self, text: str) -> None:
        """Write to stdout and flush, so that a reader sees it now.

        Much of what is shown was said by apps and other programs: a terminal gets what does it no harm, a
        pipe or a file gets all of it.

        Raises:
            BrokenPipeError: Nobody reads any more.
        """
        self.draw(self.shown(text))

    def shown(self, text: str) -> str:
        """Return what `write` writes of the text."""
        return harmless(text, colours=self._colours) if self._stdout.isatty() else text

    def draw(self, text: str) -> None:
        """Write to stdout as it is; for text that moves the cursor on purpose."""
        self._stdout.write(text)
        self._stdout.flush()

    def lines(self, lines: Iterable[str]) -> None:
        """Write lines to stdout."""
        self.write("".join(f"{line}\n" for line in lines))

    def document(self, value: object) -> None:
        """Write one JSON document: indented on a terminal, else on one line."""
        self.write(_as_json(value, indent=2 if self._stdout.isatty() else None))

    def documents(self, values: Iterable[object]) -> None:
        """Write JSON lines: one document per line, wherever they go."""
        self.write("".join(map(_as_json, values)))

    def remark(self, text: str) -> None:
        """Write a line to stderr; losing it is no reason to stop."""
        with suppress(OSError, ValueError):
            shown = harmless(text, colours=self._colours) if self._stderr.isatty() else text
            self._stderr.write(f"{shown}\n")
            self._stderr.flush()

    def hint(self, text: str) -> None:
        """Remark what could be done next, to somebody who sits at a terminal."""
        if self._stderr.isatty():
            self.remark(self.paint_remark(text, DIM))

    def silence(self) -> None:
        """Drop what is still buffered for a stdout that nobody reads, so that exiting does not complain."""
        with suppress(OSError, ValueError):
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, self._stdout.fileno())
            os.close(null)


def _has_256_colours(environ: Mapping[str, str]) -> bool:
    """Return whether the terminal says so: by its kind, by its colours, or as Windows Terminal."""
    kind = environ.get("TERM", "")
    return "256color" in kind or bool(environ.get("COLORTERM") or environ.get("WT_SESSION"))


def _tolerant(stream: TextIO | None) -> TextIO:
    """Make the stream replace what its encoding lacks; one ``?`` keeps the columns of a terminal aligned."""
    if stream is None:  # started with the descriptor closed
        return open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123  # lives as long as the process
    reconfigure = getattr(stream, "reconfigure", None)  # a real standard stream has it
    if reconfigure is not None:
        reconfigure(errors="replace" if stream.isatty() else "backslashreplace")
    return stream


def _as_json(value: object, indent: int | None = None) -> str:
    import json  # imported here: most commands print text

    return json.dumps(value, indent=indent, allow_nan=False) + "\n"
