"""A question on its way to Slurm: a process whose end is looked for, not waited for."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Sequence
from typing import IO, Generic, TypeVar

from torchx_core.schedulers.slurm.commands import PATIENCE_S, CommandFailed, NoAnswer, failure, not_started

__all__ = ["Question"]

T = TypeVar("T")


class Question(Generic[T]):
    """One command, started when this is made; whoever made it takes the answer, or drops it."""

    def __init__(self, command: Sequence[str], parse: Callable[[str], T]) -> None:
        """Ask.

        Args:
            command: The command line.
            parse: Reads what the command prints; raises ValueError when that is no answer.
        """
        self.asked_at: float = time.monotonic()
        self.took_s: float = 0.0
        """How long the answer took, whenever it was looked for; set with the answer."""
        self._clock = time.time()
        self._program = command[0]
        self._parse = parse
        # A pipe would fill up while nobody reads, and a disk may be full or read-only.
        self._output: IO[bytes] = os.fdopen(os.memfd_create("output"), "w+b")
        self._errors: IO[bytes] = os.fdopen(os.memfd_create("errors"), "w+b")
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=self._output, stderr=self._errors, cwd="/"
            )
        except OSError as err:
            self._failure: CommandFailed | NoAnswer = not_started(command[0], err)

    def drop(self) -> None:
        """Forget it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._output.close()
        self._errors.close()

    def answer(self) -> T | Exception | None:
        """Return the answer, or why there is none, or None as long as it is on its way."""
        if self._process is None:
            self.drop()
            return self._failure
        code = self._process.poll()
        if code is None:
            if time.monotonic() - self.asked_at < PATIENCE_S:
                return None
            self.drop()
            return NoAnswer(self._program, f"nothing within {PATIENCE_S:g} s")
        with self._output, self._errors:
            self.took_s = max(0.0, os.fstat(self._output.fileno()).st_mtime - self._clock)
            for file in (self._output, self._errors):
                file.seek(0)
            if code:
                return failure(self._program, code, self._errors.read())
            try:
                return self._parse(self._output.read().decode("utf-8", "replace"))
            except ValueError as err:
                return NoAnswer(self._program, str(err))
