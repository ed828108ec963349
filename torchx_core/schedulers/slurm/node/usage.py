"""What the processes of a program use just now, for whoever has asked: as ``/proc`` has it."""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from typing import Iterator, NamedTuple  # noqa: UP035  (Python 3.7)

from torchx_core.supervisor.reading import DamagedFile, read_bytes

ASKED = "usage.asked"
"""In the app's directory: whoever wants to know writes something new here."""
ANSWER = "usage.json"
"""In an attempt's directory: what it used when it was last asked."""
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Process(NamedTuple):
    """One process of this node."""

    pid: int
    parent: int
    session: int
    ticks: int
    """CPU time, with that of those that it has waited for."""
    memory_bytes: int


class UsageReporter:
    """Answers, as often as somebody asks; while nobody does, it costs a look for a file."""

    def __init__(self, directory: str, folder: str, pid: int) -> None:
        self._path: str = os.path.join(directory, ASKED)
        self._answer: str = os.path.join(folder, ANSWER)
        self._pid: int = pid
        self._seen: bytes = b""

    def look(self) -> None:
        """Write down what the program uses, if somebody has asked since the last look."""
        try:
            asked = read_bytes(self._path)
        except (OSError, DamagedFile):
            return
        if asked != self._seen:
            self._seen = asked
            with suppress(OSError):  # the disk is full, or its server away: nothing depends on it
                _replace(self._answer, usage_of(self._pid))


def usage_of(pid: int) -> dict[str, object]:
    """Return what a program uses that runs in a session of its own, with all that it has started.

    Args:
        pid: Its main process.
    """
    mine = list(_family(pid, list(_processes())))
    moved = [_moved(process.pid) for process in mine]
    known = [sizes for sizes in moved if sizes is not None]
    return {
        "time": time.time(),
        "cpu_s": round(sum(process.ticks for process in mine) / _TICKS_PER_S, 3),
        "memory_bytes": sum(process.memory_bytes for process in mine),
        "processes": len(mine),
        "read_bytes": sum(sizes[0] for sizes in known) if len(known) == len(mine) else None,
        "write_bytes": sum(sizes[1] for sizes in known) if len(known) == len(mine) else None,
    }


def _family(pid: int, everybody: list[Process]) -> Iterator[Process]:
    """Yield those of its session, and all that are below any of them."""
    inside = {process.pid for process in everybody if process.session == pid}
    grown = True
    while grown:
        below = {process.pid for process in everybody if process.parent in inside} - inside
        inside |= below
        grown = bool(below)
    return (process for process in everybody if process.pid in inside)


def _processes() -> Iterator[Process]:
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError, DamagedFile, ValueError, IndexError):  # it has ended
                # See proc(5): the fields behind the name, which may have any character.
                fields = read_bytes(f"/proc/{name}/stat").rpartition(b")")[2].split()
                ticks = sum(map(int, fields[11:15]))
                memory = int(fields[21]) * _PAGE
                yield Process(int(name), int(fields[1]), int(fields[3]), ticks, memory)


def _moved(pid: int) -> tuple[int, int] | None:
    """Return how much was read from disks and written to them; None where the kernel does not say."""
    try:
        lines = read_bytes(f"/proc/{pid}/io").splitlines()
        fields = dict(line.split(b": ") for line in lines)
        return int(fields[b"read_bytes"]), int(fields[b"write_bytes"])
    except (OSError, DamagedFile, ValueError, KeyError):
        return None


def _replace(path: str, value: dict[str, object]) -> None:
    temporary = f"{path}.{os.urandom(6).hex()}"
    try:
        with open(temporary, "w") as file:
            json.dump(value, file)
        os.replace(temporary, path)
    except OSError:
        with suppress(OSError):
            os.unlink(temporary)
        raise
