"""Where this process comes from: its command, and the commit of its working directory."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from typing import NamedTuple

__all__ = ["GitState", "command_line", "find_git_state", "is_child"]

_LONGEST_S = 10.0


def is_child() -> bool:
    """Return whether `multiprocessing` started this process: its command says nothing of the program."""
    processes = sys.modules.get("multiprocessing.process")
    return processes is not None and processes.parent_process() is not None


def command_line() -> str:
    """Return the words that this process was started with, as a shell takes them."""
    return shlex.join(sys.orig_argv)


class GitState(NamedTuple):
    """A commit, and whether tracked files differ from it."""

    commit: str
    is_dirty: bool


def find_git_state() -> GitState | None:
    """Return the state of the working directory's repository; None where git knows of none."""
    try:
        commit = _git("rev-parse", "HEAD")
        return GitState(commit, bool(_git("status", "--porcelain", "--untracked-files=no")))
    except (OSError, subprocess.SubprocessError):
        return None


def _git(*words: str) -> str:
    return subprocess.run(
        ["git", *words],
        check=True,
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        timeout=_LONGEST_S,
        env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},
    ).stdout.strip()
