"""The floor: what Python's standard library and the kernel do, with nothing kept and nothing promised."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

_READ_SIZE = 1 << 16


class Job(NamedTuple):
    """Some processes and where their logs are."""

    processes: list[subprocess.Popen[str]]
    folder: Path


def create(folder: Path) -> Floor:
    """Return it; logs go into the folder."""
    return Floor(folder)


class Floor:
    """`subprocess.Popen` and plain files."""

    importing = "pass"
    starting = "import subprocess; subprocess.Popen(['true'])"

    def __init__(self, folder: Path) -> None:
        """Start nothing."""
        self._folder = folder
        self._names = itertools.count()
        self._jobs: list[Job] = []

    def submit(
        self, command: Sequence[str], replicas: int = 1, *, log_mode: str = "exact", live: bool = False
    ) -> Job:
        """Start the copies, each in a session of its own and, like TorchX's, with two log files."""
        del log_mode
        job = Job([], self._folder / str(next(self._names)))
        self._jobs.append(job)
        job.folder.mkdir()
        for k in range(replicas):
            job.processes.append(_piped(command) if live else _logged(command, job.folder, k))
        return job

    def wait(self, job: Job, *, tuned: bool = True) -> None:
        """Reap."""
        del tuned
        for process in job.processes:
            process.wait()

    def status(self, job: Job) -> object:
        """Poll."""
        return [process.poll() for process in job.processes]

    def cancel(self, job: Job) -> None:
        """Signal every group."""
        for process in job.processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)

    def read(self, job: Job) -> list[str]:
        """Read the log file."""
        return (job.folder / "0.out").read_text().split("\n")[:-1]

    def read_each(self, job: Job) -> list[str]:
        """Iterate over it."""
        with (job.folder / "0.out").open() as file:
            return list(file)

    def tail(self, job: Job) -> Iterator[Sequence[str]]:
        """Read the pipe."""
        return _lines(job.processes[0])

    def tail_all(self, job: Job, replicas: int) -> list[list[str]]:
        """Read every pipe, each in a thread of its own."""
        found: list[list[str]] = [[] for _ in range(replicas)]

        def gather(k: int) -> None:
            for lines in _lines(job.processes[k]):
                found[k].extend(lines)

        threads = [threading.Thread(target=gather, args=(k,)) for k in range(replicas)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return found

    def watch(self, jobs: Sequence[Job]) -> None:
        """Wait for a process descriptor per process."""
        asyncio.run(_ends([process.pid for job in jobs for process in job.processes]))
        for job in jobs:
            self.wait(job)

    def close(self) -> None:
        """Kill."""
        for process in itertools.chain.from_iterable(job.processes for job in self._jobs):
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def _logged(command: Sequence[str], folder: Path, k: int) -> subprocess.Popen[str]:
    with (folder / f"{k}.out").open("wb") as out, (folder / f"{k}.err").open("wb") as err:
        return subprocess.Popen(command, stdout=out, stderr=err, start_new_session=True, text=True)


def _piped(command: Sequence[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True, text=True)


def _lines(process: subprocess.Popen[str]) -> Iterator[Sequence[str]]:
    """Yield the lines of a piped process as they come, until it has ended."""
    assert process.stdout is not None
    rest = ""
    while data := os.read(process.stdout.fileno(), _READ_SIZE):
        *lines, rest = (rest + data.decode()).split("\n")
        yield lines
    process.wait()


async def _ends(pids: Sequence[int]) -> None:
    loop = asyncio.get_running_loop()
    left = len(pids)
    done = asyncio.Event()

    def ended(fd: int) -> None:
        nonlocal left
        loop.remove_reader(fd)
        os.close(fd)
        left -= 1
        if not left:
            done.set()

    for pid in pids:
        fd = os.pidfd_open(pid)
        loop.add_reader(fd, ended, fd)
    await done.wait()
