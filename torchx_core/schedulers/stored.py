"""Reads records that have a version."""

from __future__ import annotations

import os

from torchx_core.errors import CorruptRecordError, NewerRecordError
from torchx_core.supervisor.records import Json, read_json

__all__ = ["read_versioned"]


def read_versioned(path: str, version: int) -> Json | None:
    """Return the record, or None when there is none.

    Args:
        path: Its file, which appears whole and may be deleted at any time.
        version: The newest that this library can read.

    Raises:
        CorruptRecordError: The file is there, and cannot be read.
        NewerRecordError: A newer version of this library wrote it.
    """
    content = read_json(path)
    if content is None:
        if not os.path.exists(path):
            return None  # never submitted, or being deleted
        content = read_json(path)  # it appeared, whole, between the two looks
    if content is None:
        raise CorruptRecordError(path, "not a JSON object")
    found = content.get("version")
    if not isinstance(found, int):
        raise CorruptRecordError(path, "has no version")
    if found > version:
        raise NewerRecordError(path, found, version)
    return content
