"""Forgets apps: their records and their logs."""

from __future__ import annotations

import os
from contextlib import suppress

from torchx_core.errors import AppNotTerminalError, CorruptRecordError
from torchx_core.schedulers.local import view
from torchx_core.schedulers.local.life import is_served, locked, settle
from torchx_core.schedulers.local.record import AppRecord, read_record
from torchx_core.schedulers.removing import move_aside, remove_tree, tree_size
from torchx_core.supervisor import machine

__all__ = ["delete_app", "size_bytes"]

_LOCK = ".lock"


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
            aside = [move_aside(path) for path in _doomed(app_dir, app_handle)]
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


def size_bytes(app_dir: str) -> int:
    """Return how much disk space an app's record and logs take."""
    record = read_record(app_dir)
    return 0 if record is None else sum(map(tree_size, [app_dir, *_logs_elsewhere(record)]))
