"""How the engine keeps a container's log, as far as a reader must know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, cast

__all__ = ["LogStorage", "read_log_storage"]

_LOCAL = "local"
_UNITS = {"k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
_UNREACHED = 1e11
"""A ``max-size`` of that many bytes bounds no log: the driver ``local`` knows no other word for that."""


class LogStorage(NamedTuple):
    """What becomes of the lines."""

    rotates: bool
    """The engine drops old ones."""
    drops_newlines: bool
    """A line of several records has no newline at its end.

    So nobody can tell whether the very last line had one, if it is that long; it is taken as whole.
    """


def read_log_storage(container: object) -> LogStorage:
    """Read it from what the engine tells of a container.

    Source: the defaults of the drivers in the engine's documentation: ``json-file`` keeps all, ``local`` five
    files of 20 MB. That ``local`` stores no newline after several records was seen on engine 20.10.24.

    Example:
        >>> read_log_storage(
        ...     {"HostConfig": {"LogConfig": {"Type": "json-file", "Config": {"max-size": "10m"}}}}
        ... )
        LogStorage(rotates=True, drops_newlines=False)
    """
    host = cast("Mapping[str, Mapping[str, object]]", cast("Mapping[str, object]", container)["HostConfig"])
    log = host.get("LogConfig") or {}
    driver = str(log.get("Type"))
    config = cast("Mapping[str, str] | None", log.get("Config")) or {}
    size = config.get("max-size", "20m" if driver == _LOCAL else "-1").lower()
    return LogStorage(rotates=0 < _bytes(size) < _UNREACHED, drops_newlines=driver == _LOCAL)


def _bytes(size: str) -> float:
    number, unit = size.rstrip("bkmgt"), size.lstrip("-.0123456789")[:1]
    return float(number or 0) * _UNITS.get(unit, 1)
