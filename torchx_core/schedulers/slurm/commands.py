"""Slurm's command line: the one interface that every version and every site has."""

from __future__ import annotations

import errno
import subprocess
from collections.abc import Callable, Mapping, Sequence
from signal import NSIG
from typing import TypeVar

from torchx_core.errors import SchedulerError
from torchx_core.supervisor.signals import signal_name

__all__ = ["PATIENCE_S", "CommandFailed", "NoAnswer", "ask", "call", "failure", "not_started"]

T = TypeVar("T")

PATIENCE_S = 60.0
"""How long one of Slurm's commands may take."""
_LASTING = frozenset({errno.ENOENT, errno.EACCES, errno.EPERM, errno.ENOEXEC, errno.ENOTDIR})
"""Why a command cannot be started now or later; other reasons, such as a full process table, pass."""
_AWAY = (
    "Unable to contact slurm controller",
    "Socket timed out",
    "Connection refused",
    "Zero Bytes were transmitted",
    "Transport endpoint is not connected",
    "Insane message length",
    "Slurm backup controller in standby mode",
    "Slurm temporarily unable to accept job",
    "slurm_persist_conn_open",
    "authentication error",  # munged is being started again
)


_SHELLS_KILLED = 128
"""What a shell adds to the number of the signal that killed its program: sites wrap commands in scripts."""
_SSH_LOST = 255
"""What ssh exits with when it has no connection, or none any more."""


class CommandFailed(SchedulerError):
    """Slurm refused: the same command will fail again."""

    def __init__(self, program: str, said: str) -> None:
        """Name the command and quote what it said."""
        super().__init__(f"{program}: {said}")
        self.said = said


class NoAnswer(SchedulerError):
    """Slurm's answer did not arrive; nobody knows whether it did what was asked."""

    def __init__(self, program: str, said: str) -> None:
        """Name the command and say what came in place of an answer."""
        super().__init__(f"{program}: no answer from Slurm's controller: {said}", retryable=True)


def ask(command: Sequence[str], parse: Callable[[str], T], *, patience_s: float = PATIENCE_S) -> T:
    """Run a command of Slurm's and return what its answer means.

    Args:
        command: Its words.
        parse: Reads what it prints; raises ValueError when that is no answer.
        patience_s: How long to wait for it.

    Raises:
        CommandFailed: It refused, or cannot be started.
        NoAnswer: The controller is away, or the command was killed.
    """
    try:
        return parse(call(command, patience_s=patience_s))
    except ValueError as err:
        raise NoAnswer(command[0], str(err)) from err


def call(
    command: Sequence[str], env: Mapping[str, str] | None = None, *, patience_s: float = PATIENCE_S
) -> str:
    """Run a command of Slurm's and return what it prints.

    Args:
        command: Its words.
        env: Its environment; None for ours.
        patience_s: How long to wait for it.

    Raises:
        CommandFailed: It refused, or cannot be started.
        NoAnswer: The controller is away, or the command was killed.
    """
    try:
        done = subprocess.run(
            command,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=patience_s,
            cwd="/",  # ours may be gone
        )
    except OSError as err:
        raise not_started(command[0], err) from err
    except subprocess.TimeoutExpired as err:
        raise NoAnswer(command[0], f"nothing within {patience_s:g} s") from err
    if done.returncode:
        raise failure(command[0], done.returncode, done.stderr)
    return done.stdout.decode("utf-8", "replace")


def not_started(program: str, err: OSError) -> CommandFailed | NoAnswer:
    """Return the error for a command that has not run, so that it has done nothing."""
    if isinstance(err, FileNotFoundError):
        return CommandFailed(program, "not found; is this a host of the cluster?")
    kind = CommandFailed if err.errno in _LASTING else NoAnswer
    return kind(program, f"cannot be started: {err.strerror}")


def failure(program: str, code: int, stderr: bytes) -> CommandFailed | NoAnswer:
    """Return the error that a command's end means.

    One that was killed, or whose connection was lost where a site has put ssh in its place, has not refused:
    the controller may have heard it before.

    Args:
        program: Its name.
        code: As `subprocess` has it, not 0.
        stderr: Its last words.
    """
    lines = stderr.decode("utf-8", "replace").splitlines()
    said = "; ".join(line.removeprefix(f"{program}: error: ").strip() for line in lines if line.strip())
    killer = -code if code < 0 else code - _SHELLS_KILLED
    if 0 < killer < NSIG:
        return NoAnswer(program, f"it was killed by {signal_name(killer)}{said and '; it said: '}{said}")
    told = said or f"it ended with exit code {code} and without a word"
    away = code == _SSH_LOST or any(words in said for words in _AWAY)
    return NoAnswer(program, told) if away else CommandFailed(program, told)
