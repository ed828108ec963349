"""Says whose move it is when a file of a workspace cannot be read."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from torchx_core.errors import InvalidAppError

__all__ = ["reading"]


@contextmanager
def reading(path: str) -> Generator[None]:
    """Turn an error of the file system into one of the app; the path names what is read.

    Raises:
        InvalidAppError: It cannot be read.
    """
    try:
        yield
    except OSError as err:
        raise InvalidAppError("workspace", f"cannot read {path!r}: {err.strerror or err}") from err
