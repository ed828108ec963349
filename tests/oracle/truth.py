"""What the witnesses wrote down, read back."""

from __future__ import annotations

import fcntl
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from witness import line

__all__ = ["Copy", "Key", "Said", "living", "read_truth"]

_PACKET = 4096
"""Bytes of a write(2) that surely is one piece in a pipe."""

Key = tuple[str, int, int]
"""Role, replica, attempt."""


class Said(NamedTuple):
    """One line that a witness printed, or was about to print when it was killed."""

    stream: str
    number: int
    text: str
    eol: bool
    sure: bool
    """Whether the write(2) is known to have returned."""
    whole: bool
    """Whether one write(2) carried it, so that it has one place between the lines of the other stream."""


@dataclass(slots=True)
class Copy:
    """One process that ran as an attempt of a replica."""

    role: str
    replica: int
    attempt: int
    copy: int
    who: str = ""
    """What its lines say they are from."""
    pid: int = 0
    parent: int = 0
    started: float = 0.0
    last: float = 0.0
    said: list[Said] = field(default_factory=list)
    reports: list[tuple[dict[str, Any], bool]] = field(default_factory=list)
    """Each report, and whether it is known to have been handed over."""
    exit_code: int | None = None
    signal: str | None = None
    told: bool = False
    """It noted a SIGTERM."""
    overlap: bool = False
    broken_pipe: bool = False
    children: list[int] = field(default_factory=list)

    @property
    def key(self) -> Key:
        """Whose attempt it was."""
        return self.role, self.replica, self.attempt


def read_truth(directory: Path) -> list[Copy]:
    """Return every copy that ever ran, in the order of their starts."""
    copies = [_read_copy(path) for path in directory.glob("*.notes")]
    return sorted((c for c in copies if c.pid), key=lambda c: c.started)


def living(directory: Path) -> list[str]:
    """Return the names of the witnesses and grandchildren that still run."""
    return sorted(path.name.removesuffix(".alive") for path in directory.glob("*.alive") if _is_held(path))


def _is_held(path: Path) -> bool:
    fd = os.open(path, os.O_RDWR)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def _read_copy(path: Path) -> Copy:
    role, replica, attempt, number, _ = path.name.split(".")
    copy = Copy(role, int(replica), int(attempt), int(number))
    for text in path.read_text().splitlines():
        try:
            _take(copy, json.loads(text))
        except ValueError:  # killed within its last note
            break
    return copy


def _take(copy: Copy, note: dict[str, Any]) -> None:
    copy.last = note["time"]
    match note["what"]:
        case "start":
            copy.pid, copy.parent, copy.started = note["pid"], note["parent"], note["time"]
            copy.who = note["who"]
        case "print":
            copy.said += _lines(copy, note)
        case "printed":
            _make_sure(copy.said)
        case "report":
            copy.reports.append((note["report"], False))
        case "reported":
            copy.reports[-1] = (copy.reports[-1][0], True)
        case "exit" | "die":
            copy.exit_code, copy.signal = note.get("code"), note.get("signal")
        case "child":
            copy.children.append(note["pid"])
        case flag:  # told, overlap, broken_pipe
            setattr(copy, flag, True)


def _make_sure(said: list[Said]) -> None:
    for i in range(len(said) - 1, -1, -1):
        if said[i].sure:
            return
        said[i] = said[i]._replace(sure=True)


def _lines(copy: Copy, note: dict[str, Any]) -> list[Said]:
    stream, kind, size = note["stream"], note["kind"], note["size"]
    texts = [line(copy.who, stream, note["first"] + i, kind, size) for i in range(note["count"])]
    return [
        Said(
            stream=stream,
            number=note["first"] + i,
            text=text.decode("utf-8", "replace"),
            eol=bool(note["end"]),
            sure=False,
            whole=not note.get("cut") and len(texts) * (len(text) + 1) < _PACKET,
        )
        for i, text in enumerate(texts)
    ]
