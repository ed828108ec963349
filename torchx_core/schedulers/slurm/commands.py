"""Slurm's command line: the one interface that every version and every site has."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from torchx_core.errors import SchedulerError

__all__ = ["CommandFailed", "NoAnswer", "ask", "call"]

T = TypeVar("T")

_PATIENCE_S = 60.0
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
)


class CommandFailed(SchedulerError):
    """Slurm refused: the same command will fail again."""

    def __init__(self, program: str, said: str) -> None:
        """Name the command and quote what it said."""
        super().__init__(f"{program}: {said}")
        self.said = said


class NoAnswer(SchedulerError):
    """The controller did not answer; nobody knows whether it did what was asked."""

    def __init__(self, program: str, said: str) -> None:
        """Name the command and quote what it said."""
        super().__init__(f"{program}: no answer from Slurm's controller: {said}", retryable=True)


def ask(command: Sequence[str], parse: Callable[[str], T], *, patience_s: float = _PATIENCE_S) -> T:
    """Run a command of Slurm's and return what its answer means.

    Args:
        command: Its words.
        parse: Reads what it prints; raises ValueError when that is no answer.
        patience_s: How long to wait for it.

    Raises:
        CommandFailed: It refused, or is not installed.
        NoAnswer: The controller is away.
    """
    try:
        return parse(call(command, patience_s=patience_s))
    except ValueError as err:
        raise NoAnswer(command[0], str(err)) from err


def call(
    command: Sequence[str], env: Mapping[str, str] | None = None, *, patience_s: float = _PATIENCE_S
) -> str:
    """Run a command of Slurm's and return what it prints.

    Args:
        command: Its words.
        env: Its environment; None for ours.
        patience_s: How long to wait for it.

    Raises:
        CommandFailed: It refused, or is not installed.
        NoAnswer: The controller is away.
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
    except FileNotFoundError as err:
        raise CommandFailed(command[0], "not found; is this a host of the cluster?") from err
    except subprocess.TimeoutExpired as err:
        raise NoAnswer(command[0], f"nothing within {patience_s:g} s") from err
    if done.returncode:
        raise failure(command[0], done.stderr)
    return done.stdout.decode("utf-8", "replace")


def failure(program: str, stderr: bytes) -> CommandFailed | NoAnswer:
    """Return the error that the command's last words mean."""
    lines = stderr.decode("utf-8", "replace").splitlines()
    said = "; ".join(line.removeprefix(f"{program}: error: ").strip() for line in lines if line.strip())
    away = any(words in said for words in _AWAY)
    return NoAnswer(program, said) if away else CommandFailed(program, said or os.strerror(5))
