"""A scheduler that another distribution brings, as entry points name it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import invalidate_caches
from pathlib import Path

__all__ = ["plugged_in"]


@contextmanager
def plugged_in(folder: Path, name: str, factory: str) -> Iterator[None]:
    """Install the scheduler of that name for a while, for this process.

    Args:
        folder: Where the distribution lies.
        name: The scheduler's.
        factory: Its entry point: ``module:function``.
    """
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[torchx_core.schedulers]\n{name} = {factory}\n")
    sys.path.insert(0, str(folder))
    invalidate_caches()
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        invalidate_caches()
