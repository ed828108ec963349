"""Forgets apps: their records, their logs, and what dead submits and deletes left half done."""

from __future__ import annotations

import os
import time
from contextlib import suppress

from torchx_core.errors import AppNotTerminalError, CorruptRecordError
from torchx_core.schedulers.local import view
from torchx_core.schedulers.local.life import is_served, locked, settle
from torchx_core.schedulers.local.record import AppRecord, read_record
from torchx_core.schedulers.local.trees import remove_tree
from torchx_core.supervisor import machine

__all__ = ["delete_app", "remove_debris", "size_bytes"]

_LOCK = ".lock"
_HIDDEN = (".new-", ".undone-", ".deleted-")
_DEBRIS_AGE_S = 3600


def delete_app(app_dir: str, app_handle: str) -> None:
    """Delete a terminal app, also one whose record is corrupt; no such app is no error.

    Record and logs are moved aside before anything is removed: the id is free at once, and what a new app
    of that id writes is never touched. One delete at a time looks and moves, so that none moves what another
    has freed and a submit has taken.

    Raises:
        AppNotTerminalError: The app is not terminal.
    """
    with suppress(FileNotFoundError):
        with locked(os.path.join(os.path.dirname(app_dir), _LOCK)):
            aside = [_move_aside(path) for path in _doomed(app_dir, app_handle)]
        for path in aside:
            remove_tree(path)


def _doomed(app_dir: str, app_handle: str) -> list[str]:
    """Return what to delete, logs first."""
    try:
        record = read_record(app_dir)
    except CorruptRecordError:
        if is_served(AppRecord(app_dir, {})):
            raise
        return [app_dir]
    if record is None:
        return []
    state = settle(record)
    if state.phase != machine.ENDED:
        raise AppNotTerminalError(app_handle, str(view.app_state(state)), "delete")
    return [*_logs_elsewhere(record), app_dir]


def _logs_elsewhere(record: AppRecord) -> list[str]:
    """Return the directory of the app's logs, if it lies outside of the record (``log_dir``) and exists."""
    logs = {os.path.dirname(os.path.dirname(replica.log_dir)) for replica in record.plan.replicas}
    inside = record.directory + os.sep
    return [path for path in logs if not path.startswith(inside) and os.path.isdir(path)]


def _move_aside(path: str) -> str:
    aside = os.path.join(os.path.dirname(path), f".deleted-{os.urandom(6).hex()}")
    os.rename(path, aside)
    return aside


def size_bytes(app_dir: str) -> int:
    """Return how much disk space an app's record and logs take."""
    record = read_record(app_dir)
    return 0 if record is None else sum(map(_tree_size, [app_dir, *_logs_elsewhere(record)]))


def _tree_size(directory: str) -> int:
    size = 0
    for folder, _, names in os.walk(directory):
        for name in names:
            with suppress(OSError):
                size += os.lstat(os.path.join(folder, name)).st_size
    return size


def remove_debris(session_dir: str) -> None:
    """Remove hidden directories of submits and deletes that died half way, an hour after they did."""
    with suppress(FileNotFoundError):
        for entry in os.scandir(session_dir):
            if entry.name.startswith(_HIDDEN) and time.time() - entry.stat().st_mtime > _DEBRIS_AGE_S:
                remove_tree(entry.path)
