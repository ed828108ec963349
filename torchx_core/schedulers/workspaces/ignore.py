"""Ignore files: what of a project stays out of the image."""

from __future__ import annotations

import os
from collections.abc import Sequence
from fnmatch import fnmatchcase

from torchx_core.schedulers.workspaces.reading import reading

__all__ = ["IGNORE_FILE", "patterns_below", "read_patterns"]

IGNORE_FILE = ".torchxignore"

_LEFT_OUT = frozenset({".git", "__pycache__"})  # they change although the program does not
_ALWAYS_IN = "Dockerfile.torchx"  # the recipe of the image, where a scheduler wants one


def read_patterns(path: str) -> list[str]:
    """Return the lines of an ignore file; none when there is no such file.

    Raises:
        InvalidAppError: It cannot be read.
    """
    if not os.path.isfile(path):
        return []
    with reading(path), open(path, encoding="utf-8", errors="surrogateescape") as file:
        lines = [line.partition("#")[0].strip() for line in file]
    return [pattern for line in lines if (pattern := _plain(line))]


def patterns_below(path: str, patterns: Sequence[str]) -> Sequence[str] | None:
    """Return the patterns that count for what lies below the path, or None when the path is left out.

    The last pattern that fits decides. What a ``!`` brought back is judged only by the patterns after it, so
    that ``*`` and ``!src`` together mean "nothing but src, and all of it", as in TorchX.

    Args:
        path: Relative to the project.
        patterns: Those that count for the path itself.
    """
    if path == _ALWAYS_IN:
        return patterns
    left_out, last = os.path.basename(path) in _LEFT_OUT, -1
    for i, pattern in enumerate(patterns):
        if _fits(path, pattern.removeprefix("!")):
            left_out, last = not pattern.startswith("!"), i
    return None if left_out else patterns[last + 1 :]


def _plain(line: str) -> str:
    """Return the pattern without what means nothing here: ``./a/`` is ``a``."""
    mark = "!" if line.startswith("!") else ""
    pattern = line.removeprefix("!").strip().removeprefix("./").strip("/")
    return "" if pattern in ("", ".") else mark + pattern


def _fits(path: str, pattern: str) -> bool:
    return fnmatchcase(path, pattern) or fnmatchcase(path, pattern.removeprefix("**/"))
