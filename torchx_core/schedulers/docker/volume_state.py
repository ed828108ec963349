"""What the replicas' scripts and programs wrote on the app's volume, read from an archive of it."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from torchx_core.supervisor.reading import AGENT, MAX_ERROR_FILE_BYTES
from torchx_core.supervisor.usage import as_mb

__all__ = [
    "Attempt",
    "Over",
    "VolumeState",
    "archive",
    "last_result",
    "read_volume_state",
    "report_files",
]

_DIGITS = 19


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One start of one replica."""

    number: int
    started_at: float | None = None
    """Seconds since the epoch, by the engine's host; whole ones where the image's ``date`` has no better."""
    ended_at: float | None = None
    code: int | None = None
    """As the container has it: 128 and the signal's number for what was killed."""
    told: bool = False
    """It ended after it was told to."""
    oom: bool = False
    peak_mb: int | None = None
    """The most memory that its container had."""
    cpu_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Over:
    """Why the replicas ended the app by themselves."""

    why: str
    """failed, deadline or lease."""
    index: int = -1
    """Who failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeState:
    """Everything below ``/run/torchx/state``, and the reports once nothing runs."""

    attempts: Mapping[int, tuple[Attempt, ...]] = field(default_factory=dict[int, tuple[Attempt, ...]])
    """Index of each replica -> what its journal says."""
    errors: Mapping[tuple[int, int], str] = field(default_factory=dict[tuple[int, int], str])
    """Index and attempt -> the error file, if it is JSON."""
    over: Over | None = None
    reports: bytes | None = None
    """An archive that has all reports there will be; None while some may come."""


def archive(files: Mapping[str, str], directories: Sequence[str] = ()) -> bytes:
    """Return a tar that everybody may write to, whoever the image's user is."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name in directories:
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode = tarfile.DIRTYPE, 0o1777
            tar.addfile(folder)
        for name, text in files.items():
            data = text.encode()
            file = tarfile.TarInfo(name)
            file.mode, file.size = 0o666, len(data)
            tar.addfile(file, io.BytesIO(data))
    return buffer.getvalue()


def read_volume_state(archive: bytes, *, complete: bool = False) -> VolumeState:
    """Read an archive of ``/run/torchx/state``; what cannot be read is left out.

    Args:
        archive: When complete, of all of ``/run/torchx``.
        complete: Whether it was made when nothing ran any more.
    """
    attempts: dict[int, tuple[Attempt, ...]] = {}
    errors: dict[tuple[int, int], str] = {}
    of_agents: dict[tuple[int, int], str] = {}
    over: Over | None = None
    for name, data in _files(archive):
        what, *numbers = name.removeprefix(AGENT).split(".")
        match what, [int(n) for n in numbers if n.isdecimal()]:
            case "journal", [index]:
                attempts[index] = _journal(data.decode("ascii", "replace"))
            case "error", [index, number]:
                (of_agents if name.startswith(AGENT) else errors)[index, number] = _error(data)
            case "over", []:
                over = _over(data.decode("ascii", "replace"))
            case _:
                continue
    return VolumeState(
        attempts=attempts,
        errors={k: text for each in (of_agents, errors) for k, text in each.items() if text},
        over=over,
        reports=archive if complete else None,
    )


def report_files(archive: bytes) -> dict[tuple[int, int], list[bytes]]:
    """Return the lines of every report file, by index of the replica and number of the attempt."""
    files: dict[tuple[int, int], list[bytes]] = {}
    for name, data in _files(archive):
        index, _, attempt = name.partition(".")
        if index.isdecimal() and attempt.isdecimal():
            files[int(index), int(attempt)] = data.split(b"\n")
    return files


def last_result(archive: bytes) -> object:
    """Return the last result in an archive that has ``/run/torchx/reports``, or None.

    Of several replicas' results the one in the file written last counts, in whole seconds.
    """
    result: object = None
    for lines in report_files(archive).values():
        for line in lines:
            report = _json(line)
            if isinstance(report, dict) and cast("dict[str, object]", report).get("type") == "result":
                result = cast("dict[str, object]", report).get("value")
    return result


def _files(archive: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of each file, the one written last at the end."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        for member in sorted(tar, key=lambda m: m.mtime):
            file = tar.extractfile(member) if member.isfile() else None
            if file is not None:
                yield member.name.rpartition("/")[2], file.read()


def _journal(text: str) -> tuple[Attempt, ...]:
    attempts: list[Attempt] = []
    for line in text.splitlines():
        match line.split():
            case ["start", number, *time] if number.isdecimal():
                attempts.append(Attempt(number=int(number), started_at=_seconds(time)))
            case ["end", number, code, told, *more] if attempts and number.isdecimal() and code.isdecimal():
                peak, cpu = _numbers(more[1:3])
                attempts[-1] = replace(
                    attempts[-1],
                    code=int(code),
                    told=told == "1",
                    ended_at=_seconds(more),
                    peak_mb=None if peak is None else as_mb(peak),
                    cpu_s=None if cpu is None else cpu / 1e9,
                )
            case _:
                continue
    return tuple(attempts)


def _numbers(words: list[str]) -> tuple[int | None, int | None]:
    """Read two numbers that may be missing; a program may have written more digits than any number has."""
    first, second = [int(w) if w.isdecimal() and len(w) < _DIGITS else None for w in (*words, "", "")][:2]
    return first, second


def _seconds(words: list[str]) -> float | None:
    """Read ``date +%s.%N``; a ``date`` that does not know ``%N`` prints it as it is."""
    whole, _, fraction = (words[0] if words else "").partition(".")
    if not whole.isdecimal():
        return None
    return float(f"{whole}.{fraction}") if fraction.isdecimal() else float(whole)


def _over(text: str) -> Over | None:
    match text.split():
        case ["failed", index, *_] if index.isdecimal():
            return Over(why="failed", index=int(index))
        case [("deadline" | "lease") as why]:
            return Over(why=why)
        case _:
            return None


def _error(data: bytes) -> str:
    return (
        data.decode("utf-8", "replace")
        if len(data) <= MAX_ERROR_FILE_BYTES and _json(data) is not None
        else ""
    )


def _json(data: bytes) -> object:
    try:
        return cast("object", json.loads(data))
    except (ValueError, RecursionError):
        return None
