"""Runs a command in a replica's container, with this process's standard streams on the command's.

Whoever leaves, or loses the connection, leaves the command running: an engine ends none for that. So a shell
says first which process it is, and then becomes the command; that process can be sent a signal.
"""

from __future__ import annotations

import os
import select
import termios
import time
import tty
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from struct import Struct
from typing import Final

from torchx_core.errors import SchedulerError
from torchx_core.schedulers.docker.client import Engine
from torchx_core.schedulers.docker.exchange import ProtocolError
from torchx_core.schedulers.docker.sdk import unreachable
from torchx_core.schedulers.docker.shim import ERRORS, REPORTS
from torchx_core.schedulers.docker.stream import Stream, open_stream
from torchx_core.schedulers.docker.view import AppView, ReplicaView

__all__ = ["TELL", "Frames", "WindowSize", "run_inside"]

_STDIN, _STDOUT, _STDERR = 0, 1, 2
_SIZE: Final = 1 << 16
_LOOK_S: Final = 0.2
"""How soon a window's new size is noticed, and a request for it that failed is made again."""
_END_S, _PAUSE_S = 10.0, 0.02
"""How long the engine may take to tell how a command ended whose output has, and how often to ask."""
_MOST_INTERRUPTS: Final = 3
_SAY_WHO: Final = 'echo $$; exec "$@"'
TELL: Final = 'kill "-$1" "-$2" || kill "-$1" "$2"'
"""To its group, or to it alone if it leads none. After ``-s`` busybox takes no ``--``, and dash wants it."""
_HEADER: Final = Struct(">B3xI")
_MAX_HEAD: Final = 1 << 16


def run_inside(
    engine: Engine, view: AppView, replica: ReplicaView, argv: Sequence[str], *, terminal: bool
) -> int:
    """Run the command and return its exit code.

    Args:
        engine: Where the app is.
        view: How it stands.
        replica: A replica that runs.
        argv: The command.
        terminal: Our streams are a terminal, and the command gets one.

    Raises:
        SchedulerError: The engine refuses, or is away.
    """
    has_shell = view.app.has_shim  # else the image may have none
    words = ["/bin/sh", "-c", _SAY_WHO, "torchx", *argv] if has_shell else argv
    command = engine.prepare(
        replica.container, words, _environment(view, replica, terminal=terminal), terminal=terminal
    )
    session = _Session(engine, replica.container, command, terminal=terminal, says_who=has_shell)
    with _raw_terminal(on=terminal):
        session.run()
    return _exit_code(engine, command)


def _environment(view: AppView, replica: ReplicaView, *, terminal: bool) -> dict[str, str]:
    """Return what the program has besides what its container gives to everything in it."""
    env = {"TERM": os.environ["TERM"]} if terminal and "TERM" in os.environ else {}
    if not view.app.has_shim:
        return env
    index, attempt = replica.planned.index, replica.last.number if replica.last else 0
    return {
        **env,
        "TORCHX_ATTEMPT": str(attempt),
        "TORCHX_REPORT_FILE": f"{REPORTS}/{index}.{attempt}",
        "TORCHELASTIC_ERROR_FILE": f"{ERRORS}.{index}.{attempt}",
    }


@contextmanager
def _raw_terminal(*, on: bool) -> Generator[None]:
    """Hand every key on as it is: Ctrl-C is for the command's terminal, which makes a signal of it there."""
    before = termios.tcgetattr(_STDIN) if on else None
    if before is not None:
        tty.setraw(_STDIN)
    try:
        yield
    finally:
        if before is not None:
            termios.tcsetattr(_STDIN, termios.TCSADRAIN, before)


def _exit_code(engine: Engine, command: str) -> int:
    until = time.monotonic() + _END_S
    while (code := engine.exit_code_of(command)) is None:
        if time.monotonic() > until:
            raise SchedulerError("the connection to the command was lost; it may go on", retryable=True)
        time.sleep(_PAUSE_S)  # noqa: TID251  # nothing tells
    return code


class _Session:
    """The command's streams and ours, until its output ends."""

    def __init__(
        self, engine: Engine, container: str, command: str, *, terminal: bool, says_who: bool
    ) -> None:
        self._engine = engine
        self._container = container
        self._command = command
        self._terminal = terminal
        self._frames = None if terminal else Frames()
        self._unsent = _start_request(engine, command, terminal=terminal)
        self._answered = False
        self._head = b""
        self._says_who = says_who
        self._who = b""
        """The command's process, as its container counts them, once it has said that."""
        self._window = WindowSize(partial(engine.resize, command)) if terminal else None
        self._stdin_open = True

    def run(self) -> None:
        """Move what there is to move; tell the command of Ctrl-C, and of our end if we have to leave."""
        interrupts = 0
        try:
            stream = open_stream(self._engine.endpoint)
        except OSError as err:
            raise unreachable(self._engine.endpoint, err) from err
        try:
            while True:
                try:
                    self._move_all(stream)
                except KeyboardInterrupt:
                    interrupts += 1
                    if interrupts == _MOST_INTERRUPTS or not self._tell("INT"):
                        raise
                else:
                    return
        except OSError as err:
            if isinstance(err, BrokenPipeError):  # nobody reads what we print
                self._tell("PIPE")
                raise
            raise unreachable(self._engine.endpoint, err) from err
        except BaseException:
            self._tell("HUP" if self._terminal else "TERM")
            raise
        finally:
            stream.close()

    def _move_all(self, stream: Stream) -> None:
        while self._move(stream):
            if self._window is not None and self._answered:
                self._window.hand_on()

    def _move(self, stream: Stream) -> bool:
        """Wait for something to happen, and move it; return whether there may be more."""
        readers: list[int] = [stream.fileno()]
        if self._stdin_open and self._answered and not self._unsent:
            readers.append(_STDIN)
        writers = [stream.fileno()] if self._unsent or stream.wants_write else []
        ready, _, _ = select.select(readers, writers, [], _LOOK_S if self._terminal else None)
        if _STDIN in ready:
            self._read_input(stream)
        if self._unsent:
            self._unsent = self._unsent[stream.send(self._unsent) :]
        while (data := stream.receive(_SIZE)) is not None:
            if not data:
                return False
            self._take(data)
        return True

    def _read_input(self, stream: Stream) -> None:
        try:
            data = os.read(_STDIN, _SIZE)
        except OSError:  # the terminal is gone
            data = b""
        if data:
            self._unsent += data
        else:
            self._stdin_open = False
            with suppress(OSError):
                stream.end()

    def _take(self, data: bytes) -> None:
        if not self._answered:
            self._head += data
            head, found, data = self._head.partition(b"\r\n\r\n")
            if not found and len(self._head) > _MAX_HEAD:
                raise ProtocolError("no end of the header")
            if not found:
                return
            self._check(head, data)
        if self._frames is None:
            self._write(_STDOUT, data)
        else:
            for stream, piece in self._frames.take(data):
                self._write(stream, piece)

    def _check(self, head: bytes, body: bytes) -> None:
        """See that the engine has started the command.

        Source: it answers 101, or 200 where something between the two has dropped the words of the upgrade.
        """
        words = head.split(None, 2)
        if len(words) < 2 or words[1] not in (b"101", b"200"):  # noqa: PLR2004  # RFC 9112
            said = body.decode(errors="replace").strip() or head.decode(errors="replace")
            raise SchedulerError(f"cannot run a command in container {self._container}: {said[:500]}")
        self._answered = True

    def _write(self, fd: int, data: bytes) -> None:
        if self._says_who and fd == _STDOUT:
            self._who += data
            first, found, data = self._who.partition(b"\n")
            if not found:
                return
            self._says_who, self._who = False, first.strip()
            if not self._who.isdigit():  # no shell: what it is told is why
                self._who, data = b"", first + found + data
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]

    def _tell(self, signal: str) -> bool:
        """Send the command a signal; return whether that could be done."""
        if self._says_who or not self._who:
            return False
        with suppress(SchedulerError):
            words = ["/bin/sh", "-c", TELL, "torchx", signal, self._who.decode()]
            self._engine.start_apart(self._engine.prepare(self._container, words, {}, terminal=False))
            return True
        return False


def _start_request(engine: Engine, command: str, *, terminal: bool) -> bytes:
    body = b'{"Detach":false,"Tty":%s}' % (b"true" if terminal else b"false")
    head = (
        f"POST /v{engine.api.api_version}/exec/{command}/start HTTP/1.1\r\nHost: engine\r\n"
        "Content-Type: application/json\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


class WindowSize:
    """Gives the command's terminal the size of our window, when we begin and whenever that changes."""

    def __init__(self, resize: Callable[[int, int], None]) -> None:
        """Begin with a terminal that has no size yet.

        Args:
            resize: Gives the command's terminal that many columns and lines; raises `SchedulerError` if not.
        """
        self._resize = resize
        self._taken: os.terminal_size | None = None
        """What the engine has taken: a size that it has refused is not one, and is sent again."""
        self._next_try = 0.0

    def hand_on(self) -> None:
        """Send the size if it is not the command's yet; after a failure not sooner than the next look."""
        with suppress(OSError, SchedulerError):  # no window, or an engine that is away for a moment
            size = os.get_terminal_size(_STDOUT)
            if size != self._taken and time.monotonic() >= self._next_try:
                self._next_try = time.monotonic() + _LOOK_S
                self._resize(size.columns, size.lines)
                self._taken, self._next_try = size, 0.0


class Frames:
    """Takes stdout and stderr apart again, which the engine sends as frames on one connection.

    Source: the engine's API reference, "Stream format" of ``ContainerAttach``.
    """

    def __init__(self) -> None:
        """Begin at a frame's first byte."""
        self._rest = b""

    def take(self, data: bytes) -> list[tuple[int, bytes]]:
        """Return descriptor and content of each frame that is complete with these bytes."""
        data = self._rest + data
        found: list[tuple[int, bytes]] = []
        at = 0
        while len(data) - at >= _HEADER.size:
            stream, size = _HEADER.unpack_from(data, at)
            start = at + _HEADER.size
            if len(data) < start + size:
                break
            found.append((_STDERR if stream == _STDERR else _STDOUT, data[start : start + size]))
            at = start + size
        self._rest = data[at:]
        return found
