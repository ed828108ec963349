"""Files that appear whole or not at all."""

from __future__ import annotations

import errno
import json
import os
import time
from typing import Any

ROOM_LOOK_S = 1.0
"""How often a full disk is looked at again."""


def read_json(path: str) -> dict[str, Any] | None:
    """Return the JSON object in the file, or None."""
    try:
        with open(path, "rb") as file:
            value: dict[str, Any] | None = json.loads(file.read().decode("ascii"))
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def write_once(path: str, value: dict[str, Any]) -> bool:
    """Create the file whole, unless it exists; return whether it is ours."""
    temporary = f"{path}.{os.urandom(6).hex()}"
    with open(temporary, "wb") as file:
        file.write(json.dumps(value).encode("ascii"))
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    finally:
        os.unlink(temporary)
    return True


def this_run() -> int:
    """Return how often Slurm has started this job before."""
    return int(os.environ.get("SLURM_RESTART_COUNT") or 0)


def write_all(fd: int, data: bytes) -> None:
    """Write all of it; on a full disk wait for room rather than lose a line."""
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(fd, view) :]
        except OSError as err:
            if err.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            time.sleep(ROOM_LOOK_S)  # noqa: TID251  (nothing tells of room on a disk)
