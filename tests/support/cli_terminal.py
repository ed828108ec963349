"""The command line as its users meet it: in a terminal, or in a pipe."""

from __future__ import annotations

import fcntl
import os
import select
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import cast

import pyte

from torchx_core.testing import wait_until

# Makes the terminal on stdin the controlling one, as a login does, so that Ctrl-C there becomes a signal.
_LOGIN = "import os, sys; os.login_tty(0); os.execvp(sys.argv[1], sys.argv[1:])"
# The same, with the program's stdout in a pipe, as in `torchx-core … | cat`; Ctrl-C reaches both of them.
_PIPED = """
import os, signal, subprocess, sys
os.login_tty(0)
signal.signal(signal.SIGINT, lambda *_: None)
cat = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
program = subprocess.Popen(sys.argv[1:], stdout=cat.stdin)
cat.stdin.close()
code = program.wait()
cat.wait()
sys.exit(code)
"""


def torchx_core(
    *args: str, env: Mapping[str, str] | None = None, stdin: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the program in pipes and return what it printed and its exit code."""
    return subprocess.run(
        [sys.executable, "-m", "torchx_core", *args],
        env={**os.environ, **(env or {})},
        input=stdin if stdin is not None else "",
        capture_output=True,
        text=True,
        check=False,
    )


@contextmanager
def in_pipes(*args: str) -> Iterator[subprocess.Popen[str]]:
    """Start the program in pipes; kill it if it still runs in the end."""
    command = [sys.executable, "-m", "torchx_core", *args]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def in_terminal(
    *args: str,
    columns: int = 100,
    lines: int = 24,
    env: Mapping[str, str] | None = None,
    pipe: bool = False,
) -> Iterator[Terminal]:
    """Start the program in a terminal of that size; kill it if it still runs in the end.

    With ``pipe``, as a shell would start ``torchx-core … | cat`` in it.
    """
    primary, secondary = os.openpty()
    terminal = Terminal(primary, columns, lines)
    start = _PIPED if pipe else _LOGIN
    process = subprocess.Popen(
        [sys.executable, "-c", start, sys.executable, "-m", "torchx_core", *args],
        env={**_without_size(), "TERM": "xterm-256color", **(env or {})},
        stdin=secondary,
        stdout=secondary,
        stderr=secondary,
    )
    os.close(secondary)
    terminal.process = process
    try:
        yield terminal
    finally:
        process.kill()
        process.wait()
        os.close(primary)


def _without_size() -> dict[str, str]:
    """Return our environment; the size is the terminal's, whatever pytest-xdist tells its workers."""
    return {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}


class Terminal:
    """A terminal, what is on its screen, and what has scrolled off it."""

    process: subprocess.Popen[bytes]

    def __init__(self, fd: int, columns: int, lines: int) -> None:
        """Clear the screen."""
        self._fd = fd
        self._screen = pyte.HistoryScreen(columns, lines, history=10_000, ratio=1.0)
        self._stream = pyte.ByteStream(self._screen)
        self.raw = b""
        fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def resize(self, columns: int, lines: int) -> None:
        """Do what a user does at the window's corner."""
        self._screen.resize(lines, columns)
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def press(self, keys: str) -> None:
        """Type."""
        os.write(self._fd, keys.encode())

    def shown(self) -> list[str]:
        """Return the lines of the screen, without those that are empty."""
        self._pump()
        return [line.rstrip() for line in self._screen.display if line.strip()]

    def rows(self) -> list[list[pyte.screens.Char]]:
        """Return the screen's characters, with their colours."""
        self._pump()
        buffer, columns = self._screen.buffer, range(self._screen.columns)
        return [[buffer[y][x] for x in columns] for y in range(self._screen.lines)]

    def scrolled(self) -> list[str]:
        """Return every line, from what scrolled off first to the last on the screen."""
        self._pump()
        rows = cast("list[Mapping[int, pyte.screens.Char]]", list(self._screen.history.top))
        above = ["".join(row[x].data for x in range(self._screen.columns)).rstrip() for row in rows]
        return [line for line in above if line] + self.shown()

    def wait_for(self, text: str, timeout_s: float = 60.0) -> None:
        """Wait until the text is on the screen."""
        wait_until(lambda: text in "\n".join(self.shown()), timeout_s)

    def colour_of(self, text: str) -> str:
        """Return the colour of the first letter of the text on the screen."""
        for y, line in enumerate(self._screen.display):
            if text in line:
                return self._screen.buffer[y][line.index(text)].fg
        raise AssertionError(f"{text!r} is not on the screen: {self.shown()}")

    def exit_code(self) -> int:
        """Wait for the program's end, and take in what it wrote last."""
        wait_until(self._ended, 240)
        self._pump()
        return self.process.wait()

    def interrupt(self) -> None:
        """Press Ctrl-C."""
        self.press("\x03")

    def settings(self) -> object:
        """Return the terminal's settings."""
        return termios.tcgetattr(self._fd)

    def echoes(self) -> bool:
        """Return whether what is typed is shown."""
        return bool(termios.tcgetattr(self._fd)[3] & termios.ECHO)

    def _ended(self) -> bool:
        self._pump()  # a program cannot end while nobody takes what it writes
        return self.process.poll() is not None

    def _pump(self) -> None:
        while select.select([self._fd], [], [], 0)[0]:
            try:
                data = os.read(self._fd, 1 << 16)
            except OSError:  # EIO: the program has closed the terminal
                return
            self.raw += data
            self._stream.feed(data)
