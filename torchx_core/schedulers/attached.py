"""Runs a program on this process's own standard streams, as a shell does: terminal and keys are its own."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from torchx_core.errors import SchedulerError

__all__ = ["BECOME", "run_attached"]

# On any Python from 3.7 on.
BECOME: Final = r"""
import signal
if sys.stdin.isatty() and "TERM" in os.environ:
    env[b"TERM"] = os.environb[b"TERM"]
for number in (signal.SIGPIPE, signal.SIGXFSZ):  # which Python ignores, and a command would go on ignoring
    signal.signal(number, signal.SIG_DFL)
try:
    os.execvpe(argv[0], argv, env)
except OSError as err:
    sys.stderr.write("torchx: cannot run %s: %s\n" % (argv[0], err.strerror))
    sys.exit(127 if isinstance(err, FileNotFoundError) else 126)
"""
"""Ends a program that has put a replica's environment into ``env``: it becomes the command ``argv``."""

_SIGNAL_BASE = 128
_STDOUT = 1
_LEAVING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_PATIENCE_S = 5.0


def run_attached(
    argv: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
    needs_reader: bool = False,
) -> int:
    """Run the program to its end and return its exit code, as a shell has it: 128 and more for a signal.

    Ctrl-C at the terminal reaches the program by itself, which decides what becomes of it; what else makes
    this process leave (SystemExit in a signal's handler, say) asks the program to end first.

    Args:
        argv: The program and its arguments.
        env: Its environment; None for ours.
        cwd: Where it starts; None for our directory.
        needs_reader: End it when nobody reads our output any more: it stands for a program elsewhere, and
            does not see to that itself.

    Raises:
        SchedulerError: It cannot be started.
        BrokenPipeError: Nobody reads our output any more.
    """
    process: subprocess.Popen[bytes] | None = None
    try:
        with _handlers_wait():
            process = _start(argv, env, cwd)
        code = _wait(process, needs_reader=needs_reader)
    except BaseException:
        if process is not None:
            _end(process)
        raise
    return code if code >= 0 else _SIGNAL_BASE - code


def _start(argv: Sequence[str], env: Mapping[str, str] | None, cwd: str | None) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(argv, env=env, cwd=cwd)
    except OSError as err:
        raise SchedulerError(f"cannot run {argv[0]!r}: {err.strerror or err}") from err


@contextmanager
def _handlers_wait() -> Generator[None]:
    """Have the handlers of signals wait: what one raises while a program starts would leave that behind.

    Ctrl-C needs none afterwards: the program has heard it, too.
    """
    if threading.current_thread() is not threading.main_thread():  # they run in that one
        yield
        return
    came: list[int] = []
    handlers = {number: signal.getsignal(number) for number in _LEAVING}
    for number, handler in handlers.items():
        if callable(handler):
            signal.signal(number, lambda caught, _frame: came.append(caught))
    try:
        yield
    finally:
        for number, handler in handlers.items():
            if callable(handler):
                signal.signal(number, handler)
    for each in came:
        if each != signal.SIGINT:
            signal.raise_signal(each)


def _wait(process: subprocess.Popen[bytes], *, needs_reader: bool) -> int:
    while True:
        try:
            if needs_reader:
                _mind_the_reader(process.pid)
            return process.wait()
        except KeyboardInterrupt:  # the program has heard it, too
            continue


def _mind_the_reader(pid: int) -> None:
    """Wait until the process has ended, or the pipe that is our output has no reader."""
    ended = os.pidfd_open(pid)
    try:
        poller = select.poll()
        poller.register(ended, select.POLLIN)
        poller.register(_STDOUT, 0)  # an error is told all the same
        if ended not in dict(poller.poll()):
            raise BrokenPipeError
    finally:
        os.close(ended)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(_PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
