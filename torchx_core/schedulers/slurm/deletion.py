"""Forgets apps: their records, their logs, and what dead submits and deletes left half done."""

from __future__ import annotations

import os
import shutil
import time
from contextlib import suppress

from torchx_core.errors import AppNotTerminalError
from torchx_core.schedulers.slurm.queue import JobQueue
from torchx_core.schedulers.slurm.record import AppRecord
from torchx_core.schedulers.slurm.settle import settle

__all__ = ["delete_app", "remove_debris", "size_bytes"]

_HIDDEN = (".new-", ".undone-", ".deleted-")
_DEBRIS_AGE_S = 3600


def delete_app(record: AppRecord, app_handle: str, queue: JobQueue) -> None:
    """Delete a terminal app; its record is moved aside first, so that its id is free at once.

    Raises:
        AppNotTerminalError: The app is not terminal.
    """
    standing = settle(record, queue)
    if standing.ended_at is None:
        raise AppNotTerminalError(app_handle, str(standing.state), "delete")
    for path in [*_logs_elsewhere(record), record.directory]:
        aside = os.path.join(os.path.dirname(path), f".deleted-{os.urandom(6).hex()}")
        with suppress(FileNotFoundError):
            os.rename(path, aside)
            shutil.rmtree(aside, ignore_errors=True)


def size_bytes(record: AppRecord) -> int:
    """Return how much disk space an app's record and logs take."""
    return sum(map(_tree_size, [record.directory, *_logs_elsewhere(record)]))


def remove_debris(session_dir: str) -> None:
    """Remove hidden directories of submits and deletes that died half way, an hour after they did."""
    with suppress(FileNotFoundError):
        for entry in os.scandir(session_dir):
            if entry.name.startswith(_HIDDEN) and time.time() - entry.stat().st_mtime > _DEBRIS_AGE_S:
                shutil.rmtree(entry.path, ignore_errors=True)


def _logs_elsewhere(record: AppRecord) -> list[str]:
    """Return the directory of the app's logs, if it lies outside of the record (``log_dir``) and exists."""
    logs = {os.path.dirname(os.path.dirname(planned.log_dir)) for planned in record.replicas}
    inside = record.directory + os.sep
    return [path for path in logs if not path.startswith(inside) and os.path.isdir(path)]


def _tree_size(directory: str) -> int:
    size = 0
    for folder, _, names in os.walk(directory):
        for name in names:
            with suppress(OSError):
                size += os.lstat(os.path.join(folder, name)).st_size
    return size
