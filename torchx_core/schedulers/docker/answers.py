"""What the engine tells of things, of its many words those that matter here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias, cast

from torchx_core.errors import SchedulerError

__all__ = [
    "MEANINGLESS",
    "Container",
    "Figures",
    "Inspection",
    "Json",
    "LogStorage",
    "Refused",
    "Volume",
    "container_of",
    "figures_of",
    "inspection_of",
    "labels_of",
    "read_log_storage",
    "volume_of",
]

Json: TypeAlias = Mapping[str, object]

_NOT_FOUND, _CONFLICT, _SERVER_ERROR = 404, 409, 500
_LOCAL = "local"
_UNITS = {"k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
_UNREACHED = 1e11
"""A ``max-size`` of that many bytes bounds no log: the driver ``local`` knows no other word for that."""


class Refused(SchedulerError):
    """The engine answered with an error; ``status`` is HTTP's."""

    def __init__(self, message: str, *, status: int) -> None:
        """Say what was asked for and what the engine answered."""
        self.status = status
        super().__init__(message)

    @property
    def not_found(self) -> bool:
        """Whether something that the request names does not exist."""
        return self.status == _NOT_FOUND

    @property
    def in_trouble(self) -> bool:
        """Whether the engine cannot, rather than will not: it may later."""
        return self.status >= _SERVER_ERROR

    @property
    def conflict(self) -> bool:
        """Whether the name is taken, or the thing is in a state that does not allow it."""
        # Podman 4.3.1 has an error of the server's for a container's name that is taken.
        return self.status == _CONFLICT or "is already in use by" in str(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """A volume in a list."""

    name: str
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """A container in a list."""

    id: str
    name: str
    state: str
    """created, running, paused, restarting, removing, exited or dead."""
    status: str
    """For people; an exit code is in it, for example ``Exited (3) 2 seconds ago``."""
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """What only a look at one container tells; times are RFC 3339."""

    running: bool
    exit_code: int
    started_at: str
    finished_at: str
    oom_killed: bool
    error: str
    restarts: int


class Figures(NamedTuple):
    """What the engine tells of a container that runs; None for what it, or its control groups, do not say."""

    cpu_s: float | None
    memory_bytes: int | None
    memory_peak_bytes: int | None
    read_bytes: int | None
    write_bytes: int | None


class LogStorage(NamedTuple):
    """How the engine keeps a container's log, as far as a reader must know."""

    rotates: bool
    """The engine drops old ones."""
    drops_newlines: bool
    """A line of several records has no newline at its end.

    So nobody can tell whether the very last line had one, if it is that long; it is taken as whole.
    """


MEANINGLESS = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What reading an answer raises that has not the shape of one, as a proxy's in the engine's stead."""


def labels_of(row: Json) -> Mapping[str, str]:
    """Return the labels, if there are any."""
    return cast("Mapping[str, str] | None", row.get("Labels")) or {}


def volume_of(row: Json) -> Volume:
    """Read a row of the list of volumes."""
    return Volume(name=str(row["Name"]), labels=labels_of(row))


def container_of(row: Json) -> Container:
    """Read a row of the list of containers."""
    names = cast("list[str] | None", row.get("Names")) or ["/"]
    return Container(
        id=str(row["Id"]),
        name=names[0].removeprefix("/"),
        state=str(row["State"]),
        status=str(row["Status"]),
        labels=labels_of(row),
    )


def inspection_of(row: Json) -> Inspection:
    """Read what the engine tells of one container."""
    state = cast("Json", row["State"])
    return Inspection(
        running=bool(state["Running"]),
        exit_code=cast("int", state["ExitCode"]),
        started_at=str(state["StartedAt"]),
        finished_at=str(state["FinishedAt"]),
        oom_killed=bool(state.get("OOMKilled")),
        error=str(state.get("Error") or ""),
        restarts=cast("int", row.get("RestartCount") or 0),
    )


def figures_of(row: Json) -> Figures:
    """Read the engine's statistics of a container.

    How many processes there are is not among them: ``pids_stats`` counts threads. Version 2 of control groups
    has no ``max_usage``, and another name for what is cached.
    """
    memory = cast("Json", row.get("memory_stats") or {})
    caches = cast("Json", memory.get("stats") or {})
    cpu = cast("Json", cast("Json", row.get("cpu_stats") or {}).get("cpu_usage") or {})
    blocks = cast("Json", row.get("blkio_stats") or {})
    used, cached = _count(memory, "usage"), _count(caches, "total_inactive_file", "inactive_file")
    nanoseconds = _count(cpu, "total_usage")
    return Figures(
        cpu_s=nanoseconds / 1e9 if nanoseconds else None,  # 0 is what is said of one that has just ended
        memory_bytes=None if used is None else max(0, used - (cached or 0)),
        memory_peak_bytes=_count(memory, "max_usage"),
        read_bytes=_moved(blocks, "read"),
        write_bytes=_moved(blocks, "write"),
    )


def _count(row: Json, *names: str) -> int | None:
    """Return the first of these numbers that is there."""
    found = (row[name] for name in names if isinstance(row.get(name), int))
    return cast("int | None", next(found, None))


def _moved(blocks: Json, direction: str) -> int | None:
    """Return how many bytes were moved on all devices; None where the engine lists none."""
    rows = cast("list[Json] | None", blocks.get("io_service_bytes_recursive"))
    sizes = [_count(row, "value") or 0 for row in rows or () if str(row.get("op")).lower() == direction]
    return sum(sizes) if sizes else None


def read_log_storage(row: Json) -> LogStorage:
    """Read how the engine keeps the log of the container of which it tells this.

    Source: the defaults of the drivers in the engine's documentation: ``json-file`` keeps all, ``local`` five
    files of 20 MB. That ``local`` stores no newline after several records was seen on engine 20.10.24.

    Example:
        >>> read_log_storage(
        ...     {"HostConfig": {"LogConfig": {"Type": "json-file", "Config": {"max-size": "10m"}}}}
        ... )
        LogStorage(rotates=True, drops_newlines=False)
    """
    host = cast("Mapping[str, Json]", row["HostConfig"])
    log = host.get("LogConfig") or {}
    driver = str(log.get("Type"))
    config = cast("Mapping[str, str] | None", log.get("Config")) or {}
    size = config.get("max-size", "20m" if driver == _LOCAL else "-1").lower()
    return LogStorage(rotates=0 < _bytes(size) < _UNREACHED, drops_newlines=driver == _LOCAL)


def _bytes(size: str) -> float:
    number, unit = size.rstrip("bkmgt"), size.lstrip("-.0123456789")[:1]
    return float(number or 0) * _UNITS.get(unit, 1)
