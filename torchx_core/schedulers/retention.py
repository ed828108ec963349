"""Which ended apps are forgotten by themselves, when somebody submits the next one."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from contextlib import suppress
from math import inf
from typing import Final, NamedTuple, cast

from torchx_core.schedulers.ended import DirectoryVersion, directory_version
from torchx_core.schedulers.option_values import Retention
from torchx_core.schedulers.removing import tree_size
from torchx_core.supervisor.reading import DamagedFile
from torchx_core.supervisor.records import FINAL, read_json, replace_whole
from torchx_core.supervisor.shape import is_whole

__all__ = ["MOST", "Kept", "doomed", "overdue"]

SPARED_S: Final = 7 * 86400.0
"""An app that changed so lately is not deleted for its size: an engine may still read its end and its log."""
FILE: Final = ".retention.json"
_VERSION: Final = 1
INTERVAL_S: Final = 3600.0
"""How often a session is looked through."""
_SOON_S: Final = 60.0
"""When the rest follows of a session that takes long."""
_BUDGET_S: Final = 0.2
"""How long one submit may take to measure apps."""
MOST: Final = 200
"""How many apps one submit deletes at most."""


class _Size(NamedTuple):
    inode: int
    changed_ns: int
    size_bytes: int


class Kept(NamedTuple):
    """An app's directory."""

    name: str
    has_ended: bool
    changed_at: float
    """Seconds since the epoch: for one that has ended, when that was, or somebody took it over later."""
    size_bytes: int


def doomed(apps: Iterable[Kept], keep: Retention, now: float) -> list[str]:
    """Return the names of the apps to delete, oldest first; none that runs."""
    apps = sorted(apps, key=lambda app: app.changed_at)
    total = sum(app.size_bytes for app in apps)
    names: list[str] = []
    for app in apps:
        age_s = now - app.changed_at
        is_too_much = total > keep.max_bytes and age_s > SPARED_S
        if app.has_ended and (age_s > keep.max_age_s or is_too_much):
            names.append(app.name)
            total -= app.size_bytes
    return names


def overdue(session_dir: str, keep: Retention) -> list[str]:
    """Return the names of the apps to delete now; none if somebody has looked within the last hour.

    The size of an app that has ended is measured once.
    """
    path, now = os.path.join(session_dir, FILE), time.time()
    with suppress(OSError):
        if 0 <= now - os.stat(path).st_mtime < INTERVAL_S:
            return []
    apps, is_all = _scan(session_dir, _read(path), measure=keep.max_bytes < inf)
    with suppress(OSError, DamagedFile):
        sizes = {
            app.name: _Size(*version, app.size_bytes)
            for app, version in apps
            if app.has_ended and app.size_bytes
        }
        replace_whole(session_dir, FILE, {"version": _VERSION, "sizes": sizes})
        if not is_all:
            soon = now - INTERVAL_S + _SOON_S
            os.utime(path, (soon, soon))
    return doomed((app for app, _ in apps), keep, now)


def _scan(
    session_dir: str, known: dict[str, _Size], *, measure: bool
) -> tuple[list[tuple[Kept, DirectoryVersion]], bool]:
    """Return the session's apps, and whether time was enough to look at each of them."""
    apps: list[tuple[Kept, DirectoryVersion]] = []
    until, is_all = time.monotonic() + _BUDGET_S, True
    for name in os.listdir(session_dir):
        directory = os.path.join(session_dir, name)
        version = None if name.startswith(".") else directory_version(directory)
        if version is None:
            continue
        has_ended = os.path.lexists(os.path.join(directory, FINAL))
        row = known.get(name)
        if not measure:
            size = 0
        elif row is not None and row[:2] == version:
            size = row.size_bytes
        elif time.monotonic() < until:
            size = tree_size(directory)
        else:
            is_all = False
            continue
        apps.append((Kept(name, has_ended, version.changed_ns / 1e9, size), version))
    return apps, is_all


def _read(path: str) -> dict[str, _Size]:
    """Return the sizes that were measured; none where the file is damaged, or of another version."""
    try:
        content = read_json(path) or {}
    except OSError:
        content = {}
    rows = content.get("sizes")
    if content.get("version") != _VERSION or not isinstance(rows, dict):
        return {}
    sizes = cast("dict[str, object]", rows)
    return {name: _Size(*cast("list[int]", row)) for name, row in sizes.items() if _is_size(row)}


def _is_size(row: object) -> bool:
    cells = cast("list[object]", row) if isinstance(row, list) else []
    return len(cells) == len(_Size._fields) and all(map(is_whole, cells))
