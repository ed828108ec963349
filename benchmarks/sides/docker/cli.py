"""The ``docker`` command line, as many of them at once as there are containers."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.sides.docker.side import IMAGE

_READ_SIZE = 1 << 16


def create(folder: Path) -> CommandLine:
    """Return it."""
    del folder
    return CommandLine()


class CommandLine:
    """``docker run``, ``docker stop`` and ``docker logs``."""

    def __init__(self) -> None:
        """Start nothing."""
        self._ids: list[str] = []
        self._networks: list[str] = []

    def submit(self, command: Sequence[str], replicas: int = 1, *, network: bool = False) -> list[str]:
        """Run them all, then collect their ids."""
        run = ["docker", "run", "--detach", "--init"]
        if network:
            self._networks.append(_docker("network", "create", f"cli-{len(self._networks)}").strip())
            run += ["--network", self._networks[-1]]
        run += [IMAGE, *command]
        started = [subprocess.Popen(run, stdout=subprocess.PIPE, text=True) for _ in range(replicas)]
        job = [process.communicate()[0].strip() for process in started]
        self._ids += job
        return job

    def wait(self, job: list[str]) -> None:
        """Wait for all with one command."""
        _docker("wait", *job)

    def cancel(self, job: list[str], grace_s: int) -> None:
        """Stop all with one command, which does it at once."""
        _docker("stop", "--time", str(grace_s), *job)

    def read(self, job: list[str]) -> list[str]:
        """Fetch it as a whole."""
        return _docker("logs", job[0]).splitlines()

    def tail(self, job: list[str]) -> Iterator[Sequence[str]]:
        """Read the pipe."""
        follow = ["docker", "logs", "--follow", job[0]]
        with subprocess.Popen(follow, stdout=subprocess.PIPE, bufsize=0) as process:
            assert process.stdout is not None
            rest = ""
            while data := process.stdout.read(_READ_SIZE):
                *lines, rest = (rest + data.decode()).split("\n")
                yield lines

    def close(self) -> None:
        """Remove all with one command."""
        if self._ids:
            _docker("rm", "--force", "--volumes", *self._ids)
        if self._networks:
            _docker("network", "rm", *self._networks)


def _docker(*arguments: str) -> str:
    return subprocess.run(["docker", *arguments], check=True, stdout=subprocess.PIPE, text=True).stdout
