"""Forgets apps: their records and their logs."""

from __future__ import annotations

import os
from contextlib import suppress

from torchx_core.errors import AppNotTerminalError
from torchx_core.schedulers.removing import move_aside, remove_tree, tree_size
from torchx_core.schedulers.slurm.queue import JobQueue
from torchx_core.schedulers.slurm.record import AppRecord
from torchx_core.schedulers.slurm.settle import settle

__all__ = ["delete_app", "size_bytes"]


def delete_app(record: AppRecord, app_handle: str, queue: JobQueue) -> None:
    """Delete a terminal app; its record is moved aside first, so that its id is free at once.

    Raises:
        AppNotTerminalError: The app is not terminal.
    """
    standing = settle(record, queue)
    if standing.ended_at is None:
        raise AppNotTerminalError(app_handle, str(standing.state), "delete")
    for path in [*_logs_elsewhere(record), record.directory]:
        with suppress(FileNotFoundError):
            remove_tree(move_aside(path))


def size_bytes(record: AppRecord) -> int:
    """Return how much disk space an app's record and logs take."""
    return sum(map(tree_size, [record.directory, *_logs_elsewhere(record)]))


def _logs_elsewhere(record: AppRecord) -> list[str]:
    """Return the directory of the app's logs, if it lies outside of the record (``log_dir``) and exists."""
    logs = {os.path.dirname(os.path.dirname(planned.log_dir)) for planned in record.replicas}
    inside = record.directory + os.sep
    return [path for path in logs if not path.startswith(inside) and os.path.isdir(path)]
